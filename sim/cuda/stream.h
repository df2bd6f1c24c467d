/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/stream.h
 * Streams: first in, first out queues of ops, each run by a thread of its own that starts with the
 * first op and ends with the stream. A context owns one set of streams.
 *
 * Order. What is submitted to one stream runs in order. The legacy stream and the context's
 * blocking streams wait for each other as CUDA says; a thread's default stream is a blocking
 * stream. Non-blocking streams wait for no other. A wait is for a point that was submitted before,
 * so that waits cannot form a circle (except through memory: cuStreamWaitValue).
 *
 * Errors. An op that fails sticks its error to the context (context_fail()); later ops of the
 * context are dropped, and every call answers it.
 *
 * Capture. stream_submit() on a capturing stream makes a graph node instead; sim/cuda/capture.h.
 *
 * Host functions run between driver_enter_callback() and driver_leave_callback() of
 * sim/cuda/driver.h.
 *
 * All functions may be called from any thread. Handles are checked against a list of living
 * streams; using one while another thread destroys it is the caller's mistake, as with CUDA.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/op.h"

/* The stream of a handle: CU_STREAM_LEGACY is the current context's legacy stream,
 * CU_STREAM_PER_THREAD the calling thread's in that context; NULL is one or the other
 * (driver_is_per_thread()). Errors are those of context_current() (for the stream's own context, if
 * the program made the stream), and CONTEXT_IS_DESTROYED or INVALID_HANDLE for one that is not
 * alive. */
must_check CUresult stream_find(CUstream handle, struct CUstream_st **ret_stream);

/* Queues the op (or captures it) and returns. The op's content is taken over, on failure too.
 * Errors are those of this call: capture errors, out of memory, the sticky error. */
must_check CUresult stream_submit(struct CUstream_st *stream, struct op *op);

/* Queues the op and waits for it to end; the sticky error if it or one before it failed. On a
 * capturing stream: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid. */
must_check CUresult stream_run(struct CUstream_st *stream, struct op *op);

/* Waits for all that was submitted before. */
must_check CUresult stream_synchronize(struct CUstream_st *stream);

struct CUctx_st *stream_context(const struct CUstream_st *stream);
bool stream_capturing(struct CUstream_st *stream);

/* For calls that CUDA calls potentially unsafe while a stream captures (allocation,
 * synchronisation, legacy copies, ...): CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and
 * then the captures in question have become invalid. */
must_check CUresult stream_capture_check(void);
