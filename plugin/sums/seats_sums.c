/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the node's sums from its devices, its pods and the shares of these. */
#include <string.h>

#include "base/least.h"
#include "plugin/sums/seats_inside.h"

/* Of memory, or of time. */
struct sum {
	uint64_t promised; /* of the devices in service */
	uint64_t unsaid;   /* of that, the present or coming shares of containers without amounts */
	uint64_t elsewhere; /* amounts of pods on devices that are out of service */
	uint64_t said;	    /* by all pods here */
};

struct summing {
	const struct plugin *plugin;
	struct seating_node node;
	uint64_t least_bytes; /* of a slot, on any device in service */
	uint32_t least_milli;
	struct sum bytes, milli;
	struct seats_index index;
	struct seats_bound bound;
};

static void add_dimension(struct sum *sum, uint64_t amount, bool said, bool closed)
{
	if (closed && said)
		sum->elsewhere += amount;
	else if (!closed && !said)
		sum->unsaid += amount;
}

static void add_seated(struct summing *s, const struct seating_container *it, bool said_memory,
		       bool said_milli)
{
	for (uint32_t g = 0; g < it->gpus; g++) {
		bool closed = s->node.device[it->device[g]].closed;

		add_dimension(&s->bytes, it->memory_bytes, said_memory, closed);
		add_dimension(&s->milli, it->milli, said_milli, closed);
	}
}

/* Init containers use the amounts of the containers after them. */
static void add_seat(struct summing *s, const struct seat *seat)
{
	for (uint32_t i = 0; seat->is.seated && i < seat->is.containers; i++) {
		const struct seating_container *it = &seat->is.container[i];

		if (it->kind != PLACEMENT_INIT)
			add_seated(s, it, !it->slot_memory, !it->slot_milli);
	}
}

static int container_of_pod(const struct pod *pod, const char *name)
{
	for (size_t i = 0; i < pod->container_count; i++)
		if (strcmp(pod->containers[i], name) == 0)
			return (int)i;
	return -1;
}

static void add_binding(struct summing *s, const struct binding *b)
{
	const struct pods *pods = s->plugin->pods;
	const struct pod *pod =
		*b->uid ? pods_find_uid(pods, b->uid) : pods_find(pods, b->namespace, b->pod);
	int at = pod ? container_of_pod(pod, b->container) : -1;
	const struct seat *seat = seats_index_find(&s->index, b);
	struct seating_pod alone;

	if (!b->devices || containers_is_foreign(s->plugin, b) || (seat && seats_cover(seat, b)))
		return;
	seats_sit_alone(s->plugin, b, &alone);
	add_seated(s, &alone.container[0], at >= 0 && *pod->amounts[at].memory,
		   at >= 0 && *pod->amounts[at].milli);
}

static bool has_begun(const struct summing *s, const struct pod *pod, const char *container)
{
	return seats_index_has(&s->index, pod) || seats_bound_has(&s->bound, pod, container);
}

/* Slots that the kubelet has been promised, and that have no device yet. */
static void add_pod(void *owner, const struct pod *pod)
{
	struct summing *s = owner;
	struct amounts all = amounts_of_pod(pod->amounts, pod->container_count);

	s->bytes.said += all.memory_bytes;
	s->milli.said += all.milli;
	for (size_t i = 0; i < pod->container_count; i++) {
		const struct amounts_said *said = &pod->amounts[i];
		uint64_t gpus = pod->inits[i] ? 0 : amounts_counted(said).gpus;

		if (!gpus || has_begun(s, pod, pod->containers[i]))
			continue;
		if (!*said->memory)
			s->bytes.unsaid += least(gpus, SEATING_DEVICES) * s->least_bytes;
		if (!*said->milli)
			s->milli.unsaid += least(gpus, SEATING_DEVICES) * s->least_milli;
	}
}

static uint64_t result(const struct sum *sum)
{
	uint64_t left = beyond(sum->promised, sum->unsaid) + sum->elsewhere;

	return most(left, sum->said);
}

static void add_devices(struct summing *s)
{
	s->least_bytes = UINT64_MAX;
	s->least_milli = UINT32_MAX;
	for (uint32_t i = 0; i < s->node.devices; i++) {
		const struct seating_device *it = &s->node.device[i];

		if (it->closed)
			continue;
		s->bytes.promised += it->promised_bytes;
		s->milli.promised += PLACEMENT_WHOLE;
		s->least_bytes = least(s->least_bytes, it->slot_bytes);
		s->least_milli = least(s->least_milli, it->slot_milli);
	}
	if (!s->bytes.promised)
		s->least_bytes = s->least_milli = 0;
}

bool seats_sums(const struct plugin *p, uint64_t *ret_bytes, uint64_t *ret_milli)
{
	struct summing s = {.plugin = p};

	if (!p->seats || !p->pods || !pods_known(p->pods) ||
	    seats_index_make(p->seats, &s.index) < 0)
		return false;
	if (seats_bound_make(p, &s.bound) < 0) {
		seats_index_free(&s.index);
		return false;
	}
	seats_node(p, &s.node);
	add_devices(&s);
	list_for_each(link, &p->seats->all) add_seat(&s, list_entry(link, struct seat, link));
	list_for_each(link, (struct list *)&p->bindings.all)
		add_binding(&s, list_entry(link, struct binding, link));
	pods_each(p->pods, add_pod, &s);
	seats_bound_free(&s.bound);
	seats_index_free(&s.index);
	*ret_bytes = result(&s.bytes);
	*ret_milli = result(&s.milli);
	return true;
}
