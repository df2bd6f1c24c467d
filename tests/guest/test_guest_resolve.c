/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress where the driver's address alone is not enough: it is not exported, it is of a
 * version that we do not know, or it belongs to two functions. And functions that no header
 * declares. Each function is looked up in the driver when it is called for the first time: by any
 * thread, at any time.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

static struct fake fake;
static void *guest;

static void load(int version, int strict)
{
	char text[16];

	fake_start(&fake, 1, FAKE_GOOD);
	fake.page->strict = (uint32_t)strict;
	snprintf(text, sizeof(text), "%d", version);
	setenv("METE_TEST_DRIVER_VERSION", text, 1);
	setenv("METE_TEST_INNER", "1", 1);
	guest = guest_load("null");
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
}

static CUresult look_up(const char *name, int version, void **address)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult r;

	*address = NULL;
	r = guest_function(guest, cuGetProcAddress_v2)(name, address, version, 0, &status);
	check((*address == NULL) == (status != CU_GET_PROC_ADDRESS_SUCCESS));
	return r;
}

static uint64_t unknown(void)
{
	uint64_t count;

	pthread_mutex_lock(&fake.lock);
	count = __atomic_load_n(&fake.guest[0].own->unknown_functions, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&fake.lock);
	return count;
}

static void inner_functions(void)
{
	void *address;

	load(12090, 0);
	check(look_up("cuLaunchKernel", 4000, &address) == CUDA_SUCCESS);
	check(address == dlsym(guest, "cuLaunchKernel"));
	/* By the table's rule: the newest that is not above what was asked for. */
	check(look_up("cuMemAlloc", 12090, &address) == CUDA_SUCCESS);
	check(address == dlsym(guest, "cuMemAlloc_v2"));
	check(look_up("cuMemAlloc", 2000, &address) == CUDA_SUCCESS);
	check(address == dlsym(guest, "cuMemAlloc"));
	check(look_up("cuGetProcAddress", 12000, &address) == CUDA_SUCCESS);
	check(address == dlsym(guest, "cuGetProcAddress_v2"));
	check(unknown() == 0);
}

TEST(a_function_that_is_not_exported_is_known_by_name_and_version)
{
	expect_eq(in_child(inner_functions, NULL, 0), 0);
}

static void newer_functions(void)
{
	void *address;

	load(14000, 0);
	check(look_up("cuLaunchKernel", 14000, &address) == CUDA_SUCCESS);
	check(((CUresult(*)(void))address)() == (CUresult)4242);
	check(unknown() == 1);
	/* A function that is only passed on may be new. */
	check(look_up("cuCtxGetCurrent", 14000, &address) == CUDA_SUCCESS);
	check(unknown() == 1);
	/* A newer driver is asked for what we know. */
	check(look_up("cuLaunchKernel", 12090, &address) == CUDA_SUCCESS);
	check(address == dlsym(guest, "cuLaunchKernel"));
}

TEST(a_newer_version_is_passed_on_and_counted)
{
	expect_eq(in_child(newer_functions, NULL, 0), 0);
}

static void strict_share(void)
{
	void *address;

	load(14000, 1);
	/* As a driver does that lacks it. */
	check(look_up("cuLaunchKernel", 14000, &address) == CUDA_SUCCESS && !address);
	check(guest_function(guest, cuGetProcAddress)("cuLaunchKernel", &address, 14000, 0) ==
	      CUDA_ERROR_NOT_FOUND);
	check(look_up("cuLaunchKernel", 12090, &address) == CUDA_SUCCESS);
	check(look_up("cuCtxGetCurrent", 14000, &address) == CUDA_SUCCESS);
}

TEST(a_strict_share_refuses_a_newer_version)
{
	char said[4096];

	expect_eq(in_child(strict_share, said, sizeof(said)), 0);
	expect(strstr(said, "cuLaunchKernel of CUDA 14.0 is not known to mete") != NULL);
}

static const char *other_driver;

static void load_other(void)
{
	const char *path = getenv(other_driver);

	guest = guest_load("null");
	check(path && setenv("METE_DRIVER", path, 1) == 0);
}

static void aliases(void)
{
	fake_start(&fake, 1, FAKE_GOOD);
	load_other();
	check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
	/* Nothing of it is used. */
	check(guest_function(guest, cuMemFree_v2)(1) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

TEST(two_functions_at_one_address_are_an_error_at_the_start)
{
	static const char *const drivers[] = {"METE_TEST_ALIAS_DRIVER",
					      "METE_TEST_ALIAS_DRIVER_SYSV"};
	char said[4096];

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		other_driver = drivers[i];
		expect_eq(in_child(aliases, said, sizeof(said)), 0);
		expect(strstr(said, "the same address for cuMemAlloc_v2 and cuMemFree_v2") != NULL);
	}
}

static const char *const names[] = {
#define CUDA_NAME(symbol) #symbol,
#include "cuda/names.def"
#undef CUDA_NAME
};

typedef long any_function(long, long, long, long, long, long, long, double);

static bool answers(size_t i)
{
	any_function *f = (any_function *)dlsym(guest, names[i]);

	return f && f(1, 2, 3, 4, 5, 6, 7, 8) == (long)strlen(names[i]) + 1 + 36;
}

static void passed_on(void)
{
	load_other();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check(answers(i) && answers(i));
}

TEST(functions_that_no_header_declares_are_passed_on)
{
	other_driver = "METE_TEST_NAMES_DRIVER";
	expect_eq(in_child(passed_on, NULL, 0), 0);
}

/* Without DT_GNU_HASH it is dlsym() that finds them. */
TEST(a_driver_with_another_hash_table_is_searched_by_the_loader)
{
	other_driver = "METE_TEST_NAMES_DRIVER_SYSV";
	expect_eq(in_child(passed_on, NULL, 0), 0);
}

static void not_there(void)
{
	load_other();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		CUresult (*f)(void) = (CUresult(*)(void))dlsym(guest, names[i]);

		check(f && f() == CUDA_ERROR_NOT_SUPPORTED);
		check(f() == CUDA_ERROR_NOT_SUPPORTED);
	}
}

TEST(functions_that_no_header_declares_may_be_missing)
{
	static const char *const drivers[] = {"METE_TEST_ALONE_DRIVER",
					      "METE_TEST_ALONE_DRIVER_SYSV"};

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		other_driver = drivers[i];
		expect_eq(in_child(not_there, NULL, 0), 0);
	}
}

/* ---- the first call -------------------------------------------------------------------------- */

enum { THREADS = 8 };

static pthread_barrier_t together;

static void *call_all(void *argument)
{
	size_t start = *(const size_t *)argument;

	pthread_barrier_wait(&together);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check(answers((start + i / 2) % ARRAY_SIZE(names)));
	return NULL;
}

/* The first of them opens the driver. */
static void first_calls_at_once(void)
{
	pthread_t thread[THREADS];
	size_t start[THREADS];

	load_other();
	check(pthread_barrier_init(&together, NULL, THREADS) == 0);
	for (size_t i = 0; i < THREADS; i++) {
		start[i] = i;
		check(pthread_create(&thread[i], NULL, call_all, &start[i]) == 0);
	}
	for (size_t i = 0; i < THREADS; i++)
		check(pthread_join(thread[i], NULL) == 0);
}

TEST(threads_may_call_for_the_first_time_at_once)
{
	other_driver = "METE_TEST_NAMES_DRIVER";
	for (int i = 0; i < 20; i++)
		expect_eq(in_child(first_calls_at_once, NULL, 0), 0);
}

static void *load_slowly(void *argument)
{
	(void)argument;
	check(dlopen(getenv("METE_TEST_SLOW_LIBRARY"), RTLD_NOW) != NULL);
	return NULL;
}

static any_function *function[ARRAY_SIZE(names)];

static bool found_answers(size_t i)
{
	return function[i](1, 2, 3, 4, 5, 6, 7, 8) == (long)strlen(names[i]) + 1 + 36;
}

static volatile sig_atomic_t answered;

static void on_signal(int number)
{
	(void)number;
	answered = found_answers(3);
}

/* Another thread holds the loader's lock meanwhile, in a child of fork() for ever. */
static void first_calls_beside_the_loader(void)
{
	int tells[2], hears[2], status;
	pthread_t thread;
	char fds[32], byte = 0;
	pid_t child;

	load_other();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check((function[i] = (any_function *)dlsym(guest, names[i])) != NULL);
	check(found_answers(0));
	check(pipe(tells) == 0 && pipe(hears) == 0);
	snprintf(fds, sizeof(fds), "%d %d", tells[1], hears[0]);
	setenv("METE_TEST_SLOW", fds, 1);
	check(signal(SIGUSR1, on_signal) != SIG_ERR);
	check(pthread_create(&thread, NULL, load_slowly, NULL) == 0);
	check(read(tells[0], &byte, 1) == 1);
	check(found_answers(1));
	child = fork();
	check(child >= 0);
	if (child == 0)
		_exit(found_answers(2) ? 0 : 1);
	check(waitpid(child, &status, 0) == child && status == 0);
	check(raise(SIGUSR1) == 0 && answered);
	check(write(hears[1], &byte, 1) == 1);
	check(pthread_join(thread, NULL) == 0);
}

/* Where dlsym() has to find a function, it has done so before. */
TEST(a_first_call_needs_no_lock_of_the_loader)
{
	static const char *const drivers[] = {"METE_TEST_NAMES_DRIVER",
					      "METE_TEST_NAMES_DRIVER_SYSV"};

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		other_driver = drivers[i];
		expect_eq(in_child(first_calls_beside_the_loader, NULL, 0), 0);
	}
}
