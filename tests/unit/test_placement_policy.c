/* SPDX-License-Identifier: Apache-2.0 */
/* Where, among several places that would do. */
#include "core/placement/placement_machine.h"
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

TEST(fgd_does_not_cut_room_that_the_usual_pods_need)
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

/* Where each of two nodes that the request likes alike ranks: > 0: the first one. */
static int first_over_second(struct placement *p, const struct placement_request *request)
{
	const int32_t *scores;
	uint32_t size;

	expect_eq(placement_scores(p, request, &scores, &size), 0);
	expect(scores[0] != INT32_MIN && scores[1] != INT32_MIN);
	return (scores[0] > scores[1]) - (scores[0] < scores[1]);
}

TEST(a_preferred_model_and_avoided_nodes_come_before_the_policy)
{
	for (int policy = 0; policy < PLACEMENT_POLICIES; policy++) {
		struct placement *p = given((enum placement_policy)policy);
		struct placement_node plain = node_of(2), other = node_of(2);
		struct placement_request half = part(500, 0), cpu = part(0, 0);

		plain.model = 1;
		other.model = 2;
		other.tags = 6;
		with_node(p, &plain);
		with_node(p, &other);
		half.prefers = 1u << 2;
		expect_eq(first_over_second(p, &half), -1);
		half.prefers = 1u << 1;
		expect_eq(first_over_second(p, &half), 1);
		half.prefers = 0;
		half.avoids = 2;
		expect_eq(first_over_second(p, &half), 1);
		/* Both count alike; and a node that is avoided takes a pod that no other takes. */
		half.prefers = 1u << 2;
		expect_eq(first_over_second(p, &half),
			  first_over_second(p, &(struct placement_request){
						       .node = PLACEMENT_ANYWHERE,
						       .containers = 1,
						       .container = {half.container[0]}}));
		half.models = 1u << 2;
		expect_eq(refused(p, &half, 1), PLACEMENT_FITS);
		/* Models are of no interest to those without a GPU. */
		memset(&cpu.container[0], 0, sizeof(cpu.container[0]));
		cpu.container[0].cpu_milli = 100;
		cpu.prefers = 1u << 2;
		expect_eq(first_over_second(p, &cpu), 0);
	}
}

TEST(nodes_that_are_alike_but_for_a_tag_are_not_alike)
{
	struct placement *p = given(PLACEMENT_FGD);
	struct placement_node node = node_of(2);
	struct placement_request half = part(500, 0);

	half.avoids = 1;
	with_node(p, &node);
	with_node(p, &node);
	expect_eq(first_over_second(p, &half), 0);
	node.tags = 1;
	expect_eq(placement_update_node(p, 0, &node), 0);
	expect_eq(first_over_second(p, &half), -1);
	half.avoids = 3; /* never asked before */
	expect_eq(first_over_second(p, &half), -1);
}

TEST(wishes_that_are_not_met_add_up_and_stay_numbers)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(2);
	struct placement_request two = whole(2);
	const int32_t *scores;
	uint32_t size;

	node.device[1].numa = 1;
	node.tags = 1;
	with_node(p, &node);
	node.model = 3;
	with_node(p, &node);
	two.numa = two.links = PLACEMENT_PREFER;
	two.avoids = 1;
	two.prefers = 1u << 3;
	expect_eq(placement_scores(p, &two, &scores, &size), 0);
	expect(scores[0] > INT32_MIN && scores[0] < -(1 << 30));
	expect(scores[1] > scores[0]);
}

TEST(a_pod_is_packed_or_spread_whatever_the_policy_is)
{
	for (int policy = 0; policy < PLACEMENT_POLICIES; policy++) {
		struct placement *p = given((enum placement_policy)policy);
		struct placement_node node = node_of(2);
		struct placement_request tenth = part(100, 0), apart = tenth, near = tenth;
		struct placement_decision first, d;

		with_node(p, &node);
		with_node(p, &node);
		placed(p, &tenth, &first);
		apart.way = PLACEMENT_WAY_SPREAD;
		placed(p, &apart, &d);
		expect(d.node != first.node);
		placed(p, &apart, &d);
		placed(p, &apart, &d);
		/* Each GPU has one now. */
		near.way = PLACEMENT_WAY_PACK;
		placed(p, &near, &first);
		for (int i = 0; i < 3; i++) {
			placed(p, &near, &d);
			expect_eq(d.node, first.node);
			expect_eq(d.assignment.slot[0].device, first.assignment.slot[0].device);
		}
		near.way = PLACEMENT_WAY_SPREAD + 1;
		expect_eq(placement_decide(p, &near, &d), -EINVAL);
	}
}

TEST(a_pod_is_one_holder_however_many_containers_it_has)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(4), larger = node_of(8);
	struct placement_request usual[2] = {whole(4), part(300, 0)};
	struct placement_request together = whole(2), apart = whole(1);
	const uint32_t counts[2] = {1, 5};
	struct placement_decision d, e;

	with_node(p, &node);
	with_node(p, &larger);
	expect_eq(placement_learn(p, usual, counts, 2), 0);
	together.container[0].cpu_milli = 2000;
	apart.containers = 2;
	apart.container[1] = apart.container[0];
	/* And the books agree with the forecast. */
	for (int i = 0; i < 3; i++) {
		expect_eq(placement_decide(p, &together, &d), 0);
		expect_eq(placement_decide(p, &apart, &e), 0);
		expect_eq(d.node, e.node);
		expect_eq(d.score, e.score);
		placed(p, i % 2 ? &together : &apart, &d);
		placement_reprice(p);
	}
}
