/* SPDX-License-Identifier: Apache-2.0 */
/*                                                            sim/cuda/graph_exec.h
 * Executable graphs: a private clone of a graph, the plan made from it, and the end of the last
 * launch. Changing one makes a new plan at the next launch; pending launches keep theirs.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/graph_plan.h"

struct CUgraphExec_st {
	struct CUgraph_st *graph; /* owned */
	uint64_t flags;
	pthread_mutex_t lock;	 /* of what follows: launches may come from several threads */
	struct graph_plan *plan; /* owned reference; NULL: to be made */
	struct stream_mark last; /* owned */
};

/* A living handle? */
bool graph_exec_is(CUgraphExec exec);

/* The content of the executable has changed. */
void graph_exec_changed(CUgraphExec exec);
