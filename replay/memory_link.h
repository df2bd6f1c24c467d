/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link between device and host: a copy engine for each direction. While both run, both are
 * slower. The chunks of a direction are copied one after the other, in the order in which they were
 * added. Used only by replay/memory_world.c, which calls memory_link_advance() before it changes
 * anything.
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
	double alone, both; /* bytes per nanosecond in each direction: one engine runs, both run */
	struct list ways[MEMORY_WAYS];
	uint64_t now_ns;
	double busy_ns[MEMORY_WAYS];
};

void memory_link_init(struct memory_link *link, double alone, double both);
void memory_link_advance(struct memory_link *link, uint64_t now_ns);
void memory_link_add(struct memory_link *link, enum memory_way way, struct memory_copy *copy,
		     uint64_t bytes);
/* Whether there is something to copy that way. */
bool memory_link_busy(const struct memory_link *link, enum memory_way way);
/* Removes a complete copy from its queue and returns it; NULL: none. */
struct memory_copy *memory_link_done(struct memory_link *link, enum memory_way way);
/* Returns when the next copy will be complete; UINT64_MAX: nothing is being copied. */
uint64_t memory_link_next(const struct memory_link *link);
