/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor: the problems that users of any GPU sharing report most often. docs/doctor.md has the
 * threads. */
#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "base/place.h"
#include "cli/doctor.h"
#include "cli/doctor_node.h"
#include "cli/gpus.h"
#include "cuda/nvml_prototypes.h"

enum { PRELOAD_MOST = 64 << 10 };

/* ---- what a program sees --------------------------------------------------------------------- */

/* CUDA sees only the devices that the list names before the first that does not exist. */
void check_visible(struct patient *patient, struct finding *finding)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	(void)patient;
	if (!visible) {
		finding_set(finding, FINDING_FINE, "CUDA_VISIBLE_DEVICES is not set");
		return;
	}
	if (isalnum((unsigned char)*visible)) {
		finding_set(finding, FINDING_FINE, "CUDA_VISIBLE_DEVICES is %.200s", visible);
		return;
	}
	finding_set(finding, FINDING_WRONG, "CUDA_VISIBLE_DEVICES is '%.200s': programs see no GPU",
		    visible);
	finding_advise(finding, "unset CUDA_VISIBLE_DEVICES, or name GPUs by index or UUID");
}

/* ---- who else shares ------------------------------------------------------------------------- */

static const struct {
	const char *file, *whose;
} sharers[] = {
	{"libvgpu.so", "HAMi's"},	  {"libnvshare.so", "nvshare's"},
	{"libvcuda.so", "gpu-manager's"}, {"libcuda-control.so", "gpu-manager's"},
	{"libgemhook.so", "KubeShare's"},
};

static bool find_sharer(const char *text, const char *where, struct finding *finding)
{
	for (size_t i = 0; text && i < ARRAY_SIZE(sharers); i++) {
		if (!strstr(text, sharers[i].file))
			continue;
		finding_set(finding, FINDING_WRONG, "%s library %s is loaded by %s",
			    sharers[i].whose, sharers[i].file, where);
		finding_advise(finding, "two libraries in the driver's place refuse each other's "
					"memory: take it out, or do not use mete here");
		return true;
	}
	return false;
}

void check_sharers(struct patient *patient, struct finding *finding)
{
	owned(free) char *preload = NULL;
	char path[PATH_MAX];
	size_t size;

	if (file_slurp(node_path("/etc/ld.so.preload", path), PRELOAD_MOST, &preload, &size) < 0)
		preload = NULL;
	if (find_sharer(getenv("LD_PRELOAD"), "LD_PRELOAD", finding) ||
	    find_sharer(preload, path, finding) ||
	    (patient->has_driver &&
	     find_sharer(patient->driver.cuda, "the name libcuda.so.1", finding)))
		return;
	finding_set(finding, FINDING_FINE, "no other library shares GPUs here");
}

void check_mps(struct patient *patient, struct finding *finding)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char path[PATH_MAX], at[PATH_MAX];
	struct stat there;

	(void)patient;
	if (!folder || !*folder)
		folder = "/tmp/nvidia-mps";
	snprintf(path, sizeof(path), "%.4000s/control", folder);
	if (stat(path, &there) != 0 && stat(node_path(path, at), &there) != 0) {
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

/* meted notes each GPU whose mode it has set (plugin/mps/commands.c). */
static bool is_metes_mps(void)
{
	DIR *folder = opendir(PLACE_SYSTEM "/mps");
	const struct dirent *entry;
	bool any = false;

	while (folder && (entry = readdir(folder)))
		any |= entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return any;
}

void check_mode(struct patient *patient, struct finding *finding)
{
	owned(gpus_close) struct gpus *gpus = NULL;
	struct fault why;
	int mode;

	finding->verdict = FINDING_NONE; /* other checks say why */
	if (!patient->has_driver || gpus_open(&gpus, &why) < 0)
		return;
	finding_set(finding, FINDING_FINE, "several processes may use a GPU at a time");
	for (unsigned i = 0; (mode = gpus_mode(gpus, i)) != -ENODEV; i++) {
		if (mode == GPUS_UNSAID || mode == NVML_COMPUTEMODE_DEFAULT)
			continue;
		if (mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS && is_metes_mps()) {
			finding_set(
				finding, FINDING_FINE,
				"one process may use a GPU: the server of the MPS that meted runs");
			continue;
		}
		finding_set(finding, FINDING_WRONG, "GPU %u is set to let %s process use it", i,
			    mode == NVML_COMPUTEMODE_PROHIBITED ? "no" : "only one");
		finding_advise(finding, "as root: nvidia-smi -i %u -c DEFAULT", i);
		return;
	}
}

/* ---- on a node ------------------------------------------------------------------------------- */

/* systemd finds devices by /dev/char/MAJOR:MINOR. Where a link is missing, a reload of systemd
 * takes the device from all containers: "Failed to initialize NVML: Unknown Error". */
static bool lacks_link(const char *dev, const char *name, struct finding *finding)
{
	char path[PATH_MAX], link[PATH_MAX];
	struct stat file, there;

	snprintf(path, sizeof(path), "%.3000s/%s", dev, name);
	if (stat(path, &file) != 0 || !S_ISCHR(file.st_mode))
		return false;
	snprintf(link, sizeof(link), "%.3000s/char/%u:%u", dev, major(file.st_rdev),
		 minor(file.st_rdev));
	if (lstat(link, &there) == 0)
		return false;
	finding_set(finding, FINDING_WRONG,
		    "%s has no link in /dev/char: `systemctl daemon-reload` takes it from running "
		    "containers (NVML: Unknown Error)",
		    name);
	finding_advise(finding, "on the node, and at each of its starts: nvidia-ctk system "
				"create-dev-char-symlinks "
				"--create-all");
	return true;
}

void check_links(struct patient *patient, struct finding *finding)
{
	char dev[PATH_MAX];
	struct dirent *entry;
	DIR *folder;
	bool lacks = false;

	(void)patient;
	if (!node_may_read(finding))
		return;
	folder = opendir(node_path("/dev", dev));
	while (folder && !lacks && (entry = readdir(folder)))
		lacks = strncmp(entry->d_name, "nvidia", 6) == 0 &&
			lacks_link(dev, entry->d_name, finding);
	if (folder)
		closedir(folder);
	if (!lacks)
		finding_set(finding, FINDING_FINE, "a reload of systemd takes no GPU away");
}

void check_selinux(struct patient *patient, struct finding *finding)
{
	owned(free) char *text = NULL;
	char path[PATH_MAX];
	size_t size;

	(void)patient;
	if (!node_may_read(finding))
		return;
	if (file_slurp(node_path("/sys/fs/selinux/enforce", path), 64, &text, &size) < 0 ||
	    text[0] != '1') {
		finding_set(finding, FINDING_FINE, "it restricts nobody here");
		return;
	}
	finding_set(finding, FINDING_NOTE, "SELinux is enforced on this node");
	finding_advise(finding,
		       "containers may be refused mete's libraries and the GPUs' device files: "
		       "chcon -R -t "
		       "container_file_t /var/lib/mete, and setsebool -P container_use_devices on");
}
