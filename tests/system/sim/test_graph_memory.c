/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that allocate and free. */
#include "tests/system/sim/graphs.h"

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

TEST(memory_that_graphs_leave_is_for_other_graphs_until_it_is_trimmed)
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

/* The answer of NVIDIA's driver then is not known. */
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

TEST(trimming_leaves_memory_that_a_waiting_launch_will_use)
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
