/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other containers on a container's devices. Without mete's scheduler they were not considered
 * together before the kubelet gave each its ids. A combination that is not allowed is refused when
 * the last of them starts, or asks for more. The kubelet tries refused containers again.
 */
#include <string.h>

#include "base/least.h"
#include "kube/json.h"
#include "plugin/kubelet/allocated.h"
#include "plugin/plugin.h"
#include "plugin/config/portion.h"

enum { MILLI_ALL = 1000 };

static bool is_on(const struct binding *b, uint32_t device)
{
	return binding_place(b, device) >= 0;
}

static bool have_common(const struct binding *a, const struct binding *b)
{
	for (uint32_t i = 0; strcmp(a->resource, b->resource) == 0 && i < a->count; i++)
		for (uint32_t j = 0; j < b->count; j++)
			if (strcmp(a->ids[i], b->ids[j]) == 0)
				return true;
	return false;
}

/* A former holder of one of its ids has ended. */
static bool is_other(const struct binding *b, const struct binding *other)
{
	return other != b && strcmp(other->key, b->key) != 0 && !have_common(b, other);
}

static uint32_t guarantee_of(char *const texts[SHARE_FIELDS])
{
	struct share share;

	return portion_resolve_texts(texts, &share) == 0 ? share.guarantee_milli : 0;
}

/* The number of slots that its containers have, including `b`. */
static uint32_t used_slots(const struct plugin *p, const struct binding *b, uint32_t device)
{
	uint32_t used = b->parts;

	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *other = list_entry(link, struct binding, link);

		if (is_other(b, other) && is_on(other, device))
			used += other->parts;
	}
	return used;
}

/* If ids name no device, the scheduler that has chosen the devices has also counted them. */
bool neighbours_crowded(const struct plugin *p, const struct binding *b)
{
	for (uint32_t i = 0; p->config->ids != CONFIG_IDS_SLOT && i < b->devices; i++) {
		struct config_share portion;
		uint32_t slots;

		if (entitled_portion(p, b->device[i], &slots, &portion) &&
		    used_slots(p, b, b->device[i]) > slots)
			return true;
	}
	return false;
}

static uint32_t room_on(const struct plugin *p, const struct binding *b, uint32_t device)
{
	struct config_share portion;
	struct share slot;
	uint32_t slots, field, used = used_slots(p, b, device), own;
	uint64_t taken = 0;

	if (!entitled_portion(p, device, &slots, &portion) ||
	    portion_resolve(&portion, &slot, &field) != 0)
		return MILLI_ALL;
	/* If there are more containers than slots now, each keeps its share. */
	own = used > slots && p->config->ids != CONFIG_IDS_SLOT ? 0 : slot.guarantee_milli;
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *other = list_entry(link, struct binding, link);

		if (!is_other(b, other) || !is_on(other, device))
			continue;
		taken += most(guarantee_of(other->texts), other->parts * own);
	}
	if (used < slots)
		taken += (uint64_t)(slots - used) * slot.guarantee_milli;
	return taken < MILLI_ALL ? MILLI_ALL - (uint32_t)taken : 0;
}

uint32_t neighbours_room(const struct plugin *p, const struct binding *b)
{
	uint32_t room = MILLI_ALL;

	/* Counted amounts are the container's own. */
	for (uint32_t i = 0; !b->counted && i < b->devices; i++) {
		uint32_t here = room_on(p, b, b->device[i]);

		room = least(room, here);
	}
	return room;
}

/* Its limit on the device; 0: it has none, and is promised nothing. */
static uint64_t memory_of(char *const texts[SHARE_FIELDS], uint64_t device_bytes)
{
	struct share share;

	if (!texts[PORTION_memory] || portion_resolve_texts(texts, &share) != 0)
		return 0;
	return portion_bytes(&share, device_bytes);
}

/* The rest of the memory that may be promised. Each container on the device counts with its slot
 * at least: one that asks for less may want it back. */
static uint64_t memory_on(const struct plugin *p, const struct binding *b, uint32_t device)
{
	uint64_t total = p->host->device[device].total_bytes, taken = 0, slot, all;
	const struct binding *was = entitled_former(p, b);
	struct config_share portion;
	uint32_t slots;

	if (!entitled_portion(p, device, &slots, &portion) || !portion.texts[PORTION_memory])
		return UINT64_MAX;
	/* The present slots are too few for all containers: each keeps its share. */
	slot = used_slots(p, b, device) > slots ? 0 : memory_of((char **)portion.texts, total);
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *other = list_entry(link, struct binding, link);

		if (is_other(b, other) && is_on(other, device))
			taken += most(memory_of(other->texts, total), other->parts * slot);
	}
	all = beyond(config_promised(p->config, total), taken);
	/* Its share is its own, even if more was promised since. */
	return was ? most(all, memory_of(was->texts, total)) : all;
}

uint64_t neighbours_memory(const struct plugin *p, const struct binding *b)
{
	uint64_t room = UINT64_MAX;

	/* Likewise. */
	for (uint32_t i = 0; p->config->ids != CONFIG_IDS_SLOT && i < b->devices; i++) {
		uint64_t here = memory_on(p, b, b->device[i]);

		room = least(room, here);
	}
	return room;
}

const struct binding *neighbours_owner(const struct plugin *p, uint32_t device)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (b->exclusive && is_on(b, device))
			return b;
	}
	return NULL;
}

/* Containers of one pod count as one holder. */
static bool are_one_pods(const struct binding *a, const struct binding *b)
{
	return *a->uid ? strcmp(a->uid, b->uid) == 0
		       : strcmp(a->pod, b->pod) == 0 && strcmp(a->namespace, b->namespace) == 0;
}

static int check_device(const struct plugin *p, const struct binding *b, bool exclusive,
			uint32_t device, struct fault *why)
{
	const char *uuid = p->host->device[device].uuid;

	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *other = list_entry(link, struct binding, link);

		if (!is_other(b, other) || !is_on(other, device) || are_one_pods(b, other))
			continue;
		if (containers_is_foreign(p, other))
			return fault_set(why, -EBUSY,
					 "pod %s/%s has a share of %s under another resource (%s) "
					 "until it ends",
					 other->namespace, other->pod, uuid, other->resource);
		if (other->exclusive)
			return fault_set(
				why, -EBUSY,
				"%s belongs to pod %s/%s alone (%s/exclusive) until that pod ends",
				uuid, other->namespace, other->pod, p->config->domain);
		if (exclusive)
			return fault_set(why, -EBUSY,
					 "%s/exclusive: pod %s/%s has a slot of %s, which can be "
					 "exclusive to another pod only when that pod has ended",
					 p->config->domain, other->namespace, other->pod, uuid);
	}
	return 0;
}

/* A container that was given a slot of a device that another one wants exclusively, and that has
 * not started. */
struct waiting {
	const struct plugin *plugin;
	const struct binding *binding;
	char text[300]; /* "": none */
};

static bool is_started(const struct plugin *p, const char *uid)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		if (strcmp(list_entry(link, struct binding, link)->uid, uid) == 0)
			return true;
	}
	return false;
}

/* By the whole pod, or by one of its containers. */
static bool wants_alone(const struct plugin *p, const struct pod *pod)
{
	char name[CONFIG_NAME_MAX + 16];
	const cJSON *item;

	snprintf(name, sizeof(name), "%s/exclusive", p->config->domain);
	cJSON_ArrayForEach(item, pod->annotations)
	{
		const char *at = cJSON_IsString(item) ? strstr(item->string, name) : NULL;

		if (at && !at[strlen(name)] && strcmp(item->valuestring, "true") == 0)
			return true;
	}
	return false;
}

static void on_given(void *owner, const struct pod *pod, const char *uid, const char *id)
{
	struct waiting *w = owner;
	const struct plugin *p = w->plugin;
	int device = offered_device(p, id);
	const struct binding *alone = device < 0 ? NULL : neighbours_owner(p, (uint32_t)device);

	if (device < 0 || !is_on(w->binding, (uint32_t)device) || !*w->binding->uid ||
	    strcmp(uid, w->binding->uid) == 0 || is_started(p, uid))
		return;
	/* Its pod has the device exclusively already: the other one came too late. */
	if (alone && are_one_pods(alone, w->binding))
		return;
	/* If two wait for each other, one goes first. */
	if (pod && wants_alone(p, pod) && strcmp(w->binding->uid, uid) < 0)
		return;
	snprintf(w->text, sizeof(w->text), "pod %s/%s was given a slot of %s",
		 pod ? pod->namespace : "?", pod ? pod->name : uid, p->host->device[device].uuid);
}

/* A container that starts later would be refused as long as the other one is exclusive. */
static int check_waiting(const struct plugin *p, const struct binding *b, struct fault *why)
{
	struct waiting w = {.plugin = p, .binding = b};

	allocated_each(p, on_given, &w);
	return *w.text ? fault_set(why, -EBUSY,
				   "%s/exclusive: %s, which can be exclusive to another pod only "
				   "when that pod has ended",
				   p->config->domain, w.text)
		       : 0;
}

int neighbours_check(const struct plugin *p, const struct binding *b, bool exclusive,
		     struct fault *why)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < b->devices; i++)
		r = check_device(p, b, exclusive, b->device[i], why);
	return r == 0 && exclusive ? check_waiting(p, b, why) : r;
}
