/* SPDX-License-Identifier: Apache-2.0 */
#include "core/placement/seating.h"

#include <string.h>

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

/* One call's books. */
struct books {
	const struct seating_node *node;
	struct placement *placement;
	uint32_t number; /* of the node */
	bool parked;	 /* the memory of pods that yield does not count */
};

static struct placement_request request_of(const struct seating_pod *pod)
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
	request = request_of(pod);
	for (uint32_t i = 0; i < pod->containers; i++)
		if (!pod->container[i].gpus)
			return -EINVAL;
	return placement_valid(&request);
}

static int open_books(struct books *books, const struct seating_node *node,
		      const struct placement_limits *limits, void *memory, size_t size)
{
	const struct placement_config config = {.policy = PLACEMENT_BINPACK};
	struct placement_node host = {.devices = (uint8_t)node->devices};

	books->node = node;
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
static int adopt(struct books *books, const struct seating_pod *pod)
{
	struct placement_request request = request_of(pod);
	struct placement_assignment assignment = {.size = 0};
	uint64_t name;

	for (uint8_t c = 0; c < pod->containers && books->parked && pod->yields; c++)
		request.container[c].memory_bytes = 0;
	for (uint8_t c = 0; c < pod->containers; c++)
		for (uint32_t i = 0; i < pod->container[c].gpus; i++)
			assignment.slot[assignment.size++] = (struct placement_slot){
				.container = c, .device = pod->container[c].device[i]};
	return placement_adopt(books->placement, &request, books->number, &assignment, 0, &name);
}

/* How much a device has left of what the reason is about. */
static uint64_t left_of(const struct placement_device_left *left, enum placement_reason reason)
{
	return reason == PLACEMENT_NO_COMPUTE ? left->compute_milli : left->memory_bytes;
}

/* A GPU that is too small is no reason to wait where another one is large enough: what that one
 * lacks is. */
static void judge_size(const struct books *books, const struct placement_left *left,
		       const struct seating_pod *pod, struct seating_refusal *refusal)
{
	uint64_t wanted = pod->container[refusal->container].memory_bytes, best = 0;

	for (uint32_t i = 0; i < books->node->devices; i++) {
		const struct seating_device *it = &books->node->device[i];

		if (it->closed || it->memory_bytes < wanted)
			continue;
		refusal->reason = PLACEMENT_NO_MEMORY;
		if (left->device[i].memory_bytes > best)
			best = left->device[i].memory_bytes;
	}
	if (refusal->reason == PLACEMENT_NO_MEMORY)
		refusal->available = best;
}

static void add_sums(const struct books *books, const struct placement_left *left,
		     struct seating_refusal *refusal)
{
	uint64_t best = 0;

	refusal->together = refusal->whole = 0;
	for (uint32_t i = 0; i < books->node->devices; i++) {
		uint64_t has = left_of(&left->device[i], refusal->reason);

		if (books->node->device[i].closed)
			continue;
		refusal->together += has;
		if (refusal->whole && has <= best)
			continue;
		best = has;
		refusal->whole = refusal->reason == PLACEMENT_NO_COMPUTE
					 ? PLACEMENT_WHOLE
					 : books->node->device[i].promised_bytes;
	}
}

/* With its amounts as they are now, on these devices. 1: it is seated. */
static int seat(struct books *books, struct seating_pod *pod, uint32_t devices)
{
	struct placement_request request = request_of(pod);
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
static int seat_slots(struct books *books, struct seating_pod *pod)
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

/* Of a pod that asks for slots: with the largest of them, on any device, as it was tried last. */
static void explain(const struct books *books, struct seating_pod *pod)
{
	struct placement_request request = request_of(pod);
	struct placement_refusal refusal = {.reason = PLACEMENT_FITS};
	struct placement_left left = {.devices = 0};

	best_effort(placement_explain(books->placement, &request, books->number, &refusal));
	best_effort(placement_left(books->placement, books->number, 0, &left));
	pod->refusal = (struct seating_refusal){.reason = refusal.reason,
						.container = refusal.container,
						.needed = refusal.needed,
						.available = refusal.available};
	if (refusal.reason == PLACEMENT_NO_MEMORY_SIZE)
		judge_size(books, &left, pod, &pod->refusal);
	add_sums(books, &left, &pod->refusal);
}

static int adopt_all(struct books *books, struct seating_pod *const *pods, size_t count)
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
static int seat_above(struct books *books, const struct placement_limits *limits,
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
static int adopt_or_check(struct books *books, struct seating_pod *const *pods, size_t count,
			  size_t *ret_wrong)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		*ret_wrong = i;
		r = pods[i]->seated ? adopt(books, pods[i]) : seating_valid(pods[i]);
	}
	return r;
}

/* How many have been seated. */
static int seat_all(struct books *books, struct seating_pod *const *pods, size_t count,
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
	struct books books = {.parked = false};
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
			explain(&books, pods[i]);
	return seated + r;
}
