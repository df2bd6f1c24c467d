/* SPDX-License-Identifier: Apache-2.0 */
/* Which pods are where, the room that is left, and the reasons of nodes that refuse. */
#include "tests/unit/placement_fixture.h"

TEST(the_pods_of_a_node_are_listed_the_latest_first)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request quarter = part(250, 0);
	struct placement_decision d;
	uint64_t pods[4], placed_as[3];
	uint32_t n = with_node(p, &node);
	size_t size = 0;

	expect_eq(placement_pods(p, n, pods, 4, &size), 0);
	expect_eq(size, 0);
	for (int i = 0; i < 3; i++)
		placed_as[i] = placed(p, &quarter, &d);
	expect_eq(placement_pods(p, n, pods, 4, &size), 0);
	expect_eq(size, 3);
	for (int i = 0; i < 3; i++)
		expect(pods[i] == placed_as[2 - i]);
	expect_eq(placement_release(p, placed_as[1]), 0);
	expect_eq(placement_pods(p, n, pods, 1, &size), -ENOSPC);
	expect_eq(size, 2);
	expect(pods[0] == placed_as[2]);
	expect_eq(placement_pods(p, n + 1, pods, 4, &size), -ENOENT);
}

TEST(the_room_left_is_the_room_that_another_pod_could_have)
{
	struct placement_config config = {.policy = PLACEMENT_BINPACK};
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request quarter = part(250, 10 * GIB), alone = whole(1), rest;
	struct placement_decision d, first;
	struct placement_left left;
	uint32_t n = with_node(p, &node), shared;

	config.compute_factor_milli[2] = 1500;
	expect_eq(placement_configure(p, &config), 0);
	placed(p, &alone, &first);
	placed(p, &quarter, &d);
	shared = d.assignment.slot[0].device;
	expect_eq(placement_left(p, n, 0, &left), 0);
	expect_eq(left.pods, 2);
	expect_eq(left.cpu_milli, 62000);
	expect_eq(left.device[first.assignment.slot[0].device].compute_milli, 0);
	expect_eq(left.device[shared].compute_milli, 750);
	expect_eq(left.device[shared].memory_bytes, 70 * GIB);
	/* Exactly that fits, and not a thousandth more. */
	rest = part(750, 70 * GIB);
	expect_eq(placement_try(p, &rest, n, &d), 0);
	rest.container[0].compute_milli++;
	expect(placement_try(p, &rest, n, &d) > 0);
	/* A class that is overcommitted has more. */
	expect_eq(placement_left(p, n, 2, &left), 0);
	expect_eq(left.device[shared].compute_milli, 1250);
	expect_eq(placement_left(p, n, PLACEMENT_CLASSES, &left), -EINVAL);
	expect_eq(placement_left(p, n + 1, 0, &left), -ENOENT);
}

TEST(of_a_gpu_without_a_slot_nothing_is_left)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request quarter = part(250, 0);
	struct placement_decision d;
	struct placement_left left;
	uint32_t n;

	node.device[0].slots = 1;
	n = with_node(p, &node);
	placed(p, &quarter, &d);
	expect_eq(placement_left(p, n, 0, &left), 0);
	expect_eq(left.device[0].tenants, 1);
	expect_eq(left.device[0].compute_milli, 0);
	expect_eq(left.device[0].memory_bytes, 0);
}

TEST(the_reasons_of_all_nodes_are_counted)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1), other = node_of(1), busy = node_of(1);
	struct placement_request one = whole(1);
	uint32_t nodes[PLACEMENT_REASONS], sum = 0;

	other.model = 3;
	busy.cordoned = true;
	one.models = 1;
	for (int i = 0; i < 3; i++)
		with_node(p, &node);
	for (int i = 0; i < 2; i++)
		with_node(p, &other);
	with_node(p, &busy);
	expect_eq(placement_reasons(p, &one, nodes), 0);
	expect_eq(nodes[PLACEMENT_FITS], 3);
	expect_eq(nodes[PLACEMENT_NO_MODEL], 2);
	expect_eq(nodes[PLACEMENT_NO_CORDONED], 1);
	for (int i = 0; i < PLACEMENT_REASONS; i++)
		sum += nodes[i];
	expect_eq(sum, 6);
	one.containers = PLACEMENT_CONTAINERS + 1;
	expect_eq(placement_reasons(p, &one, nodes), -EINVAL);
}
