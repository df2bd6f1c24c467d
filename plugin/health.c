/* SPDX-License-Identifier: Apache-2.0 */
/* If a device is unhealthy, so are all its slots: running containers go on, and no new ones start.
 * This is recorded, because a restarted meted knows nothing of earlier errors. */
#include <string.h>

#include "base/file.h"
#include "plugin/health_record.h"
#include "plugin/mps/mps.h"
#include "plugin/nodes.h"
#include "plugin/nvidia/mig_label.h"
#include "plugin/nvidia/parts.h"
#include "plugin/sums/seats.h"

enum { RECORD_MOST = 64 << 10, BOOT = 40 };

static void record_path(const struct plugin *p, char ret_path[PLUGIN_PATH])
{
	snprintf(ret_path, PLUGIN_PATH, "%s/health", p->host->place);
}

/* Times count from the machine's boot. "": unknown. */
static void boot_id(char ret_id[BOOT])
{
	owned(free) char *text = NULL;
	size_t size;

	*ret_id = '\0';
	if (file_slurp("/proc/sys/kernel/random/boot_id", 64, &text, &size) == 0)
		snprintf(ret_id, BOOT, "%.*s", (int)strcspn(text, "\n"), text);
}

static void write_down(const struct plugin *p)
{
	char path[PLUGIN_PATH], boot[BOOT];
	owned(free) char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r = -ENOMEM;

	boot_id(boot);
	record_path(p, path);
	if (out) {
		fprintf(out, "%s\n", boot);
		for (uint32_t i = 0; i < p->host->devices; i++)
			health_record_write(out, p->host->device[i].uuid, &p->health[i]);
		r = fclose(out) == 0 ? file_replace(path, text, size, 0600) : -ENOMEM;
	}
	if (r < 0)
		log_warning("health.unwritten", "path=%s reason=%s", log_text(path).text,
			    log_text(strerror(-r)).text);
}

static void say(struct plugin *p, uint32_t device)
{
	const struct health *h = &p->health[device];
	const char *uuid = p->host->device[device].uuid;
	struct fault what;

	switch (h->cause) {
	case HEALTH_NONE:
		log_info("device.recovered", "uuid=%s", uuid);
		fault_set(&what, 0, "device %s is healthy again: it gets new containers", uuid);
		p->host->happened(p->host->daemon, 0, device, HAPPENED_HEALTHY, what.text);
		events_node_well(p, "GPURecovered", what.text);
		return;
	case HEALTH_XID:
		fault_set(&what, 0, "device %s: Xid %llu: it gets no new containers", uuid,
			  (unsigned long long)h->xid);
		break;
	case HEALTH_ECC:
		fault_set(
			&what, 0,
			"device %s: an ECC error that was not corrected: it gets no new containers",
			uuid);
		break;
	case HEALTH_LOST:
		fault_set(&what, 0, "device %s is gone from the bus%s: it gets no new containers",
			  uuid,
			  p->host->device[device].gpu_instance >= 0
				  ? ", or is no longer a part of its GPU"
				  : ", or is now divided by MIG");
		break;
	}
	log_error("device.unhealthy", "reason=%s", log_text(what.text).text);
	p->host->happened(p->host->daemon, 0, device, HAPPENED_UNHEALTHY, what.text);
	events_node(p, "GPUUnhealthy", what.text);
}

/* Tells the parts that publish slots, sums and claims. */
static void changed(struct plugin *p)
{
	serve_changed(p);
	seats_changed(p);
	nodes_changed(p->nodes);
}

static void on_cordon(struct plugin *p, uint32_t device)
{
	const char *uuid = p->host->device[device].uuid;
	bool cordoned = p->host->cordoned(p->host->daemon, device);
	struct fault what;

	p->offer[device].cordoned = cordoned;
	fault_set(&what, 0,
		  cordoned ? "device %s is cordoned (mete cordon): it gets no new containers"
			   : "device %s is cordoned no more: it gets new containers",
		  uuid);
	events_node_well(p, cordoned ? "GPUCordoned" : "GPUUncordoned", what.text);
	changed(p);
}

static bool is_changed(const struct health *was, const struct health *now)
{
	return was->cause != now->cause || was->xid != now->xid || was->quiet_ns != now->quiet_ns ||
	       was->quiet_since_ns != now->quiet_since_ns ||
	       was->well_since_ns != now->well_since_ns;
}

/* As with NVIDIA's plugin, variables say how Xids are taken. */
static bool is_counted(const struct plugin *p, enum host_news news, uint64_t xid)
{
	const struct health_xids *xids = &p->config->as_nvidia.xids;

	switch (news) {
	case HOST_XID:
		return health_counts(xids, xid);
	case HOST_ECC:
	case HOST_LOST:
		return !xids->none;
	case HOST_ANSWERS: /* devices that are down recover */
	case HOST_CORDON:
	case HOST_CLIQUE:
	case HOST_LOOKED:
		return true;
	}
	return true;
}

static void look_around(struct plugin *p)
{
	/* Without tenants every process would be a stranger. */
	if (config_has_tenants(p->config)) {
		strangers_look(p);
		over_look(p);
		containers_look(p);
	} else {
		as_nvidia_look(p);
	}
	mps_look(p->mps);
	mig_label_look(p->mig);
	parts_look(p->parts);
}

/* Carries out a change of the device's health: the answer of health_xid() and similar functions. */
static int judge(struct health *h, enum host_news news, uint64_t xid)
{
	uint64_t now = loop_now_ns();

	switch (news) {
	case HOST_XID:
		return health_xid(h, xid, now);
	case HOST_ECC:
		return health_ecc(h, now);
	case HOST_ANSWERS:
	case HOST_LOST:
		return health_answers(h, news == HOST_ANSWERS, now);
	case HOST_CORDON:
	case HOST_CLIQUE:
	case HOST_LOOKED:
		break;
	}
	return 0;
}

/* The device is not offered, so its loss is no news. Other reports about a device that is gone
 * are about a part that has its number now, or about its divided GPU. */
static bool is_past(const struct plugin *p, uint32_t device, enum host_news news)
{
	bool gone = p->host->device[device].gone;

	return news == HOST_LOST ? gone || parts_hides(p->parts, device)
				 : gone && news != HOST_CORDON;
}

static void on_news(void *owner, uint32_t device, enum host_news news, uint64_t xid)
{
	struct plugin *p = owner;
	struct health *h = &p->health[device];
	struct health was = *h;
	int r;

	if (news == HOST_LOOKED) {
		look_around(p);
		return;
	}
	if (news == HOST_CLIQUE) {
		nodes_changed(p->nodes); /* a label says it */
		return;
	}
	if (is_past(p, device, news))
		return;
	if (news == HOST_XID)
		p->xids[device]++;
	if (!is_counted(p, news, xid))
		return;
	if (news == HOST_CORDON) {
		on_cordon(p, device);
		return;
	}
	r = judge(h, news, xid);
	/* A lost device is still lost at the next look, so this need not be recorded. */
	if (r != 0 || (news != HOST_LOST && is_changed(&was, h)))
		write_down(p);
	if (r == 0)
		return;
	p->offer[device].healthy = r == HEALTH_RECOVERED;
	say(p, device);
	changed(p);
}

/* Restores the knowledge of the previous meted, if it is of this boot of the machine. */
static void remember(struct plugin *p)
{
	owned(free) char *text = NULL;
	char path[PLUGIN_PATH], boot[BOOT], *line, *rest;
	size_t size;

	boot_id(boot);
	record_path(p, path);
	if (file_slurp(path, RECORD_MOST, &text, &size) < 0)
		return;
	line = strtok_r(text, "\n", &rest);
	if (!line || !*boot || strcmp(line, boot) != 0)
		return;
	while ((line = strtok_r(NULL, "\n", &rest))) {
		struct health_record record;
		int device;

		if (health_record_read(line, loop_now_ns(), &record) < 0)
			continue;
		device = host_find(p->host, record.uuid);
		if (device < 0)
			continue;
		p->health[device] = record.health;
		p->offer[device].healthy = record.health.cause == HEALTH_NONE;
		if (record.health.cause != HEALTH_NONE)
			say(p, (uint32_t)device);
	}
}

/* Its slot was given before the device was lost. Without this, its programs would find no GPU, and
 * nothing would say why. */
int health_check(const struct plugin *p, const struct binding *b, struct fault *why)
{
	for (uint32_t i = 0; i < b->devices; i++) {
		const char *uuid = p->host->device[b->device[i]].uuid;

		if (p->host->device[b->device[i]].gone)
			return fault_set(why, -ENODEV,
					 "device %s is gone: MIG has divided its GPU in another "
					 "way",
					 uuid);
		if (health_is_gone(&p->health[b->device[i]]))
			return fault_set(
				why, -ENODEV,
				"device %s is gone from the bus: the container starts when the "
				"device is back and healthy, or elsewhere if its pod is deleted",
				uuid);
		if (p->offer[b->device[i]].dividing)
			return fault_set(why, -EAGAIN,
					 "device %s may be divided by MIG just now: the container "
					 "starts after that, if the device is still there",
					 uuid);
	}
	return 0;
}

static void begin(struct plugin *p, uint32_t device)
{
	health_init(&p->health[device], loop_now_ns());
	p->offer[device].healthy = true;
	p->offer[device].gone = p->host->device[device].gone;
	p->offer[device].cordoned = p->host->cordoned(p->host->daemon, device);
}

/* A part that is made again has not failed: its former faults are forgotten. Other devices stay
 * as they are. */
void health_divided(struct plugin *p, uint32_t former)
{
	bool forgets = false;

	for (uint32_t i = 0; i < p->host->devices; i++) {
		if (i >= former)
			p->offer[i].dividing = p->offer[0].dividing;
		if (i < former && p->offer[i].gone == p->host->device[i].gone)
			continue;
		forgets |= p->health[i].cause != HEALTH_NONE;
		begin(p, i);
	}
	if (forgets)
		write_down(p);
}

void health_open(struct plugin *p)
{
	for (uint32_t i = 0; i < p->host->devices; i++)
		begin(p, i);
	remember(p);
	p->host->watch(p->host->daemon, on_news, p);
}
