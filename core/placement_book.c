/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The books: what each pod holds, given back exactly as it was taken.
 */
#include "core/placement_machine.h"

/* Whether the slots are the request's GPUs: each container as many different ones as it asks. */
static bool matches(const struct placement_host *host, const struct placement_request *request,
		    const struct placement_assignment *assignment)
{
	uint32_t devices[PLACEMENT_CONTAINERS] = {0};
	int size = 0;

	for (int i = 0; i < request->containers; i++)
		size += request->container[i].devices;
	if (assignment->size != size)
		return false;
	for (int i = 0; i < size; i++) {
		const struct placement_slot *slot = &assignment->slot[i];

		if (slot->container >= request->containers || slot->device >= host->devices ||
		    devices[slot->container] >> slot->device & 1)
			return false;
		devices[slot->container] |= 1u << slot->device;
	}
	for (int i = 0; i < request->containers; i++)
		if (placement_bits(devices[i]) != request->container[i].devices)
			return false;
	return true;
}

/* One slot onto the trial host; the reason where it does not fit. */
static enum placement_reason put_slot(const struct placement *p, struct placement_host *trial,
				      const struct placement_request *request,
				      const struct placement_slot *slot, uint32_t lifted)
{
	const struct placement_container *want = &request->container[slot->container];
	struct placement_gpu *gpu = &trial->gpu[slot->device];
	uint32_t refusals = placement_gpu_refusals(p, gpu, request, want, slot->device) & ~lifted;
	const struct placement_profile *it;
	int profile;

	if (refusals)
		return placement_first_reason(refusals);
	profile = want->profile ? placement_find_profile(p, gpu, want->profile) : PLACEMENT_NONE;
	if (profile >= 0) {
		it = &p->geometry[gpu->is.geometry].profile[profile];
		if (slot->start >= PLACEMENT_STARTS || !(it->starts >> slot->start & 1) ||
		    gpu->mig_taken & (((1u << it->size) - 1) << slot->start))
			return PLACEMENT_NO_MIG_PLACEMENT;
	}
	placement_put(p, gpu, request->class, want, profile, slot->start);
	return PLACEMENT_FITS;
}

/* Raises the bill to what the trial host holds more than the host. */
static void raise(const struct placement_host *host, const struct placement_host *trial,
		  uint8_t class, struct placement_bill *bill)
{
	for (int i = 0; i < host->devices; i++) {
		uint32_t compute = trial->gpu[i].compute[class] - host->gpu[i].compute[class];
		uint64_t memory = trial->gpu[i].memory[class] - host->gpu[i].memory[class];
		uint16_t tenants = trial->gpu[i].tenants - host->gpu[i].tenants;

		if (bill->compute[i] < compute)
			bill->compute[i] = compute;
		if (bill->memory[i] < memory)
			bill->memory[i] = memory;
		if (bill->tenants[i] < tenants)
			bill->tenants[i] = tenants;
		bill->exclusive[i] |= trial->gpu[i].exclusive > host->gpu[i].exclusive;
	}
}

static void list_instance(const struct placement *p, const struct placement_host *host,
			  const struct placement_request *request,
			  const struct placement_slot *slot, struct placement_bill *bill)
{
	uint16_t name = request->container[slot->container].profile;

	if (name)
		bill->instance[bill->instances++] = (struct placement_instance){
			slot->device,
			(uint8_t)placement_find_profile(p, &host->gpu[slot->device], name),
			slot->start};
}

/* A phase: the containers that run with init container `init`, or (-1) for the pod's life. MIG
 * instances are made once and stay, so each phase has those of all containers up to it. */
static enum placement_reason bill_phase(const struct placement *p,
					const struct placement_host *host,
					const struct placement_request *request,
					const struct placement_assignment *assignment, int init,
					uint32_t lifted, struct placement_bill *bill)
{
	struct placement_host trial;

	placement_copy_host(&trial, host);
	for (int i = 0; i < assignment->size; i++) {
		const struct placement_slot *slot = &assignment->slot[i];
		const struct placement_container *it = &request->container[slot->container];
		bool runs = init < 0 ? it->kind != PLACEMENT_INIT
				     : slot->container == init || it->profile ||
					       (it->kind == PLACEMENT_SIDECAR &&
						slot->container < init);
		enum placement_reason reason;

		if (!runs)
			continue;
		reason = put_slot(p, &trial, request, slot, lifted);
		if (reason)
			return reason;
		if (it->profile && (init < 0 || slot->container == init))
			list_instance(p, host, request, slot, bill);
	}
	raise(host, &trial, request->class, bill);
	return PLACEMENT_FITS;
}

int placement_bill(const struct placement *p, const struct placement_host *host,
		   const struct placement_request *request,
		   const struct placement_assignment *assignment, uint32_t lifted,
		   struct placement_bill *ret_bill)
{
	enum placement_reason reason;

	memset(ret_bill, 0, sizeof(*ret_bill));
	if (!matches(host, request, assignment))
		return -EINVAL;
	placement_host_needs(request, &ret_bill->cpu, &ret_bill->host_memory);
	reason = bill_phase(p, host, request, assignment, -1, lifted, ret_bill);
	for (int i = 0; i < request->containers && !reason; i++)
		if (request->container[i].kind == PLACEMENT_INIT && request->container[i].devices)
			reason = bill_phase(p, host, request, assignment, i, lifted, ret_bill);
	return reason;
}

static void move(const struct placement *p, struct placement_host *host, uint8_t class,
		 const struct placement_charge *it, bool back)
{
	struct placement_gpu *gpu = &host->gpu[it->device];
	int sign = back ? 1 : -1;

	gpu->tenants = (uint16_t)(gpu->tenants + sign * it->tenants);
	gpu->holders += (uint32_t)sign * it->holders;
	if (it->profile) {
		const struct placement_profile *profile =
			&p->geometry[gpu->is.geometry].profile[it->profile - 1];
		uint32_t slices = ((1u << profile->size) - 1) << it->start;

		gpu->mig_taken = back ? gpu->mig_taken | slices : gpu->mig_taken & ~slices;
		gpu->mig_instances[it->profile - 1] =
			(uint8_t)(gpu->mig_instances[it->profile - 1] + sign);
		return;
	}
	gpu->memory[class] += (uint64_t)sign * it->memory;
	gpu->compute[class] += (uint32_t)sign * it->compute;
	gpu->exclusive = (uint16_t)(gpu->exclusive + sign * it->exclusive);
}

static uint32_t holder_of(const struct placement_bill *bill)
{
	uint32_t devices = 0;

	for (int i = 0; i < PLACEMENT_DEVICES; i++)
		devices += bill->tenants[i] > 0;
	return placement_holder(devices);
}

void placement_charge_bill(const struct placement *p, struct placement_host *host, uint8_t class,
			   const struct placement_bill *bill)
{
	uint16_t instances[PLACEMENT_DEVICES] = {0};
	uint32_t holder = holder_of(bill);

	for (int i = 0; i < bill->instances; i++) {
		const struct placement_instance *it = &bill->instance[i];

		instances[it->device]++;
		move(p, host, class,
		     &(struct placement_charge){.device = it->device,
						.tenants = 1,
						.holders = holder,
						.profile = (uint8_t)(it->profile + 1),
						.start = it->start},
		     true);
	}
	for (int i = 0; i < host->devices; i++)
		if (bill->tenants[i] > instances[i])
			move(p, host, class,
			     &(struct placement_charge){
				     .device = i,
				     .tenants = (uint16_t)(bill->tenants[i] - instances[i]),
				     .holders = holder,
				     .memory = bill->memory[i],
				     .compute = bill->compute[i],
				     .exclusive = bill->exclusive[i]},
			     true);
	host->cpu_used += bill->cpu;
	host->memory_used += bill->host_memory;
}

/* Takes a pod off a host, or puts it back: for trials and for good. */
void placement_lift_pod(const struct placement *p, struct placement_host *host,
			const struct placement_pod *pod, bool back)
{
	for (int32_t i = pod->first_charge; i >= 0; i = p->charges[i].next)
		move(p, host, pod->class, &p->charges[i], back);
	host->cpu_used += back ? pod->cpu : -pod->cpu;
	host->memory_used += back ? pod->host_memory : -pod->host_memory;
	host->kinds[pod->kind] = (uint16_t)(host->kinds[pod->kind] + (back ? 1 : -1));
}

/* Pods by how many GPUs they have; those with a part of one are 0. */
uint8_t placement_kind(const struct placement_request *request)
{
	int devices = 0;
	bool whole = false;

	for (int i = 0; i < request->containers; i++) {
		devices += request->container[i].devices;
		whole |= request->container[i].devices > 0 &&
			 (request->container[i].exclusive ||
			  request->container[i].compute_milli >= PLACEMENT_WHOLE);
	}
	if (!devices)
		return PLACEMENT_KIND_NONE;
	if (devices == 1 && !whole)
		return 0;
	return (uint8_t)(devices < PLACEMENT_DEVICES ? devices : PLACEMENT_DEVICES);
}

static uint64_t promised(const struct placement_gpu *gpu)
{
	if (gpu->exclusive || gpu->is.geometry)
		return gpu->tenants ? gpu->is.compute_milli : 0;
	return (uint64_t)gpu->compute[0] + gpu->compute[1] + gpu->compute[2];
}

/* Adds a host to the totals, or takes it out: around each change of it. */
static void count(struct placement *p, const struct placement_host *host, int sign)
{
	p->empties[placement_empties(host)] += (uint32_t)sign;
	for (int i = 0; i < host->devices; i++) {
		uint64_t sum = promised(&host->gpu[i]);
		uint64_t whole = host->gpu[i].is.compute_milli;

		p->totals.promised_milli += (uint64_t)sign * sum;
		p->totals.used_milli += (uint64_t)sign * (sum < whole ? sum : whole);
	}
}

/* The charges of a bill as a list; the pod's, once they are on it. */
static void list_charges(struct placement *p, const struct placement_host *host,
			 const struct placement_bill *bill, struct placement_pod *pod)
{
	uint16_t instances[PLACEMENT_DEVICES] = {0};
	uint32_t holder = holder_of(bill);
	int32_t *link = &pod->first_charge;

	for (int i = 0; i < bill->instances + host->devices; i++) {
		struct placement_charge charge = {
			.next = PLACEMENT_NONE, .tenants = 1, .holders = holder};
		int device = i - bill->instances;
		int32_t at = p->free_charge;

		if (i < bill->instances) {
			charge.device = bill->instance[i].device;
			charge.profile = (uint8_t)(bill->instance[i].profile + 1);
			charge.start = bill->instance[i].start;
			instances[charge.device]++;
		} else {
			if (bill->tenants[device] <= instances[device])
				continue;
			charge.device = (uint8_t)device;
			charge.tenants = (uint16_t)(bill->tenants[device] - instances[device]);
			charge.memory = bill->memory[device];
			charge.compute = bill->compute[device];
			charge.exclusive = bill->exclusive[device];
		}
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

int placement_commit(struct placement *p, const struct placement_request *request, uint32_t node,
		     const struct placement_assignment *assignment, int32_t priority,
		     uint64_t *ret_pod)
{
	/* Whoever decided may have known of a taint that came later: what is bound stays. */
	const uint32_t lifted = BIT(CORDONED) | BIT(TAINT);
	struct placement_host *host;
	struct placement_pod *pod;
	struct placement_bill bill;
	uint32_t refusals;
	int32_t at = p->free_pod;
	int r = placement_valid(request);

	if (r < 0)
		return r;
	if (node >= p->node_end || !p->hosts[node].present)
		return -ENOENT;
	host = &p->hosts[node];
	refusals = placement_node_refusals(host, node, request) & ~lifted;
	if (refusals)
		return placement_first_reason(refusals);
	r = placement_bill(p, host, request, assignment, lifted, &bill);
	if (r != 0)
		return r;
	if (at < 0 || !enough_charges(p, &bill))
		return -ENOSPC;

	pod = &p->pods[at];
	p->free_pod = pod->next;
	*pod = (struct placement_pod){.host_memory = bill.host_memory,
				      .cpu = bill.cpu,
				      .generation = pod->generation + 1,
				      .node = (int32_t)node,
				      .next = host->first_pod,
				      .previous = PLACEMENT_NONE,
				      .first_charge = PLACEMENT_NONE,
				      .priority = priority,
				      .class = request->class,
				      .kind = placement_kind(request)};
	list_charges(p, host, &bill, pod);
	if (host->first_pod >= 0)
		p->pods[host->first_pod].previous = at;
	host->first_pod = at;
	host->pods++;
	count(p, host, -1);
	placement_lift_pod(p, host, pod, true);
	count(p, host, 1);
	p->totals.pods++;
	p->turnover++;
	placement_changed(p, node);
	*ret_pod = placement_pod_name(p, at);
	return 0;
}

int placement_release(struct placement *p, uint64_t name)
{
	uint32_t at = (uint32_t)name;
	struct placement_host *host;
	struct placement_pod *pod;
	int32_t last;

	if (at >= p->limits.pods || p->pods[at].generation != name >> 32 ||
	    !(p->pods[at].generation & 1))
		return -ENOENT;
	pod = &p->pods[at];
	host = &p->hosts[pod->node];
	count(p, host, -1);
	placement_lift_pod(p, host, pod, false);
	count(p, host, 1);
	if (pod->previous >= 0)
		p->pods[pod->previous].next = pod->next;
	else
		host->first_pod = pod->next;
	if (pod->next >= 0)
		p->pods[pod->next].previous = pod->previous;
	host->pods--;
	p->totals.pods--;
	p->turnover++;
	for (last = pod->first_charge; last >= 0 && p->charges[last].next >= 0;)
		last = p->charges[last].next;
	if (last >= 0) {
		p->charges[last].next = p->free_charge;
		p->free_charge = pod->first_charge;
	}
	pod->generation++;
	pod->next = p->free_pod;
	p->free_pod = (int32_t)at;
	placement_changed(p, (uint32_t)pod->node);
	return 0;
}
