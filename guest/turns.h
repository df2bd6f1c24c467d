/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking part in turns, where the tenant's page says so (struct wire_tenant_turns): the daemon is
 * told when this process has nothing to do on a device, and before it has something again.
 *
 *	busy     from the start; what the threads do is looked at by the agent
 *	arming   nothing was under way for a while: each thread's next call will take the slow path
 *	idle     none had come until then: IDLE was said
 *
 * A call that submits, or a thread at the gate, leads back to busy, and says WANTS if IDLE was
 *said. A hint for the daemon, no more: a close relies upon a drain.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* A bit for each device that may not be busy. */
extern _Atomic uint32_t turns_quiet;

/* Before something is submitted, with presence noted, and before waiting at the gate: the guest
 * wants `device` (-1: all). On the slow path. */
void turns_wake(int device);

static inline void turns_stir(int device)
{
	if (unlikely(atomic_load(&turns_quiet) != 0))
		turns_wake(device);
}

/* ---- the agent's ----------------------------------------------------------------------------- */

/* What the agent knows of closes: of this device's, and of any. */
struct turns_closes {
	bool draining; /* a close of this device is under way */
	bool walking;  /* somebody's slots are being walked over */
};

/* Looks what is under way on a device; returns after how many microseconds it wants to look again
 * (-1: not before something is heard). `wire_device`: -1: none; `device` as in guest/state.h. */
must_check int turns_step(uint32_t wire_device, int device, const struct turns_closes *closes);

/* The connection is lost, or another one: the guest is busy everywhere, as far as others know. */
void turns_down(void);

/* In a child of fork(). */
void turns_forget(void);
