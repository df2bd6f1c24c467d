/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/quantity.h"

#include <stdbool.h>
#include <string.h>

/* Of "k", "Gi" or "e9": the base, and how often it is multiplied. false: it is no unit. */
static bool read_unit(const char *unit, uint64_t *ret_base, unsigned *ret_times)
{
	static const char decimal[] = "kMGTPE", binary[] = "KMGTPE";
	const char *at;

	*ret_base = 10;
	*ret_times = 0;
	if ((unit[0] == 'e' || unit[0] == 'E') && unit[1] >= '0' && unit[1] <= '9') {
		*ret_times = (unsigned)(unit[1] - '0');
		if (unit[2] >= '0' && unit[2] <= '9')
			*ret_times = *ret_times * 10 + (unsigned)(unit[2] - '0');
		return !unit[2] || (unit[2] >= '0' && unit[2] <= '9' && !unit[3]);
	}
	if (unit[0] && unit[1] == 'i' && !unit[2] && (at = strchr(binary, unit[0]))) {
		*ret_base = 1024;
		*ret_times = (unsigned)(at - binary) + 1;
		return true;
	}
	if (unit[0] && !unit[1] && (at = strchr(decimal, unit[0]))) {
		*ret_base = 1000;
		*ret_times = (unsigned)(at - decimal) + 1;
		return true;
	}
	return !unit[0];
}

int quantity_read(const char *quantity, uint64_t *ret_value)
{
	unsigned long long value;
	uint64_t base;
	unsigned times;
	char *end;

	if (*quantity < '0' || *quantity > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(quantity, &end, 10);
	if (errno == ERANGE || !read_unit(end, &base, &times))
		return -EINVAL;
	for (; times; times--)
		if (__builtin_mul_overflow(value, (unsigned long long)base, &value))
			return -EINVAL;
	*ret_value = value;
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
