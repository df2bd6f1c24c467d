/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that runs the kernels of processes, one at a time, in slices: round robin among the
 * processes that have work on it. Used only by replay/time_world.c, which calls
 * time_engine_advance() before it changes anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct time_process {
	uint64_t served; /* ns of kernels so far */
	uint64_t limit;	 /* until this is served, it has work on the device */
	uint64_t mark;	 /* its owner wants to be called then; UINT64_MAX: never */
	struct list ring;
};

struct time_engine {
	struct list ring; /* the running process is first */
	uint64_t now_ns, slice_ns, slice_end_ns, served;
};

static inline struct time_process *time_engine_running(const struct time_engine *e)
{
	return list_empty(&e->ring) ? NULL : list_entry(e->ring.next, struct time_process, ring);
}

void time_engine_init(struct time_engine *e, uint64_t slice_ns);
void time_engine_advance(struct time_engine *e, uint64_t now_ns);
/* Call it after the process's limit has changed. */
void time_engine_put(struct time_engine *e, struct time_process *p);
/* Ends the current slice if its time is over, and starts the next process's. */
void time_engine_turn(struct time_engine *e);
/* Returns when the running process reaches its limit or mark, or its slice ends; UINT64_MAX:
 * never. */
uint64_t time_engine_next(const struct time_engine *e);
