/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's law: after a guest has acknowledged a close nothing is submitted, and what was
 * submitted is complete, until the gate opens. Attacked by sixteen threads.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/drivers/law.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

enum {
	COUPLED_MS = 5,	     /* then a close that threads wait for is given up */
	DEADLOCK_MS = 60000, /* then the test has failed */
};

static struct {
	void *handle;
	struct law *law;
	struct fake fake;
	atomic_int stop;
	atomic_ulong hosted;
	api_fn_cuLaunchKernel *launch;
	api_fn_cuMemcpyHtoDAsync_v2 *copy;
	api_fn_cuMemsetD8_v2 *set;
	api_fn_cuGraphLaunch *graph;
	api_fn_cuLaunchHostFunc *host;
	api_fn_cuStreamWaitValue32_v2 *wait;
	api_fn_cuStreamCreate *create;
	api_fn_cuStreamDestroy_v2 *destroy;
	api_fn_cuStreamSynchronize *synchronize;
	api_fn_cuStreamBeginCapture_v2 *begin;
	api_fn_cuStreamEndCapture *end;
} g;

static CUresult launch(CUstream stream)
{
	return g.launch((CUfunction)1, 1, 2, 3, 4, 5, 6, 7, stream, NULL, NULL);
}

static CUstream new_stream(unsigned flags)
{
	CUstream stream = NULL;

	check(g.create(&stream, flags) == CUDA_SUCCESS);
	return stream;
}

static void *launches(void *argument)
{
	CUstream stream = new_stream((unsigned)(uintptr_t)argument & 1);

	for (unsigned i = 0; !g.stop; i++) {
		check(launch(stream) == CUDA_SUCCESS);
		check(g.copy(1, &i, 4, stream) == CUDA_SUCCESS);
		if (i % 16 == 0)
			g.synchronize(stream);
		if (i % 64 == 0)
			check(g.set(1, 2, 3) == CUDA_SUCCESS);
		if (i % 1024 == 0) {
			g.synchronize(stream);
			check(g.destroy(stream) == CUDA_SUCCESS);
			stream = new_stream(i / 1024 & 1);
		}
	}
	return NULL;
}

static void *captures(void *argument)
{
	CUstream stream = new_stream((unsigned)(uintptr_t)argument & 1), other = new_stream(1);
	CUgraph graph;

	while (!g.stop) {
		check(g.begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
		/* With a capture of its own open a second one must not wait for the gate. */
		check(g.begin(other, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
		for (int i = 0; i < 10; i++)
			check(launch(i & 1 ? stream : other) == CUDA_SUCCESS);
		check(g.end(other, &graph) == CUDA_SUCCESS);
		check(g.end(stream, &graph) == CUDA_SUCCESS);
		check(g.graph((CUgraphExec)graph, stream) == CUDA_SUCCESS);
		g.synchronize(stream);
	}
	return NULL;
}

static void hosted(void *argument)
{
	(void)argument;
	atomic_fetch_add(&g.hosted, 1);
}

static void *host_functions(void *argument)
{
	CUstream stream = new_stream((unsigned)(uintptr_t)argument & 1);

	while (!g.stop) {
		check(g.host(stream, hosted, NULL) == CUDA_SUCCESS);
		g.synchronize(stream);
	}
	return NULL;
}

/* The stream waits for a word that this thread writes after another launch: a close in between
 * cannot drain, and must be given up. */
static void *stream_waits(void *argument)
{
	CUstream stream = new_stream((unsigned)(uintptr_t)argument & 1), other = new_stream(0);
	volatile uint32_t word = 0;
	uint32_t value = 0;

	while (!g.stop) {
		value++;
		check(g.wait(stream, (CUdeviceptr_v2)(uintptr_t)&word, value, 0) == CUDA_SUCCESS);
		check(launch(other) == CUDA_SUCCESS);
		__atomic_store_n(&word, value, __ATOMIC_RELEASE);
		g.synchronize(stream);
	}
	g.synchronize(stream);
	return NULL;
}

/* Threads that live for a few launches: slots are handed on. */
static void *short_lives(void *argument)
{
	pthread_t thread;

	(void)argument;
	while (!g.stop) {
		for (int i = 0; i < 3; i++)
			check(launch(NULL) == CUDA_SUCCESS);
		check(g.set(1, 2, 3) == CUDA_SUCCESS);
		if (pthread_create(&thread, NULL, short_lives, NULL) == 0) {
			pthread_detach(thread);
			return NULL;
		}
	}
	return NULL;
}

static void load(const char *driver)
{
	fake_start(&g.fake, 1, FAKE_GOOD);
	g.handle = guest_load(driver);
	check(guest_function(g.handle, cuInit)(0) == CUDA_SUCCESS);
	if (strcmp(driver, "law") == 0) {
		void *law = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);

		check(law != NULL);
		g.law = dlsym(law, "law_state");
		check(g.law != NULL);
	}
	g.launch = guest_function(g.handle, cuLaunchKernel);
	g.copy = guest_function(g.handle, cuMemcpyHtoDAsync_v2);
	g.set = guest_function(g.handle, cuMemsetD8_v2);
	g.graph = guest_function(g.handle, cuGraphLaunch);
	g.host = guest_function(g.handle, cuLaunchHostFunc);
	g.wait = guest_function(g.handle, cuStreamWaitValue32_v2);
	g.create = guest_function(g.handle, cuStreamCreate);
	g.destroy = guest_function(g.handle, cuStreamDestroy_v2);
	g.synchronize = guest_function(g.handle, cuStreamSynchronize);
	g.begin = guest_function(g.handle, cuStreamBeginCapture_v2);
	g.end = guest_function(g.handle, cuStreamEndCapture);
}

/* Returns whether the close was acknowledged; otherwise it was given up, as threads waited. */
static int close_once(void)
{
	fake_close_gate(&g.fake, 0);
	for (int waited = 0; !fake_wait_drained(&g.fake, 0, COUPLED_MS); waited += COUPLED_MS) {
		check(waited < DEADLOCK_MS);
		if (fake_waiting(&g.fake) == 0)
			continue;
		fake_open_gate(&g.fake, 0);
		return 0;
	}
	__atomic_store_n(&g.law->acknowledged, 1, __ATOMIC_SEQ_CST);
	check(__atomic_load_n(&g.law->outstanding, __ATOMIC_SEQ_CST) == 0);
	for (int i = 0; i < 50; i++)
		sched_yield();
	check(__atomic_load_n(&g.law->outstanding, __ATOMIC_SEQ_CST) == 0);
	__atomic_store_n(&g.law->acknowledged, 0, __ATOMIC_SEQ_CST);
	fake_open_gate(&g.fake, 0);
	return 1;
}

static void sixteen_threads(void)
{
	void *(*const kind[16])(void *) = {
		launches,	launches,     launches,	    launches,	 launches, launches,
		launches,	captures,     captures,	    captures,	 captures, host_functions,
		host_functions, stream_waits, stream_waits, short_lives,
	};
	unsigned rounds = test_rounds(GUEST_TSAN ? 200 : 2000), acknowledged = 0;
	pthread_t thread[16];
	uint64_t before;

	load("law");
	for (uintptr_t i = 0; i < 16; i++)
		check(pthread_create(&thread[i], NULL, kind[i], (void *)i) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		/* Something happens between two closes. */
		before = __atomic_load_n(&g.law->submissions, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&g.law->submissions, __ATOMIC_SEQ_CST) < before + 20)
			sched_yield();
		acknowledged += (unsigned)close_once();
	}
	g.stop = 1;
	for (int i = 0; i < 16; i++)
		pthread_join(thread[i], NULL);
	fprintf(stderr, "%u closes, %u acknowledged, %lu submissions, %lu captured, %lu hosted\n",
		rounds, acknowledged,
		(unsigned long)__atomic_load_n(&g.law->submissions, __ATOMIC_SEQ_CST),
		(unsigned long)__atomic_load_n(&g.law->captured, __ATOMIC_SEQ_CST),
		(unsigned long)g.hosted);
	check(g.law->violations == 0);
	check(g.law->bad_calls == 0);
	check(acknowledged > rounds / 20);
	check(__atomic_load_n(&g.law->captured, __ATOMIC_SEQ_CST) > 0 && g.hosted > 0);
}

TEST(nothing_is_submitted_after_an_acknowledgement)
{
	expect_eq(in_child(sixteen_threads, NULL, 0), 0);
}

static void *one_launch(void *argument)
{
	check(launch(argument) == CUDA_SUCCESS);
	return NULL;
}

static void waits_and_goes_on(void)
{
	pthread_t thread;
	uint64_t before;

	load("law");
	check(launch(NULL) == CUDA_SUCCESS);
	fake_close_gate(&g.fake, 0);
	check(fake_wait_drained(&g.fake, 0, DEADLOCK_MS));
	before = g.law->submissions;
	check(pthread_create(&thread, NULL, one_launch, NULL) == 0);
	while (fake_waiting(&g.fake) != 1)
		sched_yield();
	check(__atomic_load_n(&g.law->submissions, __ATOMIC_SEQ_CST) == before);
	fake_open_gate(&g.fake, 0);
	pthread_join(thread, NULL);
	check(g.law->submissions == before + 1);
	check(fake_waiting(&g.fake) == 0);
}

TEST(a_launch_waits_at_a_closed_gate_and_goes_on_when_it_opens)
{
	expect_eq(in_child(waits_and_goes_on, NULL, 0), 0);
}

static void capture_passes(void)
{
	CUstream stream;
	CUgraph graph;

	load("law");
	stream = new_stream(0);
	check(g.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	fake_close_gate(&g.fake, 0);
	for (int i = 0; i < 100; i++)
		check(launch(stream) == CUDA_SUCCESS);
	check(!fake_wait_drained(&g.fake, 0, 20));
	check(g.end(stream, &graph) == CUDA_SUCCESS);
	check(fake_wait_drained(&g.fake, 0, DEADLOCK_MS));
	check(g.law->captured == 100 && g.law->bad_calls == 0);
	fake_open_gate(&g.fake, 0);
}

TEST(a_capture_passes_a_closed_gate_and_is_waited_for)
{
	expect_eq(in_child(capture_passes, NULL, 0), 0);
}

static void *enters_and_dies(void *argument)
{
	(void)argument;
	check(launch(NULL) == CUDA_SUCCESS);
	check(g.host(NULL, hosted, NULL) == CUDA_SUCCESS);
	pthread_exit(NULL);
}

static void dead_threads(void)
{
	pthread_t thread;

	load("law");
	/* More than there are slots without an allocation. */
	for (int i = 0; i < 300; i++) {
		check(pthread_create(&thread, NULL, enters_and_dies, NULL) == 0);
		pthread_join(thread, NULL);
	}
	fake_close_gate(&g.fake, 0);
	check(fake_wait_drained(&g.fake, 0, DEADLOCK_MS));
}

TEST(a_thread_that_has_ended_is_not_waited_for)
{
	expect_eq(in_child(dead_threads, NULL, 0), 0);
}

static void *parks(void *argument)
{
	check(launch(NULL) == CUDA_SUCCESS);
	atomic_fetch_add((atomic_int *)argument, 1);
	while (!g.stop)
		sched_yield();
	return NULL;
}

static void many_threads(void)
{
	enum { THREADS = 150 };
	static pthread_t thread[THREADS];
	atomic_int there = 0;
	pthread_attr_t small;

	load("law");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	for (int i = 0; i < THREADS; i++)
		check(pthread_create(&thread[i], &small, parks, &there) == 0);
	while (there != THREADS)
		sched_yield();
	fake_close_gate(&g.fake, 0);
	check(fake_wait_drained(&g.fake, 0, DEADLOCK_MS));
	g.stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

TEST(more_threads_than_slots_in_the_library_are_seen)
{
	expect_eq(in_child(many_threads, NULL, 0), 0);
}

static void closed_before(void)
{
	fake_start(&g.fake, 1, FAKE_GOOD);
	fake_close_gate(&g.fake, 0);
	g.handle = guest_load("law");
	check(guest_function(g.handle, cuInit)(0) == CUDA_SUCCESS);
	check(fake_wait_drained(&g.fake, 0, DEADLOCK_MS));
}

TEST(a_gate_that_was_closed_before_a_guest_came_is_acknowledged)
{
	expect_eq(in_child(closed_before, NULL, 0), 0);
}
