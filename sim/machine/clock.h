/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/machine/clock.h
 * The one clock: monotonic time divided by the node's dilation factor (METE_SIM_DILATE), in
 * nanoseconds. Everything modelled is in it: costs, engines, events' times, %globaltimer.
 *
 * Waiting is a futex, never a loop. Thread-safe.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	CLOCK_WOKEN = 1, /* the word no longer had the expected value, or a wake came */
};

/* segment_join() does it. 1 to 1000. */
void clock_set_dilation(uint64_t factor);

uint64_t clock_now_ns(void);

/*
 * Waits until the clock says deadline_ns. With a word (which may be shared between processes): only
 * while *word is `expected`; woken by clock_wake(). 0 at the deadline, or CLOCK_WOKEN, which may be
 * spurious: check again. UINT64_MAX waits for ever.
 */
must_check int clock_wait_until(uint64_t deadline_ns, _Atomic uint32_t *word, uint32_t expected);

/* Adds one to the word and wakes all threads that wait at it. */
void clock_wake(_Atomic uint32_t *word);

/*
 * The calling thread's work has cost this much modelled time: waits for it to pass. Costs that are
 * too small for a wait are collected, per thread, until they are worth one.
 */
void clock_spend(uint64_t cost_ns);
