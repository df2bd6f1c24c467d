/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's law: after a guest has acknowledged a close nothing is submitted, and what was
 * submitted is complete, until the gate opens. Attacked by sixteen threads.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/guest/gate_fixture.h"

enum {
	COUPLED_MS = 5,	       /* then a close that threads wait for is given up, ... */
	COUPLED_LAST_MS = 640, /* ... or later, after many in vain: the machine may be busy */
};

/*
 * Returns whether the close was acknowledged; otherwise it was given up, as threads waited. Eight
 * in vain double the patience, and one that was acknowledged halves it: however busy the machine
 * is, no more than eight or nine of ten are in vain for long.
 */
static int close_once(void)
{
	static int in_vain;
	int patience = in_vain < 56 ? COUPLED_MS << (in_vain / 8) : (int)COUPLED_LAST_MS;

	in_vain += in_vain < 56;
	fake_close_gate(&fake, 0);
	for (int waited = 0; !fake_wait_drained(&fake, 0, patience); waited += patience) {
		check(waited < DEADLOCK_MS);
		if (fake_waiting(&fake) == 0)
			continue;
		fake_open_gate(&fake, 0);
		return 0;
	}
	in_vain = in_vain < 9 ? 0 : in_vain - 9;
	__atomic_store_n(&law->acknowledged, 1, __ATOMIC_SEQ_CST);
	check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
	for (int i = 0; i < 50; i++)
		sched_yield();
	check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
	__atomic_store_n(&law->acknowledged, 0, __ATOMIC_SEQ_CST);
	fake_open_gate(&fake, 0);
	return 1;
}

static unsigned rounds_usual = GUEST_TSAN ? 200 : 100;

static void sixteen_threads(void)
{
	unsigned rounds = test_rounds(rounds_usual), acknowledged = 0;
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
	check(law_count(law, violations) == 0);
	check(law_count(law, bad_calls) == 0);
	check(acknowledged > rounds / 20);
	check(__atomic_load_n(&law->captured, __ATOMIC_SEQ_CST) > 0 && load_hosted() > 0);
}

TEST(nothing_is_submitted_after_an_acknowledgement)
{
	expect_eq(in_child(sixteen_threads, NULL, 0), 0);
}

static void is_wanted(void)
{
	check(fake_wait_idle(&fake, 0, 0, DEADLOCK_MS));
}

/* Idle now and then, and with hardly anything under way. */
static void sixteen_threads_take_turns(void)
{
	turns = (struct wire_tenant_turns){.reports = 1, .contended = 1, .flight_ns = 200000};
	sixteen_threads();
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	law_probe(law, is_wanted);
	check(load_launch(NULL) == CUDA_SUCCESS);
}

TEST(nothing_is_submitted_after_an_acknowledgement_while_turns_are_taken)
{
	expect_eq(in_child(sixteen_threads_take_turns, NULL, 0), 0);
}

static void sixteen_threads_on_old_driver(void)
{
	setenv("METE_TEST_OLD", "1", 1);
	rounds_usual /= 2;
	sixteen_threads();
}

TEST(the_law_holds_on_a_driver_that_has_no_event_of_a_whole_context)
{
	expect_eq(in_child(sixteen_threads_on_old_driver, NULL, 0), 0);
}

/* A stream that nobody told the guest of, and that never becomes ready. */
static void hidden_work(void)
{
	static const uint32_t never;
	api_fn_cuStreamWaitValue32_v2 *wait;
	api_fn_cuStreamCreate *create;
	CUstream stream;
	void *driver;

	load_guest("law");
	driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	create = (api_fn_cuStreamCreate *)dlsym(driver, "cuStreamCreate");
	wait = (api_fn_cuStreamWaitValue32_v2 *)dlsym(driver, "cuStreamWaitValue32_v2");
	check(create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	check(wait(stream, (CUdeviceptr)(uintptr_t)&never, 1, 0) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(!fake_wait_drained(&fake, 0, 20));
	fake_recall(&fake, 0, 1);
	fake_open_gate(&fake, 0);
}

TEST(the_agent_answers_while_a_drain_waits_for_work_that_nobody_told_it_of)
{
	expect_eq(in_child(hidden_work, NULL, 0), 0);
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
	before = law_count(law, submissions);
	check(pthread_create(&thread, NULL, one_launch, NULL) == 0);
	while (fake_waiting(&fake) != 1)
		sched_yield();
	check(__atomic_load_n(&law->submissions, __ATOMIC_SEQ_CST) == before);
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	check(law_count(law, submissions) == before + 1);
	check(fake_waiting(&fake) == 0);
}

TEST(a_launch_waits_at_a_closed_gate_and_goes_on_when_it_opens)
{
	expect_eq(in_child(waits_and_goes_on, NULL, 0), 0);
}

static void many_streams(void)
{
	CUstream stream = NULL;

	load_guest("law");
	for (int i = 0; i < 240; i++)
		stream = load_stream(1);
	check(load_launch(stream) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
}

TEST(however_many_streams_there_are_a_close_waits_for_each)
{
	expect_eq(in_child(many_streams, NULL, 0), 0);
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

static atomic_uint launched[2];
static atomic_int devices_stop;

/* A thread that launches into a stream of device 0 or 1; the odd ones while the other device's
 * context is current, as the stream decides. */
static void *launches_on(void *argument)
{
	uintptr_t number = (uintptr_t)argument;
	CUcontext context[2] = {(CUcontext)0x1000, (CUcontext)0x2000};
	unsigned device = number & 1;
	CUstream stream;

	load_set_current(context[device]);
	stream = load_stream(number >> 1 & 1);
	if (number & 4)
		load_set_current(context[!device]);
	while (!devices_stop) {
		check(load_launch(stream) == CUDA_SUCCESS);
		atomic_fetch_add(&launched[device], 1);
		if (launched[device] % 16 == 0)
			load_synchronize(stream);
	}
	return NULL;
}

static void wait_for_launches(int device, unsigned more)
{
	unsigned before = launched[device];

	while (launched[device] - before < more)
		sched_yield();
}

static void two_devices(void)
{
	unsigned rounds = test_rounds(GUEST_TSAN ? 20 : 50);
	pthread_t thread[8];
	void *handle;

	fake_start(&fake, 2, FAKE_GOOD);
	handle = guest_load("law");
	load_find(handle);
	handle = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	law = *(struct law **)dlsym(handle, "law_state");
	for (uintptr_t i = 0; i < 8; i++)
		check(pthread_create(&thread[i], NULL, launches_on, (void *)i) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		int device = i & 1;

		fake_close_gate(&fake, device);
		check(fake_wait_drained(&fake, device, DEADLOCK_MS));
		__atomic_store_n(&law->acknowledged_on[device], 1, __ATOMIC_SEQ_CST);
		check(__atomic_load_n(&law->outstanding_on[device], __ATOMIC_SEQ_CST) == 0);
		/* The other device's work goes on. */
		wait_for_launches(!device, 50);
		check(__atomic_load_n(&law->outstanding_on[device], __ATOMIC_SEQ_CST) == 0);
		__atomic_store_n(&law->acknowledged_on[device], 0, __ATOMIC_SEQ_CST);
		fake_open_gate(&fake, device);
		wait_for_launches(device, 5);
	}
	devices_stop = 1;
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	check(law_count(law, violations) == 0);
}

TEST(a_closed_gate_stops_its_own_device_only)
{
	expect_eq(in_child(two_devices, NULL, 0), 0);
}

/* As in a container whose seccomp filter knows no membarrier(). */
static void forbid_membarrier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {ARRAY_SIZE(filter), filter};

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	check(syscall(SYS_membarrier, 0, 0, 0) < 0);
}

static void without_membarrier(void)
{
	forbid_membarrier();
	rounds_usual = GUEST_TSAN ? 20 : 50;
	sixteen_threads();
}

TEST(the_law_holds_without_membarrier)
{
	expect_eq(in_child(without_membarrier, NULL, 0), 0);
}
