/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks open stream captures. A call into a stream that is being captured submits nothing, so it
 * passes a closed gate. A close is acknowledged only when no capture is open that the drain's
 * driver calls would invalidate. While a gate is closed, no capture begins unless the thread
 * already has one open. The own page shows the number of open captures, which explains why a close
 * is not acknowledged. A capture that only its own thread could end is over when that thread has
 * ended.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/time/presence.h"

/* Whether an allocation may wait: not while a capture is open in this process. */
bool capture_open(void);

/* At a closed gate: is the stream being captured, and does it stay so until this call returns? */
bool capture_enter(struct presence_slot *slot, CUstream stream);

/* Called by the agent: forgets captures that ended without a hook seeing it. Returns how many
 * are still open. */
unsigned capture_count(void);

/* Brackets the agent's driver calls that would invalidate a capture. false: a capture is open,
 * and there is nothing to leave. Between the two no capture begins, so these calls must be
 * short. */
bool capture_keep_out(void);
void capture_let_in(void);

/* Brackets the driver calls of a drain. CAPTURE_QUIET: captures are open, but only of streams
 * that the legacy stream does not wait for, and whose earlier work is complete; other streams
 * may be queried. CAPTURE_LOUD: there is nothing to leave. */
enum capture_hold {
	CAPTURE_NONE = 0,
	CAPTURE_QUIET,
	CAPTURE_LOUD,
};
must_check enum capture_hold capture_hold(void);

/* Did the capture begin in this stream? A stream may also be captured because it waits for a
 * captured one.
 */
bool capture_is_known(CUstream stream);

/* Around our own calls, which must not disturb captures of other threads: the thread's mode, which
 * is to be restored. */
CUstreamCaptureMode capture_relax(void);
void capture_restore(CUstreamCaptureMode mode);

/* A stream is about to be destroyed. */
void capture_forget_stream(CUstream stream);

/* A context has ended, and with it all captures in its streams. */
void capture_context_gone(CUcontext context);
