/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much work may be under way: where others take turns with us, a device's queue must be short,
 * as a close waits for all of it. Where the tenant's page sets a bound (flight_ns), one in so many
 * calls that submit is a sample: it leaves a mark in its stream, an event, and waits until all but
 * the last two marks were reached. The time between two marks says after how many calls the next
 * sample is due: so that it is a third of the bound. Of calls that take longer fewer are under way;
 * of those that take longer than the bound one in each stream.
 *
 * A bound for our own work, and a rough one: nobody is charged by it. Nothing waits while a capture
 * is open, nor for long where the mark may itself be waiting for this thread: after a few waits in
 * vain there is no bound for a while.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/presence.h"

/* After how many calls of a thread the next sample is due; `device` as in guest/state.h. */
must_check uint32_t flight_period(int device);

/* A sample, before its call submits to `stream`. True: it has waited, not being present meanwhile;
 * to be called again when the gate was looked at. */
must_check bool flight_wait(struct presence_slot *slot, int device, CUstream stream);

/* The bound is another one. */
void flight_bound(int device, uint64_t before_ns, uint64_t now_ns);

/* Nothing is under way. */
void flight_complete(int device);

/* A context is about to go. */
void flight_context_leaves(CUcontext context);

/* In a child of fork(). */
void flight_forget(void);
