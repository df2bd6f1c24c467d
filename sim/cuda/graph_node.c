/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that add, read and change one node, in all their forms.
 */
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/graph_content.h"
#include "sim/cuda/graph_form.h"

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

static CUresult add_form(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *before, size_t n,
			 enum graph_form form, const void *given, CUcontext context)
{
	CUgraphNodeParams params;

	if (!graph_form_read(form, given, context, &params))
		return CUDA_ERROR_INVALID_VALUE;
	return add(ret_node, graph, before, NULL, n, &params);
}

static CUresult get_form(CUgraphNode node, enum graph_form form, void *ret_given)
{
	CUgraphNodeParams params;
	CUresult result;

	if (!graph_node_is(node) || node->type != graph_form_type(form))
		return CUDA_ERROR_INVALID_VALUE;
	result = graph_node_params(node, &params);
	if (result == CUDA_SUCCESS && !ret_given)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		graph_form_write(form, &params, ret_given);
	return result;
}

/* A copy or set stays in its context. */
static CUresult set_form(CUgraphNode node, enum graph_form form, const void *given)
{
	CUgraphNodeParams params;

	if (!graph_node_is(node) || !graph_form_read(form, given, node->op.context, &params))
		return CUDA_ERROR_INVALID_VALUE;
	return change(node, &params);
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
	if (result == CUDA_SUCCESS && nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		nodeParams->conditional.phGraph_out = (*phGraphNode)->bodies;
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
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_KERNEL_V2,
			nodeParams, NULL);
}

exported CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_KERNEL_V1,
			nodeParams, NULL);
}

exported CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
						CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	return get_form(hNode, GRAPH_FORM_KERNEL_V2, nodeParams);
}

exported CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode,
					     CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return get_form(hNode, GRAPH_FORM_KERNEL_V1, nodeParams);
}

exported CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
						const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	return set_form(hNode, GRAPH_FORM_KERNEL_V2, nodeParams);
}

exported CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode,
					     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return set_form(hNode, GRAPH_FORM_KERNEL_V1, nodeParams);
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
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_MEMCPY,
			copyParams, ctx);
}

exported CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	return get_form(hNode, GRAPH_FORM_MEMCPY, nodeParams);
}

exported CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	return set_form(hNode, GRAPH_FORM_MEMCPY, nodeParams);
}

exported CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       const CUDA_MEMSET_NODE_PARAMS_v1 *memsetParams,
				       CUcontext ctx)
{
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_MEMSET,
			memsetParams, ctx);
}

exported CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode,
					     CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	return get_form(hNode, GRAPH_FORM_MEMSET, nodeParams);
}

exported CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode,
					     const CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	return set_form(hNode, GRAPH_FORM_MEMSET, nodeParams);
}

/* ---- host functions ------------------------------------------------------------------------ */

exported CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_HOST,
			nodeParams, NULL);
}

exported CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	return get_form(hNode, GRAPH_FORM_HOST, nodeParams);
}

exported CUresult cuGraphHostNodeSetParams(CUgraphNode hNode,
					   const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	return set_form(hNode, GRAPH_FORM_HOST, nodeParams);
}

/* ---- child graphs -------------------------------------------------------------------------- */

exported CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   CUgraph childGraph)
{
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_CHILD,
			&childGraph, NULL);
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
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_RECORD,
			&event, NULL);
}

exported CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					  const CUgraphNode *dependencies, size_t numDependencies,
					  CUevent event)
{
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_WAIT, &event,
			NULL);
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
	return set_form(hNode, GRAPH_FORM_RECORD, &event);
}

exported CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_form(hNode, GRAPH_FORM_WAIT, &event);
}

/* ---- words of memory ----------------------------------------------------------------------- */

exported CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_MEM_OP,
			nodeParams, NULL);
}

exported CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
						 CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	return get_form(hNode, GRAPH_FORM_MEM_OP, nodeParams_out);
}

exported CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
						 const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return set_form(hNode, GRAPH_FORM_MEM_OP, nodeParams);
}

/* ---- memory -------------------------------------------------------------------------------- */

exported CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					 const CUgraphNode *dependencies, size_t numDependencies,
					 CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;
	CUresult result;

	if (!graph_form_read(GRAPH_FORM_ALLOC, nodeParams, NULL, &params))
		return CUDA_ERROR_INVALID_VALUE;
	result = add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
	if (result == CUDA_SUCCESS)
		nodeParams->dptr = params.alloc.dptr;
	return result;
}

exported CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
					       CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	return get_form(hNode, GRAPH_FORM_ALLOC, params_out);
}

exported CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					const CUgraphNode *dependencies, size_t numDependencies,
					CUdeviceptr dptr)
{
	return add_form(phGraphNode, hGraph, dependencies, numDependencies, GRAPH_FORM_FREE, &dptr,
			NULL);
}

exported CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	return get_form(hNode, GRAPH_FORM_FREE, dptr_out);
}
