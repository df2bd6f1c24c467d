/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete doctor: NVIDIA's MPS, which somebody runs, or meted (plugin/mps/), and the compute mode that
 * goes with it.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/place.h"
#include "base/socket.h"
#include "cli/doctor_node.h"
#include "cli/gpus.h"
#include "cuda/nvml_prototypes.h"

enum { RECORD_MOST = 2048 };

/* ---- meted's control daemons ----------------------------------------------------------------- */

struct daemons {
	uint32_t running;
	char silent[NAME_MAX + 1]; /* one that does not answer: its GPU's UUID, or a container's
				      slot; "": none */
	char root[400];
	struct fault unseen; /* what this user may not look at; "": nothing */
};

/* True: it is this user whom something is closed to. Others may see more. */
static bool is_closed(int r, const char *path, struct fault *ret_unseen)
{
	if (r != -EACCES && r != -EPERM)
		return false;
	fault_set(ret_unseen, 0, "%.200s: %s", path, strerror(-r));
	return true;
}

/* The record's first line is the root of its folder. "apart" as its second: the GPU has none. */
static bool read_root(const char *folder, const char *name, struct daemons *daemons, char *ret_root,
		      size_t size)
{
	char path[PATH_MAX];
	owned(free) char *text = NULL;
	size_t length;
	int r;

	snprintf(path, sizeof(path), "%.3000s/%s", folder, name);
	r = file_slurp(path, RECORD_MOST, &text, &length);
	if (r < 0) {
		is_closed(r, path, &daemons->unseen);
		return false;
	}
	length = strcspn(text, "\n");
	if (text[length] && strncmp(text + length + 1, "apart\n", 6) == 0)
		return false;
	text[length] = '\0';
	snprintf(ret_root, size, "%s", text);
	return *text == '/';
}

/* A socket of another kind than ours is somebody's, too. */
static void ask(const char *root, const char *name, struct daemons *daemons)
{
	char control[PATH_MAX], path[PATH_MAX];
	int r;

	snprintf(control, sizeof(control), "%.400s/%s/pipe/control", root, name);
	r = socket_answers(control);
	if (r == -ENOENT)
		r = socket_answers(node_path(control, path));
	if (is_closed(r, control, &daemons->unseen))
		return;
	if (r != -ECONNREFUSED && r != -ENOENT) {
		daemons->running++;
		return;
	}
	snprintf(daemons->silent, sizeof(daemons->silent), "%s", name);
	snprintf(daemons->root, sizeof(daemons->root), "%s", root);
}

/* `what`: the folder of records in meted's, which has one for each daemon. */
static void find_daemons(const char *what, struct daemons *ret_daemons)
{
	char records[PATH_MAX], path[PATH_MAX], root[sizeof(ret_daemons->root)];
	const struct dirent *entry;
	DIR *folder;

	snprintf(records, sizeof(records), PLACE_SYSTEM "/%s", what);
	*ret_daemons = (struct daemons){0};
	folder = opendir(node_kubelet_path(records, path));
	if (!folder) {
		is_closed(-errno, path, &ret_daemons->unseen);
		return;
	}
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.' &&
		    read_root(path, entry->d_name, ret_daemons, root, sizeof(root)))
			ask(root, entry->d_name, ret_daemons);
	closedir(folder);
}

static void say_unseen(const struct fault *unseen, struct finding *finding)
{
	finding_set(finding, FINDING_NOTE, "%s: whether a control daemon of MPS runs is not seen",
		    unseen->text);
	finding_advise(finding, "run this as root to see it");
}

static void say_silent(const struct daemons *of_gpus, const struct daemons *of_containers,
		       struct finding *finding)
{
	if (*of_gpus->silent) {
		finding_set(finding, FINDING_WRONG,
			    "meted's control daemon of %s does not answer (%s/%s): programs find "
			    "the GPU taken",
			    of_gpus->silent, of_gpus->root, of_gpus->silent);
		finding_advise(finding,
			       "meted starts it again, and mps.failed in its log says why it "
			       "cannot. Where no meted runs, as root: nvidia-smi -i %s -c DEFAULT",
			       of_gpus->silent);
		return;
	}
	finding_set(finding, FINDING_NOTE,
		    "meted's control daemon of the container %s does not answer (%s/%s)",
		    of_containers->silent, of_containers->root, of_containers->silent);
	finding_advise(finding, "meted starts it again, or ends it with its container: see "
				"mps.failed in its log");
}

/* False: meted has none. */
static bool judge_meteds(struct finding *finding)
{
	struct daemons of_gpus, of_containers;

	find_daemons("mps", &of_gpus);
	find_daemons("mps-containers", &of_containers);
	if (*of_gpus.silent || *of_containers.silent)
		say_silent(&of_gpus, &of_containers, finding);
	else if (*of_gpus.unseen.text || *of_containers.unseen.text)
		say_unseen(*of_gpus.unseen.text ? &of_gpus.unseen : &of_containers.unseen, finding);
	else if (of_gpus.running || of_containers.running)
		finding_set(finding, FINDING_FINE,
			    "meted's control daemons of %u GPUs and %u containers answer",
			    of_gpus.running, of_containers.running);
	else
		return false;
	return true;
}

/* ---- somebody's ------------------------------------------------------------------------------ */

static bool is_there(const char *path, struct fault *ret_unseen)
{
	char at[PATH_MAX];
	struct stat there;
	int r = stat(path, &there) == 0 ? 0 : -errno;

	if (r == -ENOENT)
		r = stat(node_path(path, at), &there) == 0 ? 0 : -errno;
	is_closed(r, path, ret_unseen);
	return r == 0;
}

void check_mps(struct patient *patient, struct finding *finding)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	struct fault unseen = {.text = ""};
	char path[PATH_MAX];

	(void)patient;
	if (judge_meteds(finding))
		return;
	if (!folder || !*folder)
		folder = "/tmp/nvidia-mps";
	snprintf(path, sizeof(path), "%.4000s/control", folder);
	if (!is_there(path, &unseen)) {
		if (*unseen.text)
			say_unseen(&unseen, finding);
		else
			finding_set(finding, FINDING_FINE, "no control daemon of it has run");
		return;
	}
	finding_set(finding, FINDING_NOTE, "%s is there: NVIDIA's MPS runs, or has run", path);
	finding_advise(
		finding,
		"its server holds memory that mete lists as outside, and a fault in one program "
		"ends all of its clients. End it: echo quit | nvidia-cuda-mps-control");
}

/* ---- how the board is set -------------------------------------------------------------------- */

/* meted notes each GPU whose mode it has set (plugin/mps/record.c). -EACCES: another user may not
 * look. */
static int is_metes_mps(const char *uuid)
{
	char record[PATH_MAX], path[PATH_MAX];

	snprintf(record, sizeof(record), PLACE_SYSTEM "/mps/%.100s", uuid);
	if (!*uuid)
		return false;
	if (access(node_kubelet_path(record, path), F_OK) == 0)
		return true;
	return errno == EACCES ? -EACCES : false;
}

/* "": the driver does not say. */
static const char *uuid_of(const struct pick_gpu *list, size_t size, unsigned index)
{
	for (size_t i = 0; i < size; i++)
		if (list[i].index == index)
			return list[i].uuid;
	return "";
}

static void say_metes(int metes, unsigned gpu, struct finding *finding)
{
	if (metes < 0) {
		finding_set(finding, FINDING_NOTE,
			    "GPU %u is set to let only one process use it, perhaps by meted for "
			    "MPS: its records are root's",
			    gpu);
		finding_advise(finding, "run this as root to see what meted has set");
	} else if (finding->verdict != FINDING_NOTE) {
		finding_set(finding, FINDING_FINE,
			    "one process may use a GPU: the server of the MPS that meted runs");
	}
}

void check_mode(struct patient *patient, struct finding *finding)
{
	owned(gpus_close) struct gpus *gpus = NULL;
	struct pick_gpu list[PICK_GPUS];
	size_t size = 0, count;
	struct fault why;
	int mode, metes;

	finding->verdict = FINDING_NONE; /* other checks say why */
	if (!patient->has_driver || gpus_open(&gpus, &why) < 0)
		return;
	if (gpus_look(gpus, list, &size, &count, &why) < 0)
		size = 0;
	finding_set(finding, FINDING_FINE, "several processes may use a GPU at a time");
	for (unsigned i = 0; (mode = gpus_mode(gpus, i)) != -ENODEV; i++) {
		if (mode == GPUS_UNSAID || mode == NVML_COMPUTEMODE_DEFAULT)
			continue;
		metes = mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
				? is_metes_mps(uuid_of(list, size, i))
				: false;
		if (metes) {
			say_metes(metes, i, finding);
			continue;
		}
		finding_set(finding, FINDING_WRONG, "GPU %u is set to let %s process use it", i,
			    mode == NVML_COMPUTEMODE_PROHIBITED ? "no" : "only one");
		finding_advise(finding, "as root: nvidia-smi -i %u -c DEFAULT", i);
		return;
	}
}
