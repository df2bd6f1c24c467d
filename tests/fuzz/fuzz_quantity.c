/* SPDX-License-Identifier: Apache-2.0 */
/* Any quantity of a node's status: digits alone that mean the same, or nothing. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

/* By what power of `base` a suffix multiplies; false: there is no such suffix. */
static bool read_suffix(const char *suffix, int *ret_base, int *ret_power)
{
	static const char *const units[] = {"n", "u", "m",  "",	  "k",	"M",  "G",  "T",
					    "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
	size_t sign = *suffix && (suffix[1] == '-' || suffix[1] == '+');
	size_t digits = *suffix ? strspn(suffix + 1 + sign, "0123456789") : 0;

	for (int i = 0; i < (int)ARRAY_SIZE(units); i++) {
		if (strcmp(suffix, units[i]) == 0) {
			*ret_base = i > 9 ? 2 : 10;
			*ret_power = i > 9 ? 10 * (i - 9) : 3 * (i - 3);
			return true;
		}
	}
	*ret_base = 10;
	*ret_power = atoi(*suffix ? suffix + 1 : "");
	return (*suffix == 'e' || *suffix == 'E') && digits && digits <= 3 &&
	       !suffix[1 + sign + digits];
}

/* A whole number of at most 63 bits; -1: it is something else. Reckoned in another way: factor by
 * factor, over a common denominator. */
static __int128 meant(const char *text)
{
	const char *at = text + (*text == '+'), *digit = at;
	size_t whole = strspn(at, "0123456789");
	size_t places = at[whole] == '.' ? strspn(at + whole + 1, "0123456789") : 0;
	const char *suffix = at + whole + (at[whole] == '.') + places;
	__int128 value = 0;
	int base, power, significant = 0;

	if (!whole && !places)
		return -1;
	for (; digit < suffix; digit++) {
		if (*digit == '.')
			continue;
		significant += value || *digit != '0';
		value = significant > 19 ? 0 : value * 10 + (*digit - '0');
	}
	if (significant > 19 || places > 19 || !read_suffix(suffix, &base, &power))
		return -1;
	for (; value && base == 2 && power; power--)
		value *= 2;
	power = (base == 2 ? 0 : power) - (int)places;
	for (; value && power > 0 && value <= INT64_MAX; power--)
		value *= 10;
	for (; value && power < 0; power++) {
		if (value % 10)
			return -1;
		value /= 10;
	}
	return value > INT64_MAX ? -1 : value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *text = malloc(size + 1);
	char plain[QUANTITY_TEXT], again[QUANTITY_TEXT];
	int r;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	memset(plain, 'x', sizeof(plain));
	r = quantity_plain(text, plain);
	must(r == (meant(text) < 0 ? -EINVAL : 0));
	if (r < 0)
		return 0;
	must(memchr(plain, '\0', sizeof(plain)) && meant(plain) == meant(text));
	must(quantity_plain(plain, again) == 0 && strcmp(plain, again) == 0);
	return 0;
}
