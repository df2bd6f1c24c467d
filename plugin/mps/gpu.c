/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU that is shared by MPS has one control daemon for all its containers, and is exclusive (with
 * a namespace for each container where the driver has them: `named`); or it is `apart`: each
 * container has a daemon of its own (container.c), and the GPU has none. A record says which, so
 * that the next meted knows how its containers use the GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin/mps/inside.h"

/* By then the kubelet has written it down, or has asked us to prepare the container. */
#define ANSWERED_NS (UINT64_C(60) * 1000000000)

static struct mps_gpu *gpu_of(const struct mps_daemon *daemon)
{
	return container_of(daemon, struct mps_gpu, daemon);
}

bool mps_gpu_is_marked(const struct mps_gpu *gpu)
{
	return gpu->daemon.machine.marked || gpu->apart;
}

/* ---- what its daemon does ------------------------------------------------------------------ */

/* The record comes first: a meted that ends in between leaves a record too many, which is harmless.
 */
static int mark(struct mps_daemon *daemon)
{
	const struct plugin *p = daemon->hub->plugin;
	int r = mps_record_write(p, daemon->uuid, daemon->root,
				 gpu_of(daemon)->named ? MPS_WAY_NAMED : MPS_WAY_ONE);

	return r < 0 ? r : p->host->compute_mode(p->host->daemon, gpu_of(daemon)->device, true);
}

static int unmark(struct mps_daemon *daemon)
{
	const struct plugin *p = daemon->hub->plugin;
	int r = p->host->compute_mode(p->host->daemon, gpu_of(daemon)->device, false);

	if (r == 0)
		mps_record_remove(p, daemon->uuid);
	return r;
}

/* A former meted's daemon, with clients. */
static bool rests(const struct mps_daemon *daemon)
{
	return gpu_of(daemon)->keeps && !daemon->machine.wanted;
}

static void turned(struct mps_daemon *daemon)
{
	struct plugin *p = daemon->hub->plugin;
	bool ready = daemon->machine.ready;
	struct fault what;

	fault_set(&what, 0,
		  ready ? "the MPS control daemon of GPU %s is ready"
			: "the MPS control daemon of GPU %s is not ready: it gets no new "
			  "containers until then",
		  daemon->uuid);
	if (ready)
		events_node_well(p, "MPSControlReady", what.text);
	else if (daemon->machine.wanted && !daemon->machine.answers)
		events_node(p, "MPSControlEnded", what.text); /* limits that change are no end */
	if (gpu_of(daemon)->named)
		mps_namespaces_turned(gpu_of(daemon));
	serve_changed(p);
	if (ready)
		prestart_consider(p);
}

/* Tells the pods of its containers. */
static void ended(struct mps_daemon *daemon)
{
	struct plugin *p = daemon->hub->plugin;

	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (binding_place(b, gpu_of(daemon)->device) >= 0)
			best_effort(events_container(
				p, b, "MPSControlEnded",
				"the MPS control daemon of its GPU has ended, and is started "
				"again: if its programs report errors, start them again"));
	}
}

static void undone(struct mps_daemon *daemon)
{
	mps_read_given(daemon->hub);
	mps_gpu_want(gpu_of(daemon)); /* perhaps below another root */
	serve_changed(daemon->hub->plugin);
}

static const struct mps_uses uses = {
	.mark = mark,
	.unmark = unmark,
	.rests = rests,
	.turned = turned,
	.ended = ended,
	.undone = undone,
};

static void be_named(struct mps_gpu *gpu, bool named)
{
	gpu->named = named;
	gpu->daemon.protocol = named ? &mps_protocol_newer : &mps_protocol_older;
}

int mps_gpu_open(struct mps_hub *hub, uint32_t device)
{
	struct mps_gpu *gpu = &hub->gpu[device];
	struct mps_daemon *daemon = &gpu->daemon;
	char root[MPS_PATH], way[MPS_WAY] = "";
	bool marked;

	gpu->device = device;
	daemon->uses = &uses;
	snprintf(daemon->uuid, sizeof(daemon->uuid), "%s", hub->plugin->host->device[device].uuid);
	daemon->name = daemon->uuid;
	marked = mps_record_read(hub->plugin, daemon->uuid, root, way) == 0;
	gpu->apart = strcmp(way, MPS_WAY_APART) == 0;
	be_named(gpu, strcmp(way, MPS_WAY_NAMED) == 0);
	if (marked)
		mps_daemon_place(daemon, root);
	return mps_daemon_open(daemon, hub, marked && !gpu->apart);
}

/* ---- what the configuration says ----------------------------------------------------------- */

/* Of the threads, in a namespace: the documents of protocol 3 have whole numbers alone. */
void mps_make_whole(char percent[MPS_TEXT])
{
	int whole = atoi(percent);

	snprintf(percent, MPS_TEXT, "%d", whole > 0 ? whole : 1);
}

/* Without `one_only` a container says in its own environment how much of this it has, and mete's
 * guest holds it to that; unless it has a namespace. */
static void take_limits(struct mps_gpu *gpu)
{
	const struct plugin *p = gpu->daemon.hub->plugin;
	const struct config_as_nvidia *alone = &p->config->as_nvidia;

	if (gpu->daemon.machine.wanted &&
	    (gpu->replicas != alone->replicas || gpu->one_only != alone->one_only))
		mps_limits(&gpu->daemon.machine, loop_now_ns());
	gpu->replicas = alone->replicas;
	gpu->one_only = alone->one_only;
	mps_part(p, gpu->device, gpu->one_only || gpu->named ? 1 : gpu->replicas, gpu->replicas,
		 gpu->daemon.percent, gpu->daemon.limit);
	if (gpu->named)
		mps_make_whole(gpu->daemon.percent);
}

/* If the record cannot be written then the next meted takes its containers for some without MPS. */
static void be_apart(struct mps_gpu *gpu, bool apart)
{
	struct mps_daemon *daemon = &gpu->daemon;
	const struct plugin *p = daemon->hub->plugin;
	const char *root = p->config->as_nvidia.mps_root;

	if (apart && (!gpu->apart || strcmp(daemon->root, root) != 0)) {
		mps_daemon_place(daemon, root);
		if (mps_record_write(p, daemon->uuid, root, MPS_WAY_APART) < 0)
			log_warning("mps.unrecorded", "uuid=%s", daemon->uuid);
	} else if (gpu->apart && !apart) {
		mps_record_remove(p, daemon->uuid);
		log_info("mps.undone", "uuid=%s daemon=%s", daemon->uuid, daemon->name);
	}
	gpu->apart = apart;
}

/* Between Allocate's answer and the kubelet's record of it nothing names the container. */
static bool was_answered(const struct mps_gpu *gpu)
{
	return gpu->answered_ns && loop_now_ns() - gpu->answered_ns < ANSWERED_NS;
}

/* Its daemon is another way's, or below another root. */
static bool is_to_move(const struct mps_gpu *gpu, bool shares)
{
	const struct mps_daemon *daemon = &gpu->daemon;
	const char *root = daemon->hub->plugin->config->as_nvidia.mps_root;

	return !shares || (gpu->lags && !mps_gpu_has_others(gpu) && !was_answered(gpu)) ||
	       (*daemon->root && strncmp(daemon->root, root, MPS_PATH - 1) != 0);
}

/* A former meted's daemon below another root ends first, where its record says that it is. */
void mps_gpu_want(struct mps_gpu *gpu)
{
	struct mps_daemon *daemon = &gpu->daemon;
	const struct plugin *p = daemon->hub->plugin;
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	bool asked = alone->mps && p->offer[gpu->device].shared,
	     shares = asked && !alone->mps_apart;

	if (mps_gpu_stays(gpu, asked)) {
		p->host->at_once(p->host->daemon, gpu->device, gpu->keeps);
		mps_daemon_pump(daemon);
		return;
	}
	gpu->lags = shares && daemon->machine.marked && gpu->named != mps_can_name(p);
	gpu->moves = asked && daemon->machine.marked && is_to_move(gpu, shares);
	be_apart(gpu, asked && !shares && !gpu->moves);
	shares &= !gpu->moves;
	if (shares) {
		if (!daemon->machine.marked)
			be_named(gpu, mps_can_name(p));
		take_limits(gpu);
		mps_daemon_place(daemon, alone->mps_root);
	}
	p->host->at_once(p->host->daemon, gpu->device, shares || gpu->apart);
	mps_daemon_want(daemon, shares);
}
