/* SPDX-License-Identifier: Apache-2.0 */
#include "node/devices/nvml_rows.h"

#include <stdlib.h>

#include "node/devices/nvml.h"

_Static_assert(offsetof(struct nvml_process, pid) == 0 && offsetof(struct nvml_busy, pid) == 0,
	       "a row begins with its pid");

static uint32_t pid_of(const void *row)
{
	return *(const uint32_t *)row;
}

static int by_pid(const void *a, const void *b)
{
	return (pid_of(a) > pid_of(b)) - (pid_of(a) < pid_of(b));
}

void nvml_rows_sort(void *rows, uint32_t count, size_t size)
{
	qsort(rows, count, size, by_pid);
}

uint32_t nvml_rows_first(const void *rows, uint32_t count, size_t size, uint32_t pid)
{
	uint32_t first = 0, end = count;

	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (pid_of((const char *)rows + middle * size) < pid)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}
