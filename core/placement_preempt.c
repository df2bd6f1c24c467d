/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pods would have to go; and the audit, which rebuilds the books from the pods.
 */
#include "core/placement_machine.h"

enum { CONSIDERED = 256 }; /* pods of a node, the lowest priorities first */

/* The node's pods below a priority, the highest first; of equals, those with less GPU first. */
static int below(const struct placement *p, const struct placement_host *host, int32_t priority,
		 int32_t pods[CONSIDERED])
{
	int size = 0;

	for (int32_t i = host->first_pod; i >= 0; i = p->pods[i].next) {
		int32_t mine = p->pods[i].priority;
		int at = size;

		if (mine >= priority)
			continue;
		if (size == CONSIDERED) {
			if (mine >= p->pods[pods[0]].priority)
				continue;
			memmove(pods, pods + 1, (CONSIDERED - 1) * sizeof(*pods));
			at = --size;
		}
		for (; at > 0 && mine > p->pods[pods[at - 1]].priority; at--)
			pods[at] = pods[at - 1];
		pods[at] = i;
		size++;
	}
	return size;
}

static bool fits(struct placement *p, struct placement_host *trial, uint32_t node,
		 const struct placement_request *request)
{
	struct placement_assignment assignment;
	int32_t score;

	trial->waste_known = false;
	return placement_assign(p, trial, node, request, 0, &assignment, &score) == 0;
}

int placement_victims(struct placement *p, const struct placement_request *request, uint32_t node,
		      int32_t priority, uint64_t *ret_pods, size_t room, size_t *ret_size)
{
	struct placement_host trial;
	int32_t pods[CONSIDERED];
	size_t victims = 0;
	int size;

	if (node >= p->node_end || !p->hosts[node].present)
		return -ENOENT;
	if (placement_valid(request) < 0)
		return -EINVAL;
	placement_weigh(p);
	p->tries = PLACEMENT_TRIES_ALL;
	placement_copy_host(&trial, &p->hosts[node]);
	size = below(p, &trial, priority, pods);
	for (int i = 0; i < size; i++)
		placement_lift_pod(p, &trial, &p->pods[pods[i]], false);
	if (!fits(p, &trial, node, request))
		return PLACEMENT_NO_VICTIMS;
	/* Whoever can stay stays, the most important first. */
	for (int i = 0; i < size; i++) {
		const struct placement_pod *pod = &p->pods[pods[i]];

		placement_lift_pod(p, &trial, pod, true);
		if (fits(p, &trial, node, request))
			continue;
		placement_lift_pod(p, &trial, pod, false);
		if (victims == room)
			return PLACEMENT_NO_VICTIMS;
		ret_pods[victims++] = placement_pod_name(p, pods[i]);
	}
	*ret_size = victims;
	return 0;
}

int placement_preempt(struct placement *p, const struct placement_request *request,
		      int32_t priority, uint32_t *ret_node, uint64_t *ret_pods, size_t room,
		      size_t *ret_size)
{
	uint32_t best = UINT32_MAX;
	int32_t best_priority = 0;
	size_t best_size = 0;
	int r;

	for (uint32_t node = 0; node < p->node_end; node++) {
		size_t size;

		r = placement_victims(p, request, node, priority, ret_pods, room, &size);
		if (r == -EINVAL)
			return r;
		if (r != 0)
			continue;
		/* The first victim has the highest priority; nobody to go is better still. */
		int32_t first = size ? p->pods[(uint32_t)ret_pods[0]].priority : INT32_MIN;

		if (best != UINT32_MAX &&
		    (first > best_priority || (first == best_priority && size >= best_size)))
			continue;
		best = node;
		best_priority = first;
		best_size = size;
	}
	if (best == UINT32_MAX)
		return PLACEMENT_NO_VICTIMS;
	*ret_node = best;
	return placement_victims(p, request, best, priority, ret_pods, room, ret_size);
}

/* The node without its pods, then with them again: the same books? */
static bool adds_up(const struct placement *p, const struct placement_host *host)
{
	struct placement_host empty;
	uint32_t pods = 0;

	placement_copy_host(&empty, host);
	empty.cpu_used = 0;
	empty.memory_used = 0;
	memset(empty.kinds, 0, sizeof(empty.kinds));
	for (int i = 0; i < host->devices; i++) {
		memset(&empty.gpu[i], 0, sizeof(empty.gpu[i]));
		empty.gpu[i].is = host->gpu[i].is;
	}
	for (int32_t i = host->first_pod; i >= 0; i = p->pods[i].next, pods++)
		placement_lift_pod(p, &empty, &p->pods[i], true);
	for (int i = 0; i < host->devices; i++)
		if (!placement_same_gpu(&empty.gpu[i], &host->gpu[i]))
			return false;
	return pods == host->pods && empty.cpu_used == host->cpu_used &&
	       empty.memory_used == host->memory_used &&
	       memcmp(empty.kinds, host->kinds, sizeof(host->kinds)) == 0;
}

static bool within_limits(const struct placement *p, const struct placement_host *host)
{
	if (host->cpu_used > host->cpu || host->memory_used > host->memory_bytes)
		return false;
	for (int i = 0; i < host->devices; i++) {
		const struct placement_gpu *gpu = &host->gpu[i];

		if ((gpu->is.slots && gpu->tenants > gpu->is.slots) || gpu->exclusive > 1)
			return false;
		for (int c = 0; c < PLACEMENT_CLASSES; c++)
			if (placement_compute_room(p, gpu, (uint8_t)c) < 0 ||
			    placement_memory_room(p, gpu, (uint8_t)c) < 0)
				return false;
	}
	return true;
}

/* A remembered score is the one that a fresh look gives, unless the node changed since. */
static bool remembered(struct placement *p, const struct placement_shape *shape, uint32_t node)
{
	struct placement_host *host = &p->hosts[node];
	struct placement_assignment assignment;
	int32_t score = INT32_MIN;

	if (!shape->live || node >= shape->cut || host->changed > shape->seen)
		return true;
	host->waste_known = false;
	p->tries = PLACEMENT_TRIES_ALL;
	if (!host->present ||
	    placement_assign(p, host, node, &shape->request, 0, &assignment, &score) < 0)
		score = INT32_MIN;
	return score == shape->scores[node] && score <= shape->tops[node / PLACEMENT_BLOCK];
}

int placement_audit(struct placement *p, uint32_t *ret_node)
{
	for (uint32_t node = 0; node < p->node_end; node++) {
		const struct placement_host *host = &p->hosts[node];

		*ret_node = node;
		if (host->present && (!adds_up(p, host) || !within_limits(p, host)))
			return -EILSEQ;
		for (uint32_t i = 0; i < p->limits.shapes && !placement_stale(p); i++)
			if (!remembered(p, &p->shapes[i], node))
				return -EILSEQ;
	}
	return 0;
}
