/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/graph_device.h"

/* Only a node that the program described can have arrays. The device reaches host memory that is
 * registered with the driver. */
static bool device_can_copy(const struct CUgraphNode_st *node)
{
	return node->copy.srcMemoryType != CU_MEMORYTYPE_ARRAY &&
	       node->copy.dstMemoryType != CU_MEMORYTYPE_ARRAY && !copy_is_pageable(&node->op.copy);
}

static bool device_can_do(const struct CUgraphNode_st *node)
{
	if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		return device_can_copy(node);
	return node->type == CU_GRAPH_NODE_TYPE_KERNEL || node->type == CU_GRAPH_NODE_TYPE_MEMSET ||
	       node->type == CU_GRAPH_NODE_TYPE_GRAPH;
}

static CUgraphInstantiateResult check(const struct CUgraph_st *graph, CUcontext *context)
{
	CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;

	list_for_each(link, &graph->nodes)
	{
		const struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		if (result != CUDA_GRAPH_INSTANTIATE_SUCCESS)
			break;
		if (!device_can_do(node))
			return CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
		if (node->op.context && *context && node->op.context != *context)
			return CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
		if (node->op.context)
			*context = node->op.context;
		if (node->child)
			result = check(node->child, context);
	}
	return result;
}

CUgraphInstantiateResult graph_device_check(const struct CUgraph_st *graph)
{
	CUcontext context = NULL;

	return check(graph, &context);
}
