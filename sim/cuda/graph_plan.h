/* SPDX-License-Identifier: Apache-2.0 */
/*                                                            sim/cuda/graph_plan.h
 * The ops of an executable graph and its children, in one array. A plan never changes, so that
 * pending launches keep the parameters with which they were launched; an updated executable graph
 * gets a new one.
 *
 * Branches are run one after the other, in an order that the edges allow. A conditional node is a
 * step that runs other plans, those of its graphs.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/graph_condition.h"
#include "sim/cuda/op.h"
#include "sim/cuda/stream_core.h"

struct event_record;

struct graph_plan {
	atomic_uint refs;
	struct op *ops;
	size_t n;
	struct CUgraph_st *keep;    /* owned: an empty graph that holds the user objects */
	struct graph_values values; /* owned: the values that a launch has */
};

/* One launch: the plan, and the events' records that belong to it. */
struct graph_launch {
	struct graph_plan *plan;       /* owned reference */
	struct event_record **records; /* owned references: one for each op, or NULL */
	struct graph_values values;    /* owned */
	struct stream_mark previous;   /* owned: the last launch of the same executable graph */
};

/* SUCCESS, OUT_OF_MEMORY, INVALID_VALUE for a circle. One reference. */
must_check CUresult graph_plan_new(const struct CUgraph_st *graph, struct graph_plan **ret_plan);
void graph_plan_unref(struct graph_plan *plan); /* NULL is fine */

/* Takes a reference of its own. NULL: no memory. */
struct graph_launch *graph_launch_new(struct graph_plan *plan);
void graph_launch_free(struct graph_launch *launch); /* NULL is fine */

/* Queues the launch, which is taken over, and makes its events' records known. ret_mark is owned:
 * the end of the launch. */
must_check CUresult graph_launch_submit(struct graph_launch *launch, struct CUstream_st *stream,
					struct stream_mark *ret_mark);

/* On the stream's worker. Stops at the first failure; records are passed all the same. */
must_check CUresult graph_launch_run(struct graph_launch *launch, struct CUstream_st *stream,
				     uint64_t *time_ns);
void graph_launch_drop(struct graph_launch *launch, struct CUstream_st *stream,
		       const uint64_t *time_ns);
