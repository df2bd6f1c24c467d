/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what fits on a GPU and on a node, one constraint at a time. Each test answers with all
 * obstacles, as bits, so that an explanation can lift one and ask again.
 */
#include "core/placement/placement_machine.h"

_Static_assert(PLACEMENT_CLASSES == 3, "room() adds up three");

/* The tightest of the limits that bind a class: its own, and those of classes with larger factors,
 * which count its promises too. */
static int64_t room(const struct placement *p, uint64_t capacity, const uint64_t *used, int which,
		    uint8_t class)
{
	const uint64_t *factor = p->factors[which];
	int64_t best = INT64_MAX;

	if (p->plain)
		return (int64_t)capacity - (int64_t)(used[0] + used[1] + used[2]);

	for (int limit = 0; limit < PLACEMENT_CLASSES; limit++) {
		uint64_t sum = 0;
		int64_t left;

		if (factor[limit] < factor[class])
			continue;
		for (int i = 0; i < PLACEMENT_CLASSES; i++)
			if (factor[i] <= factor[limit])
				sum += used[i];
		left = (int64_t)(capacity / 1000 * factor[limit] +
				 capacity % 1000 * factor[limit] / 1000) -
		       (int64_t)sum;
		if (left < best)
			best = left;
	}
	return best;
}

int64_t placement_compute_room(const struct placement *p, const struct placement_gpu *gpu,
			       uint8_t class)
{
	uint64_t used[PLACEMENT_CLASSES];

	for (int i = 0; i < PLACEMENT_CLASSES; i++)
		used[i] = gpu->compute[i];
	return room(p, gpu->is.compute_milli, used, 0, class);
}

int64_t placement_memory_room(const struct placement *p, const struct placement_gpu *gpu,
			      uint8_t class)
{
	return room(p, gpu->is.memory_bytes, gpu->memory, 1, class);
}

int placement_find_profile(const struct placement *p, const struct placement_gpu *gpu,
			   uint16_t name)
{
	const struct placement_profiles *all = &p->geometry[gpu->is.geometry];

	for (int i = 0; gpu->is.geometry && i < all->size; i++)
		if (all->profile[i].name == name)
			return i;
	return PLACEMENT_NONE;
}

int placement_home(const struct placement *p, const struct placement_gpu *gpu, uint16_t name,
		   uint8_t start)
{
	int profile = placement_find_profile(p, gpu, name);

	if (profile < 0 || start >= PLACEMENT_STARTS ||
	    !(p->geometry[gpu->is.geometry].profile[profile].starts >> start & 1))
		return PLACEMENT_NONE;
	return profile;
}

static uint32_t slices(const struct placement_profile *profile, int start)
{
	return ((1u << profile->size) - 1) << start;
}

uint32_t placement_slices(const struct placement *p, const struct placement_gpu *gpu, int profile,
			  uint8_t start)
{
	return slices(&p->geometry[gpu->is.geometry].profile[profile], start);
}

static bool may_add(const struct placement *p, const struct placement_gpu *gpu, int profile)
{
	const struct placement_profile *it = &p->geometry[gpu->is.geometry].profile[profile];

	return !it->most || gpu->mig_instances[profile] < it->most;
}

/* How many placements, over all profiles, would be left with `taken` slices in use. */
static int placements_left(const struct placement *p, const struct placement_gpu *gpu,
			   uint32_t taken)
{
	const struct placement_profiles *all = &p->geometry[gpu->is.geometry];
	int n = 0;

	for (int i = 0; i < all->size; i++)
		for (int start = 0; start < PLACEMENT_STARTS && may_add(p, gpu, i); start++)
			n += (all->profile[i].starts >> start & 1) &&
			     !(taken & slices(&all->profile[i], start));
	return n;
}

int placement_instances(const struct placement *p, uint8_t geometry, uint32_t taken,
			const uint8_t *there, uint16_t name)
{
	const struct placement_profiles *all = &p->geometry[geometry];
	int n = 0;

	for (int i = 0; i < all->size; i++) {
		const struct placement_profile *it = &all->profile[i];
		int more = it->most ? it->most - there[i] : INT32_MAX;

		for (int start = 0; it->name == name && start < PLACEMENT_STARTS; start++) {
			if (more <= 0)
				break;
			if (!(it->starts >> start & 1) || taken & slices(it, start))
				continue;
			taken |= slices(it, start);
			more--;
			n++;
		}
	}
	return n;
}

/* The free starts: first the one that spoils the fewest other placements, the lowest of equals. */
int placement_find_starts(const struct placement *p, const struct placement_gpu *gpu, int profile,
			  uint8_t *ret_starts)
{
	const struct placement_profile *it = &p->geometry[gpu->is.geometry].profile[profile];
	int left[PLACEMENT_STARTS], size = 0;

	for (int start = 0; start < PLACEMENT_STARTS && may_add(p, gpu, profile); start++) {
		uint32_t wanted = slices(it, start);
		int at = size, n;

		if (!(it->starts >> start & 1) || gpu->mig_taken & wanted)
			continue;
		n = placements_left(p, gpu, gpu->mig_taken | wanted);
		for (size++; at > 0 && n > left[at - 1]; at--) {
			left[at] = left[at - 1];
			ret_starts[at] = ret_starts[at - 1];
		}
		left[at] = n;
		ret_starts[at] = (uint8_t)start;
	}
	return size;
}

/* Is there one? */
static bool has_start(const struct placement *p, const struct placement_gpu *gpu, int profile)
{
	const struct placement_profile *it = &p->geometry[gpu->is.geometry].profile[profile];

	for (int start = 0; start < PLACEMENT_STARTS && may_add(p, gpu, profile); start++)
		if (it->starts >> start & 1 && !(gpu->mig_taken & slices(it, start)))
			return true;
	return false;
}

static uint32_t amounts(const struct placement *p, const struct placement_gpu *gpu,
			const struct placement_container *want, uint8_t class)
{
	uint32_t refusals = 0;

	if (gpu->exclusive)
		refusals |= BIT(SHARED);
	if (want->exclusive && gpu->tenants)
		refusals |= BIT(EXCLUSIVE);
	if (want->memory_bytes) {
		const uint64_t none[PLACEMENT_CLASSES] = {0};
		int64_t wanted = (int64_t)want->memory_bytes;

		if (wanted > room(p, gpu->is.memory_bytes, none, 1, class) ||
		    (gpu->is.most_bytes && want->memory_bytes > gpu->is.most_bytes))
			refusals |= BIT(MEMORY_SIZE);
		else if (wanted > placement_memory_room(p, gpu, class))
			refusals |= BIT(MEMORY);
	}
	if (want->compute_milli && want->compute_milli > placement_compute_room(p, gpu, class))
		refusals |= BIT(COMPUTE);
	return refusals;
}

uint32_t placement_gpu_refusals(const struct placement *p, const struct placement_gpu *gpu,
				const struct placement_request *request,
				const struct placement_container *want, uint32_t index)
{
	uint32_t refusals = 0;

	if (request->named_devices && !(request->named_devices >> index & 1))
		refusals |= BIT(NAMED_DEVICE);
	if (gpu->is.lost)
		refusals |= BIT(LOST);
	if (gpu->leftovers)
		refusals |= BIT(LEFTOVER);
	if (gpu->is.taints & ~request->tolerations)
		refusals |= BIT(TAINT);
	if (gpu->tenants >= placement_slots(gpu))
		refusals |= BIT(SLOTS);
	if (want->profile) {
		int profile = placement_find_profile(p, gpu, want->profile);

		if (profile < 0)
			refusals |= BIT(MIG_PROFILE);
		else if (!has_start(p, gpu, profile))
			refusals |= BIT(MIG_PLACEMENT);
		return refusals;
	}
	if (gpu->is.geometry)
		return refusals | BIT(MIG_MODE);
	return refusals | amounts(p, gpu, want, request->class);
}

void placement_put(const struct placement *p, struct placement_gpu *gpu, uint8_t class,
		   const struct placement_container *want, int profile, uint8_t start)
{
	gpu->tenants++;
	if (profile >= 0) {
		gpu->mig_taken |= slices(&p->geometry[gpu->is.geometry].profile[profile], start);
		gpu->mig_instances[profile]++;
		return;
	}
	gpu->memory[class] += want->memory_bytes;
	gpu->compute[class] += want->compute_milli;
	gpu->exclusive += want->exclusive;
}

/* Init containers run one by one, each beside the sidecars that were started before it. */
void placement_host_needs(const struct placement_request *request, int64_t *ret_cpu,
			  uint64_t *ret_memory)
{
	int64_t cpu = 0, sidecars = 0, peak = 0;
	uint64_t memory = 0, sidecar_memory = 0, peak_memory = 0;

	for (int i = 0; i < request->containers; i++) {
		const struct placement_container *it = &request->container[i];

		if (it->kind == PLACEMENT_INIT) {
			if (peak < sidecars + it->cpu_milli)
				peak = sidecars + it->cpu_milli;
			if (peak_memory < sidecar_memory + it->host_memory_bytes)
				peak_memory = sidecar_memory + it->host_memory_bytes;
			continue;
		}
		cpu += it->cpu_milli;
		memory += it->host_memory_bytes;
		if (it->kind == PLACEMENT_SIDECAR) {
			sidecars += it->cpu_milli;
			sidecar_memory += it->host_memory_bytes;
		}
	}
	*ret_cpu = cpu > peak ? cpu : peak;
	*ret_memory = memory > peak_memory ? memory : peak_memory;
}

bool placement_asks_gpus(const struct placement_request *request)
{
	for (int i = 0; i < request->containers; i++)
		if (request->container[i].devices)
			return true;
	return false;
}

uint32_t placement_node_refusals(const struct placement_host *host, uint32_t node,
				 const struct placement_request *request)
{
	uint32_t refusals = 0;
	int64_t cpu;
	uint64_t memory;

	placement_host_needs(request, &cpu, &memory);
	if (host->cordoned)
		refusals |= BIT(CORDONED);
	if (request->node != PLACEMENT_ANYWHERE && (uint32_t)request->node != node)
		refusals |= BIT(OTHER_NODE);
	/* A pod that asks for none takes none, even if too much is promised. */
	if (cpu && cpu > placement_cpu_room(host))
		refusals |= BIT(CPU);
	if (memory && (int64_t)memory > placement_host_room(host))
		refusals |= BIT(HOST_MEMORY);
	for (int i = 0; i < request->containers; i++)
		if (request->container[i].devices > host->devices)
			refusals |= BIT(DEVICE_COUNT);
	if (request->models && !(request->models >> host->model & 1) &&
	    placement_asks_gpus(request))
		refusals |= BIT(MODEL);
	return refusals;
}

bool placement_same_device(const struct placement_device *a, const struct placement_device *b)
{
	return a->memory_bytes == b->memory_bytes && a->most_bytes == b->most_bytes &&
	       a->compute_milli == b->compute_milli && a->taints == b->taints &&
	       a->slots == b->slots && a->links == b->links && a->numa == b->numa &&
	       a->geometry == b->geometry && a->lost == b->lost;
}

/* Member by member, since padding may differ. */
bool placement_same_gpu(const struct placement_gpu *a, const struct placement_gpu *b)
{
	for (int i = 0; i < PLACEMENT_CLASSES; i++)
		if (a->memory[i] != b->memory[i] || a->compute[i] != b->compute[i])
			return false;
	return a->tenants == b->tenants && a->holders == b->holders &&
	       a->exclusive == b->exclusive && a->mig_taken == b->mig_taken &&
	       a->leftovers == b->leftovers && a->leaving == b->leaving &&
	       placement_same_device(&a->is, &b->is) &&
	       memcmp(a->mig_instances, b->mig_instances, sizeof(a->mig_instances)) == 0;
}

void placement_copy_host(struct placement_host *to, const struct placement_host *from)
{
	memcpy(to, from,
	       offsetof(struct placement_host, gpu) + from->devices * sizeof(from->gpu[0]));
}

/* Whether each container's GPUs are on one NUMA node, or linked pairwise. */
bool placement_wish_holds(const struct placement_host *host,
			  const struct placement_request *request,
			  const struct placement_assignment *assignment, bool links)
{
	(void)request;
	for (int i = 0; i < assignment->size; i++) {
		const struct placement_slot *a = &assignment->slot[i];

		for (int j = 0; j < i; j++) {
			const struct placement_slot *b = &assignment->slot[j];

			if (a->container != b->container)
				continue;
			if (links ? !(host->gpu[a->device].is.links >> b->device & 1)
				  : host->gpu[a->device].is.numa != host->gpu[b->device].is.numa)
				return false;
		}
	}
	return true;
}
