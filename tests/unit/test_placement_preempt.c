/* SPDX-License-Identifier: Apache-2.0 */
/* Which pods have to go so that another can come. */
#include "tests/unit/placement_fixture.h"

enum { LOW = 1, HIGH = 9 };

static uint64_t booked(struct placement *p, const struct placement_request *request, uint32_t node,
		       int32_t priority)
{
	struct placement_decision d;
	uint64_t pod = 0;

	expect_eq(placement_try(p, request, node, &d), 0);
	expect_eq(placement_commit(p, request, node, &d.assignment, priority, &pod), 0);
	return pod;
}

TEST(a_pod_that_even_an_empty_node_cannot_hold_finds_it_too_small)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1), shut = node_of(4);
	struct placement_request one = whole(1), two = whole(2);
	uint64_t victims[4];
	uint32_t n = with_node(p, &node), c, chosen;
	size_t size;

	booked(p, &one, n, HIGH);
	expect_eq(placement_victims(p, &two, n, HIGH, victims, 4, &size), PLACEMENT_TOO_SMALL);
	expect_eq(placement_victims(p, &one, n, HIGH, victims, 4, &size), PLACEMENT_NO_VICTIMS);
	expect_eq(placement_victims(p, &one, n, HIGH + 1, victims, 4, &size), 0);
	expect_eq(size, 1);
	expect_eq(placement_victims(p, &one, n, HIGH + 1, victims, 0, &size), -ENOSPC);
	expect_eq(placement_victims(p, &one, n + 1, HIGH, victims, 4, &size), -ENOENT);
	/* Nor does it help that a cordoned node is empty. */
	shut.cordoned = true;
	c = with_node(p, &shut);
	expect_eq(placement_victims(p, &two, c, HIGH, victims, 4, &size), PLACEMENT_TOO_SMALL);
	expect_eq(placement_preempt(p, &two, HIGH, &chosen, victims, 4, &size),
		  PLACEMENT_TOO_SMALL);
	expect_eq(placement_preempt(p, &one, HIGH, &chosen, victims, 4, &size),
		  PLACEMENT_NO_VICTIMS);
}

TEST(no_pod_goes_where_a_node_has_room_however_little_others_matter)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request one = whole(1);
	uint64_t victims[4];
	uint32_t empty, chosen;
	size_t size;

	booked(p, &one, with_node(p, &node), -LOW);
	empty = with_node(p, &node);
	expect_eq(placement_preempt(p, &one, HIGH, &chosen, victims, 4, &size), 0);
	expect_eq(chosen, empty);
	expect_eq(size, 0);
}

TEST(only_candidates_are_tested)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request one = whole(1);
	struct placement_victims said;
	uint64_t victims[4], pod[3];
	uint32_t nodes[3], gone = 77;
	struct placement_preemption how = {.priority = HIGH};

	for (int i = 0; i < 3; i++) {
		nodes[i] = with_node(p, &node);
		pod[i] = booked(p, &one, nodes[i], LOW + i);
	}
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), 0);
	expect_eq(said.node, nodes[0]);
	how.nodes = nodes + 1;
	how.nodes_size = 2;
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), 0);
	expect_eq(said.node, nodes[1]);
	expect_eq(said.priority, LOW + 1);
	expect_eq(said.size, 1);
	expect(victims[0] == pod[1]);
	how.nodes_size = 0;
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), PLACEMENT_TOO_SMALL);
	how.nodes = &gone;
	how.nodes_size = 1;
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), -ENOENT);
}

TEST(pods_go_where_their_budgets_allow_it)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request one = whole(1);
	struct placement_victims said;
	uint64_t victims[4], pod[2];
	uint32_t nodes[2], allowed[1] = {0};
	struct placement_preemption how = {.priority = HIGH, .allowed = allowed, .budgets = 1};

	for (int i = 0; i < 2; i++) {
		nodes[i] = with_node(p, &node);
		pod[i] = booked(p, &one, nodes[i], LOW + i);
	}
	/* The less important one is protected. */
	expect_eq(placement_protect(p, pod[0], 1), 0);
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), 0);
	expect_eq(said.node, nodes[1]);
	expect_eq(said.overdrawn, 0);
	how.nodes = nodes;
	how.nodes_size = 1;
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), 0);
	expect_eq(said.overdrawn, 1);
	how.keep_budgets = true;
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), PLACEMENT_NO_VICTIMS);
	allowed[0] = 1;
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), 0);
	expect_eq(said.overdrawn, 0);
	how.allowed = NULL;
	expect_eq(placement_preempt_among(p, &one, &how, victims, 4, &said), -EINVAL);
	expect_eq(placement_release(p, pod[0]), 0);
	expect_eq(placement_protect(p, pod[0], 1), -ENOENT);
}

TEST(within_a_node_the_pods_go_that_no_budget_protects)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request half = part(500, 0);
	struct placement_victims said;
	uint64_t victims[4], low, high;
	uint32_t n = with_node(p, &node);
	const uint32_t allowed[1] = {0};
	struct placement_preemption how = {.priority = HIGH, .allowed = allowed, .budgets = 1};

	low = booked(p, &half, n, LOW);
	high = booked(p, &half, n, LOW + 1);
	expect_eq(placement_preempt_among(p, &half, &how, victims, 4, &said), 0);
	expect(victims[0] == low);
	expect_eq(placement_protect(p, low, 1), 0);
	expect_eq(placement_preempt_among(p, &half, &how, victims, 4, &said), 0);
	expect_eq(said.size, 1);
	expect(victims[0] == high);
	expect_eq(said.overdrawn, 0);
	/* A budget that nothing is told of allows any number. */
	expect_eq(placement_protect(p, low, 2), 0);
	expect_eq(placement_preempt_among(p, &half, &how, victims, 4, &said), 0);
	expect(victims[0] == low);
}

TEST(three_hundred_pods_of_a_node_are_all_considered)
{
	const struct placement_limits limits = {
		.nodes = 1, .pods = 400, .charges = 400, .shapes = 2};
	struct placement_node node = node_of(1);
	struct placement_request small = part(3, 0), most = part(999, 0);
	static uint64_t victims[400];
	struct placement *p;
	uint32_t n, at;
	size_t size;

	expect(placement_size(&limits) <= sizeof(memory));
	expect_eq(placement_init(memory, sizeof(memory), &limits, &p), 0);
	node.cpu_milli = 1000000;
	n = with_node(p, &node);
	for (int i = 0; i < 333; i++)
		booked(p, &small, n, LOW);
	expect_eq(placement_victims(p, &most, n, HIGH, victims, 400, &size), 0);
	expect_eq(size, 333);
	expect_eq(placement_victims(p, &small, n, HIGH, victims, 400, &size), 0);
	expect_eq(size, 1);
	expect_eq(placement_audit(p, &at), 0);
}
