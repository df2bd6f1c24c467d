/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with several contexts, streams and threads, as frameworks have them. */
#include <signal.h>
#include <string.h>

#include "tests/guest/turns_traps.h"

static void after(CUstream first, CUstream second, CUevent event)
{
	ok(g.cuEventRecord(event, first));
	ok(g.cuStreamWaitEvent(second, event, 0));
}

/* ---- streams of other priorities in two contexts, with events between them ------------------- */

void trap_priorities(void)
{
	static struct traps_place low, high;

	if (!low.context) {
		traps_open(&low, 0, 0);
		traps_open(&high, 0, -5);
	}
	/* What is low polls for what is high, which waits at the gate, and the other way around. */
	ok(g.cuCtxSetCurrent(low.context));
	traps_launch_at(&low, low.wait, 2 * g.round);
	ok(g.cuEventRecord(low.event, low.stream));
	traps_pause();
	ok(g.cuCtxSetCurrent(high.context));
	traps_launch_at(&high, high.spend, 200000);
	traps_launch_at(&high, high.set, 2 * g.round);
	ok(g.cuStreamWaitEvent(high.stream, low.event, 0));
	traps_launch_at(&high, high.spend, 200000);
	ok(g.cuEventRecord(high.event, high.stream));
	ok(g.cuCtxSetCurrent(low.context));
	ok(g.cuStreamWaitEvent(low.stream, high.event, 0));
	traps_launch_at(&low, low.spend, 200000);
	ok(g.cuStreamSynchronize(low.stream));
}

/* ---- memory of a pool that goes from stream to stream ---------------------------------------- */

static void *allocate_there(void *nothing)
{
	CUstream stream = g.device[0].stream[1];
	CUdeviceptr at;

	(void)nothing;
	traps_use_device();
	ok(g.cuMemAllocAsync(&at, 4 << 20, stream));
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuMemFreeAsync(at, stream));
	ok(g.cuStreamSynchronize(stream));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_pool(void)
{
	static CUevent event;
	CUstream *stream = g.device[0].stream;
	CUdeviceptr at[4];
	pthread_t thread;

	if (!event)
		event = traps_event();
	for (int i = 0; i < 4; i++) {
		ok(g.cuMemAllocAsync(&at[i], (size_t)(i + 1) << 20, stream[i % 2]));
		traps_launch(0, i % 2, g.device[0].spend, 100000);
		after(stream[i % 2], stream[1 - i % 2], event);
		ok(g.cuMemFreeAsync(at[i], stream[1 - i % 2]));
	}
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_pause();
	traps_thread(allocate_there, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* ---- a kernel waits for a thread that makes and destroys things -------------------------------
 */

static CUdeviceptr made;

static void *make_and_destroy(void *nothing)
{
	CUcontext context;
	CUstream stream;

	(void)nothing;
	traps_use_device();
	ok(g.cuMemAlloc_v2(&made, 8 << 20));
	ok(g.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(g.cuStreamDestroy_v2(stream));
	ok(g.cuCtxCreate_v2(&context, 0, 0));
	ok(g.cuCtxDestroy_v2(context));
	traps_use_device();
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_makes(void)
{
	pthread_t thread;

	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_pause();
	traps_thread(make_and_destroy, &thread);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	pthread_join(thread, NULL);
	ok(g.cuMemFree_v2(made)); /* would wait for the kernel */
}

/* ---- two kernels of two threads meet ----------------------------------------------------------
 */

static void meet(int own)
{
	CUdeviceptr words = g.address;
	uint32_t offset = (uint32_t)own * 4, value = g.round;
	void *arguments[] = {&words, &offset, &value};

	ok(g.cuLaunchKernel(g.device[0].meet, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[own],
			    arguments, NULL));
	ok(g.cuStreamSynchronize(g.device[0].stream[own]));
}

static void *meet_there(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_pause();
	meet(1);
	return NULL;
}

void trap_threads(void)
{
	pthread_t thread;

	traps_thread(meet_there, &thread);
	meet(0);
	pthread_join(thread, NULL);
}

/* ---- training: a thread fetches, one computes, one validates -----------------------------------
 */

enum { BATCHES = 8, PLACES = 2 };

static struct {
	CUevent fetched[PLACES], used[PLACES];
	CUdeviceptr at[PLACES], result;
	CUstream stream;
	void *host;
	atomic_uint fetching, training;
} t;

static void *fetch(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (unsigned i = 0; i < BATCHES; i++) {
		while (i >= PLACES && t.training < i - PLACES + 1)
			sched_yield();
		ok(g.cuStreamWaitEvent(t.stream, t.used[i % PLACES], 0));
		ok(g.cuMemcpyHtoDAsync_v2(t.at[i % PLACES], t.host, 1 << 20, t.stream));
		ok(g.cuEventRecord(t.fetched[i % PLACES], t.stream));
		t.fetching = i + 1;
	}
	return NULL;
}

static void *validate(void *nothing)
{
	uint32_t got[64];

	(void)nothing;
	traps_use_device();
	for (int i = 0; i < 2; i++) {
		traps_launch(0, 1, g.device[0].spend, 500000);
		ok(g.cuStreamSynchronize(g.device[0].stream[1]));
		ok(g.cuMemcpyDtoH_v2(got, t.result, sizeof(got)));
	}
	return NULL;
}

static void begin_training(void)
{
	for (int i = 0; i < PLACES; i++) {
		t.fetched[i] = traps_event();
		t.used[i] = traps_event();
		ok(g.cuMemAlloc_v2(&t.at[i], 1 << 20));
	}
	ok(g.cuMemAlloc_v2(&t.result, 4096));
	ok(g.cuMemsetD8_v2(t.result, 0, 4096));
	ok(g.cuMemHostAlloc(&t.host, 1 << 20, 0));
	ok(g.cuStreamCreate(&t.stream, CU_STREAM_NON_BLOCKING));
}

void trap_training(void)
{
	pthread_t fetcher, validator;

	if (!t.host)
		begin_training();
	t.fetching = t.training = 0;
	traps_thread(fetch, &fetcher);
	traps_thread(validate, &validator);
	for (unsigned i = 0; i < BATCHES; i++) {
		while (t.fetching <= i)
			sched_yield();
		ok(g.cuStreamWaitEvent(g.device[0].stream[0], t.fetched[i % PLACES], 0));
		traps_launch(0, 0, g.device[0].spend, 1000000);
		ok(g.cuEventRecord(t.used[i % PLACES], g.device[0].stream[0]));
		t.training = i + 1;
	}
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	pthread_join(fetcher, NULL);
	pthread_join(validator, NULL);
}

/* ---- a timer whose handler launches ------------------------------------------------------------
 */

static void on_timer(union sigval nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	atomic_fetch_add(g.word, 1);
}

void trap_timer(void)
{
	static timer_t timer;
	static bool begun;
	struct sigevent how = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
	struct itimerspec when = {{0, 0}, {0, 2000000}};
	uint32_t seen = atomic_load(g.word);

	if (!begun && timer_create(CLOCK_MONOTONIC, &how, &timer) != 0)
		fail("no timer");
	begun = true;
	when.it_value.tv_nsec = (long)(1000000 * g.slow);
	when.it_interval = when.it_value;
	traps_launch(0, 0, g.device[0].wait, seen + 3);
	timer_settime(timer, 0, &when, NULL);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	when.it_value.tv_nsec = when.it_interval.tv_nsec = 0;
	timer_settime(timer, 0, &when, NULL);
}
