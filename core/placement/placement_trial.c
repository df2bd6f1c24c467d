/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials: pods come and go, and it can be undone. Each step is noted, and undone in reverse order.
 * A pod that was released keeps its record until the end, so that it comes back as it was, name and
 * all.
 */
#include "core/placement/placement_machine.h"

int placement_note(struct placement *p, int32_t step)
{
	if (!p->on_trial)
		return 0;
	if (p->noted_size == p->limits.steps)
		return -ENOSPC;
	p->noted[p->noted_size++] = step;
	return 0;
}

static void undo_to(struct placement *p, uint32_t size, uint32_t turnover)
{
	while (p->noted_size > size) {
		int32_t step = p->noted[--p->noted_size];

		if (step >= 0)
			placement_leave(p, step, false);
		else
			placement_come_back(p, ~step);
	}
	p->turnover = turnover;
}

int placement_begin(struct placement *p)
{
	if (p->on_trial)
		return -EBUSY;
	/* Before the trial, so that the results do not depend on it. */
	placement_weigh(p);
	p->on_trial = true;
	p->turnover_before = p->turnover;
	return 0;
}

int placement_roll_back(struct placement *p)
{
	if (!p->on_trial)
		return -EINVAL;
	undo_to(p, 0, p->turnover_before);
	p->on_trial = false;
	return 0;
}

int placement_finish(struct placement *p)
{
	if (!p->on_trial)
		return -EINVAL;
	for (uint32_t i = 0; i < p->noted_size; i++)
		if (p->noted[i] < 0)
			placement_forget_pod(p, ~p->noted[i]);
	p->noted_size = 0;
	p->on_trial = false;
	if (p->turnover_before >> 31)
		placement_reprice(p);
	return 0;
}

/* How much of GPUs it takes, if only to tell which pod is larger. */
static uint64_t size_of(const struct placement *p, const struct placement_request *request)
{
	uint64_t sum = 0;

	for (int i = 0; i < request->containers; i++) {
		const struct placement_container *it = &request->container[i];
		uint64_t mib = it->memory_bytes >> 20;
		const struct placement_usual usual = {
			.memory_mib = mib < INT32_MAX ? (uint32_t)mib : INT32_MAX,
			.compute = it->compute_milli,
			.devices = it->devices,
			.profile = it->profile,
			.exclusive = it->exclusive,
		};

		sum += it->devices ? placement_usual_milli(p, &usual) : 0;
	}
	return sum;
}

/* The first request that has no place yet, or the largest of these; `size`: all have one. */
static size_t next_of(const struct placement *p, const struct placement_request *requests,
		      const uint64_t *pods, size_t size, bool largest)
{
	size_t best = size;

	for (size_t i = 0; i < size; i++) {
		if (pods[i])
			continue;
		if (!largest)
			return i;
		if (best == size || size_of(p, &requests[i]) > size_of(p, &requests[best]))
			best = i;
	}
	return best;
}

static int place_all(struct placement *p, const struct placement_request *requests, size_t size,
		     int32_t priority, bool largest, struct placement_decision *ret_decisions,
		     uint64_t *ret_pods, size_t *ret_stuck)
{
	memset(ret_pods, 0, size * sizeof(*ret_pods));
	for (size_t n = 0; n < size; n++) {
		size_t i = next_of(p, requests, ret_pods, size, largest);
		int r = placement_decide(p, &requests[i], &ret_decisions[i]);

		if (r == 0)
			r = placement_commit(p, &requests[i], ret_decisions[i].node,
					     &ret_decisions[i].assignment, priority, &ret_pods[i]);
		if (r != 0) {
			*ret_stuck = i;
			return r;
		}
	}
	return 0;
}

int placement_gang(struct placement *p, const struct placement_request *requests, size_t size,
		   int32_t priority, struct placement_decision *ret_decisions, uint64_t *ret_pods,
		   size_t *ret_stuck)
{
	bool alone = !p->on_trial;
	uint32_t start, turnover;
	int r = alone ? placement_begin(p) : 0;

	if (r < 0)
		return r;
	start = p->noted_size;
	turnover = p->turnover;
	for (int largest = 0; largest < 2; largest++) {
		r = place_all(p, requests, size, priority, largest, ret_decisions, ret_pods,
			      ret_stuck);
		if (r == 0)
			break;
		undo_to(p, start, turnover);
		if (r < 0)
			break;
	}
	if (alone)
		best_effort(r == 0 ? placement_finish(p) : placement_roll_back(p));
	return r;
}
