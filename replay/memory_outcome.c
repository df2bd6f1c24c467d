/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "replay/memory_world.h"

#define MS 1000000ull
#define GB 1000000000ull

void memory_setup_init(struct memory_setup *setup)
{
	*setup = (struct memory_setup){
		.turns = turns_usual,
		.residency = residency_usual,
		.device_bytes = 16 * GB,
		.store_bytes = 64 * GB,
		.alone_gbps = 12,
		.both_gbps = 12,
		.map_ns = 34000,
		.map_beside_ns = 967000,
		.unmap_ns = 44000,
		.pin_gbps = 6,
		.clear_gbps = 8,
		.delay_ns = 30000,
		.slice_ns = 2 * MS,
		.flight_ns = 2 * MS,
		.length_ns = 86400000 * MS,
	};
}

void memory_outcome_done(struct memory_outcome *out, uint32_t tenants)
{
	for (uint32_t i = 0; out->tenants && i < tenants; i++)
		free(out->tenants[i].waits.values);
	free(out->tenants);
	free(out->spans);
	*out = (struct memory_outcome){0};
}

uint32_t memory_outcome_efficiency(const struct memory_outcome *out,
				   const struct memory_setup *setup)
{
	double moved = 0, could = 0;

	for (size_t i = 0; i < out->spans_size; i++) {
		const struct memory_span *s = &out->spans[i];

		/* Counts only handovers that moved memory in both directions. */
		if (!s->left_bytes || !s->came_bytes)
			continue;
		moved += (double)(s->left_bytes + s->came_bytes);
		could += 2 * setup->both_gbps * (double)s->took_ns;
	}
	return could > 0 ? (uint32_t)(1000 * moved / could + 0.5) : 0;
}
