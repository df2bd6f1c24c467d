/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The books: what each pod holds, given back exactly as it was taken.
 */
#include "core/placement/placement_machine.h"

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
	int profile = PLACEMENT_NONE;

	if (refusals)
		return placement_first_reason(refusals);
	if (want->profile) {
		profile = placement_home(p, gpu, want->profile, slot->start);
		if (!(lifted & BIT(MIG_PLACEMENT)) &&
		    (profile < 0 ||
		     gpu->mig_taken & placement_slices(p, gpu, profile, slot->start)))
			return PLACEMENT_NO_MIG_PLACEMENT;
	}
	placement_put(p, gpu, request->class, want, profile, slot->start);
	return PLACEMENT_FITS;
}

/* Raises the bill to what the trial host holds more than the host, instances apart. */
static void raise(const struct placement_host *host, const struct placement_host *trial,
		  uint8_t class, const uint16_t *instances, struct placement_bill *bill)
{
	for (int i = 0; i < host->devices; i++) {
		uint32_t compute = trial->gpu[i].compute[class] - host->gpu[i].compute[class];
		uint64_t memory = trial->gpu[i].memory[class] - host->gpu[i].memory[class];
		uint16_t tenants = trial->gpu[i].tenants - host->gpu[i].tenants - instances[i];

		if (bill->compute[i] < compute)
			bill->compute[i] = compute;
		if (bill->memory[i] < memory)
			bill->memory[i] = memory;
		if (bill->tenants[i] < tenants)
			bill->tenants[i] = tenants;
		bill->exclusive[i] |= trial->gpu[i].exclusive > host->gpu[i].exclusive;
	}
}

/* A phase: the containers that run with init container `init`, or (-1) for the pod's life. MIG
 * instances are made once and stay, so each phase has those of all containers up to it. */
static enum placement_reason bill_phase(const struct placement *p,
					const struct placement_host *host,
					const struct placement_request *request,
					const struct placement_assignment *assignment, int init,
					uint32_t lifted, struct placement_bill *bill)
{
	uint16_t instances[PLACEMENT_DEVICES] = {0};
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
		instances[slot->device] += it->profile != 0;
		if (it->profile && (init < 0 || slot->container == init))
			bill->instance[bill->instances++] =
				(struct placement_instance){it->profile, slot->device, slot->start};
	}
	raise(host, &trial, request->class, instances, bill);
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

static void charge(const struct placement *p, struct placement_host *host, uint8_t class,
		   const struct placement_charge *it, bool back)
{
	struct placement_gpu *gpu = &host->gpu[it->device];
	int sign = back ? 1 : -1;

	gpu->tenants = (uint16_t)(gpu->tenants + sign * it->tenants);
	gpu->holders += (uint32_t)sign * it->holders;
	gpu->leaving += (uint32_t)sign * it->leaving;
	if (it->profile) {
		int profile = placement_home(p, gpu, it->profile, it->start);
		uint32_t slices;

		if (profile < 0) {
			gpu->leftovers = (uint16_t)(gpu->leftovers + sign);
			return;
		}
		slices = placement_slices(p, gpu, profile, it->start);
		gpu->overlap |= back && gpu->mig_taken & slices;
		gpu->mig_taken = back ? gpu->mig_taken | slices : gpu->mig_taken & ~slices;
		gpu->mig_instances[profile] = (uint8_t)(gpu->mig_instances[profile] + sign);
		return;
	}
	if (gpu->is.geometry)
		gpu->leftovers = (uint16_t)(gpu->leftovers + sign);
	gpu->memory[class] += (uint64_t)sign * it->memory;
	gpu->compute[class] += (uint32_t)sign * it->compute;
	gpu->exclusive = (uint16_t)(gpu->exclusive + sign * it->exclusive);
}

/* Finds the slices that are in use by asking all pods that are there: if two had the same, one of
 * them still has it. */
static void find_slices(const struct placement *p, struct placement_host *host, int device)
{
	struct placement_gpu *gpu = &host->gpu[device];

	gpu->mig_taken = 0;
	gpu->overlap = false;
	for (int32_t at = host->first_pod; at >= 0; at = p->pods[at].next) {
		for (int32_t i = p->pods[at].first_charge; i >= 0 && !p->pods[at].out;
		     i = p->charges[i].next) {
			const struct placement_charge *it = &p->charges[i];
			int profile = it->device == device && it->profile
					      ? placement_home(p, gpu, it->profile, it->start)
					      : PLACEMENT_NONE;
			uint32_t slices = 0;

			if (profile >= 0)
				slices = placement_slices(p, gpu, profile, it->start);
			gpu->overlap |= gpu->mig_taken & slices;
			gpu->mig_taken |= slices;
		}
	}
}

void placement_lift_pod(const struct placement *p, struct placement_host *host,
			struct placement_pod *pod, bool back)
{
	pod->out = !back;
	for (int32_t i = pod->first_charge; i >= 0; i = p->charges[i].next)
		charge(p, host, pod->class, &p->charges[i], back);
	for (int32_t i = pod->first_charge; i >= 0 && !back; i = p->charges[i].next)
		if (host->gpu[p->charges[i].device].overlap)
			find_slices(p, host, p->charges[i].device);
	host->cpu_used += back ? pod->cpu : -pod->cpu;
	host->memory_used += back ? pod->host_memory : -pod->host_memory;
	host->kinds[pod->kind] += back ? 1u : -1u;
}

void placement_rebuild(const struct placement *p, struct placement_host *host)
{
	host->cpu_used = 0;
	host->memory_used = 0;
	memset(host->kinds, 0, sizeof(host->kinds));
	for (int i = 0; i < host->devices; i++) {
		struct placement_device is = host->gpu[i].is;
		uint8_t over = host->gpu[i].over;

		memset(&host->gpu[i], 0, sizeof(host->gpu[i]));
		host->gpu[i].is = is;
		host->gpu[i].over = over;
	}
	for (int32_t i = host->first_pod; i >= 0; i = p->pods[i].next)
		placement_lift_pod(p, host, &p->pods[i], true);
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

void placement_count(struct placement *p, const struct placement_host *host, int sign)
{
	uint64_t used = 0;

	p->empties[placement_empties(host)] += (uint32_t)sign;
	p->totals.nodes_over += host->over ? (uint32_t)sign : 0;
	for (int i = 0; i < host->devices; i++) {
		uint64_t sum = promised(&host->gpu[i]);
		uint64_t whole = placement_gpu_milli(&host->gpu[i]);

		p->totals.promised_milli += (uint64_t)sign * sum;
		used += sum < whole ? sum : whole;
	}
	p->totals.used_milli += (uint64_t)sign * used;
	p->model_used[host->model] += (uint64_t)sign * used;
	if (p->model_used[host->model] > p->model_most[host->model])
		p->models_short |= 1ull << host->model;
	else
		p->models_short &= ~(1ull << host->model);
}
