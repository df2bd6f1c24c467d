/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs with memory of their own: conditional, cloned, updated, nested, freed elsewhere, trimmed.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

static CUDA_MEM_ALLOC_NODE_PARAMS memory(size_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}},
		.bytesize = bytes};
}

/* A graph that allocates; `freed`: and frees. Returns where, or 0. */
static CUdeviceptr add_memory(CUgraph graph, size_t bytes, bool freed)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = memory(bytes);
	CUgraphNode node, last;

	if (g.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc) != CUDA_SUCCESS)
		return 0;
	if (freed)
		g.cuGraphAddMemFreeNode(&last, graph, &node, 1, alloc.dptr);
	return alloc.dptr;
}

static void launch(CUgraph graph, unsigned times, unsigned flags)
{
	CUgraphExec exec;

	if (g.cuGraphInstantiateWithFlags(&exec, graph, flags) != CUDA_SUCCESS)
		return;
	while (times-- > 0)
		g.cuGraphLaunch(exec, NULL);
}

/* Each of the three ways in which a driver could be told of memory within a body. */
static void fill_body(CUgraph body, int way)
{
	CUstream stream;
	CUdeviceptr piece;
	CUgraph same;

	if (way == 0)
		add_memory(body, 40 * MIB, false);
	if (way == 1) {
		CUDA_MEM_ALLOC_NODE_PARAMS alloc = memory(40 * MIB);
		CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
		CUgraphNode made;

		node.alloc.poolProps = alloc.poolProps;
		node.alloc.bytesize = alloc.bytesize;
		CALL(cuGraphAddNode_v2)(&made, body, NULL, NULL, 0, &node);
	}
	if (way == 2 && CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
		CALL(cuStreamBeginCaptureToGraph)
		(stream, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
		g.cuMemAllocAsync(&piece, 40 * MIB, stream);
		CALL(cuStreamEndCapture)(stream, &same);
	}
}

void attack_graph_conditions(void)
{
	for (int i = 0; i < 24; i++) {
		CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
		CUgraphConditionalHandle handle;
		CUgraphNode made;
		CUgraph graph;

		if (g.cuGraphCreate(&graph, 0) != CUDA_SUCCESS ||
		    CALL(cuGraphConditionalHandleCreate)(&handle, graph, g.context, 1,
							 CU_GRAPH_COND_ASSIGN_DEFAULT) !=
			    CUDA_SUCCESS)
			break;
		node.conditional.handle = handle;
		node.conditional.type = CU_GRAPH_COND_TYPE_IF;
		node.conditional.size = 1;
		node.conditional.ctx = g.context;
		if (CALL(cuGraphAddNode_v2)(&made, graph, NULL, NULL, 0, &node) == CUDA_SUCCESS)
			fill_body(node.conditional.phGraph_out[0], i % 3);
		add_memory(graph, 10 * MIB, false);
		launch(graph, 3, 0);
	}
	g.cuCtxSynchronize();
	take_everything();
}

void attack_graph_clones(void)
{
	CUgraph graph, clone;

	if (g.cuGraphCreate(&graph, 0) != CUDA_SUCCESS)
		return;
	add_memory(graph, 30 * MIB, false);
	for (int i = 0; i < 20; i++) {
		if (CALL(cuGraphClone)(&clone, graph) != CUDA_SUCCESS)
			break;
		add_memory(clone, 20 * MIB, i % 2);
		launch(clone, 2, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
		launch(graph, 1, 0);
		g.cuGraphDestroy(clone);
	}
	g.cuCtxSynchronize();
	take_everything();
}

/* The executable graph is charged for what it was made of, and is then told of more. */
void attack_graph_updates(void)
{
	CUgraphExecUpdateResultInfo result;
	CUgraphExec exec = NULL;
	CUgraph graph;

	for (size_t size = 4 * MIB; size <= 512 * MIB; size *= 2)
		for (int i = 0; i < 4; i++) {
			if (g.cuGraphCreate(&graph, 0) != CUDA_SUCCESS)
				return;
			add_memory(graph, size, true);
			if (!exec && g.cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS)
				exec = NULL;
			if (exec) {
				CALL(cuGraphExecUpdate_v2)(exec, graph, &result);
				g.cuGraphLaunch(exec, NULL);
			}
			if (i % 2)
				g.cuGraphDestroy(graph);
		}
	g.cuCtxSynchronize();
	take_everything();
}

void attack_graph_children(void)
{
	CUgraph inner, outer;
	CUgraphNode node;

	for (int depth = 0; depth < 8; depth++) {
		if (g.cuGraphCreate(&inner, 0) != CUDA_SUCCESS)
			break;
		add_memory(inner, 25 * MIB, depth % 2);
		for (int i = 0; i < depth; i++) {
			if (g.cuGraphCreate(&outer, 0) != CUDA_SUCCESS)
				break;
			CALL(cuGraphAddChildGraphNode)(&node, outer, NULL, 0, inner);
			CALL(cuGraphAddChildGraphNode)(&node, outer, NULL, 0, inner);
			add_memory(outer, 5 * MIB, true);
			inner = outer;
		}
		launch(inner, 3, 0);
	}
	g.cuCtxSynchronize();
	take_everything();
}

/* A graph's memory is freed by the stream, by cuMemFree, by another graph, or by nobody. */
void attack_graph_freed_elsewhere(void)
{
	for (int i = 0; i < 40; i++) {
		CUdeviceptr address;
		CUgraph graph, frees;
		CUgraphNode node;

		if (g.cuGraphCreate(&graph, 0) != CUDA_SUCCESS)
			break;
		address = add_memory(graph, 18 * MIB, false);
		launch(graph, 1, i % 2 ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0);
		if (i % 4 == 0)
			g.cuMemFreeAsync(address, NULL);
		if (i % 4 == 1)
			g.cuMemFree_v2(address);
		if (i % 4 == 2 && g.cuGraphCreate(&frees, 0) == CUDA_SUCCESS) {
			g.cuGraphAddMemFreeNode(&node, frees, NULL, 0, address);
			launch(frees, 1, 0);
		}
		g.cuDeviceGraphMemTrim(g.device);
	}
	g.cuCtxSynchronize();
	take_everything();
}

static void wait_a_little(void *nothing)
{
	(void)nothing;
	usleep(3000);
}

static void trim_or_launch(void)
{
	static int count;
	bool trims = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % 3 == 0;
	uint64_t t = 0;

	while (until(&t, 600)) {
		CUgraphExec exec;
		CUgraph graph;

		if (trims) {
			g.cuDeviceGraphMemTrim(g.device);
			continue;
		}
		if (g.cuGraphCreate(&graph, 0) != CUDA_SUCCESS)
			break;
		add_memory(graph, 35 * MIB, true);
		if (g.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS) {
			CALL(cuLaunchHostFunc)(NULL, wait_a_little, NULL);
			g.cuGraphLaunch(exec, NULL);
			g.cuGraphExecDestroy(exec); /* before it began */
		}
		g.cuGraphDestroy(graph);
	}
}

void attack_graph_trimmed(void)
{
	in_threads(6, trim_or_launch);
	take_everything();
}

/* Captures in streams of one context that other contexts' work joins, each relaxed, each allocates.
 */
void attack_captures_of_others(void)
{
	CUcontext other;
	CUstream first, second;
	CUdeviceptr piece;
	CUevent event;
	CUgraph graph;

	if (g.cuCtxCreate_v2(&other, 0, g.device) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 30; i++) {
		g.cuCtxSetCurrent(i % 2 ? other : g.context);
		CALL(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING);
		CALL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
		g.cuCtxSetCurrent(i % 2 ? g.context : other);
		CALL(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING);
		CALL(cuStreamBeginCapture_v2)(first, CU_STREAM_CAPTURE_MODE_RELAXED);
		CALL(cuEventRecord)(event, first);
		CALL(cuStreamWaitEvent)(second, event, 0);
		g.cuMemAllocAsync(&piece, 16 * MIB, second);
		g.cuMemAllocAsync(&piece, 16 * MIB, first);
		if (i % 3 == 0)
			continue; /* left open */
		if (CALL(cuStreamEndCapture)(first, &graph) == CUDA_SUCCESS && graph)
			launch(graph, 2, 0);
	}
	g.cuCtxSetCurrent(g.context);
	take_everything();
}

static void end_context(void)
{
	static int count;
	bool ends = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) == 0;
	uint64_t t = 0;

	while (until(&t, 600)) {
		CUcontext context;
		CUgraph graph;

		if (CALL(cuDevicePrimaryCtxRetain)(&context, g.device) != CUDA_SUCCESS)
			continue;
		g.cuCtxSetCurrent(context);
		if (ends) {
			CALL(cuDevicePrimaryCtxReset_v2)(g.device);
		} else if (g.cuGraphCreate(&graph, 0) == CUDA_SUCCESS) {
			add_memory(graph, 22 * MIB, false);
			launch(graph, 1, 0);
		}
		CALL(cuDevicePrimaryCtxRelease_v2)(g.device);
	}
}

/* Reset while others' graphs with memory are launched in it. */
void attack_primary_graphs(void)
{
	in_threads(5, end_context);
	enter();
	take_everything();
}
