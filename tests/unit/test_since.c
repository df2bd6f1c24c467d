/* SPDX-License-Identifier: Apache-2.0 */
/* --since as docker and kubectl have it. */
#include "cli/since.h"

#include <stdlib.h>
#include <time.h>

#include "tests/test.h"

#define NOW_NS 1795802400000000000ull /* 2026-11-27T18:00:00Z */

static struct fault why;

/* Seconds before now; -1: refused. */
static long long before(const char *text)
{
	uint64_t at = 0;
	int r = since_read(text, NOW_NS, &at, &why);

	expect(r == 0 || r == -EINVAL);
	return r < 0 ? -1 : ((long long)NOW_NS - (long long)at) / 1000000000;
}

static void given_a_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

TEST(a_time_is_how_long_ago)
{
	expect_eq(before("0s"), 0);
	expect_eq(before("30s"), 30);
	expect_eq(before("1.5h"), 5400);
	expect_eq(before("1h30m"), 5400);
	expect_eq(before("2d1h1m1s"), 2 * 86400 + 3661);
	expect_eq(before("500ms500ms"), 1);
	expect_eq(before("100d"), 100 * 86400);
}

TEST(a_moment_is_local_or_has_a_zone)
{
	given_a_zone("CET-1");
	expect_eq(before("2026-11-27"), 19 * 3600);
	expect_eq(before("2026-11-27T18:00"), 3600);
	expect_eq(before("2026-11-27 18:00:30"), 3570);
	expect_eq(before("2026-11-27T18:00:00Z"), 0);
	expect_eq(before("2026-11-27T17:00:00.123456Z"), 3600); /* as --json prints it */
	expect_eq(before("2026-11-27T17:00:00-01:00"), 0);
	expect_eq(before("2026-11-27T17:00+00:30"), 5400);
}

TEST(a_text_that_is_neither_a_time_nor_a_moment_is_refused)
{
	static const char *const texts[] = {"",
					    "soon",
					    "10",
					    "-5m",
					    "5m ago",
					    "1h30",
					    "h",
					    "2026-13-01",
					    "2026-11-27T",
					    "2026-11-27Z",
					    "18:00",
					    "2026-11-27T18:00Y",
					    "2026-11-27T18:00+1",
					    "1970-01-01T00:00+23:00",
					    "99999999999999999999d",
					    "1m1m1m1mx"};
	char many[60 * 5 + 1];

	given_a_zone("UTC0");
	/* 64 bits have no room for the sum. */
	for (char *end = many; end < many + sizeof(many) - 1; end += 5)
		memcpy(end, "3650d", 6);
	expect_eq(before(many), -1);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (before(texts[i]) != -1)
			test_fail(__FILE__, __LINE__, "'%s' is accepted", texts[i]);
	expect(strstr(why.text, "accepted are how long ago (30s, 10m, 1h30m, 2d)"));
}
