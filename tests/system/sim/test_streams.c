/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which streams run what they are given, and what they answer meanwhile.
 */
#include <pthread.h>
#include <semaphore.h>

#include "tests/system/sim/streams.h"

enum { WATCHED_US = 50000 };

TEST(work_in_a_stream_runs_in_order)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 1);
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < 50; i++) {
		ok(sim_launch(sim.times, word, 3, stream));
		ok(sim_launch(sim.add, word, 1, stream));
	}
	ok(cuStreamSynchronize(stream));
	{
		uint32_t wanted = 1;

		for (unsigned i = 0; i < 50; i++)
			wanted = wanted * 3 + 1;
		expect_eq(sim_word(word), wanted);
	}
	ok(cuStreamDestroy_v2(stream));
	sim_end(&sim);
}

TEST(the_legacy_stream_waits_for_blocking_streams_and_not_for_others)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	struct gate gate = gate_new();
	CUstream blocking, other;

	ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ok(gate_close(&gate, blocking));
	ok(cuMemsetD32Async(word, 7, 1, blocking));
	ok(sim_launch(sim.add, word, 5, NULL));
	answers(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	answers(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	ok(cuMemsetD32Async(word, 100, 1, other));
	ok(cuStreamSynchronize(other));
	expect_eq(sim_word(word), 100);
	gate_open(&gate);
	ok(cuStreamSynchronize(NULL));
	expect_eq(sim_word(word), 12);
	ok(cuStreamQuery(NULL));
	ok(cuStreamQuery(blocking));
	gate_free(&gate);
	sim_end(&sim);
}

TEST(blocking_streams_wait_for_the_legacy_stream)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	struct gate gate = gate_new();
	CUstream blocking;

	ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	ok(gate_close(&gate, CU_STREAM_LEGACY));
	ok(cuMemsetD32Async(word, 3, 1, NULL));
	ok(sim_launch(sim.times, word, 5, blocking));
	answers(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	expect_eq(sim_word(word), 0);
	gate_open(&gate);
	ok(cuStreamSynchronize(blocking));
	expect_eq(sim_word(word), 15);
	gate_free(&gate);
	sim_end(&sim);
}

TEST(blocking_streams_do_not_wait_for_each_other)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	struct gate gate = gate_new();
	CUstream a, b;

	ok(cuStreamCreate(&a, CU_STREAM_DEFAULT));
	ok(cuStreamCreate(&b, CU_STREAM_DEFAULT));
	ok(gate_close(&gate, a));
	ok(cuMemsetD32Async(word, 9, 1, b));
	ok(cuStreamSynchronize(b));
	expect_eq(sim_word(word), 9);
	gate_open(&gate);
	ok(cuCtxSynchronize());
	gate_free(&gate);
	sim_end(&sim);
}

TEST(a_kernel_that_polls_memory_blocks_no_other_stream)
{
	struct sim sim = sim_begin();
	CUdeviceptr flag = sim_words(1, 0), out = sim_words(1, 0);
	void *params[] = {&flag, &out};
	CUstream a, b;

	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	ok(cuLaunchKernel(sim.await, 1, 1, 1, 1, 1, 1, 0, a, params, NULL));
	answers(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	ok(cuStreamWriteValue32_v2(b, flag, 42, 0));
	ok(cuStreamSynchronize(a));
	expect_eq(sim_word(out), 42);
	sim_end(&sim);
}

TEST(a_destroyed_stream_still_does_its_work)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	struct gate gate = gate_new();
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	ok(gate_close(&gate, stream));
	ok(cuMemsetD32Async(word, 8, 1, stream));
	ok(cuStreamDestroy_v2(stream));
	answers(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
	answers(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
	/* The legacy stream comes after it all the same. */
	ok(sim_launch(sim.add, word, 1, NULL));
	gate_open(&gate);
	ok(cuCtxSynchronize());
	expect_eq(sim_word(word), 9);
	gate_free(&gate);
	sim_end(&sim);
}

static void count(void *data)
{
	atomic_fetch_add((atomic_uint *)data, 1);
}

struct ending {
	struct sim *sim;
	sem_t begins;
	atomic_bool over;
};

static void *end_context(void *data)
{
	struct ending *ending = data;

	ok(cuCtxSetCurrent(ending->sim->context));
	sem_post(&ending->begins);
	sim_end(ending->sim);
	atomic_store(&ending->over, true);
	return NULL;
}

/* The word is another context's, and it is there whatever the one that ends does. */
TEST(a_context_ends_when_the_value_that_a_stream_waits_for_is_written)
{
	struct sim other = sim_begin();
	struct gate gate = gate_new();
	struct sim sim = sim_begin();
	struct ending ending = {.sim = &sim};
	atomic_uint calls = 0;
	pthread_t thread;
	CUstream a, b;
	CUevent event;

	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_DEFAULT));
	ok(cuEventCreate(&event, 0));
	ok(gate_close(&gate, a));
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	ok(cuLaunchHostFunc(b, count, &calls));
	sem_init(&ending.begins, 0, 0);
	pthread_create(&thread, NULL, end_context, &ending);
	sem_wait(&ending.begins);
	/* That nothing happens is no event: a context that does not wait ends in this time. */
	usleep(WATCHED_US);
	expect(!atomic_load(&ending.over));
	expect_eq(calls, 0);
	gate_open(&gate);
	pthread_join(thread, NULL);
	expect_eq(calls, 1);
	sem_destroy(&ending.begins);
	ok(cuCtxSetCurrent(other.context));
	gate_free(&gate);
	sim_end(&other);
}

TEST(an_event_outlives_its_context)
{
	struct sim sim = sim_begin();
	CUevent event;

	ok(cuEventCreate(&event, 0));
	ok(cuEventRecord(event, NULL));
	sim_end(&sim);
	ok(cuEventDestroy_v2(event));
}

TEST(a_context_waits_for_work_that_can_still_be_done)
{
	struct sim sim = sim_begin();
	atomic_uint calls = 0;
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < 20; i++)
		ok(cuLaunchHostFunc(stream, count, &calls));
	sim_end(&sim);
	expect_eq(calls, 20);
}

TEST(streams_say_what_they_are)
{
	struct sim sim = sim_begin();
	unsigned long long id, other_id;
	CUstreamAttrValue value;
	CUstream stream, other;
	CUcontext context;
	CUdevice device;
	unsigned flags;
	int priority;

	ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99));
	ok(cuStreamGetPriority(stream, &priority));
	expect_eq(priority, -5);
	ok(cuStreamGetFlags(stream, &flags));
	expect_eq(flags, CU_STREAM_NON_BLOCKING);
	ok(cuStreamGetCtx(stream, &context));
	expect(context == sim.context);
	ok(cuStreamGetDevice(stream, &device));
	expect_eq(device, sim.device);
	ok(cuStreamGetId(stream, &id));
	ok(cuStreamGetId(CU_STREAM_LEGACY, &other_id));
	expect(id != other_id);
	ok(cuStreamGetFlags(CU_STREAM_LEGACY, &flags));
	expect_eq(flags, 0);

	ok(cuStreamCreate(&other, 0));
	memset(&value, 0, sizeof(value));
	value.syncPolicy = CU_SYNC_POLICY_YIELD;
	ok(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	ok(cuStreamCopyAttributes(other, stream));
	memset(&value, 0, sizeof(value));
	ok(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	expect_eq(value.syncPolicy, CU_SYNC_POLICY_YIELD);
	answers(cuStreamSetAttribute(other, CU_LAUNCH_ATTRIBUTE_IGNORE, &value),
		CUDA_ERROR_INVALID_VALUE);
	answers(cuStreamCreate(&other, 2), CUDA_ERROR_INVALID_VALUE);
	answers(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	answers(cuStreamSynchronize((CUstream)&sim), CUDA_ERROR_INVALID_HANDLE);
	sim_end(&sim);
}

static void *id_of_thread(void *context)
{
	unsigned long long *id = malloc(sizeof(*id));

	ok(cuCtxSetCurrent(context));
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, id));
	return id;
}

TEST(each_thread_has_a_default_stream_of_its_own)
{
	struct sim sim = sim_begin();
	unsigned long long mine, again, *theirs;
	pthread_t thread;

	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
	ok(cuStreamGetId_ptsz(NULL, &again));
	expect_eq(mine, again);
	pthread_create(&thread, NULL, id_of_thread, sim.context);
	pthread_join(thread, (void **)&theirs);
	expect(*theirs != mine);
	free(theirs);
	ok(cuStreamGetId(NULL, &again));
	expect(again != mine);
	sim_end(&sim);
}

TEST(a_thread_that_ends_leaves_its_work_to_be_done)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	unsigned long long *id;
	pthread_t thread;

	for (unsigned i = 0; i < 20; i++) {
		ok(cuMemsetD32Async(word, i, 1, CU_STREAM_PER_THREAD));
		pthread_create(&thread, NULL, id_of_thread, sim.context);
		pthread_join(thread, (void **)&id);
		free(id);
	}
	ok(cuCtxSynchronize());
	expect_eq(sim_word(word), 19);
	sim_end(&sim);
}

TEST(an_error_sticks_to_its_context_only)
{
	struct sim sim = sim_begin(), other = sim_begin();
	CUdeviceptr word;
	CUstream stream;

	ok(cuCtxSetCurrent(sim.context));
	word = sim_words(1, 5);
	ok(cuStreamCreate(&stream, 0));
	ok(cuLaunchKernel(sim.wild, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	answers(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	answers(sim_launch(sim.add, word, 1, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	answers(cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	answers(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	ok(cuCtxSetCurrent(other.context));
	ok(cuCtxSynchronize());
	word = sim_words(1, 6);
	expect_eq(sim_word(word), 6);
	ok(cuCtxDestroy_v2(sim.context));
	sim_end(&other);
}

TEST(a_pageable_source_has_been_read_when_the_call_returns)
{
	struct sim sim = sim_begin();
	CUdeviceptr words = sim_words(4096, 0);
	struct gate gate = gate_new();
	unsigned *source = malloc(4096 * 4);
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < 4096; i++)
		source[i] = i;
	ok(gate_close(&gate, stream));
	ok(cuMemcpyHtoDAsync_v2(words, source, 4096 * 4, stream));
	memset(source, 0xff, 4096 * 4);
	free(source);
	answers(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cuStreamSynchronize(stream));
	expect_eq(sim_word(words + 4 * 4000), 4000);
	gate_free(&gate);
	sim_end(&sim);
}

TEST(a_pinned_source_is_read_when_its_turn_comes)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	struct gate gate = gate_new(), source = gate_new();
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(gate_close(&gate, stream));
	atomic_store(source.word, 1);
	ok(cuMemcpyHtoDAsync_v2(word, (void *)source.word, 4, stream));
	atomic_store(source.word, 2);
	gate_open(&gate);
	ok(cuStreamSynchronize(stream));
	expect_eq(sim_word(word), 2);
	gate_free(&source);
	gate_free(&gate);
	sim_end(&sim);
}

static void *wait_for_legacy(void *context)
{
	ok(cuCtxSetCurrent(context));
	ok(cuStreamSynchronize(CU_STREAM_LEGACY));
	return NULL;
}

TEST(a_wait_for_the_legacy_stream_holds_up_nobody)
{
	struct sim sim = sim_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUstream a, b;
	pthread_t thread;

	ok(cuStreamCreate(&a, CU_STREAM_DEFAULT));
	ok(cuStreamCreate(&b, CU_STREAM_DEFAULT));
	ok(cuStreamWaitValue32_v2(a, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	pthread_create(&thread, NULL, wait_for_legacy, sim.context);
	for (unsigned i = 0; i < 100; i++)
		sched_yield();
	ok(cuStreamWriteValue32_v2(b, word, 1, 0));
	pthread_join(thread, NULL);
	ok(cuStreamQuery(a));
	sim_end(&sim);
}

TEST(a_set_of_pinned_memory_is_done_when_the_call_returns)
{
	struct sim sim = sim_begin();
	struct gate gate = gate_new();

	for (unsigned i = 1; i < 50; i++) {
		ok(cuMemsetD32_v2(gate.address, i, 1));
		expect_eq(*gate.word, i);
	}
	gate_free(&gate);
	sim_end(&sim);
}
