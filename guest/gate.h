/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standing at a gate. Whoever does is counted in the own page, and the guest wants the device.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"

/* Waits at the gate of `device` (-1: of any) as a launch would: for hooks that must not start
 * while the gate is closed. 0, or the CUresult that the call answers instead. */
must_check uint32_t gate_wait(int device);

/* In a call that submits, with its slot taken, between two parts of what it submits: the same, and
 * meanwhile a close does not wait for this thread. */
must_check uint32_t gate_pause(int device);

/* How often threads have stood at a gate so far, of whatever device. */
must_check uint64_t gate_waits(void);
