/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of work in a capture, and streams that end in it. */
#include "tests/system/sim/capture.h"

static void append_digit(void *data)
{
	*(unsigned *)data = *(unsigned *)data * 10 + 1;
}

TEST(all_kinds_of_work_can_be_captured)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(4, 0);
	CUstream stream = stream_new(0);
	CUevent done = event_new();
	CUgraphNodeType types[8];
	CUgraphNode nodes[8];
	unsigned digits = 0, host[2] = {3, 0};
	size_t n = 8;
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemcpyHtoDAsync_v2(words, host, 4, stream));
	ok(cuMemcpyDtoDAsync_v2(words + 4, words, 4, stream));
	ok(sim_launch(sim.times, words + 4, 7, stream));
	ok(cuLaunchHostFunc(stream, append_digit, &digits));
	ok(cuStreamWriteValue32_v2(stream, words + 8, 9, 0));
	ok(cuEventRecordWithFlags(done, stream, CU_EVENT_RECORD_EXTERNAL));
	ok(cuMemcpyDtoHAsync_v2(&host[1], words + 4, 4, stream));
	answers(cuEventRecordWithFlags(done, stream, 2), CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphGetNodes(graph, nodes, &n));
	expect_eq(n, 7);
	for (size_t i = 0; i < n; i++)
		ok(cuGraphNodeGetType(nodes[i], &types[i]));
	expect_eq(types[0], CU_GRAPH_NODE_TYPE_MEMCPY);
	expect_eq(types[2], CU_GRAPH_NODE_TYPE_KERNEL);
	expect_eq(types[3], CU_GRAPH_NODE_TYPE_HOST);
	expect_eq(types[4], CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
	expect_eq(types[5], CU_GRAPH_NODE_TYPE_EVENT_RECORD);
	/* A graph reads its sources when it runs. */
	host[0] = 4;
	run_graph(graph, stream, 2);
	ok(cuEventSynchronize(done));
	expect_eq(host[1], 28);
	expect_eq(digits, 11);
	expect_eq(sim_word(words + 8), 9);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(a_launch_in_a_capture_is_a_child_graph)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
	CUgraph inner, outer, child;
	CUgraphNode nodes[2];
	CUgraphExec exec;
	size_t n = 2;

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(sim_launch(sim.add, word, 1, stream));
	ok(sim_launch(sim.times, word, 2, stream));
	ok(cuStreamEndCapture(stream, &inner));
	ok(cuGraphInstantiateWithFlags(&exec, inner, 0));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuGraphLaunch(exec, stream));
	ok(cuGraphLaunch(exec, stream));
	ok(cuStreamEndCapture(stream, &outer));
	ok(cuGraphGetNodes(outer, nodes, &n));
	expect_eq(n, 2);
	ok(cuGraphChildGraphNodeGetGraph(nodes[1], &child));
	expect_eq(count_nodes(child), 2);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(inner));
	run_graph(outer, stream, 1);
	expect_eq(sim_word(word), 10);
	answers(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphDestroy(outer));
	sim_end(&sim);
}

/* A fork, its join and its end, as programs do it that make a stream for each branch. */
TEST(a_forked_stream_can_be_destroyed_when_it_was_joined)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(2, 1);
	CUstream a = stream_new(0), b = stream_new(0), c = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent fork = event_new(), join = event_new();
	CUstreamCaptureStatus status;
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuEventRecord(fork, a));
	ok(cuStreamWaitEvent(b, fork, 0));
	ok(sim_launch(sim.add, word, 4, b));
	ok(cuEventRecord(join, b));
	/* By way of a third stream, and after the second has gone. */
	ok(cuStreamDestroy_v2(b));
	ok(cuStreamWaitEvent(c, join, 0));
	ok(sim_launch(sim.times, word, 3, c));
	ok(cuEventRecord(join, c));
	ok(cuStreamWaitEvent(a, join, 0));
	ok(cuStreamDestroy_v2(c));
	ok(cuStreamIsCapturing(a, &status));
	expect_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(sim_launch(sim.add, word, 1, a));
	ok(cuStreamEndCapture(a, &graph));
	expect_eq(count_nodes(graph), 3);
	run_graph(graph, a, 1);
	expect_eq(sim_word(word), 16);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(the_work_of_a_destroyed_stream_must_be_joined)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	CUstream a = stream_new(0), b = stream_new(0);
	CUevent fork = event_new();
	CUgraph graph = (CUgraph)&sim;

	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuEventRecord(fork, a));
	ok(cuStreamWaitEvent(b, fork, 0));
	ok(sim_launch(sim.add, word, 4, b));
	ok(cuStreamDestroy_v2(b));
	ok(sim_launch(sim.add, word, 1, a));
	/* Nothing of the stream that has gone is asked which context it was of. */
	answers(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	answers(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	b = stream_new(0);
	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuEventRecord(fork, a));
	ok(cuStreamWaitEvent(b, fork, 0));
	ok(sim_launch(sim.add, word, 4, b));
	ok(cuStreamDestroy_v2(b));
	answers(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	expect(graph == NULL);
	expect_eq(sim_word(word), 1);
	sim_end(&sim);
}

TEST(memory_of_a_capture_can_be_used_in_it)
{
	struct sim sim = sim_begin();
	CUdeviceptr result = sim_words(2, 0), address;
	CUstream stream = stream_new(0);
	unsigned host[2] = {5, 0};
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemAllocAsync(&address, 3 << 20, stream));
	ok(cuMemsetD32Async(address, 6, 1000, stream));
	ok(cuMemsetD2D8Async(address + 4096, 512, 1, 4, 4, stream));
	ok(cuMemcpyHtoDAsync_v2(address + 8, &host[0], 4, stream));
	ok(cuStreamWriteValue32_v2(stream, address + 12, 7, 0));
	ok(sim_launch(sim.times, address + 8, 3, stream));
	ok(cuMemcpyDtoDAsync_v2(result, address + 8, 8, stream));
	ok(cuMemcpyDtoHAsync_v2(&host[1], address + 4, 4, stream));
	ok(cuMemFreeAsync(address, stream));
	ok(cuStreamEndCapture(stream, &graph));
	/* Before a launch nothing is there for work outside of a graph. */
	answers(cuMemsetD8_v2(address, 1, 1), CUDA_ERROR_INVALID_VALUE);
	run_graph(graph, stream, 2);
	expect_eq(sim_word(result), 15);
	expect_eq(sim_word(result + 4), 7);
	expect_eq(host[1], 6);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(nothing_checks_how_far_captured_work_reaches)
{
	struct sim sim = sim_begin();
	CUdeviceptr result = sim_words(2, 0), address;
	CUstream stream = stream_new(0);
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemAllocAsync(&address, 3 << 20, stream));
	ok(cuMemsetD8Async(address, 1, 1u << 30, stream));
	ok(cuMemcpyDtoDAsync_v2(result, address + (2 << 20), 1u << 30, stream));
	ok(cuMemFreeAsync(address, stream));
	ok(cuStreamEndCapture(stream, &graph));
	expect_eq(count_nodes(graph), 4);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(destroying_a_stream_ends_its_capture)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	CUstream a = stream_new(0), b = stream_new(0);
	CUevent event = event_new();
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(sim_launch(sim.add, word, 1, a));
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	ok(cuStreamDestroy_v2(a));
	ok(cuStreamSynchronize(b));
	ok(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuStreamEndCapture(b, &graph));
	ok(cuGraphDestroy(graph));
	/* A context may end while one of its streams captures. */
	ok(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_GLOBAL));
	sim_end(&sim);
	sim = sim_begin();
	word = sim_words(1, 3);
	expect_eq(sim_word(word), 3);
	sim_end(&sim);
}
