/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: what becomes a graph, how it spreads over streams, and what breaks it.
 */
#include "tests/system/sim/capture.h"

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

TEST(a_call_that_capture_does_not_allow_breaks_it)
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
