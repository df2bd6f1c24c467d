/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest where nobody expects it: before main, in a forked child, in a signal handler, inside a
 * call of its own, in a process without standard descriptors; and what it leaves as it was.
 */
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sys/stat.h>
#include <sys/time.h>

#include "tests/guest/guest_fixture.h"

/* The addresses of a function that the compiler does not merge into its caller. */
static const void *walked[64];
static int walked_count;

static void walk(void)
{
	walked_count = backtrace((void **)walked, ARRAY_SIZE(walked));
}

static bool walked_through(const char *name)
{
	Dl_info about;

	for (int i = 0; i < walked_count; i++)
		if (dladdr(walked[i], &about) && about.dli_sname &&
		    strcmp(about.dli_sname, name) == 0)
			return true;
	return false;
}

__attribute__((noinline, visibility("default"))) int guest_test_caller(void);
int guest_test_caller(void)
{
	int result = (int)launch();

	__asm__ volatile("" ::: "memory");
	return result + 1;
}

int main(int argc, char **argv);

static bool walked_to_main(void)
{
	for (int i = 0; i < walked_count; i++)
		if ((uintptr_t)walked[i] - (uintptr_t)main < 2048)
			return true;
	return false;
}

static void walks_back(void)
{
	load();
	law->probe = walk;
	/* The first call takes the slow path, the second one the fast path. */
	for (int i = 0; i < 2; i++) {
		walked_count = 0;
		check(guest_test_caller() == 1);
		check(walked_through("guest_test_caller"));
		check(walked_to_main());
	}
}

TEST(a_backtrace_from_inside_the_driver_reaches_main)
{
	expect_eq(in_child(walks_back, NULL, 0), 0);
}

static void *launch_thread(void *argument)
{
	(void)argument;
	check(guest_test_caller() == 1);
	return NULL;
}

static void walks_back_from_slow_path(void)
{
	pthread_t thread;

	load();
	check(launch() == CUDA_SUCCESS);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, 240000));
	law->probe = walk;
	check(pthread_create(&thread, NULL, launch_thread, NULL) == 0);
	while (fake_waiting(&fake) == 0)
		sched_yield();
	fake_open_gate(&fake, 0);
	pthread_join(thread, NULL);
	check(walked_through("guest_test_caller"));
}

TEST(a_backtrace_works_after_the_gate_was_closed)
{
	expect_eq(in_child(walks_back_from_slow_path, NULL, 0), 0);
}

static void launch_again(void)
{
	law->probe = NULL;
	check(launch() == CUDA_SUCCESS);
}

/* The driver calls an exported function of its own: that is ours. */
static void calls_itself(void)
{
	uint64_t before;

	load();
	check(launch() == CUDA_SUCCESS);
	before = law->submissions;
	law->probe = launch_again;
	check(launch() == CUDA_SUCCESS);
	check(law->submissions == before + 2);
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, 240000));
}

TEST(a_launch_from_inside_a_launch_goes_through)
{
	expect_eq(in_child(calls_itself, NULL, 0), 0);
}

static void forked(void (*before)(void))
{
	int status;
	pid_t child;

	load_with(FAKE_GOOD);
	if (before)
		before();
	child = fork();
	if (child == 0) {
		check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
		for (int i = 0; i < 10; i++)
			check(launch() == CUDA_SUCCESS);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0);
	if (before) {
		/* The parent's connection and pages are as they were. */
		fake_close_gate(&fake, 0);
		check(fake_wait_drained(&fake, 0, 240000));
		fake_open_gate(&fake, 0);
		check(launch() == CUDA_SUCCESS);
	}
	pthread_mutex_lock(&fake.lock);
	check(fake.hellos == (before ? 2 : 1));
	pthread_mutex_unlock(&fake.lock);
}

static void initialise(void)
{
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	check(launch() == CUDA_SUCCESS);
}

static void fork_after(void)
{
	forked(initialise);
}

static void fork_before(void)
{
	forked(NULL);
}

TEST(a_child_of_fork_joins_by_itself)
{
	expect_eq(in_child(fork_after, NULL, 0), 0);
	expect_eq(in_child(fork_before, NULL, 0), 0);
}

static void keeps_the_process(void)
{
	sigset_t before = {{0}}, after = {{0}};
	mode_t mask;
	char folder[512], folder_after[512];
	int fds[64], n = 0;

	load_with(FAKE_GOOD);
	mask = umask(027);
	sigprocmask(SIG_SETMASK, NULL, &before);
	check(getcwd(folder, sizeof(folder)) != NULL);
	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			fds[n++] = fd;
	errno = 77;
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	check(launch() == CUDA_SUCCESS);
	check(errno == 77);
	check(umask(mask) == 027);
	sigprocmask(SIG_SETMASK, NULL, &after);
	check(memcmp(&before, &after, sizeof(after)) == 0);
	check(getcwd(folder_after, sizeof(folder_after)) && strcmp(folder, folder_after) == 0);
	for (int i = 0; i < n; i++) {
		int flags = fcntl(fds[i], F_GETFD);

		check(flags < 0 || (flags & FD_CLOEXEC));
	}
}

TEST(the_process_is_left_as_it_was)
{
	expect_eq(in_child(keeps_the_process, NULL, 0), 0);
}

static void without_descriptors(void)
{
	int status;
	pid_t child;

	/* The daemon stays behind: it would take the free numbers itself. */
	load_with(FAKE_GOOD);
	child = fork();
	if (child == 0) {
		close(0);
		close(1);
		close(2);
		if (guest_function(guest, cuInit)(0) != CUDA_SUCCESS || launch() != CUDA_SUCCESS)
			_exit(1);
		for (int fd = 0; fd < 3; fd++)
			if (fcntl(fd, F_GETFD) >= 0)
				_exit(2 + fd);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0);
}

TEST(descriptors_0_to_2_are_left_free)
{
	expect_eq(in_child(without_descriptors, NULL, 0), 0);
}

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

static void early(void)
{
	char driver[512];
	int status;
	pid_t child;

	fake_start(&fake, 1, FAKE_GOOD);
	snprintf(driver, sizeof(driver), "%s/libdriver-law.so", getenv("METE_TEST_DRIVERS"));
	setenv("METE_DRIVER", driver, 1);
	setenv("LD_LIBRARY_PATH", getenv("METE_TEST_LINKS"), 1);
	for (int i = 0; i < 20; i++) {
		child = fork();
		if (child == 0) {
			/* LeakSanitizer stops all threads to look, and finds our agent ending. */
			setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
			execl(getenv("METE_TEST_EARLY"), "guest_early", NULL);
			_exit(9);
		}
		check(waitpid(child, &status, 0) == child && status == 0);
	}
	pthread_mutex_lock(&fake.lock);
	check(fake.hellos == 20);
	pthread_mutex_unlock(&fake.lock);
}

TEST(a_program_may_launch_before_main_and_while_it_ends)
{
	expect_eq(in_child(early, NULL, 0), 0);
}

static void preloaded(void)
{
	int status;
	pid_t child;

	load_with(FAKE_GOOD);
	/* The soname makes any later dlopen() of the driver's name find the library that
	 * is there. */
	check(dlopen("libcuda.so.1", RTLD_NOW) == guest);
	child = fork();
	if (child == 0)
		_exit(dlclose(guest) == 0 && guest_test_caller() == 1 ? 0 : 1);
	check(waitpid(child, &status, 0) == child && status == 0);
}

TEST(a_library_that_was_closed_still_works)
{
	expect_eq(in_child(preloaded, NULL, 0), 0);
}

static uint64_t page(const uint64_t *field)
{
	return __atomic_load_n(field, __ATOMIC_SEQ_CST);
}

static bool nothing_moves(void)
{
	const struct wire_own_page *own = fake.guest[0].own;

	return page(&own->moves_begun) == page(&own->moves_ended);
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

TEST(who_jumps_out_of_a_contexts_making_asks_for_the_next_one)
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

TEST(who_jumps_out_of_a_launch_waits_at_the_gate_again_and_holds_up_no_close)
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
