/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/placement.h under random histories. The oracle here keeps its own list of pods
 * and works everything out anew, by trying all sets of GPUs; it shares no code with the machine.
 */
#include <stdlib.h>

#include "core/placement.h"
#include "tests/test.h"

enum { NODES = 5, PODS = 40, GPUS = 5, PROFILES = 3 };

#define MIB (1ull << 20)

struct pod {
	uint64_t name;
	struct placement_request request;
	struct placement_assignment assignment;
	int32_t priority;
	uint32_t node;
};

static struct world {
	struct placement *p;
	struct placement_config config;
	struct placement_node node[NODES];
	struct pod pod[PODS];
	struct placement_request usual[4];
	uint32_t counts[4];
	int pods;
	_Alignas(64) char memory[2][1 << 20];
} w;

/* Profile 1: one slice anywhere; 2: two slices at 0 or 2; 3: all four, once. */
static const struct placement_profile geometry[PROFILES] = {
	{.name = 1, .starts = 0xf, .size = 1, .compute = 1},
	{.name = 2, .starts = 0x5, .size = 2, .compute = 2},
	{.name = 3, .starts = 0x1, .size = 4, .compute = 4, .most = 1},
};

static bool chance(int percent)
{
	return (int)test_random_below(100) < percent;
}

static uint32_t amount(uint32_t most)
{
	return chance(25) ? most : (uint32_t)test_random_below(most + 1);
}

static struct placement *fresh(void *memory, size_t size)
{
	const struct placement_limits limits = {
		.nodes = NODES, .pods = PODS, .charges = PODS * GPUS, .shapes = 6, .typicals = 8};
	struct placement *p = NULL;
	uint8_t number;

	expect(placement_size(&limits) <= size);
	expect_eq(placement_init(memory, size, &limits, &p), 0);
	expect_eq(placement_configure(p, &w.config), 0);
	expect_eq(placement_geometry(p, geometry, PROFILES, &number), 0);
	expect_eq(placement_learn(p, w.usual, w.counts, 4), 0);
	for (int i = 0; i < NODES; i++) {
		uint32_t node;

		expect_eq(placement_add_node(p, &w.node[i], &node), 0);
		expect_eq(node, i);
	}
	return p;
}

static struct placement_node random_node(void)
{
	struct placement_node node = {
		.cpu_milli = 4000 + amount(16000),
		.host_memory_bytes = (100 + amount(400)) * MIB,
		.model = (uint8_t)test_random_below(3),
		.devices = (uint8_t)test_random_below(GPUS + 1),
		.cordoned = chance(5),
	};

	for (int i = 0; i < node.devices; i++)
		node.device[i] = (struct placement_device){
			.memory_bytes = chance(80) ? 100 * MIB : 40 * MIB,
			.compute_milli = PLACEMENT_WHOLE,
			.taints = chance(10) ? 1u << test_random_below(2) : 0,
			.slots = chance(30) ? (uint16_t)(1 + test_random_below(3)) : 0,
			.numa = (uint8_t)test_random_below(2),
			.geometry = chance(20),
		};
	for (int i = 0; i < node.devices; i++)
		for (int j = 0; j < i; j++)
			if (chance(50)) {
				node.device[i].links |= (uint16_t)(1u << j);
				node.device[j].links |= (uint16_t)(1u << i);
			}
	return node;
}

static struct placement_container random_container(bool first)
{
	struct placement_container it = {
		.cpu_milli = amount(4000),
		.host_memory_bytes = amount(80) * MIB,
		.kind = first || chance(70) ? PLACEMENT_APP
					    : (chance(50) ? PLACEMENT_INIT : PLACEMENT_SIDECAR),
	};

	if (chance(10))
		return it;
	it.devices = (uint8_t)(chance(70) ? 1 : 1 + test_random_below(3));
	if (chance(15)) {
		it.profile = (uint16_t)(1 + test_random_below(PROFILES));
		return it;
	}
	it.exclusive = chance(20);
	it.compute_milli = it.exclusive ? PLACEMENT_WHOLE : 50 * amount(20);
	it.memory_bytes = chance(70) ? amount(110) * MIB : 0;
	return it;
}

static struct placement_request random_request(int most_containers)
{
	struct placement_request request = {
		.node = PLACEMENT_ANYWHERE,
		.models = chance(30) ? test_random_below(7) + 1 : 0,
		.tolerations = (uint32_t)test_random_below(4),
		.class = (uint8_t)test_random_below(PLACEMENT_CLASSES),
		.numa = chance(20) ? (uint8_t)test_random_below(3) : 0,
		.links = chance(20) ? (uint8_t)test_random_below(3) : 0,
		.containers = (uint8_t)(1 + test_random_below((uint64_t)most_containers)),
	};

	for (int i = 0; i < request.containers; i++)
		request.container[i] = random_container(i == 0);
	if (chance(5)) {
		request.node = (int32_t)test_random_below(NODES);
		request.named_devices = (uint32_t)test_random_below(4);
	}
	return request;
}

static void given_a_world(void)
{
	memset(&w, 0, offsetof(struct world, memory));
	w.config.policy = (enum placement_policy)test_random_below(PLACEMENT_POLICIES);
	for (int i = 0; i < PLACEMENT_CLASSES && chance(60); i++) {
		w.config.compute_factor_milli[i] = 1000 + 250 * (uint32_t)test_random_below(3);
		w.config.memory_factor_milli[i] = 1000 + 500 * (uint32_t)test_random_below(2);
	}
	for (int i = 0; i < NODES; i++)
		w.node[i] = random_node();
	for (int i = 0; i < 4; i++) {
		w.usual[i] = random_request(1);
		w.usual[i].node = PLACEMENT_ANYWHERE;
		w.usual[i].named_devices = 0;
		w.counts[i] = 1 + (uint32_t)test_random_below(9);
	}
	w.p = fresh(w.memory[0], sizeof(w.memory[0]));
}

/* ---- the oracle: what each GPU of a node has promised ---- */

struct load {
	uint64_t memory[PLACEMENT_CLASSES], compute[PLACEMENT_CLASSES];
	uint32_t tenants, exclusive, pods, slices, instances[PROFILES];
};

static bool runs(const struct placement_request *request, int container, int phase)
{
	const struct placement_container *it = &request->container[container];

	if (phase < 0)
		return it->kind != PLACEMENT_INIT;
	return container == phase || (it->kind == PLACEMENT_SIDECAR && container < phase);
}

/* What the pod holds of one GPU: the most of any phase; its MIG instances all the time. */
static struct load pod_load(const struct pod *pod, int gpu)
{
	struct load most = {0};

	for (int phase = -1; phase < pod->request.containers; phase++) {
		uint64_t memory = 0, compute = 0;
		uint32_t tenants = 0;
		bool alone = false;

		if (phase >= 0 && pod->request.container[phase].kind != PLACEMENT_INIT)
			continue;
		for (int i = 0; i < pod->assignment.size; i++) {
			const struct placement_slot *slot = &pod->assignment.slot[i];
			const struct placement_container *it =
				&pod->request.container[slot->container];

			if (slot->device != gpu || it->profile ||
			    !runs(&pod->request, slot->container, phase))
				continue;
			memory += it->memory_bytes;
			compute += it->compute_milli;
			tenants++;
			alone |= it->exclusive;
		}
		expect(!alone || tenants == 1);
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
		slices = ((1u << geometry[name - 1].size) - 1) << slot->start;
		expect(geometry[name - 1].starts >> slot->start & 1);
		expect_eq(most.slices & slices, 0);
		most.slices |= slices;
		most.instances[name - 1]++;
		most.tenants++;
	}
	return most;
}

static struct load gpu_load(uint32_t node, int gpu)
{
	struct load sum = {0};

	for (int i = 0; i < w.pods; i++) {
		struct load one;

		if (w.pod[i].node != node)
			continue;
		one = pod_load(&w.pod[i], gpu);
		for (int c = 0; c < PLACEMENT_CLASSES; c++) {
			sum.memory[c] += one.memory[c];
			sum.compute[c] += one.compute[c];
		}
		expect_eq(sum.slices & one.slices, 0);
		sum.slices |= one.slices;
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
	uint32_t f =
		memory ? w.config.memory_factor_milli[class] : w.config.compute_factor_milli[class];

	return f ? f : 1000;
}

static int64_t oracle_room(uint64_t capacity, const uint64_t *used, bool memory, int class)
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

static void expect_nothing_promised_twice(void)
{
	for (uint32_t n = 0; n < NODES; n++) {
		int64_t cpu, memory;

		host_load(n, &cpu, &memory);
		expect(cpu <= w.node[n].cpu_milli);
		expect(memory <= (int64_t)w.node[n].host_memory_bytes);
		for (int g = 0; g < w.node[n].devices; g++) {
			const struct placement_device *it = &w.node[n].device[g];
			struct load load = gpu_load(n, g);

			expect(!it->slots || load.tenants <= it->slots);
			expect(!load.exclusive || load.pods == 1);
			expect(!load.slices || it->geometry);
			expect(load.instances[2] <= 1);
			for (int c = 0; c < PLACEMENT_CLASSES; c++) {
				expect(oracle_room(it->memory_bytes, load.memory, true, c) >= 0);
				expect(oracle_room(it->compute_milli, load.compute, false, c) >= 0);
			}
		}
	}
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
			if (!runs(request, i, phase))
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
	for (int i = 0; i < w.pods; i++) {
		int64_t cpu, memory;

		if (w.pod[i].node != node)
			continue;
		host_needs(&w.pod[i].request, &cpu, &memory);
		*ret_cpu += cpu;
		*ret_memory += memory;
	}
}

/* ---- the oracle: what stands in the way of a request with one container ---- */

#define BIT(name) (1u << PLACEMENT_NO_##name)

static uint32_t oracle_gpu(uint32_t node, int gpu, const struct placement_request *request)
{
	const struct placement_container *want = &request->container[0];
	const struct placement_device *it = &w.node[node].device[gpu];
	struct load load = gpu_load(node, gpu), with;
	uint64_t none[PLACEMENT_CLASSES] = {0};
	uint32_t bits = 0;
	bool start = false;

	bits |= request->named_devices && !(request->named_devices >> gpu & 1) ? BIT(NAMED_DEVICE)
									       : 0;
	bits |= it->taints & ~request->tolerations ? BIT(TAINT) : 0;
	bits |= it->slots && load.tenants >= it->slots ? BIT(SLOTS) : 0;
	if (want->profile) {
		const struct placement_profile *profile = &geometry[want->profile - 1];

		if (!it->geometry)
			return bits | BIT(MIG_PROFILE);
		for (int s = 0; s < 4; s++)
			start |= (profile->starts >> s & 1) &&
				 !(load.slices & ((1u << profile->size) - 1) << s);
		if (profile->most && load.instances[want->profile - 1] >= profile->most)
			start = false;
		return bits | (start ? 0 : BIT(MIG_PLACEMENT));
	}
	if (it->geometry)
		return bits | BIT(MIG_MODE);
	bits |= load.exclusive ? BIT(SHARED) : 0;
	bits |= want->exclusive && load.tenants ? BIT(EXCLUSIVE) : 0;
	with = load;
	if (want->memory_bytes &&
	    (int64_t)want->memory_bytes > oracle_room(it->memory_bytes, none, true, request->class))
		bits |= BIT(MEMORY_SIZE);
	else if (want->memory_bytes &&
		 (int64_t)want->memory_bytes >
			 oracle_room(it->memory_bytes, with.memory, true, request->class))
		bits |= BIT(MEMORY);
	if (want->compute_milli &&
	    want->compute_milli >
		    oracle_room(it->compute_milli, with.compute, false, request->class))
		bits |= BIT(COMPUTE);
	return bits;
}

static bool oracle_set(uint32_t node, const struct placement_request *request, uint32_t set,
		       uint32_t lifted)
{
	const struct placement_node *it = &w.node[node];

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

static bool oracle_fits(uint32_t node, const struct placement_request *request, uint32_t lifted)
{
	const struct placement_node *it = &w.node[node];
	uint32_t bits = 0;
	int64_t cpu, memory, cpu_used, memory_used;

	host_needs(request, &cpu, &memory);
	host_load(node, &cpu_used, &memory_used);
	bits |= it->cordoned ? BIT(CORDONED) : 0;
	bits |= request->node >= 0 && (uint32_t)request->node != node ? BIT(OTHER_NODE) : 0;
	bits |= cpu + cpu_used > it->cpu_milli ? BIT(CPU) : 0;
	bits |= memory + memory_used > (int64_t)it->host_memory_bytes ? BIT(HOST_MEMORY) : 0;
	bits |= request->container[0].devices > it->devices ? BIT(DEVICE_COUNT) : 0;
	bits |= request->container[0].devices && request->models &&
				!(request->models >> it->model & 1)
			? BIT(MODEL)
			: 0;
	if (bits & ~lifted)
		return false;
	for (uint32_t set = 0; set < 1u << it->devices; set++)
		if (__builtin_popcount(set) == request->container[0].devices &&
		    oracle_set(node, request, set, lifted))
			return true;
	return false;
}

static void expect_a_binding_reason(uint32_t node, const struct placement_request *request)
{
	struct placement_refusal refusal;
	uint32_t alone = 0;

	expect_eq(placement_explain(w.p, request, node, &refusal), 0);
	expect_eq(refusal.reason == PLACEMENT_FITS, oracle_fits(node, request, 0));
	if (!refusal.reason)
		return;
	for (int r = 1; r < PLACEMENT_REASONS; r++)
		if (oracle_fits(node, request, 1u << r))
			alone |= 1u << r;
	/* GPUs that are not there cannot be lifted into being. */
	alone &= ~BIT(DEVICE_COUNT);
	expect(!alone || (alone >> refusal.reason & 1));
	/* And it does stand in the way: without all others it still refuses. */
	if (refusal.reason != PLACEMENT_NO_PACKING && refusal.reason != PLACEMENT_NO_DEVICE_COUNT &&
	    !alone)
		expect(!oracle_fits(node, request, ~(1u << refusal.reason) & ~BIT(DEVICE_COUNT)) ||
		       w.node[node].devices < request->container[0].devices ||
		       !oracle_fits(node, request, ~((2u << refusal.reason) - 1)));
}

/* ---- the laws ---- */

static int32_t decide(struct placement *p, const struct placement_request *request,
		      struct placement_decision *decision)
{
	int r = placement_decide(p, request, decision);

	expect(r == 0 || r == PLACEMENT_NOWHERE);
	return r;
}

/* A machine that has only seen the living pods decides the same. */
static void expect_the_same_from_scratch(const struct placement_request *request)
{
	struct placement *other = fresh(w.memory[1], sizeof(w.memory[1]));
	struct placement_decision a, b;
	uint64_t name;
	int r;

	for (int i = 0; i < w.pods; i++)
		expect_eq(placement_commit(other, &w.pod[i].request, w.pod[i].node,
					   &w.pod[i].assignment, w.pod[i].priority, &name),
			  0);
	r = decide(w.p, request, &a);
	expect_eq(decide(other, request, &b), r);
	if (r)
		return;
	expect_eq(a.node, b.node);
	expect_eq(a.score, b.score);
	expect_eq(a.assignment.size, b.assignment.size);
	expect_eq(memcmp(a.assignment.slot, b.assignment.slot,
			 a.assignment.size * sizeof(a.assignment.slot[0])),
		  0);
}

static void arrive(void)
{
	struct pod *pod = &w.pod[w.pods];
	struct placement_decision decision;

	if (w.pods == PODS)
		return;
	pod->request = random_request(4);
	pod->priority = (int32_t)test_random_below(5);
	if (decide(w.p, &pod->request, &decision) != 0)
		return;
	pod->node = decision.node;
	pod->assignment = decision.assignment;
	expect_eq(placement_commit(w.p, &pod->request, pod->node, &pod->assignment, pod->priority,
				   &pod->name),
		  0);
	w.pods++;
}

static void leave(void)
{
	size_t i = w.pods ? test_random_below((uint64_t)w.pods) : 0;

	if (!w.pods)
		return;
	expect_eq(placement_release(w.p, w.pod[i].name), 0);
	expect_eq(placement_release(w.p, w.pod[i].name), -ENOENT);
	w.pod[i] = w.pod[--w.pods];
}

static void turn_something(void)
{
	uint32_t n = (uint32_t)test_random_below(NODES);

	if (chance(50) || !w.node[n].devices) {
		w.node[n].cordoned = chance(20);
		expect_eq(placement_cordon(w.p, n, w.node[n].cordoned), 0);
		return;
	}
	int gpu = (int)test_random_below(w.node[n].devices);

	w.node[n].device[gpu].taints = chance(30) ? 1 : 0;
	expect_eq(placement_taint(w.p, n, (uint32_t)gpu, w.node[n].device[gpu].taints), 0);
}

static void step(void)
{
	uint64_t what = test_random_below(10);
	uint32_t node;

	if (what < 6)
		arrive();
	else if (what < 9)
		leave();
	else
		turn_something();
	expect_nothing_promised_twice();
	expect_eq(placement_audit(w.p, &node), 0);
}

TEST(nothing_is_promised_twice_and_incremental_equals_from_scratch)
{
	for (unsigned round = test_rounds(150); round > 0; round--) {
		struct placement_request asked_again[3];

		given_a_world();
		for (int i = 0; i < 3; i++)
			asked_again[i] = random_request(2);
		for (int i = 0; i < 60; i++) {
			/* Now and then more changes than a shape can catch up with one by one. */
			for (uint64_t n = chance(20) ? NODES + test_random_below(5) : 1; n > 0; n--)
				step();
			expect_the_same_from_scratch(&asked_again[test_random_below(3)]);
		}
	}
}

TEST(a_refusal_names_a_constraint_that_binds)
{
	for (unsigned round = test_rounds(150); round > 0; round--) {
		given_a_world();
		for (int i = 0; i < 40; i++) {
			struct placement_request request = random_request(1);

			step();
			for (uint32_t n = 0; n < NODES; n++)
				expect_a_binding_reason(n, &request);
		}
	}
}

TEST(victims_make_room_and_none_of_them_could_stay)
{
	for (unsigned round = test_rounds(60); round > 0; round--) {
		given_a_world();
		for (int i = 0; i < 40; i++) {
			struct placement_request request = random_request(2);
			struct placement_decision decision;
			uint64_t victims[PODS];
			size_t size = 0;
			uint32_t node;

			arrive();
			if (placement_decide(w.p, &request, &decision) == 0 ||
			    placement_preempt(w.p, &request, 3, &node, victims, PODS, &size) != 0)
				continue;
			expect(size > 0);
			/* Gone one by one: it fits when the last one has left, not before. */
			for (size_t v = 0; v < size; v++) {
				expect(placement_try(w.p, &request, node, &decision) > 0);
				for (int k = 0; k < w.pods; k++) {
					if (w.pod[k].name != victims[v])
						continue;
					expect(w.pod[k].priority < 3);
					expect_eq(w.pod[k].node, node);
					w.pod[k] = w.pod[--w.pods];
					break;
				}
				expect_eq(placement_release(w.p, victims[v]), 0);
			}
			expect_eq(placement_try(w.p, &request, node, &decision), 0);
		}
	}
}

TEST(shapes_that_are_forgotten_are_learned_again)
{
	given_a_world();
	for (int i = 0; i < 200; i++) {
		struct placement_request request = random_request(1);
		struct placement_decision decision;

		/* More shapes than the six that are remembered, asked between changes. */
		(void)decide(w.p, &request, &decision);
		if (i % 7 == 0)
			step();
		expect_the_same_from_scratch(&request);
	}
}
