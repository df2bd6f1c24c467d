/* SPDX-License-Identifier: Apache-2.0 */
/* Places that leave room for what usually comes. */
#include "core/placement/placement_machine.h"
#include "tests/unit/placement_fixture.h"

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

/* A pod that may go anywhere takes a node on which some insist rather than the last one with eight
 * GPUs. */
TEST(foresight_spares_the_last_room_for_many_gpus_more_than_a_model_that_is_asked_for)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node large = node_of(8), wanted = node_of(1);
	struct placement_request usuals[] = {whole(1), whole(1), whole(8)};
	const uint32_t counts[] = {58, 40, 2};
	struct placement_decision d;
	uint32_t n;

	large.model = 2;
	wanted.model = 1;
	usuals[1].models = 1u << 1;
	for (int i = 0; i < 3; i++)
		with_node(p, &large);
	expect_eq(placement_learn(p, usuals, counts, 3), 0);
	for (int i = 0; i < 16; i++)
		placed(p, &usuals[0], &d);
	n = with_node(p, &wanted);
	placement_reprice(p);
	placed(p, &usuals[0], &d);
	expect_eq(d.node, n);
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

TEST(usual_pods_are_read_by_the_factors_in_force)
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

TEST(a_part_is_foreseen_as_it_is_booked_however_long_it_stays)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(1);
	struct placement_request usual[2] = {whole(1), part(300, 0)};
	struct placement_request together = part(400, 0), apart = part(200, 0);
	const uint32_t counts[2] = {1, 2};
	struct placement_decision d, e;

	with_node(p, &node);
	expect_eq(placement_learn(p, usual, counts, 2), 0);
	together.container[0].cpu_milli = 2000;
	apart.containers = 2;
	apart.container[1] = apart.container[0];
	together.stays = apart.stays = 1;
	expect_eq(placement_decide(p, &together, &d), 0);
	expect_eq(placement_decide(p, &apart, &e), 0);
	expect_eq(d.score, e.score);
	together.stays = 0;
	expect_eq(placement_decide(p, &together, &e), 0);
	expect(d.score > e.score);
}

TEST(room_for_instances_is_no_more_than_a_gpu_may_have_of_them)
{
	/* Of the first one there may be one, though two would find a place. */
	const struct placement_profile profiles[2] = {
		{.name = 1, .starts = 0x5, .size = 2, .compute = 1, .most = 1},
		{.name = 2, .starts = 0xf, .size = 1, .compute = 1},
	};
	/* One of the second GPU's halves is taken by the first, and one of the first GPU's by two
	 * of the second. */
	static const struct placement_slot there[3] = {{0, 1, 0}, {0, 0, 0}, {0, 0, 1}};
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_request usual[2] = {part(0, 0), part(0, 0)};
	struct placement_node node = node_of(2);
	const uint32_t counts[2] = {9, 1};
	struct placement_decision d;
	uint8_t geometry;
	uint64_t pod;
	uint32_t n;

	for (int i = 0; i < 2; i++)
		usual[i].container[0] = (struct placement_container){
			.devices = 1, .profile = (uint16_t)(i + 1), .cpu_milli = 100};
	expect_eq(placement_geometry(p, profiles, 2, &geometry), 0);
	node.device[0].geometry = node.device[1].geometry = geometry;
	n = with_node(p, &node);
	for (int i = 0; i < 3; i++) {
		const struct placement_assignment at = {.size = 1, .slot = {there[i]}};

		expect_eq(placement_commit(p, &usual[i > 0], n, &at, 0, &pod), 0);
	}
	expect_eq(placement_learn(p, usual, counts, 2), 0);
	/* On the first GPU it would take the only place for another first. */
	placed(p, &usual[1], &d);
	expect_eq(d.assignment.slot[0].device, 1);
	expect_eq(refused(p, &usual[1], n), PLACEMENT_FITS);
}

TEST(a_node_whose_pods_leave_soon_is_kept_for_pods_that_want_all_of_it)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_request usual[2] = {whole(8), whole(1)}, four = whole(4), one = whole(1);
	struct placement_node node = node_of(8);
	const uint32_t counts[2] = {1, 8};
	struct placement_decision d;
	uint64_t pod[2];

	expect_eq(placement_learn(p, usual, counts, 2), 0);
	for (int i = 0; i < 2; i++) {
		four.node = (int32_t)with_node(p, &node);
		pod[i] = placed(p, &four, &d);
	}
	placement_reprice(p);
	/* No pod says how long it stays: the first of equals. */
	expect_eq(placement_decide(p, &one, &d), 0);
	expect_eq(d.node, 0);
	expect_eq(placement_stays(p, pod[0], 1), 0);
	expect_eq(placement_decide(p, &one, &d), 0);
	expect_eq(d.node, 1);
	expect_eq(placement_stays(p, pod[1], 1), 0);
	expect_eq(placement_stays(p, pod[0], PLACEMENT_STAYS), 0);
	expect_eq(placement_decide(p, &one, &d), 0);
	expect_eq(d.node, 0);
	/* It may say so when it comes. */
	expect_eq(placement_release(p, pod[1]), 0);
	four.stays = 2;
	four.node = 1;
	pod[1] = placed(p, &four, &d);
	expect_eq(placement_decide(p, &one, &d), 0);
	expect_eq(d.node, 0);
	expect_eq(placement_stays(p, pod[1], PLACEMENT_STAYS + 1), -EINVAL);
	expect_eq(placement_release(p, pod[1]), 0);
	expect_eq(placement_stays(p, pod[1], 1), -ENOENT);
	four.stays = PLACEMENT_STAYS + 1;
	expect_eq(placement_valid(&four), -EINVAL);
}

TEST(how_long_a_pod_stays_is_told_in_eighths)
{
	expect_eq(placement_eighths(0, 800), 1);
	expect_eq(placement_eighths(99, 800), 1);
	expect_eq(placement_eighths(450, 800), 5);
	expect_eq(placement_eighths(799, 800), 8);
	expect_eq(placement_eighths(UINT64_MAX, 800), 8);
	expect_eq(placement_eighths(UINT64_MAX, UINT64_MAX), 8);
	expect_eq(placement_eighths(5, 0), 6);
}

/* After eight pods on four nodes of eight GPUs: are prices to be found anew? */
static bool eight_pods_make_prices_old(uint64_t models)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(8);
	struct placement_request anywhere = whole(1), usual[2] = {whole(1), whole(1)};
	const uint32_t count[2] = {1, 1};
	struct placement_decision d;

	for (int i = 0; i < 4; i++)
		with_node(p, &node);
	usual[1].models = models;
	expect_eq(placement_learn(p, usual, count, 2), 0);
	for (int i = 0; i < 8; i++) {
		placed(p, &anywhere, &d);
		expect(i == 7 || !placement_prices_due(p));
	}
	return placement_prices_due(p);
}

TEST(prices_are_new_before_a_model_is_used_up_that_pods_insist_on)
{
	expect(eight_pods_make_prices_old(1));
	/* Where nobody insists on one, or on another, a quarter of the pods must have changed. */
	expect(!eight_pods_make_prices_old(0));
	expect(!eight_pods_make_prices_old(2));
}
