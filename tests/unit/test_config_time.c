/* SPDX-License-Identifier: Apache-2.0 */
/* When a profile begins and ends, against a test of each minute (each second, where clocks are
 * put). */
#include <stdlib.h>
#include <time.h>

#include "plugin/config/config.h"
#include "tests/test.h"

static const struct config_device device = {.uuid = "GPU-1", .model = "T4"};

/* Without files of zones, which a machine may not have. */
static const struct {
	const char *zone;
	time_t put[2]; /* clocks are put: 2026 or so, forward and back */
} zones[] = {
	{"CET-1CEST,M3.5.0,M10.5.0/3", {1774746000, 1792890000}},
	{"EST5EDT,M3.2.0,M11.1.0", {1772953200, 1793512800}},
	{"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", {1791041400, 1775314800}}, /* by half an hour */
	{"<+0545>-5:45", {1774746000, 1792890000}},			    /* never; 5:45 */
	{"CET-1CEST,M3.5.0/0,M10.5.0/0", {1774738800, 1792879200}},	    /* at midnight */
};

static struct config *make(const char *text)
{
	struct config *config = NULL;
	struct fault why;

	if (config_parse("f", text, strlen(text), NULL, 0, &config, &why) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s\n%s", why.text, text);
	return config;
}

static struct tm local_at(time_t at)
{
	struct tm local = {0};

	expect(localtime_r(&at, &local) != NULL);
	return local;
}

static void in_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

/* Each profile has a weight of its own, so that a portion says which one it is of: -1: none. */
static int profile_at(const struct config *config, time_t at)
{
	struct config_share share;
	struct tm now = local_at(at);
	uint32_t slots;

	expect(config_portion(config, &device, &now, &slots, &share));
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (share.texts[i])
			return atoi(share.texts[i]) - 1;
	return -1;
}

/* The same from the definition: each profile's beginnings one by one, as they stand in a calendar.
 */
static int brute_profile_at(const struct config *config, time_t at)
{
	struct tm now = local_at(at);
	int minute = now.tm_hour * 60 + now.tm_min;

	for (uint32_t i = 0; i < config->profiles; i++) {
		const struct config_profile *profile = &config->profile[i];
		int from = (int)profile->from_minute, to = (int)profile->to_minute;

		if (to <= from)
			to += 24 * 60;
		for (int began = 0; began < 7; began++) {
			/* Minutes since the beginning of that day, which was up to a week ago. */
			int since = (now.tm_wday - began + 7) % 7 * 24 * 60 + minute;

			if (profile->days >> began & 1 && since >= from && since < to)
				return (int)i;
		}
	}
	return -1;
}

static void print_profiles(char *text, size_t size)
{
	static const char *const days[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
	static const int often[] = {0, 60, 90, 119, 120, 121, 150, 179, 180, 181, 1380, 1439};
	int count = 1 + (int)test_random_below(4);
	size_t length = (size_t)snprintf(text, size, "mete:\n  profiles:\n");

	for (int i = 0; i < count; i++) {
		uint64_t chosen = test_random_below(128);
		int edges[2];

		for (int j = 0; j < 2; j++) {
			edges[j] = (int)test_random_below(24 * 60);
			/* Where clocks are put, and around midnight. */
			if (test_random_below(2))
				edges[j] = often[test_random_below(ARRAY_SIZE(often))];
		}
		length += (size_t)snprintf(
			text + length, size - length,
			"  - {name: p%d, share: {weight: %d}, from: '%02d:%02d', to: "
			"'%02d:%02d', days: [",
			i, i + 1, edges[0] / 60, edges[0] % 60, edges[1] / 60, edges[1] % 60);
		if (!chosen)
			chosen = 127;
		for (int day = 0, first = 1; day < 7; day++)
			if (chosen >> day & 1) {
				length += (size_t)snprintf(text + length, size - length, "%s%s",
							   first ? "" : ", ", days[day]);
				first = 0;
			}
		length += (size_t)snprintf(text + length, size - length, "]}\n");
	}
}

/* Minutes are whole in all these zones, and clocks are put at whole ones. */
static uint32_t brute_next_change(const struct config *config, time_t at)
{
	int before = brute_profile_at(config, at);
	time_t next = at - at % 60 + 60;

	for (; next - at <= 16 * 24 * 3600; next += 60)
		if (brute_profile_at(config, next) != before)
			return (uint32_t)(next - at);
	return 0;
}

TEST(a_portion_and_its_next_change_are_those_of_each_minute)
{
	for (unsigned round = test_rounds(150); round-- > 0;) {
		size_t which = test_random_below(ARRAY_SIZE(zones));
		time_t at = zones[which].put[test_random_below(2)];
		owned(config_free) struct config *config = NULL;
		uint32_t said, wanted;
		char text[2048];
		struct tm now;

		in_zone(zones[which].zone);
		print_profiles(text, sizeof(text));
		config = make(text);
		at += (time_t)test_random_below(4 * 24 * 3600);
		at -= 2 * 24 * 3600;
		if (test_random_below(3) == 0)
			at -= at % 60;
		for (int i = 0; i < 6; i++) {
			now = local_at(at);
			expect_eq(profile_at(config, at), brute_profile_at(config, at));
			said = config_next_change(config, &now);
			wanted = brute_next_change(config, at);
			if (said != wanted)
				test_fail(__FILE__, __LINE__, "%s at %lld: in %u s, wanted %u\n%s",
					  zones[which].zone, (long long)at, said, wanted, text);
			if (!said)
				break;
			at += said;
		}
	}
}

TEST(a_night_is_as_long_as_the_clocks_make_it)
{
	owned(config_free) struct config *config =
		make("mete: {profiles: [{name: night, from: '20:00', to: '07:00', share: {weight: "
		     "1}}]}");
	struct tm now = {.tm_year = 126, .tm_mon = 2, .tm_mday = 28, .tm_hour = 20, .tm_isdst = -1};

	in_zone(zones[0].zone);
	expect(mktime(&now) != -1);
	expect_eq(config_next_change(config, &now), 10 * 3600);
	now = (struct tm){
		.tm_year = 126, .tm_mon = 9, .tm_mday = 24, .tm_hour = 20, .tm_isdst = -1};
	expect(mktime(&now) != -1);
	expect_eq(config_next_change(config, &now), 12 * 3600);
	now = (struct tm){.tm_year = 126,
			  .tm_mon = 5,
			  .tm_mday = 1,
			  .tm_hour = 19,
			  .tm_min = 59,
			  .tm_sec = 30,
			  .tm_isdst = -1};
	expect(mktime(&now) != -1);
	expect_eq(config_next_change(config, &now), 30);
}

TEST(a_profile_that_begins_within_the_hour_that_is_left_out_waits_a_week)
{
	owned(config_free) struct config *config =
		make("mete: {profiles: [{name: early, days: sun, from: '02:00', to: '03:00', "
		     "share: {weight: 1}}]}");
	struct tm now = {.tm_year = 126, .tm_mon = 2, .tm_mday = 22, .tm_hour = 3, .tm_isdst = -1};

	in_zone(zones[0].zone);
	expect(mktime(&now) != -1);
	/* 22 March, 03:00, to 5 April, 02:00, of summer time. */
	expect_eq(config_next_change(config, &now), 14 * 24 * 3600 - 2 * 3600);
}

TEST(a_profile_that_always_or_never_holds_does_not_change)
{
	owned(config_free) struct config *always = make(
		"mete: {profiles: [{name: a, from: '05:00', to: '05:00', share: {weight: 1}}]}");
	owned(config_free) struct config *none = make("mete: {}");
	struct tm now = {.tm_year = 126, .tm_mon = 2, .tm_mday = 28, .tm_isdst = -1};

	in_zone(zones[0].zone);
	expect(mktime(&now) != -1);
	expect_eq(config_next_change(always, &now), 0);
	expect_eq(config_next_change(none, &now), 0);
}
