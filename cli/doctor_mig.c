/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor: how MIG divides the GPUs of this machine, and who has the parts. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/doctor_node.h"
#include "mig/nvml.h"
#include "mig/place.h"
#include "plugin/kubelet/checkpoint.h"

#define CHECKPOINT "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
#define PODS	   "/var/lib/kubelet/pods"

/* ---- as the driver says ---------------------------------------------------------------------- */

struct counted {
	uint32_t on, parts, idle; /* GPUs in MIG mode, parts of them, parts without a process */
};

/* Who is not root is not told of parts. */
static void judge_mode(const struct mig_gpu *gpu, struct finding *finding)
{
	if (gpu->later != gpu->on) {
		finding_set(finding, FINDING_WRONG,
			    "GPU %u is %s MIG mode until it is reset: its mode was changed while "
			    "somebody had it open",
			    gpu->index, gpu->on ? "in" : "not in");
		finding_advise(finding,
			       "end what uses it, then as root: nvidia-smi --gpu-reset -i %u; or "
			       "restart the machine",
			       gpu->index);
	} else if (finding->verdict == FINDING_NONE && gpu->on && !gpu->parts && geteuid() == 0) {
		finding_set(finding, FINDING_NOTE,
			    "GPU %u is in MIG mode and has no parts: no program can use it, unless "
			    "meted makes parts on demand (dynamic)",
			    gpu->index);
		finding_advise(finding,
			       "divide it (mete mig apply), or as root: nvidia-smi -i %u -mig 0",
			       gpu->index);
	}
}

static void judge_part(const struct mig_gpu *gpu, const struct mig_part *part,
		       struct finding *finding)
{
	if (part->computes)
		return;
	finding_set(finding, FINDING_WRONG,
		    "GPU %u: its part %s at %u has no compute instance: no program can use it",
		    gpu->index, gpu->profile[part->profile].name, part->place.start);
	finding_advise(finding, "as root: nvidia-smi mig -i %u -gi %u -cci", gpu->index, part->id);
}

static void look_at(const struct mig_nvml *nvml, const struct mig_gpu *gpu, struct counted *counted,
		    struct finding *finding)
{
	unsigned pid;

	counted->on += gpu->on;
	if (finding->verdict != FINDING_WRONG)
		judge_mode(gpu, finding);
	for (uint32_t i = 0; i < gpu->parts; i++) {
		if (finding->verdict != FINDING_WRONG)
			judge_part(gpu, &gpu->part[i], finding);
		counted->parts++;
		counted->idle += mig_user(nvml, gpu, &gpu->part[i], &pid) == 0 && !pid;
	}
}

/* ---- as the kubelet says --------------------------------------------------------------------- */

struct dead {
	const char *pods; /* the folder in which each pod has one */
	char uid[80], id[80];
};

static void on_given(void *owner, const char *uid, const char *id)
{
	struct dead *dead = owner;
	char path[PATH_MAX];
	struct stat there;

	if (*dead->uid || (strncmp(id, "MIG-", 4) != 0 && !mig_place_is_name(id)))
		return;
	snprintf(path, sizeof(path), "%.3000s/%.200s", dead->pods, uid);
	if (stat(path, &there) == 0 || errno != ENOENT)
		return;
	snprintf(dead->uid, sizeof(dead->uid), "%s", uid);
	snprintf(dead->id, sizeof(dead->id), "%s", id);
}

static void find_dead(struct finding *finding)
{
	char path[PATH_MAX], pods[PATH_MAX];
	struct dead dead = {.pods = node_kubelet_path(PODS, pods)};
	owned(free) char *text = NULL;
	size_t size;

	if (access(pods, R_OK | X_OK) != 0 ||
	    file_slurp(node_kubelet_path(CHECKPOINT, path), CHECKPOINT_BYTES_MAX, &text, &size) <
		    0 ||
	    checkpoint_given(text, size, NULL, on_given, &dead) < 0 || !*dead.uid)
		return;
	finding_set(finding, FINDING_NOTE,
		    "the kubelet's record has part %s for the pod %s, which has gone", dead.id,
		    dead.uid);
	finding_advise(finding,
		       "the kubelet forgets it when it gives a device to the next container. With "
		       "an API server meted does not wait for that: is $NODE_NAME set, and what "
		       "does its log say?");
}

/* -------------------------------------------------------------------------------------------- */

void check_mig(struct patient *patient, struct finding *finding)
{
	owned(mig_close) struct mig_nvml *nvml = NULL;
	struct counted counted = {0};
	struct mig_gpu gpu;
	struct fault why;

	finding->verdict = FINDING_NONE; /* other checks say why */
	if (!patient->has_driver || mig_open(getenv("METE_DRIVER"), &nvml, &why) < 0)
		return;
	for (uint32_t i = 0; i < mig_count(nvml); i++)
		if (mig_read(nvml, i, &gpu, &why) == 0)
			look_at(nvml, &gpu, &counted, finding);
	if (finding->verdict == FINDING_NONE && counted.on)
		find_dead(finding);
	if (finding->verdict == FINDING_NONE && counted.on)
		finding_set(finding, FINDING_FINE,
			    "%u parts on %u GPUs in MIG mode; %u of them have no process",
			    counted.parts, counted.on, counted.idle);
}
