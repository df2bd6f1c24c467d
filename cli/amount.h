/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as people read them: "512MiB", "3.9GiB". */
#pragma once

#include "base/macros.h"

struct amount {
	char text[24];
};

static inline struct amount amount(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	struct amount text;
	size_t unit = 0;

	for (; value >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++)
		value /= 1024;
	/* One decimal, and only where it says something. */
	if (value == (double)(uint64_t)value)
		snprintf(text.text, sizeof(text.text), "%.0f%s", value, units[unit]);
	else
		snprintf(text.text, sizeof(text.text), "%.1f%s", value, units[unit]);
	return text;
}
