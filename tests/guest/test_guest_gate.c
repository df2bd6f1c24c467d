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
#include "tests/guest/gate_load.h"
#include "tests/guest/guest_test.h"

enum {
	COUPLED_MS = 5,	     /* then a close that threads wait for is given up */
	DEADLOCK_MS = 60000, /* then the test has failed */
};

static struct fake fake;
static struct law *law;

static void load_guest(const char *driver)
{
	void *handle;

	fake_start(&fake, 1, FAKE_GOOD);
	handle = guest_load(driver);
	load_find(handle);
	handle = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	check(handle != NULL && dlsym(handle, "law_state") != NULL);
	law = *(struct law **)dlsym(handle, "law_state");
}

/* Returns whether the close was acknowledged; otherwise it was given up, as threads waited. */
static int close_once(void)
{
	fake_close_gate(&fake, 0);
	for (int waited = 0; !fake_wait_drained(&fake, 0, COUPLED_MS); waited += COUPLED_MS) {
		check(waited < DEADLOCK_MS);
		if (fake_waiting(&fake) == 0)
			continue;
		fake_open_gate(&fake, 0);
		return 0;
	}
	__atomic_store_n(&law->acknowledged, 1, __ATOMIC_SEQ_CST);
	check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
	for (int i = 0; i < 50; i++)
		sched_yield();
	check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
	__atomic_store_n(&law->acknowledged, 0, __ATOMIC_SEQ_CST);
	fake_open_gate(&fake, 0);
	return 1;
}

static void sixteen_threads(void)
{
	unsigned rounds = test_rounds(GUEST_TSAN ? 200 : 2000), acknowledged = 0;
	uint64_t before;

	load_guest("law");
	load_start();
	for (unsigned i = 0; i < rounds; i++) {
		/* Something happens between two closes. */
		before = __atomic_load_n(&law->submissions, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&law->submissions, __ATOMIC_SEQ_CST) < before + 20)
			sched_yield();
		acknowledged += (unsigned)close_once();
	}
	load_stop();
	fprintf(stderr, "%u closes, %u acknowledged, %lu submissions, %lu captured, %lu hosted\n",
		rounds, acknowledged,
		(unsigned long)__atomic_load_n(&law->submissions, __ATOMIC_SEQ_CST),
		(unsigned long)__atomic_load_n(&law->captured, __ATOMIC_SEQ_CST),
		(unsigned long)load_hosted());
	check(law->violations == 0);
	check(law->bad_calls == 0);
	check(acknowledged > rounds / 20);
	check(__atomic_load_n(&law->captured, __ATOMIC_SEQ_CST) > 0 && load_hosted() > 0);
}

TEST(nothing_is_submitted_after_an_acknowledgement)
{
	expect_eq(in_child(sixteen_threads, NULL, 0), 0);
}

static void *one_launch(void *argument)
{
	check(load_launch(argument) == CUDA_SUCCESS);
	return NULL;
}

static void waits_and_goes_on(void)
{
	pthread_t thread;
	uint64_t before;

	load_guest("law");
	check(load_launch(NULL) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	before = law->submissions;
	check(pthread_create(&thread, NULL, one_launch, NULL) == 0);
	while (fake_waiting(&fake) != 1)
		sched_yield();
	check(__atomic_load_n(&law->submissions, __ATOMIC_SEQ_CST) == before);
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	check(law->submissions == before + 1);
	check(fake_waiting(&fake) == 0);
}

TEST(a_launch_waits_at_a_closed_gate_and_goes_on_when_it_opens)
{
	expect_eq(in_child(waits_and_goes_on, NULL, 0), 0);
}

static void capture_passes(void)
{
	CUstream stream;
	CUgraph graph;

	load_guest("law");
	stream = load_stream(0);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	for (int i = 0; i < 100; i++)
		check(load_launch(stream) == CUDA_SUCCESS);
	check(!fake_wait_drained(&fake, 0, 20));
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	check(law->captured == 100 && law->bad_calls == 0);
	fake_open_gate(&fake, 0);
}

TEST(a_capture_passes_a_closed_gate_and_is_waited_for)
{
	expect_eq(in_child(capture_passes, NULL, 0), 0);
}

static void *enters_and_dies(void *argument)
{
	(void)argument;
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(load_host() == CUDA_SUCCESS);
	pthread_exit(NULL);
}

static void dead_threads(void)
{
	pthread_t thread;

	load_guest("law");
	/* More than there are slots without an allocation. */
	for (int i = 0; i < 300; i++) {
		check(pthread_create(&thread, NULL, enters_and_dies, NULL) == 0);
		pthread_join(thread, NULL);
	}
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
}

TEST(a_thread_that_has_ended_is_not_waited_for)
{
	expect_eq(in_child(dead_threads, NULL, 0), 0);
}

static atomic_int parked_stop;

static void *parks(void *argument)
{
	check(load_launch(NULL) == CUDA_SUCCESS);
	atomic_fetch_add((atomic_int *)argument, 1);
	while (!parked_stop)
		sched_yield();
	return NULL;
}

static void many_threads(void)
{
	enum { THREADS = 150 };
	static pthread_t thread[THREADS];
	atomic_int there = 0;
	pthread_attr_t small;

	load_guest("law");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	for (int i = 0; i < THREADS; i++)
		check(pthread_create(&thread[i], &small, parks, &there) == 0);
	while (there != THREADS)
		sched_yield();
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	parked_stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

TEST(more_threads_than_slots_in_the_library_are_seen)
{
	expect_eq(in_child(many_threads, NULL, 0), 0);
}

static void closed_before(void)
{
	fake_start(&fake, 1, FAKE_GOOD);
	fake_close_gate(&fake, 0);
	check(guest_function(guest_load("law"), cuInit)(0) == CUDA_SUCCESS);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
}

TEST(a_gate_that_was_closed_before_a_guest_came_is_acknowledged)
{
	expect_eq(in_child(closed_before, NULL, 0), 0);
}
