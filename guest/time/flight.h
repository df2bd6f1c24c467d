/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the work in flight. If tenants take turns, a device's queue must be short, because a close
 * waits for all of it. If the tenant's page sets a bound (flight_ns), one in N submitting calls is
 * a sample: it leaves a mark (an event) in its stream, and waits until all but the last two marks
 * have been reached. N is adjusted so that the time between two marks is a third of the bound.
 * Longer calls thus have fewer in flight; calls longer than the bound have one in each stream.
 *
 * The bound is rough, applies only to our own work, and does not affect charges. Nothing waits
 * while a capture is open. A wait is short if the mark may itself wait for this thread: after a few
 * waits in vain there is no bound for a while. Unless such work was seen to end by itself
 * (guest/time/lasts.h): then it is waited for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/time/presence.h"

/* After how many calls of a thread the next sample is due; `device` as in guest/process/state.h. */
must_check uint32_t flight_period(int device);

/* Takes a sample before its call submits to `stream`. True: it has waited, and was not present
 * meanwhile; check the gate and call it again. */
must_check bool flight_wait(struct presence_slot *slot, int device, CUstream stream);

/* The bound has changed. */
void flight_bound(int device, uint64_t before_ns, uint64_t now_ns);

/* No work is under way. */
void flight_complete(int device);

/* A context is about to be destroyed. */
void flight_context_leaves(CUcontext context);
