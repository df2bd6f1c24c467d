/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/placement/seating_books.h"

enum { SHAPES = 4 };

static struct placement_limits limits_for(struct seating_pod *const *pods, size_t count)
{
	struct placement_limits limits = {
		.nodes = 1, .pods = (uint32_t)count + 1, .charges = 1, .shapes = SHAPES};

	for (size_t i = 0; i < count; i++)
		for (uint32_t c = 0; c < pods[i]->containers && c < PLACEMENT_CONTAINERS; c++)
			limits.charges += pods[i]->container[c].gpus;
	return limits;
}

size_t seating_size(struct seating_pod *const *pods, size_t count)
{
	const struct placement_limits limits = limits_for(pods, count);

	return placement_size(&limits);
}

struct placement_request seating_request(const struct seating_pod *pod)
{
	struct placement_request request = {.node = PLACEMENT_ANYWHERE,
					    .numa = PLACEMENT_PREFER,
					    .containers = pod->containers};

	for (uint32_t i = 0; i < pod->containers; i++) {
		const struct seating_container *it = &pod->container[i];

		request.container[i] = (struct placement_container){
			.memory_bytes = it->memory_bytes,
			.compute_milli = it->milli,
			.devices = it->gpus,
			.kind = it->kind,
			.exclusive = it->exclusive,
		};
	}
	return request;
}

int seating_valid(const struct seating_pod *pod)
{
	struct placement_request request;

	if (!pod->containers || pod->containers > PLACEMENT_CONTAINERS)
		return -EINVAL;
	request = seating_request(pod);
	for (uint32_t i = 0; i < pod->containers; i++)
		if (!pod->container[i].gpus)
			return -EINVAL;
	return placement_valid(&request);
}

static int open_books(struct seating_books *books, const struct seating_node *node,
		      const struct placement_limits *limits, void *memory, size_t size)
{
	const struct placement_config config = {.policy = PLACEMENT_BINPACK};
	struct placement_node host = {.devices = (uint8_t)node->devices};

	books->node = node;
	books->alone = 0;
	if (!node->devices || node->devices > SEATING_DEVICES)
		return -EINVAL;
	for (uint32_t i = 0; i < node->devices; i++) {
		const struct seating_device *it = &node->device[i];

		/* A closed one has nothing: otherwise it would be the reason why a pod waits, and
		 * the others' lack would not be told. */
		host.device[i] = (struct placement_device){
			.memory_bytes = it->closed ? 0 : it->promised_bytes,
			.most_bytes = it->memory_bytes,
			.compute_milli = it->closed ? 0 : PLACEMENT_WHOLE,
			.numa = it->numa,
			.lost = it->closed,
		};
	}
	if (placement_init(memory, size, limits, &books->placement) < 0)
		return -ENOSPC;
	if (placement_configure(books->placement, &config) < 0)
		return -EINVAL;
	return placement_add_node(books->placement, &host, &books->number);
}

static void note_alone(struct seating_books *books, const struct seating_pod *pod)
{
	for (uint32_t c = 0; c < pod->containers; c++)
		for (uint32_t i = 0; pod->container[c].exclusive && i < pod->container[c].gpus; i++)
			books->alone |= 1u << pod->container[c].device[i];
}

static void sit(struct seating_pod *pod, const struct placement_assignment *assignment)
{
	uint8_t taken[PLACEMENT_CONTAINERS] = {0};

	for (uint32_t device = 0; device < SEATING_DEVICES; device++)
		for (uint32_t i = 0; i < assignment->size; i++) {
			uint8_t c = assignment->slot[i].container;

			if (assignment->slot[i].device == device)
				pod->container[c].device[taken[c]++] = (uint8_t)device;
		}
	pod->seated = true;
}

/* Pods that have a seat keep it, whether they fit or not. */
static int adopt(struct seating_books *books, const struct seating_pod *pod)
{
	struct placement_request request = seating_request(pod);
	struct placement_assignment assignment = {.size = 0};
	uint64_t name;

	note_alone(books, pod);
	for (uint8_t c = 0; c < pod->containers && books->parked && pod->yields; c++)
		request.container[c].memory_bytes = 0;
	for (uint8_t c = 0; c < pod->containers; c++)
		for (uint32_t i = 0; i < pod->container[c].gpus; i++)
			assignment.slot[assignment.size++] = (struct placement_slot){
				.container = c, .device = pod->container[c].device[i]};
	return placement_adopt(books->placement, &request, books->number, &assignment, 0, &name);
}

/* With its amounts as they are now, on these devices. 1: it is seated. */
static int seat(struct seating_books *books, struct seating_pod *pod, uint32_t devices)
{
	struct placement_request request = seating_request(pod);
	struct placement_decision decision;
	uint64_t name;
	int r;

	request.node = (int32_t)books->number;
	request.named_devices = devices;
	r = placement_decide(books->placement, &request, &decision);
	if (r != 0)
		return r < 0 ? r : 0;
	r = placement_commit(books->placement, &request, books->number, &decision.assignment, 0,
			     &name);
	if (r != 0)
		return r < 0 ? r : -EINVAL;
	sit(pod, &decision.assignment);
	note_alone(books, pod);
	return 1;
}

static void set_slot(struct seating_pod *pod, uint64_t bytes, uint32_t milli)
{
	for (uint32_t i = 0; i < pod->containers; i++) {
		struct seating_container *it = &pod->container[i];

		if (it->slot_memory)
			it->memory_bytes = bytes;
		if (it->slot_milli)
			it->milli = milli;
	}
}

static bool has_amounts(const struct seating_pod *pod)
{
	for (uint32_t i = 0; i < pod->containers; i++)
		if (pod->container[i].slot_memory || pod->container[i].slot_milli)
			return false;
	return true;
}

/* The device with the next larger slot after (bytes, milli); -1: there is none. */
static int next_slot(const struct seating_node *node, const struct seating_device *after)
{
	int next = -1;

	for (uint32_t i = 0; i < node->devices; i++) {
		const struct seating_device *it = &node->device[i];
		const struct seating_device *best = next < 0 ? NULL : &node->device[next];

		if (it->closed)
			continue;
		if (after &&
		    (it->slot_bytes < after->slot_bytes ||
		     (it->slot_bytes == after->slot_bytes && it->slot_milli <= after->slot_milli)))
			continue;
		if (!best || it->slot_bytes < best->slot_bytes ||
		    (it->slot_bytes == best->slot_bytes && it->slot_milli < best->slot_milli))
			next = (int)i;
	}
	return next;
}

static uint32_t same_slots(const struct seating_node *node, const struct seating_device *as)
{
	uint32_t devices = 0;

	for (uint32_t i = 0; i < node->devices; i++)
		if (node->device[i].slot_bytes == as->slot_bytes &&
		    node->device[i].slot_milli == as->slot_milli)
			devices |= 1u << i;
	return devices;
}

/* A slot of GPUs of different size is different: those with the smallest slots come first. A pod
 * that no kind of them can take alone has the largest of those slots on each. */
static int seat_slots(struct seating_books *books, struct seating_pod *pod)
{
	const struct seating_device *kind = NULL;
	uint64_t bytes = 0;
	uint32_t milli = 0, kinds = 0;
	int r = 0, next;

	while (r == 0 && (next = next_slot(books->node, kind)) >= 0) {
		kind = &books->node->device[next];
		bytes = kind->slot_bytes;
		milli = kind->slot_milli > milli ? kind->slot_milli : milli;
		set_slot(pod, bytes, kind->slot_milli);
		r = seat(books, pod, same_slots(books->node, kind));
		kinds++;
	}
	if (r != 0)
		return r;
	set_slot(pod, bytes, milli);
	return kinds > 1 ? seat(books, pod, 0) : 0;
}

static int adopt_all(struct seating_books *books, struct seating_pod *const *pods, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		if (pods[i]->seated)
			r = adopt(books, pods[i]);
	return r;
}

static bool anybody_parks(struct seating_pod *const *pods, size_t count)
{
	bool yields = false, waits = false;

	for (size_t i = 0; i < count; i++) {
		yields |= pods[i]->seated && pods[i]->yields;
		waits |= !pods[i]->seated && pods[i]->above;
	}
	return yields && waits;
}

/* Seats pods that fit if pods that yield are parked. Returns how many were seated; the books are
 * then as they were, with these. */
static int seat_above(struct seating_books *books, const struct placement_limits *limits,
		      struct seating_pod *const *pods, size_t count, void *memory, size_t size)
{
	int r, seated = 0;

	if (!anybody_parks(pods, count))
		return 0;
	r = open_books(books, books->node, limits, memory, size);
	books->parked = true;
	if (r == 0)
		r = adopt_all(books, pods, count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (pods[i]->seated || !pods[i]->above)
			continue;
		r = has_amounts(pods[i]) ? seat(books, pods[i], 0) : seat_slots(books, pods[i]);
		seated += r > 0;
		r = r > 0 ? 0 : r;
	}
	books->parked = false;
	if (r == 0)
		r = open_books(books, books->node, limits, memory, size);
	if (r == 0)
		r = adopt_all(books, pods, count);
	return r < 0 ? r : seated;
}

/* Seated pods keep their seats; the others must be such that they can be seated. */
static int adopt_or_check(struct seating_books *books, struct seating_pod *const *pods,
			  size_t count, size_t *ret_wrong)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		*ret_wrong = i;
		r = pods[i]->seated ? adopt(books, pods[i]) : seating_valid(pods[i]);
	}
	return r;
}

/* How many have been seated. */
static int seat_all(struct seating_books *books, struct seating_pod *const *pods, size_t count,
		    size_t *ret_wrong)
{
	int seated = 0;

	for (size_t i = 0; i < count; i++) {
		int r;

		if (pods[i]->seated)
			continue;
		*ret_wrong = i;
		r = has_amounts(pods[i]) ? seat(books, pods[i], 0) : seat_slots(books, pods[i]);
		if (r < 0)
			return r;
		seated += r > 0;
	}
	return seated;
}

int seating_settle(const struct seating_node *node, struct seating_pod *const *pods, size_t count,
		   void *memory, size_t size, size_t *ret_wrong)
{
	const struct placement_limits limits = limits_for(pods, count);
	struct seating_books books = {.parked = false};
	int r = open_books(&books, node, &limits, memory, size), seated;

	*ret_wrong = count;
	if (r == 0)
		r = adopt_or_check(&books, pods, count, ret_wrong);
	seated = r == 0 ? seat_all(&books, pods, count, ret_wrong) : r;
	if (seated < 0)
		return seated;
	r = seat_above(&books, &limits, pods, count, memory, size);
	if (r < 0)
		return r;
	/* Others may have been seated since. */
	for (size_t i = 0; i < count; i++)
		if (!pods[i]->seated)
			seating_explain(&books, pods[i]);
	return seated + r;
}
