/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves: calls that change what the driver holds and what is charged for it. Between the two the
 * daemon must not compare them: it would take what is not yet charged for a context, or the other
 * way round. It compares where no move is under way, and none began meanwhile.
 *
 * Counted in the own page, and nowhere else: one locked operation each. Another daemon brings
 * another page: what the old one counted is carried over when nobody can count in it any more.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/frames.h"
#include "guest/state.h"
#include "guest/thread.h"

/* Several threads show what they know; the page only ever rises. */
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

/* What the calling thread has begun, and is to end. A jump out of the driver leaves it so: the next
 * move of the thread that does not begin inside of the first one ends it. */
#define moves_own (guest_thread.moves)

/* Ends what was left, if it was; see guest/frames.h. */
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

/* About to do what may take memory beside contexts and what is allocated, on a device or (-1) on
 * any: what is measured from now on is not what contexts take. */
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
