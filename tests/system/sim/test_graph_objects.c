/* SPDX-License-Identifier: Apache-2.0 */
/* User objects, launches by the device, pictures. */
#include "tests/system/sim/graphs.h"

/* ---- user objects, pictures ----------------------------------------------------------------- */

TEST(a_user_object_lives_as_long_as_its_holders)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUgraph graph = kernel_graph(&sim, sim.add, word, 1);
	unsigned digits = 0;
	CUuserObject object;
	CUgraphExec exec;

	answers(cuUserObjectCreate(&object, &digits, append_digit, 1, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuUserObjectCreate(&object, &digits, append_digit, 2,
			      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	ok(cuUserObjectRetain(object, 1));
	ok(cuUserObjectRelease(object, 2));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphReleaseUserObject(graph, object, 1));
	ok(cuGraphDestroy(graph));
	expect_eq(digits, 0);
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphExecDestroy(exec));
	ok(cuCtxSynchronize());
	expect_eq(digits, 1);
	answers(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
	sim_end(&sim);
}

static CUgraph graph_with_object(struct sim *sim, CUdeviceptr word, unsigned *digits)
{
	CUgraph graph = kernel_graph(sim, sim->add, word, 1);
	CUuserObject object;

	ok(cuUserObjectCreate(&object, digits, append_digit, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	return graph;
}

TEST(an_update_takes_over_the_user_objects)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(2, 0);
	unsigned first = 0, second = 0;
	CUgraph graph = graph_with_object(&sim, word, &first);
	CUgraph wanted = graph_with_object(&sim, word, &second);
	CUgraphExecUpdateResultInfo info;
	struct gate gate = gate_new();
	CUgraphExec exec;

	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	/* A launch under way keeps what it was launched with. */
	ok(gate_close(&gate, NULL));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphExecUpdate_v2(exec, wanted, &info));
	expect_eq(first, 0);
	ok(cuGraphDestroy(wanted));
	expect_eq(second, 0);
	gate_open(&gate);
	ok(cuCtxSynchronize());
	expect_eq(first, 1);
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(second, 0);
	ok(cuGraphExecDestroy(exec));
	expect_eq(second, 1);
	gate_free(&gate);
	sim_end(&sim);
}

TEST(a_childs_user_objects_are_taken_over_as_the_childs)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(2, 0);
	unsigned first = 0, second = 0, third = 0;
	CUgraph parent, child = graph_with_object(&sim, word, &first);
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, other;
	CUgraphExec exec;

	ok(cuGraphCreate(&parent, 0));
	ok(cuGraphAddChildGraphNode(&node, parent, NULL, 0, child));
	ok(cuGraphInstantiateWithFlags(&exec, parent, 0));
	ok(cuGraphDestroy(child));
	child = graph_with_object(&sim, word, &second);
	ok(cuGraphExecChildGraphNodeSetParams(exec, node, child));
	ok(cuGraphDestroy(child));
	ok(cuGraphDestroy(parent));
	expect_eq(first, 1);
	expect_eq(second, 0);
	child = graph_with_object(&sim, word, &third);
	ok(cuGraphCreate(&parent, 0));
	ok(cuGraphAddChildGraphNode(&other, parent, NULL, 0, child));
	ok(cuGraphExecUpdate_v2(exec, parent, &info));
	ok(cuGraphDestroy(child));
	ok(cuGraphDestroy(parent));
	expect_eq(second, 1);
	expect_eq(third, 0);
	ok(cuGraphExecDestroy(exec));
	expect_eq(third, 1);
	sim_end(&sim);
}

static CUgraphInstantiateResult for_device(CUgraph graph, unsigned long long more, CUresult wanted)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
						      more};
	CUgraphExec exec;

	answers(cuGraphInstantiateWithParams(&exec, graph, &how), wanted);
	if (wanted == CUDA_SUCCESS)
		ok(cuGraphExecDestroy(exec));
	return how.result_out;
}

TEST(a_graph_for_launches_by_the_device_has_nodes_that_the_device_can_run)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(2, 0);
	CUgraph graph = kernel_graph(&sim, sim.add, word, 1), parent;
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = word + 4,
			      .WidthInBytes = 4,
			      .Height = 1,
			      .Depth = 1};
	CUDA_HOST_NODE_PARAMS_v1 host = {.fn = free};
	unsigned pageable = 5, *pinned;
	CUgraphExec exec;
	CUcontext second;
	CUgraphNode node;
	cuuint64_t flags;

	expect_eq(for_device(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
			     CUDA_ERROR_INVALID_VALUE),
		  CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
	ok(cuMemHostAlloc((void **)&pinned, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	*pinned = 9;
	copy.srcHost = pinned;
	ok(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, sim.context));
	expect_eq(for_device(graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, CUDA_SUCCESS),
		  CUDA_GRAPH_INSTANTIATE_SUCCESS);
	/* The host launches it as any other. */
	ok(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
	ok(cuGraphExecGetFlags(exec, &flags));
	expect_eq(flags, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(word), 4);
	expect_eq(sim_word(word + 4), 9);
	ok(cuGraphExecDestroy(exec));
	/* Nodes that the device cannot run, within a child too. */
	copy.srcHost = &pageable;
	ok(cuGraphMemcpyNodeSetParams(node, &copy));
	ok(cuGraphCreate(&parent, 0));
	ok(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
	expect_eq(for_device(parent, 0, CUDA_ERROR_INVALID_VALUE),
		  CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
	ok(cuGraphDestroy(parent));
	ok(cuGraphDestroy(graph));
	graph = kernel_graph(&sim, sim.add, word, 1);
	ok(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
	expect_eq(for_device(graph, 0, CUDA_ERROR_INVALID_VALUE),
		  CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
	ok(cuGraphDestroy(graph));
	/* All of it in one context. */
	graph = kernel_graph(&sim, sim.add, word, 1);
	ok(cuCtxCreate_v2(&second, 0, 0));
	copy.srcHost = pinned;
	ok(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, second));
	expect_eq(for_device(graph, 0, CUDA_ERROR_NOT_SUPPORTED),
		  CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuCtxDestroy_v2(second));
	ok(cuMemFreeHost(pinned));
	sim_end(&sim);
}

TEST(a_graph_can_be_drawn)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUgraph graph = kernel_graph(&sim, sim.add, word, 1);
	char path[128], text[32] = "";
	FILE *in;

	snprintf(path, sizeof(path), "%s/graph.dot", getenv("METE_SIM_DIR"));
	ok(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
	in = fopen(path, "r");
	expect(in && fgets(text, sizeof(text), in));
	fclose(in);
	expect_str(text, "digraph {\n");
	answers(cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0), CUDA_ERROR_OPERATING_SYSTEM);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}
