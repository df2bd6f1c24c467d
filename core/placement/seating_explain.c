/* SPDX-License-Identifier: Apache-2.0 */
/* Why a pod waits, with the numbers that a person can check. */
#include "core/placement/seating_books.h"

/* A number for each device. */
struct column {
	uint32_t count;
	uint64_t value[SEATING_DEVICES];
};

/* The nth largest; 0: there are fewer. */
static uint64_t nth(struct column column, uint32_t n)
{
	uint64_t value = 0;

	if (n > column.count)
		return 0;
	for (; n; n--) {
		uint32_t best = 0;

		for (uint32_t i = 1; i < column.count; i++)
			if (column.value[i] > column.value[best])
				best = i;
		value = column.value[best];
		column.value[best] = column.value[--column.count];
	}
	return value;
}

/* How large the devices are that are shared out; `open`: those that take pods alone. */
static struct column sizes(const struct seating_books *books, bool open)
{
	struct column all = {.count = 0};

	for (uint32_t i = 0; i < books->node->devices; i++) {
		const struct seating_device *it = &books->node->device[i];

		if (it->memory_bytes && !(open && it->closed))
			all.value[all.count++] = it->memory_bytes;
	}
	return all;
}

static uint32_t count_from(const struct column *column, uint64_t least)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < column->count; i++)
		count += column->value[i] >= least;
	return count;
}

/* What the devices have left that take pods. Of memory, or of time. */
static struct column lefts(const struct seating_books *books, const struct placement_left *left,
			   enum placement_reason reason)
{
	struct column all = {.count = 0};

	for (uint32_t i = 0; i < books->node->devices; i++)
		if (!books->node->device[i].closed)
			all.value[all.count++] = reason == PLACEMENT_NO_COMPUTE
							 ? left->device[i].compute_milli
							 : left->device[i].memory_bytes;
	return all;
}

/* Likewise, of those where nothing but this amount is in the way of the container. `amounts`: nor
 * is the other amount. */
static struct column lefts_for(const struct seating_books *books, const struct placement_left *left,
			       enum placement_reason reason, const struct seating_container *want,
			       bool amounts)
{
	struct column all = {.count = 0};

	for (uint32_t i = 0; i < books->node->devices; i++) {
		const struct seating_device *it = &books->node->device[i];
		const struct placement_device_left *has = &left->device[i];
		bool time = reason == PLACEMENT_NO_COMPUTE;

		if (it->closed || it->memory_bytes < want->memory_bytes || books->alone >> i & 1 ||
		    (want->exclusive && has->tenants))
			continue;
		if (amounts && (time ? has->memory_bytes < want->memory_bytes
				     : has->compute_milli < want->milli))
			continue;
		all.value[all.count++] = time ? has->compute_milli : has->memory_bytes;
	}
	return all;
}

/* Is there a container that could not be seated if the node were empty and all of it in service?
 * That is said first: nobody need wait for it. */
static bool is_hopeless(const struct seating_books *books, const struct seating_pod *pod,
			struct seating_refusal *ret_refusal)
{
	const struct column all = sizes(books, false);

	for (uint8_t c = 0; all.count && c < pod->containers; c++) {
		const struct seating_container *it = &pod->container[c];
		struct seating_refusal is = {.container = c};

		if (all.count < it->gpus) {
			is.reason = PLACEMENT_NO_DEVICE_COUNT;
			is.needed = it->gpus;
			is.available = all.count;
		} else if (count_from(&all, it->memory_bytes) < it->gpus) {
			is.reason = PLACEMENT_NO_MEMORY_SIZE;
			is.needed = it->memory_bytes;
			is.available = nth(all, it->gpus);
		} else {
			continue;
		}
		*ret_refusal = is;
		return true;
	}
	return false;
}

/* Some devices are too small: what is in the way on the others? */
static void judge_size(const struct seating_books *books, const struct placement_left *left,
		       const struct seating_container *it, struct seating_refusal *refusal)
{
	const struct column open = sizes(books, true);
	const struct column has = lefts_for(books, left, PLACEMENT_NO_MEMORY, it, false);

	refusal->needed = it->gpus;
	refusal->available = count_from(&open, it->memory_bytes);
	if (refusal->available < refusal->needed)
		refusal->reason = PLACEMENT_NO_LOST;
	else if (has.count < it->gpus)
		refusal->reason = it->exclusive ? PLACEMENT_NO_EXCLUSIVE : PLACEMENT_NO_SHARED;
	else if (nth(has, it->gpus) < it->memory_bytes)
		refusal->reason = PLACEMENT_NO_MEMORY;
	else
		refusal->reason = PLACEMENT_NO_COMPUTE;
}

/* GPUs in service that nobody uses, or that nobody has alone: and that have room, if all of these
 * lack it. */
static void count_free(const struct seating_books *books, const struct placement_left *left,
		       const struct seating_container *it, struct seating_refusal *refusal)
{
	bool whole = refusal->reason == PLACEMENT_NO_EXCLUSIVE;
	uint32_t count = 0, room = 0;

	for (uint32_t i = 0; i < books->node->devices; i++) {
		const struct placement_device_left *has = &left->device[i];

		if (books->node->device[i].closed ||
		    (whole ? has->tenants > 0 : books->alone >> i & 1))
			continue;
		count++;
		room += books->node->device[i].memory_bytes >= it->memory_bytes &&
			has->memory_bytes >= it->memory_bytes && has->compute_milli >= it->milli;
	}
	refusal->elsewhere = count >= it->gpus;
	refusal->available = refusal->elsewhere ? room : count;
}

static void add_amounts(const struct seating_books *books, const struct placement_left *left,
			const struct seating_container *it, struct seating_refusal *refusal)
{
	const struct column all = lefts(books, left, refusal->reason);
	struct column best = lefts_for(books, left, refusal->reason, it, true);
	uint64_t most = 0;
	uint32_t at = 0;

	/* On too few of them the other amount is there: then neither alone is in the way. */
	if (best.count < it->gpus)
		best = lefts_for(books, left, refusal->reason, it, false);
	refusal->needed = refusal->reason == PLACEMENT_NO_COMPUTE ? it->milli : it->memory_bytes;
	refusal->available = nth(best, it->gpus);
	refusal->elsewhere = nth(all, it->gpus) > refusal->available;
	for (uint32_t i = 0; i < books->node->devices; i++) {
		if (books->node->device[i].closed)
			continue;
		refusal->together += all.value[at];
		if (!refusal->whole || all.value[at] > most) {
			most = all.value[at];
			refusal->whole = refusal->reason == PLACEMENT_NO_COMPUTE
						 ? PLACEMENT_WHOLE
						 : books->node->device[i].promised_bytes;
		}
		at++;
	}
}

/* The first container that has no room even without the pod's others; else they have none
 * together. */
static void find_container(const struct seating_books *books, const struct seating_pod *pod,
			   struct placement_refusal *ret_found, uint8_t *ret_container)
{
	const struct placement_request all = seating_request(pod);

	*ret_found = (struct placement_refusal){.reason = PLACEMENT_NO_PACKING};
	for (uint8_t c = 0; c < pod->containers; c++) {
		struct placement_request one = all;

		one.containers = 1;
		one.container[0] = all.container[c];
		one.container[0].kind = PLACEMENT_APP;
		*ret_container = c;
		*ret_found = (struct placement_refusal){.reason = PLACEMENT_FITS};
		best_effort(placement_explain(books->placement, &one, books->number, ret_found));
		if (ret_found->reason != PLACEMENT_FITS)
			return;
	}
	ret_found->reason = PLACEMENT_NO_PACKING;
}

void seating_explain(const struct seating_books *books, struct seating_pod *pod)
{
	struct placement_refusal found;
	struct placement_left left = {.devices = 0};
	struct seating_refusal refusal = {.reason = PLACEMENT_FITS};
	const struct seating_container *it;

	if (is_hopeless(books, pod, &pod->refusal))
		return;
	find_container(books, pod, &found, &refusal.container);
	best_effort(placement_left(books->placement, books->number, 0, &left));
	it = &pod->container[refusal.container];
	refusal.reason = found.reason;
	refusal.needed = found.needed;
	refusal.available = found.available;
	if (refusal.reason == PLACEMENT_NO_MEMORY_SIZE || refusal.reason == PLACEMENT_NO_LOST)
		judge_size(books, &left, it, &refusal);
	if (refusal.reason == PLACEMENT_NO_EXCLUSIVE || refusal.reason == PLACEMENT_NO_SHARED)
		count_free(books, &left, it, &refusal);
	if (refusal.reason == PLACEMENT_NO_MEMORY || refusal.reason == PLACEMENT_NO_COMPUTE)
		add_amounts(books, &left, it, &refusal);
	pod->refusal = refusal;
}
