/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/dra.h"

#include <string.h>

#include "plugin/dra/inside.h"
#include "plugin/dra/reading.h"
#include "plugin/nvidia/parts.h"

enum {
	LOOK_S = 10,
	STALE_LOOKS = 3, /* a request for each claim: not at every look */
};

/* A device has one owner. */
const char *dra_withheld(const struct dra *dra, uint32_t device)
{
	const struct plugin *p = dra->plugin;
	struct config_share share;
	uint32_t slots;

	if (!p->config->has_mete || !p->config->dra)
		return "is given out by slots: the configuration does not say 'dra: on'";
	if (p->host->device[device].gone)
		return "is gone: MIG has divided its GPU in another way";
	if (!entitled_portion(p, device, &slots, &share))
		return "is not shared out by the configuration";
	if (p->enrol.rival == RIVAL_PLUGIN)
		return "is NVIDIA's device plugin's, which runs on this node: a device has one "
		       "owner";
	if (p->enrol.rival == RIVAL_DRIVER)
		return "is NVIDIA's DRA driver's (gpu.nvidia.com), which runs on this node: a "
		       "device has one owner";
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (binding_place(b, device) >= 0)
			return "has a container with a slot, from before claims were turned on: it "
			       "is given to claims when that has ended";
	}
	return NULL;
}

void dra_place(const struct dra *dra, struct claim_device devices[HOST_DEVICES],
	       struct config_share *portion, struct claim_place *ret_place)
{
	const struct plugin *p = dra->plugin;
	uint32_t slots;

	for (uint32_t i = 0; i < p->host->devices; i++) {
		uint64_t bytes = p->host->device[i].total_bytes;

		devices[i] = (struct claim_device){
			.uuid = p->host->device[i].uuid,
			.total_bytes = bytes,
			.inflated = config_promised(p->config, bytes) > bytes,
			.place = p->host->device[i].gone ? NULL : parts_place_of(p->parts, i),
		};
	}
	/* What no claim says is the node's; rules for single devices say amounts. */
	if (!p->host->devices || !entitled_portion(p, 0, &slots, portion))
		*portion = p->config->share;
	*ret_place = (struct claim_place){.driver = dra->driver,
					  .pool = dra->pool,
					  .device = devices,
					  .devices = p->host->devices,
					  .portion = portion,
					  .most = &p->config->most};
}

bool dra_has(const struct dra *dra, uint32_t device)
{
	if (!dra)
		return false;
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		const struct claim *claim = list_entry(link, struct journal_claim, link)->claim;

		for (uint32_t i = 0; !claim->is_admin && i < claim->devices; i++)
			if (claim->of[i] == device)
				return true;
	}
	return false;
}

bool dra_misses(const struct dra *dra)
{
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		if (list_entry(link, struct journal_claim, link)->untended)
			return true;
	}
	return false;
}

static void keep(struct dra *dra)
{
	const struct host *host = dra->plugin->host;

	list_for_each(link, &dra->journal.all)
	{
		struct journal_claim *entry = list_entry(link, struct journal_claim, link);
		int r;

		struct journal_claim *before;

		if (entry->phase != JOURNAL_DONE)
			continue;
		before = journal_before(&dra->journal, entry);
		if (before) {
			entry->joint = before->joint = true;
			entry->absent = before->absent;
			entry->untended = before->untended;
			snprintf(entry->folder, sizeof(entry->folder), "%s", before->folder);
			continue;
		}
		r = host->keep(host->daemon, entry->tenant, entry->folder);
		entry->absent = r == HOST_ABSENT || entry->missings;
		entry->untended = entry->absent && r != HOST_ABSENT;
		/* Without its tenant it is prepared again when the kubelet asks. */
		if (r != 0)
			*entry->folder = '\0';
		if (entry->absent)
			log_warning("claim.absent",
				    "claim=%s/%s tenant=%u reason=\"a device of it is missing: no "
				    "process can join until meted is started with the device\"",
				    entry->claim->namespace, entry->claim->name, entry->tenant);
	}
}

static void on_look(struct loop_timer *timer)
{
	struct dra *dra = container_of(timer, struct dra, look);

	name_follow(dra);
	register_open(dra);
	prepare_mend_all(dra);
	if (++dra->looks % STALE_LOOKS == 0)
		stale_look(dra);
	health_tell(dra);
	publish_consider(dra->publish);
	report_changed(dra);
	loop_arm(&dra->look, LOOK_S * 1000000000ull);
}

static void on_soon(struct loop_timer *timer)
{
	struct dra *dra = container_of(timer, struct dra, soon);

	serve_some(dra);
	if (queue_grows(&dra->queue))
		loop_arm(&dra->soon, 0);
	else
		reading_continue(dra);
}

int dra_open(struct plugin *p, struct dra **ret_dra, struct fault *why)
{
	struct dra *dra = calloc(1, sizeof(*dra));
	char folder[PLUGIN_PATH];
	int r;

	if (!dra)
		return fault_set(why, -ENOMEM, "out of memory");
	dra->plugin = p;
	list_init(&dra->asking);
	list_init(&dra->making);
	list_init(&dra->watchers);
	queue_init(&dra->queue);
	snprintf(folder, sizeof(folder), "%s/claims", p->host->place);
	r = journal_open(&dra->journal, folder, p->host, why);
	if (r == 0 &&
	    (loop_timer_init(p->host->loop, &dra->look, on_look) < 0 ||
	     loop_timer_init(p->host->loop, &dra->soon, on_soon) < 0 || unseen_open(dra) < 0))
		r = fault_set(why, -ENOMEM, "no timer");
	if (r < 0) {
		journal_close(&dra->journal);
		free(dra);
		return r;
	}
	keep(dra);
	*ret_dra = dra;
	return 0;
}

int dra_settle(struct dra *dra, struct fault *why)
{
	struct plugin *p = dra->plugin;
	int r = name_begin(dra, why);

	if (r < 0)
		return r;
	prepare_restore(dra);
	name_keep(dra);
	/* Claims from before claims were turned off are still to be unprepared. */
	if (!p->config->dra && !dra->journal.count) {
		dra_disown(p);
		return 0;
	}
	/* Nothing is published for them any more, and that is said. */
	if (p->config->dra && !p->api)
		log_warning("slices.unwritten",
			    "reason=\"no API server: no device is published, and no claim can be "
			    "read: see kubeconfig in mete-config(5)\"");
	if (p->api && !dra->publish)
		r = publish_open(dra, &dra->publish, why);
	if (r == 0 && p->api && !dra->status)
		r = status_open(dra, why);
	if (r < 0)
		return r;
	register_open(dra);
	report_changed(dra);
	loop_arm(&dra->look, LOOK_S * 1000000000ull);
	return 0;
}

void dra_changed(struct dra *dra)
{
	if (!dra)
		return;
	health_tell(dra);
	publish_consider(dra->publish);
	status_changed_all(dra);
}

void dra_refresh(struct dra *dra)
{
	struct fault why;

	if (!dra)
		return;
	list_for_each(link, &dra->journal.all)
	{
		const struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (prepare_is_done(entry) && !entry->absent &&
		    prepare_write_cdi(dra, entry, &why) < 0)
			log_warning("claim.unwritten", "uid=%s reason=%s", entry->claim->uid,
				    log_text(why.text).text);
	}
}

static void on_look_closed(struct loop_timer *timer)
{
	struct dra *dra = container_of(timer, struct dra, look);

	free(dra->complaint);
	free(dra->unwritten);
	free(dra);
}

static void on_soon_closed(struct loop_timer *timer)
{
	loop_timer_close(&container_of(timer, struct dra, soon)->look, on_look_closed);
}

static void on_unseen_closed(struct loop_timer *timer)
{
	loop_timer_close(&container_of(timer, struct dra, unseen.again)->soon, on_soon_closed);
}

void dra_close(struct dra *dra)
{
	if (!dra)
		return;
	/* A look that is due would open the sockets again. */
	loop_disarm(&dra->look);
	stale_close(dra);
	former_close(dra);
	unseen_close(dra);
	status_close(dra);
	report_close(dra);
	register_close(dra);
	publish_close(take(dra->publish));
	journal_close(&dra->journal);
	loop_timer_close(&dra->unseen.again, on_unseen_closed);
}
