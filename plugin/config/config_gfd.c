/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.gfd of a file without `mete`. Nothing is done with oneshot and sleepInterval, but NVIDIA's
 * programs do not start with values of theirs that they cannot read.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/config/config_read.h"

static const char *skip_digits(const char *text)
{
	while (isdigit((unsigned char)*text))
		text++;
	return text;
}

/* The end of "1.5", ".5" or "1."; NULL: it does not begin with such a number. */
static const char *skip_number(const char *text)
{
	const char *end = skip_digits(text);
	size_t digits = (size_t)(end - text);

	if (*end == '.') {
		const char *fraction = end + 1;

		end = skip_digits(fraction);
		digits += (size_t)(end - fraction);
	}
	return digits ? end : NULL;
}

/* NULL: it does not begin with a unit. "ms" goes before "m". */
static const char *skip_unit(const char *text)
{
	static const char *const units[] = {"ns", "us", "µs", "μs", "ms", "s", "m", "h"};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strncmp(text, units[i], strlen(units[i])) == 0)
			return text + strlen(units[i]);
	return NULL;
}

/* As Go writes times: "1m30s", "-1.5h", "0". */
static bool is_time(const char *text)
{
	text += *text == '+' || *text == '-';
	if (strcmp(text, "0") == 0)
		return true;
	do {
		text = skip_number(text);
		text = text ? skip_unit(text) : NULL;
	} while (text && *text);
	return text;
}

/* Without quotes: nanoseconds. */
static bool is_number(const struct document_node *value)
{
	const char *text = value->text;
	char *end;

	strtod(text, &end);
	return value->plain && end > text && !*end && !text[strspn(text, "+-.0123456789eE")];
}

static int check_interval(struct config_read *read)
{
	static const char path[] = "flags.gfd.sleepInterval";
	const struct document_node *value;
	int r = config_setting(read, path, &value);

	if (r < 0 || !value ||
	    (value->kind == DOCUMENT_TEXT &&
	     (is_number(value) || is_time(value->text) || strcmp(value->text, "infinite") == 0)))
		return r;
	return config_refuse_setting(read, value, path, "a time as 60s or 1m30s, or infinite");
}

int config_take_gfd(struct config_read *read)
{
	struct config_as_nvidia *alone = &read->config->as_nvidia;
	const struct document_node *map;
	bool once;
	int r = config_setting(read, "flags.gfd", &map);

	read->config->features = map;
	if (r == 0)
		r = config_take_switch(read, "flags.gfd.noTimestamp", &alone->timeless);
	if (r == 0)
		r = config_take_switch(read, "flags.gfd.oneshot", &once);
	return r == 0 ? check_interval(read) : r;
}
