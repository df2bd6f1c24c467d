/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that a program builds itself, in the first and in later forms of the functions; changes
 * to executable ones; memory nodes.
 */
#include "tests/system/sim/streams.h"

/* As tinygrad gives them: one buffer. */
struct arguments {
	CUdeviceptr p;
	unsigned n, k;
};

static CUDA_MEMCPY3D device_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.srcPitch = bytes,
		.srcHeight = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.dstPitch = bytes,
		.dstHeight = 1,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

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

static void append_digit(void *data)
{
	*(unsigned *)data = *(unsigned *)data * 10 + 1;
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

static CUgraph kernel_graph(struct sim *sim, CUfunction second, CUdeviceptr word, unsigned k)
{
	unsigned n = 1;
	void *params[] = {&word, &n, &k};
	CUDA_KERNEL_NODE_PARAMS_v1 one = first_form(sim->add, params);
	CUDA_KERNEL_NODE_PARAMS_v1 two = first_form(second, params);
	CUgraphNode a, b;
	CUgraph graph;

	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddKernelNode(&a, graph, NULL, 0, &one));
	ok(cuGraphAddKernelNode(&b, graph, &a, 1, &two));
	return graph;
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

/* ---- memory nodes --------------------------------------------------------------------------- */

static uint64_t graph_bytes(struct sim *sim, CUgraphMem_attribute attribute)
{
	uint64_t bytes;

	ok(cuDeviceGetGraphMemAttribute(sim->device, attribute, &bytes));
	return bytes;
}

static CUgraphNode add_allocation(CUgraph graph, struct sim *sim, size_t bytes,
				  CUdeviceptr *address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUgraphNode node;

	memset(&params, 0, sizeof(params));
	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.poolProps.location.id = sim->device;
	params.bytesize = bytes;
	ok(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	expect(params.dptr != 0);
	*address = params.dptr;
	return node;
}

TEST(a_graph_allocates_and_frees)
{
	struct sim sim = sim_begin();
	CUdeviceptr result = sim_words(1, 0), address;
	CUgraphNode allocate, set, copied, freed;
	CUDA_MEMSET_NODE_PARAMS_v1 fill;
	CUDA_MEMCPY3D copy;
	CUgraph graph, clone;
	CUgraphExec exec;
	uint64_t none = 0;

	ok(cuDeviceSetGraphMemAttribute(sim.device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &none));
	ok(cuGraphCreate(&graph, 0));
	allocate = add_allocation(graph, &sim, 3 << 20, &address);
	fill = (CUDA_MEMSET_NODE_PARAMS_v1){
		.dst = address, .value = 33, .elementSize = 4, .width = 1, .height = 1};
	copy = device_copy(result, address, 4);
	ok(cuGraphAddMemsetNode(&set, graph, &allocate, 1, &fill, sim.context));
	ok(cuGraphAddMemcpyNode(&copied, graph, &set, 1, &copy, sim.context));
	ok(cuGraphAddMemFreeNode(&freed, graph, &copied, 1, address));
	answers(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	for (unsigned i = 0; i < 3; i++)
		ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(result), 33);
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 4 << 20);
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 4 << 20);
	ok(cuDeviceGraphMemTrim(sim.device));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuDeviceGraphMemTrim(sim.device));
	sim_end(&sim);
}

/* Of a graph that allocates and frees `bytes`. */
static CUgraphExec allocating_exec(struct sim *sim, size_t bytes)
{
	CUdeviceptr address;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;

	ok(cuGraphCreate(&graph, 0));
	node = add_allocation(graph, sim, bytes, &address);
	ok(cuGraphAddMemFreeNode(&node, graph, &node, 1, address));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	return exec;
}

TEST(what_graphs_leave_is_for_other_graphs_until_it_is_trimmed)
{
	struct sim sim = sim_begin();
	size_t before = node_free_bytes();
	CUgraphExec exec = allocating_exec(&sim, 6 << 20), other;

	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	ok(cuGraphExecDestroy(exec));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 6 << 20);
	expect_eq(node_free_bytes(), before - (6 << 20));
	/* A part of it, and more than is left. */
	exec = allocating_exec(&sim, 4 << 20);
	ok(cuGraphLaunch(exec, NULL));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 6 << 20);
	other = allocating_exec(&sim, 4 << 20);
	ok(cuGraphLaunch(other, NULL));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 8 << 20);
	expect_eq(node_free_bytes(), before - (8 << 20));
	ok(cuCtxSynchronize());
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphExecDestroy(other));
	ok(cuDeviceGraphMemTrim(sim.device));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 8 << 20);
	expect_eq(node_free_bytes(), before);
	sim_end(&sim);
}

/* What NVIDIA's driver does then is not known. */
TEST(captured_work_that_reaches_too_far_fails_when_it_runs)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUstream stream;
	CUgraphExec exec;
	CUgraph graph;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemsetD8Async(word, 1, 1u << 30, stream));
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, stream));
	answers(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(trimming_leaves_alone_what_a_waiting_launch_will_use)
{
	struct sim sim = sim_begin();
	struct gate gate = gate_new();
	CUgraphExec exec = allocating_exec(&sim, 4096);
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(gate_close(&gate, stream));
	ok(cuGraphLaunch(exec, stream));
	ok(cuGraphLaunch(exec, stream));
	ok(cuDeviceGraphMemTrim(sim.device));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 2 << 20);
	gate_open(&gate);
	ok(cuStreamSynchronize(stream));
	ok(cuDeviceGraphMemTrim(sim.device));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	ok(cuGraphExecDestroy(exec));
	gate_free(&gate);
	sim_end(&sim);
}

TEST(memory_that_a_graph_leaves_is_the_programs_to_free)
{
	struct sim sim = sim_begin();
	CUdeviceptr address;
	CUgraph graph;
	CUgraphExec exec, again;

	ok(cuGraphCreate(&graph, 0));
	add_allocation(graph, &sim, 4096, &address);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphInstantiateWithFlags(&again, graph,
				       CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuMemsetD32_v2(address, 17, 1));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(address), 17);
	answers(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphLaunch(again, NULL));
	ok(cuCtxSynchronize());
	ok(cuMemFree_v2(address));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuMemFreeAsync(address, NULL));
	ok(cuCtxSynchronize());
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphExecDestroy(again));
	ok(cuGraphDestroy(graph));
	expect_eq(graph_bytes(&sim, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	sim_end(&sim);
}

/* ---- user objects, pictures ----------------------------------------------------------------- */

TEST(a_user_object_lives_as_long_as_what_holds_it)
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

TEST(a_graph_for_launches_by_the_device_is_of_what_the_device_can_do)
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
	/* What the device cannot do, within a child too. */
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
