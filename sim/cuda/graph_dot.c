/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGraphDebugDotPrint: a graph as a text for Graphviz. The wording is our own; programs do not
 * read it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cuda/prototypes.h"
#include "sim/cuda/graph.h"

static const char *const type_names[] = {
	[CU_GRAPH_NODE_TYPE_KERNEL] = "kernel",
	[CU_GRAPH_NODE_TYPE_MEMCPY] = "copy",
	[CU_GRAPH_NODE_TYPE_MEMSET] = "set",
	[CU_GRAPH_NODE_TYPE_HOST] = "host function",
	[CU_GRAPH_NODE_TYPE_GRAPH] = "graph",
	[CU_GRAPH_NODE_TYPE_EMPTY] = "empty",
	[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "event wait",
	[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "event record",
	[CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL] = "semaphore signal",
	[CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT] = "semaphore wait",
	[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "allocation",
	[CU_GRAPH_NODE_TYPE_MEM_FREE] = "free",
	[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "memory operations",
	[CU_GRAPH_NODE_TYPE_CONDITIONAL] = "conditional",
};

static void print_detail(FILE *out, const struct op *op)
{
	if (op->kind == OP_KERNEL)
		fprintf(out, "\\n%u x %u x %u blocks of %u x %u x %u, %u bytes shared",
			op->kernel.grid[0], op->kernel.grid[1], op->kernel.grid[2],
			op->kernel.block[0], op->kernel.block[1], op->kernel.block[2],
			op->kernel.shared_bytes);
	else if (op->kind == OP_COPY)
		fprintf(out, "\\n0x%" PRIx64 " -> 0x%" PRIx64 ", %zu x %zu x %zu bytes",
			op->copy.from.address, op->copy.to.address, op->copy.width_bytes,
			op->copy.height, op->copy.depth);
	else if (op->kind == OP_SET)
		fprintf(out, "\\n0x%" PRIx64 ", %zu x %zu of %" PRIu32 " bytes = 0x%" PRIx32,
			op->set.address, op->set.width_elements, op->set.height,
			op->set.element_bytes, op->set.value);
	else if (op->kind == OP_ALLOC || op->kind == OP_FREE)
		fprintf(out, "\\n0x%llx", op->alloc.address);
}

static void print_graph(FILE *out, const struct CUgraph_st *graph, bool verbose)
{
	fprintf(out, "subgraph cluster_%" PRIu64 " {\nlabel=\"graph %" PRIu64 "\"\n", graph->id,
		graph->id);
	list_for_each(link, &graph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);
		struct graph_parts parts;

		fprintf(out, "node_%" PRIu64 " [label=\"%s", node->id, type_names[node->type]);
		if (verbose)
			print_detail(out, &node->op);
		fputs("\"]\n", out);
		for (size_t i = 0; i < node->before.n; i++)
			fprintf(out, "node_%" PRIu64 " -> node_%" PRIu64 "\n",
				node->before.nodes[i]->id, node->id);
		parts = graph_parts(node);
		for (size_t i = 0; i < parts.n; i++)
			print_graph(out, parts.graphs[i], verbose);
	}
	fputs("}\n", out);
}

exported CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	FILE *out;

	if (!graph_is(hGraph) || !path ||
	    flags > 2 * CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS)
		return CUDA_ERROR_INVALID_VALUE;
	out = fopen(path, "we");
	if (!out)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fputs("digraph {\n", out);
	print_graph(out, hGraph, flags != 0);
	fputs("}\n", out);
	return fclose(out) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
