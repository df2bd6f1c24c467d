/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the share of a device's slots, and when it changes next. */
#include <string.h>
#include <strings.h>

#include "plugin/config/config_read.h"
#include "plugin/config/portion.h"

enum {
	DAY_MINUTES = 24 * 60,
	AHEAD_SECONDS =
		16 * 24 * 3600, /* two weeks and more: a change to summer time may skip an edge */
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Matches like a shell, but in time O(pattern x text): with many stars fnmatch(3)
 * tries every combination. */
static bool is_like(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			from = text;
		} else if (*pattern && (*pattern == '?' || lower(*pattern) == lower(*text))) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* Accepts the beginning of a UUID ("GPU-1234"), but not one that all UUIDs have. */
static bool is_beginning(const char *match, const char *uuid)
{
	size_t length = strlen(match);
	const char *dash = strchr(match, '-');

	return dash && length >= (size_t)(dash - match) + 4 &&
	       strncasecmp(match, uuid, length) == 0;
}

const struct config_rule *config_rule_of(const struct config *config,
					 const struct config_device *device)
{
	char index[32];

	if (device->is_part)
		snprintf(index, sizeof(index), "%u:%u", device->index, device->part_index);
	else
		snprintf(index, sizeof(index), "%u", device->index);
	for (uint32_t i = 0; i < config->rules; i++) {
		const char *match = config->rule[i].match;

		if (is_like(match, device->uuid) || is_beginning(match, device->uuid) ||
		    is_like(match, device->model) || strcmp(match, index) == 0)
			return &config->rule[i];
	}
	return NULL;
}

static bool is_on(const struct config_profile *profile, uint32_t day)
{
	return profile->days >> day % 7 & 1;
}

const struct config_profile *config_profile_at(const struct config *config, const struct tm *now)
{
	uint32_t minute = (uint32_t)(now->tm_hour * 60 + now->tm_min), day = (uint32_t)now->tm_wday;

	for (uint32_t i = 0; i < config->profiles; i++) {
		const struct config_profile *profile = &config->profile[i];
		bool today = is_on(profile, day) && minute >= profile->from_minute;

		if (profile->to_minute > profile->from_minute
			    ? today && minute < profile->to_minute
			    : today || (is_on(profile, day + 6) && minute < profile->to_minute))
			return profile;
	}
	return NULL;
}

bool config_portion(const struct config *config, const struct config_device *device,
		    const struct tm *now, uint32_t *ret_slots, struct config_share *ret_share)
{
	const struct config_rule *rule = config_rule_of(config, device);
	const struct config_profile *profile = config_profile_at(config, now);
	struct config_share share = config->share;

	if (rule && rule->hidden)
		return false;
	if (rule)
		portion_lay(&share, &rule->share);
	if (profile)
		portion_lay(&share, &profile->share);
	*ret_slots = rule && rule->slots ? rule->slots : config->slots;
	*ret_share = share;
	return true;
}

/* Returns the seconds until a profile begins or ends, if the clock does not change (summer
 * time). */
static uint32_t until_next_edge(const struct config *config, const struct tm *now)
{
	uint32_t minute = (uint32_t)(now->tm_hour * 60 + now->tm_min), least = DAY_MINUTES;
	uint32_t second = (uint32_t)now->tm_sec;

	for (uint32_t i = 0; i < config->profiles; i++) {
		const uint32_t edges[] = {config->profile[i].from_minute,
					  config->profile[i].to_minute};

		for (size_t j = 0; j < ARRAY_SIZE(edges); j++) {
			uint32_t away =
				(edges[j] % DAY_MINUTES + DAY_MINUTES - minute) % DAY_MINUTES;

			if (away && away < least)
				least = away;
		}
	}
	/* In a leap second (60) the next minute begins in 1 s. */
	return second < 60 ? least * 60 - second : 1;
}

static long offset_at(time_t at)
{
	struct tm local = {0};

	return localtime_r(&at, &local) ? local.tm_gmtoff : 0;
}

/* Returns the first second in (from, to] at which the time zone's offset
 * differs from the one at `from`. */
static time_t when_put(time_t from, time_t to)
{
	long before = offset_at(from);

	while (to - from > 1) {
		time_t middle = from + (to - from) / 2;

		if (offset_at(middle) == before)
			from = middle;
		else
			to = middle;
	}
	return to;
}

uint32_t config_next_change(const struct config *config, const struct tm *now)
{
	const struct config_profile *profile = config_profile_at(config, now);
	struct tm local = *now;
	time_t start = mktime(&local), at = start;

	if (start == (time_t)-1 || !config->profiles)
		return 0;
	local = *now;
	while (at - start < AHEAD_SECONDS) {
		time_t next = at + until_next_edge(config, &local);

		if (offset_at(next) != offset_at(at))
			next = when_put(at, next);
		at = next;
		if (!localtime_r(&at, &local))
			return 0;
		if (config_profile_at(config, &local) != profile)
			return (uint32_t)(at - start);
	}
	return 0;
}
