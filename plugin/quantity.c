/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/quantity.h"

#include <stdbool.h>
#include <string.h>

enum {
	DIGITS_MAX = 19, /* of the number: they fit into 64 bits, and into 128 with any suffix */
	POWER_MAX = 18,	 /* of 10: with more any number is above 63 bits */
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

/* The factor: base^power; a negative power of 10 divides. */
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

/* Rounded down; *ret_rest says whether something is lost by that. */
static int multiply(const struct decimal *number, const struct factor *factor, uint64_t *ret_value,
		    bool *ret_rest)
{
	unsigned __int128 value = number->digits;
	int shift = number->places;

	*ret_rest = false;
	if (factor->base == 10)
		shift -= factor->power;
	for (int i = 0; factor->base == 1024 && i < factor->power; i++)
		value *= 1024;
	if (value && shift < -POWER_MAX)
		return -EINVAL;
	for (; shift < 0 && value; shift++)
		value *= 10;
	for (; shift > 0 && value; shift--) {
		*ret_rest |= value % 10 != 0;
		value /= 10;
	}
	if (value > INT64_MAX)
		return -EINVAL;
	*ret_value = (uint64_t)value;
	return 0;
}

static int read_parts(const char *text, uint64_t *ret_value, bool *ret_rest)
{
	struct decimal number;
	struct factor factor;
	const char *suffix = read_decimal(text + (*text == '+'), &number);

	if (!suffix || read_suffix(suffix, &factor) < 0)
		return -EINVAL;
	return multiply(&number, &factor, ret_value, ret_rest);
}

int quantity_read(const char *quantity, uint64_t *ret_value)
{
	bool rest;

	return read_parts(quantity, ret_value, &rest) < 0 || rest ? -EINVAL : 0;
}

int quantity_read_up(const char *quantity, uint64_t *ret_value)
{
	bool rest;

	if (read_parts(quantity, ret_value, &rest) < 0 || (rest && *ret_value == INT64_MAX))
		return -EINVAL;
	*ret_value += rest;
	return 0;
}

int quantity_plain(const char *quantity, char ret_text[QUANTITY_TEXT])
{
	uint64_t value;
	int r = quantity_read(quantity, &value);

	if (r == 0)
		snprintf(ret_text, QUANTITY_TEXT, "%llu", (unsigned long long)value);
	return r;
}
