/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manners: the guest where nobody expects it (before main, in a forked child, inside a call of its
 * own, in a process without standard descriptors), on daemons that misbehave, die and come back.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sys/stat.h>
#include <sys/time.h>

#include "tests/drivers/law.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

static struct fake fake;
static void *guest;
static struct law *law;

static api_fn_cuLaunchKernel *launch_kernel;

static CUresult launch(void)
{
	return launch_kernel((CUfunction)1, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL);
}

static void load_on(const char *driver, enum fake_fault fault)
{
	fake_start(&fake, 1, fault);
	guest = guest_load(driver);
	launch_kernel = guest_function(guest, cuLaunchKernel);
}

static void load_with(enum fake_fault fault)
{
	load_on("law", fault);
}

static void find_law(void)
{
	void *driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);

	check(driver != NULL);
	check(dlsym(driver, "law_state") != NULL);
	law = *(struct law **)dlsym(driver, "law_state");
}

static void load(void)
{
	load_with(FAKE_GOOD);
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	find_law();
}

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
	check(fake_wait_drained(&fake, 0, 60000));
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
	check(fake_wait_drained(&fake, 0, 60000));
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
		check(fake_wait_drained(&fake, 0, 60000));
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

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
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
	check(fake_wait_drained(&fake, 0, 60000));
}

TEST(a_signal_handler_may_launch)
{
	expect_eq(in_child(interrupted, NULL, 0), 0);
}

static enum fake_fault fault_now;
static CUresult wanted_now;

static void joins_badly(void)
{
	load_with(fault_now);
	check(guest_function(guest, cuInit)(0) == wanted_now);
	if (wanted_now == CUDA_SUCCESS)
		check(launch() == CUDA_SUCCESS);
	else
		check(launch() == wanted_now);
	check(open_descriptors() < 100);
}

static void expect_join(enum fake_fault fault, CUresult wanted, const char *sentence)
{
	char said[4096];

	fault_now = fault;
	wanted_now = wanted;
	expect_eq(in_child(joins_badly, said, sizeof(said)), 0);
	if (!strstr(said, sentence))
		test_fail(__FILE__, __LINE__, "said: '%s', wanted: '%s'", said, sentence);
}

TEST(a_daemon_that_misbehaves_is_refused_in_a_sentence)
{
	expect_join(FAKE_UNSEALED, CUDA_ERROR_SYSTEM_NOT_READY, "is not sealed");
	expect_join(FAKE_SHORT_PAGE, CUDA_ERROR_SYSTEM_NOT_READY, "or not of 4096 bytes");
	expect_join(FAKE_OTHER_MAJOR, CUDA_ERROR_SYSTEM_NOT_READY, "speaks another version");
	expect_join(FAKE_OTHER_PAGE, CUDA_ERROR_SYSTEM_NOT_READY, "of another version");
	expect_join(FAKE_MANY_DEVICES, CUDA_ERROR_SYSTEM_NOT_READY, "of another version");
	expect_join(FAKE_REFUSES, CUDA_ERROR_SYSTEM_NOT_READY, "refuses this program: not you");
	expect_join(FAKE_NO_DESCRIPTORS, CUDA_ERROR_SYSTEM_NOT_READY, "speaks another version");
	expect_join(FAKE_HANGS_UP, CUDA_ERROR_SYSTEM_NOT_READY, "does not answer");
}

TEST(noise_from_the_daemon_is_ignored)
{
	expect_join(FAKE_GARBAGE, CUDA_SUCCESS, "");
}

static const char *environment_name, *environment_value;

static void joins_elsewhere(void)
{
	const char *text;

	load_with(FAKE_GOOD);
	if (environment_value)
		setenv(environment_name, environment_value, 1);
	else
		unsetenv(environment_name);
	check(guest_function(guest, cuInit)(0) == wanted_now);
	check(guest_function(guest, cuGetErrorString)(CUDA_ERROR_UNKNOWN, &text) != 12345);
}

static void expect_environment(const char *name, const char *value, CUresult wanted,
			       const char *sentence)
{
	char said[4096];

	environment_name = name;
	environment_value = value;
	wanted_now = wanted;
	expect_eq(in_child(joins_elsewhere, said, sizeof(said)), 0);
	if (!strstr(said, sentence))
		test_fail(__FILE__, __LINE__, "said: '%s', wanted: '%s'", said, sentence);
}

TEST(what_cannot_be_found_is_named)
{
	expect_environment("METE_SOCKET", NULL, CUDA_ERROR_SYSTEM_NOT_READY,
			   "METE_SOCKET is not set");
	expect_environment("METE_SOCKET", "here", CUDA_ERROR_SYSTEM_NOT_READY, "absolute");
	expect_environment("METE_SOCKET", "/nonexistent/x.sock", CUDA_ERROR_SYSTEM_NOT_READY,
			   "no daemon at /nonexistent/x.sock: no such socket");
	expect_environment("METE_DRIVER", NULL, CUDA_ERROR_NO_DEVICE, "METE_DRIVER is not set");
	expect_environment("METE_DRIVER", "lib", CUDA_ERROR_NO_DEVICE, "absolute");
	expect_environment("METE_DRIVER", "/nonexistent/libcuda.so.1", CUDA_ERROR_NO_DEVICE,
			   "cannot be loaded");
	expect_environment("METE_DRIVER", getenv("METE_TEST_GUEST"),
			   CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "mete's own library");
	expect_environment("METE_DRIVER", getenv("METE_TEST_NO_DRIVER"),
			   CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "is not a CUDA driver");
}

static void another_copy(void)
{
	char path[] = "/tmp/mete-copy-XXXXXX", command[1200];
	int fd = mkstemp(path);

	check(fd >= 0);
	snprintf(command, sizeof(command), "cp %s %s", getenv("METE_TEST_GUEST"), path);
	check(system(command) == 0);
	load_with(FAKE_GOOD);
	setenv("METE_DRIVER", path, 1);
	check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
	unlink(path);
}

TEST(a_copy_of_the_guest_is_no_driver)
{
	expect_eq(in_child(another_copy, NULL, 0), 0);
}

static void too_old(void)
{
	load_on("null", FAKE_GOOD);
	setenv("METE_TEST_DRIVER_VERSION", "10020", 1);
	check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

TEST(a_driver_that_is_too_old_is_refused)
{
	char said[4096];

	expect_eq(in_child(too_old, said, sizeof(said)), 0);
	expect(strstr(said, "a driver of CUDA 10.2; 11.0 is the oldest") != NULL);
}

static void talks_much(void)
{
	load_with(FAKE_REFUSES);
	for (int i = 0; i < 100; i++)
		check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_NOT_READY);
}

TEST(the_guest_says_at_most_sixteen_lines)
{
	char said[16384];
	int lines = 0;

	expect_eq(in_child(talks_much, said, sizeof(said)), 0);
	for (const char *c = said; *c; c++)
		lines += *c == '\n';
	expect_eq(lines, 16);
}

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
		check(fake_wait_drained(&fake, 0, 60000));
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
	/* It stops within the time of one look-around; then nothing moves until the daemon is back.
	 */
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
	/* The soname makes any later dlopen() of the driver's name find the library that is there.
	 */
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

static void create_again(void)
{
	CUcontext context = NULL;

	law->probe = NULL;
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
}

static void nested_context(void)
{
	CUcontext context = NULL;

	load();
	law->probe = create_again;
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
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

static void foreign_device(void)
{
	CUcontext context = NULL;

	/* The driver has two devices, the tenant one. */
	load();
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 1) == CUDA_ERROR_INVALID_DEVICE);
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
}

TEST(a_device_of_others_cannot_be_used)
{
	char said[4096];

	expect_eq(in_child(foreign_device, said, sizeof(said)), 0);
	expect(strstr(said, "device 1 is not the tenant's") != NULL);
}
