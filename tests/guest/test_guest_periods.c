/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After how many calls a sample is due (guest/time/flight.h): the guest is linked into this
 * program, so that it can be asked.
 */
#include <pthread.h>

#include "guest/driver/real.h"
#include "guest/process/join.h"
#include "guest/time/flight.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

enum { CALLS = 5000, AT_ONCE = 100, LEAST = 16 };

static const struct wire_tenant_turns bounded = {
	.reports = 1, .contended = 1, .flight_ns = 4000000};

static struct fake fake;

#define entry(symbol) ((api_fn_##symbol *)guest_export(API_##symbol))

/* Until it is known how long the driver's calls take. */
static void learn(void)
{
	char path[512];
	CUstream stream;

	fake_start(&fake, 1, FAKE_GOOD);
	fake_pace(&fake, 0, &bounded);
	snprintf(path, sizeof(path), "%s/libdriver-law.so", getenv("METE_TEST_DRIVERS"));
	setenv("METE_DRIVER", path, 1);
	check(state_ready() == CUDA_SUCCESS);
	check(entry(cuInit)(0) == CUDA_SUCCESS);
	check(entry(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	for (int i = 0; i < CALLS; i++) {
		check(entry(cuLaunchKernel)((CUfunction)1, 1, 1, 1, 1, 1, 1, 0, stream, NULL,
					    NULL) == CUDA_SUCCESS);
		if (i % AT_ONCE == 0)
			check(entry(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
	}
}

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
