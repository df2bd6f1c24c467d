/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of preparing a claim, in order: the tenant, the CDI file, and the record that it is
 * done. Before the first claim of a start, the journal has it in writing where files without a
 * record may be. If meted is killed in between, it leaves a tenant that nobody keeps (the next
 * start ends it: host.kept_all()), or a CDI file that no record names (prepare_restore() removes
 * it). Undoing goes the other way: the record that it ends, the CDI file, the tenant, and the
 * record itself, which therefore outlives everything that it names.
 */
#include <string.h>

#include "base/file.h"
#include "core/health.h"
#include "plugin/dra/inside.h"
#include "plugin/dra/joint.h"
#include "plugin/dra/places.h"
#include "plugin/slots.h"

bool prepare_is_done(const struct journal_claim *entry)
{
	return entry->phase == JOURNAL_DONE && *entry->folder && !entry->absent;
}

static int check_health(const struct dra *dra, const struct claim *claim, struct fault *why)
{
	const struct plugin *p = dra->plugin;

	for (uint32_t i = 0; i < claim->devices; i++) {
		const char *uuid = p->host->device[claim->of[i]].uuid;

		if (health_is_gone(&p->health[claim->of[i]]))
			return fault_set(why, -ENODEV,
					 "device %s is gone from the bus: the container starts "
					 "when the device is back and healthy",
					 uuid);
		if (p->offer[claim->of[i]].dividing)
			return fault_set(why, -EAGAIN,
					 "device %s may be divided by MIG just now: the container "
					 "starts after that, if the device is still there",
					 uuid);
	}
	return 0;
}

/* When the claim has been read, and again when it has waited for its pods. */
static int check_devices(const struct dra *dra, const struct claim *claim, struct fault *why)
{
	for (uint32_t i = 0; i < claim->devices; i++) {
		const char *reason = dra_withheld(dra, claim->of[i]);

		if (!reason && !claim->is_admin && places_goes(dra, claim->of[i]))
			reason = "is a part that was made for a claim that has ended, and is "
				 "removed: no part is made any more";
		if (reason)
			return fault_set(why, -EBUSY, "device %s %s",
					 dra->plugin->host->device[claim->of[i]].uuid, reason);
	}
	return check_health(dra, claim, why);
}

/* Claims that are one tenant are named together: "default/first+second". */
static void name_tenant(const struct claim *claim, const struct joint *joint, char *name,
			size_t size)
{
	size_t used = (size_t)snprintf(name, size, "%s/", claim->namespace);

	for (uint32_t i = 0; i < joint->count && used < size; i++)
		used += (size_t)snprintf(name + used, size - used, "%s+",
					 joint->member[i]->claim->name);
	if (used < size)
		snprintf(name + used, size - used, "%s", claim->name);
}

static void add_devices(const struct claim *claim, struct host_tenant *spec)
{
	for (uint32_t i = 0; i < claim->devices && spec->devices < HOST_DEVICES; i++)
		spec->device[spec->devices++] = claim->of[i];
}

static int make_tenant(struct dra *dra, struct journal_claim *entry, const struct joint *joint,
		       struct fault *why)
{
	const struct host *host = dra->plugin->host;
	struct host_tenant spec = {.observes = entry->claim->is_admin};
	char name[600];

	if (journal_take(entry) < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < SHARE_FIELDS; i++)
		spec.texts[i] = entry->claim->texts[i];
	for (uint32_t i = 0; i < joint->count; i++)
		add_devices(joint->member[i]->claim, &spec);
	add_devices(entry->claim, &spec);
	name_tenant(entry->claim, joint, name, sizeof(name));
	spec.name = name;
	return host->make(host->daemon, &spec, &entry->tenant, entry->folder, why);
}

/* Each result is a CDI device of its own, because a container may use one of several requests. */
static void find_parts(const struct dra *dra, const struct claim *claim, struct slots_nodes *nodes,
		       struct inject_part parts[CLAIM_RESULTS])
{
	for (uint32_t i = 0; i < claim->results; i++) {
		parts[i].node_count =
			slots_find_nodes(dra->plugin, &claim->result[i].index, 1, &nodes[i]);
		parts[i].nodes = nodes[i].node;
	}
}

int prepare_write_cdi(struct dra *dra, const struct journal_claim *entry, struct fault *why)
{
	const struct claim *claim = entry->claim;
	/* Large, and mostly unused: not cleared. */
	owned(free) struct slots_nodes *nodes = malloc((claim->results + 1) * sizeof(*nodes));
	struct inject_part parts[CLAIM_RESULTS];
	char folder[PLUGIN_PATH], name[600];
	uint32_t of[HOST_DEVICES], count = joint_devices(dra, entry, of);
	struct inject_slot slot = {.kind = entry->kind,
				   .name = claim->uid,
				   .folder = folder,
				   .parts = parts,
				   .part_count = claim->results,
				   .claim = name};

	if (!nodes)
		return fault_set(why, -ENOMEM, "out of memory");
	snprintf(name, sizeof(name), "%s/%s", claim->namespace, claim->name);
	slots_on_host(dra->plugin, entry->folder, folder);
	find_parts(dra, claim, nodes, parts);
	best_effort(slots_find_nodes(dra->plugin, of, count, &nodes[claim->results]));
	slot.visible = nodes[claim->results].visible;
	return inject_write_cdi(entry->cdi_folder, dra->plugin->edits, &slot, why);
}

int prepare_undo(struct dra *dra, struct journal_claim *entry, struct fault *why)
{
	const struct host *host = dra->plugin->host;
	int r = 0;

	if (entry->phase != JOURNAL_ENDING) {
		entry->phase = JOURNAL_ENDING;
		if (entry->recorded)
			r = journal_write(&dra->journal, entry, host, why);
	}
	if (r == 0)
		r = inject_remove_cdi(entry->cdi_folder, entry->kind, entry->claim->uid, why);
	if (r < 0)
		return r;
	if (entry->tenant && !journal_is_joint(&dra->journal, entry))
		host->end(host->daemon, entry->tenant);
	*entry->folder = '\0';
	if (entry->tenant)
		log_info("claim.gone", "claim=%s/%s uid=%s tenant=%u", entry->claim->namespace,
			 entry->claim->name, entry->claim->uid, entry->tenant);
	return journal_drop(&dra->journal, entry, why);
}

static int take_steps(struct dra *dra, struct journal_claim *entry, struct joint *joint,
		      struct fault *why)
{
	const struct host *host = dra->plugin->host;
	int r = make_tenant(dra, entry, joint, why);

	if (r == 0)
		r = joint_move(dra, joint, entry, why);
	if (r == 0)
		r = prepare_write_cdi(dra, entry, why);
	if (r == 0) {
		entry->phase = JOURNAL_DONE;
		r = journal_write(&dra->journal, entry, host, why);
	}
	if (r == 0)
		joint_settle(dra, joint);
	else
		joint_back(dra, joint);
	return r;
}

/* None while plugin_settle() is retried after a failure; the sockets are served meanwhile. */
static int check_edits(const struct dra *dra, struct fault *why)
{
	return dra->plugin->edits
		       ? 0
		       : fault_set(
				 why, -EAGAIN,
				 "the driver's files are not known yet: the claim is prepared when "
				 "meted has found them, and its log says what is wrong");
}

static int begin(struct dra *dra, struct claim *claim, struct journal_claim **ret_entry,
		 struct fault *why)
{
	struct journal_claim *entry =
		journal_make(claim, dra->kind, dra->plugin->config->cdi_folder);
	int r = entry ? journal_announce(&dra->journal, entry->kind, entry->cdi_folder, why)
		      : fault_set(why, -ENOMEM, "out of memory");

	if (r < 0) {
		journal_free(entry);
		return r;
	}
	journal_add(&dra->journal, entry);
	*ret_entry = entry;
	return 0;
}

int prepare_read(struct dra *dra, const cJSON *object, const char *uid, struct claim **ret_claim,
		 struct fault *why)
{
	struct claim_device devices[HOST_DEVICES];
	struct config_share portion;
	struct claim_place place;
	struct claim *claim;
	int r = claim_check(object, uid, why);

	if (r < 0)
		return r;
	dra_place(dra, devices, &portion, &place);
	r = claim_read(object, &place, &claim, why);
	if (r < 0)
		return r;
	r = check_devices(dra, claim, why);
	if (r < 0)
		claim_free(claim);
	else
		*ret_claim = claim;
	return r;
}

/* The API server has shown this claim, so another one that had its name is gone, whatever the
 * kubelet knows of it; its share has been given away. */
static void end_namesakes(struct dra *dra, const struct claim *claim)
{
	struct fault why;

	list_for_each(link, &dra->journal.all)
	{
		struct journal_claim *entry = list_entry(link, struct journal_claim, link);
		const struct claim *other = entry->claim;

		if (strcmp(other->name, claim->name) != 0 ||
		    strcmp(other->namespace, claim->namespace) != 0 ||
		    strcmp(other->uid, claim->uid) == 0)
			continue;
		log_warning("claim.stale", "claim=%s/%s uid=%s", other->namespace, other->name,
			    other->uid);
		if (prepare_undo(dra, entry, &why) < 0)
			log_warning("claim.left", "reason=%s", log_text(why.text).text);
	}
}

/* An earlier preparation that was interrupted, or whose tenant is lost. */
static int end_earlier(struct dra *dra, const char *uid, struct fault *why)
{
	struct journal_claim *entry = journal_find(&dra->journal, uid);

	/* Programs that run keep what they hold, and the claim has it when the device is back. */
	if (entry && entry->absent)
		return fault_set(
			why, -ENODEV,
			"a device of the claim is missing: its containers start when meted "
			"is started with the device");
	return entry ? prepare_undo(dra, entry, why) : 0;
}

int prepare_claim(struct dra *dra, struct claim *claim, struct fault *why)
{
	struct journal_claim *entry;
	struct joint joint;
	struct fault other;
	int r = check_edits(dra, why);

	if (r == 0)
		r = check_devices(dra, claim, why);
	if (r == 0)
		r = end_earlier(dra, claim->uid, why);
	if (r == 0)
		end_namesakes(dra, claim);
	if (r == 0)
		r = joint_find(dra, claim, &joint, why);
	if (r < 0) {
		claim_free(claim);
		return r;
	}
	r = begin(dra, claim, &entry, why);
	if (r < 0)
		return r;
	r = take_steps(dra, entry, &joint, why);
	if (r < 0) {
		if (prepare_undo(dra, entry, &other) < 0)
			log_warning("claim.left", "reason=%s", log_text(other.text).text);
		return r;
	}
	adjust_claim(dra, entry);
	status_changed(dra, entry);
	log_info("claim.prepared", "claim=%s/%s uid=%s tenant=%u devices=%u", claim->namespace,
		 claim->name, claim->uid, entry->tenant, claim->devices);
	return 0;
}
