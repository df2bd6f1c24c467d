/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events and their times, host functions and callbacks, and words of memory that streams wait for.
 */
#include <pthread.h>
#include <semaphore.h>

#include "tests/system/sim/streams.h"

TEST(an_event_tells_how_long_a_kernel_took)
{
	struct sim sim = sim_begin();
	CUevent from, to;
	float ms = 0;

	ok(cuEventCreate(&from, CU_EVENT_DEFAULT));
	ok(cuEventCreate(&to, CU_EVENT_BLOCKING_SYNC));
	ok(cuEventQuery(from));
	answers(cuEventElapsedTime(&ms, from, to), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventRecord(from, NULL));
	ok(cuLaunchKernel(sim.slow, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuEventRecord(to, NULL));
	ok(cuEventSynchronize(to));
	ok(cuEventQuery(to));
	ok(cuEventElapsedTime(&ms, from, to));
	expect(ms >= 20.0f);
	ok(cuEventElapsedTime(&ms, to, from));
	expect(ms <= -20.0f);
	ok(cuEventDestroy_v2(from));
	ok(cuEventDestroy_v2(to));
	answers(cuEventQuery(to), CUDA_ERROR_INVALID_HANDLE);
	sim_end(&sim);
}

TEST(an_event_is_not_ready_before_its_stream_is_there)
{
	struct sim sim = sim_begin();
	struct gate gate = gate_new();
	CUevent event, other;
	CUstream stream;
	float ms;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuEventCreate(&event, 0));
	ok(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
	ok(cuEventRecord(event, stream));
	ok(cuEventSynchronize(event));
	ok(gate_close(&gate, stream));
	ok(cuEventRecord(event, stream));
	answers(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	answers(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_NOT_READY);
	answers(cuEventElapsedTime(&ms, event, other), CUDA_ERROR_INVALID_HANDLE);
	gate_open(&gate);
	ok(cuEventSynchronize(event));
	ok(cuEventQuery(event));
	answers(cuEventCreate(&event, 8), CUDA_ERROR_INVALID_VALUE);
	answers(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	gate_free(&gate);
	sim_end(&sim);
}

/* And orders nothing: the streams go on beside it. */
TEST(an_event_of_a_context_is_ready_when_all_its_streams_are)
{
	struct sim sim = sim_begin();
	struct gate first = gate_new(), second = gate_new();
	CUstream blocking, apart, captured;
	CUcontext context;
	CUevent event;
	CUgraph graph;

	ok(cuCtxGetCurrent(&context));
	ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	ok(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ok(gate_close(&first, blocking));
	ok(gate_close(&second, apart));
	ok(cuCtxRecordEvent(context, event));
	answers(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	gate_open(&second);
	ok(cuStreamSynchronize(apart));
	ok(cuLaunchKernel(sim.slow, 1, 1, 1, 1, 1, 1, 0, apart, NULL, NULL));
	ok(cuStreamSynchronize(apart));
	answers(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	gate_open(&first);
	ok(cuEventSynchronize(event));
	ok(cuEventQuery(event));
	ok(cuStreamQuery(CU_STREAM_LEGACY));
	ok(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
	answers(cuCtxRecordEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	answers(cuStreamEndCapture(captured, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	answers(cuCtxRecordEvent(context, NULL), CUDA_ERROR_INVALID_HANDLE);
	gate_free(&first);
	gate_free(&second);
	sim_end(&sim);
}

TEST(a_wait_means_the_record_that_there_was_when_it_was_asked_for)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	struct gate first = gate_new(), second = gate_new();
	CUstream a, b;
	CUevent event;

	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ok(gate_close(&first, a));
	ok(sim_launch(sim.add, word, 1, a));
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	ok(sim_launch(sim.times, word, 10, b));
	/* Recorded again, behind a second gate: b does not care, nor if it is destroyed. */
	ok(gate_close(&second, a));
	ok(cuEventRecord(event, a));
	ok(cuEventDestroy_v2(event));
	answers(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	gate_open(&first);
	ok(cuStreamSynchronize(b));
	expect_eq(sim_word(word), 20);
	answers(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	gate_open(&second);
	ok(cuStreamSynchronize(a));
	gate_free(&first);
	gate_free(&second);
	sim_end(&sim);
}

TEST(an_event_orders_streams_of_two_contexts)
{
	struct sim one = sim_begin(), two = sim_begin();
	struct gate gate;
	CUdeviceptr word;
	CUstream a, b;
	CUevent event;

	ok(cuCtxSetCurrent(one.context));
	gate = gate_new();
	ok(cuStreamCreate(&a, 0));
	ok(cuEventCreate(&event, 0));
	ok(gate_close(&gate, a));
	ok(cuEventRecord(event, a));
	ok(cuCtxSetCurrent(two.context));
	word = sim_words(1, 1);
	ok(cuStreamCreate(&b, 0));
	answers(cuEventRecord(event, b), CUDA_ERROR_INVALID_HANDLE);
	ok(cuStreamWaitEvent(b, event, 0));
	ok(sim_launch(two.add, word, 1, b));
	answers(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cuStreamSynchronize(b));
	expect_eq(sim_word(word), 2);
	ok(cuCtxDestroy_v2(one.context));
	sim_end(&two);
}

/* ---- host functions ------------------------------------------------------------------------- */

struct call {
	struct sim *sim;
	CUstream stream;
	CUresult status;
	CUresult answers[4];
	atomic_uint calls;
};

static void call_driver(void *data)
{
	struct call *call = data;
	CUdeviceptr address;

	call->answers[0] = cuMemAlloc_v2(&address, 4);
	call->answers[1] = cuStreamSynchronize(call->stream);
	call->answers[2] = cuCtxSynchronize();
	call->answers[3] = cuStreamQuery(call->stream);
	atomic_fetch_add(&call->calls, 1);
}

static void callback(CUstream stream, CUresult status, void *data)
{
	struct call *call = data;

	call->stream = stream;
	call->status = status;
	atomic_fetch_add(&call->calls, 1);
}

static void callback_that_calls(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	(void)status;
	call_driver(data);
}

TEST(a_host_function_may_not_call_the_driver)
{
	struct sim sim = sim_begin();
	struct call call = {.sim = &sim};

	ok(cuStreamCreate(&call.stream, 0));
	ok(cuLaunchHostFunc(call.stream, call_driver, &call));
	ok(cuStreamSynchronize(call.stream));
	expect_eq(call.calls, 1);
	for (size_t i = 0; i < ARRAY_SIZE(call.answers); i++)
		answers(call.answers[i], CUDA_ERROR_NOT_PERMITTED);
	sim_end(&sim);
}

/* NVIDIA forbids it, and an H100's driver (580.159.04) then hangs: no GPU is asked this. */
TEST(a_callback_may_not_call_the_driver)
{
	struct sim sim = sim_begin();
	struct call call = {.sim = &sim};

	ok(cuStreamCreate(&call.stream, 0));
	ok(cuStreamAddCallback(call.stream, callback_that_calls, &call, 0));
	ok(cuStreamSynchronize(call.stream));
	expect_eq(call.calls, 1);
	for (size_t i = 0; i < ARRAY_SIZE(call.answers); i++)
		answers(call.answers[i], CUDA_ERROR_NOT_PERMITTED);
	sim_end(&sim);
}

TEST(a_callback_is_told_its_stream_and_status)
{
	struct sim sim = sim_begin();
	struct call call = {.sim = &sim, .status = CUDA_ERROR_UNKNOWN};
	CUstream stream;

	ok(cuStreamCreate(&stream, 0));
	ok(cuStreamAddCallback(stream, callback, &call, 0));
	ok(cuStreamSynchronize(stream));
	expect(call.stream == stream);
	answers(call.status, CUDA_SUCCESS);
	expect_eq(call.calls, 1);
	answers(cuStreamAddCallback(stream, callback, &call, 1), CUDA_ERROR_INVALID_VALUE);
	answers(cuLaunchHostFunc(stream, NULL, &call), CUDA_ERROR_INVALID_VALUE);
	/* After a failure a callback still comes, and is told; a host function does not come. */
	ok(cuLaunchKernel(sim.wild, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	best_effort(cuStreamAddCallback(stream, callback, &call, 0));
	answers(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	sim_end(&sim);
	expect(call.calls == 1 || call.status == CUDA_ERROR_ILLEGAL_ADDRESS);
}

struct meeting {
	struct sim *sim;
	CUdeviceptr word;
	sem_t launched;
};

static void wait_for_launches(void *data)
{
	struct meeting *meeting = data;

	sem_wait(&meeting->launched);
}

static void *launch_elsewhere(void *data)
{
	struct meeting *meeting = data;
	CUstream stream;

	ok(cuCtxSetCurrent(meeting->sim->context));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(sim_launch(meeting->sim->add, meeting->word, 4, stream));
	ok(cuStreamSynchronize(stream));
	ok(cuStreamDestroy_v2(stream));
	sem_post(&meeting->launched);
	return NULL;
}

TEST(a_host_function_may_wait_for_another_threads_work)
{
	struct sim sim = sim_begin();
	struct meeting meeting = {.sim = &sim, .word = sim_words(1, 0)};
	pthread_t thread;

	sem_init(&meeting.launched, 0, 0);
	ok(cuLaunchHostFunc(CU_STREAM_PER_THREAD, wait_for_launches, &meeting));
	pthread_create(&thread, NULL, launch_elsewhere, &meeting);
	ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	pthread_join(thread, NULL);
	expect_eq(sim_word(meeting.word), 4);
	sim_end(&sim);
	sem_destroy(&meeting.launched);
}

/* ---- words of memory ------------------------------------------------------------------------ */

TEST(a_stream_waits_for_a_value_that_another_writes)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(4, 0), sum = sim_words(1, 0);
	CUstream a, b;

	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 1; i <= 10; i++) {
		ok(cuStreamWaitValue32_v2(a, words, i, CU_STREAM_WAIT_VALUE_EQ));
		ok(sim_launch(sim.add, sum, i, a));
		ok(cuStreamWriteValue64_v2(a, words + 8, i, 0));
	}
	for (unsigned i = 1; i <= 10; i++) {
		ok(cuStreamWriteValue32_v2(b, words, i, 0));
		ok(cuStreamWaitValue64_v2(b, words + 8, i, CU_STREAM_WAIT_VALUE_GEQ));
	}
	ok(cuStreamSynchronize(a));
	ok(cuStreamSynchronize(b));
	expect_eq(sim_word(sum), 55);
	sim_end(&sim);
}

TEST(waits_compare_as_asked)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(2, 0);
	CUstream a, b;

	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	ok(cuMemsetD32_v2(words, 0xfffffff0, 1));
	ok(cuStreamSynchronize(NULL));
	/* Cyclic: 3 is ahead of 0xfffffff0, so that the word has yet to get there. */
	ok(cuStreamWaitValue32_v2(a, words, 3, CU_STREAM_WAIT_VALUE_GEQ));
	answers(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	ok(cuStreamWriteValue32_v2(b, words, 4, 0));
	ok(cuStreamSynchronize(a));
	ok(cuStreamWaitValue32_v2(a, words, 6, CU_STREAM_WAIT_VALUE_AND));
	ok(cuStreamSynchronize(a));
	ok(cuStreamWaitValue32_v2(a, words, 3, CU_STREAM_WAIT_VALUE_NOR));
	ok(cuStreamSynchronize(a));
	ok(cuStreamWriteValue32_v2(b, words, 0xffffffff, 0));
	ok(cuStreamSynchronize(b));
	ok(cuStreamWaitValue32_v2(a, words, 0, CU_STREAM_WAIT_VALUE_NOR));
	answers(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	ok(cuStreamWriteValue32_v2(b, words, 1, 0));
	ok(cuStreamSynchronize(a));
	sim_end(&sim);
}

TEST(a_batch_is_done_in_order)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(4, 0);
	CUstreamBatchMemOpParams batch[4];
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	memset(batch, 0, sizeof(batch));
	batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	batch[0].writeValue.address = words;
	batch[0].writeValue.value = 5;
	batch[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
	batch[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	batch[2].waitValue.address = words;
	batch[2].waitValue.value = 5;
	batch[2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	batch[3].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	batch[3].writeValue.address = words + 8;
	batch[3].writeValue.value64 = 6;
	ok(cuStreamBatchMemOp_v2(stream, 4, batch, 0));
	ok(cuStreamSynchronize(stream));
	expect_eq(sim_word(words), 5);
	expect_eq(sim_word(words + 8), 6);
	batch[3].writeValue.address = words + 4;
	answers(cuStreamBatchMemOp_v2(stream, 4, batch, 0), CUDA_ERROR_INVALID_VALUE);
	answers(cuStreamWaitValue32_v2(stream, 4096, 1, 0), CUDA_ERROR_INVALID_VALUE);
	answers(cuStreamWriteValue32_v2(stream, words, 1, 8), CUDA_ERROR_INVALID_VALUE);
	answers(cuStreamBatchMemOp_v2(stream, 1, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	sim_end(&sim);
}
