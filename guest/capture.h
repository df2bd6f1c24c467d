/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream captures that are open. A call into a stream that is being captured submits nothing, so it
 * passes a closed gate; a close is acknowledged only when no capture is open any more (driver calls
 * that a drain makes would invalidate it), or none that these would disturb; and while a gate is
 * closed no capture begins, unless the thread has one open already. The own page says how many are
 * open: that is why a close is not acknowledged. One that only its own thread could end is over
 * when that has ended.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/presence.h"

/* Whether an allocation may wait: not while a capture is open in this process. */
bool capture_open(void);

/* At a closed gate: is the stream being captured, and does it stay so until this call returns? */
bool capture_enter(struct presence_slot *slot, CUstream stream);

/* By the agent: forgets captures that have ended in a way that no hook saw. Returns how many are
 * still open. */
unsigned capture_count(void);

/* Around driver calls of the agent that would invalidate a capture: false, while one is open, and
 * then there is nothing to leave. Meanwhile no capture begins, so these calls must be short. */
bool capture_keep_out(void);
void capture_let_in(void);

/* Around those that a drain makes: CAPTURE_QUIET: captures are open, but all of streams that the
 * legacy stream does not wait for, whose work of before is complete; other streams may be asked.
 * CAPTURE_LOUD: there is nothing to leave. */
enum capture_hold {
	CAPTURE_NONE = 0,
	CAPTURE_QUIET,
	CAPTURE_LOUD,
};
must_check enum capture_hold capture_hold(void);

/* Did the capture of this stream begin there? It may be captured because it waits for one that is.
 */
bool capture_is_known(CUstream stream);

/* A stream is about to be destroyed. */
void capture_forget_stream(CUstream stream);

/* In a child of fork(). */
void capture_forget(void);
