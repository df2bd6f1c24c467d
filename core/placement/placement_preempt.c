/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the pods that would have to go. All pods that may go are taken off on trial. Then one after
 * the other comes back if the request still fits: first those whose disruption budget would be
 * overdrawn, and the most important first. A pod that cannot come back then cannot come back later,
 * when fewer are off, so each is tried once.
 */
#include "core/placement/placement_machine.h"

enum { THERE, OFF, GOES }; /* placement_pod.out */

struct eviction {
	struct placement *p;
	const struct placement_request *request;
	const struct placement_preemption *how;
	uint32_t node;
	struct placement_host trial;
};

static bool fits(struct eviction *e)
{
	struct placement_assignment assignment;
	int32_t score;

	e->trial.measured.known = false;
	return placement_assign(e->p, &e->trial, e->node, e->request, 0, &assignment, &score) == 0;
}

/* So many pods of the budget are off more than it allows. */
static uint32_t overdrawn(const struct eviction *e, uint16_t budget)
{
	uint32_t off = 0;

	if (budget == 0 || budget > e->how->budgets)
		return 0;
	for (int32_t i = e->trial.first_pod; i >= 0; i = e->p->pods[i].next)
		off += e->p->pods[i].out && e->p->pods[i].budget == budget;
	return off > e->how->allowed[budget - 1] ? off - e->how->allowed[budget - 1] : 0;
}

/* The most important pod in a state; of equals the latest. `overdrawing`: only of budgets that are
 * overdrawn. */
static int32_t foremost(const struct eviction *e, uint8_t state, bool overdrawing)
{
	int32_t best = PLACEMENT_NONE;

	for (int32_t i = e->trial.first_pod; i >= 0; i = e->p->pods[i].next) {
		const struct placement_pod *pod = &e->p->pods[i];

		if (pod->out == state && (best < 0 || pod->priority > e->p->pods[best].priority) &&
		    (!overdrawing || overdrawn(e, pod->budget)))
			best = i;
	}
	return best;
}

static void bring_back(struct eviction *e, bool overdrawing)
{
	int32_t at;

	while ((at = foremost(e, OFF, overdrawing)) >= 0) {
		struct placement_pod *pod = &e->p->pods[at];

		placement_lift_pod(e->p, &e->trial, pod, true);
		if (fits(e))
			continue;
		placement_lift_pod(e->p, &e->trial, pod, false);
		pod->out = GOES;
	}
}

static void take_off(struct eviction *e, int64_t below)
{
	for (int32_t i = e->trial.first_pod; i >= 0; i = e->p->pods[i].next)
		if (!e->p->pods[i].out && e->p->pods[i].priority < below)
			placement_lift_pod(e->p, &e->trial, &e->p->pods[i], false);
}

/* Those that go, the most important first. */
static int list_victims(struct eviction *e, uint64_t *ret_pods, size_t room,
			struct placement_victims *ret)
{
	int32_t at;

	*ret = (struct placement_victims){.node = e->node};
	while ((at = foremost(e, GOES, false)) >= 0) {
		struct placement_pod *pod = &e->p->pods[at];

		/* Each pod that goes is one less for its budget. */
		ret->overdrawn += overdrawn(e, pod->budget) > 0;
		if (ret->size < room)
			ret_pods[ret->size] = placement_pod_name(e->p, at);
		if (ret->size++ == 0)
			ret->priority = pod->priority;
		pod->out = THERE;
	}
	return ret->size > room ? -ENOSPC : 0;
}

static int find_victims(struct placement *p, const struct placement_request *request,
			const struct placement_preemption *how, uint32_t node, uint64_t *ret_pods,
			size_t room, struct placement_victims *ret)
{
	struct eviction e = {.p = p, .request = request, .how = how, .node = node};
	int r = 0;

	p->tries = PLACEMENT_TRIES_ALL;
	placement_copy_host(&e.trial, &p->hosts[node]);
	take_off(&e, how->priority);
	if (fits(&e)) {
		bring_back(&e, true);
		bring_back(&e, false);
		r = list_victims(&e, ret_pods, room, ret);
		if (r == 0 && how->keep_budgets && ret->overdrawn)
			r = PLACEMENT_NO_VICTIMS;
	} else {
		take_off(&e, INT64_MAX);
		r = fits(&e) ? PLACEMENT_NO_VICTIMS : PLACEMENT_TOO_SMALL;
	}
	for (int32_t i = e.trial.first_pod; i >= 0; i = p->pods[i].next)
		p->pods[i].out = THERE;
	return r;
}

int placement_victims(struct placement *p, const struct placement_request *request, uint32_t node,
		      int32_t priority, uint64_t *ret_pods, size_t room, size_t *ret_size)
{
	const struct placement_preemption how = {
		.priority = priority, .nodes = &node, .nodes_size = 1};
	struct placement_victims victims;
	int r = placement_preempt_among(p, request, &how, ret_pods, room, &victims);

	if (r == 0)
		*ret_size = victims.size;
	return r;
}

int placement_preempt(struct placement *p, const struct placement_request *request,
		      int32_t priority, uint32_t *ret_node, uint64_t *ret_pods, size_t room,
		      size_t *ret_size)
{
	const struct placement_preemption how = {.priority = priority};
	struct placement_victims victims;
	int r = placement_preempt_among(p, request, &how, ret_pods, room, &victims);

	if (r == 0) {
		*ret_node = victims.node;
		*ret_size = victims.size;
	}
	return r;
}

static bool hurts_less(const struct placement_victims *a, const struct placement_victims *b)
{
	if (a->overdrawn != b->overdrawn)
		return a->overdrawn < b->overdrawn;
	if (!a->size || !b->size)
		return a->size < b->size;
	if (a->priority != b->priority)
		return a->priority < b->priority;
	return a->size < b->size;
}

/* The answer if no node will do: PLACEMENT_TOO_SMALL only if it is that of all. */
static int worse_of(int a, int b)
{
	if (a == -ENOSPC || b == -ENOSPC)
		return -ENOSPC;
	return a == PLACEMENT_NO_VICTIMS || b == PLACEMENT_NO_VICTIMS ? PLACEMENT_NO_VICTIMS
								      : PLACEMENT_TOO_SMALL;
}

int placement_preempt_among(struct placement *p, const struct placement_request *request,
			    const struct placement_preemption *how, uint64_t *ret_pods, size_t room,
			    struct placement_victims *ret_victims)
{
	size_t size = how->nodes ? how->nodes_size : p->node_end;
	struct placement_victims best = {0}, here;
	bool found = false;
	int r = PLACEMENT_TOO_SMALL;

	if (placement_valid(request) < 0 || (how->budgets && !how->allowed))
		return -EINVAL;
	for (size_t i = 0; how->nodes && i < size; i++)
		if (!placement_find_host(p, how->nodes[i]))
			return -ENOENT;
	placement_weigh(p);
	for (size_t i = 0; i < size; i++) {
		uint32_t node = how->nodes ? how->nodes[i] : (uint32_t)i;
		int answer = PLACEMENT_TOO_SMALL;

		if (p->hosts[node].present)
			answer = find_victims(p, request, how, node, ret_pods, room, &here);
		if (answer != 0) {
			r = worse_of(r, answer);
		} else if (!found || hurts_less(&here, &best)) {
			best = here;
			found = true;
		}
	}
	if (!found)
		return r;
	*ret_victims = best;
	return find_victims(p, request, how, best.node, ret_pods, room, &here);
}

int placement_protect(struct placement *p, uint64_t name, uint16_t budget)
{
	struct placement_pod *pod = placement_find_pod(p, name);

	if (!pod)
		return -ENOENT;
	pod->budget = budget;
	return 0;
}
