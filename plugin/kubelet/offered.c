/* SPDX-License-Identifier: Apache-2.0 */
/* The ids reported to the kubelet: as many as the configuration says, and those that are bound. */
#include <string.h>

#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/dra/dra.h"
#include "plugin/kubelet/allocated.h"
#include "plugin/kubelet/numa.h"
#include "plugin/mps/mps.h"
#include "plugin/nvidia/parts.h"
#include "plugin/plugin.h"

/* In a container this is the host's /sys, too, unless it is hidden there. */
int offered_numa(const struct plugin *p, const char *pci)
{
	int node = numa_node(p->config->driver_root, pci);

	return node >= 0 ? node : numa_node("/", pci);
}

/* The id that NVIDIA's plugin would give it. */
static void offer_kind(struct plugin *p, uint32_t device)
{
	const struct serving *s = kinds_of(p, device);
	struct offer *offer = &p->offer[device];

	offer->shared &= s != NULL;
	offer->serving = s ? (uint32_t)(s - p->serving) : SERVINGS_MAX;
	offer->slots = s && s->replicas ? s->replicas : 1;
}

void offered_find(struct plugin *p)
{
	for (uint32_t i = 0; i < p->host->devices; i++) {
		struct config_share share;

		p->offer[i].numa = offered_numa(p, p->host->device[i].pci);
		p->offer[i].shared = entitled_portion(p, i, &p->offer[i].slots, &share) &&
				     !p->host->device[i].gone && !parts_hides(p->parts, i);
		p->offer[i].claimed = p->offer[i].shared && p->config->has_mete && p->config->dra;
		p->offer[i].shared = p->offer[i].shared && !p->offer[i].claimed;
		p->offer[i].serving = 0;
		if (!p->config->has_mete)
			offer_kind(p, i);
	}
}

/* At least up to the highest that is bound: the ids of a container are never withdrawn. */
uint32_t offered_ids(const struct plugin *p, uint32_t device)
{
	uint32_t n = p->offer[device].shared ? p->offer[device].slots : 0;

	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; !containers_is_foreign(p, b) && i < b->count; i++) {
			int number = ids_number(b->ids[i], p->host->device[device].uuid);

			if (number >= (int)n && number < CONFIG_SLOTS_MAX)
				n = (uint32_t)number + 1;
		}
	}
	return n;
}

/* Likewise for ids that name no device. */
static uint32_t slot_ids(const struct plugin *p, uint32_t *ret_slots)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->host->devices; i++)
		n += p->offer[i].shared ? p->offer[i].slots : 0;
	*ret_slots = n;
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; !containers_is_foreign(p, b) && i < b->count; i++)
			if (ids_slot(b->ids[i]) >= (int)n && offered_could_be(p, b->ids[i]))
				n = (uint32_t)ids_slot(b->ids[i]) + 1;
	}
	return n;
}

/* As in NVIDIA's plugin, a device that is given whole is its own id. */
static bool is_whole(const struct plugin *p, uint32_t device)
{
	return !p->config->has_mete && p->offer[device].serving < p->servings &&
	       !p->serving[p->offer[device].serving].replicas;
}

int offered_device(const struct plugin *p, const char *id)
{
	int made = parts_device(p->parts, id);

	if (made >= 0)
		return made;
	for (uint32_t i = 0; i < p->host->devices; i++) {
		int number = ids_number(id, p->host->device[i].uuid);

		if (is_whole(p, i) && strcmp(p->host->device[i].uuid, id) == 0)
			return (int)i;
		if (number >= 0 && !is_whole(p, i))
			return number < CONFIG_SLOTS_MAX ? (int)i : -1;
	}
	return -1;
}

/* This includes ids that were withdrawn a moment ago: when one is given to a container, it is bound
 * and thereby returns. */
bool offered_could_be(const struct plugin *p, const char *id)
{
	if (p->config->ids == CONFIG_IDS_SLOT)
		return ids_slot(id) >= 0 && ids_slot(id) < CONFIG_SLOTS_MAX * HOST_DEVICES;
	return offered_device(p, id) >= 0;
}

/* By a container that had a share of it under another name, or before it was NVIDIA's; or by a
 * claim. */
static bool is_held(const struct plugin *p, uint32_t device)
{
	bool held = p->offer[device].held || dra_has(p->dra, device);

	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; containers_is_foreign(p, b) && i < b->devices; i++)
			held |= b->device[i] == device;
	}
	return held;
}

static bool any_healthy(const struct plugin *p)
{
	for (uint32_t i = 0; i < p->host->devices; i++)
		if (p->offer[i].shared && offer_is_open(&p->offer[i]) && !is_held(p, i) &&
		    !p->enrol.rival)
			return true;
	return false;
}

/* The answer of ListAndWatch. */
struct rows {
	V1beta1__Device *row;
	V1beta1__Device **list;
	char (*id)[IDS_BYTES];
	/* Of each device. */
	V1beta1__TopologyInfo topology[HOST_DEVICES];
	V1beta1__NUMANode node[HOST_DEVICES], *nodes[HOST_DEVICES];
	uint32_t count;
};

static void rows_owned(struct rows *rows)
{
	free(rows->row);
	free(rows->list);
	free(rows->id);
}

static void add(struct rows *rows, bool healthy, V1beta1__TopologyInfo *topology)
{
	V1beta1__Device *row = &rows->row[rows->count];

	v1beta1__device__init(row);
	row->topology = topology;
	row->id = rows->id[rows->count];
	row->health = healthy ? (char *)"Healthy" : (char *)"Unhealthy";
	rows->list[rows->count++] = row;
}

static int make_rows(struct rows *rows, uint32_t most)
{
	*rows = (struct rows){.row = calloc(most + 1, sizeof(*rows->row)),
			      .list = calloc(most + 1, sizeof(struct V1beta1__Device *)),
			      .id = calloc(most + 1, sizeof(*rows->id))};
	return rows->row && rows->list && rows->id ? 0 : -ENOMEM;
}

/* NULL: it is not known. */
static V1beta1__TopologyInfo *topology_of(const struct plugin *p, struct rows *rows,
					  uint32_t device)
{
	V1beta1__TopologyInfo *topology = &rows->topology[device];

	if (p->offer[device].numa < 0)
		return NULL;
	v1beta1__numanode__init(&rows->node[device]);
	rows->node[device].id = p->offer[device].numa;
	rows->nodes[device] = &rows->node[device];
	v1beta1__topology_info__init(topology);
	topology->nodes = &rows->nodes[device];
	topology->n_nodes = 1;
	return topology;
}

/* The ids that a container may have: those of a device, or those that name none (uuid: NULL). */
struct open_ids {
	const char *uuid;
	uint32_t used; /* ids that containers have, whether started or not */
	bool is[CONFIG_SLOTS_MAX * HOST_DEVICES];
};

static void open_id(struct open_ids *open, const char *id)
{
	int number = open->uuid ? ids_number(id, open->uuid) : ids_slot(id);

	if (number < 0 || number >= (int)ARRAY_SIZE(open->is) || open->is[number])
		return;
	open->is[number] = true;
	open->used++;
}

static void on_given(void *owner, const struct pod *pod, const char *uid, const char *id)
{
	(void)pod;
	(void)uid;
	open_id(owner, id);
}

/* The ids that are in use, or were given to a container that has not started yet. (A restarted
 * kubelet refuses a pod whose ids are not healthy.) */
static void open_used(const struct plugin *p, struct open_ids *open)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; !containers_is_foreign(p, b) && i < b->count; i++)
			open_id(open, b->ids[i]);
	}
	allocated_each(p, on_given, open);
}

/* Adds others, so that no more than `slots` are in use at a time: a container may have an id from
 * when there were more of them. */
static void find_open(const struct plugin *p, uint32_t slots, uint32_t count, struct open_ids *open)
{
	uint32_t n = 0;

	if (count == slots) {
		memset(open->is, true, count * sizeof(open->is[0]));
		return;
	}
	open->used = 0;
	memset(open->is, 0, sizeof(open->is));
	open_used(p, open);
	for (uint32_t left = open->used < slots ? slots - open->used : 0; left && n < slots; n++) {
		left -= !open->is[n];
		open->is[n] = true;
	}
}

static int list_slots(const struct plugin *p, struct rows *rows)
{
	uint32_t slots, total = slot_ids(p, &slots);
	bool healthy = any_healthy(p);
	struct open_ids open = {.uuid = NULL};
	int r = make_rows(rows, total);

	find_open(p, slots, total, &open);
	for (uint32_t n = 0; r == 0 && n < total; n++) {
		ids_of_slot(n, rows->id[n]);
		add(rows, healthy && open.is[n], NULL);
	}
	return r;
}

/* Parts that could be made. */
static void add_places(struct rows *rows, const struct parts_offered *place, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		snprintf(rows->id[rows->count], IDS_BYTES, "%.63s", place[i].id);
		add(rows, place[i].healthy, NULL);
	}
}

static void add_ids(const struct plugin *p, struct rows *rows, uint32_t device, uint32_t count)
{
	const char *uuid = p->host->device[device].uuid;
	struct open_ids open;
	V1beta1__TopologyInfo *topology = topology_of(p, rows, device);
	bool is_well = offer_is_open(&p->offer[device]) && !p->host->device[device].gone &&
		       !is_held(p, device) && !p->enrol.rival && mps_is_open(p->mps, device);
	/* Of a device that a container has exclusively, no others. */
	bool shared = p->offer[device].shared && !neighbours_owner(p, device);

	open.uuid = uuid;
	find_open(p, shared ? p->offer[device].slots : 0, count, &open);
	for (uint32_t n = 0; n < count; n++) {
		if (is_whole(p, device))
			snprintf(rows->id[rows->count], IDS_BYTES, "%.63s", uuid);
		else
			ids_of_device(uuid, n, rows->id[rows->count]);
		add(rows, is_well && open.is[n], topology);
	}
}

/* Those that the resource has. */
static int list_devices(const struct serving *s, struct rows *rows)
{
	const struct plugin *p = s->plugin;
	uint32_t number = (uint32_t)(s - p->serving);
	uint32_t count[HOST_DEVICES] = {0}, total = 0, places = 0;
	owned(free) struct parts_offered *place =
		p->parts ? calloc(PARTS_OFFERED, sizeof(*place)) : NULL;
	int r;

	for (uint32_t i = 0; i < p->host->devices; i++)
		total += count[i] = p->offer[i].serving == number ? offered_ids(p, i) : 0;
	if (place)
		places = parts_offer(p->parts, s->resource, place, PARTS_OFFERED);
	r = make_rows(rows, total + places);
	if (r < 0)
		return r;
	add_places(rows, place, places);
	for (uint32_t i = 0; i < p->host->devices; i++)
		add_ids(p, rows, i, count[i]);
	return 0;
}

int offered_pack(const struct serving *s, uint8_t **ret_bytes, size_t *ret_size)
{
	const struct plugin *p = s->plugin;
	V1beta1__ListAndWatchResponse response = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
	owned(rows) struct rows rows = {0};
	uint8_t *bytes;
	int r = p->config->ids == CONFIG_IDS_SLOT ? list_slots(p, &rows) : list_devices(s, &rows);

	if (r < 0)
		return r;
	response.n_devices = rows.count;
	response.devices = rows.list;
	*ret_size = protobuf_c_message_get_packed_size(&response.base);
	bytes = malloc(*ret_size + 1);
	if (!bytes)
		return -ENOMEM;
	protobuf_c_message_pack(&response.base, bytes);
	*ret_bytes = bytes;
	return 0;
}
