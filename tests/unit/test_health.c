/* SPDX-License-Identifier: Apache-2.0 */
#include "core/health.h"
#include "tests/test.h"

static const uint64_t s = 1000000000;

/* When it recovers, asked each second; 0: not within a day. */
static uint64_t recovers_at(struct health *h, uint64_t from_s)
{
	for (uint64_t t = from_s; t < from_s + 86400; t++)
		if (health_answers(h, true, t * s) == HEALTH_RECOVERED)
			return t;
	return 0;
}

TEST(a_programs_own_faults_do_not_count)
{
	static const uint64_t programs[] = {13, 31, 43, 45, 68, 109};
	const struct health_xids usual = {.none = false};

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		expect(!health_counts(&usual, programs[i]));
	expect(health_counts(&usual, 48) && health_counts(&usual, 79));
	expect(health_counts(&usual, UINT64_MAX));
}

/* §1.6: DP_DISABLE_HEALTHCHECKS, DP_ENABLE_HEALTHCHECKS. */
TEST(lists_say_which_xids_count_and_one_in_both_lists_counts)
{
	static const struct {
		const char *ignored, *counts;
		bool good, counts_13, counts_48, counts_79;
	} rows[] = {
		{"", "", true, false, true, true},
		{"48", "", true, false, false, true},
		{" 48 ,79", "", true, false, false, false},
		{"all", "", true, false, false, false},
		{"XIDS", "79", true, false, false, true},
		{"0", "79", true, false, false, true},
		{"48,00", "0", true, true, true, true},
		{"48,\n79\t\n", "", true, false, false, false},
		{"48,all", "48", true, false, true, false},
		{"48", "48", true, false, true, true},
		{"", "13", true, true, true, true},
		{"79", "all", true, true, true, true},
		{"48x,79", "", false, false, true, false},
		{"al", "-1", false, false, true, true},
		{"18446744073709551664", "", false, false, true, true},
		{",,48,,", "", true, false, false, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct health_xids xids = {.none = false};
		bool good = health_xids_add(&xids, rows[i].ignored, false);

		good &= health_xids_add(&xids, rows[i].counts, true);
		if (good != rows[i].good || health_counts(&xids, 13) != rows[i].counts_13 ||
		    health_counts(&xids, 48) != rows[i].counts_48 ||
		    health_counts(&xids, 79) != rows[i].counts_79)
			test_fail(__FILE__, __LINE__, "'%s' and '%s'", rows[i].ignored,
				  rows[i].counts);
	}
}

TEST(another_xid_takes_the_device_away_until_it_was_quiet_for_a_minute)
{
	struct health h;

	health_init(&h, 0);
	expect_eq(health_xid(&h, 79, 10 * s), HEALTH_FELL);
	expect_eq(h.xid, 79);
	expect_eq(recovers_at(&h, 11), 70);
	expect_eq(h.cause, HEALTH_NONE);
}

TEST(a_device_that_falls_twice_is_reported_once)
{
	struct health h;

	health_init(&h, 0);
	expect_eq(health_ecc(&h, 1 * s), HEALTH_FELL);
	expect_eq(health_ecc(&h, 31 * s), 0);
	expect_eq(recovers_at(&h, 32), 91);
}

TEST(another_reason_is_news_and_the_same_again_is_none)
{
	struct health h;

	health_init(&h, 0);
	expect_eq(health_xid(&h, 48, 1 * s), HEALTH_FELL);
	expect_eq(health_xid(&h, 48, 2 * s), 0);
	expect_eq(health_xid(&h, 94, 3 * s), HEALTH_ANOTHER);
	expect_eq(h.xid, 94);
	expect_eq(health_ecc(&h, 4 * s), HEALTH_ANOTHER);
	expect_eq(h.cause, HEALTH_ECC);
	expect_eq(health_ecc(&h, 5 * s), 0);
	expect_eq(recovers_at(&h, 6), 65);
}

/* Whichever of the two reports came last was shown. */
TEST(a_memory_error_and_its_xid_are_one_reason_in_either_order)
{
	struct health first, last;

	health_init(&first, 0);
	expect_eq(health_ecc(&first, 1 * s), HEALTH_FELL);
	expect_eq(health_xid(&first, 48, 1 * s), 0);
	expect_eq(first.cause, HEALTH_ECC);
	expect_eq(health_xid(&first, 63, 2 * s), HEALTH_ANOTHER);
	health_init(&last, 0);
	expect_eq(health_xid(&last, 48, 1 * s), HEALTH_FELL);
	expect_eq(health_ecc(&last, 1 * s), HEALTH_ANOTHER);
	expect_eq(last.cause, HEALTH_ECC);
}

TEST(a_device_that_keeps_failing_stays_away_for_longer_each_time)
{
	uint64_t wanted = 60, at = 0;
	struct health h;

	health_init(&h, 0);
	for (unsigned i = 0; i < 9; i++) {
		uint64_t back;

		expect_eq(health_xid(&h, 48, at * s), HEALTH_FELL);
		back = recovers_at(&h, at);
		expect_eq(back - at, wanted);
		wanted = 2 * wanted < 3600 ? 2 * wanted : 3600;
		at = back + 60;
	}
}

TEST(an_hour_of_health_is_a_new_start)
{
	struct health h;
	uint64_t back;

	health_init(&h, 0);
	expect_eq(health_xid(&h, 48, 0), HEALTH_FELL);
	back = recovers_at(&h, 0);
	expect_eq(health_xid(&h, 48, (back + 3600) * s), HEALTH_FELL);
	expect_eq(recovers_at(&h, back + 3600) - back - 3600, 60);
}

TEST(a_device_is_gone_while_it_does_not_answer_or_has_fallen_off_the_bus)
{
	struct health h;

	health_init(&h, 0);
	expect(!health_is_gone(&h));
	expect_eq(health_ecc(&h, 1 * s), HEALTH_FELL);
	expect(!health_is_gone(&h));
	expect_eq(health_xid(&h, 63, 2 * s), HEALTH_ANOTHER);
	expect(!health_is_gone(&h));
	expect_eq(health_xid(&h, 79, 3 * s), HEALTH_GONE);
	expect(health_is_gone(&h));
	expect_eq(health_answers(&h, false, 4 * s), 0);
	/* The driver speaks of it still. */
	expect_eq(health_xid(&h, 48, 5 * s), 0);
	expect(health_is_gone(&h));
	expect_eq(recovers_at(&h, 6), 65);
	expect(!health_is_gone(&h));
}

TEST(a_lost_device_stays_away_until_it_answers)
{
	struct health h;

	health_init(&h, 0);
	expect_eq(health_answers(&h, false, 5 * s), HEALTH_FELL);
	for (uint64_t t = 6; t < 600; t++)
		expect_eq(health_answers(&h, false, t * s), 0);
	expect_eq(recovers_at(&h, 600), 599 + 60);
}
