/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a node's status has as a quantity: digits alone that mean the same, or nothing. */
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

/* What a unit multiplies by, so often; 0: there is no such unit. */
static unsigned base_of(const char *unit, size_t *ret_times)
{
	static const char *const units[] = {"",	  "k",	"M",  "G",  "T",  "P", "E",
					    "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
	size_t digits = strspn(unit + (*unit != '\0'), "0123456789");

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(unit, units[i]) == 0) {
			*ret_times = i > 6 ? i - 6 : i;
			return i > 6 ? 1024 : 1000;
		}
	if ((*unit != 'e' && *unit != 'E') || !digits || digits > 2 || unit[1 + digits])
		return 0;
	*ret_times = (size_t)atoi(unit + 1);
	return 10;
}

/* Digits, and one unit; -1: it is something else, or more than 64 bits. Reckoned in another way
 * than the product: in long double it would not be exact. */
static __int128 meant(const char *text)
{
	size_t digits = strspn(text, "0123456789"), times = 0;
	unsigned base = base_of(text + digits, &times);
	__int128 value = 0;

	if (!digits || !base)
		return -1;
	for (size_t i = 0; i < digits; i++) {
		value = value * 10 + (text[i] - '0');
		if (value > UINT64_MAX)
			return -1;
	}
	while (times-- && value <= UINT64_MAX)
		value *= base;
	return value > UINT64_MAX ? -1 : value;
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
