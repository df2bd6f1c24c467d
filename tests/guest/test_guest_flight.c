/* SPDX-License-Identifier: Apache-2.0 */
/* A guest whose tenant takes turns keeps little work under way, and copies in pieces. */
#include "tests/guest/turns_fixture.h"

/* ---- what is under way ----------------------------------------------------------------------- */

static atomic_long most;

static void look_at_most(void)
{
	long now = (long)__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST), was = most;

	while (now > was && !atomic_compare_exchange_weak(&most, &was, now))
		;
}

/* Longer than a submission, and without a sleep: on a busy machine that may be as long as it likes.
 */
static void takes_time(void *argument)
{
	(void)argument;
	for (int i = 0; i < 500; i++)
		__builtin_ia32_pause();
}

static void *launches_much(void *argument)
{
	CUstream stream = load_stream((uintptr_t)argument & 1);

	for (int i = 0; i < 3000; i++)
		check(guest_function(guest, cuLaunchHostFunc)(stream, takes_time, NULL) ==
		      CUDA_SUCCESS);
	return NULL;
}

static long most_with(const struct wire_tenant_turns *turns, int threads)
{
	pthread_t thread[4];

	load_guest(turns);
	law_probe(law, look_at_most);
	for (uintptr_t i = 0; i < (uintptr_t)threads; i++)
		check(pthread_create(&thread[i], NULL, launches_much, (void *)i) == 0);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	fprintf(stderr, "%ld calls under way at most\n", (long)most);
	return most;
}

/* The driver says that a call takes 10 us: 4 ms are 400 of them. */
static void little_under_way(void)
{
	check(most_with(&bounded, 1) < 1200);
}

static void little_of_threads(void)
{
	check(most_with(&bounded, 4) < 4000);
}

/* So long, as the driver says, that a busy machine's pauses are short beside what the guest waits
 * for a call: where that passes in vain it goes on. */
static const struct wire_tenant_turns second = {.say = 1, .contended = 1, .flight_ns = 1000000000};

enum { LONG_CALLS = 300 };

static atomic_long beyond, allowed;

/* Before each is submitted. */
static void look_beyond(void)
{
	beyond += __atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) >= allowed;
}

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

/* Are more under way than `most_` only where the machine was busy? */
static void long_calls(uint32_t call_us, int streams, long most_)
{
	CUstream stream[2];

	load_guest(&second);
	law->call_us = call_us;
	for (int i = 0; i < streams; i++)
		stream[i] = load_stream(CU_STREAM_NON_BLOCKING);
	launch_first(stream[0]);
	allowed = most_;
	law_probe(law, look_beyond);
	for (int i = 0; i < LONG_CALLS; i++)
		launch_long(stream[i % streams]);
	fprintf(stderr, "%ld of %d beyond %ld\n", (long)beyond, LONG_CALLS, most_);
	check(beyond < LONG_CALLS / 4);
}

static void one_long_call(void)
{
	long_calls(600000, 1, 1);
}

static void two_long_calls(void)
{
	long_calls(450000, 1, 2);
}

static void long_calls_of_streams(void)
{
	long_calls(600000, 2, 2);
}

TEST(of_calls_as_long_as_the_bound_only_one_is_under_way)
{
	expect_eq(in_child(one_long_call, NULL, 0), 0);
}

TEST(of_calls_half_as_long_as_the_bound_no_more_than_two_are_under_way)
{
	expect_eq(in_child(two_long_calls, NULL, 0), 0);
}

TEST(of_long_calls_each_stream_has_one_under_way_at_most)
{
	expect_eq(in_child(long_calls_of_streams, NULL, 0), 0);
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
		.say = 1, .contended = 1, .flight_ns = 100000000};
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

TEST(who_waits_for_work_that_waits_for_it_goes_on_whatever_other_threads_do)
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

/* A guest that has waited three times for 100 ms without progress stops waiting for a second, and a
 * busy machine stands still for as long now and then: one run in ten must be without that. A guest
 * that does not wait at all has all calls under way in each. */
static void expect_once(void (*run)(void))
{
	int r = 1;

	for (int i = 0; i < 10 && r != 0; i++)
		r = in_child(run, NULL, 0);
	expect_eq(r, 0);
}

TEST(no_more_work_is_under_way_than_the_daemon_lets)
{
	expect_once(little_under_way);
	expect_once(little_of_threads);
}

TEST(without_a_bound_as_much_work_is_under_way_as_the_program_likes)
{
	expect_eq(in_child(much_under_way, NULL, 0), 0);
}

/* The marks can only be reached when this thread has done more. */
static void work_waits_for_thread(void)
{
	CUstream stream;

	load_guest(&bounded);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	stream_waits_for_word(stream);
	for (int i = 0; i < 3000; i++)
		check(load_launch(stream) == CUDA_SUCCESS);
	write_word();
	load_synchronize(stream);
}

TEST(work_that_waits_for_the_thread_that_would_wait_for_it_goes_on)
{
	expect_eq(in_child(work_waits_for_thread, NULL, 0), 0);
}

static void closes_while_waiting(void)
{
	CUstream stream;
	pthread_t thread;

	load_guest(&bounded);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	check(pthread_create(&thread, NULL, launches_much, NULL) == 0);
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

/* ---- large copies ---------------------------------------------------------------------------- */

enum { COPY_BYTES = 200 << 20 };

static CUresult copy(size_t bytes)
{
	static char nothing;

	return guest_function(guest, cuMemcpyHtoD_v2)(0x7f0000000000, &nothing, bytes);
}

static void close_once_inside(void)
{
	law_probe(law, NULL);
	fake_close_gate(&fake, 0);
}

static void *copies_much(void *argument)
{
	(void)argument;
	check(copy(COPY_BYTES) == CUDA_SUCCESS);
	return NULL;
}

static void copy_in_pieces(void)
{
	pthread_t thread;

	load_guest(&told);
	/* The agent has seen that somebody waits. */
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	law_probe(law, close_once_inside);
	check(pthread_create(&thread, NULL, copies_much, NULL) == 0);
	while (fake_waiting(&fake) == 0)
		sched_yield();
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	check(law_count(law, copied_bytes) > 0 && law_count(law, copied_bytes) < COPY_BYTES);
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	check(law_count(law, copied_bytes) == COPY_BYTES && law_count(law, copies) > 2 &&
	      law_count(law, violations) == 0);
}

TEST(a_close_comes_between_the_pieces_of_a_large_copy)
{
	expect_eq(in_child(copy_in_pieces, NULL, 0), 0);
}

static void copy_whole(void)
{
	struct wire_tenant_turns alone = {.say = 1};

	load_guest(&told);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	check(copy(1 << 20) == CUDA_SUCCESS && law_count(law, copies) == 1);
	fake_pace(&fake, 0, &alone);
	check(copy(COPY_BYTES) == CUDA_SUCCESS && law_count(law, copies) == 2);
}

TEST(a_copy_is_whole_when_it_is_small_or_nobody_waits)
{
	expect_eq(in_child(copy_whole, NULL, 0), 0);
}
