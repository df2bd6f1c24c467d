/* SPDX-License-Identifier: Apache-2.0 */
/*                                                            sim/cuda/stream_set.h
 * All streams of a context: made with it, waited for, and ended with it.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/types.h"

struct stream_set;

/* NULL: no memory. The set does not hold the context; the context holds the set. */
struct stream_set *stream_set_new(CUcontext context);

/* The set of a green context. Its streams and those of the context wait for each other only if the
 * whole context is waited for. It ends with the context's own set at the latest. NULL: no memory.
 */
struct stream_set *stream_set_new_green(CUcontext context, CUgreenCtx green);

/* The green context is gone: its default streams end. Streams that the program made continue. */
void stream_set_retire(struct stream_set *set);

/* Waits for pending work, ends the threads, and invalidates the streams and their handles. A wait
 * for a value in memory lasts until it is written; one for an event of another context or process
 * is given up, and a kernel that polls memory fails (both are our choice: not tried on a GPU). NULL
 * is fine. */
void stream_set_free(struct stream_set *set);

/* cuCtxSynchronize: everything submitted so far to any stream of the set, and of the context's own
 * set also to those of its green contexts. Answers the sticky error;
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while one of them captures. */
must_check CUresult stream_set_synchronize(struct stream_set *set);

/* Waits for everything submitted so far, whether a stream captures or not: before memory or code
 * goes away. NULL is fine. */
void stream_set_drain(struct stream_set *set);
