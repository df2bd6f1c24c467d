/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contexts of this process and their non-blocking streams, whose work must be complete before a
 * drain can be acknowledged. The context hooks maintain the list, and so does the launch
 * trampolines' slow path for contexts that no hook saw. Their number is not limited. While the lock
 * is held, only driver calls that return immediately are made.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"

/* Adds a context; `device` as in guest/process/state.h. Adding it twice is harmless. */
void contexts_add(CUcontext context, int device);

/* The context may be about to be destroyed, and the agent no longer touches it. No drain is
 * acknowledged between this and contexts_gone(), because its work may still be running. It stays in
 * the table until it is dropped: of some calls only the driver knows whether they destroy it. */
void contexts_still(CUcontext context);
void contexts_drop(CUcontext context);
void contexts_gone(void);

/* The device of a context, or -2 if it is not known. */
int contexts_device(CUcontext context);

/* The context of a stream; NULL: none. */
CUcontext contexts_of_stream(CUstream stream);

/* Has the process no other context, as far as is known? Takes no lock. */
bool contexts_only(CUcontext context);

/* A context of the device that is not about to be destroyed, or NULL. Takes no lock. */
CUcontext contexts_some(int device);

/* Adds a stream that does not synchronise with the legacy stream. false: there is no memory for it,
 * so its work could not be waited for. */
must_check bool contexts_stream_add(CUstream stream);
void contexts_stream_remove(CUstream stream);

/* Steps of a drain, by the agent. */
enum {
	CONTEXTS_BUSY = 1, /* work is still under way */
};
void contexts_drain_start(int device);

/* Whether the capture of a stream is known; see guest/time/capture.h. */
typedef bool contexts_known(CUstream stream);

/* `known`: captures are open, as CAPTURE_QUIET says; NULL: there are none. */
must_check int contexts_drain_step(int device, contexts_known *known);

/* Is all that is in flight in the stream held (guest/time/held.h)? Of CU_STREAM_LEGACY: also in
 * those that order themselves with it. */
typedef bool contexts_holds(CUcontext context, CUstream stream);

/* Is work in flight on the device that is not held, as far as this can be told without adding
 * anything to a stream? `holds` NULL: all counts. A drain checks again if the answer is no. */
must_check bool contexts_busy(int device, contexts_holds *holds);
