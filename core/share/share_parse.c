/* SPDX-License-Identifier: Apache-2.0 */
#include "core/share/share_parse.h"

#include <string.h>

#include "core/share/share.h"

enum {
	MILLI_ALL = 1000,
	BARE_LEAST = 1 << 20, /* bytes without a unit; for smaller numbers the unit was probably
				 forgotten */
};

static const uint64_t wait_max_ns = 3600 * 1000000000ull;

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_fraction(const char **at, struct share_number *ret)
{
	uint64_t scale = SHARE_FRACTION_ONE / 10;
	const char *p = *at;

	if (!is_digit(*p))
		return SHARE_NONSENSE;
	for (; is_digit(*p); p++, scale /= 10) {
		if (scale == 0)
			return SHARE_NONSENSE;
		ret->fraction += (uint64_t)(*p - '0') * scale;
	}
	*at = p;
	return 0;
}

/* Reads the number at the beginning and sets *at behind it. No spaces, no exponent, no hex. */
int share_read_number(const char **at, struct share_number *ret)
{
	const char *p = *at;

	*ret = (struct share_number){0, 0};
	if (*p == 0)
		return SHARE_EMPTY;
	if (*p == '-')
		return SHARE_NEGATIVE;
	if (!is_digit(*p))
		return SHARE_NONSENSE;
	for (; is_digit(*p); p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (ret->whole > (UINT64_MAX - digit) / 10)
			return SHARE_LARGE;
		ret->whole = ret->whole * 10 + digit;
	}
	*at = p;
	if (*p != '.')
		return 0;
	(*at)++;
	return read_fraction(at, ret);
}

/* number * unit, rounded down; SHARE_LARGE if it does not fit. unit <= 2^47. */
static int scale_number(const struct share_number *number, uint64_t unit, uint64_t *ret)
{
	uint64_t high = number->fraction >> 16, low = number->fraction & 0xffff, part;

	if (number->whole > UINT64_MAX / unit)
		return SHARE_LARGE;
	/* fraction * unit may need 77 bits. It is multiplied in two pieces; the remainder of the
	 * high piece is carried over, so the result is exact. */
	part = (high * unit) / SHARE_FRACTION_ONE;
	part = (part << 16) +
	       ((((high * unit) % SHARE_FRACTION_ONE) << 16) + low * unit) / SHARE_FRACTION_ONE;
	if (number->whole * unit > UINT64_MAX - part)
		return SHARE_LARGE;
	*ret = number->whole * unit + part;
	return 0;
}

static int same_word(const char *a, const char *b)
{
	for (;; a++, b++) {
		char lower = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a;

		if (lower != *b)
			return 0;
		if (!lower)
			return 1;
	}
}

static int find_unit(const char *text, uint64_t *ret_unit)
{
	static const struct {
		const char *name;
		uint32_t shift;
	} units[] = {
		{"b", 0},    {"k", 10},	 {"kb", 10},  {"ki", 10}, {"kib", 10}, {"m", 20},
		{"mb", 20},  {"mi", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},  {"gi", 30},
		{"gib", 30}, {"t", 40},	 {"tb", 40},  {"ti", 40}, {"tib", 40},
	};

	if (strcmp(text, "m") == 0)
		return SHARE_MILLI;
	if (!*text) {
		*ret_unit = 1;
		return 0;
	}

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (same_word(text, units[i].name)) {
			*ret_unit = 1ull << units[i].shift;
			return 0;
		}
	}
	return SHARE_UNIT;
}

/* K of N parts, after the slash: "250/1000", "1/3". */
static int read_parts(const struct share_number *number, const char *text, uint32_t most_milli,
		      uint64_t *ret_milli)
{
	struct share_number whole;
	int r = share_read_number(&text, &whole);

	if (r != 0)
		return r;
	if (*text || whole.fraction || number->fraction)
		return SHARE_NONSENSE;
	if (!whole.whole)
		return SHARE_ZERO;
	if (number->whole > MILLI_ALL * MILLI_ALL || whole.whole > MILLI_ALL ||
	    number->whole * MILLI_ALL > whole.whole * most_milli)
		return SHARE_LARGE;
	*ret_milli = number->whole * MILLI_ALL / whole.whole;
	return 0;
}

/* A part of a whole: "25%", "12.5%", "250/1000". Rounded down to thousandths. */
static int read_milli(const struct share_number *number, const char *unit, uint32_t most_milli,
		      uint32_t *ret_milli)
{
	uint64_t tenth = SHARE_FRACTION_ONE / 10, milli;
	int r;

	if (strcmp(unit, "%") == 0) {
		if (number->whole > most_milli)
			return SHARE_LARGE;
		milli = number->whole * 10 + number->fraction / tenth;
		if (milli > most_milli || (milli == most_milli && number->fraction % tenth))
			return SHARE_LARGE;
	} else if (*unit == '/') {
		r = read_parts(number, unit + 1, most_milli, &milli);
		if (r != 0)
			return r;
	} else {
		return strcmp(unit, "m") == 0 ? SHARE_THOUSANDTHS : SHARE_UNIT;
	}
	*ret_milli = (uint32_t)milli;
	return 0;
}

int share_parse_part(const char *text, uint32_t most_milli, uint32_t *ret_milli)
{
	uint64_t thousandth = SHARE_FRACTION_ONE / MILLI_ALL;
	const char *unit = text;
	struct share_number number;
	int r = share_read_number(&unit, &number);

	if (r != 0)
		return r;
	/* A part of 1 is known by its point: "5" may be 5 %, or five times as much. */
	if (*unit || (!strchr(text, '.') && number.whole))
		return read_milli(&number, unit, most_milli, ret_milli);
	if (number.whole > most_milli / MILLI_ALL)
		return SHARE_LARGE;
	number.fraction += number.whole * SHARE_FRACTION_ONE;
	if (number.fraction > most_milli * thousandth)
		return SHARE_LARGE;
	*ret_milli = (uint32_t)(number.fraction / thousandth);
	return 0;
}

int share_parse_amount(const char *text, struct share_amount *ret_amount)
{
	struct share_amount amount = {0, 0};
	struct share_number number;
	uint64_t unit;
	int r = share_read_number(&text, &number);

	if (r != 0)
		return r;
	r = read_milli(&number, text, MILLI_ALL, &amount.milli);
	if (r == SHARE_UNIT || r == SHARE_THOUSANDTHS) {
		r = find_unit(text, &unit);
		if (r == 0)
			r = scale_number(&number, unit, &amount.bytes);
		/* "0.25" is a quarter to people, not zero bytes. */
		if (r == 0 && !*text &&
		    (number.fraction || (amount.bytes && amount.bytes < BARE_LEAST)))
			r = SHARE_BARE;
	}
	if (r != 0)
		return r;
	if (!amount.bytes && !amount.milli)
		return SHARE_ZERO;
	*ret_amount = amount;
	return 0;
}

int share_parse_time(const char *text, uint64_t most_ns, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1},
		{"us", 1000},
		{"ms", 1000000},
		{"s", 1000000000},
		{"m", 60 * 1000000000ull},
		{"h", 3600 * 1000000000ull},
		{"d", 24 * 3600 * 1000000000ull},
	};
	struct share_number number;
	uint64_t ns;
	int r = share_read_number(&text, &number);

	if (r != 0)
		return r;
	if (!*text && !number.whole && !number.fraction)
		text = "s";
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(text, units[i].name) != 0)
			continue;
		r = scale_number(&number, units[i].ns, &ns);
		if (r == 0 && ns > most_ns)
			r = SHARE_LARGE;
		if (r == 0)
			*ret_ns = ns;
		return r;
	}
	return SHARE_UNIT;
}

int share_parse_duration(const char *text, uint64_t *ret_ns)
{
	return share_parse_time(text, wait_max_ns, ret_ns);
}

int share_bytes(const struct share_amount *amount, uint64_t device_bytes, uint64_t *ret_bytes)
{
	uint64_t bytes = amount->bytes;

	if (amount->milli) {
		/* Divides first, so that no product overflows, and adds the remainder's part. */
		bytes = device_bytes / MILLI_ALL * amount->milli +
			device_bytes % MILLI_ALL * amount->milli / MILLI_ALL;
	}
	if (bytes > device_bytes)
		return SHARE_LARGE;
	if (bytes == 0)
		return SHARE_ZERO;
	*ret_bytes = bytes;
	return 0;
}
