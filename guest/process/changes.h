/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes are calls that change both what the driver holds and what is charged for it. The daemon
 * must not compare the two during a change: it would mistake memory that is not charged yet for a
 * context, or the reverse. It compares only if no change is in progress and none began meanwhile.
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
static inline void changes_raise(uint64_t *place, uint64_t value)
{
	uint64_t shown = __atomic_load_n(place, __ATOMIC_SEQ_CST);

	while (shown < value && !__atomic_compare_exchange_n(place, &shown, value, 0,
							     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
	}
}

/* The counts alone. */
static inline void changes_count_begun(void)
{
	__atomic_fetch_add(&guest_own_page.changes_begun, 1, __ATOMIC_SEQ_CST);
}

static inline void changes_count_ended(void)
{
	__atomic_fetch_add(&guest_own_page.changes_ended, 1, __ATOMIC_SEQ_CST);
}

/* The change that the calling thread has begun and must end. A jump out of the driver leaves it
 * open; the thread's next change that does not begin inside the first one ends it. */
#define changes_own (guest_thread.changes)

/* Ends a change that was left by a jump, if any; see guest/frames.h. */
void changes_heal(uintptr_t here);

/* Not twice in one function. */
static inline void changes_begin(void)
{
	uintptr_t here = frames_here();

	if (unlikely(changes_own.any))
		changes_heal(here);
	if (likely(!changes_own.any)) {
		changes_own.entered = here;
		changes_own.any = 1;
	} else {
		changes_own.open++;
	}
	changes_count_begun();
}

static inline void changes_end(void)
{
	changes_own.open--;
	changes_count_ended();
}

/* In the middle of a change, while the driver and the charge stay as they are. */
static inline void changes_pause(void)
{
	changes_own.open--;
	changes_own.paused++;
	changes_count_ended();
}

static inline void changes_go_on(void)
{
	changes_own.open++;
	changes_own.paused--;
	changes_count_begun();
}

/* The caller is about to do something that may take memory beyond contexts and allocations, on a
 * device or (-1) on any: later measurements no longer show what contexts alone take. */
static inline void changes_other(int device)
{
	uint32_t first = device < 0 ? 0 : (uint32_t)device;
	uint32_t end = device < 0 ? atomic_load(&state.devices) : first + 1;

	for (uint32_t i = first; i < end; i++) {
		struct state_device *d = &state.device[i];

		changes_raise(&guest_own_page.others[atomic_load(&d->wire_index)],
			      atomic_fetch_add(&d->others, 1) + 2);
	}
}

/* In a page that is new: `old` is the one before it. */
static inline void changes_carry(const struct wire_own_page *old)
{
	__atomic_fetch_add(&guest_own_page.changes_begun,
			   __atomic_load_n(&old->changes_begun, __ATOMIC_SEQ_CST),
			   __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&guest_own_page.changes_ended,
			   __atomic_load_n(&old->changes_ended, __ATOMIC_SEQ_CST),
			   __ATOMIC_SEQ_CST);
}
