/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which pods have seats: tells core/placement/seating.h the devices and bindings as they
 * are now. */
#include <string.h>

#include "base/least.h"
#include "plugin/config/portion.h"
#include "plugin/sums/seats_inside.h"

static bool is_held(const struct plugin *p, uint32_t device)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (containers_is_foreign(p, b) && binding_place(b, device) >= 0)
			return true;
	}
	return false;
}

void seats_node(const struct plugin *p, struct seating_node *ret_node)
{
	/* MIG may have made more, which seats_fit() refuses, and with which meted starts again. */
	uint32_t count = (uint32_t)least(p->host->devices, SEATING_DEVICES);

	*ret_node = (struct seating_node){.devices = count};
	for (uint32_t i = 0; i < count; i++) {
		struct seating_device *it = &ret_node->device[i];
		uint64_t total = p->host->device[i].total_bytes;
		struct config_share portion;
		uint32_t slots, field;
		struct share slot;

		*it = (struct seating_device){
			.memory_bytes = p->offer[i].shared ? total : 0,
			.promised_bytes = config_promised(p->config, total),
			.numa = p->offer[i].numa > 0 ? (uint8_t)p->offer[i].numa : 0,
			.closed = true,
		};
		if (!entitled_portion(p, i, &slots, &portion) ||
		    portion_resolve(&portion, &slot, &field) != 0)
			continue;
		it->slot_bytes = portion_bytes(&slot, total);
		it->slot_milli = slot.guarantee_milli;
		it->closed = !p->offer[i].shared || !offer_is_open(&p->offer[i]) ||
			     p->enrol.rival || health_is_gone(&p->health[i]) || is_held(p, i);
	}
}

/* A container whose pod has no seat: it was bound by a meted before, perhaps without amounts. */
void seats_sit_alone(const struct plugin *p, const struct binding *b, struct seating_pod *pod)
{
	struct seating_container *it = &pod->container[0];
	struct share share;

	*pod = (struct seating_pod){
		.seated = true, .containers = 1, .yields = seats_binding_yields(b)};
	it->exclusive = b->exclusive;
	for (uint32_t i = 0; i < b->devices && it->gpus < SEATING_DEVICES; i++)
		it->device[it->gpus++] = (uint8_t)b->device[i];
	it->memory_bytes = b->counted_bytes;
	it->milli = b->counted_milli;
	if (b->counted || !b->devices)
		return;
	if (portion_resolve_texts(b->texts, &share) != 0)
		return;
	it->memory_bytes = portion_bytes(&share, p->host->device[b->device[0]].total_bytes);
	it->milli = share.guarantee_milli;
}

/* Its memory moves, and a higher class comes before it. */
bool seats_binding_yields(const struct binding *b)
{
	const char *class = b->texts[PORTION_class], *swap = b->texts[PORTION_swap];

	return class && swap && strcmp(class, "batch") == 0 && strcmp(swap, "auto") == 0;
}

/* All of it does: a container that has not started may be another one. */
static bool yields(const struct seat *seat)
{
	for (uint32_t i = 0; i < seat->is.containers; i++)
		if (!seat->bound[i] || !seats_binding_yields(seat->bound[i]))
			return false;
	return true;
}

/* Which containers of the seats' pods are bound. */
static void note_bindings(const struct plugin *p, const struct seats_index *index)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);
		struct seat *seat = seats_index_find(index, b);
		int place = seat ? seats_place(seat, b->container) : -1;

		if (seat)
			seat->started = true;
		if (place >= 0 && strcmp(seat->key[place], b->key) == 0)
			seat->bound[place] = b;
	}
}

/* Pods with a running container come first, then those of higher priority, then the older ones. */
static bool goes_before(const struct seat *a, const struct seat *b)
{
	return a->started != b->started ? a->started : a->priority > b->priority;
}

/* A seat on a GPU that is out of service, or that another pod has alone by now, is given up if no
 * container of the pod is bound. */
static void give_up(const struct seating_node *node,
		    const struct binding *const alone[SEATING_DEVICES], struct seat *seat)
{
	bool closed = false;

	for (uint32_t i = 0; i < seat->is.containers; i++) {
		if (*seat->key[i])
			return;
		for (uint32_t g = 0; seat->is.seated && g < seat->is.container[i].gpus; g++) {
			uint32_t device = seat->is.container[i].device[g];

			closed |= node->device[device].closed ||
				  (alone[device] && !seats_are_of(alone[device], seat));
		}
	}
	if (closed)
		seat->is.seated = false;
}

/* The list is in the order of arrival; waiting pods are moved towards the front. */
static void sort(struct seats *seats)
{
	list_for_each(link, &seats->all)
	{
		struct seat *seat = list_entry(link, struct seat, link);
		struct list *at = seat->link.prev;

		if (seat->is.seated)
			continue;
		while (at != &seats->all) {
			const struct seat *other = list_entry(at, struct seat, link);

			if (!other->is.seated && !goes_before(seat, other))
				break;
			at = at->prev;
		}
		if (at == seat->link.prev)
			continue;
		list_remove(&seat->link);
		list_prepend(at, &seat->link);
	}
}

/* No pod waits for room any more. */
static bool is_ending(const struct plugin *p, const struct seat *seat)
{
	const struct pod *pod = pods_find_uid(p->pods, seat->uid);

	return pod && pod->ending;
}

/* Its container comes with other ids, and is counted by its pod's seat. */
static bool is_former(const struct seat *seat, const struct binding *b)
{
	int place = seats_place(seat, b->container);

	return place >= 0 && !*seat->key[place];
}

/* All pods, the seated ones first; the pseudo-pods of bindings without a seat are in `alone`. */
static size_t gather(struct plugin *p, const struct seats_index *index, struct seating_pod **pods,
		     struct seating_pod *alone)
{
	struct seats *seats = p->seats;
	size_t count = 0;

	list_for_each(link, &seats->all)
	{
		struct seat *seat = list_entry(link, struct seat, link);

		if (seat->is.seated || !is_ending(p, seat))
			pods[count++] = &seat->is;
	}
	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);
		const struct seat *seat = seats_index_find(index, b);

		if (!b->devices || containers_is_foreign(p, b) ||
		    (seat && (seats_cover(seat, b) || is_former(seat, b))))
			continue;
		seats_sit_alone(p, b, alone);
		pods[count++] = alone++;
	}
	return count;
}

/* `most`: how many there can be. */
static int decide(struct plugin *p, const struct seating_node *node,
		  const struct seats_index *index, size_t most)
{
	owned(free) struct seating_pod **pods = calloc(most, sizeof(struct seating_pod *));
	owned(free) struct seating_pod *alone = calloc(most, sizeof(*alone));
	owned(free) void *memory = NULL;
	size_t count, size, wrong;

	if (!pods || !alone)
		return -ENOMEM;
	count = gather(p, index, pods, alone);
	size = seating_size(pods, count);
	memory = malloc(size);
	return memory ? seating_settle(node, pods, count, memory, size, &wrong) : -ENOMEM;
}

static int settle(struct plugin *p, const struct seats_index *index)
{
	const struct binding *alone[SEATING_DEVICES];
	struct seats *seats = p->seats;
	struct seating_node node;

	seats_node(p, &node);
	for (uint32_t i = 0; i < node.devices; i++)
		alone[i] = neighbours_owner(p, i);
	list_for_each(link, &seats->all)
	{
		struct seat *seat = list_entry(link, struct seat, link);

		memset(seat->bound, 0, sizeof(seat->bound));
		seat->started = false;
	}
	note_bindings(p, index);
	list_for_each(link, &seats->all)
	{
		struct seat *seat = list_entry(link, struct seat, link);

		seats_reread(p, seat);
		give_up(&node, alone, seat);
		seat->is.yields = yields(seat);
	}
	sort(seats);
	seats->devices = 0;
	for (uint32_t i = 0; i < node.devices; i++)
		seats->devices += !node.device[i].closed;
	return decide(p, &node, index, index->count + p->bindings.count + 1);
}

int seats_settle(struct plugin *p, struct fault *why)
{
	struct seats_index index;
	int r = seats_index_make(p->seats, &index);

	if (r == 0) {
		r = settle(p, &index);
		seats_index_free(&index);
	}
	return r < 0 ? fault_set(why, r, "the GPUs cannot be counted: %s", strerror(-r)) : r;
}
