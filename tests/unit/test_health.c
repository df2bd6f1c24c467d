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
	struct health h;

	health_init(&h, 0);
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		expect_eq(health_xid(&h, programs[i], s), 0);
	expect_eq(h.cause, HEALTH_NONE);
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

TEST(who_falls_twice_is_told_once)
{
	struct health h;

	health_init(&h, 0);
	expect_eq(health_ecc(&h, 1 * s), HEALTH_FELL);
	expect_eq(health_ecc(&h, 31 * s), 0);
	expect_eq(recovers_at(&h, 32), 91);
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
	expect_eq(health_xid(&h, 48, 2 * s), 0);
	expect(!health_is_gone(&h));
	expect_eq(health_xid(&h, 79, 3 * s), 0);
	expect(health_is_gone(&h));
	expect_eq(health_answers(&h, false, 4 * s), 0);
	expect(health_is_gone(&h));
	expect_eq(recovers_at(&h, 5), 64);
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
