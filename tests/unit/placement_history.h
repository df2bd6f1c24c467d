/* SPDX-License-Identifier: Apache-2.0 */
/* The random histories of test_placement_always.c. */
#pragma once

#include "tests/test.h"
#include "tests/unit/placement_world.h"

static inline int32_t decide(struct placement *p, const struct placement_request *request,
			     struct placement_decision *decision)
{
	int r = placement_decide(p, request, decision);

	expect(r == 0 || r == PLACEMENT_NOWHERE);
	return r;
}

/* A machine that has only seen the living pods decides the same. foresight's prices are those of a
 * while ago, unless they are found anew: on both. */
static inline void expect_the_same_from_scratch(const struct placement_request *request)
{
	struct placement *other = world_fresh(world.memory[1], sizeof(world.memory[1]));
	struct placement_decision a, b;
	uint64_t name;
	int r;

	for (int i = 0; i < world.pods; i++)
		expect_eq(placement_adopt(other, &world.pod[i].request, world.pod[i].node,
					  &world.pod[i].assignment, world.pod[i].priority, &name),
			  0);
	placement_reprice(world.p);
	placement_reprice(other);
	r = decide(world.p, request, &a);
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

static inline void arrive(void)
{
	struct pod *pod = &world.pod[world.pods];
	struct placement_decision decision;

	if (world.pods == PODS)
		return;
	*pod = (struct pod){.request = world_request(4)};
	pod->priority = (int32_t)test_random_below(5);
	if (decide(world.p, &pod->request, &decision) != 0)
		return;
	pod->node = decision.node;
	pod->assignment = decision.assignment;
	pod->until = world_chance(30) ? world.now + test_random_below(20) : PLACEMENT_FOR_GOOD;
	expect(brute_fits(pod->node, &pod->request));
	expect_eq(placement_reserve(world.p, &pod->request, pod->node, &pod->assignment,
				    pod->priority, pod->until, &pod->name),
		  0);
	world.pods++;
}

/* Somebody else put a pod somewhere, whether it fits or not. */
static inline void turn_up(void)
{
	struct pod *pod = &world.pod[world.pods];
	int r, expected = 0;

	if (world.pods == PODS)
		return;
	*pod = (struct pod){.adopted = true,
			    .request = world_request(3),
			    .node = (uint32_t)test_random_below(NODES),
			    .until = PLACEMENT_FOR_GOOD,
			    .priority = (int32_t)test_random_below(5)};
	for (uint8_t c = 0; c < pod->request.containers; c++) {
		uint8_t first = (uint8_t)test_random_below(GPUS);

		for (int k = 0; k < pod->request.container[c].devices; k++) {
			uint8_t device = (uint8_t)((first + k) % GPUS);

			if (device >= world.node[pod->node].devices ||
			    pod->request.container[c].devices > GPUS)
				expected = -EINVAL;
			pod->assignment.slot[pod->assignment.size++] =
				(struct placement_slot){c, device, (uint8_t)test_random_below(5)};
		}
	}
	r = placement_adopt(world.p, &pod->request, pod->node, &pod->assignment, pod->priority,
			    &pod->name);
	expect_eq(r, expected);
	if (r == 0) {
		world.changed[pod->node] = true;
		world.pods++;
	}
}

static inline void leave(void)
{
	size_t i = world.pods ? test_random_below((uint64_t)world.pods) : 0;

	if (!world.pods)
		return;
	expect_eq(placement_release(world.p, world.pod[i].name), 0);
	expect_eq(placement_release(world.p, world.pod[i].name), -ENOENT);
	world.pod[i] = world.pod[--world.pods];
}

/* Time passes: those whose time has come go, the earliest first, and nobody else. */
static inline void pass(void)
{
	uint64_t gone[3], last = 0, next = PLACEMENT_FOR_GOOD;
	size_t size;

	world.now += test_random_below(10);
	do {
		size = placement_expire(world.p, world.now, gone, 3);
		for (size_t i = 0; i < size; i++) {
			int k = 0;

			while (k < world.pods && world.pod[k].name != gone[i])
				k++;
			expect(k < world.pods);
			expect(world.pod[k].until <= world.now && world.pod[k].until >= last);
			last = world.pod[k].until;
			world.pod[k] = world.pod[--world.pods];
		}
	} while (size == 3);
	for (int i = 0; i < world.pods; i++)
		next = world.pod[i].until < next ? world.pod[i].until : next;
	expect(next > world.now);
	expect(placement_next_end(world.p) == next);
	if (world.pods && world_chance(50)) {
		struct pod *pod = &world.pod[test_random_below((uint64_t)world.pods)];

		pod->until = world_chance(50) ? world.now + 1 + test_random_below(30)
					      : PLACEMENT_FOR_GOOD;
		expect_eq(placement_keep(world.p, pod->name, pod->until), 0);
		pod->request.stays = (uint8_t)test_random_below(PLACEMENT_STAYS + 1);
		expect_eq(placement_stays(world.p, pod->name, pod->request.stays), 0);
	}
}

/* A node without pods leaves, and another one comes in its place; in between, the effect on others
 * may be asked for. */
static inline void replace_node(uint32_t n)
{
	struct placement_request request = world_request(2);
	struct placement_refusal refusal;
	struct placement_decision decision;
	uint32_t number;

	for (int i = 0; i < world.pods; i++)
		if (world.pod[i].node == n)
			return;
	expect_eq(placement_remove_node(world.p, n), 0);
	if (world_chance(50))
		(void)decide(world.p, &request, &decision);
	world.node[n] = world_node();
	expect_eq(placement_add_node(world.p, &world.node[n], &number), 0);
	expect_eq(number, n);
	if (world_chance(50))
		expect_eq(placement_explain(world.p, &request, n, &refusal), 0);
}

/* A node becomes another one under its pods; or it does not, as GPUs that are in use are not
 * reported as gone. */
static inline void change_node(uint32_t n)
{
	struct placement_node now = world_node(), told;
	bool in_use = false;
	int r;

	for (int g = now.devices; g < world.node[n].devices; g++)
		in_use |= oracle_load(n, g).tenants > 0;
	if (world_chance(60)) {
		/* Often a little only. */
		int g = (int)test_random_below(GPUS);

		told = world.node[n];
		now.device[g].links = told.device[g].links;
		told.device[g] = now.device[g];
		now = told;
		in_use = false;
	}
	r = placement_update_node(world.p, n, &now);
	expect_eq(r, in_use ? -EBUSY : 0);
	if (r == 0) {
		world.node[n] = now;
		world.changed[n] = true;
	}
	expect_eq(placement_get_node(world.p, n, &told), 0);
	expect_eq(told.devices, world.node[n].devices);
	expect_eq(told.cpu_milli, world.node[n].cpu_milli);
}

/* More may be promised from now on, or less, whatever is promised already. */
static inline void promise_otherwise(void)
{
	world_factors();
	expect_eq(placement_configure(world.p, &world.config), 0);
	for (int n = 0; n < NODES; n++)
		world.changed[n] = true;
}

static inline void turn_something(void)
{
	uint32_t n = (uint32_t)test_random_below(NODES);

	if (world_chance(10)) {
		promise_otherwise();
		return;
	}
	if (world_chance(30)) {
		replace_node(n);
		return;
	}
	if (world_chance(40)) {
		change_node(n);
		return;
	}

	if (world_chance(50) || !world.node[n].devices) {
		world.node[n].cordoned = world_chance(20);
		expect_eq(placement_cordon(world.p, n, world.node[n].cordoned), 0);
		return;
	}
	int gpu = (int)test_random_below(world.node[n].devices);

	world.node[n].device[gpu].taints = world_chance(30) ? 1 : 0;
	expect_eq(placement_taint(world.p, n, (uint32_t)gpu, world.node[n].device[gpu].taints), 0);
}
