/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/amount.h"

#include <stdbool.h>
#include <string.h>

enum {
	DIGITS_MAX = 18, /* of an amount's number: more are not exact in 63 bits */
	POWER_MAX = 18,
};

/* The number is digits / 10^places. */
struct decimal {
	uint64_t digits;
	int places;
};

static const char *read_decimal(const char *text, struct decimal *ret)
{
	bool point = false, any = false;
	int digits = 0;

	*ret = (struct decimal){0};
	for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		any = true;
		/* Zeros in front do not count. */
		digits += ret->digits || *text != '0';
		if (digits > DIGITS_MAX || ret->places == DIGITS_MAX)
			return NULL;
		ret->digits = ret->digits * 10 + (uint64_t)(*text - '0');
		ret->places += point;
	}
	return any ? text : NULL;
}

/* What the number is multiplied by: base^power; a negative power of 10 divides. */
struct factor {
	unsigned base;
	int power;
};

static int read_exponent(const char *text, int *ret_power)
{
	bool negative = *text == '-';
	int power = 0, digits = 0;

	text += negative || *text == '+';
	for (; *text >= '0' && *text <= '9' && digits < 3; text++, digits++)
		power = power * 10 + (*text - '0');
	*ret_power = negative ? -power : power;
	return digits && !*text ? 0 : -EINVAL;
}

static int read_suffix(const char *text, struct factor *ret)
{
	static const char decimal[] = "num kMGTPE", binary[] = "KMGTPE";
	const char *at;

	*ret = (struct factor){10, 0};
	if (!*text)
		return 0;
	at = strchr(binary, *text);
	if (text[1] == 'i' && at) {
		*ret = (struct factor){1024, (int)(at - binary) + 1};
		return text[2] ? -EINVAL : 0;
	}
	if ((*text == 'e' || *text == 'E') && text[1])
		return read_exponent(text + 1, &ret->power);
	at = *text == ' ' ? NULL : strchr(decimal, *text);
	if (!at || text[1])
		return -EINVAL;
	ret->power = ((int)(at - decimal) - 3) * 3;
	return 0;
}

/* Rounded up, as the API server does. */
static int finish(const struct decimal *number, const struct factor *factor, uint64_t *ret_value)
{
	unsigned __int128 value = number->digits;
	int shift = number->places;
	bool rest = false;

	if (factor->base == 10)
		shift -= factor->power;
	for (int i = 0; factor->base == 1024 && i < factor->power; i++)
		value *= 1024;
	if (value && shift < -POWER_MAX)
		return -EINVAL;
	for (; shift < 0 && value; shift++)
		value *= 10;
	for (; shift > 0 && value; shift--) {
		rest |= value % 10 != 0;
		value /= 10;
	}
	value += rest;
	if (value > INT64_MAX)
		return -EINVAL;
	*ret_value = (uint64_t)value;
	return 0;
}

int amount_read(const char *text, uint64_t *ret_value)
{
	struct decimal number;
	struct factor factor;
	const char *rest;

	rest = read_decimal(text + (*text == '+'), &number);
	if (!rest || read_suffix(rest, &factor) < 0)
		return -EINVAL;
	return finish(&number, &factor, ret_value);
}
