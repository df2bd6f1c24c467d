/* SPDX-License-Identifier: Apache-2.0 */
/* Trials; and gangs, of which all pods come or none. */
#include "tests/unit/placement_fixture.h"

static size_t pods_of(struct placement *p, uint32_t node, uint64_t pods[16])
{
	size_t size;

	expect_eq(placement_pods(p, node, pods, 16, &size), 0);
	return size;
}

static void expect_sound(struct placement *p)
{
	uint32_t node;

	expect_eq(placement_audit(p, &node), 0);
}

TEST(a_trial_is_undone_to_the_name_and_place_of_each_pod)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request quarter = part(250, 0), whole_one = whole(1);
	struct placement_decision d;
	uint64_t before[16], after[16], pod[3], gone[1];
	uint32_t n = with_node(p, &node);

	for (int i = 0; i < 3; i++)
		pod[i] = placed(p, &quarter, &d);
	expect_eq(placement_keep(p, pod[1], 10), 0);
	expect_eq(pods_of(p, n, before), 3);
	expect_eq(placement_begin(p), 0);
	expect_eq(placement_release(p, pod[1]), 0);
	expect_eq(placement_release(p, pod[1]), -ENOENT);
	expect(placement_next_end(p) == PLACEMENT_FOR_GOOD);
	expect_eq(placement_release(p, placed(p, &quarter, &d)), 0);
	expect_eq(placement_release(p, pod[2]), 0);
	expect_eq(placement_release(p, pod[0]), 0);
	placed(p, &whole_one, &d);
	expect_sound(p);
	expect_eq(placement_roll_back(p), 0);
	expect_eq(pods_of(p, n, after), 3);
	expect_eq(memcmp(before, after, 3 * sizeof(before[0])), 0);
	expect_sound(p);
	expect_eq(placement_expire(p, 10, gone, 1), 1);
	expect(gone[0] == pod[1]);
	expect_sound(p);
}

TEST(a_trial_may_stand)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request big = part(600, 0);
	struct placement_decision d;
	uint64_t pods[16], old, new;
	uint32_t n = with_node(p, &node);

	old = placed(p, &big, &d);
	expect_eq(placement_begin(p), 0);
	expect_eq(placement_release(p, old), 0);
	new = placed(p, &big, &d);
	expect_eq(placement_finish(p), 0);
	expect_eq(pods_of(p, n, pods), 1);
	expect(pods[0] == new);
	expect_eq(placement_release(p, old), -ENOENT);
	expect_eq(placement_release(p, new), 0);
	expect_sound(p);
	expect_eq(placement_finish(p), -EINVAL);
	expect_eq(placement_roll_back(p), -EINVAL);
}

TEST(pods_that_go_beyond_come_back_as_they_were)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request big = part(600, 0);
	struct placement_totals totals;
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pod = placed(p, &big, &d), other;

	expect_eq(placement_adopt(p, &big, n, &d.assignment, 0, &other), 0);
	expect_eq(placement_begin(p), 0);
	expect_eq(placement_release(p, pod), 0);
	placement_totals(p, &totals);
	expect_eq(totals.nodes_over, 0);
	expect_sound(p);
	expect_eq(placement_roll_back(p), 0);
	placement_totals(p, &totals);
	expect_eq(totals.nodes_over, 1);
	expect_sound(p);
}

TEST(more_steps_than_are_noted_are_not_taken)
{
	const struct placement_limits limits = {
		.nodes = 1, .pods = 8, .charges = 8, .shapes = 2, .steps = 2};
	struct placement_node node = node_of(1);
	struct placement_request tenth = part(100, 0);
	struct placement_decision d;
	struct placement *p;
	uint64_t pod, other;
	uint32_t n;

	expect(placement_size(&limits) <= sizeof(memory));
	expect_eq(placement_init(memory, sizeof(memory), &limits, &p), 0);
	n = with_node(p, &node);
	pod = placed(p, &tenth, &d);
	expect_eq(placement_begin(p), 0);
	placed(p, &tenth, &d);
	placed(p, &tenth, &d);
	expect_eq(placement_commit(p, &tenth, n, &d.assignment, 0, &other), -ENOSPC);
	expect_eq(placement_release(p, pod), -ENOSPC);
	expect_sound(p);
	expect_eq(placement_roll_back(p), 0);
	expect_eq(placement_release(p, pod), 0);
}

TEST(of_a_gang_all_come_or_none)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request gang[3] = {whole(2), whole(2), whole(1)};
	struct placement_decision decisions[3];
	uint64_t names[3], pods[16];
	uint32_t first = with_node(p, &node), second = with_node(p, &node);
	size_t stuck;

	expect_eq(placement_gang(p, gang, 3, 0, decisions, names, &stuck), PLACEMENT_NOWHERE);
	expect_eq(stuck, 2);
	expect_eq(pods_of(p, first, pods) + pods_of(p, second, pods), 0);
	expect_sound(p);
	expect_eq(placement_gang(p, gang, 2, 5, decisions, names, &stuck), 0);
	expect(decisions[0].node != decisions[1].node);
	for (int i = 0; i < 2; i++)
		expect_eq(placement_release(p, names[i]), 0);
	expect_sound(p);
}

TEST(a_gang_that_does_not_fit_in_its_order_may_fit_the_largest_first)
{
	struct placement *p = given(PLACEMENT_SPREAD);
	struct placement_node node = node_of(2);
	/* The small ones, spread, would leave no node with two GPUs. */
	struct placement_request gang[3] = {part(500, 0), part(500, 0), whole(2)};
	struct placement_decision decisions[3];
	uint64_t names[3];
	size_t stuck;

	with_node(p, &node);
	with_node(p, &node);
	expect_eq(placement_gang(p, gang, 3, 0, decisions, names, &stuck), 0);
	expect_eq(decisions[0].node, decisions[1].node);
	expect(decisions[2].node != decisions[0].node);
	expect_sound(p);
}

TEST(a_gang_may_be_tried_to_see_which_pods_would_have_to_go)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request gang[2] = {whole(1), whole(1)}, half = part(500, 0);
	struct placement_decision decisions[2], d;
	uint64_t names[2], pods[16], pod;
	uint32_t n = with_node(p, &node);
	size_t stuck;

	pod = placed(p, &half, &d);
	expect_eq(placement_begin(p), 0);
	expect_eq(placement_gang(p, gang, 2, 0, decisions, names, &stuck), PLACEMENT_NOWHERE);
	expect_eq(pods_of(p, n, pods), 1);
	expect_eq(placement_release(p, pod), 0);
	expect_eq(placement_gang(p, gang, 2, 0, decisions, names, &stuck), 0);
	expect_eq(placement_roll_back(p), 0);
	expect_eq(pods_of(p, n, pods), 1);
	expect(pods[0] == pod);
	expect_sound(p);
}

static void learn(struct placement *p)
{
	struct placement_request usual[3] = {whole(4), whole(1), part(300, 0)};
	const uint32_t counts[3] = {1, 4, 10};

	expect_eq(placement_learn(p, usual, counts, 3), 0);
}

/* foresight, on nodes of two sizes, with pods that make its prices move. */
static struct placement *foreseeing(void)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node small = node_of(2), large = node_of(8);

	for (int i = 0; i < 4; i++) {
		with_node(p, &small);
		with_node(p, &large);
	}
	learn(p);
	return p;
}

static int32_t score_of(struct placement *p)
{
	struct placement_request one = whole(1);
	struct placement_decision d;

	expect_eq(placement_decide(p, &one, &d), 0);
	return d.score;
}

TEST(a_trial_changes_no_price)
{
	struct placement *p = foreseeing();
	struct placement_request one = whole(1), small = part(300, 0);
	struct placement_decision d;
	int32_t before;

	(void)score_of(p);
	for (int i = 0; i < 20; i++)
		placed(p, i % 2 ? &one : &small, &d);
	before = score_of(p);
	/* More come and go than make prices be found anew: within a trial, and over all of them. */
	for (int round = 0; round < 4; round++) {
		expect_eq(placement_begin(p), 0);
		for (int i = 0; i < 15; i++)
			placed(p, &one, &d);
		(void)score_of(p);
		expect_eq(placement_roll_back(p), 0);
		expect_eq(score_of(p), before);
	}
	placement_reprice(p);
	expect(score_of(p) != before);
}

TEST(prices_that_are_due_are_found_before_something_is_tried)
{
	struct placement_request one = whole(1);
	struct placement *p = foreseeing();
	int32_t never = score_of(p);

	learn(p);
	expect_eq(placement_begin(p), 0);
	for (uint8_t i = 0; i < 8; i++) {
		const struct placement_assignment there = {.size = 1, .slot = {{0, i, 0}}};
		uint64_t pod;

		/* Without a decision that would find them. */
		expect_eq(placement_commit(p, &one, 1, &there, 0, &pod), 0);
	}
	(void)score_of(p);
	expect_eq(placement_roll_back(p), 0);
	expect_eq(score_of(p), never);
}
