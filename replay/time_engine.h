/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that runs the kernels of processes: one at a time, in slices that go round among those
 * that have work on it. Inside of replay/time_world.c; its owner brings it up to the time before
 * anything else changes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct time_process {
	uint64_t served; /* ns of kernels, ever */
	uint64_t limit;	 /* it has work on the device until that is served */
	uint64_t mark;	 /* its owner wants to look then; UINT64_MAX: never */
	struct list ring;
};

struct time_engine {
	struct list ring; /* who runs comes first */
	uint64_t now_ns, slice_ns, slice_end_ns, served;
};

static inline struct time_process *time_engine_running(const struct time_engine *e)
{
	return list_empty(&e->ring) ? NULL : list_entry(e->ring.next, struct time_process, ring);
}

void time_engine_init(struct time_engine *e, uint64_t slice_ns);
void time_engine_advance(struct time_engine *e, uint64_t now_ns);
/* Its limit has changed. */
void time_engine_put(struct time_engine *e, struct time_process *p);
/* The slice's end, if it has come; who runs then. */
void time_engine_turn(struct time_engine *e);
/* When who runs has reached its limit or its mark, or its slice is over; UINT64_MAX: never. */
uint64_t time_engine_next(const struct time_engine *e);
