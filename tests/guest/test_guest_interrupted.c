/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are interrupted: by a signal handler that makes calls itself, by a jump out of them,
 * or by a call of the driver's own.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sys/time.h>

#include "tests/guest/guest_fixture.h"

static atomic_int signals;

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
	if (guest && launch() != CUDA_SUCCESS)
		_exit(3);
}

/* A handler that launches, at whatever instruction of a launch it comes. */
static void interrupted(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}};
	register uint64_t marker __asm__("r12") = 0x1234567890abcdef;

	/* The law driver takes locks, which a handler must not. */
	load_on("null", FAKE_GOOD);
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	check(launch() == CUDA_SUCCESS);
	check(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
	while (signals < 1000) {
		check(launch() == CUDA_SUCCESS);
		__asm__ volatile("" : "+r"(marker));
		check(marker == 0x1234567890abcdef);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, 240000));
}

TEST(a_signal_handler_may_launch)
{
	expect_eq(in_child(interrupted, NULL, 0), 0);
}

static uint64_t page(const uint64_t *field)
{
	return __atomic_load_n(field, __ATOMIC_SEQ_CST);
}

static bool nothing_moves(void)
{
	const struct wire_own_page *own = fake.guest[0].own;

	return page(&own->changes_begun) == page(&own->changes_ended);
}

static void create_again(void)
{
	CUcontext context = NULL;

	law->probe = NULL;
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
}

/* As a signal handler does: nobody called it from inside the driver. */
static void interrupted_context(void)
{
	CUcontext context = NULL;

	load();
	law->probe = create_again;
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
	pthread_mutex_lock(&fake.lock);
	check(fake.residual_asks == 2);
	check(__atomic_load_n(&fake.guest[0].own->device[0].contexts, __ATOMIC_SEQ_CST) == 2);
	check(nothing_moves());
	pthread_mutex_unlock(&fake.lock);
}

TEST(a_context_that_a_handler_makes_while_another_is_made_is_counted)
{
	expect_eq(in_child(interrupted_context, NULL, 0), 0);
}

static jmp_buf left_at;

static void jump_out(void)
{
	law->probe = NULL;
	longjmp(left_at, 1);
}

static void left_context(void)
{
	CUcontext context = NULL;

	load();
	law->probe = jump_out;
	if (setjmp(left_at) == 0)
		(void)!guest_function(guest, cuCtxCreate_v2)(&context, 0, 0);
	check(!law->probe);
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
	pthread_mutex_lock(&fake.lock);
	check(fake.residual_asks == 2);
	check(__atomic_load_n(&fake.guest[0].own->device[0].contexts, __ATOMIC_SEQ_CST) == 1);
	check(nothing_moves());
	pthread_mutex_unlock(&fake.lock);
}

TEST(a_thread_that_jumps_out_of_a_contexts_making_asks_for_the_next_one)
{
	expect_eq(in_child(left_context, NULL, 0), 0);
}

static void *leave_and_launch(void *argument)
{
	(void)argument;
	law->probe = jump_out;
	if (setjmp(left_at) == 0)
		(void)!launch();
	check(!law->probe);
	atomic_store(&signals, 1);
	while (atomic_load(&signals) == 1)
		sched_yield();
	check(launch() == CUDA_SUCCESS);
	return NULL;
}

/* The gate holds the thread; and what it left holds up nobody once it has launched again. */
static void left_launch(void)
{
	pthread_t thread;
	uint64_t before;

	load();
	check(launch() == CUDA_SUCCESS);
	check(pthread_create(&thread, NULL, leave_and_launch, NULL) == 0);
	while (atomic_load(&signals) == 0)
		sched_yield();
	before = __atomic_load_n(&law->submissions, __ATOMIC_SEQ_CST);
	fake_close_gate(&fake, 0);
	atomic_store(&signals, 2);
	while (fake_waiting(&fake) == 0)
		sched_yield();
	check(__atomic_load_n(&law->submissions, __ATOMIC_SEQ_CST) == before);
	check(fake_wait_drained(&fake, 0, 240000));
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, 240000));
}

TEST(a_thread_that_jumps_out_of_a_launch_waits_at_the_gate_again_and_holds_up_no_close)
{
	expect_eq(in_child(left_launch, NULL, 0), 0);
}

/* In the middle of a launch: that one is still under way when this one is over. */
static void on_signal_inside(int number)
{
	(void)number;
	check(launch() == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(!fake_wait_drained(&fake, 0, 20));
	fake_open_gate(&fake, 0);
}

static void raise_inside(void)
{
	law->probe = NULL;
	check(raise(SIGUSR1) == 0);
}

static void handler_launches(bool own_stack)
{
	static char memory[256 << 10];
	stack_t other = {.ss_sp = memory, .ss_size = sizeof(memory)};
	struct sigaction action = {.sa_handler = on_signal_inside,
				   .sa_flags = own_stack ? SA_ONSTACK : 0};

	load();
	check(launch() == CUDA_SUCCESS);
	check(!own_stack || sigaltstack(&other, NULL) == 0);
	check(sigaction(SIGUSR1, &action, NULL) == 0);
	law->probe = raise_inside;
	check(launch() == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, 240000));
}

static void handler_on_same_stack(void)
{
	handler_launches(false);
}

static void handler_on_own_stack(void)
{
	handler_launches(true);
}

TEST(a_launch_that_a_handler_interrupts_holds_up_a_close_though_the_handler_launches)
{
	expect_eq(in_child(handler_on_same_stack, NULL, 0), 0);
	expect_eq(in_child(handler_on_own_stack, NULL, 0), 0);
}

static void nested_context(void)
{
	CUcontext context = NULL;

	load();
	law->nested = (int (*)(void **, unsigned, int))guest_function(guest, cuCtxCreate_v2);
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
	check(!law->nested);
	pthread_mutex_lock(&fake.lock);
	check(fake.residual_asks == 1);
	check(__atomic_load_n(&fake.guest[0].own->device[0].contexts, __ATOMIC_SEQ_CST) == 1);
	pthread_mutex_unlock(&fake.lock);
	check(guest_function(guest, cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
	pthread_mutex_lock(&fake.lock);
	check(__atomic_load_n(&fake.guest[0].own->device[0].contexts, __ATOMIC_SEQ_CST) == 0);
	pthread_mutex_unlock(&fake.lock);
}

TEST(a_context_made_inside_another_call_is_counted_once)
{
	expect_eq(in_child(nested_context, NULL, 0), 0);
}
