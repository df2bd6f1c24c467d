/* SPDX-License-Identifier: Apache-2.0 */
/* The time that somebody had in the last second and minute. */
#include "tests/unit/turns_fixture.h"

TEST(the_last_seconds_figure_is_the_time_run_in_it)
{
	struct turns_rate rate = {0};

	turns_rate_add(&rate, 500 * MS, 1500 * MS, 1000 * MS);
	expect_eq(turns_rate_1s(&rate, 1500 * MS), 1000 * MS);
	expect_eq(turns_rate_1s(&rate, 2000 * MS), 500 * MS);
	expect_eq(turns_rate_60s(&rate, 2000 * MS), 1000 * MS);
	expect_eq(turns_rate_60s(&rate, 61000 * MS), 500 * MS);
	expect_eq(turns_rate_1s(&rate, 61000 * MS), 0);
	expect_eq(turns_rate_60s(&rate, 62000 * MS), 0);
	turns_rate_add(&rate, 100000 * MS, 300000 * MS, 100000 * MS);
	expect_about((double)turns_rate_60s(&rate, 300000 * MS), 30e9, 1e6);
}

/* Turns of a fraction of a microsecond, settled each by itself. */
TEST(a_million_short_times_are_as_much_as_a_long_one)
{
	struct turns_rate rate = {0};

	for (uint64_t at = 0; at < 1000 * MS; at += 1000)
		turns_rate_add(&rate, at, at + 1000, 700);
	expect_about((double)turns_rate_1s(&rate, 1000 * MS), 700e6, 1e3);
	expect_about((double)turns_rate_60s(&rate, 1000 * MS), 700e6, 16e3);
}

/* A bucket has room for its whole width, and is not filled beyond that. */
TEST(a_tenant_that_ran_all_the_time_is_shown_all_of_it)
{
	struct turns_rate rate = {0};

	turns_rate_add(&rate, 0, 120000 * MS, 120000 * MS);
	expect_eq(turns_rate_1s(&rate, 120000 * MS), 1000 * MS);
	expect_eq(turns_rate_60s(&rate, 120000 * MS), 60000 * MS);
	turns_rate_add(&rate, 120000 * MS, 121000 * MS, 5000 * MS);
	expect(turns_rate_1s(&rate, 121000 * MS) >= 1000 * MS);
	expect(turns_rate_1s(&rate, 121000 * MS) < 1100 * MS);
}
