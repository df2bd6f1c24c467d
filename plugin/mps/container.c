/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharing.mps.daemonPer: container. Each container has a control daemon of its own, with a server
 * of its own, so that a fault of its programs ends nobody else's. Servers share a GPU only where
 * its compute mode is DEFAULT, and take turns there by the hardware's time slices.
 *
 * A daemon is started when its container is about to start (PreStartContainer), which waits for it.
 * It is wanted as long as the container is bound, and until a minute after the kubelet has asked
 * for it in vain: a busy machine may need more than one question of the kubelet's. Its record is
 * written before anything else of it is there, and removed after all else of it has gone: the next
 * meted finds the daemon by it, and ends it if its container is no longer bound.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/records.h"
#include "plugin/mps/inside.h"

#define LINGER_NS (UINT64_C(60) * 1000000000)

static struct mps_container *whose(const struct mps_daemon *daemon)
{
	return container_of(daemon, struct mps_container, daemon);
}

static void folder_of(const struct plugin *p, char ret_path[PLUGIN_PATH])
{
	snprintf(ret_path, PLUGIN_PATH, "%s/mps-containers", p->host->place);
}

static struct mps_container *find(const struct mps_hub *hub, const char *key)
{
	list_for_each(link, (struct list *)&hub->containers)
	{
		struct mps_container *c = list_entry(link, struct mps_container, link);

		if (strcmp(c->key, key) == 0)
			return c;
	}
	return NULL;
}

/* ---- what a daemon does -------------------------------------------------------------------- */

int mps_container_record(struct mps_daemon *daemon)
{
	const struct mps_container *c = whose(daemon);
	bool named = daemon->uses == &mps_namespace_uses;
	char folder[PLUGIN_PATH], text[2 * MPS_PATH + MPS_OWNER + MPS_TEXT];
	struct fault why;
	int r;

	folder_of(daemon->hub->plugin, folder);
	snprintf(text, sizeof(text), "%s\n%s\n%s\n%s\n%s%s", daemon->root, daemon->uuid, c->owner,
		 daemon->limit, named ? daemon->percent : "", named ? "\n" : "");
	r = mkdir(folder, 0700) < 0 && errno != EEXIST ? -errno : 0;
	return r == 0 ? records_write(folder, c->key, text, &why) : r;
}

/* A GPU whose compute mode cannot be set is not exclusive. */
static int mark(struct mps_daemon *daemon)
{
	const struct plugin *p = daemon->hub->plugin;
	int device = host_find(p->host, daemon->uuid), r;

	r = mps_container_record(daemon);
	if (r == 0 && device >= 0)
		r = p->host->compute_mode(p->host->daemon, (uint32_t)device, false);
	return r == -ENOTSUP ? 0 : r;
}

int mps_container_unrecord(struct mps_daemon *daemon)
{
	char folder[PLUGIN_PATH];
	struct fault why;

	folder_of(daemon->hub->plugin, folder);
	return records_remove(folder, whose(daemon)->key, &why);
}

void mps_container_turned(struct mps_daemon *daemon)
{
	if (daemon->machine.ready)
		prestart_consider(daemon->hub->plugin);
}

static void ended(struct mps_daemon *daemon)
{
	struct plugin *p = daemon->hub->plugin;
	const struct binding *b = binding_store_find(&p->bindings, whose(daemon)->key);

	if (b)
		best_effort(events_container(
			p, b, "MPSControlEnded",
			"its MPS control daemon has ended, and is started again: if its programs "
			"report errors, start them again"));
}

/* Its slot may be another container's now, which waits for that; and its GPU may wait for the last
 * of its containers. */
static void on_timer_closed(struct loop_timer *timer)
{
	struct mps_container *c = container_of(timer, struct mps_container, daemon.timer);
	struct mps_hub *hub = c->daemon.hub;

	free(c);
	if (!hub->closed) {
		mps_look(hub);
		prestart_consider(hub->plugin);
	}
	mps_hub_release(hub);
}

static void leave(struct mps_container *c)
{
	list_remove(&c->link);
	mps_daemon_close(&c->daemon, on_timer_closed);
}

/* At our end its timer is closed already: it goes with the hub. */
void mps_container_undone(struct mps_daemon *daemon)
{
	if (!daemon->hub->closed)
		leave(whose(daemon));
}

static const struct mps_uses uses = {
	.mark = mark,
	.unmark = mps_container_unrecord,
	.cleans = true,
	.turned = mps_container_turned,
	.ended = ended,
	.undone = mps_container_undone,
};

/* `named`: it is a namespace. */
static int make(struct mps_hub *hub, const char *key, const char *uuid, const char *root,
		bool named, bool marked, struct mps_container **ret_container)
{
	struct mps_container *c = calloc(1, sizeof(*c));
	int r = c ? mps_daemon_open(&c->daemon, hub, marked) : -ENOMEM;

	if (r < 0) {
		free(c);
		return r;
	}
	c->daemon.uses = named ? &mps_namespace_uses : &uses;
	c->daemon.protocol = named ? &mps_protocol_namespace : &mps_protocol_older;
	c->daemon.name = c->key;
	snprintf(c->key, sizeof(c->key), "%s", key);
	snprintf(c->daemon.uuid, sizeof(c->daemon.uuid), "%s", uuid);
	/* Kernels of other containers do not run beside its own: a part of the multiprocessors
	 * would be a part of a part of the time. */
	snprintf(c->daemon.percent, sizeof(c->daemon.percent), "100");
	mps_daemon_place(&c->daemon, root);
	list_append(&hub->containers, &c->link);
	/* There may be hundreds, and each question runs a program. The end of a process is seen
	 * without one. */
	c->daemon.machine.ask_ns = 6 * MPS_ASK_NS;
	*ret_container = c;
	return 0;
}

/* ---- a container that starts --------------------------------------------------------------- */

static void name_owner(const struct binding *b, char ret_owner[MPS_OWNER])
{
	snprintf(ret_owner, MPS_OWNER, "%.64s/%.254s/%.64s", b->namespace, b->pod, b->uid);
}

/* A container that starts again may have another limit by now. */
static void take_limit(struct mps_container *c, const struct binding *b)
{
	const struct plugin *p = c->daemon.hub->plugin;
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	char percent[MPS_TEXT], limit[MPS_TEXT];

	if (!alone->mps && *c->daemon.limit)
		return; /* as it was when the file had MPS */
	mps_part(p, b->device[0], b->count, alone->replicas ? alone->replicas : 1, percent, limit);
	mps_make_whole(percent);
	if (c->daemon.uses != &mps_namespace_uses)
		memcpy(percent, c->daemon.percent, sizeof(percent));
	if (strcmp(limit, c->daemon.limit) == 0 && strcmp(percent, c->daemon.percent) == 0)
		return;
	memcpy(c->daemon.limit, limit, sizeof(limit));
	memcpy(c->daemon.percent, percent, sizeof(percent));
	if (!c->daemon.machine.wanted)
		return; /* it is told, and recorded, with the rest */
	if (mps_container_record(&c->daemon) < 0)
		log_warning("mps.unrecorded", "daemon=%s", c->key);
	mps_limits(&c->daemon.machine, loop_now_ns());
	mps_daemon_pump(&c->daemon);
}

static int wait_for(struct mps_container *c, const struct binding *b, struct fault *why)
{
	take_limit(c, b);
	mps_daemon_want(&c->daemon, true);
	c->until_ns = c->daemon.machine.ready ? 0 : loop_now_ns() + LINGER_NS;
	if (c->daemon.machine.ready)
		return 0;
	return fault_set(why, -EINPROGRESS,
			 "the MPS control daemon of this container is not ready; it is being "
			 "started%s%s",
			 *c->daemon.said ? ": " : "", c->daemon.said);
}

int mps_container_check(struct mps_hub *hub, const struct binding *b, struct fault *why)
{
	const struct plugin *p = hub->plugin;
	const struct mps_gpu *gpu = &hub->gpu[b->device[0]];
	struct mps_container *c = find(hub, b->key);
	char owner[MPS_OWNER];
	int r;

	name_owner(b, owner);
	if (c && (c->leaves || strcmp(c->owner, owner) != 0)) {
		c->leaves = true;
		mps_daemon_want(&c->daemon, false);
		return fault_set(why, -EINPROGRESS,
				 "the MPS control daemon of the container that had this place "
				 "before has not ended yet");
	}
	if (!c) {
		r = make(hub, b->key, p->host->device[b->device[0]].uuid, gpu->daemon.root,
			 gpu->named, false, &c);
		if (r < 0)
			return fault_set(why, r, "out of memory");
		snprintf(c->owner, sizeof(c->owner), "%s", owner);
	}
	return wait_for(c, b, why);
}

void mps_follow(struct mps_hub *hub)
{
	struct plugin *p = hub ? hub->plugin : NULL;
	uint64_t now = loop_now_ns();

	if (!p || !hub->settled || hub->closed)
		return;
	list_for_each(link, &hub->containers)
	{
		struct mps_container *c = list_entry(link, struct mps_container, link);
		bool wanted = !c->leaves && (binding_store_find(&p->bindings, c->key) ||
					     prestart_asks(p, c->key) || now < c->until_ns);

		mps_daemon_want(&c->daemon, wanted);
	}
}

/* ---- what a former meted has left ---------------------------------------------------------- */

static bool is_name(const char *name)
{
	return strlen(name) == IDS_KEY - 1;
}

/* The next text line, cut off at its end; NULL: there is none. */
static char *next_text_line(char **at)
{
	char *line = *at, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*at = end + 1;
	return line;
}

static int read_one(void *owner, const char *name, const char *text, unused size_t size)
{
	struct mps_hub *hub = owner;
	owned(free) char *copy = strdup(text);
	char *at = copy, *line[4], *percent;
	struct mps_container *c;
	int r;

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(line); i++) {
		line[i] = next_text_line(&at);
		if (!line[i])
			return -EINVAL;
	}
	if (line[0][0] != '/' || strncmp(line[3], "0=", 2) != 0)
		return -EINVAL;
	percent = next_text_line(&at);
	r = make(hub, name, line[1], line[0], percent != NULL, true, &c);
	if (r < 0)
		return r;
	snprintf(c->owner, sizeof(c->owner), "%s", line[2]);
	snprintf(c->daemon.limit, sizeof(c->daemon.limit), "%s", line[3]);
	if (percent)
		snprintf(c->daemon.percent, sizeof(c->daemon.percent), "%s", percent);
	return 0;
}

int mps_containers_open(struct mps_hub *hub, struct fault *why)
{
	static const struct records_reader reader = {is_name, read_one, "mps.lost"};
	char folder[PLUGIN_PATH];

	folder_of(hub->plugin, folder);
	return access(folder, F_OK) == 0 ? records_open(folder, &reader, hub, why) : 0;
}

void mps_containers_close(struct mps_hub *hub)
{
	list_for_each(link, &hub->containers)
		mps_daemon_close(&list_entry(link, struct mps_container, link)->daemon, NULL);
}

void mps_containers_free(struct mps_hub *hub)
{
	list_for_each(link, &hub->containers) free(list_entry(link, struct mps_container, link));
}
