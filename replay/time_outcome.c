/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "replay/time_world.h"

#define MS 1000000ull

void time_setup_init(struct time_setup *setup)
{
	*setup = (struct time_setup){
		.tuning = &turns_usual,
		.length_ns = 60000 * MS,
		.sample_ns = 10 * MS,
		.delay_ns = 30000,
		.slice_ns = 2 * MS,
		.flight_ns = 2 * MS,
		.seed = 1,
	};
}

void time_outcome_done(struct time_outcome *out, uint32_t tenants)
{
	for (uint32_t i = 0; out->waits && i < tenants; i++)
		free(out->waits[i].values);
	free(out->waits);
	free(out->handovers.values);
	free(out->charged);
	free(out->served);
	free(out->entitled);
	free(out->turns);
	free(out->longest_ns);
	*out = (struct time_outcome){0};
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t time_series_part(struct time_series *series, uint32_t milli)
{
	size_t index;

	if (!series->size)
		return 0;
	qsort(series->values, series->size, sizeof(uint64_t), compare);
	index = series->size * milli / 1000;
	return series->values[index < series->size ? index : series->size - 1];
}
