/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/graph.h"

#include <stdatomic.h>
#include <string.h>

#include "sim/cuda/graph_condition.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/handle.h"

static uint64_t next_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

bool graph_is(CUgraph graph)
{
	return handle_is(HANDLE_GRAPH, graph);
}

bool graph_node_is(CUgraphNode node)
{
	return handle_is(HANDLE_GRAPH_NODE, node);
}

struct CUgraph_st *graph_new(void)
{
	struct CUgraph_st *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	graph->id = next_id();
	list_init(&graph->nodes);
	list_init(&graph->users);
	list_init(&graph->handles);
	if (handle_add(HANDLE_GRAPH, graph) < 0) {
		free(graph);
		return NULL;
	}
	return graph;
}

CUgraphNodeType graph_type_of(enum op_kind kind)
{
	static const CUgraphNodeType types[OP_CONTROL + 1] = {
		[OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[OP_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
		[OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
		[OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		[OP_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[OP_MEMOP] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[OP_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		[OP_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
	};

	/* The value 0 is a kernel's. */
	return kind == OP_KERNEL || types[kind] ? types[kind] : CU_GRAPH_NODE_TYPE_EMPTY;
}

/* ---- edges --------------------------------------------------------------------------------- */

static size_t links_find(const struct graph_links *links, const struct CUgraphNode_st *node)
{
	size_t i = 0;

	while (i < links->n && links->nodes[i] != node)
		i++;
	return i;
}

static CUresult links_reserve(struct graph_links *links)
{
	size_t room = links->room ? 2 * links->room : 4;
	CUgraphEdgeData *data;
	CUgraphNode *nodes;

	if (links->n < links->room)
		return CUDA_SUCCESS;
	nodes = realloc(links->nodes, room * sizeof(*nodes));
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	links->nodes = nodes;
	data = realloc(links->data, room * sizeof(*data));
	if (!data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	links->data = data;
	links->room = room;
	return CUDA_SUCCESS;
}

static void links_add(struct graph_links *links, CUgraphNode node, const CUgraphEdgeData *data)
{
	links->nodes[links->n] = node;
	links->data[links->n] = data ? *data : (CUgraphEdgeData){0};
	links->n++;
}

/* Keeps the order: programs see it. */
static void links_remove(struct graph_links *links, const struct CUgraphNode_st *node)
{
	size_t i = links_find(links, node), rest;

	if (i == links->n)
		return;
	rest = links->n - i - 1;
	memmove(&links->nodes[i], &links->nodes[i + 1], rest * sizeof(*links->nodes));
	memmove(&links->data[i], &links->data[i + 1], rest * sizeof(*links->data));
	links->n--;
}

CUresult graph_connect(struct CUgraphNode_st *from, struct CUgraphNode_st *to,
		       const CUgraphEdgeData *data)
{
	CUresult result;

	if (from == to || from->graph != to->graph || links_find(&to->before, from) < to->before.n)
		return CUDA_ERROR_INVALID_VALUE;
	result = links_reserve(&from->after);
	if (result == CUDA_SUCCESS)
		result = links_reserve(&to->before);
	if (result != CUDA_SUCCESS)
		return result;
	links_add(&from->after, to, data);
	links_add(&to->before, from, data);
	return CUDA_SUCCESS;
}

CUresult graph_disconnect(struct CUgraphNode_st *from, struct CUgraphNode_st *to)
{
	if (from->graph != to->graph || links_find(&to->before, from) == to->before.n)
		return CUDA_ERROR_INVALID_VALUE;
	links_remove(&to->before, from);
	links_remove(&from->after, to);
	return CUDA_SUCCESS;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static bool is_memory(const struct CUgraphNode_st *node)
{
	return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	       node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

static void node_free(struct CUgraphNode_st *node)
{
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		free((void *)node->alloc.accessDescs);
	op_done(&node->op);
	graph_free(node->child);
	for (size_t i = 0; i < node->n_bodies; i++)
		graph_free(node->bodies[i]);
	free(node->bodies);
	free(node->attributes);
	free(node->parameters);
	free(node->before.nodes);
	free(node->before.data);
	free(node->after.nodes);
	free(node->after.data);
	free(node);
}

static struct CUgraphNode_st *node_new(struct CUgraph_st *graph, CUgraphNodeType type)
{
	struct CUgraphNode_st *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	if (handle_add(HANDLE_GRAPH_NODE, node) < 0) {
		free(node);
		return NULL;
	}
	node->id = next_id();
	node->type = type;
	node->graph = graph;
	list_append(&graph->nodes, &node->link);
	graph->n_nodes++;
	if (is_memory(node))
		graph->n_memory++;
	return node;
}

void graph_remove(struct CUgraphNode_st *node)
{
	for (size_t i = 0; i < node->before.n; i++)
		links_remove(&node->before.nodes[i]->after, node);
	for (size_t i = 0; i < node->after.n; i++)
		links_remove(&node->after.nodes[i]->before, node);
	handle_remove(HANDLE_GRAPH_NODE, node);
	list_remove(&node->link);
	node->graph->n_nodes--;
	if (is_memory(node))
		node->graph->n_memory--;
	node_free(node);
}

CUresult graph_add(struct CUgraph_st *graph, CUgraphNodeType type, struct op *op,
		   const CUgraphNode *before, const CUgraphEdgeData *data, size_t n,
		   CUgraphNode *ret_node)
{
	struct CUgraphNode_st *node;
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		if (!graph_node_is(before[i]) || before[i]->graph != graph)
			result = CUDA_ERROR_INVALID_VALUE;
	}
	node = result == CUDA_SUCCESS ? node_new(graph, type) : NULL;
	if (!node) {
		op_done(op);
		return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
	}
	op_move(&node->op, op);
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = graph_connect(before[i], node, data ? &data[i] : NULL);
	if (result != CUDA_SUCCESS) {
		graph_remove(node);
		return result;
	}
	*ret_node = node;
	return CUDA_SUCCESS;
}

void graph_free(struct CUgraph_st *graph)
{
	if (!graph)
		return;
	handle_remove(HANDLE_GRAPH, graph);
	list_for_each(link, &graph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		handle_remove(HANDLE_GRAPH_NODE, node);
		node_free(node);
	}
	graph_users_free(graph);
	graph_conditions_free(graph);
	free(graph);
}

/* ---- clones -------------------------------------------------------------------------------- */

static CUresult clone_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *from, CUDA_MEM_ALLOC_NODE_PARAMS *to)
{
	size_t bytes = from->accessDescCount * sizeof(*from->accessDescs);
	CUmemAccessDesc *descs = bytes ? malloc(bytes) : NULL;

	if (bytes && !descs)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes)
		memcpy(descs, from->accessDescs, bytes);
	*to = *from;
	to->accessDescs = descs;
	return CUDA_SUCCESS;
}

static CUresult clone_bodies(const struct CUgraphNode_st *from, struct CUgraphNode_st *to)
{
	CUresult result = CUDA_SUCCESS;

	to->condition = from->condition;
	to->bodies = calloc(from->n_bodies ? from->n_bodies : 1, sizeof(struct CUgraph_st *));
	if (!to->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (result == CUDA_SUCCESS && to->n_bodies < from->n_bodies) {
		struct CUgraph_st **body = &to->bodies[to->n_bodies];

		result = graph_clone(from->bodies[to->n_bodies], body);
		if (result == CUDA_SUCCESS) {
			(*body)->parent = to;
			to->n_bodies++;
		}
	}
	return result;
}

static CUresult clone_content(const struct CUgraphNode_st *from, struct CUgraphNode_st *to)
{
	CUresult result = op_clone(&from->op, &to->op);

	to->origin = from->id;
	to->disabled = from->disabled;
	if (from->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		to->copy = from->copy;
	if (result == CUDA_SUCCESS && from->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		result = clone_alloc(&from->alloc, &to->alloc);
	if (result == CUDA_SUCCESS && from->attributes) {
		to->attributes = malloc(sizeof(*to->attributes));
		if (!to->attributes)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*to->attributes = *from->attributes;
	}
	if (result == CUDA_SUCCESS && from->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		result = clone_bodies(from, to);
	if (result == CUDA_SUCCESS && from->child) {
		result = graph_clone(from->child, &to->child);
		if (result == CUDA_SUCCESS)
			to->child->parent = to;
	}
	return result;
}

static CUresult clone_nodes(const struct CUgraph_st *from, struct CUgraph_st *to,
			    CUgraphNode *clones)
{
	CUresult result = CUDA_SUCCESS;
	size_t place = 0;

	list_for_each(link, &from->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		node->scratch = place;
		clones[place] = node_new(to, node->type);
		if (!clones[place])
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = clone_content(node, clones[place]);
		if (result != CUDA_SUCCESS)
			return result;
		place++;
	}
	list_for_each(link, &from->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		for (size_t i = 0; i < node->before.n && result == CUDA_SUCCESS; i++)
			result = graph_connect(clones[node->before.nodes[i]->scratch],
					       clones[node->scratch], &node->before.data[i]);
	}
	return result;
}

CUresult graph_clone(const struct CUgraph_st *from, struct CUgraph_st **ret_graph)
{
	struct CUgraph_st *to = graph_new();
	CUgraphNode *clones = calloc(from->n_nodes ? from->n_nodes : 1, sizeof(CUgraphNode));
	CUresult result = to && clones ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (result == CUDA_SUCCESS)
		result = clone_nodes(from, to, clones);
	if (result == CUDA_SUCCESS)
		result = graph_users_clone(from, to);
	if (result == CUDA_SUCCESS)
		result = graph_conditions_clone(from, to);
	free(clones);
	if (result != CUDA_SUCCESS) {
		graph_free(to);
		return result;
	}
	*ret_graph = to;
	return CUDA_SUCCESS;
}

CUgraphNode graph_find(const struct CUgraph_st *clone, const struct CUgraphNode_st *original)
{
	list_for_each(link, &clone->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		if (node->origin == original->id)
			return node;
	}
	list_for_each(link, &clone->nodes)
	{
		struct graph_parts parts =
			graph_parts(list_entry(link, struct CUgraphNode_st, link));

		for (size_t i = 0; i < parts.n; i++) {
			CUgraphNode found = graph_find(parts.graphs[i], original);

			if (found)
				return found;
		}
	}
	return NULL;
}

/* ---- order --------------------------------------------------------------------------------- */

/* Kahn's algorithm: nodes whose dependencies are all placed are taken in the order of their
 * creation, so that a graph without branches runs as it was written. scratch first counts a node's
 * open dependencies. */
CUresult graph_sort(const struct CUgraph_st *graph, CUgraphNode **ret_nodes)
{
	CUgraphNode *nodes = calloc(graph->n_nodes ? graph->n_nodes : 1, sizeof(CUgraphNode));
	size_t n = 0;

	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_for_each(link, &graph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		node->scratch = node->before.n;
		if (!node->before.n)
			nodes[n++] = node;
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < nodes[i]->after.n; j++) {
			if (--nodes[i]->after.nodes[j]->scratch == 0)
				nodes[n++] = nodes[i]->after.nodes[j];
		}
		nodes[i]->scratch = i;
	}
	if (n < graph->n_nodes) {
		free(nodes);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_nodes = nodes;
	return CUDA_SUCCESS;
}
