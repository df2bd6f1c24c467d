/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/macros.h"

struct text_bytes text_bytes(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct text_bytes said;
	uint64_t whole = bytes, rest = 0;
	size_t unit = 0;

	for (; whole >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++) {
		rest = whole % 1024;
		whole /= 1024;
	}
	/* Cut, not rounded: who reads "4GiB" has at least that. */
	if (rest * 10 / 1024)
		snprintf(said.text, sizeof(said.text), "%llu.%llu%s", (unsigned long long)whole,
			 (unsigned long long)(rest * 10 / 1024), units[unit]);
	else
		snprintf(said.text, sizeof(said.text), "%llu%s", (unsigned long long)whole,
			 units[unit]);
	return said;
}
