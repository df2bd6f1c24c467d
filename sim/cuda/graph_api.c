/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions for graphs as a whole: making, cloning, walking and connecting.
 */
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph.h"

exported CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	struct CUgraph_st *graph;
	CUresult result = driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	graph = graph_new();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraph = graph;
	return CUDA_SUCCESS;
}

exported CUresult cuGraphDestroy(CUgraph hGraph)
{
	if (!graph_is(hGraph) || hGraph->parent)
		return CUDA_ERROR_INVALID_VALUE;
	graph_free(hGraph);
	return CUDA_SUCCESS;
}

exported CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	if (!phGraphClone || !graph_is(originalGraph))
		return CUDA_ERROR_INVALID_VALUE;
	if (originalGraph->n_memory)
		return CUDA_ERROR_NOT_SUPPORTED;
	return graph_clone(originalGraph, phGraphClone);
}

exported CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
					 CUgraph hClonedGraph)
{
	CUgraphNode found;

	if (!phNode || !graph_node_is(hOriginalNode) || !graph_is(hClonedGraph))
		return CUDA_ERROR_INVALID_VALUE;
	found = graph_find(hClonedGraph, hOriginalNode);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = found;
	return CUDA_SUCCESS;
}

exported CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	if (!graph_node_is(hNode))
		return CUDA_ERROR_INVALID_VALUE;
	if (hNode->graph->n_memory) /* nodes of a graph that allocates can not go */
		return CUDA_ERROR_NOT_SUPPORTED;
	graph_remove(hNode);
	return CUDA_SUCCESS;
}

exported CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	if (!graph_node_is(hNode) || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = hNode->type;
	return CUDA_SUCCESS;
}

/* ---- lists: without a place for them, only their length is told ------------------------------ */

struct answer {
	CUgraphNode *nodes, *others;
	CUgraphEdgeData *data;
	size_t room, n;
};

static void answer_add(struct answer *answer, CUgraphNode node, CUgraphNode other,
		       const CUgraphEdgeData *data)
{
	size_t i = answer->n++;

	if (i >= answer->room)
		return;
	if (answer->nodes)
		answer->nodes[i] = node;
	if (answer->others)
		answer->others[i] = other;
	if (answer->data)
		answer->data[i] = *data;
}

/* Entries beyond the end are cleared, and the true number returned. A list that does not fit is an
 * error if it has data that cannot be given in full. */
static CUresult answer_end(struct answer *answer, size_t *ret_n)
{
	for (size_t i = answer->n; i < answer->room; i++) {
		if (answer->nodes)
			answer->nodes[i] = NULL;
		if (answer->others)
			answer->others[i] = NULL;
	}
	*ret_n = answer->n;
	return CUDA_SUCCESS;
}

exported CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	struct answer answer = {.nodes = nodes};

	if (!graph_is(hGraph) || !numNodes)
		return CUDA_ERROR_INVALID_VALUE;
	answer.room = nodes ? *numNodes : 0;
	list_for_each(link, &hGraph->nodes)
		answer_add(&answer, list_entry(link, struct CUgraphNode_st, link), NULL, NULL);
	return answer_end(&answer, numNodes);
}

exported CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	struct answer answer = {.nodes = rootNodes};

	if (!graph_is(hGraph) || !numRootNodes)
		return CUDA_ERROR_INVALID_VALUE;
	answer.room = rootNodes ? *numRootNodes : 0;
	list_for_each(link, &hGraph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		if (!node->before.n)
			answer_add(&answer, node, NULL, NULL);
	}
	return answer_end(&answer, numRootNodes);
}

/* A plain edge has all zero data. The first versions of these functions do not return edges' data,
 * and fail if there are any that they would hide. */
static bool is_plain(const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;

	return memcmp(data, &plain, sizeof(plain)) == 0;
}

static bool all_plain(const struct graph_links *links)
{
	for (size_t i = 0; i < links->n; i++) {
		if (!is_plain(&links->data[i]))
			return false;
	}
	return true;
}

exported CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				     CUgraphEdgeData *edgeData, size_t *numEdges)
{
	struct answer answer = {.nodes = from, .others = to, .data = edgeData};

	if (!graph_is(hGraph) || !numEdges || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	answer.room = from ? *numEdges : 0;
	list_for_each(link, &hGraph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		if (from && !edgeData && !all_plain(&node->before))
			return CUDA_ERROR_LOSSY_QUERY;
		for (size_t i = 0; i < node->before.n; i++)
			answer_add(&answer, node->before.nodes[i], node, &node->before.data[i]);
	}
	return answer_end(&answer, numEdges);
}

exported CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				  size_t *numEdges)
{
	return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

static CUresult neighbours(const struct graph_links *links, CUgraphNode *nodes,
			   CUgraphEdgeData *data, size_t *n)
{
	struct answer answer = {.nodes = nodes, .data = data, .room = nodes ? *n : 0};

	if (nodes && !data && !all_plain(links))
		return CUDA_ERROR_LOSSY_QUERY;
	for (size_t i = 0; i < links->n; i++)
		answer_add(&answer, links->nodes[i], NULL, &links->data[i]);
	return answer_end(&answer, n);
}

exported CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
						CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	if (!graph_node_is(hNode) || !numDependencies)
		return CUDA_ERROR_INVALID_VALUE;
	return neighbours(&hNode->before, dependencies, edgeData, numDependencies);
}

exported CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
					     size_t *numDependencies)
{
	return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

exported CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
						  CUgraphEdgeData *edgeData,
						  size_t *numDependentNodes)
{
	if (!graph_node_is(hNode) || !numDependentNodes)
		return CUDA_ERROR_INVALID_VALUE;
	return neighbours(&hNode->after, dependentNodes, edgeData, numDependentNodes);
}

exported CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
					       size_t *numDependentNodes)
{
	return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}

/* ---- edges --------------------------------------------------------------------------------- */

static CUresult check_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	if (!graph_is(graph) || (n && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		if (!graph_node_is(from[i]) || !graph_node_is(to[i]) || from[i]->graph != graph ||
		    to[i]->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

exported CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					    const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					    size_t numDependencies)
{
	CUresult result = check_edges(hGraph, from, to, numDependencies);

	for (size_t i = 0; i < numDependencies && result == CUDA_SUCCESS; i++)
		result = graph_connect(from[i], to[i], edgeData ? &edgeData[i] : NULL);
	return result;
}

exported CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
					 const CUgraphNode *to, size_t numDependencies)
{
	return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

exported CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					       const CUgraphNode *to,
					       const CUgraphEdgeData *edgeData,
					       size_t numDependencies)
{
	CUresult result = check_edges(hGraph, from, to, numDependencies);

	(void)edgeData; /* two nodes have one edge at most */
	for (size_t i = 0; i < numDependencies && result == CUDA_SUCCESS; i++)
		result = graph_disconnect(from[i], to[i]);
	return result;
}

exported CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
					    const CUgraphNode *to, size_t numDependencies)
{
	return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}
