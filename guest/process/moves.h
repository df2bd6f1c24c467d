/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves are calls that change both what the driver holds and what is charged for it. The daemon
 * must not compare the two during a move: it would mistake memory that is not charged yet for a
 * context, or the reverse. It compares only if no move is in progress and none began meanwhile.
 *
 * They are counted only in the own page, with one locked operation each. A new daemon brings a new
 * page; the old page's counts are carried over when no thread can count in it any more.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/frames.h"
#include "guest/process/state.h"
#include "guest/thread.h"

/* Several threads publish their values; the page only ever increases. */
static inline void moves_raise(uint64_t *place, uint64_t value)
{
	uint64_t shown = __atomic_load_n(place, __ATOMIC_SEQ_CST);

	while (shown < value && !__atomic_compare_exchange_n(place, &shown, value, 0,
							     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
	}
}

/* The counts alone. */
static inline void moves_count_begun(void)
{
	__atomic_fetch_add(&guest_own_page.moves_begun, 1, __ATOMIC_SEQ_CST);
}

static inline void moves_count_ended(void)
{
	__atomic_fetch_add(&guest_own_page.moves_ended, 1, __ATOMIC_SEQ_CST);
}

/* The move that the calling thread has begun and must end. A jump out of the driver leaves it
 * open; the thread's next move that does not begin inside the first one ends it. */
#define moves_own (guest_thread.moves)

/* Ends a move that was left by a jump, if any; see guest/frames.h. */
void moves_heal(uintptr_t here);

/* Not twice in one function. */
static inline void moves_begin(void)
{
	uintptr_t here = frames_here();

	if (unlikely(moves_own.any))
		moves_heal(here);
	if (likely(!moves_own.any)) {
		moves_own.entered = here;
		moves_own.any = 1;
	} else {
		moves_own.open++;
	}
	moves_count_begun();
}

static inline void moves_end(void)
{
	moves_own.open--;
	moves_count_ended();
}

/* In the middle of a move, while nothing changes. */
static inline void moves_pause(void)
{
	moves_own.open--;
	moves_own.paused++;
	moves_count_ended();
}

static inline void moves_go_on(void)
{
	moves_own.open++;
	moves_own.paused--;
	moves_count_begun();
}

/* The caller is about to do something that may take memory beyond contexts and allocations, on a
 * device or (-1) on any: later measurements no longer show what contexts alone take. */
static inline void moves_other(int device)
{
	uint32_t first = device < 0 ? 0 : (uint32_t)device;
	uint32_t end = device < 0 ? atomic_load(&state.devices) : first + 1;

	for (uint32_t i = first; i < end; i++) {
		struct state_device *d = &state.device[i];

		moves_raise(&guest_own_page.others[atomic_load(&d->wire_index)],
			    atomic_fetch_add(&d->others, 1) + 2);
	}
}

/* In a page that is new: `old` is the one before it. */
static inline void moves_carry(const struct wire_own_page *old)
{
	__atomic_fetch_add(&guest_own_page.moves_begun,
			   __atomic_load_n(&old->moves_begun, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&guest_own_page.moves_ended,
			   __atomic_load_n(&old->moves_ended, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
}
