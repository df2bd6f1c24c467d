/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/placement_world.h"

#include "tests/test.h"

#define MIB (1ull << 20)

struct world world;

/* Profile 1: one slice anywhere; 2: two slices at 0 or 2; 3: all four, once. Or there is no 2, 1
 * has two slices and 3 has two in the middle. */
static const struct placement_profile geometries[GEOMETRIES][PROFILES] = {
	{
		{.name = 1, .starts = 0xf, .size = 1, .compute = 1},
		{.name = 2, .starts = 0x5, .size = 2, .compute = 2},
		{.name = 3, .starts = 0x1, .size = 4, .compute = 4, .most = 1},
	},
	{
		{.name = 1, .starts = 0x7, .size = 2, .compute = 1},
		{.name = 3, .starts = 0x2, .size = 2, .compute = 2},
	},
};
static const size_t offered[GEOMETRIES] = {3, 2};

const struct placement_profile *world_profile(int geometry, uint16_t name)
{
	for (size_t i = 0; geometry && i < offered[geometry - 1]; i++)
		if (geometries[geometry - 1][i].name == name)
			return &geometries[geometry - 1][i];
	return NULL;
}

bool world_chance(int percent)
{
	return (int)test_random_below(100) < percent;
}

static uint32_t amount(uint32_t most)
{
	return world_chance(25) ? most : (uint32_t)test_random_below(most + 1);
}

struct placement *world_fresh(void *memory, size_t size)
{
	const struct placement_limits limits = {.nodes = NODES,
						.pods = 2 * PODS,
						.charges = 2 * PODS * GPUS,
						.shapes = 6,
						.typicals = 8,
						.steps = STEPS};
	struct placement *p = NULL;
	uint8_t number;

	expect(placement_size(&limits) <= size);
	expect_eq(placement_init(memory, size, &limits, &p), 0);
	expect_eq(placement_configure(p, &world.config), 0);
	for (int i = 0; i < GEOMETRIES; i++) {
		expect_eq(placement_geometry(p, geometries[i], offered[i], &number), 0);
		expect_eq(number, i + 1);
	}
	expect_eq(placement_learn(p, world.usual, world.counts, 4), 0);
	for (int i = 0; i < NODES; i++) {
		uint32_t node;

		expect_eq(placement_add_node(p, &world.node[i], &node), 0);
		expect_eq(node, i);
	}
	return p;
}

struct placement_node world_node(void)
{
	struct placement_node node = {
		.cpu_milli = 4000 + amount(16000),
		.host_memory_bytes = (100 + amount(400)) * MIB,
		.tags = (uint32_t)test_random_below(4),
		.model = (uint8_t)test_random_below(3),
		.devices = (uint8_t)test_random_below(GPUS + 1),
		.cordoned = world_chance(5),
	};

	for (int i = 0; i < node.devices; i++)
		node.device[i] = (struct placement_device){
			.memory_bytes = world_chance(80) ? 100 * MIB : 40 * MIB,
			.compute_milli = PLACEMENT_WHOLE,
			.taints = world_chance(10) ? 1u << test_random_below(2) : 0,
			.slots = world_chance(30) ? (uint16_t)(1 + test_random_below(3)) : 0,
			.numa = (uint8_t)test_random_below(2),
			.geometry =
				world_chance(20) ? (uint8_t)(1 + test_random_below(GEOMETRIES)) : 0,
			.lost = world_chance(5),
		};
	for (int i = 0; i < node.devices; i++)
		for (int j = 0; j < i; j++)
			if (world_chance(50)) {
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
		.kind = first || world_chance(70)
				? PLACEMENT_APP
				: (world_chance(50) ? PLACEMENT_INIT : PLACEMENT_SIDECAR),
	};

	if (world_chance(10))
		return it;
	it.devices = (uint8_t)(world_chance(70) ? 1 : 1 + test_random_below(3));
	if (world_chance(15)) {
		it.profile = (uint16_t)(1 + test_random_below(PROFILES));
		return it;
	}
	it.exclusive = world_chance(20);
	it.compute_milli = it.exclusive ? PLACEMENT_WHOLE : 50 * amount(20);
	it.memory_bytes = world_chance(70) ? amount(110) * MIB : 0;
	return it;
}

struct placement_request world_request(int most_containers)
{
	struct placement_request request = {
		.node = PLACEMENT_ANYWHERE,
		.models = world_chance(30) ? test_random_below(7) + 1 : 0,
		.tolerations = (uint32_t)test_random_below(4),
		.class = (uint8_t)test_random_below(PLACEMENT_CLASSES),
		.numa = world_chance(20) ? (uint8_t)test_random_below(3) : 0,
		.links = world_chance(20) ? (uint8_t)test_random_below(3) : 0,
		.prefers = world_chance(20) ? test_random_below(7) : 0,
		.avoids = world_chance(20) ? (uint32_t)test_random_below(4) : 0,
		.way = world_chance(20) ? (uint8_t)test_random_below(3) : 0,
		.stays = world_chance(30) ? (uint8_t)test_random_below(PLACEMENT_STAYS + 1) : 0,
		.containers = (uint8_t)(1 + test_random_below((uint64_t)most_containers)),
	};

	for (int i = 0; i < request.containers; i++)
		request.container[i] = random_container(i == 0);
	if (world_chance(5)) {
		request.node = (int32_t)test_random_below(NODES);
		request.named_devices = (uint32_t)test_random_below(4);
	}
	return request;
}

void world_factors(void)
{
	for (int i = 0; i < PLACEMENT_CLASSES && world_chance(60); i++) {
		world.config.compute_factor_milli[i] = 1000 + 250 * (uint32_t)test_random_below(3);
		world.config.memory_factor_milli[i] = 1000 + 500 * (uint32_t)test_random_below(2);
	}
}

void world_given(void)
{
	memset(&world, 0, offsetof(struct world, memory));
	world.config.policy = (enum placement_policy)test_random_below(PLACEMENT_POLICIES);
	world_factors();
	for (int i = 0; i < NODES; i++)
		world.node[i] = i && world_chance(30) ? world.node[i - 1] : world_node();
	for (int i = 0; i < 4; i++) {
		world.usual[i] = world_request(1);
		world.usual[i].node = PLACEMENT_ANYWHERE;
		world.usual[i].named_devices = 0;
		world.counts[i] = 1 + (uint32_t)test_random_below(9);
	}
	world.p = world_fresh(world.memory[0], sizeof(world.memory[0]));
}
