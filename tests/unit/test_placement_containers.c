/* SPDX-License-Identifier: Apache-2.0 */
/* Pods of several containers. */
#include "tests/unit/placement_fixture.h"

TEST(containers_of_a_pod_are_placed_together)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request request = part(600, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	request.containers = 2;
	request.container[1] = request.container[0];
	placed(p, &request, &d);
	expect_eq(d.assignment.size, 2);
	expect(d.assignment.slot[0].device != d.assignment.slot[1].device);
	expect_eq(refused(p, &request, n), PLACEMENT_NO_COMPUTE);
	request.container[0].compute_milli = request.container[1].compute_milli = 400;
	placed(p, &request, &d);
}

TEST(containers_that_fit_one_by_one_but_not_together_are_told_so)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(600, 50 * GIB);
	uint32_t n = with_node(p, &node);

	request.containers = 2;
	request.container[1] = request.container[0];
	/* Neither memory nor compute alone is to blame. */
	expect_eq(refused(p, &request, n), PLACEMENT_NO_PACKING);
}

/* What is taken, and who asks: the reason is that of the container that is named. */
TEST(a_refusal_names_the_container_that_its_reason_keeps_out)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request some = part(500, 50 * GIB), request = part(600, GIB);
	struct placement_refusal refusal;
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	placed(p, &some, &d);
	request.containers = 2;
	request.container[1] = part(100, 40 * GIB).container[0];
	expect_eq(placement_explain(p, &request, n, &refusal), 0);
	expect_eq(refusal.reason, PLACEMENT_NO_MEMORY);
	expect_eq(refusal.container, 1);
	expect_eq(refusal.needed, 40 * GIB);
	expect_eq(refusal.available, 30 * GIB);
}

TEST(of_containers_that_fit_one_by_one_the_first_is_named_that_has_no_room_beside_the_others)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(100, 50 * GIB);
	struct placement_refusal refusal;
	uint32_t n = with_node(p, &node);

	request.containers = 3;
	request.container[1] = request.container[0];
	request.container[2] = part(100, GIB).container[0];
	expect_eq(placement_explain(p, &request, n, &refusal), 0);
	expect_eq(refusal.reason, PLACEMENT_NO_PACKING);
	expect_eq(refusal.container, 1);
}

TEST(an_awkward_mix_of_containers_is_still_found)
{
	struct placement *p = given(PLACEMENT_SPREAD);
	struct placement_node node = node_of(2);
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 5};
	static const uint32_t milli[5] = {500, 400, 400, 400, 300};
	struct placement_decision d;
	uint32_t load[2] = {0};

	/* 500 + 500 would be the spread; only 400 + 300 + 300 against the rest fits. */
	for (int i = 0; i < 5; i++)
		request.container[i] =
			(struct placement_container){.devices = 1, .compute_milli = milli[i]};
	request.container[0].compute_milli = 600;
	request.container[4].compute_milli = 200;
	with_node(p, &node);
	placed(p, &request, &d);
	for (int i = 0; i < d.assignment.size; i++)
		load[d.assignment.slot[i].device] +=
			request.container[d.assignment.slot[i].container].compute_milli;
	expect_eq(load[0], 1000);
	expect_eq(load[1], 1000);
}

TEST(init_containers_use_the_pods_gpus)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(600, 20 * GIB), rest = part(400, 0);
	struct placement_decision d;
	struct placement_totals totals;
	uint64_t pod;

	with_node(p, &node);
	request.containers = 3;
	request.container[1] = request.container[2] = request.container[0];
	request.container[0].kind = PLACEMENT_INIT;
	request.container[1].kind = PLACEMENT_INIT;
	request.container[0].memory_bytes = 30 * GIB;
	pod = placed(p, &request, &d);
	placement_totals(p, &totals);
	expect_eq(totals.promised_milli, 600);
	placed(p, &rest, &d);
	expect_eq(placement_release(p, pod), 0);
	placement_totals(p, &totals);
	expect_eq(totals.promised_milli, 400);
}

TEST(a_sidecar_counts_beside_later_init_containers)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(300, 0);
	struct placement_decision d;
	struct placement_totals totals;

	with_node(p, &node);
	request.containers = 3;
	request.container[1] = request.container[2] = request.container[0];
	request.container[0].kind = PLACEMENT_SIDECAR;
	request.container[1].kind = PLACEMENT_INIT;
	request.container[1].compute_milli = 500;
	placed(p, &request, &d);
	placement_totals(p, &totals);
	/* 300 + 500 while the init container runs, 300 + 300 after. */
	expect_eq(totals.promised_milli, 800);
}

/* Binpack would put both sidecars onto one GPU. */
TEST(the_others_make_room_for_an_init_container)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request request = part(400, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	request.containers = 3;
	request.container[1] = request.container[2] = request.container[0];
	request.container[0].kind = request.container[1].kind = PLACEMENT_SIDECAR;
	request.container[2].kind = PLACEMENT_INIT;
	request.container[2].devices = 2;
	request.container[2].compute_milli = 601;
	expect_eq(refused(p, &request, n), PLACEMENT_NO_PACKING);
	request.container[2].compute_milli = 600;
	placed(p, &request, &d);
	expect_eq(d.assignment.size, 4);
	expect(d.assignment.slot[0].device != d.assignment.slot[1].device);
}

/* The GPU that costs least is linked with no other one that has room. */
TEST(an_init_container_that_demands_links_is_tried_beyond_the_first_gpu)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(3);
	struct placement_request request = part(500, 0);
	struct placement_decision d;

	node.device[1].links = 1u << 2;
	node.device[2].links = 1u << 1;
	with_node(p, &node);
	request.links = PLACEMENT_REQUIRE;
	request.containers = 2;
	request.container[1] = request.container[0];
	request.container[0].kind = PLACEMENT_INIT;
	request.container[0].devices = 2;
	placed(p, &request, &d);
	expect_eq(d.assignment.size, 3);
	for (int i = 0; i < 3; i++)
		expect(d.assignment.slot[i].container == 1 || d.assignment.slot[i].device != 0);
}

TEST(more_large_containers_than_gpus_are_refused)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(8);
	struct placement_request request = part(501, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	request.containers = 9;
	for (int i = 1; i < 9; i++)
		request.container[i] = request.container[0];
	expect_eq(refused(p, &request, n), PLACEMENT_NO_PACKING);
	request.container[8].compute_milli = 499;
	placed(p, &request, &d);
	expect_eq(d.assignment.size, 9);
}

/* Twenty nodes of which each costs all choices that a node may, and one that needs many. */
TEST(nodes_for_which_a_decision_had_no_choices_left_are_scored_by_the_next)
{
	static const uint8_t gib[12] = {8, 21, 24, 21, 30, 24, 20, 39, 43, 20, 45, 27};
	static _Alignas(64) char place[2 << 20];
	const struct placement_limits limits = {
		.nodes = 64, .pods = 4, .charges = 64, .shapes = 4, .typicals = 1};
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 12};
	struct placement_node node = node_of(4);
	struct placement *p = NULL;
	struct placement_decision d;
	uint32_t n;

	expect(placement_size(&limits) <= sizeof(place));
	expect_eq(placement_init(place, sizeof(place), &limits, &p), 0);
	for (int i = 0; i < 12; i++)
		request.container[i] =
			(struct placement_container){.devices = 1, .memory_bytes = gib[i] * GIB};
	for (uint32_t i = 0; i < 21; i++) {
		for (uint32_t g = 0; g < 4; g++)
			node.device[g].memory_bytes = (i < 20 ? 71 + g : 80 + g) * GIB;
		node.cpu_milli++;
		n = with_node(p, &node);
	}
	expect_eq(placement_decide(p, &request, &d), PLACEMENT_NOWHERE);
	expect_eq(placement_audit(p, &n), 0);
	expect_eq(placement_decide(p, &request, &d), 0);
	expect_eq(d.node, 20);
	expect_eq(placement_audit(p, &n), 0);
}

/* It is scored as the node is while the others run: here they take all that the pod will have. */
TEST(an_init_container_that_needs_no_more_than_the_others_changes_no_score)
{
	for (int policy = 0; policy < PLACEMENT_POLICIES; policy++) {
		struct placement *p = given((enum placement_policy)policy);
		struct placement_node node = node_of(2);
		struct placement_request plain = part(400, 20 * GIB), usual[2] = {plain, whole(1)};
		struct placement_decision with, without;
		struct placement_request both = plain;
		uint32_t n = with_node(p, &node);

		expect_eq(placement_learn(p, usual, (const uint32_t[]){3, 1}, 2), 0);
		both.containers = 2;
		both.container[1] = both.container[0];
		both.container[1].kind = PLACEMENT_INIT;
		both.container[1].compute_milli = 300;
		both.container[1].memory_bytes = 10 * GIB;
		expect_eq(placement_try(p, &plain, n, &without), 0);
		expect_eq(placement_try(p, &both, n, &with), 0);
		expect_eq(with.score, without.score);
	}
}
