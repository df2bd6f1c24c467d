/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest that bounds its work under way waits for none that waits for itself: it gives such a wait
 * up, and passes a gate's close on. test_guest_flight.c has the bound.
 */
#include "tests/guest/turns_fixture.h"

static void takes_a_millisecond(void *argument)
{
	struct timespec pause = {0, 1000000};

	(void)argument;
	nanosleep(&pause, NULL);
}

static void launch_long(CUstream stream)
{
	check(guest_function(guest, cuLaunchHostFunc)(stream, takes_a_millisecond, NULL) ==
	      CUDA_SUCCESS);
}

/* After these it is known how long they take. */
static void launch_first(CUstream stream)
{
	for (int i = 0; i < 20; i++) {
		launch_long(stream);
		load_synchronize(stream);
	}
}

static atomic_int waiter_done;

static void *launches_on(void *argument)
{
	CUstream stream = load_stream(CU_STREAM_NON_BLOCKING);

	(void)argument;
	while (!waiter_done)
		launch_long(stream);
	load_synchronize(stream);
	return NULL;
}

/* Another thread's long calls pass meanwhile, and each of them ends a wait well. */
static void long_calls_beside_a_waiter(void)
{
	static const struct wire_tenant_turns tenth = {
		.reports = 1, .contended = 1, .flight_ns = 100000000};
	pthread_t thread;
	CUstream stream;

	alarm(240);
	load_guest(&tenth);
	law->call_us = 150000;
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	launch_first(stream);
	check(pthread_create(&thread, NULL, launches_on, NULL) == 0);
	stream_waits_for_word(stream);
	for (int i = 0; i < 20; i++)
		launch_long(stream);
	write_word();
	load_synchronize(stream);
	waiter_done = 1;
	pthread_join(thread, NULL);
}

TEST(a_thread_whose_work_waits_for_it_goes_on_whatever_other_threads_do)
{
	expect_eq(in_child(long_calls_beside_a_waiter, NULL, 0), 0);
}

static void much_under_way(void)
{
	CUstream stream;

	load_guest(&told);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	stream_waits_for_word(stream);
	for (int i = 0; i < 3000; i++)
		check(load_launch(stream) == CUDA_SUCCESS);
	check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 3001);
	write_word();
}

TEST(without_a_bound_as_much_work_is_under_way_as_the_program_likes)
{
	expect_eq(in_child(much_under_way, NULL, 0), 0);
}

/* The marks can only be reached when this thread has done more. */
static void work_waits_for_thread_by(const struct wire_tenant_turns *turns)
{
	CUstream stream;

	load_guest(turns);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	stream_waits_unseen(stream);
	for (int i = 0; i < 3000; i++)
		check(load_launch(stream) == CUDA_SUCCESS);
	write_word();
	load_synchronize(stream);
}

static void work_waits_for_thread(void)
{
	work_waits_for_thread_by(&bounded);
}

static void work_waits_for_thread_under_a_cap(void)
{
	static const struct wire_tenant_turns capped = {
		.reports = 1, .contended = WIRE_CONTENDED | WIRE_CAPPED, .flight_ns = 4000000};

	work_waits_for_thread_by(&capped);
}

TEST(work_that_waits_for_the_thread_that_would_wait_for_it_goes_on)
{
	expect_eq(in_child(work_waits_for_thread, NULL, 0), 0);
	expect_eq(in_child(work_waits_for_thread_under_a_cap, NULL, 0), 0);
}

enum { CYCLES = 100, POLLS = 20 /* more than one look asks */ };

static __thread int polls;

static int counts_polls(void)
{
	polls++;
	return 0;
}

/* Of each cycle the first call is seen to end by itself, and the others wait for the thread. */
static void waits_of_both_kinds(void)
{
	CUstream stream;
	int waited = 0;

	alarm(240);
	load_guest(&bounded);
	law->call_us = 150000;
	law->unready = counts_polls;
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < CYCLES; i++) {
		check(load_launch(stream) == CUDA_SUCCESS);
		load_synchronize(stream);
		__atomic_store_n(&word, 0, __ATOMIC_RELEASE);
		stream_waits_unseen(stream);
		polls = 0;
		for (int call = 0; call < 3; call++)
			check(load_launch(stream) == CUDA_SUCCESS);
		waited += polls > 3 * POLLS;
		write_word();
		load_synchronize(stream);
	}
	fprintf(stderr, "waited in %d of %d cycles\n", waited, CYCLES);
	check(waited < CYCLES / 2);
}

TEST(a_thread_that_waits_in_vain_stops_waiting_though_other_work_ends_by_itself)
{
	expect_eq(in_child(waits_of_both_kinds, NULL, 0), 0);
}

/* What is marked waits for this thread's work in another stream. */
static void waits_for_another_stream(bool by_default)
{
	CUstream waits = NULL, runs;
	int waited = 0;

	load_guest(&bounded);
	law->unready = counts_polls;
	if (!by_default)
		waits = load_stream(CU_STREAM_NON_BLOCKING);
	runs = load_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < CYCLES; i++) {
		__atomic_store_n(&word, 0, __ATOMIC_RELEASE);
		stream_waits_for_word(waits);
		for (int call = 0; call < 3; call++)
			check(load_launch(waits) == CUDA_SUCCESS);
		polls = 0;
		check(load_launch(runs) == CUDA_SUCCESS);
		waited += polls > 3 * POLLS;
		write_word();
		load_synchronize(waits);
		load_synchronize(runs);
	}
	fprintf(stderr, "waited in %d of %d cycles\n", waited, CYCLES);
	check(waited == 0);
}

static void waits_for_a_stream(void)
{
	waits_for_another_stream(false);
}

static void waits_for_the_default_stream(void)
{
	waits_for_another_stream(true);
}

TEST(a_launch_does_not_wait_for_a_mark_behind_a_value_that_its_thread_will_write)
{
	expect_eq(in_child(waits_for_a_stream, NULL, 0), 0);
	expect_eq(in_child(waits_for_the_default_stream, NULL, 0), 0);
}

enum { SHORT_CALLS = 3000 };

/* Longer than a submission. */
static void takes_time(void *argument)
{
	(void)argument;
	for (int i = 0; i < 500; i++)
		__builtin_ia32_pause();
}

static void *launches_short(void *argument)
{
	CUstream stream = load_stream(CU_STREAM_DEFAULT);

	(void)argument;
	for (int i = 0; i < SHORT_CALLS; i++)
		check(guest_function(guest, cuLaunchHostFunc)(stream, takes_time, NULL) ==
		      CUDA_SUCCESS);
	return NULL;
}

static void closes_while_waiting(void)
{
	CUstream stream;
	pthread_t thread;

	load_guest(&bounded);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	check(pthread_create(&thread, NULL, launches_short, NULL) == 0);
	for (int i = 0; i < 20; i++) {
		fake_close_gate(&fake, 0);
		check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
		check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
		__atomic_store_n(&law->acknowledged, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&law->acknowledged, 0, __ATOMIC_SEQ_CST);
		fake_open_gate(&fake, 0);
	}
	pthread_join(thread, NULL);
	check(law_count(law, violations) == 0);
	load_synchronize(stream);
}

TEST(a_close_does_not_wait_for_a_thread_that_waits_for_its_work)
{
	expect_eq(in_child(closes_while_waiting, NULL, 0), 0);
}
