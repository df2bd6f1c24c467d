/* SPDX-License-Identifier: Apache-2.0 */
/*                                                         sim/cuda/capture_core.h
 * The structures of captures; for sim/cuda/capture.c, which keeps them, and sim/cuda/capture_api.c,
 * the driver's functions that begin, end and inspect one. Everything here is under capture_lock().
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/stream_core.h"

/* A stream's part in a capture: its next node depends on the tips. */
struct capture_member {
	struct list link;
	struct capture *capture;
	struct CUstream_st
		*stream;       /* owned reference; NULL: destroyed before its work was joined */
	CUgraphNode *tips;     /* owned */
	CUgraphEdgeData *data; /* owned; one for each tip */
	size_t n_tips;
};

struct capture {
	struct list link;
	uint64_t id;
	CUstreamCaptureMode mode;
	const void *thread;
	bool broken;
	bool borrowed; /* the graph is the program's: BeginCaptureToGraph */
	struct CUgraph_st *graph;
	struct CUstream_st *origin; /* a member's */
	struct list members;
};

void capture_lock(void);
void capture_unlock(void);

/* Names the calling thread. */
const void *capture_thread(void);

/* The calling thread's mode, set by cuThreadExchangeStreamCaptureMode(). */
CUstreamCaptureMode *capture_thread_mode(void);

/* The stream's part; NULL where it does not capture. */
struct capture_member *capture_member_of(struct CUstream_st *stream);

/* Begins on a stream that does not capture. `graph` NULL: a new one. NULL: no memory. */
struct capture_member *capture_begin(struct CUstream_st *stream, CUstreamCaptureMode mode,
				     CUgraph graph);

/* All streams leave; the graph goes too, unless it was taken or is the program's. */
void capture_end(struct capture *capture);

/* Replaces the tips; takes the arrays over. */
void capture_set_tips(struct capture_member *member, CUgraphNode *tips, CUgraphEdgeData *data,
		      size_t n);

/* Adds those that are not there yet. `data` may be NULL. SUCCESS, OUT_OF_MEMORY. */
must_check CUresult capture_add_tips(struct capture_member *member, const CUgraphNode *tips,
				     const CUgraphEdgeData *data, size_t n);
