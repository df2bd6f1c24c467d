/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/quantity.h"

#include <string.h>

int quantity_plain(const char *quantity, char ret_text[QUANTITY_TEXT])
{
	static const char suffixes[] = "kMGTPE";
	const char *suffix = NULL;
	unsigned long long value;
	char *end;

	if (*quantity < '0' || *quantity > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(quantity, &end, 10);
	if (errno == ERANGE)
		return -EINVAL;
	if (*end)
		suffix = strchr(suffixes, *end);
	if (*end && (!suffix || end[1]))
		return -EINVAL;
	for (; suffix && suffix >= suffixes; suffix--)
		if (__builtin_mul_overflow(value, 1000ull, &value))
			return -EINVAL;
	snprintf(ret_text, QUANTITY_TEXT, "%llu", value);
	return 0;
}
