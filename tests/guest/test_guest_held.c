/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process says of a drain that waits for something outside of the device, on the simulator's
 * driver: that all of its work does, and nothing of the kind while a kernel of it runs.
 */
#include <pthread.h>
#include <time.h>

#include "tests/guest/turns_sim_fixture.h"

enum {
	DEADLOCK_MS = 60000, /* then the test has failed */
	NOT_MS = 50,	     /* a wrong word is waited for so long; it would come within 1 ms */
};

static const struct wire_tenant_turns turns = {.reports = 1, .contended = 1};

/* poll(word): until that is not 0. */
static const char text[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			   ".visible .entry poll(.param .u64 p) {\n"
			   ".reg .u64 %a; .reg .u32 %x; .reg .pred %q;\n"
			   "ld.param.u64 %a, [p];\n"
			   "L: nanosleep.u32 20000; ld.volatile.u32 %x, [%a];\n"
			   "setp.eq.u32 %q, %x, 0; @%q bra L; ret; }\n";

static CUfunction poll;
static uint32_t *words; /* in mapped memory of the host, ... */
static CUdeviceptr at;	/* ... as the device sees it */

#define guest_call(symbol, ...) check(guest_function(guest, symbol)(__VA_ARGS__) == CUDA_SUCCESS)

static void load_words(void)
{
	CUmodule module;
	void *memory;

	load_guest(&turns);
	guest_call(cuModuleLoadData, &module, text);
	guest_call(cuModuleGetFunction, &poll, module, "poll");
	guest_call(cuMemHostAlloc, &memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
	memset(memory, 0, 4096);
	words = memory;
	guest_call(cuMemHostGetDevicePointer_v2, &at, memory, 0);
	/* It has seen that others wait for the device. */
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

static CUstream new_stream(void)
{
	CUstream stream;

	guest_call(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	return stream;
}

static void wait_for_word(CUstream stream)
{
	guest_call(cuStreamWaitValue32_v2, stream, at, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static void write_word(unsigned i)
{
	__atomic_store_n(&words[i], 1, __ATOMIC_RELEASE);
}

static void poll_second_word(CUstream stream)
{
	CUdeviceptr second = at + sizeof(*words);
	void *arguments[] = {&second};

	guest_call(cuLaunchKernel, poll, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* From now on: what was said before is forgotten, as it is once meted has read it. */
static bool says_held(int for_ms)
{
	const struct timespec pause = {0, 1000000};

	__atomic_store_n(&fake.guest[0].own->held[0], 0, __ATOMIC_RELEASE);
	for (int i = 0; i < for_ms; i++) {
		if (__atomic_load_n(&fake.guest[0].own->held[0], __ATOMIC_ACQUIRE))
			return true;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	return false;
}

static void drain(void)
{
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	/* As meted does: the word of one close is not to be taken for that of the next. */
	__atomic_store_n(&fake.guest[0].own->held[0], 0, __ATOMIC_RELEASE);
	fake_open_gate(&fake, 0);
}

/* ---- streams that are destroyed ---------------------------------------------------------------
 */

static void kernel_in_a_destroyed_stream(void)
{
	CUstream waits, runs;

	load_words();
	waits = new_stream();
	runs = new_stream();
	wait_for_word(waits);
	poll_second_word(runs);
	guest_call(cuStreamDestroy_v2, runs);
	fake_close_gate(&fake, 0);
	check(!says_held(NOT_MS));
	write_word(1);
	check(says_held(DEADLOCK_MS));
	write_word(0);
	drain();
}

/* It was not charged for the kernel, as long as another stream waited. */
TEST(a_kernel_in_a_stream_that_was_destroyed_is_not_overlooked)
{
	expect_eq(in_child(kernel_in_a_destroyed_stream, NULL, 0), 0);
}

static void destroyed_stream_that_waits(void)
{
	CUstream stream;

	load_words();
	for (int i = 0; i < 3; i++) {
		words[0] = 0;
		guest_call(cuStreamCreate, &stream,
			   i == 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
		wait_for_word(stream);
		guest_call(cuStreamDestroy_v2, stream);
		fake_close_gate(&fake, 0);
		check(says_held(DEADLOCK_MS));
		write_word(0);
		drain();
	}
}

TEST(a_stream_that_was_destroyed_as_it_waited_is_held)
{
	expect_eq(in_child(destroyed_stream_that_waits, NULL, 0), 0);
}

/* ---- streams that wait for another one --------------------------------------------------------
 */

static void stream_behind(void)
{
	CUstream first, second;
	CUevent event;

	load_words();
	first = new_stream();
	second = new_stream();
	guest_call(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
	wait_for_word(first);
	guest_call(cuEventRecord, event, first);
	guest_call(cuStreamWaitEvent, second, event, 0);
	poll_second_word(second);
	fake_close_gate(&fake, 0);
	check(says_held(DEADLOCK_MS));
	write_word(0);
	/* Now the kernel runs. */
	check(!fake_wait_drained(&fake, 0, NOT_MS));
	check(!says_held(1));
	write_word(1);
	drain();
}

TEST(a_stream_that_waits_for_an_event_of_one_that_is_held_is_held)
{
	expect_eq(in_child(stream_behind, NULL, 0), 0);
}

/* ---- threads' own streams ---------------------------------------------------------------------
 */

static pthread_barrier_t both;

static void nothing_at_all(void *nothing)
{
	(void)nothing;
}

static void poll_in_own_stream(void)
{
	CUdeviceptr second = at + sizeof(*words);
	void *arguments[] = {&second};

	guest_call(cuLaunchKernel_ptsz, poll, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
}

/* First its stream is at rest, and then it runs. */
static void *another_thread(void *context)
{
	load_set_current(context);
	guest_call(cuLaunchHostFunc_ptsz, NULL, nothing_at_all, NULL);
	guest_call(cuStreamSynchronize_ptsz, NULL);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	poll_in_own_stream();
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	return NULL;
}

static void wait_in_own_stream(void)
{
	words[0] = words[1] = 0;
	guest_call(cuStreamWaitValue32_v2_ptsz, NULL, at, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static void own_streams(void)
{
	CUcontext context;
	pthread_t thread;

	load_words();
	guest_call(cuCtxGetCurrent, &context);
	check(pthread_barrier_init(&both, NULL, 2) == 0);
	check(pthread_create(&thread, NULL, another_thread, context) == 0);
	pthread_barrier_wait(&both);
	wait_in_own_stream();
	fake_close_gate(&fake, 0);
	check(says_held(DEADLOCK_MS));
	write_word(0);
	drain();
	wait_in_own_stream();
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	fake_close_gate(&fake, 0);
	check(!says_held(NOT_MS));
	write_word(1);
	write_word(0);
	drain();
	pthread_barrier_wait(&both);
	pthread_join(thread, NULL);
}

TEST(own_streams_of_threads_are_held_unless_one_of_them_runs)
{
	expect_eq(in_child(own_streams, NULL, 0), 0);
}
