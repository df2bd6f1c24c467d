/* SPDX-License-Identifier: Apache-2.0 */
/* Devices' parts of the store, also when there are more or fewer devices than before. */
#include "node/move/store_divide.h"

#include "base/least.h"
#include "tests/test.h"

#define MIB (1024ull * 1024)

enum { DEVICES = 12 };

TEST(an_unused_store_is_divided_evenly_among_the_devices_that_are_here)
{
	const struct store_use uses[] = {{0, true}, {0, false}, {0, true}, {0, true}};

	expect_eq(store_divide(3000, uses, 4), 1000);
	expect_eq(store_divide(3000, uses, 1), 3000);
	expect_eq(store_divide(3000, uses + 1, 1), 0);
	expect_eq(store_divide(3000, uses, 0), 0);
	expect_eq(store_divide(0, uses, 4), 0);
}

TEST(bytes_used_beyond_a_part_after_a_division_are_promised_to_nobody_else)
{
	/* Two GPUs with 1 GiB each; one becomes seven parts. */
	struct store_use uses[9] = {{1024 * MIB, true}, {0, false}};

	for (int i = 2; i < 9; i++)
		uses[i].here = true;
	expect_eq(store_divide(2048 * MIB, uses, 9), 1024 * MIB / 7);
	/* So is memory that is still out of the GPU that is gone. */
	uses[1].bytes = 324 * MIB;
	expect_eq(store_divide(2048 * MIB, uses, 9), 100 * MIB);
	/* It comes back. */
	uses[1].bytes = 0;
	uses[0].bytes = 256 * MIB;
	expect_eq(store_divide(2048 * MIB, uses, 9), 256 * MIB);
}

TEST(where_the_rest_is_smaller_than_anothers_use_that_one_is_left_out_as_well)
{
	const struct store_use uses[] = {{700, true}, {200, true}, {0, true}, {0, true}};

	expect_eq(store_divide(1000, uses, 4), 50);
}

/* A store that is used by no more than there is. */
static uint64_t draw(struct store_use uses[DEVICES], size_t count)
{
	uint64_t budget = test_random_below(1000), rest = budget;

	for (size_t i = 0; i < count; i++) {
		uses[i].here = test_random_below(4) > 0;
		uses[i].bytes = test_random_below(2) ? test_random_below(rest + 1) : 0;
		rest -= uses[i].bytes;
	}
	return budget;
}

/* The bytes that may be used in all, if each device has `each`. */
static uint64_t sum_of(const struct store_use uses[DEVICES], size_t count, uint64_t each)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += most(uses[i].bytes, uses[i].here ? each : 0);
	return sum;
}

static bool is_anybody_here(const struct store_use uses[DEVICES], size_t count)
{
	bool any = false;

	for (size_t i = 0; i < count; i++)
		any |= uses[i].here;
	return any;
}

TEST(as_much_as_possible_is_promised_and_never_more_than_there_is)
{
	for (unsigned round = test_rounds(20000); round; round--) {
		struct store_use uses[DEVICES];
		size_t count = 1 + test_random_below(DEVICES), less = test_random_below(count);
		uint64_t budget = draw(uses, count), each = store_divide(budget, uses, count);

		expect(sum_of(uses, count, each) <= budget);
		if (is_anybody_here(uses, count))
			expect(sum_of(uses, count, each + 1) > budget);
		/* A device that uses less takes nothing from any other. */
		uses[less].bytes = test_random_below(uses[less].bytes + 1);
		expect(store_divide(budget, uses, count) >= each);
	}
}

TEST(where_more_is_used_than_there_is_nobody_gets_more)
{
	const struct store_use uses[] = {{700, true}, {500, true}, {0, true}, {~0ull, false}};

	expect_eq(store_divide(1000, uses, 2), 0);
	expect_eq(store_divide(1000, uses, 3), 0);
	expect_eq(store_divide(1000, uses, 4), 0);
}
