/* SPDX-License-Identifier: Apache-2.0 */
/*                                                          sim/machine/engine_core.h
 * The engines of one device as a state machine: what they have done until now, from the arrival of
 * each ticket. Private to engine.c and its tests.
 *
 * Pure arithmetic on struct segment_engines: no clock, no lock, no waiting. Laws: an engine serves
 * at most one ticket at a time, but for clients of one MPS daemon, which are one context to it, and
 * of each of which it serves one at the speed that its part of the device makes; it never rests
 * while a ticket is ready; work done = work asked for; two contexts with work get slices in turn,
 * also those of one process; busy time never exceeds the time that has passed, what was claimed
 * from gaps included.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "sim/machine/segment.h"

#define ENGINE_CORE_PERIOD_NS 166666667 /* of the utilisation samples: 1/6 s, as NVIDIA's */

struct engine_core_rules {
	uint64_t slice_ns;
	uint64_t duplex; /* in SETTINGS_FACTOR_ONE */
	size_t device;
	struct segment_process
		*processes; /* their ledgers; NULL: a rehearsal, for which no process is charged */
};

/* Lets the engines work until now_ns. Only the lanes of the mask (bit per lane) move; with `until`
 * (a ticket's index, or UINT32_MAX) it stops when that one is done. */
void engine_core_advance(struct segment_engines *engines, const struct engine_core_rules *rules,
			 unsigned lanes, uint64_t now_ns, uint32_t until);

#define ENGINE_CORE_ALL ((1u << SEGMENT_LANES) - 1)

/*
 * Adds work of a process's context that could have run since ready_ns: claims the lane's gaps since
 * then and queues the rest. Returns its ticket's index, which is done already if the gaps sufficed;
 * UINT32_MAX: all tickets are in use. The engines have advanced to now.
 */
uint32_t engine_core_add(struct segment_engines *engines, const struct engine_core_rules *rules,
			 enum segment_lane lane, uint32_t process, uint32_t context,
			 uint64_t ready_ns, uint64_t work_ns);

/* Corrects an estimate: the work takes this much in all instead of `old_ns`. True if others may now
 * end sooner. */
bool engine_core_correct(struct segment_engines *engines, const struct engine_core_rules *rules,
			 uint32_t index, uint64_t old_ns, uint64_t new_ns);

void engine_core_remove(struct segment_engines *engines, uint32_t index);

/* The ticket's index by its id, or UINT32_MAX. */
uint32_t engine_core_find(const struct segment_engines *engines, uint64_t id);

/* Has another process than `process` work on the lane? */
bool engine_core_contended(const struct segment_engines *engines, enum segment_lane lane,
			   uint32_t process);

/* When the ticket will be done if nothing changes, but horizon_ns at the latest. The engines are
 * not touched. */
uint64_t engine_core_predict(const struct segment_engines *engines,
			     const struct engine_core_rules *rules, uint32_t index,
			     uint64_t horizon_ns);
