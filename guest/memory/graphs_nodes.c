/* SPDX-License-Identifier: Apache-2.0 */
/* Graph nodes that allocate and free memory: the checks when a program adds one. */
#include "guest/credit/charge.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/graphs.h"
#include "guest/process/join.h"
#include "guest/process/state.h"

/* A node of a device that is not the tenant's is refused when it is made. */
static CUresult node_begins(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult r = state_ready();

	if (r != CUDA_SUCCESS || !state_joined())
		return r;
	graphs_begin();
	if (params && params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return memory_refuse_device(params->poolProps.location.id);
	return CUDA_SUCCESS;
}

CUresult hook_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : node_begins(nodeParams);

	return r ? r
		 : driver_call(real(cuGraphAddMemAllocNode)(phGraphNode, hGraph, dependencies,
							    numDependencies, nodeParams));
}

CUresult hook_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				    const CUgraphNode *dependencies, size_t numDependencies,
				    CUdeviceptr dptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : node_begins(NULL);

	return r ? r
		 : driver_call(real(cuGraphAddMemFreeNode)(phGraphNode, hGraph, dependencies,
							   numDependencies, dptr));
}

static CUresult any_node_begins(const CUgraphNodeParams *params, bool nested)
{
	if (nested || !params)
		return CUDA_SUCCESS;
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return node_begins((const CUDA_MEM_ALLOC_NODE_PARAMS *)&params->alloc);
	return params->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? node_begins(NULL) : CUDA_SUCCESS;
}

CUresult hook_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			     const CUgraphNode *dependencies, size_t numDependencies,
			     CUgraphNodeParams *nodeParams)
{
	CUresult r = any_node_begins(nodeParams, driver_nested());

	return r ? r
		 : driver_call(real(cuGraphAddNode)(phGraphNode, hGraph, dependencies,
						    numDependencies, nodeParams));
}

CUresult hook_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies,
				const CUgraphEdgeData *dependencyData, size_t numDependencies,
				CUgraphNodeParams *nodeParams)
{
	CUresult r = any_node_begins(nodeParams, driver_nested());

	return r ? r
		 : driver_call(real(cuGraphAddNode_v2)(phGraphNode, hGraph, dependencies,
						       dependencyData, numDependencies,
						       nodeParams));
}
