/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/notice.h"

#include "tests/test.h"

static const uint64_t second = 1000000000, start = 5000000000;

TEST(a_short_wait_is_not_worth_a_notice)
{
	struct notice_rate rate = {0};

	expect(!notice_due(&rate, start, start));
	expect(!notice_due(&rate, start, start + 2 * second - 1));
	expect(notice_due(&rate, start, start + 2 * second));
	/* The same wait goes on. */
	expect(!notice_due(&rate, start, start + 3 * second));
}

TEST(a_program_that_waits_again_and_again_says_so_less_and_less_often)
{
	static const unsigned minutes[] = {0, 1, 3, 7, 15, 31, 63, 123, 183};
	struct notice_rate rate = {0};
	uint64_t first = start + 2 * second;
	unsigned said = 0;

	/* Each of its waits lasts for 3 s, for three hours and a bit. */
	for (uint64_t now = first; now < first + 11100 * second; now += 3 * second)
		if (notice_due(&rate, now - 2 * second, now))
			expect_eq((now - first) / (60 * second), minutes[said++]);
	expect_eq(said, ARRAY_SIZE(minutes));
}
