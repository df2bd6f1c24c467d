/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: what becomes a graph, how it spreads over streams, and what breaks it.
 */
#include <pthread.h>

#include "tests/system/sim/streams.h"

static CUstream stream_new(unsigned flags)
{
	CUstream stream;

	ok(cuStreamCreate(&stream, flags));
	return stream;
}

static CUevent event_new(void)
{
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static size_t count_nodes(CUgraph graph)
{
	size_t n = 0;

	ok(cuGraphGetNodes(graph, NULL, &n));
	return n;
}

/* Instantiates, launches `times` times, destroys. */
static void run_graph(CUgraph graph, CUstream stream, unsigned times)
{
	CUgraphExec exec;

	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (unsigned i = 0; i < times; i++)
		ok(cuGraphLaunch(exec, stream));
	ok(cuGraphExecDestroy(exec));
	ok(cuStreamSynchronize(stream));
}

TEST(a_capture_records_and_a_launch_runs)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
	CUstreamCaptureStatus status;
	cuuint64_t id = 0;
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuStreamIsCapturing(stream, &status));
	expect_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuStreamGetCaptureInfo(stream, &status, &id));
	expect(id != 0);
	ok(sim_launch(sim.add, word, 2, stream));
	ok(sim_launch(sim.times, word, 3, stream));
	ok(cuMemsetD32Async(word + 0, 0, 0, stream));
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuStreamIsCapturing(stream, &status));
	expect_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
	expect_eq(sim_word(word), 1);
	run_graph(graph, stream, 3);
	/* ((1+2)*3 + 2)*3 + 2)*3 */
	expect_eq(sim_word(word), 105);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(a_capture_spreads_through_events_and_joins)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(2, 0);
	CUstream a = stream_new(0), b = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent fork = event_new(), join = event_new();
	CUstreamCaptureStatus status;
	CUgraphNode roots[2], from[8], to[8];
	size_t n;
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ok(cuMemsetD32Async(word, 5, 2, a));
	ok(cuEventRecord(fork, a));
	ok(cuStreamWaitEvent(b, fork, 0));
	ok(cuStreamIsCapturing(b, &status));
	expect_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(sim_launch(sim.add, word, 1, a));
	ok(sim_launch(sim.add, word + 4, 2, b));
	ok(cuEventRecord(join, b));
	answers(cuEventQuery(join), CUDA_ERROR_CAPTURED_EVENT);
	ok(cuStreamWaitEvent(a, join, 0));
	ok(sim_launch(sim.times, word + 4, 10, a));
	ok(cuStreamEndCapture(a, &graph));
	ok(cuStreamIsCapturing(b, &status));
	expect_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);

	expect_eq(count_nodes(graph), 4);
	n = 2;
	ok(cuGraphGetRootNodes(graph, roots, &n));
	expect_eq(n, 1);
	n = 8;
	ok(cuGraphGetEdges(graph, from, to, &n));
	expect_eq(n, 4);
	run_graph(graph, b, 1);
	expect_eq(sim_word(word), 6);
	expect_eq(sim_word(word + 4), 70);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

TEST(a_branch_that_is_not_joined_fails_the_capture)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUstream a = stream_new(0), b = stream_new(0);
	CUevent fork = event_new();
	CUstreamCaptureStatus status;
	CUgraph graph = (CUgraph)&sim;

	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuEventRecord(fork, a));
	ok(cuStreamWaitEvent(b, fork, 0));
	ok(sim_launch(sim.add, word, 1, b));
	answers(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	answers(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	expect(graph == NULL);

	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuEventRecord(fork, a));
	ok(cuStreamWaitEvent(b, fork, 0));
	ok(sim_launch(sim.add, word, 1, b));
	answers(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	expect(graph == NULL);
	ok(cuStreamIsCapturing(a, &status));
	expect_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
	/* Both streams work as before. */
	ok(sim_launch(sim.add, word, 1, b));
	ok(cuStreamSynchronize(b));
	expect_eq(sim_word(word), 1);
	sim_end(&sim);
}

/* Begins a capture, has `forbidden` answered, and expects the capture to be gone. */
static void expect_broken(CUstream stream, CUresult got, CUresult wanted)
{
	CUstreamCaptureStatus status;
	CUgraph graph;

	answers(got, wanted);
	ok(cuStreamIsCapturing(stream, &status));
	expect_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	answers(cuLaunchHostFunc(stream, (CUhostFn)free, NULL),
		CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	answers(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuStreamSynchronize(stream));
}

TEST(what_capture_does_not_allow_breaks_it)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUstream stream = stream_new(0);
	CUevent outside = event_new();
	unsigned value;

	ok(cuEventRecord(outside, stream));
	ok(cuEventSynchronize(outside));

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect_broken(stream, cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect_broken(stream, cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect_broken(stream, cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect_broken(stream, cuEventQuery(outside), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect_broken(stream, cuStreamWaitEvent(stream, outside, 0),
		      CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect_broken(stream, sim_launch(sim.add, word, 1, CU_STREAM_LEGACY),
		      CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect_broken(stream, cuMemcpyDtoH_v2(&value, word, 4), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect_broken(stream, cuMemAlloc_v2(&word, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	sim_end(&sim);
}

static void *allocate(void *context)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	CUdeviceptr address;
	CUresult *results = calloc(2, sizeof(*results));

	ok(cuCtxSetCurrent(context));
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	expect_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	results[0] = cuMemAlloc_v2(&address, 4);
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	results[1] = cuMemAlloc_v2(&address, 4);
	return results;
}

TEST(threads_choose_whose_captures_they_mind)
{
	struct sim sim = sim_begin();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream stream = stream_new(0);
	CUdeviceptr address;
	CUresult *results;
	pthread_t thread;
	CUgraph graph;

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	ok(cuMemAlloc_v2(&address, 4));
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	pthread_create(&thread, NULL, allocate, sim.context);
	pthread_join(thread, (void **)&results);
	answers(results[0], CUDA_SUCCESS);
	answers(results[1], CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	answers(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	free(results);

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	pthread_create(&thread, NULL, allocate, sim.context);
	pthread_join(thread, (void **)&results);
	answers(results[1], CUDA_SUCCESS);
	ok(cuStreamEndCapture(stream, &graph));
	free(results);
	sim_end(&sim);
}

TEST(captures_do_not_mix)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUstream a = stream_new(0), b = stream_new(0);
	CUevent event = event_new();
	CUgraph graph;

	answers(cuStreamBeginCapture_v2(CU_STREAM_LEGACY, 0),
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	answers(cuStreamBeginCapture_v2(a, 3), CUDA_ERROR_INVALID_VALUE);
	answers(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);
	ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	answers(cuStreamBeginCapture_v2(a, 0), CUDA_ERROR_ILLEGAL_STATE);
	ok(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(sim_launch(sim.add, word, 1, a));
	ok(cuEventRecord(event, a));
	answers(cuStreamWaitEvent(b, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	answers(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	answers(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* The event remembers a capture that is no more. */
	answers(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
	ok(cuEventRecord(event, a));
	ok(cuEventSynchronize(event));
	sim_end(&sim);
}

TEST(a_capture_can_be_steered_and_continue_a_graph)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(3, 1);
	CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
	CUstreamCaptureStatus status;
	const CUgraphNode *tips;
	CUgraphNode first, set;
	CUgraph graph, seen;
	size_t n;

	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(sim_launch(sim.add, words, 1, stream));
	ok(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &seen, &tips, &n));
	expect_eq(n, 1);
	first = tips[0];
	ok(sim_launch(sim.add, words + 4, 1, stream));
	/* Back to the first node: what comes now is beside the second. */
	ok(cuStreamUpdateCaptureDependencies(stream, &first, 1,
					     CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	ok(sim_launch(sim.add, words + 8, 1, stream));
	ok(cuGraphAddEmptyNode(&set, seen, &first, 1));
	ok(cuStreamUpdateCaptureDependencies(stream, &set, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	ok(cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &tips, &n));
	expect_eq(n, 2);
	ok(cuStreamEndCapture(stream, &graph));
	expect(graph == seen);
	n = 0;
	ok(cuGraphNodeGetDependentNodes(first, NULL, &n));
	expect_eq(n, 3);

	ok(cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(sim_launch(sim.times, words, 5, stream));
	ok(cuStreamEndCapture(stream, &seen));
	expect(graph == seen);
	expect_eq(count_nodes(graph), 5);
	run_graph(graph, stream, 1);
	expect_eq(sim_word(words), 10);
	expect_eq(sim_word(words + 4), 2);
	expect_eq(sim_word(words + 8), 2);
	ok(cuGraphDestroy(graph));
	sim_end(&sim);
}

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

TEST(nothing_looks_at_how_far_captured_work_reaches)
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
