/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest whose tenant takes turns keeps little work under way. test_guest_flight_vain.c has the
 * waits that would not end.
 */
#include "tests/guest/turns_fixture.h"

/*
 * Work here ends by an event, and not after a time: when the thread that would submit more has been
 * told twice that it is not complete, and so has waited. However busy the machine is, then, no wait
 * is in vain, and of a guest that does not wait all calls are under way.
 */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uintptr_t begun, may_end; /* of all calls */
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static __thread int submits; /* a thread that does */
static __thread int told_busy;

static void may_end(void)
{
	pthread_mutex_lock(&calls.lock);
	calls.may_end = calls.begun;
	pthread_cond_broadcast(&calls.changed);
	pthread_mutex_unlock(&calls.lock);
}

static int ends_when_waited_for(void)
{
	/* The agent asks, too. */
	if (!submits || ++told_busy < 2)
		return 0;
	told_busy = 0;
	may_end();
	return 1;
}

static void takes_until_then(void *number)
{
	pthread_mutex_lock(&calls.lock);
	while (calls.may_end < (uintptr_t)number)
		pthread_cond_wait(&calls.changed, &calls.lock);
	pthread_mutex_unlock(&calls.lock);
}

static void launch_counted(CUstream stream)
{
	uintptr_t number;

	submits = 1;
	pthread_mutex_lock(&calls.lock);
	number = ++calls.begun;
	pthread_mutex_unlock(&calls.lock);
	check(guest_function(guest, cuLaunchHostFunc)(stream, takes_until_then, (void *)number) ==
	      CUDA_SUCCESS);
}

static atomic_long most, submitted;

/* Before each is submitted. */
static void look_at_most(void)
{
	long now = (long)__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST), was = most;

	told_busy = 0;
	submitted++;
	while (now > was && !atomic_compare_exchange_weak(&most, &was, now))
		;
}

static void load_counted(const struct wire_tenant_turns *turns, uint32_t call_us)
{
	load_guest(turns);
	law->call_us = call_us;
	law->unready = ends_when_waited_for;
	law_probe(law, look_at_most);
}

enum { CALLS = 3000, TRIES = 10 };

static void *launches_much(void *argument)
{
	CUstream stream = load_stream((uintptr_t)argument & 1);

	for (int i = 0; i < CALLS; i++)
		launch_counted(stream);
	return NULL;
}

static void most_with(int threads, long least, long bound)
{
	pthread_t thread[4];

	load_counted(&bounded, 10);
	for (uintptr_t i = 0; i < (uintptr_t)threads; i++)
		check(pthread_create(&thread[i], NULL, launches_much, (void *)i) == 0);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	fprintf(stderr, "%ld of %ld calls under way at most\n", (long)most, (long)submitted);
	check(submitted == CALLS * threads);
	check(most >= least && most < bound);
}

/* The driver says that a call takes 10 us: 4 ms are 400 of them. */
static void little_under_way(void)
{
	most_with(1, 200, 500);
}

static void little_of_threads(void)
{
	most_with(4, 200, 2000);
}

TEST(no_more_work_is_under_way_than_the_daemon_lets)
{
	unsigned tries = 1;

	expect_eq(in_child(little_under_way, NULL, 0), 0);
	/* A thread that has the marks' lock may be off the processor for longer than the others
	 * wait for it: they go on without a bound then, and such a run says nothing of it. */
	while (tries < TRIES && in_child(little_of_threads, NULL, 0) != 0)
		tries++;
	expect(tries < TRIES);
}

static const struct wire_tenant_turns second = {
	.reports = 1, .contended = 1, .flight_ns = 1000000000};

enum {
	LONG_CALLS = 300,
	LASTS_MS = 400, /* more than anybody waits who knows nothing and has no cap */
};

/* Once it is known how long they take. */
static void long_calls(uint32_t call_us, int streams, long wanted)
{
	CUstream stream[2];

	load_counted(&second, call_us);
	for (int i = 0; i < streams; i++)
		stream[i] = load_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < LONG_CALLS; i++) {
		if (i == LONG_CALLS / 10)
			most = 0;
		launch_counted(stream[i % streams]);
	}
	fprintf(stderr, "%ld calls under way at most before one more\n", (long)most);
	check(submitted == LONG_CALLS);
	check(most == wanted - 1);
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

/* As a kernel does that is told to take so long. */
static int ends_after_a_while(void)
{
	static __thread uint64_t since_ms;
	struct timespec now;
	uint64_t now_ms;

	if (!submits)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (told_busy++ == 0)
		since_ms = now_ms;
	if (now_ms - since_ms < LASTS_MS)
		return 0;
	told_busy = 0;
	may_end();
	return 1;
}

/* The guest sees the launch, and not what lasts so long. */
static void launch_lasting(CUstream stream)
{
	submits = 1;
	check(load_launch(stream) == CUDA_SUCCESS);
	check(calls.may_end == calls.begun);
	calls.begun++;
	check(guest_function(driver, cuLaunchHostFunc)(stream, takes_until_then,
						       (void *)calls.begun) == CUDA_SUCCESS);
}

/* Also though meted takes the tenant for coupled, as its thread stands at the gate. */
static void first_calls_under_a_cap(void)
{
	static const struct wire_tenant_turns capped = {.reports = 1,
							.contended = WIRE_CONTENDED | WIRE_COUPLED |
								     WIRE_CAPPED,
							.flight_ns = 4000000};
	CUstream stream;

	load_guest(&capped);
	law->call_us = LASTS_MS * 1000;
	law->unready = ends_after_a_while;
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 4; i++)
		launch_lasting(stream);
	may_end();
	load_synchronize(stream);
}

TEST(under_a_cap_one_call_is_under_way_until_it_is_known_how_long_they_take)
{
	expect_eq(in_child(first_calls_under_a_cap, NULL, 0), 0);
}

/* Its gate is closed when meted dies, so that a launch which comes through has seen that. */
static void calls_without_daemon(void)
{
	static const struct wire_tenant_turns capped = {
		.reports = 1, .contended = WIRE_CONTENDED | WIRE_CAPPED, .flight_ns = 4000000};
	CUstream stream;

	load_guest(&capped);
	law->call_us = LASTS_MS * 1000;
	law->unready = ends_after_a_while;
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	launch_lasting(stream);
	fake_close_gate(&fake, 0);
	fake_kill(&fake);
	for (int i = 0; i < 4; i++)
		launch_lasting(stream);
	may_end();
	load_synchronize(stream);
}

TEST(under_a_cap_no_more_is_under_way_while_there_is_no_daemon)
{
	expect_eq(in_child(calls_without_daemon, NULL, 0), 0);
}
