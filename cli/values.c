/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/values.h"

#include <string.h>

/* "30s"; of a time that people write. */
struct written {
	char text[24];
};

static struct written write_time(uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000},
		{"s", 1000000000},     {"ms", 1000000},	     {"us", 1000},
	};
	struct written written;

	for (size_t i = 0; ns && i < ARRAY_SIZE(units); i++) {
		if (ns % units[i].ns)
			continue;
		snprintf(written.text, sizeof(written.text), "%llu%s",
			 (unsigned long long)(ns / units[i].ns), units[i].name);
		return written;
	}
	snprintf(written.text, sizeof(written.text), "%llu%s", (unsigned long long)ns,
		 ns ? "ns" : "");
	return written;
}

int values_part(const struct cli_call *call, const char *option, uint32_t least, uint32_t most,
		uint32_t *ret_milli, struct fault *why)
{
	const char *text = cli_value(call, option);
	uint32_t milli = least;
	int r = text ? share_parse_part(text, most, &milli) : 0;

	if (r == 0 && milli < least)
		return fault_set(why, -EINVAL,
				 "--%s '%.60s' is too little; accepted: at least %g%%",
				 cli_dashed(option).text, text, least / 10.0);
	if (r != 0)
		return fault_set(why, -EINVAL,
				 "--%s '%.60s' %s; accepted: a part from %g%% to %g%% (25%%, "
				 "250/1000 or 0.25)",
				 cli_dashed(option).text, text, share_problem(r), least / 10.0,
				 most / 10.0);
	if (text)
		*ret_milli = milli;
	return 0;
}

/* `units`: which are accepted. */
static int read_time(const char *option, const char *text, uint64_t least, uint64_t most,
		     const char *units, uint64_t *ret_ns, struct fault *why)
{
	uint64_t ns = least;
	int r = text ? share_parse_time(text, most, &ns) : 0;

	if (r == 0 && ns < least)
		return fault_set(why, -EINVAL, "--%s '%.60s' is too little; accepted: at least %s",
				 cli_dashed(option).text, text, write_time(least).text);
	if (r != 0)
		return fault_set(why, -EINVAL, "--%s '%.60s' %s; accepted: a time from %s to %s %s",
				 cli_dashed(option).text, text, share_problem(r),
				 write_time(least).text, write_time(most).text, units);
	if (text)
		*ret_ns = ns;
	return 0;
}

int values_time(const struct cli_call *call, const char *option, uint64_t least, uint64_t most,
		uint64_t *ret_ns, struct fault *why)
{
	return read_time(option, cli_value(call, option), least, most,
			 "with its unit (500ms, 30s, 5m)", ret_ns, why);
}

int values_seconds(const struct cli_call *call, const char *option, uint64_t least, uint64_t most,
		   uint64_t *ret_ns, struct fault *why)
{
	static const char units[] = "in seconds (2, 0.5) or with its unit (500ms, 1m)";
	const char *text = cli_value(call, option);
	char with_unit[32];

	if (!text || !*text || text[strspn(text, "0123456789.")] || strlen(text) > 20)
		return read_time(option, text, least, most, units, ret_ns, why);
	snprintf(with_unit, sizeof(with_unit), "%ss", text);
	return read_time(option, with_unit, least, most, units, ret_ns, why);
}

int values_amount(const struct cli_call *call, const char *option, struct share_amount *ret_amount,
		  struct fault *why)
{
	const char *text = cli_value(call, option);
	int r = text ? share_parse_amount(text, ret_amount) : 0;

	return r == 0 ? 0
		      : fault_set(why, -EINVAL,
				  "--%s '%.60s' %s; accepted: 20G (units are powers of 1024) or "
				  "25%% of a device",
				  cli_dashed(option).text, text, share_problem(r));
}

int values_field(const char *typed, const char *key, const char *value, struct share *share,
		 struct fault *why)
{
	int r = share_set(share, key, value);

	/* An empty text would mean the default, and the option would be dropped silently. */
	if (!*value)
		r = SHARE_EMPTY;
	return r == 0 ? 0
		      : fault_set(why, -EINVAL, "%s: '%.60s' %s; accepted: %s", typed, value,
				  share_problem(r), share_accepts(key));
}
