/* SPDX-License-Identifier: Apache-2.0 */
/* A guest whose tenant takes turns copies large blocks in pieces, between which its gate closes. */
#include "tests/guest/turns_fixture.h"

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
	struct wire_tenant_turns alone = {.reports = 1};

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
