/* SPDX-License-Identifier: Apache-2.0 */
/* Stream captures and the gate: they pass a closed one, and a close waits for them. */
#include <sys/resource.h>

#include "tests/guest/gate_fixture.h"

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
	check(law_count(law, captured) == 100 && law_count(law, bad_calls) == 0);
	fake_open_gate(&fake, 0);
}

TEST(a_capture_passes_a_closed_gate_and_is_waited_for)
{
	expect_eq(in_child(capture_passes, NULL, 0), 0);
}

struct beginning {
	CUstream stream;
	CUstreamCaptureMode mode;
};

static void *begins_and_dies(void *argument)
{
	const struct beginning *it = argument;

	check(load.begin(it->stream, it->mode) == CUDA_SUCCESS);
	return NULL;
}

/* By a thread that has ended then. */
static void begin_elsewhere(CUstream stream, CUstreamCaptureMode mode)
{
	struct beginning it = {stream, mode};
	pthread_t thread;

	check(pthread_create(&thread, NULL, begins_and_dies, &it) == 0);
	pthread_join(thread, NULL);
}

static uint64_t captures_shown(void)
{
	return __atomic_load_n(&fake.guest[0].own->captures, __ATOMIC_SEQ_CST);
}

/* More than there are places without an allocation, each in a stream of its own. */
static void many_captures(void)
{
	enum { COUNT = 200 };
	static CUstream stream[COUNT];
	CUgraph graph;

	load_guest("law");
	for (int i = 0; i < COUNT; i++) {
		stream[i] = load_stream(i & 1);
		check(load.begin(stream[i], CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	}
	check(captures_shown() == COUNT);
	fake_close_gate(&fake, 0);
	check(!fake_wait_drained(&fake, 0, 20));
	for (int i = 0; i < COUNT; i++)
		check(load.end(stream[i], &graph) == CUDA_SUCCESS);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	check(captures_shown() == 0 && law_count(law, bad_calls) == 0);
}

TEST(however_many_captures_were_open_a_close_is_acknowledged_after_them)
{
	expect_eq(in_child(many_captures, NULL, 0), 0);
}

/* Its stream is being captured already. */
static void refused_captures(void)
{
	CUstream stream;
	CUgraph graph;

	load_guest("law");
	stream = load_stream(0);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	for (int i = 0; i < 10; i++)
		check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
		      CUDA_ERROR_ILLEGAL_STATE);
	check(captures_shown() == 1);
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(captures_shown() == 0);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	fake_open_gate(&fake, 0);
}

TEST(a_capture_that_did_not_begin_is_not_waited_for)
{
	expect_eq(in_child(refused_captures, NULL, 0), 0);
}

static void captured_and_died(void)
{

	load_guest("law");
	begin_elsewhere(load_stream(0), CU_STREAM_CAPTURE_MODE_GLOBAL);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
}

TEST(a_capture_whose_thread_has_ended_is_not_waited_for)
{
	expect_eq(in_child(captured_and_died, NULL, 0), 0);
}

static atomic_int began;

static void close_and_open(void)
{
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	fake_open_gate(&fake, 0);
}

/* Two captures, one after the other: a close comes when the driver has ended the first one and the
 * caller has not heard of it yet, and again before the second one. */
static void *captures_twice(void *argument)
{
	CUgraph graph;

	check(load.begin(argument, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	law_probe(law, close_and_open);
	check(load.end(argument, &graph) == CUDA_SUCCESS);
	law_probe(law, NULL);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
	check(load.begin(argument, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	began = 1;
	check(load.end(argument, &graph) == CUDA_SUCCESS);
	return NULL;
}

static void end_seen_first(void)
{
	pthread_t thread;

	load_guest("law");
	check(pthread_create(&thread, NULL, captures_twice, load_stream(0)) == 0);
	while (fake_waiting(&fake) == 0 && !began)
		sched_yield();
	check(!began);
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS));
}

TEST(a_capture_waits_at_a_closed_gate_though_the_agent_saw_the_end_of_the_last_one_first)
{
	expect_eq(in_child(end_seen_first, NULL, 0), 0);
}

static CUstream again;

/* The agent has noted the end when the next capture of the same stream begins. */
static void ends_and_begins(void)
{
	law_probe(law, NULL);
	close_and_open();
	check(load.begin(again, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
}

static void next_begins_first(void)
{
	CUgraph graph;

	load_guest("law");
	again = load_stream(0);
	check(load.begin(again, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	law_probe(law, ends_and_begins);
	check(load.end(again, &graph) == CUDA_SUCCESS);
	check(captures_shown() == 1);
	fake_close_gate(&fake, 0);
	check(!fake_wait_drained(&fake, 0, 20));
	check(load.end(again, &graph) == CUDA_SUCCESS && captures_shown() == 0);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS) && law_count(law, bad_calls) == 0);
}

TEST(the_end_of_a_capture_does_not_end_the_next_one_of_its_stream)
{
	expect_eq(in_child(next_begins_first, NULL, 0), 0);
}

/* As the driver ends one that became invalid, which the caller hears as a failure. */
static void end_fails(void)
{
	void *driver;
	CUstream stream;
	CUgraph graph;

	load_guest("law");
	driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	stream = load_stream(0);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	check(guest_function(driver, cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS);
	check(captures_shown() == 1);
	check(load.end(stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);
	check(captures_shown() == 0);
}

TEST(a_capture_whose_end_fails_is_over_if_its_stream_is_not_captured_any_more)
{
	expect_eq(in_child(end_fails, NULL, 0), 0);
}

/* The table of captures cannot grow meanwhile: more begin than it has places. */
static void many_one_after_the_other(void)
{
	enum { COUNT = 200 };
	struct rlimit was, nothing;
	CUstream open, stream;
	CUgraph graph;

	load_guest("law");
	open = load_stream(0);
	stream = load_stream(0);
	check(load.begin(open, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	check(getrlimit(RLIMIT_AS, &was) == 0);
	nothing = (struct rlimit){.rlim_cur = 1, .rlim_max = was.rlim_max};
	check(setrlimit(RLIMIT_AS, &nothing) == 0);
	for (int i = 0; i < COUNT; i++) {
		check(load.begin(open, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_ERROR_ILLEGAL_STATE);
		check(load.begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
		check(load.end(stream, &graph) == CUDA_SUCCESS);
	}
	check(setrlimit(RLIMIT_AS, &was) == 0);
	check(load.end(open, &graph) == CUDA_SUCCESS && captures_shown() == 0);
}

TEST(a_capture_that_is_over_or_did_not_begin_keeps_no_place)
{
	if (GUEST_TSAN)
		test_skip("TSan takes memory of its own at each call; another build shows it");
	expect_eq(in_child(many_one_after_the_other, NULL, 0), 0);
}

/* The agent was about to drain, and the gate opens instead. */
static void close_is_given_up(void)
{
	CUstream stream, other;
	CUgraph graph;

	alarm(240);
	load_guest("law");
	stream = load_stream(0);
	other = load_stream(0);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(!fake_wait_drained(&fake, 0, 20));
	fake_open_gate(&fake, 0);
	check(load.begin(other, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	check(load.end(other, &graph) == CUDA_SUCCESS);
	check(load.end(stream, &graph) == CUDA_SUCCESS && captures_shown() == 0);
}

TEST(a_capture_begins_after_a_close_that_another_one_has_held_up)
{
	expect_eq(in_child(close_is_given_up, NULL, 0), 0);
}

/* It could not end the first one if it waited for the gate, which is acknowledged after that. */
static void second_under_closed_gate(void)
{
	CUstream first, second;
	CUgraph graph;

	alarm(240);
	load_guest("law");
	first = load_stream(0);
	second = load_stream(0);
	check(load.begin(first, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(load.begin(second, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	check(captures_shown() == 2 && !fake_wait_drained(&fake, 0, 20));
	check(load.end(first, &graph) == CUDA_SUCCESS);
	check(load.end(second, &graph) == CUDA_SUCCESS);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS) && law_count(law, bad_calls) == 0);
}

TEST(a_thread_that_captures_begins_another_capture_at_a_closed_gate)
{
	expect_eq(in_child(second_under_closed_gate, NULL, 0), 0);
}

static void ended_by_another(void)
{
	CUstream stream;
	CUgraph graph;

	load_guest("law");
	stream = load_stream(0);
	begin_elsewhere(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	fake_close_gate(&fake, 0);
	/* The agent has heard of the close. */
	fake_recall(&fake, 0, 0);
	check(!fake_wait_drained(&fake, 0, 20) && captures_shown() == 1);
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(fake_wait_drained(&fake, 0, DEADLOCK_MS) && law_count(law, bad_calls) == 0);
}

TEST(a_relaxed_capture_is_waited_for_though_its_thread_has_ended)
{
	expect_eq(in_child(ended_by_another, NULL, 0), 0);
}

static void destroyed_with_its_stream(void)
{
	CUstream stream;

	load_guest("law");
	stream = load_stream(0);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	check(captures_shown() == 1);
	check(guest_function(guest, cuStreamDestroy_v2)(stream) == CUDA_SUCCESS);
	check(captures_shown() == 0);
}

TEST(a_capture_ends_with_its_stream)
{
	expect_eq(in_child(destroyed_with_its_stream, NULL, 0), 0);
}

/* As a program ends a context after a failure: nobody will end its captures. */
static void destroyed_with_its_context(void)
{
	CUstream stream;
	CUgraph graph;

	load_guest("law");
	check(load.begin(load_stream(0), CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	check(load.begin(load_stream(CU_STREAM_NON_BLOCKING), CU_STREAM_CAPTURE_MODE_RELAXED) ==
	      CUDA_SUCCESS);
	load_set_current((CUcontext)0x2000);
	stream = load_stream(0);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	check(captures_shown() == 3);
	check(guest_function(guest, cuCtxDestroy_v2)((CUcontext)0x1000) == CUDA_SUCCESS);
	check(captures_shown() == 1);
	check(load.end(stream, &graph) == CUDA_SUCCESS && captures_shown() == 0);
}

TEST(captures_end_with_their_context_and_no_others)
{
	expect_eq(in_child(destroyed_with_its_context, NULL, 0), 0);
}

/* Of this thread. */
static CUstreamCaptureMode mode_now(void)
{
	api_fn_cuThreadExchangeStreamCaptureMode *exchange =
		guest_function(guest, cuThreadExchangeStreamCaptureMode);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED, was;

	check(exchange(&mode) == CUDA_SUCCESS);
	was = mode;
	check(exchange(&mode) == CUDA_SUCCESS && mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	return was;
}

/* What the guest does for samples, for held streams and before a capture. */
static void mode_of_a_thread(void)
{
	static uint32_t word = 1;
	CUstream stream;
	CUgraph graph;

	turns = (struct wire_tenant_turns){.reports = 1, .contended = 1, .flight_ns = 4000000};
	load_guest("law");
	/* The agent has seen that somebody waits. */
	check(fake_wait_idle(&fake, 0, 1, DEADLOCK_MS));
	stream = load_stream(CU_STREAM_NON_BLOCKING);
	check(mode_now() == CU_STREAM_CAPTURE_MODE_GLOBAL);
	check(load_launch(stream) == CUDA_SUCCESS);
	check(mode_now() == CU_STREAM_CAPTURE_MODE_GLOBAL);
	check(guest_function(guest, cuStreamWaitValue32_v2)(stream, (CUdeviceptr)(uintptr_t)&word,
							    1, 0) == CUDA_SUCCESS);
	check(mode_now() == CU_STREAM_CAPTURE_MODE_GLOBAL);
	check(load.begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
	check(mode_now() == CU_STREAM_CAPTURE_MODE_GLOBAL);
	check(load.end(stream, &graph) == CUDA_SUCCESS);
	check(mode_now() == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(a_thread_keeps_its_mode_of_captures)
{
	expect_eq(in_child(mode_of_a_thread, NULL, 0), 0);
}
