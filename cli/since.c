/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/since.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/share/share.h"

static const uint64_t second_ns = 1000000000, longest_ns = 10 * 365 * 24 * 3600 * second_ns;

/* "1h30m": times with their units, one after the other. */
static bool read_ago(const char *text, uint64_t *ret_ns)
{
	uint64_t ns = 0, part_ns;

	do {
		size_t size = strspn(text, "0123456789.");
		char part[32];

		size += strspn(text + size, "dhmsun");
		if (!size || size >= sizeof(part))
			return false;
		memcpy(part, text, size);
		part[size] = '\0';
		if (share_parse_time(part, longest_ns, &part_ns) != 0)
			return false;
		ns += part_ns;
		if (ns > longest_ns)
			return false;
		text += size;
	} while (*text);
	*ret_ns = ns;
	return true;
}

/* Behind the minutes: seconds, whose parts are left out, and a zone. */
static bool read_rest(const char *text, struct tm *tm, bool *ret_zoned, long *ret_east_s)
{
	unsigned hours, minutes;
	int used = 0;
	char sign;

	if (*text == ':') {
		const char *end = strptime(text, ":%S", tm);

		if (!end)
			return false;
		text = *end == '.' ? end + 1 + strspn(end + 1, "0123456789") : end;
	}
	*ret_zoned = *text != '\0';
	*ret_east_s = 0;
	if (!*text || strcmp(text, "Z") == 0)
		return true;
	if (sscanf(text, "%c%2u:%2u%n", &sign, &hours, &minutes, &used) != 3 || text[used] ||
	    !strchr("+-", sign) || hours > 23 || minutes > 59)
		return false;
	*ret_east_s = (sign == '-' ? -60 : 60) * (long)(hours * 60 + minutes);
	return true;
}

static bool read_moment(const char *text, uint64_t *ret_ns)
{
	struct tm tm = {.tm_isdst = -1};
	const char *rest = strptime(text, "%Y-%m-%d", &tm);
	bool zoned = false;
	long east_s = 0;
	time_t at;

	if (rest && (*rest == 'T' || *rest == ' ')) {
		rest = strptime(rest + 1, "%H:%M", &tm);
		if (rest && !read_rest(rest, &tm, &zoned, &east_s))
			return false;
	} else if (rest && *rest) {
		return false;
	}
	if (!rest)
		return false;
	at = zoned ? timegm(&tm) - east_s : mktime(&tm);
	if (at < 0)
		return false;
	*ret_ns = (uint64_t)at * second_ns;
	return true;
}

int since_read(const char *text, uint64_t now_ns, uint64_t *ret_at_ns, struct fault *why)
{
	uint64_t ns;

	if (read_ago(text, &ns)) {
		*ret_at_ns = ns < now_ns ? now_ns - ns : 0;
		return 0;
	}
	if (read_moment(text, ret_at_ns))
		return 0;
	return fault_set(why, -EINVAL,
			 "--since '%.60s': accepted are how long ago (30s, 10m, 1h30m, 2d) and a "
			 "moment (2026-11-27, 2026-11-27T18:00:00, 2026-11-27T18:00:00Z)",
			 text);
}
