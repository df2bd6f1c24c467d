/* SPDX-License-Identifier: Apache-2.0 */
/* Which whole GPUs a container gets, by their links. */
#include "plugin/kubelet/linked.h"

#include <string.h>

#include "tests/test.h"

static uint32_t worths[LINKED_DEVICES][LINKED_DEVICES];

static uint32_t worth(const void *owner, uint32_t a, uint32_t b)
{
	(void)owner;
	return worths[a][b];
}

static void link_two(uint32_t a, uint32_t b, uint32_t value)
{
	worths[a][b] = worths[b][a] = value;
}

static uint64_t chosen(uint64_t free, uint64_t must, unsigned size)
{
	struct linked linked = {.worth = worth, .free = free, .must = must};

	return linked_choose(&linked, size);
}

/* Eight GPUs of a DGX-1: two rings of four, and one link from each to its partner. */
static void given_dgx(void)
{
	static const uint8_t pairs[][3] = {
		{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
		{1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
		{4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
	};

	for (uint32_t a = 0; a < 8; a++)
		for (uint32_t b = 0; b < a; b++)
			link_two(a, b, a / 4 == b / 4 ? 30 : 10);
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		link_two(pairs[i][0], pairs[i][1],
			 worths[pairs[i][0]][pairs[i][1]] + 100u * pairs[i][2]);
}

TEST(four_of_eight_are_those_with_the_most_links_among_them)
{
	given_dgx();
	expect_eq(chosen(0xff, 0, 4), 0x0f);
	expect_eq(chosen(0xfe, 0, 4), 0xf0);
	expect_eq(chosen(0xff, 1 << 6, 4), 0xf0);
	expect_eq(chosen(0xff, 0, 8), 0xff);
}

/* 0-1 is the best pair; without it only 2-3 is left, which is none at all. */
TEST(the_next_container_is_not_left_with_unlinked_gpus)
{
	memset(worths, 0, sizeof(worths));
	link_two(0, 1, 300);
	link_two(0, 2, 250);
	link_two(1, 3, 200);
	expect_eq(chosen(0xf, 0, 2), 1 << 0 | 1 << 2);
	expect_eq(chosen(0x7, 0, 2), 1 << 0 | 1 << 1);
	expect_eq(chosen(0xf, 1 << 3, 2), 1 << 1 | 1 << 3);
}

TEST(without_links_the_first_are_chosen)
{
	memset(worths, 0, sizeof(worths));
	expect_eq(chosen(0xb6, 0, 3), 0x16);
	expect_eq(chosen(1ull << 63 | 1, 0, 2), 1ull << 63 | 1);
}

TEST(more_gpus_than_there_are_are_not_found)
{
	expect_eq(chosen(0x7, 0, 4), 0);
	expect_eq(chosen(0x7, 0x3, 1), 0);
	expect_eq(chosen(0x7, 0x8, 2), 0);
	expect_eq(chosen(0x7, 0, 0), 0);
	expect_eq(chosen(0, 0, 1), 0);
}

/* ---- against all orders of the devices ------------------------------------------------------- */

static struct {
	unsigned count, size;
	uint32_t device[7];
	uint64_t must;
	uint32_t most_all, own; /* the best order, and the worth of its best set that has `must` */
} w;

static uint32_t worth_of_run(unsigned from, unsigned to)
{
	uint32_t all = 0;

	for (unsigned a = from; a < to; a++)
		for (unsigned b = a + 1; b < to; b++)
			all += worths[w.device[a]][w.device[b]];
	return all;
}

/* Sets are runs of the order. */
static void judge(void)
{
	uint32_t all = 0, own = 0;
	bool any = false;

	for (unsigned from = 0; from < w.count; from += w.size) {
		unsigned to = from + w.size <= w.count ? from + w.size : w.count;
		uint32_t here = worth_of_run(from, to);
		uint64_t set = 0;

		all += here;
		for (unsigned i = from; i < to; i++)
			set |= 1ull << w.device[i];
		if (to - from < w.size || (set & w.must) != w.must)
			continue;
		own = !any || here > own ? here : own;
		any = true;
	}
	if (!any || all < w.most_all || (all == w.most_all && own <= w.own))
		return;
	w.most_all = all;
	w.own = own;
}

static void permute(unsigned from)
{
	if (from == w.count)
		judge();
	for (unsigned i = from; i < w.count; i++) {
		uint32_t first = w.device[from];

		w.device[from] = w.device[i];
		w.device[i] = first;
		permute(from + 1);
		w.device[i] = w.device[from];
		w.device[from] = first;
	}
}

static uint32_t worth_of_set(uint64_t set)
{
	uint32_t all = 0;

	for (uint32_t a = 0; a < LINKED_DEVICES; a++)
		for (uint32_t b = 0; b < a; b++)
			all += (set >> a & set >> b & 1) ? worths[a][b] : 0;
	return all;
}

TEST(no_order_of_the_devices_divides_them_better)
{
	unsigned rounds = test_rounds(100);

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t free = 0, set;

		memset(&w, 0, sizeof(w));
		w.count = 1 + (unsigned)test_random_below(7);
		while ((unsigned)__builtin_popcountll(free) < w.count)
			free |= 1ull << test_random_below(16);
		for (uint64_t left = free; left; left &= left - 1)
			w.device[__builtin_popcountll(free) - __builtin_popcountll(left)] =
				(uint32_t)__builtin_ctzll(left);
		for (uint32_t a = 0; a < 16; a++)
			for (uint32_t b = 0; b < a; b++)
				link_two(a, b, (uint32_t)test_random_below(5) * 50);
		w.size = 1 + (unsigned)test_random_below(w.count);
		if (test_random_below(2))
			w.must = 1ull << w.device[test_random_below(w.count)];
		set = chosen(free, w.must, w.size);
		expect_eq((unsigned)__builtin_popcountll(set), w.size);
		expect((set & ~free) == 0 && (set & w.must) == w.must);
		permute(0);
		expect_eq(worth_of_set(set), w.own);
	}
}

/* So many that not all divisions can be tried. */
TEST(of_many_devices_a_linked_set_is_found)
{
	memset(worths, 0, sizeof(worths));
	for (uint32_t a = 0; a < LINKED_DEVICES; a++)
		for (uint32_t b = 0; b < a; b++)
			link_two(a, b, a / 8 == b / 8 ? 100 : 10);
	link_two(42, 43, 200);
	expect_eq(chosen(UINT64_MAX, 0, 8), 0xffull << 40);
	expect_eq(chosen(UINT64_MAX, 1ull << 17, 8), 0xffull << 16);
	expect_eq((unsigned)__builtin_popcountll(chosen(UINT64_MAX, 0, 12)), 12);
}
