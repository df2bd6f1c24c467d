/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that change under their pods, and pods that run where they do not fit. */
#include "tests/unit/placement_fixture.h"

static struct placement_left left_of(struct placement *p, uint32_t node)
{
	struct placement_left left;

	expect_eq(placement_left(p, node, 0, &left), 0);
	return left;
}

static void expect_sound(struct placement *p)
{
	uint32_t node;

	expect_eq(placement_audit(p, &node), 0);
}

static uint32_t nodes_over(struct placement *p)
{
	struct placement_totals totals;

	placement_totals(p, &totals);
	return totals.nodes_over;
}

TEST(a_node_of_another_model_keeps_its_pods_and_takes_others)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request old = part(500, 0), new = part(500, 0);
	struct placement_decision d;
	uint32_t n;
	uint64_t pod;

	node.model = 1;
	old.models = 1u << 1;
	new.models = 1u << 2;
	n = with_node(p, &node);
	pod = placed(p, &old, &d);
	expect_eq(refused(p, &new, n), PLACEMENT_NO_MODEL);
	node.model = 2;
	expect_eq(placement_update_node(p, n, &node), 0);
	expect_eq(refused(p, &old, n), PLACEMENT_NO_MODEL);
	placed(p, &new, &d);
	expect_eq(left_of(p, n).pods, 2);
	expect(!left_of(p, n).over);
	expect_eq(placement_release(p, pod), 0);
	expect_sound(p);
}

TEST(pods_that_a_smaller_node_cannot_hold_are_shown_and_nothing_is_added)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(1), smaller;
	struct placement_request big = part(600, 60 * GIB), none = part(0, 0), small = part(1, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pod = placed(p, &big, &d);
	struct placement_left left;

	smaller = node;
	smaller.cpu_milli = 600;
	smaller.device[0].compute_milli = 500;
	smaller.device[0].memory_bytes = 40 * GIB;
	expect_eq(placement_update_node(p, n, &smaller), 0);
	left = left_of(p, n);
	expect(left.over && left.device[0].over);
	expect_eq(left.cpu_milli, 0);
	expect_eq(left.cpu_over_milli, 400);
	expect_eq(left.device[0].compute_milli, 0);
	expect_eq(left.device[0].compute_over_milli, 100);
	expect_eq(left.device[0].memory_bytes, 0);
	expect_eq(left.device[0].memory_over_bytes, 20 * GIB);
	expect_eq(nodes_over(p), 1);
	small.container[0].cpu_milli = none.container[0].cpu_milli = 0;
	expect_eq(refused(p, &small, n), PLACEMENT_NO_COMPUTE);
	/* A pod that takes nothing of the scarce amount fits as before. */
	expect_eq(placement_try(p, &none, n, &d), 0);
	expect_sound(p);
	expect_eq(placement_release(p, pod), 0);
	expect(!left_of(p, n).over);
	expect_eq(left_of(p, n).device[0].compute_milli, 500);
	expect_eq(nodes_over(p), 0);
	expect_sound(p);
}

TEST(a_gpu_of_which_one_container_may_have_more_now_is_another_gpu)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_request large = part(100, 70 * GIB);
	struct placement_node node = node_of(1);
	struct placement_decision decision;
	uint32_t number;

	node.device[0].most_bytes = 60 * GIB;
	number = with_node(p, &node);
	expect_eq(refused(p, &large, number), PLACEMENT_NO_MEMORY_SIZE);
	node.device[0].most_bytes = 70 * GIB;
	expect_eq(placement_update_node(p, number, &node), 0);
	expect_eq(placement_decide(p, &large, &decision), 0);
}

TEST(a_lost_gpu_takes_nobody_and_loses_nobody)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request half = part(500, 0), both = whole(2), tolerant = part(100, 0);
	struct placement_totals totals;
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pod = placed(p, &half, &d);

	tolerant.tolerations = UINT32_MAX;
	tolerant.node = (int32_t)n;
	tolerant.named_devices = 1u << d.assignment.slot[0].device;
	node.device[d.assignment.slot[0].device].lost = true;
	expect_eq(placement_update_node(p, n, &node), 0);
	expect_eq(refused(p, &tolerant, n), PLACEMENT_NO_LOST);
	expect(left_of(p, n).device[d.assignment.slot[0].device].lost);
	expect_eq(left_of(p, n).device[d.assignment.slot[0].device].compute_milli, 0);
	placement_totals(p, &totals);
	expect_eq(totals.compute_milli, 1000);
	expect_eq(totals.promised_milli, 500);
	expect_eq(totals.used_milli, 0);
	/* Nobody asks for two of one. */
	expect_eq(placement_release(p, pod), 0);
	expect_eq(refused(p, &both, n), PLACEMENT_NO_LOST);
	pod = placed(p, &half, &d);
	expect(!node.device[d.assignment.slot[0].device].lost);
	node.device[0].lost = node.device[1].lost = false;
	expect_eq(placement_update_node(p, n, &node), 0);
	expect_eq(placement_try(p, &tolerant, n, &d), 0);
	expect_eq(placement_release(p, pod), 0);
	placed(p, &both, &d);
	expect_sound(p);
}

TEST(a_gpu_that_is_in_use_cannot_be_left_out)
{
	struct placement *p = given(PLACEMENT_SPREAD);
	struct placement_node node = node_of(2), one = node_of(1), three = node_of(3);
	struct placement_request half = part(500, 0), all = whole(3);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pods[2] = {placed(p, &half, &d), placed(p, &half, &d)};

	expect_eq(placement_update_node(p, n, &one), -EBUSY);
	expect_eq(placement_update_node(p, n + 1, &one), -ENOENT);
	expect_eq(placement_release(p, pods[0]), 0);
	expect_eq(placement_release(p, pods[1]), 0);
	expect_eq(placement_update_node(p, n, &one), 0);
	expect_eq(placement_update_node(p, n, &three), 0);
	placed(p, &all, &d);
	three.device[1].geometry = 1;
	expect_eq(placement_update_node(p, n, &three), -EINVAL);
	expect_eq(placement_get_node(p, n, &node), 0);
	expect_eq(node.devices, 3);
	expect_eq(node.device[1].geometry, 0);
	expect_sound(p);
}

static uint8_t with_geometry(struct placement *p, uint8_t size, uint16_t name)
{
	const struct placement_profile profiles[] = {
		{.name = name, .starts = 0x5, .size = size, .compute = 1},
		{.name = 9, .starts = 0x8, .size = 1, .compute = 1},
	};
	uint8_t number;

	expect_eq(placement_geometry(p, profiles, 2, &number), 0);
	return number;
}

static struct placement_request instance(uint16_t profile)
{
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 1};

	request.container[0].devices = 1;
	request.container[0].profile = profile;
	return request;
}

TEST(a_gpu_that_is_split_another_way_waits_for_those_from_before)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	uint8_t first = with_geometry(p, 2, 1), second = with_geometry(p, 1, 2);
	struct placement_node node = node_of(1);
	struct placement_request one = instance(1), two = instance(2), small = part(100, 0);
	struct placement_decision d;
	uint64_t pod;
	uint32_t n;

	node.device[0].geometry = first;
	n = with_node(p, &node);
	pod = placed(p, &one, &d);
	node.device[0].geometry = second;
	expect_eq(placement_update_node(p, n, &node), 0);
	expect_eq(refused(p, &two, n), PLACEMENT_NO_LEFTOVER);
	expect(left_of(p, n).device[0].over);
	node.device[0].geometry = 0;
	expect_eq(placement_update_node(p, n, &node), 0);
	expect_eq(refused(p, &small, n), PLACEMENT_NO_LEFTOVER);
	/* As it was: the instance is at home again, and another one finds room. */
	node.device[0].geometry = first;
	expect_eq(placement_update_node(p, n, &node), 0);
	expect(!left_of(p, n).over);
	placed(p, &one, &d);
	expect_eq(refused(p, &one, n), PLACEMENT_NO_MIG_PLACEMENT);
	expect_eq(placement_release(p, pod), 0);
	expect_eq(placement_try(p, &one, n, &d), 0);
	expect_sound(p);
}

TEST(a_gpu_that_is_split_waits_for_the_parts_of_it)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	uint8_t geometry = with_geometry(p, 2, 1);
	struct placement_node node = node_of(1);
	struct placement_request one = instance(1), small = part(100, 1 * GIB);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pod = placed(p, &small, &d);

	node.device[0].geometry = geometry;
	expect_eq(placement_update_node(p, n, &node), 0);
	expect_eq(refused(p, &one, n), PLACEMENT_NO_LEFTOVER);
	expect_sound(p);
	expect_eq(placement_release(p, pod), 0);
	placed(p, &one, &d);
	expect_sound(p);
}

TEST(a_running_pod_is_booked_though_it_does_not_fit)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request big = part(700, 50 * GIB), small = part(400, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pods[2];

	expect_eq(placement_decide(p, &big, &d), 0);
	expect_eq(placement_adopt(p, &big, n, &d.assignment, 0, &pods[0]), 0);
	expect(!left_of(p, n).over);
	expect_eq(placement_commit(p, &big, n, &d.assignment, 0, &pods[1]), PLACEMENT_NO_MEMORY);
	expect_eq(placement_adopt(p, &big, n, &d.assignment, 0, &pods[1]), 0);
	expect_eq(left_of(p, n).device[0].compute_over_milli, 400);
	expect_eq(left_of(p, n).device[0].memory_over_bytes, 20 * GIB);
	expect_eq(placement_decide(p, &small, &d), PLACEMENT_NOWHERE);
	expect_sound(p);
	expect_eq(placement_release(p, pods[0]), 0);
	expect(!left_of(p, n).over);
	expect_eq(placement_decide(p, &small, &d), PLACEMENT_NOWHERE);
	expect_eq(placement_release(p, pods[1]), 0);
	placed(p, &small, &d);
	expect_sound(p);
}

TEST(two_that_run_on_a_gpu_that_each_should_have_alone)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request alone = whole(1);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t first = placed(p, &alone, &d), second;

	expect_eq(placement_adopt(p, &alone, n, &d.assignment, 0, &second), 0);
	expect(left_of(p, n).device[0].over);
	expect_eq(placement_release(p, first), 0);
	expect(!left_of(p, n).over);
	expect_eq(refused(p, &alone, n), PLACEMENT_NO_EXCLUSIVE);
	expect_sound(p);
}

TEST(instances_that_overlap_each_keep_their_slices)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request one = instance(1);
	struct placement_assignment there = {.size = 1};
	uint64_t pods[3];
	uint32_t n;

	node.device[0].geometry = with_geometry(p, 2, 1);
	n = with_node(p, &node);
	for (int i = 0; i < 3; i++)
		expect_eq(placement_adopt(p, &one, n, &there, 0, &pods[i]), 0);
	expect(left_of(p, n).device[0].over);
	expect_eq(left_of(p, n).device[0].mig_taken, 3);
	expect_eq(placement_release(p, pods[0]), 0);
	expect_eq(placement_release(p, pods[2]), 0);
	expect_eq(left_of(p, n).device[0].mig_taken, 3);
	expect(!left_of(p, n).over);
	expect_eq(placement_release(p, pods[1]), 0);
	expect_eq(left_of(p, n).device[0].mig_taken, 0);
	expect_sound(p);
}

TEST(nonsense_is_not_booked_even_if_it_is_reported_to_run)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request half = part(500, 0), huge = part(0, 0);
	struct placement_assignment there = {.size = 1};
	uint32_t n = with_node(p, &node);
	uint64_t pod;
	int r = 0;

	there.slot[0].device = 1;
	expect_eq(placement_adopt(p, &half, n, &there, 0, &pod), -EINVAL);
	there.slot[0].device = 0;
	there.size = 0;
	expect_eq(placement_adopt(p, &half, n, &there, 0, &pod), -EINVAL);
	there.size = 1;
	expect_eq(placement_adopt(p, &half, n + 1, &there, 0, &pod), -ENOENT);
	/* No sum wraps around. */
	huge.container[0].memory_bytes = (1ull << 56) - 1;
	huge.container[0].host_memory_bytes = (1ull << 56) - 1;
	for (int i = 0; i < 40 && r == 0; i++)
		r = placement_adopt(p, &huge, n, &there, 0, &pod);
	expect_eq(r, -ERANGE);
	expect_eq(left_of(p, n).device[0].memory_bytes, 0);
	expect_eq(left_of(p, n).host_memory_bytes, 0);
	expect_sound(p);
}

TEST(lower_factors_leave_pods_where_they_are)
{
	struct placement_config config = {.policy = PLACEMENT_BINPACK};
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request big = part(600, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	config.compute_factor_milli[0] = 1500;
	expect_eq(placement_configure(p, &config), 0);
	placed(p, &big, &d);
	placed(p, &big, &d);
	expect_sound(p);
	config.compute_factor_milli[0] = 0;
	expect_eq(placement_configure(p, &config), 0);
	expect_eq(left_of(p, n).device[0].compute_over_milli, 200);
	expect_eq(nodes_over(p), 1);
	expect_sound(p);
	config.compute_factor_milli[0] = 1500;
	expect_eq(placement_configure(p, &config), 0);
	expect_eq(nodes_over(p), 0);
	expect_sound(p);
}

TEST(a_place_is_kept_until_a_time)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request big = part(600, 0);
	struct placement_pod_info info;
	struct placement_decision d;
	uint64_t pod, gone[2];
	uint32_t n = with_node(p, &node);

	expect(placement_next_end(p) == PLACEMENT_FOR_GOOD);
	expect_eq(placement_decide(p, &big, &d), 0);
	expect_eq(placement_reserve(p, &big, n, &d.assignment, 7, 100, &pod), 0);
	expect_eq(placement_decide(p, &big, &d), PLACEMENT_NOWHERE);
	expect(placement_next_end(p) == 100);
	expect_eq(placement_get_pod(p, pod, &info), 0);
	expect(info.until == 100);
	expect_eq(info.priority, 7);
	expect_eq(placement_expire(p, 99, gone, 2), 0);
	expect_eq(placement_expire(p, 100, gone, 2), 1);
	expect(gone[0] == pod);
	expect_eq(placement_keep(p, pod, PLACEMENT_FOR_GOOD), -ENOENT);
	expect_eq(placement_get_pod(p, pod, &info), -ENOENT);
	expect_eq(placement_decide(p, &big, &d), 0);
	expect_sound(p);
}

TEST(a_pod_that_has_come_stays_and_a_longer_reservation_lasts_longer)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request tenth = part(100, 0);
	struct placement_decision d;
	uint64_t pod[5], gone[4];
	uint32_t n = with_node(p, &node);

	expect_eq(placement_decide(p, &tenth, &d), 0);
	for (uint64_t i = 0; i < 5; i++)
		expect_eq(placement_reserve(p, &tenth, n, &d.assignment, 0, 50 - i * 10, &pod[i]),
			  0);
	expect_eq(placement_keep(p, pod[4], PLACEMENT_FOR_GOOD), 0);
	expect_eq(placement_keep(p, pod[3], 45), 0);
	/* Two at a time, the earliest first. */
	expect_eq(placement_expire(p, 1000, gone, 2), 2);
	expect(gone[0] == pod[2] && gone[1] == pod[1]);
	expect_eq(placement_release(p, pod[3]), 0);
	expect_eq(placement_expire(p, 1000, gone, 2), 1);
	expect(gone[0] == pod[0]);
	expect(placement_next_end(p) == PLACEMENT_FOR_GOOD);
	expect_eq(left_of(p, n).pods, 1);
	expect_sound(p);
}

TEST(gpus_that_are_found_to_be_linked_later_are_given_as_linked_ones)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request two = whole(2);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	two.links = PLACEMENT_REQUIRE;
	expect_eq(refused(p, &two, n), PLACEMENT_NO_LINK);
	node.device[0].links = 1u << 1;
	node.device[1].links = 1u << 0;
	expect_eq(placement_update_node(p, n, &node), 0);
	placed(p, &two, &d);
	expect_sound(p);
}
