/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of core/placement/seating.h under random histories, against sums and a search of our
 * own. */
#include <stdlib.h>

#include "core/placement/seating.h"
#include "tests/test.h"

#define GIB (1ull << 30)

enum { PODS = 40, ROUNDS = 60, STEPS = 60 };

/* A pod that could be parked can be so once it has a seat. */
struct guest {
	struct seating_pod is;
	bool moves;
};

static struct {
	struct seating_node node;
	struct seating_pod *pod[PODS]; /* each of a struct guest */
	size_t pods;
} world;

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

/* The seated containers' parts of a device: of those that run together, and of these the sidecars;
 * and the most that one of the init containers needs beside these. */
struct phases {
	uint64_t bytes, side_bytes, peak_bytes;
	uint32_t milli, side_milli, peak_milli;
};

struct taken {
	uint64_t bytes, firm_bytes; /* firm: of pods that are not parked */
	uint32_t milli, tenants, alone, above;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void add_phase(struct phases *of, const struct seating_container *it)
{
	if (it->kind == PLACEMENT_INIT) {
		of->peak_bytes = larger(of->peak_bytes, of->side_bytes + it->memory_bytes);
		of->peak_milli = (uint32_t)larger(of->peak_milli, of->side_milli + it->milli);
		return;
	}
	of->bytes += it->memory_bytes;
	of->milli += it->milli;
	if (it->kind != PLACEMENT_SIDECAR)
		return;
	of->side_bytes += it->memory_bytes;
	of->side_milli += it->milli;
}

static void sum_up_pod(struct taken taken[SEATING_DEVICES], const struct seating_pod *pod)
{
	struct phases phases[SEATING_DEVICES] = {{0}};
	bool on[SEATING_DEVICES] = {false};

	for (uint32_t c = 0; c < pod->containers; c++) {
		const struct seating_container *it = &pod->container[c];

		for (uint32_t g = 0; g < it->gpus; g++) {
			add_phase(&phases[it->device[g]], it);
			on[it->device[g]] = true;
			taken[it->device[g]].alone += it->exclusive;
		}
	}
	for (uint32_t i = 0; i < world.node.devices; i++) {
		uint64_t bytes = larger(phases[i].bytes, phases[i].peak_bytes);

		taken[i].bytes += bytes;
		taken[i].firm_bytes += pod->yields ? 0 : bytes;
		taken[i].milli += (uint32_t)larger(phases[i].milli, phases[i].peak_milli);
		taken[i].tenants += on[i];
		taken[i].above += on[i] && pod->above;
	}
}

static void sum_up(struct taken taken[SEATING_DEVICES])
{
	memset(taken, 0, SEATING_DEVICES * sizeof(*taken));
	for (size_t i = 0; i < world.pods; i++)
		if (world.pod[i]->seated)
			sum_up_pod(taken, world.pod[i]);
}

/* A search for any way at all. Every choice of GPUs is tried. */
struct search {
	const struct seating_pod *pod;
	struct taken taken[SEATING_DEVICES];
	bool parks; /* those that yield */
	uint32_t allowed;
	struct phases own[SEATING_DEVICES];
	uint32_t tenants[SEATING_DEVICES]; /* of the pod itself */
	bool alone[SEATING_DEVICES];
};

/* One more container on a device: does it hold, and what is there then? */
static bool holds(const struct search *s, uint32_t device, const struct seating_container *it,
		  struct phases *ret_own)
{
	const struct seating_device *is = &world.node.device[device];
	const struct taken *taken = &s->taken[device];
	uint64_t has = s->parks ? taken->firm_bytes : taken->bytes;

	if (is->closed || it->memory_bytes > is->memory_bytes || taken->alone || s->alone[device] ||
	    (it->exclusive && (taken->tenants || s->tenants[device])))
		return false;
	*ret_own = s->own[device];
	add_phase(ret_own, it);
	return has + larger(ret_own->bytes, ret_own->peak_bytes) <= is->promised_bytes &&
	       taken->milli + larger(ret_own->milli, ret_own->peak_milli) <= 1000;
}

/* Init containers come last, behind the sidecars that they run beside. */
static bool search(struct search *s, uint32_t c, uint32_t gpus, uint32_t from)
{
	const struct seating_container *it = &s->pod->container[c];

	if (c == s->pod->containers)
		return true;
	if (gpus == it->gpus)
		return search(s, c + 1, 0, 0);
	for (uint32_t d = from; d < world.node.devices; d++) {
		struct phases was = s->own[d], now;
		bool found, alone = s->alone[d];

		if (!(s->allowed >> d & 1) || !holds(s, d, it, &now))
			continue;
		s->own[d] = now;
		s->tenants[d]++;
		s->alone[d] |= it->exclusive;
		found = search(s, c, gpus + 1, d + 1);
		s->own[d] = was;
		s->tenants[d]--;
		s->alone[d] = alone;
		if (found)
			return true;
	}
	return false;
}

static bool is_way(const struct seating_pod *pod, bool parks, uint32_t allowed)
{
	struct search s = {.pod = pod, .parks = parks, .allowed = allowed};

	sum_up(s.taken);
	return search(&s, 0, 0, 0);
}

static bool has_slots(const struct seating_pod *pod)
{
	for (uint32_t c = 0; c < pod->containers; c++)
		if (pod->container[c].slot_memory || pod->container[c].slot_milli)
			return true;
	return false;
}

/* With the slot of one of the devices, on those whose slot is the same. */
static bool could_sit(const struct seating_pod *pod, bool parks)
{
	if (!has_slots(pod))
		return is_way(pod, parks, UINT32_MAX);
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
		if (is_way(&copy, parks, allowed))
			return true;
	}
	return false;
}

static void expect_nothing_twice(void)
{
	struct taken taken[SEATING_DEVICES];

	sum_up(taken);
	for (uint32_t i = 0; i < world.node.devices; i++) {
		expect(taken[i].firm_bytes <= world.node.device[i].promised_bytes);
		expect(taken[i].bytes <= world.node.device[i].promised_bytes || taken[i].above);
		expect(taken[i].milli <= 1000);
		expect(taken[i].alone == 0 || taken[i].tenants == 1);
	}
}

/* ---- what is true of a pod that waits ------------------------------------------------------- */

struct numbers {
	uint32_t count;
	uint64_t value[SEATING_DEVICES];
};

static void add_number(struct numbers *to, uint64_t value)
{
	uint32_t at = to->count++;

	for (; at > 0 && to->value[at - 1] < value; at--)
		to->value[at] = to->value[at - 1];
	to->value[at] = value;
}

static uint64_t nth(const struct numbers *of, uint32_t n)
{
	return n <= of->count ? of->value[n - 1] : 0;
}

static bool takes(const struct taken *taken, uint32_t device, const struct seating_container *it)
{
	return !world.node.device[device].closed && !taken->alone &&
	       !(it->exclusive && taken->tenants);
}

static uint64_t left_of(const struct taken *taken, uint32_t device, bool time)
{
	uint64_t promised = world.node.device[device].promised_bytes;

	if (taken->alone)
		return 0;
	if (time)
		return 1000 - taken->milli;
	return taken->bytes < promised ? promised - taken->bytes : 0;
}

/* Of memory or of time: the amount left where nothing else is in the way of the container;
 * `amounts`: nor is the other amount. */
static struct numbers usable(const struct taken *taken, const struct seating_container *it,
			     bool time, bool amounts)
{
	struct numbers all = {.count = 0};

	for (uint32_t i = 0; i < world.node.devices; i++) {
		bool rest = time ? left_of(&taken[i], i, false) >= it->memory_bytes
				 : left_of(&taken[i], i, true) >= it->milli;

		if (takes(&taken[i], i, it) && (rest || !amounts) &&
		    world.node.device[i].memory_bytes >= it->memory_bytes)
			add_number(&all, left_of(&taken[i], i, time));
	}
	return all;
}

static void expect_true_amounts(const struct seating_pod *pod, const struct taken *taken)
{
	const struct seating_refusal *said = &pod->refusal;
	const struct seating_container *it = &pod->container[said->container];
	bool time = said->reason == PLACEMENT_NO_COMPUTE;
	struct numbers rest = usable(taken, it, time, true), all = {.count = 0};
	uint64_t together = 0;

	for (uint32_t i = 0; i < world.node.devices; i++)
		if (!world.node.device[i].closed) {
			together += left_of(&taken[i], i, time);
			add_number(&all, left_of(&taken[i], i, time));
		}
	expect_eq(said->together, together);
	expect_eq(said->needed, time ? it->milli : it->memory_bytes);
	expect(said->available < said->needed);
	expect_eq(said->elsewhere, nth(&all, it->gpus) > said->available);
	if (rest.count < it->gpus)
		rest = usable(taken, it, time, false);
	expect_eq(said->available, nth(&rest, it->gpus));
}

/* Beside amounts: is the GPU of the kind that is counted? */
static bool is_of_kind(enum placement_reason reason, uint32_t device, const struct taken *taken,
		       const struct seating_container *it)
{
	const struct seating_device *is = &world.node.device[device];

	if (reason == PLACEMENT_NO_DEVICE_COUNT)
		return true;
	if (reason == PLACEMENT_NO_LOST)
		return !is->closed && is->memory_bytes >= it->memory_bytes;
	expect(reason == PLACEMENT_NO_EXCLUSIVE || reason == PLACEMENT_NO_SHARED);
	return !is->closed && (reason == PLACEMENT_NO_EXCLUSIVE ? !taken->tenants : !taken->alone);
}

static void expect_true_counts(const struct seating_pod *pod, const struct taken *taken)
{
	const struct seating_refusal *said = &pod->refusal;
	const struct seating_container *it = &pod->container[said->container];
	uint32_t count = 0, room = 0;

	for (uint32_t i = 0; i < world.node.devices; i++)
		if (is_of_kind(said->reason, i, &taken[i], it)) {
			count++;
			room += world.node.device[i].memory_bytes >= it->memory_bytes &&
				left_of(&taken[i], i, false) >= it->memory_bytes &&
				left_of(&taken[i], i, true) >= it->milli;
		}
	expect_eq(said->needed, it->gpus);
	expect_eq(said->elsewhere, count >= it->gpus);
	expect_eq(said->available, count >= it->gpus ? room : count);
	expect(said->available < said->needed);
}

static void expect_true_size(const struct seating_pod *pod)
{
	const struct seating_refusal *said = &pod->refusal;
	const struct seating_container *it = &pod->container[said->container];
	struct numbers all = {.count = 0};

	for (uint32_t i = 0; i < world.node.devices; i++)
		add_number(&all, world.node.device[i].memory_bytes);
	expect_eq(said->needed, it->memory_bytes);
	expect_eq(said->available, nth(&all, it->gpus));
	expect(said->available < said->needed);
}

static void expect_true_numbers(const struct seating_pod *pod)
{
	const struct seating_refusal *said = &pod->refusal;
	struct taken taken[SEATING_DEVICES];

	sum_up(taken);
	expect(said->reason != PLACEMENT_FITS);
	if (said->reason == PLACEMENT_NO_PACKING) {
		expect(pod->containers > 1);
	} else if (said->reason == PLACEMENT_NO_MEMORY || said->reason == PLACEMENT_NO_COMPUTE) {
		expect_true_amounts(pod, taken);
	} else if (said->reason == PLACEMENT_NO_MEMORY_SIZE) {
		expect_true_size(pod);
	} else {
		expect_true_counts(pod, taken);
	}
}

static void settle(void)
{
	struct seating_pod *waiting[PODS];
	size_t size = seating_size(world.pod, world.pods), wrong, before = 0;
	void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
	int r;

	for (size_t i = 0; i < world.pods; i++) {
		world.pod[i]->yields =
			world.pod[i]->seated && ((struct guest *)world.pod[i])->moves;
		if (!world.pod[i]->seated)
			waiting[before++] = world.pod[i];
	}
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
			expect(!could_sit(world.pod[i], false));
			expect(!world.pod[i]->above || !could_sit(world.pod[i], true));
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
	return it;
}

/* In the order in which they are read: init containers last. */
static void draw_containers(struct seating_pod *pod)
{
	uint8_t kind = PLACEMENT_APP;

	pod->containers = below(4) ? 1 : (uint8_t)(2 + below(2));
	for (uint32_t i = 0; i < pod->containers; i++) {
		if (i && below(4) == 0)
			kind = PLACEMENT_SIDECAR;
		if (i && below(4) == 0)
			kind = PLACEMENT_INIT;
		pod->container[i] = draw_container();
		pod->container[i].kind = kind;
	}
	/* A container that is alone while it starts is a matter of its own. */
	for (uint32_t i = 0; kind == PLACEMENT_INIT && i < pod->containers; i++)
		pod->container[i].exclusive = false;
}

static void arrive(void)
{
	struct guest *guest = calloc(1, sizeof(*guest));

	expect(guest);
	draw_containers(&guest->is);
	guest->moves = below(3) == 0;
	guest->is.above = !guest->moves && below(2);
	world.pod[world.pods++] = &guest->is;
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

TEST(nothing_is_promised_twice_and_no_pod_waits_that_has_room)
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
