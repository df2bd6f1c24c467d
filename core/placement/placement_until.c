/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: pods that are booked until a time. Those that end are a heap, the earliest on top;
 * the clock is the caller's.
 */
#include "core/placement/placement_machine.h"

static bool earlier(const struct placement *p, int32_t a, int32_t b)
{
	return p->pods[a].until < p->pods[b].until;
}

static void put_at(struct placement *p, uint32_t at, int32_t pod)
{
	p->ending[at] = pod;
	p->pods[pod].ends_at = (int32_t)at;
}

static void rise(struct placement *p, uint32_t at)
{
	int32_t pod = p->ending[at];

	for (; at > 0 && earlier(p, pod, p->ending[(at - 1) / 2]); at = (at - 1) / 2)
		put_at(p, at, p->ending[(at - 1) / 2]);
	put_at(p, at, pod);
}

static void sink(struct placement *p, uint32_t at)
{
	int32_t pod = p->ending[at];
	uint32_t child;

	for (; (child = 2 * at + 1) < p->ending_size; at = child) {
		if (child + 1 < p->ending_size &&
		    earlier(p, p->ending[child + 1], p->ending[child]))
			child++;
		if (!earlier(p, p->ending[child], pod))
			break;
		put_at(p, at, p->ending[child]);
	}
	put_at(p, at, pod);
}

void placement_end_never(struct placement *p, int32_t at)
{
	int32_t place = p->pods[at].ends_at, last;

	if (place < 0)
		return;
	p->pods[at].ends_at = PLACEMENT_NONE;
	last = p->ending[--p->ending_size];
	if (last == at)
		return;
	put_at(p, (uint32_t)place, last);
	rise(p, (uint32_t)place);
	sink(p, (uint32_t)p->pods[last].ends_at);
}

void placement_end_at(struct placement *p, int32_t at, uint64_t until)
{
	placement_end_never(p, at);
	p->pods[at].until = until;
	if (until == PLACEMENT_FOR_GOOD)
		return;
	put_at(p, p->ending_size++, at);
	rise(p, p->ending_size - 1);
}

bool placement_ends_add_up(const struct placement *p)
{
	for (uint32_t i = 0; i < p->ending_size; i++) {
		const struct placement_pod *pod = &p->pods[p->ending[i]];

		if (!(pod->generation & 1) || pod->ends_at != (int32_t)i ||
		    pod->until == PLACEMENT_FOR_GOOD ||
		    earlier(p, p->ending[i], p->ending[i ? (i - 1) / 2 : 0]))
			return false;
	}
	return true;
}

int placement_keep(struct placement *p, uint64_t name, uint64_t until)
{
	struct placement_pod *pod = placement_find_pod(p, name);

	if (!pod)
		return -ENOENT;
	if (p->on_trial)
		return -EBUSY;
	placement_end_at(p, (int32_t)(pod - p->pods), until);
	return 0;
}

uint64_t placement_next_end(const struct placement *p)
{
	return p->ending_size ? p->pods[p->ending[0]].until : PLACEMENT_FOR_GOOD;
}

size_t placement_expire(struct placement *p, uint64_t now, uint64_t *ret_pods, size_t room)
{
	size_t size = 0;

	for (; !p->on_trial && size < room && p->ending_size && placement_next_end(p) <= now;
	     size++) {
		ret_pods[size] = placement_pod_name(p, p->ending[0]);
		best_effort(placement_release(p, ret_pods[size]));
	}
	return size;
}
