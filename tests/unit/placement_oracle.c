/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"
#include "tests/unit/placement_world.h"

/* ---- what each GPU of a node has promised ---- */

bool oracle_runs(const struct placement_request *request, int container, int phase)
{
	const struct placement_container *it = &request->container[container];

	if (phase < 0)
		return it->kind != PLACEMENT_INIT;
	return container == phase || (it->kind == PLACEMENT_SIDECAR && container < phase);
}

uint32_t oracle_slices(const struct placement_device *gpu, uint16_t name, uint8_t start)
{
	const struct placement_profile *it = world_profile(gpu->geometry, name);

	return it && start < 4 && it->starts >> start & 1 ? ((1u << it->size) - 1) << start : 0;
}

/* The pod's part of one GPU: the most of any phase; its MIG instances all the time. */
static struct load pod_load(const struct pod *pod, int gpu)
{
	const struct placement_device *it = &world.node[pod->node].device[gpu];
	uint32_t instances = 0;
	struct load most = {0};

	for (int phase = -1; phase < pod->request.containers; phase++) {
		uint64_t memory = 0, compute = 0;
		uint32_t tenants = 0;
		bool alone = false;

		if (phase >= 0 && pod->request.container[phase].kind != PLACEMENT_INIT)
			continue;
		for (int i = 0; i < pod->assignment.size; i++) {
			const struct placement_slot *slot = &pod->assignment.slot[i];
			const struct placement_container *want =
				&pod->request.container[slot->container];

			if (slot->device != gpu || want->profile ||
			    !oracle_runs(&pod->request, slot->container, phase))
				continue;
			memory += want->memory_bytes;
			compute += want->compute_milli;
			tenants++;
			alone |= want->exclusive;
		}
		expect(!alone || tenants == 1 || pod->adopted);
		most.exclusive |= alone;
		if (memory > most.memory[pod->request.class])
			most.memory[pod->request.class] = memory;
		if (compute > most.compute[pod->request.class])
			most.compute[pod->request.class] = compute;
		if (tenants > most.tenants)
			most.tenants = tenants;
	}
	for (int i = 0; i < pod->assignment.size; i++) {
		const struct placement_slot *slot = &pod->assignment.slot[i];
		uint16_t name = pod->request.container[slot->container].profile;
		uint32_t slices;

		if (slot->device != gpu || !name)
			continue;
		slices = oracle_slices(it, name, slot->start);
		expect(slices || world.changed[pod->node]);
		most.overlap |= most.slices & slices;
		most.slices |= slices;
		most.instances[name - 1] += slices != 0;
		most.leftovers += slices == 0;
		most.tenants++;
		instances++;
	}
	most.leftovers += it->geometry && most.tenants > instances;
	return most;
}

struct load oracle_load(uint32_t node, int gpu)
{
	struct load sum = {0};

	for (int i = 0; i < world.pods; i++) {
		struct load one;

		if (world.pod[i].node != node)
			continue;
		one = pod_load(&world.pod[i], gpu);
		for (int c = 0; c < PLACEMENT_CLASSES; c++) {
			sum.memory[c] += one.memory[c];
			sum.compute[c] += one.compute[c];
		}
		sum.overlap |= one.overlap || sum.slices & one.slices;
		sum.slices |= one.slices;
		sum.leftovers += one.leftovers;
		sum.tenants += one.tenants;
		sum.pods += one.tenants > 0;
		sum.exclusive += one.exclusive;
		for (int i2 = 0; i2 < PROFILES; i2++)
			sum.instances[i2] += one.instances[i2];
	}
	return sum;
}

static uint64_t factor(bool memory, int class)
{
	uint32_t f = memory ? world.config.memory_factor_milli[class]
			    : world.config.compute_factor_milli[class];

	return f ? f : 1000;
}

int64_t oracle_room(uint64_t capacity, const uint64_t *used, bool memory, int class)
{
	int64_t best = INT64_MAX;

	for (int limit = 0; limit < PLACEMENT_CLASSES; limit++) {
		int64_t left = (int64_t)(capacity * factor(memory, limit) / 1000);

		if (factor(memory, limit) < factor(memory, class))
			continue;
		for (int c = 0; c < PLACEMENT_CLASSES; c++)
			left -= factor(memory, c) <= factor(memory, limit) ? (int64_t)used[c] : 0;
		best = left < best ? left : best;
	}
	return best;
}

static void host_load(uint32_t node, int64_t *ret_cpu, int64_t *ret_memory);

static int64_t beyond(int64_t room)
{
	return room < 0 ? -room : 0;
}

/* Is more promised of the GPU than there is? By how much? */
static bool gpu_is_over(uint32_t n, int g, const struct placement_left *left, int class)
{
	const struct placement_device *it = &world.node[n].device[g];
	const struct placement_device_left *said = &left->device[g];
	struct load load = oracle_load(n, g);
	bool over = it->slots && load.tenants > it->slots;

	over |= (load.exclusive && load.pods > 1) || load.leftovers || load.overlap;
	for (int i = 0; i < PROFILES && it->geometry; i++) {
		const struct placement_profile *profile =
			world_profile(it->geometry, (uint16_t)(i + 1));

		over |= profile && profile->most && load.instances[i] > profile->most;
	}
	for (int c = 0; c < PLACEMENT_CLASSES; c++) {
		int64_t memory = oracle_room(it->memory_bytes, load.memory, true, c);
		int64_t compute = oracle_room(it->compute_milli, load.compute, false, c);

		over |= memory < 0 || compute < 0;
		if (c != class)
			continue;
		expect_eq(said->memory_over_bytes, beyond(memory));
		expect_eq(said->compute_over_milli, beyond(compute));
		expect((int64_t)said->memory_bytes <= (memory > 0 ? memory : 0));
		expect(said->compute_milli <= (compute > 0 ? compute : 0));
	}
	expect_eq(said->over, over);
	expect_eq(said->tenants, load.tenants);
	expect_eq(said->lost, it->lost);
	return over;
}

void expect_nothing_promised_twice(void)
{
	struct placement_totals totals;
	uint32_t nodes_over = 0;

	for (uint32_t n = 0; n < NODES; n++) {
		int class = (int)test_random_below(PLACEMENT_CLASSES);
		struct placement_left left;
		int64_t cpu, memory;
		bool over;

		expect_eq(placement_left(world.p, n, (uint8_t) class, &left), 0);
		host_load(n, &cpu, &memory);
		cpu = world.node[n].cpu_milli - cpu;
		memory = (int64_t)world.node[n].host_memory_bytes - memory;
		over = cpu < 0 || memory < 0;
		expect_eq(left.cpu_milli, cpu > 0 ? cpu : 0);
		expect_eq(left.cpu_over_milli, beyond(cpu));
		expect_eq(left.host_memory_bytes, memory > 0 ? memory : 0);
		expect_eq(left.host_memory_over_bytes, beyond(memory));
		for (int g = 0; g < world.node[n].devices; g++)
			over |= gpu_is_over(n, g, &left, class);
		expect_eq(left.over, over);
		expect(!over || world.changed[n]);
		/* On trial it may be so again. */
		world.changed[n] &= over || world.on_trial;
		nodes_over += over;
	}
	placement_totals(world.p, &totals);
	expect_eq(totals.nodes_over, nodes_over);
}

static void host_needs(const struct placement_request *request, int64_t *ret_cpu,
		       int64_t *ret_memory)
{
	*ret_cpu = *ret_memory = 0;
	for (int phase = -1; phase < request->containers; phase++) {
		int64_t cpu = 0, memory = 0;

		if (phase >= 0 && request->container[phase].kind != PLACEMENT_INIT)
			continue;
		for (int i = 0; i < request->containers; i++) {
			if (!oracle_runs(request, i, phase))
				continue;
			cpu += request->container[i].cpu_milli;
			memory += (int64_t)request->container[i].host_memory_bytes;
		}
		*ret_cpu = cpu > *ret_cpu ? cpu : *ret_cpu;
		*ret_memory = memory > *ret_memory ? memory : *ret_memory;
	}
}

static void host_load(uint32_t node, int64_t *ret_cpu, int64_t *ret_memory)
{
	*ret_cpu = *ret_memory = 0;
	for (int i = 0; i < world.pods; i++) {
		int64_t cpu, memory;

		if (world.pod[i].node != node)
			continue;
		host_needs(&world.pod[i].request, &cpu, &memory);
		*ret_cpu += cpu;
		*ret_memory += memory;
	}
}

/* ---- what stands in the way of a request with one container ---- */

#define BIT(name) (1u << PLACEMENT_NO_##name)

static uint32_t oracle_gpu(uint32_t node, int gpu, const struct placement_request *request)
{
	const struct placement_container *want = &request->container[0];
	const struct placement_device *it = &world.node[node].device[gpu];
	struct load load = oracle_load(node, gpu);
	uint64_t none[PLACEMENT_CLASSES] = {0};
	uint32_t bits = 0;
	bool start = false;

	bits |= request->named_devices && !(request->named_devices >> gpu & 1) ? BIT(NAMED_DEVICE)
									       : 0;
	bits |= it->lost ? BIT(LOST) : 0;
	bits |= load.leftovers ? BIT(LEFTOVER) : 0;
	bits |= it->taints & ~request->tolerations ? BIT(TAINT) : 0;
	bits |= it->slots && load.tenants >= it->slots ? BIT(SLOTS) : 0;
	if (want->profile) {
		const struct placement_profile *profile =
			world_profile(it->geometry, want->profile);

		if (!profile)
			return bits | BIT(MIG_PROFILE);
		for (uint8_t s = 0; s < 4; s++) {
			uint32_t slices = oracle_slices(it, want->profile, s);

			start |= slices && !(load.slices & slices);
		}
		if (profile->most && load.instances[want->profile - 1] >= profile->most)
			start = false;
		return bits | (start ? 0 : BIT(MIG_PLACEMENT));
	}
	if (it->geometry)
		return bits | BIT(MIG_MODE);
	bits |= load.exclusive ? BIT(SHARED) : 0;
	bits |= want->exclusive && load.tenants ? BIT(EXCLUSIVE) : 0;
	if (want->memory_bytes &&
	    (int64_t)want->memory_bytes > oracle_room(it->memory_bytes, none, true, request->class))
		bits |= BIT(MEMORY_SIZE);
	else if (want->memory_bytes &&
		 (int64_t)want->memory_bytes >
			 oracle_room(it->memory_bytes, load.memory, true, request->class))
		bits |= BIT(MEMORY);
	if (want->compute_milli &&
	    want->compute_milli >
		    oracle_room(it->compute_milli, load.compute, false, request->class))
		bits |= BIT(COMPUTE);
	return bits;
}

static bool oracle_set(uint32_t node, const struct placement_request *request, uint32_t set,
		       uint32_t lifted)
{
	const struct placement_node *it = &world.node[node];

	for (int a = 0; a < it->devices; a++) {
		if (!(set >> a & 1))
			continue;
		if (oracle_gpu(node, a, request) & ~lifted)
			return false;
		for (int b = 0; b < a; b++) {
			if (!(set >> b & 1))
				continue;
			if (request->numa == PLACEMENT_REQUIRE && !(lifted & BIT(NUMA)) &&
			    it->device[a].numa != it->device[b].numa)
				return false;
			if (request->links == PLACEMENT_REQUIRE && !(lifted & BIT(LINK)) &&
			    !(it->device[a].links >> b & 1))
				return false;
		}
	}
	return true;
}

uint32_t oracle_node(uint32_t node, const struct placement_request *request)
{
	const struct placement_node *it = &world.node[node];
	uint32_t bits = 0;
	int64_t cpu, memory, cpu_used, memory_used;
	bool gpus = false;

	host_needs(request, &cpu, &memory);
	host_load(node, &cpu_used, &memory_used);
	bits |= it->cordoned ? BIT(CORDONED) : 0;
	bits |= request->node >= 0 && (uint32_t)request->node != node ? BIT(OTHER_NODE) : 0;
	bits |= cpu && cpu + cpu_used > it->cpu_milli ? BIT(CPU) : 0;
	bits |= memory && memory + memory_used > (int64_t)it->host_memory_bytes ? BIT(HOST_MEMORY)
										: 0;
	for (int i = 0; i < request->containers; i++) {
		gpus |= request->container[i].devices > 0;
		bits |= request->container[i].devices > it->devices ? BIT(DEVICE_COUNT) : 0;
	}
	bits |= gpus && request->models && !(request->models >> it->model & 1) ? BIT(MODEL) : 0;
	return bits;
}

static bool oracle_fits(uint32_t node, const struct placement_request *request, uint32_t lifted)
{
	const struct placement_node *it = &world.node[node];

	if (oracle_node(node, request) & ~lifted)
		return false;
	for (uint32_t set = 0; set < 1u << it->devices; set++)
		if (__builtin_popcount(set) == request->container[0].devices &&
		    oracle_set(node, request, set, lifted))
			return true;
	return false;
}

void expect_a_binding_reason(uint32_t node, const struct placement_request *request)
{
	struct placement_refusal refusal;
	uint32_t alone = 0;

	expect_eq(placement_explain(world.p, request, node, &refusal), 0);
	expect_eq(refusal.reason == PLACEMENT_FITS, oracle_fits(node, request, 0));
	if (!refusal.reason)
		return;
	for (int r = 1; r < PLACEMENT_REASONS; r++)
		if (oracle_fits(node, request, 1u << r))
			alone |= 1u << r;
	expect(!alone || (alone >> refusal.reason & 1));
	/* The reasons given for a node are true of it: GPUs that are not there are called missing.
	 */
	if (refusal.reason <= PLACEMENT_NO_MODEL)
		expect(oracle_node(node, request) >> refusal.reason & 1);
	if (request->container[0].devices > world.node[node].devices)
		expect(refusal.reason <= PLACEMENT_NO_DEVICE_COUNT);
	/* And it does stand in the way: without all others it still refuses. */
	if (refusal.reason != PLACEMENT_NO_PACKING && refusal.reason != PLACEMENT_NO_DEVICE_COUNT &&
	    !alone)
		expect(!oracle_fits(node, request, ~(1u << refusal.reason) & ~BIT(DEVICE_COUNT)) ||
		       world.node[node].devices < request->container[0].devices ||
		       !oracle_fits(node, request, ~((2u << refusal.reason) - 1)));
}
