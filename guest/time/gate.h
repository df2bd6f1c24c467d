/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting at a gate. The own page counts the waiting threads, and the guest reports that it wants
 * the device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/time/presence.h"

/* Is the gate of `device` open, or every gate? */
must_check bool gate_is_open(int device);

/* Waits at the gate of `device` (-1: of any) as a launch would: for hooks that must not start
 * while the gate is closed. 0, or the CUresult that the call must return. */
must_check uint32_t gate_wait(int device);

/* The same, for a submitting call with its slot taken, between two parts of its work. Meanwhile
 * a close does not wait for this thread. */
must_check uint32_t gate_pause(int device);

/* The same, but it may have closed again: the caller checks the gate. */
must_check uint32_t gate_wait_with(struct presence_slot *slot, int device);

/* With the slot taken: tells the daemon that we want our memory, and waits until all of it is on
 * the device. The same results. */
must_check uint32_t gate_pass_residency(struct presence_slot *slot);

/* For a hook that takes no slot and holds no lock: waits a while for memory that is in the store,
 * and reports that it is wanted. false: there is none. */
bool gate_await_residency(void);

/* Shows in a new own page how many threads wait. */
void gate_new_page(void);

/* How often threads have waited at a gate so far, on all devices. */
must_check uint64_t gate_waits(void);
