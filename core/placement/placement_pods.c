/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods: each is entered with what it was billed, and leaves with just that.
 */
#include "core/placement/placement_machine.h"

static uint32_t holder_of(const struct placement_bill *bill)
{
	uint32_t devices = 0;

	for (int i = 0; i < PLACEMENT_DEVICES; i++)
		devices |= (uint32_t)(bill->tenants[i] > 0) << i;
	for (int i = 0; i < bill->instances; i++)
		devices |= 1u << bill->instance[i].device;
	return placement_holder((uint32_t)placement_bits(devices));
}

/* The charges of a bill as a list; the pod's, once they are on it. */
static void list_charges(struct placement *p, const struct placement_host *host,
			 const struct placement_bill *bill, uint8_t stays,
			 struct placement_pod *pod)
{
	uint32_t holder = holder_of(bill), less = placement_leaving(holder, stays), held = 0;
	int32_t *link = &pod->first_charge;

	for (int i = 0; i < bill->instances + host->devices; i++) {
		struct placement_charge charge = {.next = PLACEMENT_NONE, .tenants = 1};
		int device = i - bill->instances;
		int32_t at = p->free_charge;

		if (i < bill->instances) {
			charge.device = bill->instance[i].device;
			charge.profile = bill->instance[i].profile;
			charge.start = bill->instance[i].start;
		} else {
			if (!bill->tenants[device])
				continue;
			charge.device = (uint8_t)device;
			charge.tenants = bill->tenants[device];
			charge.memory = bill->memory[device];
			charge.compute = bill->compute[device];
			charge.exclusive = bill->exclusive[device];
		}
		if (!(held >> charge.device & 1)) {
			charge.holders = holder - less;
			charge.leaving = less;
		}
		held |= 1u << charge.device;
		p->free_charge = p->charges[at].next;
		p->charges[at] = charge;
		*link = at;
		link = &p->charges[at].next;
	}
	*link = PLACEMENT_NONE;
}

static bool enough_charges(const struct placement *p, const struct placement_bill *bill)
{
	int needed = bill->instances;
	int32_t at = p->free_charge;

	for (int i = 0; i < PLACEMENT_DEVICES; i++)
		needed += bill->tenants[i] > 0;
	for (; needed > 0 && at >= 0; needed--)
		at = p->charges[at].next;
	return needed == 0;
}

uint64_t placement_pod_name(const struct placement *p, int32_t at)
{
	return (uint64_t)p->pods[at].generation << 32 | (uint32_t)at;
}

/* All promises can be counted: a pod that is adopted, though it does not fit, could be of any
 * amount. */
static bool countable(const struct placement_host *host, uint8_t class,
		      const struct placement_bill *bill)
{
	const uint64_t most_memory = 1ull << 60;

	if (host->memory_used + bill->host_memory > most_memory)
		return false;
	for (int i = 0; i < bill->instances; i++)
		for (int k = 0; k < PLACEMENT_PROFILES; k++)
			if (host->gpu[bill->instance[i].device].mig_instances[k] >
			    UINT8_MAX - PLACEMENT_SLOTS)
				return false;
	for (int i = 0; i < host->devices; i++) {
		const struct placement_gpu *gpu = &host->gpu[i];

		if (gpu->tenants + bill->tenants[i] > UINT16_MAX - PLACEMENT_SLOTS ||
		    gpu->compute[class] + bill->compute[i] > 1u << 30 ||
		    gpu->memory[class] + bill->memory[i] > most_memory)
			return false;
	}
	return true;
}

/* A pod with the amounts of the bill, not yet in the books. */
static int32_t make_pod(struct placement *p, const struct placement_request *request, uint32_t node,
			int32_t priority, const struct placement_bill *bill)
{
	const struct placement_host *host = &p->hosts[node];
	int32_t at = p->free_pod;
	struct placement_pod *pod = &p->pods[at];

	p->free_pod = pod->next;
	*pod = (struct placement_pod){.host_memory = bill->host_memory,
				      .cpu = bill->cpu,
				      .generation = pod->generation + 1,
				      .node = (int32_t)node,
				      .next = PLACEMENT_NONE,
				      .previous = PLACEMENT_NONE,
				      .first_charge = PLACEMENT_NONE,
				      .ends_at = PLACEMENT_NONE,
				      .until = PLACEMENT_FOR_GOOD,
				      .priority = priority,
				      .class = request->class,
				      .kind = placement_kind(request)};
	list_charges(p, host, bill, request->stays, pod);
	return at;
}

static void enter(struct placement *p, int32_t at)
{
	struct placement_pod *pod = &p->pods[at];
	struct placement_host *host = &p->hosts[pod->node];

	pod->next = host->first_pod;
	if (host->first_pod >= 0)
		p->pods[host->first_pod].previous = at;
	host->first_pod = at;
	host->pods++;
	placement_lift_pod(p, host, pod, true);
	p->totals.pods++;
	p->turnover++;
	placement_changed(p, (uint32_t)pod->node);
}

static int book(struct placement *p, const struct placement_request *request, uint32_t node,
		const struct placement_assignment *assignment, int32_t priority, uint32_t lifted,
		int32_t *ret_at)
{
	struct placement_host *host = placement_find_host(p, node);
	struct placement_bill bill;
	uint32_t refusals;
	int r = placement_valid(request);

	if (r < 0)
		return r;
	if (!host)
		return -ENOENT;
	refusals = placement_node_refusals(host, node, request) & ~lifted;
	if (refusals)
		return placement_first_reason(refusals);
	r = placement_bill(p, host, request, assignment, lifted, &bill);
	if (r != 0)
		return r;
	if (!countable(host, request->class, &bill))
		return -ERANGE;
	if (p->free_pod < 0 || !enough_charges(p, &bill) || placement_note(p, p->free_pod) < 0)
		return -ENOSPC;
	placement_count(p, host, -1);
	*ret_at = make_pod(p, request, node, priority, &bill);
	enter(p, *ret_at);
	return 0;
}

int placement_commit(struct placement *p, const struct placement_request *request, uint32_t node,
		     const struct placement_assignment *assignment, int32_t priority,
		     uint64_t *ret_pod)
{
	/* The decision may have been made before a taint came: a bound pod stays. */
	const uint32_t lifted = BIT(CORDONED) | BIT(TAINT);
	int32_t at = PLACEMENT_NONE;
	int r = book(p, request, node, assignment, priority, lifted, &at);

	if (r != 0)
		return r;
	placement_count(p, &p->hosts[node], 1);
	*ret_pod = placement_pod_name(p, at);
	return 0;
}

int placement_adopt(struct placement *p, const struct placement_request *request, uint32_t node,
		    const struct placement_assignment *assignment, int32_t priority,
		    uint64_t *ret_pod)
{
	int32_t at = PLACEMENT_NONE;
	int r = book(p, request, node, assignment, priority, UINT32_MAX, &at);

	if (r != 0)
		return r;
	placement_find_over(p, &p->hosts[node]);
	placement_count(p, &p->hosts[node], 1);
	*ret_pod = placement_pod_name(p, at);
	return 0;
}

int placement_reserve(struct placement *p, const struct placement_request *request, uint32_t node,
		      const struct placement_assignment *assignment, int32_t priority,
		      uint64_t until, uint64_t *ret_pod)
{
	int r = placement_commit(p, request, node, assignment, priority, ret_pod);

	if (r == 0)
		placement_end_at(p, (int32_t)(uint32_t)*ret_pod, until);
	return r;
}

struct placement_pod *placement_find_pod(const struct placement *p, uint64_t name)
{
	uint32_t at = (uint32_t)name;

	if (at >= p->limits.pods || p->pods[at].generation != name >> 32 ||
	    !(p->pods[at].generation & 1) || p->pods[at].out)
		return NULL;
	return &p->pods[at];
}

void placement_forget_pod(struct placement *p, int32_t at)
{
	struct placement_pod *pod = &p->pods[at];
	int32_t last = pod->first_charge;

	while (last >= 0 && p->charges[last].next >= 0)
		last = p->charges[last].next;
	if (last >= 0) {
		p->charges[last].next = p->free_charge;
		p->free_charge = pod->first_charge;
	}
	pod->generation++;
	pod->next = p->free_pod;
	p->free_pod = at;
}

void placement_leave(struct placement *p, int32_t at, bool to_be_back)
{
	struct placement_pod *pod = &p->pods[at];
	struct placement_host *host = &p->hosts[pod->node];

	placement_end_never(p, at);
	placement_count(p, host, -1);
	placement_lift_pod(p, host, pod, false);
	placement_keep_over(p, host);
	placement_count(p, host, 1);
	/* It keeps its own links: where it was is where it comes back. */
	if (pod->previous >= 0)
		p->pods[pod->previous].next = pod->next;
	else
		host->first_pod = pod->next;
	if (pod->next >= 0)
		p->pods[pod->next].previous = pod->previous;
	host->pods--;
	p->totals.pods--;
	p->turnover++;
	placement_changed(p, (uint32_t)pod->node);
	if (!to_be_back)
		placement_forget_pod(p, at);
}

void placement_come_back(struct placement *p, int32_t at)
{
	struct placement_pod *pod = &p->pods[at];
	struct placement_host *host = &p->hosts[pod->node];

	if (pod->previous >= 0)
		p->pods[pod->previous].next = at;
	else
		host->first_pod = at;
	if (pod->next >= 0)
		p->pods[pod->next].previous = at;
	host->pods++;
	p->totals.pods++;
	placement_count(p, host, -1);
	placement_lift_pod(p, host, pod, true);
	placement_find_over(p, host);
	placement_count(p, host, 1);
	placement_end_at(p, at, pod->until);
	placement_changed(p, (uint32_t)pod->node);
}

int placement_release(struct placement *p, uint64_t name)
{
	struct placement_pod *pod = placement_find_pod(p, name);
	int32_t at = pod ? (int32_t)(pod - p->pods) : PLACEMENT_NONE;

	if (!pod)
		return -ENOENT;
	if (placement_note(p, ~at) < 0)
		return -ENOSPC;
	placement_leave(p, at, p->on_trial);
	return 0;
}

int placement_stays(struct placement *p, uint64_t name, uint8_t stays)
{
	const struct placement_pod *pod = placement_find_pod(p, name);
	struct placement_host *host;

	if (!pod)
		return -ENOENT;
	if (stays > PLACEMENT_STAYS)
		return -EINVAL;
	if (p->on_trial)
		return -EBUSY;
	host = &p->hosts[pod->node];
	for (int32_t i = pod->first_charge; i >= 0; i = p->charges[i].next) {
		struct placement_charge *it = &p->charges[i];
		uint32_t more, less = placement_leaving(it->holders + it->leaving, stays);

		/* Less of the one is more of the other. */
		more = it->leaving - less;
		it->holders += more;
		it->leaving -= more;
		host->gpu[it->device].holders += more;
		host->gpu[it->device].leaving -= more;
	}
	placement_changed(p, (uint32_t)pod->node);
	return 0;
}
