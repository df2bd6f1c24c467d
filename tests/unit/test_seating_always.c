/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of core/seating.h under random histories, against sums and a search of our own. */
#include <stdlib.h>

#include "core/placement/seating.h"
#include "tests/test.h"

#define GIB (1ull << 30)

enum { PODS = 40, ROUNDS = 60, STEPS = 60 };

static struct {
	struct seating_node node;
	struct seating_pod *pod[PODS];
	size_t pods;
} world;

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

/* What the seated containers have of a device. */
struct taken {
	uint64_t bytes;
	uint32_t milli, tenants, alone;
};

static void add_to(struct taken *taken, const struct seating_container *it)
{
	taken->bytes += it->memory_bytes;
	taken->milli += it->milli;
	taken->tenants++;
	taken->alone += it->exclusive;
}

static void remove_from(struct taken *taken, const struct seating_container *it)
{
	taken->bytes -= it->memory_bytes;
	taken->milli -= it->milli;
	taken->tenants--;
	taken->alone -= it->exclusive;
}

static void sum_up(struct taken taken[SEATING_DEVICES])
{
	memset(taken, 0, SEATING_DEVICES * sizeof(*taken));
	for (size_t i = 0; i < world.pods; i++)
		for (uint32_t c = 0; world.pod[i]->seated && c < world.pod[i]->containers; c++)
			for (uint32_t g = 0; g < world.pod[i]->container[c].gpus; g++)
				add_to(&taken[world.pod[i]->container[c].device[g]],
				       &world.pod[i]->container[c]);
}

static bool can(const struct taken *taken, uint32_t device, const struct seating_container *it)
{
	const struct seating_device *is = &world.node.device[device];

	return !is->closed && it->memory_bytes <= is->memory_bytes && !taken->alone &&
	       !(it->exclusive && taken->tenants) &&
	       (!it->memory_bytes || taken->bytes + it->memory_bytes <= is->promised_bytes) &&
	       (!it->milli || taken->milli + it->milli <= 1000);
}

/* Is there any way at all? Every choice of GPUs is tried. */
static bool search(struct taken *taken, const struct seating_pod *pod, uint32_t c, uint32_t gpus,
		   uint32_t from, uint32_t allowed)
{
	const struct seating_container *it = &pod->container[c];

	if (c == pod->containers)
		return true;
	if (gpus == it->gpus)
		return search(taken, pod, c + 1, 0, 0, allowed);
	for (uint32_t d = from; d < world.node.devices; d++) {
		bool found;

		if (!(allowed >> d & 1) || !can(&taken[d], d, it))
			continue;
		add_to(&taken[d], it);
		found = search(taken, pod, c, gpus + 1, d + 1, allowed);
		remove_from(&taken[d], it);
		if (found)
			return true;
	}
	return false;
}

static bool has_slots(const struct seating_pod *pod)
{
	for (uint32_t c = 0; c < pod->containers; c++)
		if (pod->container[c].slot_memory || pod->container[c].slot_milli)
			return true;
	return false;
}

/* With the slot of one of the devices, on those whose slot is the same. */
static bool could_sit(const struct seating_pod *pod)
{
	struct taken taken[SEATING_DEVICES];

	sum_up(taken);
	if (!has_slots(pod))
		return search(taken, pod, 0, 0, 0, UINT32_MAX);
	for (uint32_t d = 0; d < world.node.devices; d++) {
		const struct seating_device *as = &world.node.device[d];
		struct seating_pod copy = *pod;
		uint32_t allowed = 0;

		for (uint32_t i = 0; i < world.node.devices; i++)
			if (world.node.device[i].slot_bytes == as->slot_bytes &&
			    world.node.device[i].slot_milli == as->slot_milli)
				allowed |= 1u << i;
		for (uint32_t c = 0; c < copy.containers; c++) {
			if (copy.container[c].slot_memory)
				copy.container[c].memory_bytes = as->slot_bytes;
			if (copy.container[c].slot_milli)
				copy.container[c].milli = as->slot_milli;
		}
		if (search(taken, &copy, 0, 0, 0, allowed))
			return true;
	}
	return false;
}

static void expect_nothing_twice(void)
{
	struct taken taken[SEATING_DEVICES];

	sum_up(taken);
	for (uint32_t i = 0; i < world.node.devices; i++) {
		expect(taken[i].bytes <= world.node.device[i].promised_bytes);
		expect(taken[i].milli <= 1000);
		expect(taken[i].alone == 0 || taken[i].tenants == 1);
	}
}

/* The n-th most that open devices, of at least so many bytes and held by nobody alone, have left.
 */
static uint64_t nth_left(const struct taken *taken, bool time, uint64_t bytes, uint32_t n)
{
	uint64_t left[SEATING_DEVICES], value = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < world.node.devices; i++) {
		const struct seating_device *is = &world.node.device[i];

		if (!is->closed && !taken[i].alone && is->memory_bytes >= bytes)
			left[count++] =
				time ? 1000 - taken[i].milli : is->promised_bytes - taken[i].bytes;
	}
	for (uint32_t k = 0; k < n; k++) {
		uint32_t best = 0;

		if (k >= count)
			return 0;
		for (uint32_t i = 0; i < count; i++)
			if (left[i] > left[best])
				best = i;
		value = left[best];
		left[best] = 0;
	}
	return value;
}

/* For pods of one container that says its amounts, where one thing alone is in the way. */
static void expect_true_numbers(const struct seating_pod *pod)
{
	const struct seating_refusal *said = &pod->refusal;
	const struct seating_container *it = &pod->container[0];
	struct taken taken[SEATING_DEVICES];
	uint64_t together = 0;

	expect(said->reason != PLACEMENT_FITS);
	sum_up(taken);
	for (uint32_t i = 0; i < world.node.devices; i++)
		if (!world.node.device[i].closed && !taken[i].alone)
			together += world.node.device[i].promised_bytes - taken[i].bytes;
	if (said->reason == PLACEMENT_NO_MEMORY)
		expect_eq(said->together, together);
	if (pod->containers != 1 || has_slots(pod))
		return;
	if (said->reason == PLACEMENT_NO_MEMORY) {
		expect_eq(said->needed, it->memory_bytes);
		expect(said->available < said->needed || it->gpus > 1 || it->milli);
		if (!it->milli && !it->exclusive && it->gpus == 1)
			expect_eq(said->available, nth_left(taken, false, it->memory_bytes, 1));
	}
	if (said->reason == PLACEMENT_NO_COMPUTE) {
		expect_eq(said->needed, it->milli);
		if (!it->memory_bytes && !it->exclusive)
			expect_eq(said->available, nth_left(taken, true, 0, it->gpus));
	}
}

static void settle(void)
{
	struct seating_pod *waiting[PODS];
	size_t size = seating_size(world.pod, world.pods), wrong, before = 0;
	void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
	int r;

	for (size_t i = 0; i < world.pods; i++)
		if (!world.pod[i]->seated)
			waiting[before++] = world.pod[i];
	expect(memory);
	r = seating_settle(&world.node, world.pod, world.pods, memory, size, &wrong);
	free(memory);
	expect(r >= 0);
	for (size_t i = 0; i < before; i++)
		r -= waiting[i]->seated;
	expect_eq(r, 0);
	expect_nothing_twice();
	for (size_t i = 0; i < world.pods; i++)
		if (!world.pod[i]->seated) {
			expect(!could_sit(world.pod[i]));
			expect_true_numbers(world.pod[i]);
		}
}

static struct seating_container draw_container(void)
{
	struct seating_container it = {.gpus = 1, .kind = PLACEMENT_APP};

	if (below(6) == 0)
		it.gpus = (uint8_t)(1 + below(3));
	it.slot_memory = below(5) == 0;
	it.slot_milli = below(3) == 0;
	if (!it.slot_memory)
		it.memory_bytes = below(3) ? (1 + below(24)) * GIB : below(90) * GIB;
	if (!it.slot_milli)
		it.milli = below(2) ? 0 : (uint32_t)(50 * below(21));
	it.exclusive = below(15) == 0;
	if (below(8) == 0)
		it.kind = PLACEMENT_SIDECAR;
	return it;
}

static void arrive(void)
{
	struct seating_pod *pod = calloc(1, sizeof(*pod));

	expect(pod);
	pod->containers = below(4) ? 1 : (uint8_t)(2 + below(2));
	for (uint32_t i = 0; i < pod->containers; i++)
		pod->container[i] = draw_container();
	world.pod[world.pods++] = pod;
}

static void leave(void)
{
	size_t i = below(world.pods);

	free(world.pod[i]);
	/* The others stay in their order. */
	memmove(&world.pod[i], &world.pod[i + 1],
		(--world.pods - i) * sizeof(struct seating_pod *));
}

static void begin(void)
{
	static const uint64_t sizes[] = {16, 24, 48, 80};
	bool mixed = below(2);
	uint64_t gib = sizes[below(4)];

	world.node = (struct seating_node){.devices = (uint32_t)(1 + below(8))};
	for (uint32_t i = 0; i < world.node.devices; i++) {
		struct seating_device *it = &world.node.device[i];

		if (mixed)
			gib = sizes[below(4)];
		it->memory_bytes = gib * GIB;
		it->promised_bytes = it->memory_bytes;
		it->slot_bytes = it->memory_bytes / 4;
		it->slot_milli = below(2) ? 0 : 250;
		it->numa = (uint8_t)below(2);
	}
	if (below(3) == 0)
		for (uint32_t i = 0; i < world.node.devices; i++)
			world.node.device[i].promised_bytes *= 2;
}

static void close_or_open(void)
{
	struct seating_device *it = &world.node.device[below(world.node.devices)];

	it->closed = !it->closed;
}

TEST(nothing_is_promised_twice_and_nobody_waits_who_has_room)
{
	for (unsigned round = 0; round < test_rounds(ROUNDS); round++) {
		begin();
		for (unsigned step = 0; step < STEPS; step++) {
			uint64_t what = below(12);

			if (what == 0)
				close_or_open();
			else if (world.pods && (what < 5 || world.pods == PODS))
				leave();
			else
				arrive();
			settle();
		}
		while (world.pods)
			leave();
	}
}
