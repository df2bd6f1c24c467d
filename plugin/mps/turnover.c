/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU changes to MPS, or from it, or between one daemon and one for each container, when the
 * containers have ended that have it in the other way. The compute mode of MPS would take the GPU
 * from programs that are no clients, and a daemon that ends takes its clients with it.
 */
#include <string.h>

#include "plugin/mps/inside.h"

/* `uid`: of a pod; NULL: of any. */
static bool has_bound(const struct plugin *p, uint32_t device, const char *uid)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (binding_place(b, device) >= 0 && (!uid || strcmp(b->uid, uid) == 0))
			return true;
	}
	return false;
}

/* Ids stay on the kubelet's record until it gives out others. Without an API server, which knows
 * the pods that have ended, the GPU might wait for ever. */
void mps_read_given(struct mps_hub *hub)
{
	memset(hub->given, 0, sizeof(hub->given));
	if (hub->plugin->pods)
		allocated_devices(hub->plugin, NULL, hub->given);
}

/* A container's daemon outlives the container by the time that it takes to end. */
static bool has_daemons(const struct mps_gpu *gpu)
{
	list_for_each(link, (struct list *)&gpu->daemon.hub->containers)
	{
		const struct mps_container *c = list_entry(link, struct mps_container, link);

		if (strcmp(c->daemon.uuid, gpu->daemon.uuid) == 0)
			return true;
	}
	return false;
}

bool mps_gpu_has_others(const struct mps_gpu *gpu)
{
	const struct mps_hub *hub = gpu->daemon.hub;

	return has_bound(hub->plugin, gpu->device, NULL) || hub->given[gpu->device] ||
	       has_daemons(gpu);
}

/* True if the configuration wants the GPU as it is now. */
static bool is_as_asked(const struct mps_gpu *gpu)
{
	const struct config_as_nvidia *alone = &gpu->daemon.hub->plugin->config->as_nvidia;
	const char *root = gpu->daemon.root;

	/* A record that does not say where the daemon is (it was cut off) forbids nothing. */
	if (!*root)
		return true;
	return gpu->apart == alone->mps_apart && strncmp(root, alone->mps_root, MPS_PATH - 1) == 0;
}

bool mps_gpu_stays(struct mps_gpu *gpu, bool asked)
{
	const char *uuid = gpu->daemon.uuid;
	bool kept = gpu->keeps, waited = gpu->waits, marked = mps_gpu_is_marked(gpu);

	gpu->keeps = marked && !(asked && is_as_asked(gpu)) && mps_gpu_has_others(gpu);
	gpu->waits = asked && !gpu->daemon.machine.wanted && !marked && mps_gpu_has_others(gpu);
	if (gpu->keeps && !kept)
		log_info("mps.keeps",
			 "uuid=%s reason=\"containers have it by MPS; it is given to others when "
			 "they have ended\"",
			 uuid);
	if (gpu->waits && !waited)
		log_info("mps.waits",
			 "uuid=%s reason=\"containers have it without MPS; it is given to others "
			 "when they have ended\"",
			 uuid);
	return gpu->keeps || gpu->waits;
}

bool mps_waits(const struct mps_hub *hub, uint32_t device)
{
	return hub && hub->gpu[device].waits;
}

bool mps_has(const struct mps_hub *hub, uint32_t device, const char *uid)
{
	bool given[HOST_DEVICES];

	if (!hub || !hub->gpu[device].keeps)
		return false;
	if (has_bound(hub->plugin, device, uid))
		return true;
	allocated_devices(hub->plugin, uid, given);
	return given[device];
}

bool mps_asks_for_pods(const struct mps_hub *hub)
{
	for (uint32_t i = 0; hub && i < hub->plugin->host->devices; i++)
		if (mps_gpu_is_marked(&hub->gpu[i]))
			return true;
	return false;
}

bool mps_stays(const struct mps_hub *hub, uint32_t device)
{
	return hub && (hub->gpu[device].keeps || hub->gpu[device].waits);
}

static bool some_stay(const struct mps_hub *hub)
{
	for (uint32_t i = 0; i < hub->plugin->host->devices; i++)
		if (mps_stays(hub, i) || hub->gpu[i].lags)
			return true;
	return false;
}

void mps_look(struct mps_hub *hub)
{
	struct plugin *p = hub ? hub->plugin : NULL;
	bool changed = false;

	mps_follow(hub);
	if (!p || !p->settled || !some_stay(hub))
		return;
	mps_read_given(hub);
	for (uint32_t i = 0; i < p->host->devices; i++) {
		bool stayed = mps_stays(hub, i);

		if (!stayed && !hub->gpu[i].lags)
			continue;
		mps_gpu_want(&hub->gpu[i]);
		changed |= stayed && !mps_stays(hub, i);
	}
	if (changed)
		serve_changed(p);
}
