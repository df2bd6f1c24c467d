/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that change an executable graph: one node's parameters, whether a node
 * takes part, or everything at once from another graph of the same shape.
 */
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/graph_condition.h"
#include "sim/cuda/graph_content.h"
#include "sim/cuda/graph_exec.h"
#include "sim/cuda/graph_form.h"

/* The executable's own node. `node` may have been destroyed with its graph: only its address and
 * number are used, and only while it is alive. */
static CUgraphNode own_node(CUgraphExec exec, CUgraphNode node)
{
	if (!graph_exec_is(exec) || !graph_node_is(node))
		return NULL;
	return graph_find(exec->graph, node);
}

static CUresult change(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	struct graph_content content;
	CUgraphNode own = own_node(exec, node);
	CUresult result;

	if (!own || own->type != params->type)
		return CUDA_ERROR_INVALID_VALUE;
	result = graph_describe(params, &content);
	if (result == CUDA_SUCCESS)
		result = graph_content_replace(&content, own);
	graph_exec_changed(exec);
	return result;
}

static CUresult change_form(CUgraphExec exec, CUgraphNode node, enum graph_form form,
			    const void *given, CUcontext context)
{
	CUgraphNodeParams params;

	if (!graph_form_read(form, given, context, &params))
		return CUDA_ERROR_INVALID_VALUE;
	return change(exec, node, &params);
}

exported CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					   CUgraphNodeParams *nodeParams)
{
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode,
							  nodeParams->graph.graph);
	return change(hGraphExec, hNode, nodeParams);
}

exported CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
						    const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_KERNEL_V2, nodeParams, NULL);
}

exported CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						 const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_KERNEL_V1, nodeParams, NULL);
}

exported CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						 const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_MEMCPY, copyParams, ctx);
}

exported CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						 const CUDA_MEMSET_NODE_PARAMS_v1 *memsetParams,
						 CUcontext ctx)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_MEMSET, memsetParams, ctx);
}

exported CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					       const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_HOST, nodeParams, NULL);
}

exported CUresult cuGraphExecBatchMemOpNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_MEM_OP, nodeParams, NULL);
}

exported CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
						     CUevent event)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_RECORD, &event, NULL);
}

exported CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
						   CUevent event)
{
	return change_form(hGraphExec, hNode, GRAPH_FORM_WAIT, &event, NULL);
}

exported CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
					unsigned int isEnabled)
{
	CUgraphNode own = own_node(hGraphExec, hNode);

	if (!own ||
	    (own->type != CU_GRAPH_NODE_TYPE_KERNEL && own->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
	     own->type != CU_GRAPH_NODE_TYPE_MEMSET))
		return CUDA_ERROR_INVALID_VALUE;
	own->disabled = !isEnabled;
	graph_exec_changed(hGraphExec);
	return CUDA_SUCCESS;
}

exported CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
					unsigned int *isEnabled)
{
	CUgraphNode own = own_node(hGraphExec, hNode);

	if (!own || !isEnabled)
		return CUDA_ERROR_INVALID_VALUE;
	*isEnabled = !own->disabled;
	return CUDA_SUCCESS;
}

/* ---- everything at once -------------------------------------------------------------------- */

static bool same_edges(const struct CUgraphNode_st *a, const struct CUgraphNode_st *b)
{
	if (a->before.n != b->before.n)
		return false;
	for (size_t i = 0; i < a->before.n; i++) {
		if (a->before.nodes[i]->scratch != b->before.nodes[i]->scratch ||
		    memcmp(&a->before.data[i], &b->before.data[i], sizeof(a->before.data[i])) != 0)
			return false;
	}
	return true;
}

static void number(struct CUgraph_st *graph)
{
	size_t place = 0;

	list_for_each(link, &graph->nodes) list_entry(link, struct CUgraphNode_st, link)->scratch =
		place++;
}

static void compare(struct CUgraph_st *own, struct CUgraph_st *wanted,
		    CUgraphExecUpdateResultInfo *info);

/* Both have the same number: graph_content_fits(). */
static void compare_parts(struct CUgraphNode_st *mine, struct CUgraphNode_st *node,
			  CUgraphExecUpdateResultInfo *info)
{
	struct graph_parts own = graph_parts(mine), wanted = graph_parts(node);

	for (size_t i = 0; i < own.n && info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++)
		compare(own.graphs[i], wanted.graphs[i], info);
}

/* Nodes are paired in the order of their creation. */
static void compare(struct CUgraph_st *own, struct CUgraph_st *wanted,
		    CUgraphExecUpdateResultInfo *info)
{
	struct list *at = own->nodes.next;

	if (own->n_nodes != wanted->n_nodes ||
	    graph_conditions_count(own) != graph_conditions_count(wanted)) {
		info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return;
	}
	number(own);
	number(wanted);
	list_for_each(link, &wanted->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);
		struct CUgraphNode_st *mine = list_entry(at, struct CUgraphNode_st, link);

		at = at->next;
		info->result = graph_content_fits(mine, node);
		if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS && !same_edges(mine, node))
			info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
			info->errorNode = node;
		else
			compare_parts(mine, node, info);
		if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
			return;
	}
}

static CUresult take_over(struct CUgraph_st *own, struct CUgraph_st *wanted);

static CUresult take_over_parts(struct CUgraphNode_st *mine, struct CUgraphNode_st *node)
{
	struct graph_parts own = graph_parts(mine), wanted = graph_parts(node);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < own.n && result == CUDA_SUCCESS; i++)
		result = take_over(own.graphs[i], wanted.graphs[i]);
	return result;
}

/* The nodes keep their origins, by which the program continues to name them. The graph's user
 * objects are replaced, too; pending launches hold the old ones themselves. */
static CUresult take_over(struct CUgraph_st *own, struct CUgraph_st *wanted)
{
	struct list *at = own->nodes.next;
	CUresult result = CUDA_SUCCESS;

	list_for_each(link, &wanted->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);
		struct CUgraphNode_st *mine = list_entry(at, struct CUgraphNode_st, link);
		struct op op;

		at = at->next;
		if (graph_parts(node).n) {
			mine->condition = node->condition;
			result = take_over_parts(mine, node);
		} else {
			result = op_clone(&node->op, &op);
			if (result == CUDA_SUCCESS) {
				op_done(&mine->op);
				op_move(&mine->op, &op);
			}
		}
		if (result != CUDA_SUCCESS)
			return result;
	}
	result = graph_conditions_replace(wanted, own);
	return result == CUDA_SUCCESS ? graph_users_replace(wanted, own) : result;
}

static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	CUresult result;

	memset(info, 0, sizeof(*info));
	compare(exec->graph, graph, info);
	if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	result = take_over(exec->graph, graph);
	graph_exec_changed(exec);
	return result;
}

exported CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
				       CUgraphExecUpdateResultInfo *resultInfo)
{
	if (!graph_exec_is(hGraphExec) || !graph_is(hGraph) || !resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	return update(hGraphExec, hGraph, resultInfo);
}

exported CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
				    CUgraphNode *hErrorNode_out,
				    CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info;
	CUresult result;

	if (!graph_exec_is(hGraphExec) || !graph_is(hGraph) || !updateResult_out)
		return CUDA_ERROR_INVALID_VALUE;
	result = update(hGraphExec, hGraph, &info);
	*updateResult_out = info.result;
	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	return result;
}

exported CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						     CUgraph childGraph)
{
	CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
	CUgraphNode own = own_node(hGraphExec, hNode);
	CUresult result;

	if (!own || !own->child || !graph_is(childGraph))
		return CUDA_ERROR_INVALID_VALUE;
	compare(own->child, childGraph, &info);
	if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	result = take_over(own->child, childGraph);
	graph_exec_changed(hGraphExec);
	return result;
}
