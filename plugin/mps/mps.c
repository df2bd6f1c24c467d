/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/mps/mps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/mps/inside.h"

enum {
	MIB_SHIFT = 20,
	VOLTA = 7, /* the first compute capability whose clients have address spaces of their own */
	CLIENTS = 48,
	CLIENTS_NEW = 60, /* of a GPU, since CUDA 13.1 */
	CUDA_NEW = 13010,
};

/* ---- opening and closing ------------------------------------------------------------------- */

int mps_open(struct plugin *p, struct mps_hub **ret_hub, struct fault *why)
{
	struct mps_hub *hub = calloc(1, sizeof(*hub));

	if (!hub)
		return fault_set(why, -ENOMEM, "out of memory");
	hub->plugin = p;
	list_init(&hub->containers);
	*ret_hub = hub;
	for (uint32_t i = 0; i < p->host->devices; i++)
		if (mps_gpu_open(hub, i) < 0)
			return fault_set(why, -ENOMEM, "out of memory");
	return mps_containers_open(hub, why);
}

int mps_device(struct mps_hub *hub, uint32_t device)
{
	return mps_gpu_open(hub, device);
}

void mps_hub_release(struct mps_hub *hub)
{
	void (*closed)(struct plugin * p) = hub->closed;
	struct plugin *p = hub->plugin;

	if (--hub->handles || !closed)
		return;
	mps_containers_free(hub);
	free(hub);
	closed(p);
}

void mps_close(struct mps_hub *hub, void (*closed)(struct plugin *p))
{
	hub->closed = closed;
	hub->handles++;
	for (uint32_t i = 0; i < hub->plugin->host->devices; i++)
		mps_daemon_close(&hub->gpu[i].daemon, NULL);
	mps_containers_close(hub);
	mps_hub_release(hub);
}

/* ---- what the configuration says ----------------------------------------------------------- */

static int check_device(const struct plugin *p, uint32_t i, struct fault *why)
{
	const struct host_device *device = &p->host->device[i];

	if (device->gpu_instance >= 0)
		return fault_set(why, -EINVAL,
				 "sharing.mps: GPU %u is divided by MIG; accepted: whole GPUs, or "
				 "sharing.timeSlicing",
				 device->gpu_index);
	if (device->cc_major && device->cc_major < VOLTA)
		return fault_set(why, -EINVAL,
				 "sharing.mps: GPU %u has compute capability %d.%d; accepted: 7.0 "
				 "and newer, whose clients have memory of their own, or "
				 "sharing.timeSlicing",
				 device->gpu_index, device->cc_major, device->cc_minor);
	return 0;
}

/* What the driver has may be wanted expressly. */
static int check_newer(const struct plugin *p, const struct config *config, struct fault *why)
{
	if (config->as_nvidia.mps_apart)
		return fault_set(why, -EINVAL,
				 "sharing.mps.protocol: a container's own control daemon speaks "
				 "protocol 2; accepted: daemonPer: gpu, or protocol: 2");
	if (p->host->cuda_version < MPS_CUDA_NAMES)
		return fault_set(why, -EINVAL,
				 "sharing.mps.protocol: this driver has no protocol 3; accepted: "
				 "driver 615 and newer, or protocol: 2");
	if (strlen(config->as_nvidia.mps_root) > MPS_ROOT_NAMES)
		return fault_set(why, -EINVAL,
				 "flags.mpsRoot: below a path of more than %d bytes sockets of "
				 "MPS's namespaces would be too long; accepted: a shorter path, or "
				 "sharing.mps.protocol: 2",
				 MPS_ROOT_NAMES);
	return 0;
}

/* Once: what the driver has is not used. */
static void tell_older(struct mps_hub *hub)
{
	const struct plugin *p = hub->plugin;

	if (!mps_would_name(p) || mps_can_name(p) || hub->told_older)
		return;
	log_warning("mps.older",
		    "root=%s reason=\"sockets of MPS's namespaces would be too long below it: "
		    "protocol 2 is used; accepted: at most %d bytes\"",
		    log_text(p->config->as_nvidia.mps_root).text, MPS_ROOT_NAMES);
	hub->told_older = true;
}

static int check(const struct mps_hub *hub, const struct config *config, struct fault *why)
{
	const struct plugin *p = hub->plugin;
	char control[MPS_PATH];
	uint32_t most = p->host->cuda_version >= CUDA_NEW ? CLIENTS_NEW : CLIENTS;
	int r = 0;

	if (config->as_nvidia.replicas > most)
		return fault_set(why, -EINVAL,
				 "sharing.mps.resources: %" PRIu32 " replicas are more than the "
				 "clients that MPS has on a GPU with this driver; accepted: at "
				 "most %" PRIu32,
				 config->as_nvidia.replicas, most);
	mps_find_control(config, control);
	if (!*control)
		return fault_set(why, -ENOENT,
				 "sharing.mps: there is no program nvidia-cuda-mps-control below "
				 "flags.plugin.containerDriverRoot (%s) and flags.nvidiaDriverRoot "
				 "(%s), in usr/bin, nor on $PATH; accepted: one that is there",
				 config->as_nvidia.inner_root, config->as_nvidia.driver_root);
	if (config->as_nvidia.mps_protocol == CONFIG_MPS_NEWER)
		r = check_newer(p, config, why);
	for (uint32_t i = 0; r == 0 && i < p->host->devices; i++)
		if (!p->host->device[i].gone && kinds_offers(p, config, i))
			r = check_device(p, i, why);
	return r;
}

int mps_fits(struct mps_hub *hub, const struct config *config, struct fault *why)
{
	return hub && config->as_nvidia.mps ? check(hub, config, why) : 0;
}

/* Before the first container: who has to keep the folders small should not hear it from them. */
static void tell_unbounded(struct mps_hub *hub)
{
	const struct config_as_nvidia *alone = &hub->plugin->config->as_nvidia;
	struct fault why;

	if (!alone->mps || hub->told_unbounded || mps_may_mount(alone->mps_root, &why) == 0)
		return;
	log_warning("mps.unbounded", "reason=%s", log_text(why.text).text);
	hub->told_unbounded = true;
}

int mps_settle(struct mps_hub *hub, struct fault *why)
{
	struct plugin *p = hub->plugin;
	int r;

	mps_find_control(p->config, hub->control);
	r = mps_fits(hub, p->config, why);
	if (r == 0)
		mps_read_given(hub);
	for (uint32_t i = 0; r == 0 && i < p->host->devices; i++)
		mps_gpu_want(&hub->gpu[i]);
	if (r == 0) {
		tell_unbounded(hub);
		tell_older(hub);
	}
	hub->settled |= r == 0;
	mps_follow(hub);
	return r;
}

/* ---- answers ------------------------------------------------------------------------------- */

bool mps_is_open(const struct mps_hub *hub, uint32_t device)
{
	const struct mps_gpu *gpu = hub ? &hub->gpu[device] : NULL;

	/* Exclusive, it would be a GPU for one program. */
	return !gpu || (!mps_stays(hub, device) &&
			(gpu->daemon.machine.wanted ? gpu->daemon.machine.ready
						    : !gpu->daemon.machine.marked));
}

int mps_blame(const struct mps_hub *hub, uint32_t device, struct fault *why)
{
	return fault_set(why, -EAGAIN,
			 "device %s is still used %s: it is given to others when those containers "
			 "have ended",
			 hub->plugin->host->device[device].uuid,
			 hub->gpu[device].waits ? "without MPS" : "by MPS");
}

int mps_check(struct mps_hub *hub, const struct binding *b, struct fault *why)
{
	for (uint32_t i = 0; i < b->devices; i++) {
		uint32_t device = b->device[i];

		if (mps_is_open(hub, device) || mps_has(hub, device, b->uid))
			continue;
		if (mps_stays(hub, device))
			return mps_blame(hub, device, why);
		return fault_set(why, -EAGAIN,
				 "the MPS control daemon of GPU %s is not ready; it is being "
				 "started",
				 hub->plugin->host->device[device].uuid);
	}
	if (!hub || !b->devices)
		return 0;
	return hub->gpu[b->device[0]].apart || hub->gpu[b->device[0]].named
		       ? mps_container_check(hub, b, why)
		       : 0;
}

bool mps_names(const struct plugin *p, uint32_t device)
{
	return p->mps && p->mps->gpu[device].named && !p->config->as_nvidia.mps_apart;
}

void mps_answered(const struct plugin *p, uint32_t device)
{
	if (p->mps)
		p->mps->gpu[device].answered_ns = loop_now_ns();
}

void mps_pipe(const struct plugin *p, uint32_t device, const char *key, char ret_path[MPS_PATH])
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	bool named = mps_names(p, device);

	snprintf(ret_path, MPS_PATH, "%.160s/%.47s/pipe%s%s", alone->mps_root,
		 alone->mps_apart ? key : p->host->device[device].uuid,
		 named ? "/" MPS_SERVER "/" : "", named ? key : "");
}

/* Rounded down, so that all of them together are not more than the GPU. */
void mps_part(const struct plugin *p, uint32_t device, uint32_t replicas, uint32_t of,
	      char ret_percent[MPS_TEXT], char ret_limit[MPS_TEXT])
{
	uint32_t milli;
	uint64_t bytes = p->host->device[device].total_bytes;

	replicas = replicas < of ? replicas : of;
	milli = 1000 * replicas / of;
	if (milli % 10)
		snprintf(ret_percent, MPS_TEXT, "%" PRIu32 ".%" PRIu32, milli / 10, milli % 10);
	else
		snprintf(ret_percent, MPS_TEXT, "%" PRIu32, milli / 10);
	snprintf(ret_limit, MPS_TEXT, "0=%" PRIu64 "M", (bytes >> MIB_SHIFT) * replicas / of);
}
