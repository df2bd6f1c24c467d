/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of core/placement.h under random histories. */
#include "tests/test.h"
#include "tests/unit/placement_world.h"

static int32_t decide(struct placement *p, const struct placement_request *request,
		      struct placement_decision *decision)
{
	int r = placement_decide(p, request, decision);

	expect(r == 0 || r == PLACEMENT_NOWHERE);
	return r;
}

/* A machine that has only seen the living pods decides the same. foresight's prices are those of a
 * while ago, unless they are found anew: on both. */
static void expect_the_same_from_scratch(const struct placement_request *request)
{
	struct placement *other = world_fresh(world.memory[1], sizeof(world.memory[1]));
	struct placement_decision a, b;
	uint64_t name;
	int r;

	for (int i = 0; i < world.pods; i++)
		expect_eq(placement_commit(other, &world.pod[i].request, world.pod[i].node,
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

static void arrive(void)
{
	struct pod *pod = &world.pod[world.pods];
	struct placement_decision decision;

	if (world.pods == PODS)
		return;
	pod->request = world_request(4);
	pod->priority = (int32_t)test_random_below(5);
	if (decide(world.p, &pod->request, &decision) != 0)
		return;
	pod->node = decision.node;
	pod->assignment = decision.assignment;
	expect_eq(placement_commit(world.p, &pod->request, pod->node, &pod->assignment,
				   pod->priority, &pod->name),
		  0);
	world.pods++;
}

static void leave(void)
{
	size_t i = world.pods ? test_random_below((uint64_t)world.pods) : 0;

	if (!world.pods)
		return;
	expect_eq(placement_release(world.p, world.pod[i].name), 0);
	expect_eq(placement_release(world.p, world.pod[i].name), -ENOENT);
	world.pod[i] = world.pod[--world.pods];
}

/* A node without pods leaves, and another one comes in its place; in between, it may be looked at
 * what that means for others. */
static void replace_node(uint32_t n)
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

static void turn_something(void)
{
	uint32_t n = (uint32_t)test_random_below(NODES);

	if (world_chance(40)) {
		replace_node(n);
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
	expect_eq(placement_audit(world.p, &node), 0);
}

TEST(nothing_is_promised_twice_and_incremental_equals_from_scratch)
{
	for (unsigned round = test_rounds(150); round > 0; round--) {
		struct placement_request asked_again[3];

		world_given();
		for (int i = 0; i < 3; i++)
			asked_again[i] = world_request(2);
		for (int i = 0; i < 60; i++) {
			/* Now and then more changes than a shape can catch up with one by one. */
			for (uint64_t n = world_chance(20) ? NODES + test_random_below(5) : 1;
			     n > 0; n--)
				step();
			expect_the_same_from_scratch(&asked_again[test_random_below(3)]);
		}
	}
}

TEST(a_refusal_names_a_constraint_that_binds)
{
	for (unsigned round = test_rounds(150); round > 0; round--) {
		world_given();
		for (int i = 0; i < 40; i++) {
			struct placement_request request = world_request(1);

			step();
			for (uint32_t n = 0; n < NODES; n++)
				expect_a_binding_reason(n, &request);
		}
	}
}

TEST(a_pod_of_several_containers_is_refused_only_where_nothing_fits)
{
	for (unsigned round = test_rounds(150); round > 0; round--) {
		world_given();
		for (int i = 0; i < 40; i++) {
			struct placement_request request = world_request(4);
			struct placement_refusal refusal;

			step();
			for (uint32_t n = 0; n < NODES; n++) {
				expect_eq(placement_explain(world.p, &request, n, &refusal), 0);
				expect_eq(refusal.reason == PLACEMENT_FITS,
					  brute_fits(n, &request));
			}
		}
	}
}

TEST(victims_make_room_and_none_of_them_could_stay)
{
	for (unsigned round = test_rounds(60); round > 0; round--) {
		world_given();
		for (int i = 0; i < 40; i++) {
			struct placement_request request = world_request(2);
			struct placement_decision decision;
			uint64_t victims[PODS];
			size_t size = 0;
			uint32_t node;

			arrive();
			if (placement_decide(world.p, &request, &decision) == 0 ||
			    placement_preempt(world.p, &request, 3, &node, victims, PODS, &size) !=
				    0)
				continue;
			expect(size > 0);
			/* Gone one by one: it fits when the last one has left, not before. */
			for (size_t v = 0; v < size; v++) {
				expect(placement_try(world.p, &request, node, &decision) > 0);
				for (int k = 0; k < world.pods; k++) {
					if (world.pod[k].name != victims[v])
						continue;
					expect(world.pod[k].priority < 3);
					expect_eq(world.pod[k].node, node);
					world.pod[k] = world.pod[--world.pods];
					break;
				}
				expect_eq(placement_release(world.p, victims[v]), 0);
			}
			expect_eq(placement_try(world.p, &request, node, &decision), 0);
		}
	}
}

TEST(shapes_that_are_forgotten_are_learned_again)
{
	world_given();
	for (int i = 0; i < 200; i++) {
		struct placement_request request = world_request(1);
		struct placement_decision decision;

		/* More shapes than the six that are remembered, asked between changes. */
		(void)decide(world.p, &request, &decision);
		if (i % 7 == 0)
			step();
		expect_the_same_from_scratch(&request);
	}
}
