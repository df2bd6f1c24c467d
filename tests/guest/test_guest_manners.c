/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest where nobody expects it: before main, in a forked child, inside a call of its own, in a
 * process without standard descriptors; and what it leaves as it was.
 */
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

#include <sys/stat.h>

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
			/* LeakSanitizer stops all threads to search memory, and finds our agent
			 * ending. */
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
