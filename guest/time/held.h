/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that waits for something outside of the device: a stream that waits for a value or for an
 * external semaphore, or for a host function that runs. Where turns are taken, such calls leave an
 * event before and one behind them: between the two the stream stands still. So the agent can tell
 * a drain that waits for this from one that waits for kernels. Launches of kernels do not pass
 * here. A stream that waits for an event of a held one stands, too. Streams that were destroyed
 * with work left, and threads' own streams, are known as far as they matter. What a graph waits for
 * is not seen.
 */
#pragma once

#include <stdbool.h>

#include "cuda/types.h"

/* From the first time that somebody waits for the device. */
void held_begin(void);

/* Has any such call been made that was not seen to be over? */
bool held_any(void);

/* Does the stream stand at such a call? False if that cannot be told without a wait. */
bool held_stands(CUcontext context, CUstream stream);

/* Is all that is in flight on the device held? By the agent, while no capture is open. */
bool held_all(int device);

/* Has a stream that was destroyed work left? */
bool held_streams_left(int device);

/* A stream was created, or is about to be destroyed; one that orders itself with the legacy stream
 * is not known otherwise. */
void held_stream_made(CUstream stream);
void held_stream_ends(CUstream stream);

/* The context is about to end. */
void held_context_leaves(CUcontext context);
