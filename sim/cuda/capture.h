/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/cuda/capture.h
 * Stream capture: while a stream captures, what is submitted to it becomes nodes of a graph.
 *
 * A capture begins on one stream and spreads to others through events: a stream that waits for an
 * event recorded in the capture joins it. It ends on the stream on which it began, by when all
 * other streams' nodes must lead back there. A call that capture does not allow makes it invalid:
 * every further call on its streams fails until it is ended, which yields no graph.
 *
 * One lock for all captures; under it graphs are built (sim/cuda/graph.h), nothing else is called.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/op.h"
#include "sim/cuda/stream_core.h"

/* Adds the op as a node after the stream's last one; its content is taken over. The stream
 * captures. */
must_check CUresult capture_add(struct CUstream_st *stream, struct op *op);

/* As capture_add(), for a node that is described in the caller's own terms (graph memory). */
must_check CUresult capture_alloc(struct CUstream_st *stream, size_t bytes,
				  const CUmemPoolProps *props, CUdeviceptr *ret_address);
must_check CUresult capture_free(struct CUstream_st *stream, CUdeviceptr address);

/* A launch of an executable graph: adds a clone of its graph as a child. */
must_check CUresult capture_child(struct CUstream_st *stream, const struct CUgraph_st *graph);

/* cuEventRecord, cuStreamWaitEvent where the stream captures or the event was captured. */
must_check CUresult capture_record(struct CUstream_st *stream, CUevent event, unsigned flags);
must_check CUresult capture_wait(struct CUstream_st *stream, CUevent event, unsigned flags);

/* Work on the legacy stream while a blocking stream of its context captures:
 * STREAM_CAPTURE_IMPLICIT, and the capture is invalid. SUCCESS otherwise. */
must_check CUresult capture_check_legacy(struct CUstream_st *stream);

/* A call that the stream's capture does not allow, if it captures: STREAM_CAPTURE_UNSUPPORTED, and
 * the capture is invalid. */
must_check CUresult capture_forbid(struct CUstream_st *stream);

/* Likewise for any stream of the context. */
must_check CUresult capture_forbid_set(struct stream_set *set);

/* The stream is being destroyed. If a capture began on it, that ends; otherwise its work must still
 * be joined before the capture ends. */
void capture_abandon(struct CUstream_st *stream);
