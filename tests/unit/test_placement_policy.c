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

TEST(foresight_keeps_nodes_whole_for_the_few_that_want_eight_gpus)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(8);
	struct placement_request usuals[] = {whole(1), whole(8), part(250, 0)};
	const uint32_t counts[] = {50, 1, 50};
	struct placement_decision d;
	uint32_t begun;

	for (int i = 0; i < 3; i++)
		with_node(p, &node);
	expect_eq(placement_learn(p, usuals, counts, 3), 0);
	placed(p, &usuals[0], &d);
	begun = d.node;
	for (int i = 0; i < 7; i++) {
		placed(p, i % 2 ? &usuals[0] : &usuals[2], &d);
		expect_eq(d.node, begun);
	}
	for (int i = 0; i < 2; i++)
		placed(p, &usuals[1], &d);
}

TEST(foresight_lets_the_node_become_empty_that_fewer_pods_have_to_leave)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(8);
	struct placement_request four = whole(4), one = whole(1);
	struct placement_request usuals[] = {whole(1), whole(8)};
	const uint32_t counts[] = {9, 1};
	struct placement_decision d;
	uint64_t pod;
	uint32_t lightly, heavily;

	lightly = with_node(p, &node);
	heavily = with_node(p, &node);
	four.node = (int32_t)lightly;
	one.node = (int32_t)heavily;
	expect_eq(placement_try(p, &four, lightly, &d), 0);
	expect_eq(placement_commit(p, &four, lightly, &d.assignment, 0, &pod), 0);
	for (int i = 0; i < 4; i++) {
		expect_eq(placement_try(p, &one, heavily, &d), 0);
		expect_eq(placement_commit(p, &one, heavily, &d.assignment, 0, &pod), 0);
	}
	/* Both have four GPUs left: one pod holds the others here, four do there. */
	one.node = PLACEMENT_ANYWHERE;
	expect_eq(placement_learn(p, usuals, counts, 2), 0);
	placed(p, &one, &d);
	expect_eq(d.node, heavily);
}

TEST(foresight_sees_pods_that_ask_for_memory_alone)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(1);
	struct placement_request large = part(0, 40 * GIB), small = part(0, 10 * GIB);
	const uint32_t count = 1;
	struct placement_decision d, other;

	node.device[0].memory_bytes = 50 * GIB;
	with_node(p, &node);
	with_node(p, &node);
	expect_eq(placement_learn(p, &large, &count, 1), 0);
	placed(p, &large, &d);
	/* Beside the large one: the other GPU can still take one. */
	placed(p, &small, &other);
	expect_eq(other.node, d.node);
}

TEST(foresight_keeps_room_for_the_large_mig_instances_that_come)
{
	static const struct placement_profile profiles[] = {
		{.name = 1, .starts = 0x7f, .size = 1, .compute = 1},
		{.name = 2, .starts = 0x11, .size = 4, .compute = 3},
	};
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(2);
	struct placement_request usuals[2] = {{.node = PLACEMENT_ANYWHERE, .containers = 1},
					      {.node = PLACEMENT_ANYWHERE, .containers = 1}};
	const uint32_t counts[] = {1, 1};
	struct placement_decision d[4];
	uint8_t geometry;

	expect_eq(placement_geometry(p, profiles, 2, &geometry), 0);
	node.device[0].geometry = node.device[1].geometry = geometry;
	with_node(p, &node);
	for (int i = 0; i < 2; i++) {
		usuals[i].container[0].devices = 1;
		usuals[i].container[0].profile = (uint16_t)(i + 1);
	}
	expect_eq(placement_learn(p, usuals, counts, 2), 0);
	placed(p, &usuals[1], &d[0]);
	/* The small one goes beside the large one, so that two more large ones fit elsewhere. */
	placed(p, &usuals[0], &d[1]);
	expect_eq(d[1].assignment.slot[0].device, d[0].assignment.slot[0].device);
	placed(p, &usuals[1], &d[2]);
	placed(p, &usuals[1], &d[3]);
}

TEST(what_is_usual_is_understood_by_the_factors_in_force)
{
	struct placement_config config = {.policy = PLACEMENT_FGD};
	struct placement_request usual = part(700, 0);
	struct placement_node node = node_of(1);
	const uint32_t count = 1;
	struct placement *p;

	usual.class = 2;
	for (int after = 0; after < 2; after++) {
		p = given(PLACEMENT_FGD);
		with_node(p, &node);
		config.compute_factor_milli[2] = 2000;
		expect_eq(placement_configure(p, &config), 0);
		if (!after)
			expect_eq(placement_learn(p, &usual, &count, 1), 0);
		config.compute_factor_milli[2] = 0;
		expect_eq(placement_configure(p, &config), 0);
		if (after)
			expect_eq(placement_learn(p, &usual, &count, 1), 0);
		/* The empty GPU can take it. */
		expect_eq((long)placement_fragmentation(p), 0);
	}
}

TEST(where_learning_fails_nothing_is_known)
{
	struct placement_request usuals[40];
	uint32_t counts[40];
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(1);
	struct placement_decision d;

	for (uint32_t i = 0; i < 40; i++) {
		usuals[i] = part(10 * i + 10, 0);
		counts[i] = 1;
	}
	with_node(p, &node);
	expect_eq(placement_learn(p, usuals, counts, 40), -ENOSPC);
	expect_eq((long)placement_fragmentation(p), 0);
	placed(p, &usuals[0], &d);
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
