/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After how many calls a sample is due (guest/time/flight.h): the guest is linked into this
 * program, so that it can be asked.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "guest/driver/real.h"
#include "guest/process/join.h"
#include "guest/process/state.h"
#include "guest/time/flight.h"
#include "guest/time/marks.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

enum { AT_ONCE = 100, LEAST = 16 };

/* Its agent never finds it idle, so that what is shown stays. */
static struct wire_tenant_turns bounded = {
	.reports = 1, .contended = 1, .flight_ns = 4000000, .grace_ns = 3600000000000};

static struct fake fake;
static CUstream stream;

#define entry(symbol) ((api_fn_##symbol *)guest_export(API_##symbol))

/* Of some in a row. */
static void periods(uint32_t *ret_least, uint32_t *ret_most)
{
	*ret_least = UINT32_MAX;
	*ret_most = 0;
	for (int i = 0; i < 64; i++) {
		uint32_t period = flight_period(0);

		*ret_least = period < *ret_least ? period : *ret_least;
		*ret_most = period > *ret_most ? period : *ret_most;
	}
}

static void launch_once(void)
{
	check(entry(cuLaunchKernel)((CUfunction)1, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) ==
	      CUDA_SUCCESS);
}

static void launch(void)
{
	for (int i = 0; i < AT_ONCE; i++)
		launch_once();
	check(entry(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
}

/* Until it is known how long the driver's calls take: on a busy machine some waits are in vain. */
static void learn(void)
{
	uint32_t least = 0, most = 0;
	char path[512];

	alarm(240);
	fake_start(&fake, 1, FAKE_GOOD);
	fake_pace(&fake, 0, &bounded);
	snprintf(path, sizeof(path), "%s/libdriver-law.so", getenv("METE_TEST_DRIVERS"));
	setenv("METE_DRIVER", path, 1);
	check(state_ready() == CUDA_SUCCESS);
	check(entry(cuInit)(0) == CUDA_SUCCESS);
	check(entry(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	while (most < LEAST) {
		launch();
		periods(&least, &most);
	}
}

static void vary(void)
{
	uint32_t least, most;

	learn();
	periods(&least, &most);
	fprintf(stderr, "%u to %u calls\n", least, most);
	check(most >= LEAST && least < most && least > most / 2);
}

/* A program that submits to its streams in turn would have one of them sampled only. */
TEST(periods_vary_so_that_each_stream_is_sampled)
{
	expect_eq(in_child(vary, NULL, 0), 0);
}

static void becomes_narrower(void)
{
	uint32_t before, after, least;

	learn();
	periods(&least, &before);
	flight_bound(0, 4000000, 8000000);
	periods(&least, &after);
	check(after == before);
	flight_bound(0, 4000000, 1000000);
	periods(&least, &after);
	fprintf(stderr, "%u calls, then %u\n", before, after);
	check(before >= LEAST && after > 0 && after <= before / 4 + 1);
}

/* Before another sample has been taken. */
TEST(a_quarter_of_the_bound_is_a_quarter_of_the_calls_at_once)
{
	expect_eq(in_child(becomes_narrower, NULL, 0), 0);
}

static uint64_t shown(void)
{
	return __atomic_load_n(&guest_own_page.flight_ns[0], __ATOMIC_SEQ_CST);
}

static void becomes_idle(void)
{
	learn();
	while (shown() == 0) /* as long as none of these was taken for a sample */
		launch_once();
	bounded.grace_ns = 0;
	fake_pace(&fake, 0, &bounded);
	/* The daemon hears it first. */
	while (shown() != 0)
		sched_yield();
}

TEST(what_is_under_way_is_shown_until_nothing_is)
{
	expect_eq(in_child(becomes_idle, NULL, 0), 0);
}

static api_fn_cuEventCreate *create;
static atomic_uint created;

static CUresult create_event(CUevent *ret_event, unsigned flags)
{
	created++;
	return create(ret_event, flags);
}

/* Another one may have its handle soon, in which the events of the former one are not good. */
static void context_leaves(void)
{
	CUcontext context;

	learn();
	create = real_function(cuEventCreate);
	__atomic_store_n(&guest_real[API_cuEventCreate], (void *)create_event, __ATOMIC_RELEASE);
	launch();
	check(created == 0);
	check(real(cuStreamGetCtx)(stream, &context) == CUDA_SUCCESS);
	flight_context_leaves(context);
	while (created == 0)
		launch();
	check(created == MARKS);
}

TEST(a_context_that_comes_after_another_one_has_marks_of_its_own)
{
	expect_eq(in_child(context_leaves, NULL, 0), 0);
}

/* Calls of this thread until the next sample. */
static uint32_t countdown(void)
{
	return __atomic_load_n(&guest_slot->countdown, __ATOMIC_SEQ_CST);
}

static void learns_of_narrower_bound(void)
{
	learn();
	while (countdown() <= 1)
		launch_once();
	bounded.flight_ns /= 4;
	fake_pace(&fake, 0, &bounded);
	while (countdown() > 1)
		sched_yield();
}

TEST(the_next_call_after_a_bound_became_narrower_is_a_sample)
{
	expect_eq(in_child(learns_of_narrower_bound, NULL, 0), 0);
}
