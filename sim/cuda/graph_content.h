/* SPDX-License-Identifier: Apache-2.0 */
/*                                                         sim/cuda/graph_content.h
 * The content of a node, made from a program's description. All the driver's forms of node
 * parameters are converted to CUgraphNodeParams first; adding a node, changing one and changing one
 * of an executable graph then differ only in where the content goes.
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/graph.h"

struct graph_content {
	CUgraphNodeType type;
	struct op op;
	CUDA_MEMCPY3D copy;			/* MEMCPY */
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;	/* MEM_ALLOC; accessDescs owned */
	struct CUgraph_st *child;		/* GRAPH; owned */
	CUDA_CONDITIONAL_NODE_PARAMS condition; /* CONDITIONAL */
};

/* Checks as the driver does and copies all that is pointed to; a MEM_ALLOC description gets its
 * address (params->alloc.dptr). SUCCESS, INVALID_VALUE, INVALID_HANDLE, NOT_SUPPORTED (external
 * semaphores), OUT_OF_MEMORY, or what a launch would answer. */
must_check CUresult graph_describe(CUgraphNodeParams *params, struct graph_content *ret_content);

/* Makes a node of it; taken over, on failure too. */
must_check CUresult graph_content_add(struct graph_content *content, struct CUgraph_st *graph,
				      const CUgraphNode *before, const CUgraphEdgeData *data,
				      size_t n, CUgraphNode *ret_node);

/* Replaces the node's content; taken over, on failure too. INVALID_VALUE if the type differs. */
must_check CUresult graph_content_replace(struct graph_content *content,
					  struct CUgraphNode_st *node);

/* The reverse: the node's content in the driver's form. Pointers are the node's and stay valid
 * until it is changed. OUT_OF_MEMORY. */
must_check CUresult graph_node_params(struct CUgraphNode_st *node, CUgraphNodeParams *ret_params);

/* Whether an executable's node may take over what another node does, as cuGraphExecUpdate sees it:
 * SUCCESS, or the reason why not. */
CUgraphExecUpdateResult graph_content_fits(const struct CUgraphNode_st *node,
					   const struct CUgraphNode_st *wanted);
