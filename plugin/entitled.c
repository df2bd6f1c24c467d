/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/least.h"
#include "base/text.h"
#include "base/words.h"
#include "kube/json.h"
#include "plugin/config/annotations.h"
#include "plugin/kubelet/assigned.h"
#include "plugin/plugin.h"
#include "plugin/config/portion.h"
#include "plugin/sums/seats.h"
#include "wire/page.h"

enum {
	ENTRIES_MAX = 512, /* annotations of a pod, in our domain */
	PARTS_TEXT = 32,
};

struct config_device entitled_device(const struct plugin *p, uint32_t device)
{
	const struct host_device *info = &p->host->device[device];

	return (struct config_device){
		.index = info->gpu_index,
		.is_part = info->gpu_instance >= 0,
		.part_index = info->part_index,
		.uuid = info->uuid,
		.model = info->model,
		.total_bytes = info->total_bytes,
	};
}

bool entitled_portion(const struct plugin *p, uint32_t device, uint32_t *ret_slots,
		      struct config_share *ret_share)
{
	const struct config_device at = entitled_device(p, device);
	time_t now = time(NULL);
	struct tm local;

	localtime_r(&now, &local);
	return config_portion(p->config, &at, &local, ret_slots, ret_share);
}

void entitled_free(char *texts[SHARE_FIELDS])
{
	portion_texts_free(texts);
}

/* Several slots of a device are that many times its memory, weight and guarantee. */
struct parts {
	char memory[PARTS_TEXT], weight[PARTS_TEXT], guarantee[PARTS_TEXT], cap[PARTS_TEXT];
};

static void times(struct config_share *portion, uint32_t parts, uint64_t device_bytes,
		  struct parts *texts)
{
	struct share share;
	uint64_t bytes;
	uint32_t field;

	if (parts <= 1 || portion_resolve(portion, &share, &field) != 0)
		return;
	if (share_bytes(&share.memory, device_bytes, &bytes) != 0)
		bytes = device_bytes;
	bytes = bytes < device_bytes / parts ? bytes * parts : device_bytes;
	snprintf(texts->memory, PARTS_TEXT, "%" PRIu64 "B", bytes);
	snprintf(texts->weight, PARTS_TEXT, "%u",
		 (uint32_t)least((uint64_t)share.weight * parts, 10000));
	snprintf(texts->guarantee, PARTS_TEXT, "%u/1000",
		 (uint32_t)least((uint64_t)share.guarantee_milli * parts, share.cap_milli));
	portion->texts[PORTION_memory] = texts->memory;
	portion->texts[PORTION_weight] = texts->weight;
	portion->texts[PORTION_guarantee] = texts->guarantee;
}

/* Did the container itself say how much time it is to have? */
static bool says_milli(const struct pod *pod, const char *container)
{
	for (size_t i = 0; pod && i < pod->container_count; i++)
		if (strcmp(pod->containers[i], container) == 0)
			return *pod->amounts[i].milli;
	return false;
}

/* The counted amounts replace the slot's memory and guarantee. A cap below the guarantee is
 * raised to it. */
static void lay_counted(const struct plugin *p, const struct binding *b, const struct pod *pod,
			struct config_share *portion, struct parts *texts)
{
	struct config_share over = {0};
	struct share share;
	uint32_t field;
	bool caps = p->config->milli_caps && b->counted_milli && says_milli(pod, b->container);

	snprintf(texts->memory, PARTS_TEXT, "%" PRIu64 "B", b->counted_bytes);
	snprintf(texts->guarantee, PARTS_TEXT, "%u/1000", b->counted_milli);
	over.texts[PORTION_memory] = texts->memory;
	over.texts[PORTION_guarantee] = texts->guarantee;
	if (portion_resolve(portion, &share, &field) == 0) {
		uint32_t cap =
			caps ? b->counted_milli : (uint32_t)most(share.cap_milli, b->counted_milli);

		snprintf(texts->cap, PARTS_TEXT, "%u/1000", cap);
		if (cap != share.cap_milli)
			over.texts[PORTION_cap] = texts->cap;
	}
	portion_lay(portion, &over);
}

const struct binding *entitled_former(const struct plugin *p, const struct binding *b)
{
	const struct binding *was =
		binding_store_find((struct binding_store *)&p->bindings, b->key);

	if (!was || strcmp(was->uid, b->uid) != 0 || strcmp(was->pod, b->pod) != 0 ||
	    strcmp(was->namespace, b->namespace) != 0)
		return NULL;
	return was;
}

/* Memory and guarantee get no more than that: the present slots are too few for all containers. */
static void keep(const struct binding *was, uint64_t device_bytes, struct config_share *portion,
		 struct parts *texts)
{
	struct config_share before = {0}, over = {0};
	struct share then, now;
	uint32_t field;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		before.texts[i] = was->texts[i];
	if (portion_resolve(&before, &then, &field) != 0 ||
	    portion_resolve(portion, &now, &field) != 0)
		return;
	if (portion_bytes(&then, device_bytes) < portion_bytes(&now, device_bytes)) {
		snprintf(texts->memory, PARTS_TEXT, "%s", was->texts[PORTION_memory]);
		over.texts[PORTION_memory] = texts->memory;
	}
	if (then.guarantee_milli < now.guarantee_milli) {
		snprintf(texts->guarantee, PARTS_TEXT, "%u/1000", then.guarantee_milli);
		over.texts[PORTION_guarantee] = texts->guarantee;
	}
	portion_lay(portion, &over);
}

static int copy(const struct annotations_share *share, char *ret_texts[SHARE_FIELDS],
		struct fault *why)
{
	int r = portion_texts_copy(share->texts, ret_texts);

	return r < 0 ? fault_set(why, r, "out of memory") : 0;
}

/* The device is not shared out now, or has fewer slots than containers: a container keeps its
 * share of it, also when it starts again. >0: the texts are made. */
static int keep_former(const struct plugin *p, const struct binding *b, bool shared,
		       char *ret_texts[SHARE_FIELDS], bool *ret_exclusive, struct fault *why)
{
	const struct binding *was = entitled_former(p, b);
	const char *uuid = p->host->device[b->device[0]].uuid;
	struct annotations_share same = {.exclusive = false};
	int r;

	if (shared && !was)
		return fault_set(why, -EBUSY,
				 "%s has fewer slots than when this pod was admitted, and all of "
				 "them are in use: the container starts when another one has ended",
				 uuid);
	if (shared)
		return 0;
	if (!was || was == b)
		return fault_set(why, -ENODEV, "device %s is no longer shared out", uuid);
	memcpy(same.texts, was->texts, sizeof(same.texts));
	*ret_exclusive = was->exclusive;
	r = copy(&same, ret_texts, why);
	return r < 0 ? r : 1;
}

/* Reads those that may be ours: pods have many of others'. */
static int read_annotations(const cJSON *annotations, const char *domain,
			    struct annotation entries[ENTRIES_MAX], size_t *ret_count,
			    struct fault *why)
{
	const cJSON *item;
	size_t n = 0;

	cJSON_ArrayForEach(item, annotations)
	{
		if (!cJSON_IsString(item) || !strstr(item->string, domain))
			continue;
		if (n == ENTRIES_MAX)
			return fault_set(why, -E2BIG, "the pod has more than %d annotations of %s",
					 ENTRIES_MAX, domain);
		entries[n++] = (struct annotation){item->string, item->valuestring};
	}
	*ret_count = n;
	return 0;
}

/* For running containers. One that is about to start is refused later if this is impossible. */
static bool can_be_alone(const struct plugin *p, const struct binding *b)
{
	struct fault why;

	return binding_store_find((struct binding_store *)&p->bindings, b->key) != b ||
	       neighbours_check(p, b, true, &why) == 0;
}

/* Even a slot's own memory may have been promised to other containers if `most` allows that. A
 * running container gets as much as is left. */
static int fit(const struct plugin *p, const struct binding *b,
	       const struct annotations_input *input, struct annotations_share *share,
	       struct fault *why)
{
	uint64_t room = share->exclusive ? input->memory_room_alone : input->memory_room, bytes;
	struct config_share portion = {0};
	struct share whole;
	uint32_t field;

	memcpy(portion.texts, share->texts, sizeof(portion.texts));
	if (room == UINT64_MAX || portion_resolve(&portion, &whole, &field) != 0)
		return 0;
	bytes = portion_bytes(&whole, input->device_bytes);
	if (bytes <= room)
		return 0;
	if (!input->lower)
		return fault_set(
			why, -EBUSY,
			"the limits of the other containers on %s leave %s of its memory, and "
			"this one is to have %s: it has that when another one has ended, or "
			"asks for less",
			p->host->device[b->device[0]].uuid, text_size(room, TEXT_DOWN).text,
			text_size(bytes, TEXT_UP).text);
	snprintf(share->made[PORTION_memory], ANNOTATIONS_MADE, "%" PRIu64 "B", room);
	share->texts[PORTION_memory] = share->made[PORTION_memory];
	return 0;
}

static uint64_t smallest_device(const struct plugin *p, const struct binding *b)
{
	uint64_t smallest = UINT64_MAX;

	for (uint32_t i = 0; i < b->devices; i++) {
		uint64_t bytes = p->host->device[b->device[i]].total_bytes;

		if (bytes < smallest)
			smallest = bytes;
	}
	return smallest;
}

/* The bounds on the pod's requests, without its annotations and the slot's portion. */
static struct annotations_input input_of(const struct plugin *p, const struct binding *b,
					 const struct pod *pod, bool runs)
{
	return (struct annotations_input){
		.container = b->container,
		.containers = pod ? (const char *const *)pod->containers : NULL,
		.container_count = pod ? pod->container_count : 0,
		.inits = pod ? pod->inits : NULL,
		.domain = p->config->domain,
		.most = &p->config->most,
		.device_bytes = smallest_device(p, b),
		.placed = config_is_placed(p->config),
		.counted = b->counted,
		.lower = runs,
		.guarantee_room_milli = neighbours_room(p, b),
		.memory_room = neighbours_memory(p, b),
	};
}

/* Makes a slot's portion into the container's share before its annotations. */
static void lay_portion(const struct plugin *p, const struct binding *b, const struct pod *pod,
			bool crowded, uint64_t device_bytes, struct config_share *portion,
			struct parts *parts)
{
	/* The node's setting applies to each slot that has none of its own. */
	if (p->config->strangers == CONFIG_STRANGERS_KILL && !portion->texts[PORTION_unannounced])
		portion->texts[PORTION_unannounced] = "kill";
	times(portion, b->parts, device_bytes, parts);
	if (b->counted)
		lay_counted(p, b, pod, portion, parts);
	if (crowded)
		keep(entitled_former(p, b), device_bytes, portion, parts);
}

int entitled_share(const struct plugin *p, const struct binding *b, const struct pod *pod,
		   bool runs, char *ret_texts[SHARE_FIELDS], bool *ret_exclusive, struct fault *why)
{
	struct annotation entries[ENTRIES_MAX];
	struct annotations_input input = input_of(p, b, pod, runs);
	struct annotations_share share;
	struct config_share portion;
	struct parts parts;
	uint32_t slots;
	bool shared, crowded;
	int r = read_annotations(pod ? pod->annotations : NULL, p->config->domain, entries,
				 &input.count, why);

	if (r < 0)
		return r;
	input.entries = entries;
	shared = entitled_portion(p, b->device[0], &slots, &portion);
	crowded = shared && neighbours_crowded(p, b);
	if (!shared || crowded)
		r = keep_former(p, b, shared, ret_texts, ret_exclusive, why);
	if (r != 0)
		return r < 0 ? r : 0;
	lay_portion(p, b, pod, crowded, input.device_bytes, &portion, &parts);
	input.portion = &portion;
	input.memory_room_alone = can_be_alone(p, b) ? UINT64_MAX : input.memory_room;
	r = annotations_share(&input, &share, why);
	if (r == 0)
		r = fit(p, b, &input, &share, why);
	if (r < 0)
		return r;
	/* If mete's scheduler has chosen the devices, it keeps others off. */
	*ret_exclusive = share.exclusive && !input.placed;
	return copy(&share, ret_texts, why);
}

/* For containers whose devices mete's scheduler has chosen. */
struct assigned {
	const struct plugin *plugin;
	struct binding *binding;
	char last[61];
};

static int add_device(struct binding *b, uint32_t device)
{
	for (uint32_t i = 0; i < b->devices; i++)
		if (b->device[i] == device)
			return 0;
	if (b->devices == WIRE_DEVICES)
		return -ENOSPC;
	b->device[b->devices++] = device;
	return 0;
}

static int on_assigned(void *owner, const char *uuid)
{
	struct assigned *said = owner;
	int device = host_find(said->plugin->host, uuid);

	snprintf(said->last, sizeof(said->last), "%s", uuid ? uuid : "");
	return device < 0 ? -ENODEV : add_device(said->binding, (uint32_t)device);
}

static int read_assigned(const struct plugin *p, struct binding *b, const cJSON *annotations,
			 struct fault *why)
{
	struct assigned said = {.plugin = p, .binding = b};
	char key[CONFIG_NAME_MAX + 16];
	const char *text;
	int r;

	snprintf(key, sizeof(key), "%s/assigned", p->config->domain);
	text = json_text(annotations, key);
	if (!text)
		return fault_set(why, -ENOENT,
				 "the pod has no annotation %s: mete's scheduler has not placed it",
				 key);
	r = assigned_read(text, b->container, on_assigned, &said);
	if (r == -ENOENT)
		return fault_set(why, -EINVAL, "%s: no devices are named for container %s", key,
				 b->container);
	return r < 0 ? fault_set(why, -ENODEV, "%s: this node has no device '%.60s'", key,
				 words_show(said.last).text)
		     : 0;
}

int entitled_devices(struct plugin *p, struct binding *b, const struct pod *pod, struct fault *why)
{
	bool has[HOST_DEVICES] = {false};

	if (p->seats)
		return seats_take(p, b, pod, why);
	if (p->config->ids == CONFIG_IDS_SLOT) {
		b->parts = 1;
		return read_assigned(p, b, pod ? pod->annotations : NULL, why);
	}
	for (uint32_t i = 0; i < b->count; i++) {
		int device = offered_device(p, b->ids[i]);

		if (device < 0)
			return fault_set(why, -ENODEV,
					 "'%s' is not the id of a device of this node",
					 words_show(b->ids[i]).text);
		has[device] = true;
	}
	/* In the devices' order: the kubelet names ids in any. */
	for (uint32_t i = 0; i < p->host->devices; i++)
		if (has[i] && add_device(b, i) < 0)
			return fault_set(why, -ENOSPC, "more than %d devices", WIRE_DEVICES);
	/* A container from a meted that gave several slots of a device keeps them. By MPS it may
	 * have several replicas of one. */
	b->parts = b->count / b->devices;
	if (b->count > b->devices && !p->config->as_nvidia.mps && !entitled_former(p, b))
		return fault_set(
			why, -EINVAL,
			"%u slots are slots of %u devices, and the kubelet has given this "
			"container %u of %s: accepted: 1 slot with the limits of its annotations, "
			"or "
			"a node with free slots of so many devices (delete the pod, so that it "
			"is given others)",
			b->count, b->count, b->count / b->devices + (b->count % b->devices != 0),
			p->host->device[b->device[0]].uuid);
	return 0;
}
