/* SPDX-License-Identifier: Apache-2.0 */
/*                                                       sim/cuda/graph_condition.h
 * Conditional nodes: a value that kernels set (cudaGraphSetConditional), and graphs that are run
 * according to it: if, while, switch.
 *
 * A handle belongs to the graph for which it was created, and is for nodes of that graph and of
 * those within it. Its clones have the same handle, since kernels get it as a plain argument; the
 * value is each launch's own. Where the program asks for it, the value is set whenever the graph
 * begins; otherwise it is 0 at first ("undefined", as CUDA has it).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/graph.h"

struct graph_plan;
struct stream_set;

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Makes the node's graphs, all of them empty. INVALID_VALUE for a handle that the node cannot use
 * (of another graph, or another context) or a size that its type does not have, INVALID_CONTEXT
 * where none is named, OUT_OF_MEMORY. */
must_check CUresult graph_condition_fill(struct CUgraphNode_st *node,
					 const CUDA_CONDITIONAL_NODE_PARAMS *params);

/* For the handles of a graph. */
must_check CUresult graph_conditions_clone(const struct CUgraph_st *from, struct CUgraph_st *to);
void graph_conditions_free(struct CUgraph_st *graph);
size_t graph_conditions_count(const struct CUgraph_st *graph);

/* As graph_users_replace(). */
must_check CUresult graph_conditions_replace(const struct CUgraph_st *from, struct CUgraph_st *to);

/* Can it be run? SUCCESS; NODE_OPERATION_NOT_SUPPORTED where a conditional node's graph holds what
 * only the host can do; CONDITIONAL_HANDLE_UNUSED. */
CUgraphInstantiateResult graph_conditions_check(const struct CUgraph_st *graph);

/* ---- plans (sim/cuda/graph_plan.h)
 * ---------------------------------------------------------------- */

/* A step of a plan that decides what comes next. */
struct graph_control {
	bool sets; /* sets the value to `value`; otherwise tests it */
	CUgraphConditionalHandle handle;
	unsigned value;
	CUgraphConditionalNodeType type;
	struct graph_plan **bodies; /* owned references */
	size_t n;
};

/* The steps at the beginning of a graph. NULL with *ret_n 0: none. OUT_OF_MEMORY. */
must_check CUresult graph_control_of_handle(const struct graph_handle *handle,
					    struct graph_control **ret_control);

/* The step of a conditional node. */
must_check CUresult graph_control_of_node(const struct CUgraphNode_st *node,
					  struct graph_control **ret_control);
void graph_control_free(struct graph_control *control); /* NULL is fine */

/* ---- launches -------------------------------------------------------------------------------- */

struct graph_value {
	CUgraphConditionalHandle handle;
	atomic_uint value;
};

/* The values of one launch. */
struct graph_values {
	struct graph_value *at; /* owned */
	size_t n;
};

/* Of all handles in the graph and those within it. OUT_OF_MEMORY. */
must_check CUresult graph_values_of(const struct CUgraph_st *graph,
				    struct graph_values *ret_values);
must_check CUresult graph_values_clone(const struct graph_values *from,
				       struct graph_values *ret_values);
void graph_values_free(struct graph_values *values);

/* Which launch the calling thread is running; NULL for none. */
void graph_values_use(struct graph_values *values);
struct graph_values *graph_values_used(void);

/* A kernel sets a value. Without effect if the handle is not the launch's, or there is no launch.
 */
void graph_values_set(struct graph_values *values, CUgraphConditionalHandle handle, unsigned value);
unsigned graph_values_get(const struct graph_values *values, CUgraphConditionalHandle handle);
