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

/* Digits, and one suffix; -1: it is something else, or more than 64 bits. Reckoned in another way
 * than the product: in long double it would not be exact. */
static __int128 meant(const char *text)
{
	static const char suffixes[] = "kMGTPE";
	size_t digits = strspn(text, "0123456789"), thousands = 0;
	__int128 value = 0;

	if (!digits)
		return -1;
	if (text[digits]) {
		const char *at = strchr(suffixes, text[digits]);

		if (!at || text[digits + 1])
			return -1;
		thousands = (size_t)(at - suffixes) + 1;
	}
	for (size_t i = 0; i < digits; i++) {
		value = value * 10 + (text[i] - '0');
		if (value > UINT64_MAX)
			return -1;
	}
	while (thousands--)
		value *= 1000;
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
