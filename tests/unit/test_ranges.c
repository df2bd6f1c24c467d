/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges against a map of pages, and gaps against a map of units. */
#include "guest/credit/ranges.h"

#include "guest/credit/blocks.h"
#include "guest/memory/gaps.h"
#include "tests/test.h"

enum { PAGES = 512, PAGE = 4096 };

static struct ranges ranges;

TEST(an_address_is_found_in_its_range_and_nowhere_else)
{
	const struct range *found;
	struct range got;

	ranges_forget(&ranges);
	expect_eq(ranges_add(&ranges, 0x10000, 0x2000, 7), 0);
	expect_eq(ranges_add(&ranges, 0x12000, 0x1000, 8), 0);
	expect_eq(ranges_add(&ranges, 0x11fff, 2, 9), -EEXIST);
	expect_eq(ranges_add(&ranges, 0xf000, 0x1001, 9), -EEXIST);
	expect_eq(ranges_add(&ranges, 0x13000, 0, 9), -EINVAL);
	expect_eq(ranges_add(&ranges, UINT64_MAX, 2, 9), -EINVAL);
	found = ranges_find(&ranges, 0x11fff);
	expect(found != NULL);
	expect_eq(found->value, 7);
	expect_eq(ranges_find(&ranges, 0x12000)->value, 8);
	expect(ranges_find(&ranges, 0x13000) == NULL);
	expect(ranges_find(&ranges, 0xffff) == NULL);
	expect_eq(ranges_first(&ranges, 0), 0);
	expect_eq(ranges_first(&ranges, 0x11fff), 0);
	expect_eq(ranges_first(&ranges, 0x12000), 1);
	expect_eq(ranges_first(&ranges, 0x13000), 2);
	expect_eq(ranges_take(&ranges, 0x10000, 0x1fff, &got), -ENOENT);
	expect_eq(ranges_take(&ranges, 0x10001, 0x10000, &got), 0);
	expect_eq(got.value, 8);
	expect_eq(ranges_take(&ranges, 0, UINT64_MAX, &got), 0);
	expect_eq(got.value, 7);
	expect_eq(ranges_take(&ranges, 0, UINT64_MAX, &got), -ENOENT);
}

TEST(after_any_history_the_ranges_are_all_that_was_added_and_not_taken)
{
	static uint32_t owner[PAGES]; /* 0: none */
	uint32_t next = 1;
	struct range got;

	ranges_forget(&ranges);
	memset(owner, 0, sizeof(owner));
	for (unsigned step = 0; step < test_rounds(20000); step++) {
		uint64_t first = test_random_below(PAGES);
		uint64_t count = 1 + test_random_below(PAGES - first < 9 ? PAGES - first : 9);
		int empty = 1;

		for (uint64_t i = first; i < first + count; i++)
			empty = empty && !owner[i];
		if (test_random_below(2)) {
			expect_eq(ranges_add(&ranges, first * PAGE, count * PAGE, next),
				  empty ? 0 : -EEXIST);
			for (uint64_t i = first; empty && i < first + count; i++)
				owner[i] = next;
			next += (uint32_t)empty;
		} else {
			while (ranges_take(&ranges, first * PAGE, count * PAGE, &got) == 0) {
				expect(got.base >= first * PAGE);
				expect(got.base + got.bytes <= (first + count) * PAGE);
				for (uint64_t i = 0; i < got.bytes / PAGE; i++) {
					expect_eq(owner[got.base / PAGE + i], got.value);
					owner[got.base / PAGE + i] = 0;
				}
			}
		}
		for (unsigned i = 0; i < 8; i++) {
			uint64_t page = test_random_below(PAGES);
			const struct range *found = ranges_find(&ranges, page * PAGE + 5);

			expect_eq(found ? found->value : 0, owner[page]);
		}
	}
}

enum { BLOCKS = 4, UNITS = BLOCKS_BYTES / BLOCKS_UNIT };

static int model_fits(uint8_t taken[BLOCKS][UNITS], const int *small, uint32_t units)
{
	for (int b = 0; b < BLOCKS; b++) {
		uint32_t run = 0;

		for (uint32_t u = 0; small[b] && u < UNITS; u++) {
			run = taken[b][u] ? 0 : run + 1;
			if (run == units)
				return 1;
		}
	}
	return 0;
}

TEST(a_gap_is_found_exactly_where_there_is_one)
{
	static uint8_t taken[BLOCKS][UNITS];
	static struct gaps_piece pieces[2000];

	for (unsigned round = 0; round < test_rounds(300); round++) {
		int small[BLOCKS] = {0};
		size_t count = 0;
		uint64_t bytes;

		memset(taken, 0, sizeof(taken));
		for (unsigned i = 0; i < 20 + round % 200; i++) {
			uint32_t b = (uint32_t)test_random_below(BLOCKS);
			uint32_t u = (uint32_t)test_random_below(UNITS), n;
			int empty = 1;

			bytes = 1 + test_random_below(round % 2 ? 200000 : 60000);
			n = (uint32_t)((bytes + BLOCKS_UNIT - 1) / BLOCKS_UNIT);
			for (uint32_t k = u; k < u + n; k++)
				empty = empty && k < UNITS && !taken[b][k];
			if (!empty)
				continue;
			memset(&taken[b][u], 1, n);
			small[b] = 1;
			pieces[count++] = (struct gaps_piece){
				0x7000000000 + b * BLOCKS_BYTES + u * BLOCKS_UNIT, bytes};
		}
		pieces[count++] =
			(struct gaps_piece){0x7000000000 + 10 * BLOCKS_BYTES, BLOCKS_BYTES + 5};
		for (unsigned i = 0; i < 20; i++) {
			bytes = 1 + test_random_below(BLOCKS_SMALL);
			expect_eq(gaps_fit(pieces, count, bytes),
				  model_fits(taken, small,
					     (uint32_t)((bytes + BLOCKS_UNIT - 1) / BLOCKS_UNIT)));
		}
	}
}
