/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace of a GPU's control daemon (MPS's protocol 3) for each container: its limits are the
 * daemon's, where a program cannot change them, and the container sees its own socket alone. It
 * begins and ends as a daemon for each container does (container.c), but it has neither a process
 * nor a folder of its own: when the GPU's daemon ends it has gone, and is made again after that.
 */
#include "plugin/mps/inside.h"

static const struct mps_gpu *gpu_of(const struct mps_daemon *daemon)
{
	const struct mps_hub *hub = daemon->hub;
	int device = host_find(hub->plugin->host, daemon->uuid);

	return device < 0 ? NULL : &hub->gpu[device];
}

/* Its GPU's daemon comes first. */
static bool rests(const struct mps_daemon *daemon)
{
	const struct mps_gpu *gpu = gpu_of(daemon);

	return gpu && gpu->daemon.machine.wanted && !gpu->daemon.machine.ready;
}

/* The pod is told of the daemon's end, by its GPU. */
static void ended(unused struct mps_daemon *daemon)
{
}

const struct mps_uses mps_namespace_uses = {
	.mark = mps_container_record,
	.unmark = mps_container_unrecord,
	.in_gpus_folder = true,
	.rests = rests,
	.turned = mps_container_turned,
	.ended = ended,
	.undone = mps_container_undone,
};

void mps_namespaces_turned(const struct mps_gpu *gpu)
{
	bool ready = gpu->daemon.machine.ready;

	list_for_each(link, &gpu->daemon.hub->containers)
	{
		struct mps_container *c = list_entry(link, struct mps_container, link);

		if (c->daemon.uses != &mps_namespace_uses || gpu_of(&c->daemon) != gpu)
			continue;
		if (!ready && !gpu->daemon.machine.answers)
			mps_gone(&c->daemon.machine, loop_now_ns());
		mps_daemon_pump(&c->daemon);
	}
}

bool mps_would_name(const struct plugin *p)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;

	return alone->mps && !alone->mps_apart && alone->mps_protocol != CONFIG_MPS_OLDER &&
	       p->host->cuda_version >= MPS_CUDA_NAMES;
}

bool mps_can_name(const struct plugin *p)
{
	const char *root = p->config->as_nvidia.mps_root;

	return mps_would_name(p) && root && strlen(root) <= MPS_ROOT_NAMES;
}
