/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/cuda/graph.h
 * Graphs as programs build them: nodes that hold an op each, and edges. A plan is made from a
 * graph, and runs (sim/cuda/graph_plan.h).
 *
 * As with CUDA a graph is not protected against its own program's threads: two of them must not
 * use one graph at a time. Captures hold their own lock around it (sim/cuda/capture.h).
 *
 * A clone's nodes stand in the order of the original's and know their originals' numbers
 * (`origin`), which are never reused: that is how a program names a node of a clone or of an
 * executable graph.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/op.h"

/* One side of a node's edges; data[i] belongs to nodes[i]. Both owned. */
struct graph_links {
	CUgraphNode *nodes;
	CUgraphEdgeData *data;
	size_t n, room;
};

/* Attributes of a kernel node that were set; most have none. */
struct graph_attributes {
	uint32_t set; /* bit per CUlaunchAttributeID */
	CUlaunchAttributeValue values[CU_LAUNCH_ATTRIBUTE_MAX];
};

/* Of CONDITIONAL nodes. */
struct graph_condition {
	CUgraphConditionalHandle handle;
	CUgraphConditionalNodeType type;
};

struct CUgraphNode_st {
	struct list link;
	struct CUgraph_st *graph;
	uint64_t id, origin; /* origin 0: not a clone's */
	CUgraphNodeType type;
	bool disabled; /* in an executable graph */
	struct op op;
	struct CUgraph_st *child;   /* owned; GRAPH nodes */
	struct CUgraph_st **bodies; /* owned, with what they point to; CONDITIONAL nodes */
	size_t n_bodies;
	struct graph_condition condition;
	struct graph_attributes *attributes; /* owned, or NULL */
	void **parameters; /* owned: what KernelNodeGetParams points to, or NULL */
	union {		   /* as the program described it */
		CUDA_MEMCPY3D copy;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc; /* accessDescs owned */
	};
	struct graph_links before, after; /* this depends on `before` */
	size_t scratch;			  /* of a traversal of the graph */
};

struct graph_user {
	struct list link;
	CUuserObject object;
	unsigned count;
};

/* A handle of conditional nodes (sim/cuda/graph_condition.h). */
struct graph_handle {
	struct list link;
	CUgraphConditionalHandle handle;
	const struct CUctx_st *context; /* only compared; its nodes are of the same */
	unsigned value;			/* at each beginning of the graph ... */
	bool assigned;			/* ... if this is set */
};

struct CUgraph_st {
	uint64_t id;
	struct list nodes;
	size_t n_nodes;
	struct list users;	       /* struct graph_user */
	struct list handles;	       /* struct graph_handle */
	struct CUgraphNode_st *parent; /* the node whose child it is; NULL: the program's own */
	size_t n_memory;	       /* allocation and free nodes, children's too */
};

/* The graphs within a node: a child, or a conditional node's. */
struct graph_parts {
	struct CUgraph_st *const *graphs;
	size_t n;
};

static inline struct graph_parts graph_parts(const struct CUgraphNode_st *node)
{
	return node->child ? (struct graph_parts){&node->child, 1}
			   : (struct graph_parts){node->bodies, node->n_bodies};
}

/* NULL: no memory. graph_new() registers the handle. */
struct CUgraph_st *graph_new(void);
void graph_free(struct CUgraph_st *graph); /* NULL is fine */

/* A copy with everything in it. SUCCESS, OUT_OF_MEMORY. */
must_check CUresult graph_clone(const struct CUgraph_st *from, struct CUgraph_st **ret_graph);

/* Adds a node and takes the op's content over, on failure too. `data` may be NULL. INVALID_VALUE
 * for a dependency that is of another graph or named twice; OUT_OF_MEMORY. */
must_check CUresult graph_add(struct CUgraph_st *graph, CUgraphNodeType type, struct op *op,
			      const CUgraphNode *before, const CUgraphEdgeData *data, size_t n,
			      CUgraphNode *ret_node);

/* Takes a node out, with its edges. */
void graph_remove(struct CUgraphNode_st *node);

/* INVALID_VALUE for an edge that is there, or leads to itself or out of the graph. */
must_check CUresult graph_connect(struct CUgraphNode_st *from, struct CUgraphNode_st *to,
				  const CUgraphEdgeData *data);
/* INVALID_VALUE where there is no such edge. */
must_check CUresult graph_disconnect(struct CUgraphNode_st *from, struct CUgraphNode_st *to);

/* All nodes in an order in which each comes after what it depends on: scratch becomes the place.
 * *ret_nodes is the caller's to free. INVALID_VALUE where edges form a circle. */
must_check CUresult graph_sort(const struct CUgraph_st *graph, CUgraphNode **ret_nodes);

/* The node of a clone (or of a child graph of it) that stands for `original`; NULL: none. */
CUgraphNode graph_find(const struct CUgraph_st *clone, const struct CUgraphNode_st *original);

/* Whether the program may change the graph: it may not if it is an executable's or a capture's. */
bool graph_is(CUgraph graph);	      /* a living handle */
bool graph_node_is(CUgraphNode node); /* likewise */

/* The node type that stands for an op; EMPTY for one that is never in a graph. */
CUgraphNodeType graph_type_of(enum op_kind kind);

/* ---- user objects (sim/cuda/graph_user.c)
 * -------------------------------------------------------- */

void graph_users_free(struct CUgraph_st *graph);
must_check CUresult graph_users_clone(const struct CUgraph_st *from, struct CUgraph_st *to);

/* `to` then holds what `from` holds instead of its former objects. On failure it is unchanged. */
must_check CUresult graph_users_replace(const struct CUgraph_st *from, struct CUgraph_st *to);
