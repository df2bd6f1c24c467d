/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credit, on a fake daemon that knows what it has granted: the guest is linked into this program,
 * so that its own functions can be called.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "guest/credit/credit.h"
#include "guest/credit/view.h"
#include "guest/process/join.h"
#include "guest/process/state.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

enum {
	MIB = 1 << 20,
	THREADS = 16,
};

static struct fake fake;
static atomic_ullong taken;
static atomic_uint refused;

static void join_with(uint64_t limit_bytes)
{
	char path[512];

	fake_start(&fake, 1, FAKE_GOOD);
	fake.limit_bytes = limit_bytes;
	snprintf(path, sizeof(path), "%s/libdriver-law.so", getenv("METE_TEST_DRIVERS"));
	setenv("METE_DRIVER", path, 1);
	check(state_ready() == CUDA_SUCCESS);
}

static uint64_t granted(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&fake.lock);
	bytes = fake.granted[0];
	pthread_mutex_unlock(&fake.lock);
	return bytes;
}

/* The daemon's figure follows when what was sent has arrived: a recall goes behind it. */
static void check_books(void)
{
	fake_recall(&fake, 0, 0);
	check(granted() == credit_allocated(0) + credit_unused(0));
	check(fake.guest[0].own->device[0].allocated_bytes == credit_allocated(0));
	check(fake.guest[0].own->device[0].credit_bytes == credit_unused(0));
}

static void *takes_all(void *argument)
{
	while (credit_take(0, MIB, CREDIT_WAIT) == 0)
		atomic_fetch_add(&taken, MIB);
	return argument;
}

static void last_byte(void)
{
	pthread_t thread[THREADS];

	for (unsigned round = 0; round < test_rounds(GUEST_TSAN ? 5 : 50); round++) {
		taken = 0;
		if (round == 0)
			join_with(100ULL * MIB);
		for (int i = 0; i < THREADS; i++)
			check(pthread_create(&thread[i], NULL, takes_all, NULL) == 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		/* Never one byte over, and none refused while there was one. */
		check(taken == 100ULL * MIB);
		check(credit_unused(0) == 0 && credit_allocated(0) == 100ULL * MIB);
		check_books();
		credit_give(0, 100ULL * MIB);
		check(fake_recall(&fake, 0, UINT64_MAX) == 100ULL * MIB);
		check(granted() == 0);
	}
}

TEST(sixteen_threads_share_the_last_byte_without_a_spurious_refusal)
{
	expect_eq(in_child(last_byte, NULL, 0), 0);
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return *seed >> 33;
}

static void *takes_and_gives(void *argument)
{
	uint64_t held[32] = {0}, seed = (uintptr_t)argument;

	for (unsigned i = 0; i < 20000; i++) {
		unsigned place = (unsigned)(next(&seed) % 32);
		uint64_t bytes = 1 + next(&seed) % (8ULL * MIB);

		if (held[place]) {
			credit_give(0, held[place]);
			atomic_fetch_sub(&taken, held[place]);
			held[place] = 0;
		} else if (credit_take(0, bytes, i & 1 ? CREDIT_WAIT : CREDIT_ASK) == 0) {
			held[place] = bytes;
			atomic_fetch_add(&taken, bytes);
		} else {
			atomic_fetch_add(&refused, 1);
		}
		check(credit_allocated(0) <= fake.limit_bytes);
	}
	for (int place = 0; place < 32; place++) {
		credit_give(0, held[place]);
		atomic_fetch_sub(&taken, held[place]);
	}
	return NULL;
}

static void random_history(void)
{
	pthread_t thread[4];

	join_with(100ULL * MIB);
	for (int i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, takes_and_gives,
				     (void *)(uintptr_t)test_random()) == 0);
	/* Meanwhile the daemon wants some back, again and again. */
	for (int i = 0; i < 200; i++) {
		fake_recall(&fake, 0, 16ULL * MIB);
		check(granted() <= 100ULL * MIB);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	check(taken == 0);
	check(credit_allocated(0) == 0);
	check(refused > 0);
	check_books();
}

TEST(the_books_of_guest_and_daemon_agree_after_any_history)
{
	expect_eq(in_child(random_history, NULL, 0), 0);
}

static void gives_surplus(void)
{
	join_with(1ULL << 30);
	check(credit_take(0, 512ULL * MIB, CREDIT_WAIT) == 0);
	credit_give(0, 512ULL * MIB);
	check(credit_unused(0) <= 2ULL * CREDIT_KEPT);
	check_books();
	check(credit_take(0, 2ULL << 30, CREDIT_WAIT) == CREDIT_LIMIT);
	/* Giving more than was taken gives what was taken. */
	credit_give(0, 1ULL << 40);
	check(credit_allocated(0) == 0);
	check_books();
	check(credit_take(-1, 1, CREDIT_WAIT) == CREDIT_LIMIT);
}

TEST(surplus_credit_goes_back)
{
	expect_eq(in_child(gives_surplus, NULL, 0), 0);
}

static void others(uint32_t rivals, uint32_t guests)
{
	__atomic_store_n(&fake.page->device[0].rivals, rivals, __ATOMIC_RELAXED);
	__atomic_store_n(&fake.page->device[0].guests, guests, __ATOMIC_RELAXED);
}

static void keeps_all(void)
{
	join_with(1ULL << 30);
	others(0, 1);
	check(credit_take(0, 512ULL * MIB, CREDIT_WAIT) == 0);
	credit_give(0, 512ULL * MIB);
	check(credit_unused(0) >= 512ULL * MIB);
	check(fake.returned == 0);
	check_books();
	check(fake_recall(&fake, 0, UINT64_MAX) >= 512ULL * MIB);
	check_books();
	/* A sibling, or a neighbour, has come. */
	for (uint32_t rivals = 0; rivals < 2; rivals++) {
		check(credit_take(0, 512ULL * MIB, CREDIT_WAIT) == 0);
		others(rivals, 2 - rivals);
		credit_give(0, 512ULL * MIB);
		check(credit_unused(0) <= 2ULL * CREDIT_KEPT);
		check_books();
		check(fake_recall(&fake, 0, UINT64_MAX) <= 2ULL * CREDIT_KEPT);
	}
}

static void recalled_in_a_look(void)
{
	struct wire_tenant_device *shown;
	struct view_memory memory;

	join_with(1ULL << 30);
	shown = &fake.page->device[0];
	__atomic_store_n(&shown->limit_bytes, 1ULL << 30, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->total_bytes, 1ULL << 30, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->room_bytes, 1ULL << 30, __ATOMIC_RELAXED);
	others(1, 1);
	for (int recalls = 0; recalls < 4; recalls++) {
		check(credit_take(0, 110ULL * MIB, CREDIT_WAIT) == 0);
		credit_give(0, 100ULL * MIB);
		fake.shows_granted = 1;
		fake.recalls_at_look = recalls;
		view_memory(0, 1ULL << 30, &memory);
		check(memory.free == (1ULL << 30) - 10ULL * MIB);
		check(fake.recalls_at_look == 0 && (recalls == 0 || credit_unused(0) == 0));
		credit_give(0, 10ULL * MIB);
	}
}

TEST(credit_that_is_recalled_while_the_daemon_looks_is_seen_as_free)
{
	expect_eq(in_child(recalled_in_a_look, NULL, 0), 0);
}

TEST(alone_a_process_keeps_freed_memory_until_it_is_recalled)
{
	expect_eq(in_child(keeps_all, NULL, 0), 0);
}

static uint64_t asks(void)
{
	uint64_t asked;

	pthread_mutex_lock(&fake.lock);
	asked = fake.asks;
	pthread_mutex_unlock(&fake.lock);
	return asked;
}

static void learns(void)
{
	uint64_t before;

	join_with(4ULL << 30);
	others(1, 1);
	for (uint64_t size = 300; size <= 1200; size += 900) {
		before = asks();
		for (int i = 0; i < 1000; i++) {
			check(credit_take(0, size * MIB, CREDIT_WAIT) == 0);
			credit_give(0, size * MIB);
		}
		check(asks() - before <= 10);
		check_books();
	}
	/* Somebody needs it: everything comes back, and no more than the usual is kept again. */
	check(fake_recall(&fake, 0, UINT64_MAX) >= 1200ULL * MIB);
	check(credit_take(0, 1200ULL * MIB, CREDIT_WAIT) == 0);
	credit_give(0, 1200ULL * MIB);
	check(credit_unused(0) <= 2ULL * CREDIT_KEPT);
	check_books();
}

TEST(beside_others_a_process_keeps_memory_that_it_takes_again_and_again)
{
	expect_eq(in_child(learns, NULL, 0), 0);
}

static atomic_int stop;

static void *keeps_taking(void *argument)
{
	while (!stop) {
		/* A restart in between is waited for, also by asks that would not wait for room. */
		check(credit_take(0, 3ULL * MIB,
				  (uintptr_t)argument & 1 ? CREDIT_WAIT : CREDIT_ASK) == 0);
		sched_yield();
		credit_give(0, 3ULL * MIB);
		if (((uintptr_t)argument & 2) && credit_unused(0) > 0)
			sched_yield();
	}
	return NULL;
}

static void restarts(void)
{
	pthread_t thread[4];

	join_with(1ULL << 30);
	for (uintptr_t i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, keeps_taking, (void *)i) == 0);
	for (unsigned i = 0; i < test_rounds(GUEST_TSAN ? 5 : 30); i++) {
		fake_kill(&fake);
		fake_restart(&fake);
		for (;;) {
			pthread_mutex_lock(&fake.lock);
			uint32_t back = fake.guest[0].inventories;
			pthread_mutex_unlock(&fake.lock);
			if (back)
				break;
			sched_yield();
		}
		fake_recall(&fake, 0, UINT64_MAX);
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	check(credit_allocated(0) == 0);
	check_books();
}

TEST(held_memory_survives_a_restart_of_the_daemon)
{
	expect_eq(in_child(restarts, NULL, 0), 0);
}
