/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's device plugin and its DRA driver give the same devices to others, whole. While one of
 * them runs we do not register. If it comes after us, running containers go on, and no new ones
 * start until it has gone: a person must decide which of the two has the devices. It is detected by
 * its sockets in the kubelet's folders, whether NVIDIA's GPU Operator or a person has deployed it.
 */
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/socket.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/nodes.h"

enum {
	/* A socket exists before anybody listens at it, and nothing tells when that begins: it is
	   tried so many times, so far apart. */
	LOOKS = 100,
	LOOK_MS = 100,
	EVERY_S = 10, /* a killed process leaves its socket, and a driver's comes unseen */
	/* A kubelet that starts removes every socket, and NVIDIA's plugin creates its own again
	   when it sees the kubelet's. If that fails, it tries again after half a minute. */
	RETURN_S = 40,
};

static const char driver_name[] = "gpu.nvidia.com";

const char *rival_name(enum rival rival)
{
	return rival == RIVAL_DRIVER ? "NVIDIA's DRA driver (gpu.nvidia.com)"
				     : "NVIDIA's device plugin";
}

uint64_t rival_return_ns(const struct plugin *p)
{
	const struct enrol *e = &p->enrol;
	const uint64_t all_ns = RETURN_S * 1000000000ull;
	int64_t changed_ns, age_ns;
	struct timespec now;
	uint64_t inode;

	if (!e->rival_known)
		return 0;
	if (!enrol_kubelet_is(p, &inode, &changed_ns))
		return all_ns;
	/* It is the same kubelet: NVIDIA's plugin left by itself. */
	if (inode == e->rival_inode && changed_ns == e->rival_changed_ns)
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	age_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - changed_ns;
	return age_ns >= 0 && (uint64_t)age_ns < all_ns ? all_ns - (uint64_t)age_ns : 0;
}

static void on_resource(void *owner, const char *resource)
{
	struct plugin *p = owner;

	if (strncmp(resource, "nvidia.com/", 11) != 0)
		return;
	for (uint32_t i = 0; i < p->servings; i++)
		if (strcmp(resource, p->serving[i].resource) == 0)
			return;
	p->enrol.rival_known = true;
}

/* We may be started together with the kubelet, which remembers the plugins that had registered. */
static void ask_checkpoint(struct plugin *p)
{
	char path[PLUGIN_PATH + 40];
	owned(free) char *text = NULL;
	size_t size;

	snprintf(path, sizeof(path), "%s/kubelet_internal_checkpoint", p->folder);
	if (file_slurp(path, CHECKPOINT_BYTES_MAX, &text, &size) == 0 &&
	    checkpoint_registered(text, size, on_resource, p) < 0)
		log_debug("checkpoint.unread", "path=%s", path);
}

static void say(struct plugin *p, const char *socket)
{
	struct fault what;

	if (!p->enrol.rival) {
		log_info("owner.alone", "resource=%s", p->config->resource);
		return;
	}
	fault_set(&what, 0,
		  "%s is running on this node alongside mete (%s): a device "
		  "has one owner, so %s gets no new containers until one of the two DaemonSets is "
		  "removed from here",
		  rival_name(p->enrol.rival), socket, p->config->resource);
	log_error("owner.contested", "reason=%s", log_text(what.text).text);
	events_node(p, "GPUOwnerContested", what.text);
}

/* The kubelet's plugins_registry has a socket of each DRA driver. */
static bool find_driver(const struct plugin *p, char *ret_name, size_t size)
{
	char registry[PLUGIN_PATH + 20];

	snprintf(registry, sizeof(registry), "%s/plugins_registry", p->config->kubelet_folder);
	return strcmp(p->config->domain, "nvidia.com") != 0 &&
	       socket_find(registry, driver_name, ret_name, size) == 0;
}

static enum rival find(const struct plugin *p, char *ret_name, size_t size)
{
	if (socket_find(p->folder, "nvidia-", ret_name, size) == 0)
		return RIVAL_PLUGIN;
	return find_driver(p, ret_name, size) ? RIVAL_DRIVER : RIVAL_NONE;
}

void rival_look(struct plugin *p, bool fresh)
{
	struct enrol *e = &p->enrol;
	char name[NAME_MAX + 1] = "";
	int64_t changed_ns = 0;
	uint64_t inode = 0;
	enum rival runs;

	/* The kubelet first: if it restarts between the two looks, a socket that it was about to
	 * remove must not count as one that was created under the new kubelet. */
	best_effort(enrol_kubelet_is(p, &inode, &changed_ns));
	runs = find(p, name, sizeof(name));
	if (fresh)
		e->rival_looks = LOOKS;
	if (runs)
		e->rival_looks = 0;
	/* We may be waiting for it to come back, or to go. */
	if (runs && !e->rival_seen)
		enrol_more(p);
	e->rival_seen = runs;
	if (runs == RIVAL_PLUGIN) {
		e->rival_known = true;
		e->rival_inode = inode;
		e->rival_changed_ns = changed_ns;
	}
	/* Its socket went with the kubelet's: that proves nothing. */
	if (!runs && e->rival == RIVAL_PLUGIN && rival_return_ns(p))
		runs = RIVAL_PLUGIN;
	loop_arm(&e->rival_again, e->rival_looks ? LOOK_MS * 1000000ull : EVERY_S * 1000000000ull);
	if (runs == e->rival)
		return;
	e->rival = runs;
	/* If we have not registered, this is reported where we would. */
	if (!enrol_is_done(p))
		return;
	say(p, name);
	serve_changed(p);
	nodes_changed(p->nodes);
}

void rival_registered(struct plugin *p)
{
	char name[NAME_MAX + 1] = "";

	if (!p->enrol.rival) {
		p->enrol.rival_known = false;
		return;
	}
	find(p, name, sizeof(name));
	say(p, name);
	serve_changed(p);
	nodes_changed(p->nodes);
}

static void on_again(struct loop_timer *timer)
{
	struct enrol *e = container_of(timer, struct enrol, rival_again);

	struct plugin *p = container_of(e, struct plugin, enrol);
	bool ran = e->rival;

	if (e->rival_looks)
		e->rival_looks--;
	rival_look(p, false);
	/* It was gone for a while, and the kubelet is the same: it was removed. */
	if (!ran && !e->rival && !rival_return_ns(p))
		e->rival_known = false;
}

int rival_open(struct plugin *p, struct fault *why)
{
	/* Later the name that the kubelet remembers may be one of ours. */
	if (p->enrol.rival_again.open)
		return 0;
	if (loop_timer_init(p->host->loop, &p->enrol.rival_again, on_again) < 0)
		return fault_set(why, -ENOMEM, "no timer");
	ask_checkpoint(p);
	return 0;
}
