/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that add, read and change one node, in all their forms.
 */
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/graph_content.h"

/* The forms differ in size only: what a shorter one lacks is zero. `member` is the place in the
 * parameters that the form is. */
static void fill(CUgraphNodeParams *params, CUgraphNodeType type, void *member, const void *form,
		 size_t bytes)
{
	memset(params, 0, sizeof(*params));
	params->type = type;
	memcpy(member, form, bytes);
}

static CUresult add(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *before,
		    const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *params)
{
	struct graph_content content;
	CUresult result;

	if (!ret_node || !graph_is(graph) || (n && !before))
		return CUDA_ERROR_INVALID_VALUE;
	result = graph_describe(params, &content);
	if (result != CUDA_SUCCESS)
		return result;
	return graph_content_add(&content, graph, before, data, n, ret_node);
}

static CUresult change(CUgraphNode node, CUgraphNodeParams *params)
{
	struct graph_content content;
	CUresult result;

	if (!graph_node_is(node))
		return CUDA_ERROR_INVALID_VALUE;
	result = graph_describe(params, &content);
	return result == CUDA_SUCCESS ? graph_content_replace(&content, node) : result;
}

static CUresult inspect(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *ret_params)
{
	if (!graph_node_is(node) || node->type != type)
		return CUDA_ERROR_INVALID_VALUE;
	return graph_node_params(node, ret_params);
}

/* ---- any node ------------------------------------------------------------------------------ */

exported CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				    const CUgraphNode *dependencies,
				    const CUgraphEdgeData *dependencyData, size_t numDependencies,
				    CUgraphNodeParams *nodeParams)
{
	CUresult result;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	result =
		add(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
	/* The program's graph was copied; what belongs to the node is the copy. */
	if (result == CUDA_SUCCESS && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
		nodeParams->graph.graph = (*phGraphNode)->child;
	return result;
}

exported CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				 const CUgraphNode *dependencies, size_t numDependencies,
				 CUgraphNodeParams *nodeParams)
{
	return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
				 nodeParams);
}

exported CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return nodeParams ? change(hNode, nodeParams) : CUDA_ERROR_INVALID_VALUE;
}

exported CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_EMPTY;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

/* ---- kernels ------------------------------------------------------------------------------- */

exported CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
					  const CUgraphNode *dependencies, size_t numDependencies,
					  const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_KERNEL, &params.kernel, nodeParams, sizeof(*nodeParams));
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_KERNEL, &params.kernel, nodeParams, sizeof(*nodeParams));
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
						CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &params);

	if (result == CUDA_SUCCESS && !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		memcpy(nodeParams, &params.kernel, sizeof(*nodeParams));
	return result;
}

exported CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode,
					     CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &params);

	if (result == CUDA_SUCCESS && !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		memcpy(nodeParams, &params.kernel, sizeof(*nodeParams));
	return result;
}

exported CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
						const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_KERNEL, &params.kernel, nodeParams, sizeof(*nodeParams));
	return change(hNode, &params);
}

exported CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode,
					     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_KERNEL, &params.kernel, nodeParams, sizeof(*nodeParams));
	return change(hNode, &params);
}

static bool kernel_attribute_known(CUkernelNodeAttrID attr)
{
	return attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
	       attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ||
	       attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
	       attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE ||
	       attr == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
	       attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
	       attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN ||
	       attr == CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
}

static bool is_kernel(CUgraphNode node)
{
	return graph_node_is(node) && node->type == CU_GRAPH_NODE_TYPE_KERNEL;
}

exported CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
						CUkernelNodeAttrValue_v1 *value_out)
{
	if (!is_kernel(hNode) || !value_out || !kernel_attribute_known(attr))
		return CUDA_ERROR_INVALID_VALUE;
	memset(value_out, 0, sizeof(*value_out));
	if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		value_out->cooperative = hNode->op.kernel.cooperative;
	else if (hNode->attributes && hNode->attributes->set & 1u << attr)
		*value_out = hNode->attributes->values[attr];
	return CUDA_SUCCESS;
}

exported CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
						const CUkernelNodeAttrValue_v1 *value)
{
	if (!is_kernel(hNode) || !value || !kernel_attribute_known(attr))
		return CUDA_ERROR_INVALID_VALUE;
	if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
	    (uint64_t)value->clusterDim.x * value->clusterDim.y * value->clusterDim.z > 1)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
		hNode->op.kernel.cooperative = value->cooperative != 0;
		return CUDA_SUCCESS;
	}
	if (!hNode->attributes)
		hNode->attributes = calloc(1, sizeof(*hNode->attributes));
	if (!hNode->attributes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	hNode->attributes->set |= 1u << attr;
	hNode->attributes->values[attr] = *value;
	return CUDA_SUCCESS;
}

exported CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	if (!is_kernel(dst) || !is_kernel(src))
		return CUDA_ERROR_INVALID_VALUE;
	if (dst == src)
		return CUDA_SUCCESS;
	if (src->attributes && !dst->attributes)
		dst->attributes = malloc(sizeof(*dst->attributes));
	if (src->attributes && !dst->attributes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (src->attributes)
		*dst->attributes = *src->attributes;
	else
		free(take(dst->attributes));
	dst->op.kernel.cooperative = src->op.kernel.cooperative;
	return CUDA_SUCCESS;
}

/* ---- copies and sets ----------------------------------------------------------------------- */

exported CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams params;

	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_MEMCPY, &params.memcpy.copyParams, copyParams,
	     sizeof(*copyParams));
	params.memcpy.copyCtx = ctx;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &params);

	if (result == CUDA_SUCCESS && !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*nodeParams = params.memcpy.copyParams;
	return result;
}

exported CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams || !graph_node_is(hNode))
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_MEMCPY, &params.memcpy.copyParams, nodeParams,
	     sizeof(*nodeParams));
	params.memcpy.copyCtx = hNode->op.context;
	return change(hNode, &params);
}

exported CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       const CUDA_MEMSET_NODE_PARAMS_v1 *memsetParams,
				       CUcontext ctx)
{
	CUgraphNodeParams params;

	if (!memsetParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_MEMSET, &params.memset, memsetParams,
	     sizeof(*memsetParams));
	params.memset.ctx = ctx;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode,
					     CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &params);

	if (result == CUDA_SUCCESS && !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		memcpy(nodeParams, &params.memset, sizeof(*nodeParams));
	return result;
}

exported CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode,
					     const CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams || !graph_node_is(hNode))
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_MEMSET, &params.memset, nodeParams, sizeof(*nodeParams));
	params.memset.ctx = hNode->op.context;
	return change(hNode, &params);
}

/* ---- host functions ------------------------------------------------------------------------ */

exported CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_HOST, &params.host, nodeParams, sizeof(*nodeParams));
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_HOST, &params);

	if (result == CUDA_SUCCESS && !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		memcpy(nodeParams, &params.host, sizeof(*nodeParams));
	return result;
}

exported CUresult cuGraphHostNodeSetParams(CUgraphNode hNode,
					   const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_HOST, &params.host, nodeParams, sizeof(*nodeParams));
	return change(hNode, &params);
}

/* ---- child graphs -------------------------------------------------------------------------- */

exported CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   CUgraph childGraph)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_GRAPH;
	params.graph.graph = childGraph;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	if (!phGraph || !graph_node_is(hNode) || hNode->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = hNode->child;
	return CUDA_SUCCESS;
}

/* ---- events -------------------------------------------------------------------------------- */

exported CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					    const CUgraphNode *dependencies, size_t numDependencies,
					    CUevent event)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	params.eventRecord.event = event;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					  const CUgraphNode *dependencies, size_t numDependencies,
					  CUevent event)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	params.eventWait.event = event;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

static CUresult event_of(CUgraphNode node, CUgraphNodeType type, CUevent *ret_event)
{
	if (!ret_event || !graph_node_is(node) || node->type != type)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_event = node->op.event.event;
	return CUDA_SUCCESS;
}

exported CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return event_of(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

exported CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return event_of(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

exported CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	params.eventRecord.event = event;
	return change(hNode, &params);
}

exported CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	params.eventWait.event = event;
	return change(hNode, &params);
}

/* ---- words of memory ----------------------------------------------------------------------- */

exported CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &params.memOp, nodeParams,
	     sizeof(*nodeParams));
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
						 CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &params);

	if (result == CUDA_SUCCESS && !nodeParams_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		memcpy(nodeParams_out, &params.memOp, sizeof(*nodeParams_out));
	return result;
}

exported CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
						 const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &params.memOp, nodeParams,
	     sizeof(*nodeParams));
	return change(hNode, &params);
}

/* ---- memory -------------------------------------------------------------------------------- */

exported CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					 const CUgraphNode *dependencies, size_t numDependencies,
					 CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	fill(&params, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &params.alloc, nodeParams, sizeof(*nodeParams));
	result = add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
	if (result == CUDA_SUCCESS)
		nodeParams->dptr = params.alloc.dptr;
	return result;
}

exported CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
					       CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &params);

	if (result == CUDA_SUCCESS && !params_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		memcpy(params_out, &params.alloc, sizeof(*params_out));
	return result;
}

exported CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					const CUgraphNode *dependencies, size_t numDependencies,
					CUdeviceptr dptr)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
	params.free.dptr = dptr;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

exported CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	CUgraphNodeParams params;
	CUresult result = inspect(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &params);

	if (result == CUDA_SUCCESS && !dptr_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*dptr_out = params.free.dptr;
	return result;
}
