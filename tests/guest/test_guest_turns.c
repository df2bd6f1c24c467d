/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest whose tenant takes turns: it reports that it is idle, and that it wants the device again
 * before it submits.
 */
#include "tests/guest/turns_fixture.h"

/* ---- idle ------------------------------------------------------------------------------------ */

/* In a submission: the daemon has been told, or is about to hear. */
static void is_wanted(void)
{
	check(fake_wait_idle(&fake, 0, 0, DEADLOCK_MS));
}

static void idle_and_back(void)
{
	load_guest(&told);
	law_probe(law, is_wanted);
	for (int i = 0; i < 20; i++) {
		check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
		check(load_launch(NULL) == CUDA_SUCCESS);
	}
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	check(fake_heard_wants(&fake) == 20 && fake_heard_idle(&fake) == 21);
}

TEST(a_guest_reports_that_it_is_idle_and_wants_the_device_before_it_submits_again)
{
	expect_eq(in_child(idle_and_back, NULL, 0), 0);
}

static void never_launched(void)
{
	fake_start(&fake, 1, FAKE_GOOD);
	fake_pace(&fake, 0, &told);
	guest = guest_load("law");
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(a_guest_that_never_launched_is_idle)
{
	expect_eq(in_child(never_launched, NULL, 0), 0);
}

static void busy_with(CUstream stream)
{
	word = 0;
	stream_waits_for_word(stream);
	check(fake_wait_idle(&fake, 0, 0, DEADLOCK_MS));
	check(!fake_wait_idle(&fake, 0, 1, NOT_MS));
	write_word();
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

static void not_idle_while_busy(void)
{
	load_guest(&told);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	busy_with(NULL);
	busy_with(load_stream(CU_STREAM_DEFAULT));
	busy_with(load_stream(CU_STREAM_NON_BLOCKING));
}

TEST(a_guest_is_not_idle_while_its_work_is_under_way_whatever_the_stream)
{
	expect_eq(in_child(not_idle_while_busy, NULL, 0), 0);
}

static void second_is_wanted(void)
{
	check(fake_wait_idle(&fake, 1, 0, DEADLOCK_MS));
}

/* The first has work, so that its agent asks for no samples because of that one. */
static void idle_on_second(void)
{
	fake_start(&fake, 2, FAKE_GOOD);
	fake_pace(&fake, 0, &told);
	fake_pace(&fake, 1, &told);
	guest = guest_load("law");
	load_find(guest);
	driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	law = *(struct law **)dlsym(driver, "law_state");
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS) && fake_wait_idle(&fake, 1, 1, DEADLOCK_MS));
	stream_waits_for_word(NULL);
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(fake_wait_idle(&fake, 0, 0, DEADLOCK_MS) && !fake_wait_idle(&fake, 1, 0, NOT_MS));
	load_set_current((CUcontext)0x2000);
	law_probe(law, second_is_wanted);
	check(load_launch(NULL) == CUDA_SUCCESS);
	law_probe(law, NULL);
	write_word();
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS) && fake_wait_idle(&fake, 1, 1, DEADLOCK_MS));
}

TEST(a_guest_that_works_on_one_device_wants_another_one_before_it_submits_there)
{
	expect_eq(in_child(idle_on_second, NULL, 0), 0);
}

static void grace(void)
{
	struct wire_tenant_turns slow = {
		.reports = 1, .contended = 1, .grace_ns = 3600000000000ull};

	load_guest(&slow);
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(!fake_wait_idle(&fake, 0, 1, NOT_MS));
	fake_pace(&fake, 0, &told);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(a_guest_reports_that_it_is_idle_after_the_grace_that_the_daemon_sets)
{
	expect_eq(in_child(grace, NULL, 0), 0);
}

static const struct wire_tenant_turns off;

static void unasked(void)
{
	load_guest(&off);
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(!fake_wait_idle(&fake, 0, 1, NOT_MS));
	fake_pace(&fake, 0, &told);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	fake_pace(&fake, 0, &off);
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(fake_heard_idle(&fake) == 1);
}

TEST(a_guest_that_is_not_asked_reports_nothing)
{
	expect_eq(in_child(unasked, NULL, 0), 0);
}

static void begin_anew(void)
{
	load_guest(&told);
	for (unsigned i = 0; i < test_rounds(100); i++) {
		check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
		fake_pace(&fake, 0, &off);
		fake_pace(&fake, 0, &told);
	}
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(an_idle_guest_reports_it_anew_when_turns_have_ended_and_begun)
{
	expect_eq(in_child(begin_anew, NULL, 0), 0);
}

static void *one_launch(void *argument)
{
	check(load_launch(argument) == CUDA_SUCCESS);
	return NULL;
}

static void at_the_gate(void)
{
	pthread_t thread;
	uint64_t before;

	load_guest(&told);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	before = law_count(law, submissions);
	check(pthread_create(&thread, NULL, one_launch, NULL) == 0);
	check(fake_wait_idle(&fake, 0, 0, DEADLOCK_MS));
	while (__atomic_load_n(&fake.guest[0].own->waiting_on[0], __ATOMIC_SEQ_CST) != 1)
		sched_yield();
	/* It is not idle while it stands there. */
	check(!fake_wait_idle(&fake, 0, 1, NOT_MS) && law_count(law, submissions) == before);
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS) &&
	      law_count(law, submissions) == before + 1);
	check(__atomic_load_n(&fake.guest[0].own->waiting_on[0], __ATOMIC_SEQ_CST) == 0);
}

TEST(a_guest_at_a_closed_gate_wants_the_device_and_is_not_idle)
{
	expect_eq(in_child(at_the_gate, NULL, 0), 0);
}

static void closed_when_idle(void)
{
	load_guest(&off);
	check(load_launch(NULL) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	fake_pace(&fake, 0, &told);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(behind_a_closed_gate_a_guest_is_idle_as_well)
{
	expect_eq(in_child(closed_when_idle, NULL, 0), 0);
}

/* The daemon never believes that we are idle while a thread submits. */
static void *comes_and_goes(void *argument)
{
	struct timespec pause = {0, (long)(uintptr_t)argument * 37000};

	for (unsigned i = 0; i < test_rounds(GUEST_TSAN ? 20 : 200); i++) {
		check(load_launch(NULL) == CUDA_SUCCESS);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void threads_come_and_go(void)
{
	pthread_t thread[40];

	load_guest(&told);
	law_probe(law, is_wanted);
	for (uintptr_t i = 0; i < ARRAY_SIZE(thread); i++)
		check(pthread_create(&thread[i], NULL, comes_and_goes, (void *)(i % 8)) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(while_any_thread_submits_the_daemon_knows_that_the_device_is_wanted)
{
	expect_eq(in_child(threads_come_and_go, NULL, 0), 0);
}

static void capture_open_is_not_idle(void)
{
	CUstream stream;
	CUgraph graph;

	load_guest(&told);
	stream = load_stream(CU_STREAM_DEFAULT);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	check(load_launch(stream) == CUDA_SUCCESS);
	check(fake_wait_idle(&fake, 0, 0, DEADLOCK_MS));
	fake_pace(&fake, 0, &bounded);
	for (int i = 0; i < 10; i++) {
		check(load_launch(stream) == CUDA_SUCCESS);
		check(!fake_wait_idle(&fake, 0, 1, NOT_MS / 10));
	}
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	check(law_count(law, bad_calls) == 0);
}

TEST(a_capture_is_not_disturbed_by_checks_and_marks_and_counts_as_busy)
{
	expect_eq(in_child(capture_open_is_not_idle, NULL, 0), 0);
}

/* While nothing is known of how long calls take, each one is. */
static void capture_while_sampled(void)
{
	CUstream stream;
	CUgraph graph;

	load_guest(&bounded);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	check(load_launch(stream) == CUDA_SUCCESS);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	for (int i = 0; i < 10; i++)
		check(load_launch(stream) == CUDA_SUCCESS);
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(law_count(law, captured) == 10 && law_count(law, bad_calls) == 0);
}

TEST(a_graph_that_is_captured_while_work_is_bounded_has_no_marks_in_it)
{
	expect_eq(in_child(capture_while_sampled, NULL, 0), 0);
}

/* Its work of before is waited for, and it itself is not. */
static void close_under_capture(void)
{
	CUstream stream, other;
	CUgraph graph;
	uint64_t before;

	load_guest(&told);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	other = load_stream(CU_STREAM_NON_BLOCKING);
	stream_waits_for_word(stream);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	check(load_launch(other) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(!fake_wait_drained(&fake, 0, NOT_MS));
	write_word();
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	before = law_count(law, submissions);
	check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
	for (int i = 0; i < 100; i++)
		check(load_launch(stream) == CUDA_SUCCESS);
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(law_count(law, submissions) == before && law_count(law, captured) == 100 &&
	      law_count(law, bad_calls) == 0);
	fake_open_gate(&fake, 0);
}

static void close_under_loud_capture(void)
{
	CUstream stream;
	CUgraph graph;

	load_guest(&told);
	stream = load_stream(CU_STREAM_DEFAULT);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(!fake_wait_drained(&fake, 0, NOT_MS));
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS) && law_count(law, bad_calls) == 0);
}

static void on_old_driver(void)
{
	setenv("METE_TEST_OLD", "1", 1);
	close_under_capture();
}

TEST(a_close_does_not_wait_for_a_capture_that_its_drain_does_not_disturb)
{
	expect_eq(in_child(close_under_capture, NULL, 0), 0);
	expect_eq(in_child(on_old_driver, NULL, 0), 0);
	expect_eq(in_child(close_under_loud_capture, NULL, 0), 0);
}

static void daemon_restarts(void)
{
	load_guest(&told);
	for (int i = 0; i < 5; i++) {
		check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
		fake_kill(&fake);
		check(load_launch(NULL) == CUDA_SUCCESS);
		fake_restart(&fake);
		fake_pace(&fake, 0, &told);
	}
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(a_daemon_that_comes_back_hears_anew_which_guests_are_idle)
{
	expect_eq(in_child(daemon_restarts, NULL, 0), 0);
}

static void child_of_idle(void)
{
	pid_t child;
	int status;

	load_guest(&told);
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	child = fork();
	if (child == 0) {
		alarm(60);
		check(load_launch(NULL) == CUDA_SUCCESS);
		check(load_launch(NULL) == CUDA_SUCCESS);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	check(load_launch(NULL) == CUDA_SUCCESS);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(a_child_of_an_idle_guest_is_a_guest_of_its_own)
{
	expect_eq(in_child(child_of_idle, NULL, 0), 0);
}

static atomic_int looks;

/* The agent's check takes as long as the test likes. */
static void stay(void)
{
	atomic_store(&looks, 1);
	while (__atomic_load_n(&law->look, __ATOMIC_ACQUIRE) == stay)
		sched_yield();
}

static void child_while_agent_looks(void)
{
	CUstream stream;
	CUgraph graph;
	pid_t child;
	int status;

	load_guest(&told);
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	__atomic_store_n(&law->look, stay, __ATOMIC_RELEASE);
	check(load_launch(stream) == CUDA_SUCCESS);
	while (!looks)
		sched_yield();
	/* The child's own agent is not to check: it would end the check that the parent's has
	 * begun. */
	fake_pace(&fake, 0, &(struct wire_tenant_turns){.contended = 1});
	child = fork();
	if (child == 0) {
		alarm(60);
		law->look = NULL;
		stream = load_stream(CU_STREAM_NON_BLOCKING);
		check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
		check(load.end(stream, &graph) == CUDA_SUCCESS);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	fake_pace(&fake, 0, &told);
	__atomic_store_n(&law->look, NULL, __ATOMIC_RELEASE);
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
}

TEST(a_child_made_while_the_agent_checks_may_capture)
{
	expect_eq(in_child(child_while_agent_looks, NULL, 0), 0);
}
