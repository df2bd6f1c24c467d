/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contexts of this process and their non-blocking streams: what has to be complete before a
 * drain can be acknowledged. Kept by the context hooks, and by the launch trampolines' slow path
 * for contexts that no hook saw coming. As many as there are. With its lock held the driver is
 * asked only what it answers at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"

/* A context is there; `device` as in guest/state.h. Knowing it twice is harmless. */
void contexts_add(CUcontext context, int device);

/* It is about to go: the agent no longer touches it. Between this and contexts_gone() no drain is
 * acknowledged, as its work may still be running. */
void contexts_leave(CUcontext context);
void contexts_gone(void);

/* The device of a context, or -2 where it is not known. */
int contexts_device(CUcontext context);

/* A stream that does not order itself with the legacy stream. false: there is no memory to note it
 * in, and nobody could say when its work is done. */
must_check bool contexts_stream_add(CUstream stream);
void contexts_stream_remove(CUstream stream);

/* One step of a drain, by the agent. */
enum {
	CONTEXTS_BUSY = 1, /* work is still under way */
};
void contexts_drain_start(int device);
/* `capturing`: captures are open, as CAPTURE_QUIET says. */
must_check int contexts_drain_step(int device, bool capturing);

/* Is work under way on the device, as far as can be told without leaving anything in a stream? What
 * the answer says is complete a drain looks at anew. */
must_check bool contexts_busy(int device);

/* In a child of fork(). */
void contexts_forget(void);
