/* SPDX-License-Identifier: Apache-2.0 */
/* Where, among several places that would do. */
#include "tests/unit/placement_fixture.h"

TEST(parts_of_a_gpu_are_packed_onto_one)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(4);
	struct placement_request request = part(300, 10 * GIB);
	struct placement_decision first, second;

	with_node(p, &node);
	placed(p, &request, &first);
	placed(p, &request, &second);
	expect_eq(second.assignment.slot[0].device, first.assignment.slot[0].device);
}

TEST(spread_takes_the_emptiest_node_and_gpu)
{
	struct placement *p = given(PLACEMENT_SPREAD);
	struct placement_node node = node_of(2);
	struct placement_request request = part(300, 0);
	struct placement_decision d[4];
	uint32_t seen = 0;

	with_node(p, &node);
	with_node(p, &node);
	for (int i = 0; i < 4; i++) {
		placed(p, &request, &d[i]);
		seen |= 1u << (d[i].node * 2 + d[i].assignment.slot[0].device);
	}
	expect_eq(seen, 15);
}

TEST(fgd_does_not_cut_what_the_usual_pods_need)
{
	struct placement *p = given(PLACEMENT_FGD);
	struct placement_node node = node_of(1);
	struct placement_request half = part(500, 0), third = part(300, 0), usual = part(700, 0);
	const uint32_t count = 1;
	struct placement_decision d, other;

	with_node(p, &node);
	with_node(p, &node);
	expect_eq(placement_learn(p, &usual, &count, 1), 0);
	placed(p, &half, &d);
	/* The other GPU can still take a usual pod: it is left alone. */
	placed(p, &third, &other);
	expect_eq(other.node, d.node);
	expect_eq((long)placement_fragmentation(p), 200);
}

TEST(foresight_keeps_cpu_beside_free_gpus)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node poor = node_of(2), rich = node_of(2);
	struct placement_request hungry = part(100, 0), usual = whole(1);
	const uint32_t count = 1;
	struct placement_decision d;
	uint32_t n;

	poor.cpu_milli = 16000;
	rich.cpu_milli = 64000;
	usual.container[0].cpu_milli = 8000;
	hungry.container[0].cpu_milli = 10000;
	with_node(p, &poor);
	n = with_node(p, &rich);
	expect_eq(placement_learn(p, &usual, &count, 1), 0);
	placed(p, &hungry, &d);
	expect_eq(d.node, n);
}

TEST(foresight_spares_the_model_that_some_pods_insist_on)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node scarce = node_of(2), common = node_of(2);
	struct placement_request usual[2] = {whole(1), whole(1)}, any = whole(1);
	const uint32_t counts[2] = {1, 1};
	struct placement_decision d;
	uint32_t n;

	scarce.model = 1;
	common.model = 2;
	usual[0].models = 1u << 1;
	with_node(p, &scarce);
	n = with_node(p, &common);
	expect_eq(placement_learn(p, usual, counts, 2), 0);
	placed(p, &any, &d);
	expect_eq(d.node, n);
}

TEST(of_equal_nodes_the_lowest_is_taken_across_blocks)
{
	const struct placement_limits limits = {
		.nodes = 200, .pods = 256, .charges = 256, .shapes = 2, .typicals = 1};
	struct placement_node node = node_of(1);
	struct placement_request one = whole(1);
	struct placement_decision d;
	struct placement *p;

	expect(placement_size(&limits) <= sizeof(memory));
	expect_eq(placement_init(memory, sizeof(memory), &limits, &p), 0);
	for (int i = 0; i < 200; i++)
		with_node(p, &node);
	for (uint32_t i = 0; i < 200; i++) {
		placed(p, &one, &d);
		expect_eq(d.node, i);
	}
	expect_eq(placement_decide(p, &one, &d), PLACEMENT_NOWHERE);
}
