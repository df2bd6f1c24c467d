/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that a program builds itself, in the first and in later forms of the functions; changes
 * to executable ones.
 */
#include "tests/system/sim/graphs.h"

TEST(the_first_form_of_graphs_works_as_tinygrad_uses_it)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(2, 1);
	struct arguments arguments = {.p = words, .n = 1, .k = 4};
	size_t bytes = sizeof(arguments);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &bytes, CU_LAUNCH_PARAM_END};
	CUDA_KERNEL_NODE_PARAMS_v1 params = first_form(sim.add, NULL), seen;
	CUDA_MEMCPY3D copy = device_copy(words + 4, words, 4), seen_copy;
	CUgraphNode kernel, copied;
	CUgraphExec exec;
	CUgraph graph;
	char log[64] = "x";

	params.extra = extra;
	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddKernelNode(&kernel, graph, NULL, 0, &params));
	ok(cuGraphAddMemcpyNode(&copied, graph, &kernel, 1, &copy, sim.context));
	ok(cuGraphInstantiate_v2(&exec, graph, NULL, log, sizeof(log)));
	expect_str(log, "");
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(words), 5);
	expect_eq(sim_word(words + 4), 5);

	/* A launch that is pending keeps its parameters. */
	ok(cuGraphLaunch(exec, NULL));
	arguments.k = 100;
	ok(cuGraphExecKernelNodeSetParams(exec, kernel, &params));
	arguments.k = 77;
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(words + 4), 109);

	/* The graph that it was made from is as it was. */
	ok(cuGraphKernelNodeGetParams(kernel, &seen));
	expect(seen.func == sim.add);
	expect_eq(*(unsigned *)seen.kernelParams[2], 4);
	ok(cuGraphMemcpyNodeGetParams(copied, &seen_copy));
	expect_eq(seen_copy.dstDevice, words + 4);
	copy = device_copy(words, words + 4, 4);
	ok(cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, sim.context));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(words), 109);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	answers(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
	sim_end(&sim);
}

TEST(later_forms_add_any_node)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(2, 1);
	unsigned n = 1, k = 6, digits = 0;
	CUdeviceptr p = words;
	void *params[] = {&p, &n, &k};
	CUgraphNodeParams node;
	CUDA_KERNEL_NODE_PARAMS_v2 kernel, seen;
	CUgraphNode set, added, host, empty;
	CUgraphExec exec;
	CUgraph graph;
	CUevent event;

	ok(cuEventCreate(&event, 0));
	ok(cuGraphCreate(&graph, 0));
	memset(&node, 0, sizeof(node));
	node.type = CU_GRAPH_NODE_TYPE_MEMSET;
	node.memset.dst = words;
	node.memset.elementSize = 4;
	node.memset.value = 10;
	node.memset.width = 2;
	node.memset.height = 1;
	node.memset.ctx = sim.context;
	ok(cuGraphAddNode(&set, graph, NULL, 0, &node));
	memset(&kernel, 0, sizeof(kernel));
	kernel.func = sim.add;
	kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
	kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
	kernel.kernelParams = params;
	ok(cuGraphAddKernelNode_v2(&added, graph, &set, 1, &kernel));
	memset(&node, 0, sizeof(node));
	node.type = CU_GRAPH_NODE_TYPE_HOST;
	node.host.fn = append_digit;
	node.host.userData = &digits;
	ok(cuGraphAddNode_v2(&host, graph, &added, NULL, 1, &node));
	memset(&node, 0, sizeof(node));
	node.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	node.eventRecord.event = event;
	ok(cuGraphAddNode(&empty, graph, &host, 1, &node));
	node.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
	answers(cuGraphAddNode(&empty, graph, &host, 1, &node), CUDA_ERROR_NOT_SUPPORTED);
	answers(cuGraphAddEmptyNode(&empty, graph, (CUgraphNode[]){host, host}, 2),
		CUDA_ERROR_INVALID_VALUE);
	kernel.blockDimX = 5000;
	answers(cuGraphAddKernelNode_v2(&empty, graph, &set, 1, &kernel), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuEventSynchronize(event));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(words), 16);
	expect_eq(digits, 1);

	ok(cuGraphNodeSetEnabled(exec, added, 0));
	ok(cuGraphNodeGetEnabled(exec, added, &n));
	expect_eq(n, 0);
	answers(cuGraphNodeSetEnabled(exec, host, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(words), 10);
	ok(cuGraphKernelNodeGetParams_v2(added, &seen));
	expect_eq(seen.blockDimX, 1);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(edges_can_be_seen_and_changed)
{
	struct sim sim = sim_begin();
	CUgraphNode nodes[4], got[4], from[4], to[4];
	CUgraphEdgeData data[4];
	CUgraphExec exec;
	CUgraph graph, clone;
	size_t n;

	ok(cuGraphCreate(&graph, 0));
	for (size_t i = 0; i < 4; i++)
		ok(cuGraphAddEmptyNode(&nodes[i], graph, i ? &nodes[i - 1] : NULL, i ? 1 : 0));
	n = 0;
	ok(cuGraphGetEdges(graph, NULL, NULL, &n));
	expect_eq(n, 3);
	ok(cuGraphRemoveDependencies(graph, &nodes[0], &nodes[1], 1));
	answers(cuGraphRemoveDependencies(graph, &nodes[0], &nodes[1], 1),
		CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphAddDependencies(graph, &nodes[0], &nodes[3], 1));
	answers(cuGraphAddDependencies(graph, &nodes[0], &nodes[3], 1), CUDA_ERROR_INVALID_VALUE);
	answers(cuGraphAddDependencies(graph, &nodes[0], &nodes[0], 1), CUDA_ERROR_INVALID_VALUE);
	n = 4;
	ok(cuGraphNodeGetDependencies_v2(nodes[3], got, data, &n));
	expect_eq(n, 2);
	expect(got[0] == nodes[2] && got[1] == nodes[0]);
	n = 4;
	ok(cuGraphGetEdges_v2(graph, from, to, data, &n));
	expect_eq(n, 3);
	n = 4;
	ok(cuGraphGetRootNodes(graph, got, &n));
	expect_eq(n, 2);

	ok(cuGraphClone(&clone, graph));
	ok(cuGraphNodeFindInClone(&got[0], nodes[3], clone));
	n = 0;
	ok(cuGraphNodeGetDependencies(got[0], NULL, &n));
	expect_eq(n, 2);
	ok(cuGraphDestroyNode(got[0]));
	answers(cuGraphNodeFindInClone(&got[0], nodes[3], clone), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphDestroy(clone));

	/* A circle is noticed when the graph is to become executable. */
	ok(cuGraphAddDependencies(graph, &nodes[3], &nodes[1], 1));
	answers(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphDestroy(graph));
	answers(cuGraphGetNodes(graph, NULL, &n), CUDA_ERROR_INVALID_VALUE);
	sim_end(&sim);
}

TEST(an_executable_graph_takes_over_another_of_the_same_shape)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	CUgraph graph = kernel_graph(&sim, sim.times, word, 2);
	CUgraph other = kernel_graph(&sim, sim.times, word, 3), longer, different;
	CUgraphExecUpdateResultInfo info;
	CUgraphExecUpdateResult result;
	CUgraphNode node, nodes[2];
	CUgraphExec exec;
	size_t n = 2;

	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphExecUpdate_v2(exec, other, &info));
	expect_eq(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(word), 12);

	longer = kernel_graph(&sim, sim.times, word, 3);
	ok(cuGraphAddEmptyNode(&node, longer, NULL, 0));
	answers(cuGraphExecUpdate(exec, longer, &node, &result),
		CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	expect_eq(result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);

	ok(cuGraphCreate(&different, 0));
	ok(cuGraphAddEmptyNode(&nodes[0], different, NULL, 0));
	ok(cuGraphAddEmptyNode(&nodes[1], different, &nodes[0], 1));
	answers(cuGraphExecUpdate_v2(exec, different, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	expect_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
	expect(info.errorNode == nodes[0]);

	/* Nodes of the graph that it was made from still name its nodes. */
	ok(cuGraphGetNodes(graph, nodes, &n));
	ok(cuGraphNodeSetEnabled(exec, nodes[0], 0));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(word), 36);
	ok(cuGraphExecDestroy(exec));
	sim_end(&sim);
}

TEST(children_are_copies_and_can_be_changed_inside)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	CUgraph inner = kernel_graph(&sim, sim.times, word, 2), outer, copy, other;
	unsigned n = 1, k = 9;
	void *params[] = {&word, &n, &k};
	CUDA_KERNEL_NODE_PARAMS_v1 kernel = first_form(sim.add, params);
	CUgraphNode child, nodes[2];
	CUgraphExec exec;
	size_t count = 2;

	ok(cuGraphCreate(&outer, 0));
	ok(cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
	ok(cuGraphDestroy(inner));
	ok(cuGraphChildGraphNodeGetGraph(child, &copy));
	ok(cuGraphGetNodes(copy, nodes, &count));
	expect_eq(count, 2);
	ok(cuGraphInstantiateWithFlags(&exec, outer, 0));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphExecKernelNodeSetParams(exec, nodes[0], &kernel));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	/* (1+2)*2 = 6; (6+9)*2 = 30 */
	expect_eq(sim_word(word), 30);
	other = kernel_graph(&sim, sim.add, word, 1);
	ok(cuGraphExecChildGraphNodeSetParams(exec, child, other));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(word), 32);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(outer));
	sim_end(&sim);
}

TEST(launches_of_one_graph_do_not_overlap)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUgraph graph = kernel_graph(&sim, sim.add, word, 1);
	struct gate gate = gate_new();
	CUstream a, b;
	CUgraphExec exec;

	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(gate_close(&gate, a));
	ok(cuGraphLaunch(exec, a));
	ok(cuGraphLaunch(exec, b));
	answers(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	expect_eq(sim_word(word), 0);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	gate_open(&gate);
	ok(cuStreamSynchronize(b));
	expect_eq(sim_word(word), 4);
	gate_free(&gate);
	sim_end(&sim);
}

TEST(a_graph_launched_a_thousand_times_counts_right)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUgraph graph = kernel_graph(&sim, sim.add, word, 1);
	CUstream stream;
	CUgraphExec exec;

	ok(cuStreamCreate(&stream, 0));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (unsigned i = 0; i < 1000; i++)
		ok(cuGraphLaunch(exec, stream));
	ok(cuStreamSynchronize(stream));
	expect_eq(sim_word(word), 2000);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}
