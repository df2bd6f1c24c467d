/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on the simulator's driver, with gates that close and open all the time: per-thread default
 * streams, work that waits for a thread of the program, contexts that come and go.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/guest/turns_sim_fixture.h"

enum {
	DEADLOCK_MS = 240000, /* then the test has failed */
	COUPLED_MS = 20,      /* then a close that threads wait for is given up */
};

static const struct wire_tenant_turns turns = {.reports = 1, .contended = 1, .flight_ns = 1000000};

/* Whether the close was acknowledged; otherwise it was given up, as threads waited. */
static int close_once(CUresult (*is_done)(void))
{
	int drained;

	fake_close_gate(&fake, 0);
	for (int waited = 0; !(drained = fake_wait_drained(&fake, 0, COUPLED_MS));
	     waited += COUPLED_MS) {
		check(waited < DEADLOCK_MS);
		if (fake_waiting(&fake))
			break;
	}
	if (drained)
		check(is_done() == CUDA_SUCCESS);
	fake_open_gate(&fake, 0);
	return drained;
}

static atomic_int stop;
static atomic_uint launched;
static CUfunction function;

/* ---- per-thread default streams -------------------------------------------------------------- */

static CUresult legacy_is_done(void)
{
	return guest_function(guest, cuStreamQuery)(CU_STREAM_LEGACY);
}

static void find_function(void)
{
	static const char text[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
				   ".visible .entry nothing()\n{\n\tret;\n}\n";
	CUmodule module;

	check(guest_function(guest, cuModuleLoadData)(&module, text) == CUDA_SUCCESS);
	check(guest_function(guest, cuModuleGetFunction)(&function, module, "nothing") ==
	      CUDA_SUCCESS);
}

static void *launches_per_thread(void *context)
{
	api_fn_cuLaunchKernel_ptsz *launch = guest_function(guest, cuLaunchKernel_ptsz);
	api_fn_cuStreamSynchronize_ptsz *wait = guest_function(guest, cuStreamSynchronize_ptsz);

	load_set_current(context);
	while (!stop) {
		check(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
		if (atomic_fetch_add(&launched, 1) % 64 == 0)
			check(wait(NULL) == CUDA_SUCCESS);
	}
	return NULL;
}

static void per_thread(void)
{
	unsigned rounds = test_rounds(GUEST_TSAN ? 20 : 200), before, drained = 0;
	pthread_t thread[4];
	CUcontext context;

	load_guest(&turns);
	find_function();
	check(guest_function(guest, cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
	for (int i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, launches_per_thread, context) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		before = launched;
		while (launched - before < 10)
			sched_yield();
		drained += (unsigned)close_once(legacy_is_done);
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	check(drained > 0);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(per_thread_default_streams_are_drained_and_become_idle)
{
	expect_eq(in_child(per_thread, NULL, 0), 0);
}

/* ---- work that waits for a thread ------------------------------------------------------------ */

static atomic_int reached;

static void waits_for_thread(void *argument)
{
	(void)argument;
	while (!reached)
		sched_yield();
}

/* Naive gates hang here: the host function waits for what this thread does after another launch. */
static void *host_waits(void *context)
{
	CUstream stream, other;

	load_set_current(context);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	other = load_stream(CU_STREAM_NON_BLOCKING);
	for (unsigned i = 0; i < test_rounds(GUEST_TSAN ? 10 : 50); i++) {
		reached = 0;
		check(guest_function(guest, cuLaunchHostFunc)(stream, waits_for_thread, NULL) ==
		      CUDA_SUCCESS);
		for (int n = 0; n < 20; n++)
			check(load_launch(n & 1 ? stream : other) == CUDA_SUCCESS);
		reached = 1;
		load_synchronize(stream);
		load_synchronize(other);
	}
	stop = 1;
	return NULL;
}

static CUresult all_done(void)
{
	return load_idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static void coupled(void)
{
	CUcontext context;
	pthread_t thread;

	load_guest(&turns);
	check(guest_function(guest, cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
	check(pthread_create(&thread, NULL, host_waits, context) == 0);
	while (!stop) {
		close_once(all_done);
		for (int i = 0; i < 100 && !stop; i++)
			sched_yield();
	}
	pthread_join(thread, NULL);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(work_that_waits_for_a_thread_at_the_gate_comes_to_its_end)
{
	expect_eq(in_child(coupled, NULL, 0), 0);
}

/* ---- contexts that come and go --------------------------------------------------------------- */

/* Marks are left in each of them, and go with it. */
static void *resets(void *argument)
{
	CUcontext context;
	CUstream stream;

	(void)argument;
	for (unsigned i = 0; i < test_rounds(GUEST_TSAN ? 5 : 30); i++) {
		check(guest_function(guest, cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
		load_set_current(context);
		find_function();
		check(guest_function(guest, cuStreamCreate)(&stream, i & 1) == CUDA_SUCCESS);
		for (int n = 0; n < 50; n++)
			check(guest_function(guest, cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0,
								    n & 2 ? stream : NULL, NULL,
								    NULL) == CUDA_SUCCESS);
		if (i & 2)
			load_synchronize(stream);
		check(guest_function(guest, cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
	}
	stop = 1;
	return NULL;
}

static void primary_contexts(void)
{
	pthread_t thread;

	load_guest(&turns);
	check(pthread_create(&thread, NULL, resets, NULL) == 0);
	while (!stop) {
		close_once(legacy_is_done);
		for (int i = 0; i < 100 && !stop; i++)
			sched_yield();
	}
	pthread_join(thread, NULL);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(contexts_are_reset_while_gates_close_and_work_is_bounded)
{
	expect_eq(in_child(primary_contexts, NULL, 0), 0);
}
