/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes part in turns, if the tenant's page says so (struct wire_tenant_turns): tells the daemon
 * when this process has no work on a device, and before it has work again.
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
extern _Atomic uint32_t turns_quiet;

/* On the slow path, before work is submitted, with presence noted, and before waiting at the
 * gate: the guest wants `device` (-1: all). */
void turns_wake(int device);

static inline void turns_stir(int device)
{
	if (unlikely(atomic_load(&turns_quiet) != 0))
		turns_wake(device);
}

/* ---- the agent's ----------------------------------------------------------------------------- */

/* The closes that the agent is working on: of this device, and of any. */
struct turns_closes {
	bool draining; /* a close of this device is in progress */
	bool walking;  /* a walk over the slots is in progress */
};

/* Checks what is in flight on a device; returns after how many microseconds to check again (-1:
 * not before a message arrives). `wire_device`: -1: none; `device` as in guest/process/state.h. */
must_check int turns_step(uint32_t wire_device, int device, const struct turns_closes *closes);
