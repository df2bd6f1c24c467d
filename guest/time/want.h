/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process has told the daemon about a device: that it wants it, or is idle on it. Under
 * turns (guest/time/turns.h) a device is
 *
 *	busy    from the start; the agent watches what the threads do
 *	arming  no work was in flight for a while: each thread's next call takes the slow path
 *	idle    no call came until then: IDLE was sent
 *
 * A call that submits, or a thread at the gate, leads back to busy, and sends WANTS if IDLE
 * was sent. This is only a hint for the daemon: a close relies on a drain.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* A bit for each device that may not be busy. */
extern _Atomic uint32_t want_quiet;

/* On the slow path, before work is submitted, with presence noted, and before waiting at the
 * gate: the guest wants `device` (-1: all). */
void want_wake(int device);

static inline void want_stir(int device)
{
	if (unlikely(atomic_load(&want_quiet) != 0))
		want_wake(device);
}

/* ---- the agent's ----------------------------------------------------------------------------- */

void want_set_busy(int device);
void want_arm(int device);

/* Sends IDLE, unless a call came since want_arm(). 0; otherwise as link_try(), and the device is
 * busy. */
must_check int want_send_idle(int device);

must_check bool want_is_idle(int device);

/* The connection is lost: busy everywhere, as far as the next daemon knows. */
void want_down(void);
