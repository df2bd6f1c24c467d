/* SPDX-License-Identifier: Apache-2.0 */
/* core/placement/seating.h by examples: a node of GPUs of 80 GiB, if nothing else is said. */
#include "core/placement/seating.h"
#include "tests/test.h"

#define GIB (1ull << 30)

enum { PODS = 8 };

static _Alignas(64) char memory[1 << 20];
static struct seating_pod pod[PODS], *list[PODS];

static struct seating_node node_of(uint32_t gpus)
{
	struct seating_node node = {.devices = gpus};

	for (uint32_t i = 0; i < gpus; i++)
		node.device[i] = (struct seating_device){.memory_bytes = 80 * GIB,
							 .promised_bytes = 80 * GIB,
							 .slot_bytes = 20 * GIB};
	return node;
}

static struct seating_container part(uint64_t gib, uint32_t milli)
{
	return (struct seating_container){.gpus = 1, .memory_bytes = gib * GIB, .milli = milli};
}

static struct seating_container slot(void)
{
	return (struct seating_container){.gpus = 1, .slot_memory = true, .slot_milli = true};
}

static void with(size_t at, struct seating_container container)
{
	pod[at] = (struct seating_pod){.containers = 1, .container = {container}};
	list[at] = &pod[at];
}

static int settled(const struct seating_node *node, size_t count)
{
	size_t wrong;

	expect(seating_size(list, count) <= sizeof(memory));
	return seating_settle(node, list, count, memory, sizeof(memory), &wrong);
}

TEST(a_pod_is_put_where_it_fills_a_gpu)
{
	struct seating_node node = node_of(2);

	with(0, part(30, 0));
	with(1, part(60, 0));
	with(2, part(20, 0));
	expect_eq(settled(&node, 3), 3);
	expect_eq(pod[0].container[0].device[0], 0);
	expect_eq(pod[1].container[0].device[0], 1);
	expect_eq(pod[2].container[0].device[0], 1);
}

TEST(where_the_sum_fits_and_no_gpu_does_the_numbers_say_so)
{
	struct seating_node node = node_of(2);

	with(0, part(50, 0));
	with(1, part(55, 0));
	with(2, part(40, 0));
	expect_eq(settled(&node, 3), 2);
	expect(!pod[2].seated);
	expect_eq(pod[2].refusal.reason, PLACEMENT_NO_MEMORY);
	expect_eq(pod[2].refusal.needed, 40 * GIB);
	expect_eq(pod[2].refusal.available, 30 * GIB);
	expect_eq(pod[2].refusal.together, 55 * GIB);
	expect_eq(pod[2].refusal.whole, 80 * GIB);
	list[1] = &pod[2];
	expect_eq(settled(&node, 2), 1);
	expect_eq(pod[2].container[0].device[0], 1);
}

TEST(where_no_gpu_has_room_a_tenant_that_yields_is_parked_for_a_higher_class)
{
	struct seating_node node = node_of(2);

	with(0, part(50, 600));
	with(1, part(55, 0));
	with(2, part(40, 300));
	with(3, part(40, 0));
	pod[0].yields = true;
	pod[2].above = true;
	expect_eq(settled(&node, 4), 3);
	expect(pod[2].seated && !pod[3].seated);
	expect_eq(pod[2].container[0].device[0], 0);
	expect_eq(pod[3].refusal.available, 25 * GIB);
	/* Time counts all the same, and so does the memory of the higher class. */
	with(3, part(10, 500));
	with(4, part(60, 0));
	pod[3].above = pod[4].above = true;
	expect_eq(settled(&node, 5), 1);
	expect_eq(pod[3].container[0].device[0], 1);
	expect(!pod[4].seated);
}

TEST(nobody_is_parked_where_a_gpu_has_room)
{
	struct seating_node node = node_of(2);

	with(0, part(70, 0));
	with(1, part(40, 0));
	pod[0].yields = pod[1].above = true;
	expect_eq(settled(&node, 2), 2);
	expect_eq(pod[1].container[0].device[0], 1);
}

TEST(time_is_counted_like_memory)
{
	struct seating_node node = node_of(1);

	with(0, part(1, 700));
	with(1, part(1, 400));
	with(2, part(1, 300));
	expect_eq(settled(&node, 3), 2);
	expect_eq(pod[1].refusal.reason, PLACEMENT_NO_COMPUTE);
	expect_eq(pod[1].refusal.needed, 400);
	/* The third has come in meanwhile. */
	expect_eq(pod[1].refusal.available, 0);
	expect_eq(pod[1].refusal.whole, 1000);
	expect(pod[2].seated);
	list[2] = &pod[1];
	list[1] = &pod[2];
	pod[2].container[0].milli = 100;
	expect_eq(settled(&node, 3), 0);
	expect_eq(pod[1].refusal.available, 200);
}

TEST(the_first_pod_is_considered_first)
{
	struct seating_node node = node_of(1);

	with(0, part(60, 0));
	with(1, part(50, 0));
	with(2, part(30, 0));
	expect_eq(settled(&node, 3), 1);
	/* The first has gone: the second has its room, though the third would fit as well. */
	list[0] = &pod[1];
	list[1] = &pod[2];
	expect_eq(settled(&node, 2), 2);
}

TEST(the_containers_of_a_pod_are_seated_together_or_not_at_all)
{
	struct seating_node node = node_of(2);

	with(0, part(50, 0));
	with(1, part(70, 0));
	pod[1].containers = 2;
	pod[1].container[1] = part(40, 0);
	expect_eq(settled(&node, 2), 1);
	expect(!pod[1].seated);
	pod[1].container[1] = part(30, 0);
	expect_eq(settled(&node, 2), 1);
	expect_eq(pod[1].container[0].device[0], 1);
	expect_eq(pod[1].container[1].device[0], 0);
}

TEST(an_init_container_has_the_gpus_of_the_others)
{
	struct seating_node node = node_of(1);

	with(0, part(80, 1000));
	pod[0].containers = 2;
	pod[0].container[1] = part(80, 1000);
	pod[0].container[1].kind = PLACEMENT_INIT;
	expect_eq(settled(&node, 1), 1);
}

TEST(several_gpus_of_a_container_are_different_ones)
{
	struct seating_node node = node_of(2);

	with(0, part(30, 0));
	pod[0].container[0].gpus = 2;
	with(1, part(60, 0));
	with(2, part(10, 0));
	pod[2].container[0].gpus = 3;
	expect_eq(settled(&node, 3), 1);
	expect_eq(pod[0].container[0].device[0], 0);
	expect_eq(pod[0].container[0].device[1], 1);
	expect_eq(pod[1].refusal.available, 50 * GIB);
	expect_eq(pod[2].refusal.reason, PLACEMENT_NO_DEVICE_COUNT);
	expect_eq(pod[2].refusal.needed, 3);
	expect_eq(pod[2].refusal.available, 2);
}

TEST(a_slot_is_the_slot_of_its_gpu)
{
	struct seating_node node = node_of(2);

	node.device[0].memory_bytes = node.device[0].promised_bytes = 24 * GIB;
	node.device[0].slot_bytes = 6 * GIB;
	for (size_t i = 0; i < 6; i++)
		with(i, slot());
	expect_eq(settled(&node, 6), 6);
	for (size_t i = 0; i < 6; i++) {
		expect_eq(pod[i].container[0].device[0], i < 4 ? 0 : 1);
		expect_eq(pod[i].container[0].memory_bytes, (i < 4 ? 6 : 20) * GIB);
	}
	/* A slot of each of two different GPUs is as large as the larger one. */
	with(0, slot());
	pod[0].container[0].gpus = 2;
	expect_eq(settled(&node, 1), 1);
	expect_eq(pod[0].container[0].memory_bytes, 20 * GIB);
	/* Also if the one GPU has the larger part of the memory, and the other one of the time. */
	node.device[0].slot_milli = 500;
	node.device[1].slot_milli = 250;
	with(0, slot());
	pod[0].container[0].gpus = 2;
	expect_eq(settled(&node, 1), 1);
	expect_eq(pod[0].container[0].memory_bytes, 20 * GIB);
	expect_eq(pod[0].container[0].milli, 500);
}

TEST(a_slot_is_never_that_of_a_closed_gpu)
{
	struct seating_node node = node_of(3);

	node.device[2].slot_bytes = 40 * GIB;
	node.device[2].closed = true;
	with(0, part(70, 0));
	with(1, part(70, 0));
	with(2, slot());
	expect_eq(settled(&node, 3), 2);
	expect(!pod[2].seated);
	expect_eq(pod[2].container[0].memory_bytes, 20 * GIB);
	expect_eq(pod[2].refusal.needed, 20 * GIB);
}

TEST(nobody_gets_more_of_a_gpu_than_it_has)
{
	struct seating_node node = node_of(2);

	/* Overcommit. */
	node.device[0].promised_bytes = 160 * GIB;
	node.device[1] =
		(struct seating_device){.memory_bytes = 24 * GIB, .promised_bytes = 48 * GIB};
	with(0, part(100, 0));
	with(1, part(40, 0));
	with(2, part(80, 0));
	with(3, part(48, 0));
	expect_eq(settled(&node, 4), 2);
	expect_eq(pod[0].refusal.reason, PLACEMENT_NO_MEMORY_SIZE);
	expect_eq(pod[0].refusal.needed, 100 * GIB);
	expect_eq(pod[0].refusal.available, 80 * GIB);
	expect_eq(pod[1].container[0].device[0], 0);
	expect_eq(pod[2].container[0].device[0], 0);
	/* The other one has 48 GiB to promise, and 24 GiB. */
	expect_eq(pod[3].refusal.reason, PLACEMENT_NO_MEMORY);
	expect_eq(pod[3].refusal.needed, 48 * GIB);
	expect_eq(pod[3].refusal.available, 40 * GIB);
	expect_eq(pod[3].refusal.together, 88 * GIB);
}

TEST(a_pod_that_wants_a_gpu_alone_has_it_alone)
{
	struct seating_node node = node_of(2);

	with(0, part(10, 0));
	with(1, part(10, 1000));
	pod[1].container[0].exclusive = true;
	with(2, part(75, 0));
	expect_eq(settled(&node, 3), 2);
	expect_eq(pod[1].container[0].device[0], 1);
	expect(!pod[2].seated);
	with(0, part(10, 0));
	with(1, part(10, 0));
	with(2, part(75, 0));
	expect_eq(settled(&node, 3), 3);
	with(3, part(10, 1000));
	pod[3].container[0].exclusive = true;
	expect_eq(settled(&node, 4), 0);
	expect_eq(pod[3].refusal.reason, PLACEMENT_NO_EXCLUSIVE);
}

TEST(a_closed_gpu_takes_no_pod_and_keeps_its_own)
{
	struct seating_node node = node_of(2);

	with(0, part(50, 0));
	expect_eq(settled(&node, 1), 1);
	node.device[0].closed = true;
	with(1, part(70, 0));
	with(2, part(20, 0));
	expect_eq(settled(&node, 3), 1);
	expect_eq(pod[1].container[0].device[0], 1);
	expect_eq(pod[2].refusal.available, 10 * GIB);
	expect_eq(pod[2].refusal.together, 10 * GIB);
	node.device[1].closed = true;
	expect_eq(settled(&node, 3), 0);
	expect_eq(pod[2].refusal.reason, PLACEMENT_NO_LOST);
}

TEST(two_large_gpus_that_a_node_lacks_are_not_waited_for)
{
	struct seating_node node = node_of(3);

	node.device[0].memory_bytes = node.device[0].promised_bytes = 16 * GIB;
	node.device[1] = node.device[0];
	with(0, part(40, 0));
	pod[0].container[0].gpus = 2;
	expect_eq(settled(&node, 1), 0);
	expect_eq(pod[0].refusal.reason, PLACEMENT_NO_MEMORY_SIZE);
	expect_eq(pod[0].refusal.needed, 40 * GIB);
	expect_eq(pod[0].refusal.available, 16 * GIB);
}

TEST(a_large_gpu_that_is_out_of_service_is_waited_for)
{
	struct seating_node node = node_of(2);

	node.device[1].memory_bytes = node.device[1].promised_bytes = 16 * GIB;
	node.device[0].closed = true;
	with(0, part(40, 0));
	with(1, part(10, 0));
	pod[1].container[0].gpus = 2;
	expect_eq(settled(&node, 2), 0);
	for (size_t i = 0; i < 2; i++) {
		expect_eq(pod[i].refusal.reason, PLACEMENT_NO_LOST);
		expect_eq(pod[i].refusal.needed, 1 + i);
		expect_eq(pod[i].refusal.available, i);
	}
}

TEST(memory_that_is_left_where_time_is_not_is_told_from_the_rest)
{
	struct seating_node node = node_of(2);

	with(0, part(70, 0));
	with(1, part(20, 900));
	with(2, part(20, 500));
	expect_eq(settled(&node, 3), 2);
	expect_eq(pod[2].refusal.reason, PLACEMENT_NO_MEMORY);
	expect_eq(pod[2].refusal.available, 10 * GIB);
	expect(pod[2].refusal.elsewhere);
	expect_eq(pod[2].refusal.together, 70 * GIB);
}

TEST(nonsense_is_named)
{
	struct seating_node node = node_of(1);
	size_t wrong;

	with(0, part(1, 0));
	with(1, part(1, 0));
	pod[1].container[0].gpus = 0;
	expect_eq(seating_settle(&node, list, 2, memory, sizeof(memory), &wrong), -EINVAL);
	expect_eq(wrong, 1);
	expect(!pod[0].seated);
	with(1, part(1, 0));
	expect_eq(seating_settle(&node, list, 2, memory, 64, &wrong), -ENOSPC);
	node.devices = 0;
	expect_eq(seating_settle(&node, list, 2, memory, sizeof(memory), &wrong), -EINVAL);
}
