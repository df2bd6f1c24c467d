/* SPDX-License-Identifier: Apache-2.0 */
/* Daemons that die and come back. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/guest/guest_fixture.h"

static atomic_int stop;

static void *keeps_launching(void *argument)
{
	while (!stop)
		check(launch() == CUDA_SUCCESS);
	return argument;
}

static void wait_for_inventory(uint32_t hellos)
{
	for (;;) {
		pthread_mutex_lock(&fake.lock);
		uint32_t seen = fake.hellos, inventories = 0;
		for (int i = 0; i < FAKE_GUESTS; i++)
			inventories += fake.guest[i].inventories;
		pthread_mutex_unlock(&fake.lock);
		if (seen >= hellos && inventories > 0)
			return;
		sched_yield();
	}
}

static void survives(void)
{
	unsigned rounds = test_rounds(GUEST_TSAN ? 10 : 100);
	pthread_t thread[4];
	int before = 0;

	load();
	for (int i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, keeps_launching, NULL) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		/* Half of the time it dies with the gate closed. */
		if (i & 1)
			fake_close_gate(&fake, 0);
		fake_kill(&fake);
		fake_restart(&fake);
		wait_for_inventory(i + 2);
		fake_close_gate(&fake, 0);
		check(fake_wait_drained(&fake, 0, 240000));
		__atomic_store_n(&law->acknowledged, 1, __ATOMIC_SEQ_CST);
		check(__atomic_load_n(&law->outstanding, __ATOMIC_SEQ_CST) == 0);
		__atomic_store_n(&law->acknowledged, 0, __ATOMIC_SEQ_CST);
		fake_open_gate(&fake, 0);
		if (i == 2)
			before = open_descriptors();
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	check(law->violations == 0);
	check(rounds <= 3 || open_descriptors() == before);
}

TEST(a_guest_outlives_its_daemon)
{
	expect_eq(in_child(survives, NULL, 0), 0);
}

static void fails_without_daemon(void)
{
	load_with(FAKE_GOOD);
	fake.on_loss = WIRE_LOSS_FAIL;
	fake.page->on_daemon_loss = WIRE_LOSS_FAIL;
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	check(launch() == CUDA_SUCCESS);
	fake_kill(&fake);
	while (launch() == CUDA_SUCCESS)
		sched_yield();
	check(launch() == CUDA_ERROR_SYSTEM_NOT_READY);
	fake_restart(&fake);
	while (launch() != CUDA_SUCCESS)
		sched_yield();
}

TEST(a_share_may_fail_without_its_daemon)
{
	expect_eq(in_child(fails_without_daemon, NULL, 0), 0);
}

static atomic_ulong launched;

static void *counts_launches(void *argument)
{
	while (!stop) {
		check(launch() == CUDA_SUCCESS);
		atomic_fetch_add(&launched, 1);
	}
	return argument;
}

static void blocks_without_daemon(void)
{
	pthread_t thread;
	unsigned long before;

	load_with(FAKE_GOOD);
	fake.on_loss = WIRE_LOSS_BLOCK;
	fake.page->on_daemon_loss = WIRE_LOSS_BLOCK;
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	check(pthread_create(&thread, NULL, counts_launches, NULL) == 0);
	while (launched < 10)
		sched_yield();
	fake_kill(&fake);
	/* It stops within the time of one round; then nothing moves until the daemon is back. */
	do {
		before = launched;
		usleep(300000);
	} while (before != launched);
	fake_restart(&fake);
	while (launched < before + 10)
		sched_yield();
	stop = 1;
	pthread_join(thread, NULL);
}

TEST(a_share_may_block_without_its_daemon)
{
	expect_eq(in_child(blocks_without_daemon, NULL, 0), 0);
}

static void *launches_once(void *argument)
{
	check(launch() == CUDA_SUCCESS);
	return argument;
}

/* Else it would be taken for a program whose work does not end, where that work waits for this
 * thread. */
static void waits_across_a_restart(void)
{
	pthread_t thread;

	load_with(FAKE_GOOD);
	fake.on_loss = WIRE_LOSS_BLOCK;
	fake.page->on_daemon_loss = WIRE_LOSS_BLOCK;
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, 240000));
	check(pthread_create(&thread, NULL, launches_once, NULL) == 0);
	while (fake_waiting(&fake) != 1)
		sched_yield();
	fake.shut = 1;
	fake_kill(&fake);
	fake_restart(&fake);
	wait_for_inventory(2);
	check(fake_waiting(&fake) == 1);
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	check(fake_waiting(&fake) == 0);
}

TEST(a_daemon_that_comes_back_sees_the_threads_at_its_gates)
{
	expect_eq(in_child(waits_across_a_restart, NULL, 0), 0);
}

static CUcontext made;

static void *loads_code(void *argument)
{
	CUmodule module = NULL;

	check(guest_function(guest, cuCtxSetCurrent)(made) == CUDA_SUCCESS);
	check(guest_function(guest, cuModuleLoadData)(&module, "") == CUDA_SUCCESS);
	return argument;
}

static uint64_t checks(void)
{
	uint64_t heard;

	pthread_mutex_lock(&fake.lock);
	heard = fake.residual_checks;
	pthread_mutex_unlock(&fake.lock);
	return heard;
}

/* Before the load, what the context takes is to be learnt; after it, whether the code may stay. The
 * first is not worth waiting for the next daemon. */
static void loads_code_as_the_daemon_goes(void)
{
	pthread_t thread;

	load();
	check(guest_function(guest, cuCtxCreate_v2)(&made, 0, 0) == CUDA_SUCCESS);
	fake.ignores_checks = 1;
	check(pthread_create(&thread, NULL, loads_code, NULL) == 0);
	while (checks() != 1)
		sched_yield();
	fake_kill(&fake);
	fake.ignores_checks = 0;
	fake_restart(&fake);
	pthread_join(thread, NULL);
	check(checks() <= 2);
}

TEST(memory_of_a_context_is_not_asked_of_the_next_daemon)
{
	expect_eq(in_child(loads_code_as_the_daemon_goes, NULL, 0), 0);
}
