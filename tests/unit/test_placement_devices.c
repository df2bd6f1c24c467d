/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a node's GPUs: alone or shared, near each other, cut by MIG. */
#include "tests/unit/placement_fixture.h"

TEST(an_exclusive_gpu_has_no_other_tenant)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request small = part(0, 1 * GIB), both = whole(2), one = whole(1);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pod = placed(p, &small, &d);

	expect_eq(refused(p, &both, n), PLACEMENT_NO_EXCLUSIVE);
	placed(p, &one, &d);
	expect_eq(d.assignment.slot[0].device, 1);
	expect_eq(placement_release(p, pod), 0);
	placed(p, &one, &d);
	expect_eq(refused(p, &small, n), PLACEMENT_NO_SHARED);
}

TEST(slots_limit_how_many_share)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(0, 0);
	struct placement_decision d;
	uint32_t n;

	node.device[0].slots = 2;
	n = with_node(p, &node);
	placed(p, &request, &d);
	placed(p, &request, &d);
	expect_eq(refused(p, &request, n), PLACEMENT_NO_SLOTS);
}

TEST(gpus_of_one_numa_node_are_preferred_and_can_be_demanded)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(4);
	struct placement_request two = whole(2), one = whole(1);
	struct placement_decision d;
	uint32_t n;

	for (int i = 0; i < 4; i++)
		node.device[i].numa = (uint8_t)(i % 2);
	n = with_node(p, &node);
	two.numa = PLACEMENT_PREFER;
	placed(p, &two, &d);
	expect_eq(d.assignment.slot[0].device % 2, d.assignment.slot[1].device % 2);
	placed(p, &one, &d);
	two.numa = PLACEMENT_REQUIRE;
	expect_eq(refused(p, &two, n), PLACEMENT_NO_EXCLUSIVE);
	expect_eq(placement_add_node(p, &node, &n), 0);
	one.node = (int32_t)n;
	one.named_devices = 1;
	placed(p, &one, &d);
	one.named_devices = 2;
	placed(p, &one, &d);
	expect_eq(refused(p, &two, n), PLACEMENT_NO_NUMA);
}

TEST(linked_gpus_are_found_among_others)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(8);
	struct placement_request three = whole(3);
	struct placement_decision d;
	uint32_t set = 0;
	uint32_t n;

	/* 1, 4 and 6 are linked pairwise; 0-2, 2-3 and 3-5 are pairs. */
	node.device[1].links = 1u << 4 | 1u << 6;
	node.device[4].links = 1u << 1 | 1u << 6;
	node.device[6].links = 1u << 1 | 1u << 4;
	node.device[0].links = 1u << 2;
	node.device[2].links = 1u << 0 | 1u << 3;
	node.device[3].links = 1u << 2 | 1u << 5;
	node.device[5].links = 1u << 3;
	n = with_node(p, &node);
	three.links = PLACEMENT_REQUIRE;
	placed(p, &three, &d);
	for (int i = 0; i < 3; i++)
		set |= 1u << d.assignment.slot[i].device;
	expect_eq(set, 1u << 1 | 1u << 4 | 1u << 6);
	expect_eq(refused(p, &three, n), PLACEMENT_NO_LINK);
	three.links = PLACEMENT_PREFER;
	placed(p, &three, &d);
}

TEST(a_node_that_meets_the_wish_comes_before_a_better_one)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node torn = node_of(2), whole_node = node_of(2);
	struct placement_request two = whole(2);
	struct placement_decision d;
	uint32_t good;

	torn.device[1].numa = 1;
	with_node(p, &torn);
	good = with_node(p, &whole_node);
	two.numa = PLACEMENT_PREFER;
	placed(p, &two, &d);
	expect_eq(d.node, good);
	placed(p, &two, &d);
	expect(d.node != good);
}

static uint8_t with_geometry(struct placement *p)
{
	/* An H200's: seven compute slices, eight memory slices. */
	const struct placement_profile profiles[] = {
		{.name = 1, .starts = 0x7f, .size = 1, .compute = 1},
		{.name = 2, .starts = 0x55, .size = 2, .compute = 1},
		{.name = 3, .starts = 0x15, .size = 2, .compute = 2},
		{.name = 4, .starts = 0x11, .size = 4, .compute = 3},
		{.name = 5, .starts = 0x01, .size = 4, .compute = 4},
		{.name = 6, .starts = 0x01, .size = 8, .compute = 7},
		{.name = 7, .starts = 0x7f, .size = 1, .compute = 1, .most = 1},
	};
	uint8_t geometry = 0;

	expect_eq(placement_geometry(p, profiles, ARRAY_SIZE(profiles), &geometry), 0);
	return geometry;
}

static struct placement_request instance(uint16_t profile)
{
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 1};

	request.container[0].devices = 1;
	request.container[0].profile = profile;
	return request;
}

TEST(a_mig_instance_is_put_where_it_spoils_least)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request one = instance(1), four = instance(5), three = instance(4);
	struct placement_decision d;
	uint32_t n;

	node.device[0].geometry = with_geometry(p);
	n = with_node(p, &node);
	placed(p, &one, &d);
	/* Slices 0..3 are the only place of profile 5: the first instance stays out of them. */
	expect(d.assignment.slot[0].start >= 4);
	placed(p, &four, &d);
	expect_eq(d.assignment.slot[0].start, 0);
	expect_eq(refused(p, &three, n), PLACEMENT_NO_MIG_PLACEMENT);
	placed(p, &one, &d);
}

TEST(a_profile_may_be_limited_and_a_split_gpu_takes_no_parts)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request media = instance(7), other = instance(99), share = part(100, 0);
	struct placement_decision d;
	uint64_t pod;
	uint32_t n;

	node.device[0].geometry = with_geometry(p);
	n = with_node(p, &node);
	pod = placed(p, &media, &d);
	expect_eq(refused(p, &media, n), PLACEMENT_NO_MIG_PLACEMENT);
	expect_eq(refused(p, &other, n), PLACEMENT_NO_MIG_PROFILE);
	expect_eq(refused(p, &share, n), PLACEMENT_NO_MIG_MODE);
	expect_eq(placement_release(p, pod), 0);
	expect_eq(refused(p, &media, n), PLACEMENT_FITS);
}

TEST(instances_of_a_pod_find_room_whatever_their_order)
{
	static const uint16_t orders[3][3] = {{3, 3, 4}, {3, 4, 3}, {4, 3, 3}};

	for (size_t o = 0; o < ARRAY_SIZE(orders); o++) {
		struct placement *p = given(PLACEMENT_BINPACK);
		struct placement_node node = node_of(1);
		struct placement_request request = instance(orders[o][0]);
		struct placement_decision d;
		uint32_t taken = 0;

		node.device[0].geometry = with_geometry(p);
		with_node(p, &node);
		request.containers = 3;
		for (int i = 1; i < 3; i++) {
			request.container[i] = request.container[0];
			request.container[i].profile = orders[o][i];
		}
		placed(p, &request, &d);
		expect_eq(d.assignment.size, 3);
		for (int i = 0; i < 3; i++) {
			const struct placement_slot *slot = &d.assignment.slot[i];
			uint32_t slices = request.container[slot->container].profile == 4 ? 0xf : 3;

			expect(!(taken & slices << slot->start));
			taken |= slices << slot->start;
		}
		expect_eq(taken, 0xff);
	}
}

TEST(where_enough_gpus_would_do_but_are_apart_that_is_the_reason)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(3);
	struct placement_request two = instance(3);
	uint32_t n;

	/* With MIG lifted the third one would do as well. */
	node.device[0].geometry = node.device[1].geometry = with_geometry(p);
	node.device[1].numa = 1;
	n = with_node(p, &node);
	two.container[0].devices = 2;
	two.numa = PLACEMENT_REQUIRE;
	expect_eq(refused(p, &two, n), PLACEMENT_NO_NUMA);
}
