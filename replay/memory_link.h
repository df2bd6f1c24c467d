/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link between device and host: a copy engine each way, which slow one another down where both
 * run. Chunks of one direction are copied one after the other, in the order in which they came.
 * Inside of replay/memory_world.c; its owner brings it up to the time before anything changes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum memory_way { MEMORY_OUT, MEMORY_IN, MEMORY_WAYS };

struct memory_copy {
	struct list queue;
	double left; /* bytes */
};

struct memory_link {
	double alone, both; /* bytes a nanosecond, each way */
	struct list ways[MEMORY_WAYS];
	uint64_t now_ns;
	double busy_ns[MEMORY_WAYS];
};

void memory_link_init(struct memory_link *link, double alone, double both);
void memory_link_advance(struct memory_link *link, uint64_t now_ns);
void memory_link_add(struct memory_link *link, enum memory_way way, struct memory_copy *copy,
		     uint64_t bytes);
/* One that is complete, taken off its queue; NULL: none. */
struct memory_copy *memory_link_done(struct memory_link *link, enum memory_way way);
/* When the next one is; UINT64_MAX: nothing is copied. */
uint64_t memory_link_next(const struct memory_link *link);
