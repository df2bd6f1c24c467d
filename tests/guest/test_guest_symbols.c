/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's own search in a driver answers as dlsym() does, in both directions, for every driver
 * that we have. Its answer for a function does not depend on whether that has been called.
 */
#include <glob.h>
#include <pthread.h>

#include "cuda/api.h"
#include "guest/driver/addresses.h"
#include "guest/driver/real.h"
#include "tests/guest/guest_test.h"

#define TABLE_HASHES
#define TABLE_KINDS
#include "guest/tables.h"

enum { THREADS = 8 };

static const char *path;
static void *handle;
static struct symbols symbols;

static void open_driver(void)
{
	void *init;

	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	check(handle != NULL);
	init = dlsym(handle, "cuInit");
	check(init && symbols_open(&symbols, init) == 0);
	check(symbols.last - symbols.first <= ADDRESSES_MAX);
}

static void *find(unsigned row)
{
	return symbols_find(&symbols, api_symbol(&api_rows[row]), table_hash[row]);
}

static void each_row(void)
{
	unsigned found = 0;

	open_driver();
	addresses_clear();
	check(addresses_take(&symbols) == 0);
	for (unsigned row = 0; row < API_ROWS; row++) {
		void *there = dlsym(handle, api_symbol(&api_rows[row]));

		check(find(row) == there);
		if (!there)
			continue;
		found++;
		/* Asked for the first time, and again. */
		check(addresses_row(there) == (int)row);
		check(addresses_row(there) == (int)row);
		check(addresses_row((const char *)there + 1) == -1);
	}
	check(found > 400);
}

static void expect_each_row(const char *driver)
{
	char said[4096];

	path = driver;
	if (in_child(each_row, said, sizeof(said)) != 0)
		fail_msg("%s: %s", path, said);
}

/* And in one that is not in the tree, by hand: METE_TEST_REAL_DRIVER=/path/libcuda.so.1. */
TEST(every_row_is_found_in_every_simulated_driver)
{
	char pattern[512];
	glob_t list;

	snprintf(pattern, sizeof(pattern), "%s/1*.*/libcuda.so.1", getenv("METE_TEST_SIMS"));
	expect_eq(glob(pattern, 0, NULL, &list), 0);
	expect(list.gl_pathc >= strtoul(getenv("METE_TEST_SETS"), NULL, 10));
	for (size_t i = 0; i < list.gl_pathc; i++)
		expect_each_row(list.gl_pathv[i]);
	globfree(&list);
	if (getenv("METE_TEST_REAL_DRIVER"))
		expect_each_row(getenv("METE_TEST_REAL_DRIVER"));
}

static void odd_names(void)
{
	void *there;

	open_driver();
	addresses_clear();
	check(addresses_take(&symbols) == 0);
	for (unsigned row = 0; row < API_ROWS; row++) {
		there = dlsym(handle, api_symbol(&api_rows[row]));
		/* dlsym() goes on in what the object needs: none of these has such names. */
		check(find(row) == there);
	}
	check(!find(API_cuCtxGetDevice) && !find(API_cuEventQuery) && find(API_cuStreamQuery));
	check(addresses_row(find(API_cuMemAlloc_v2)) == API_cuMemAlloc_v2);
	check(addresses_row(dlsym(handle, "cuMemAlloc_v3")) == -1);
	check(addresses_row(dlsym(handle, "cuMemAlloc_v3")) == -1);
	check(addresses_row(dlsym(handle, "cuMemFree_v3")) == -1);
	check(addresses_row(find(API_cuCtxPushCurrent_v2)) == API_cuCtxPushCurrent);
	check(addresses_row(find(API_cuLaunchKernel)) == API_cuLaunchKernel);
	check(addresses_row(find(API_cuStreamQuery)) == API_cuStreamQuery);
}

TEST(names_like_those_of_rows_and_shared_addresses_are_told_apart)
{
	char said[4096];

	path = getenv("METE_TEST_ODD_DRIVER");
	if (in_child(odd_names, said, sizeof(said)) != 0)
		fail_msg("%s", said);
}

static pthread_barrier_t together;

static void *ask_all(void *argument)
{
	unsigned start = *(const unsigned *)argument * (API_ROWS / THREADS / 4);

	pthread_barrier_wait(&together);
	for (unsigned i = 0; i < API_ROWS; i++) {
		unsigned row = (start + i) % API_ROWS;
		void *there = find(row);

		check(there && addresses_row(there) == (int)row);
	}
	return NULL;
}

static void all_at_once(void)
{
	unsigned number[THREADS];
	pthread_t thread[THREADS];

	open_driver();
	addresses_clear();
	check(addresses_take(&symbols) == 0);
	check(pthread_barrier_init(&together, NULL, THREADS) == 0);
	for (unsigned i = 0; i < THREADS; i++) {
		number[i] = i;
		check(pthread_create(&thread[i], NULL, ask_all, &number[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		check(pthread_join(thread[i], NULL) == 0);
}

TEST(threads_that_ask_at_once_find_the_same)
{
	char driver[512];

	snprintf(driver, sizeof(driver), "%s/libdriver-null.so", getenv("METE_TEST_DRIVERS"));
	path = driver;
	expect_eq(in_child(all_at_once, NULL, 0), 0);
}

static void two_drivers(void)
{
	void *first;

	open_driver();
	addresses_clear();
	check(addresses_take(&symbols) == 0);
	first = find(API_cuInit);
	check(addresses_row(first) == API_cuInit);
	path = getenv("METE_TEST_ODD_DRIVER");
	open_driver();
	addresses_clear();
	check(addresses_take(&symbols) == 0);
	check(addresses_row(first) == -1 && addresses_row(find(API_cuInit)) == API_cuInit);
}

TEST(a_library_that_is_opened_again_replaces_its_note)
{
	char driver[512];

	snprintf(driver, sizeof(driver), "%s/libdriver-null.so", getenv("METE_TEST_DRIVERS"));
	path = driver;
	expect_eq(in_child(two_drivers, NULL, 0), 0);
}

/* ---- functions that were not called yet ------------------------------------------------------ */

static CUresult inner(void)
{
	return (CUresult)4242;
}

/* The driver has cuInit and cuDriverGetVersion. */
static void not_called_yet(void)
{
	api_fn_cuDriverGetVersion *version;
	int number = 0;

	check(path && setenv("METE_DRIVER", path, 1) == 0);
	check(real_open() == CUDA_SUCCESS);
	check(real_has(cuInit) && !real_has(cuDeviceGetUuid_v2));
	/* Functions that it hands out and does not export: one that was called, and one that was
	 * not. */
	check(real(cuCtxSynchronize)() == CUDA_ERROR_NOT_SUPPORTED);
	real_adopt(API_cuCtxSynchronize, (void *)inner);
	check(real(cuCtxSynchronize)() == (CUresult)4242);
	check(!real_has(cuProfilerStart));
	real_adopt(API_cuProfilerStart, (void *)inner);
	check(real(cuProfilerStart)() == (CUresult)4242);
	real_adopt(API_cuProfilerStop, (void *)inner);
	check(real(cuProfilerStop)() == (CUresult)4242);
	real_adopt(API_cuInit, (void *)inner);
	check(real(cuInit)(0) == CUDA_SUCCESS);
	/* Functions that are put between. */
	real_between(API_cuStreamQuery, (void *)inner);
	check(!real_has(cuStreamQuery) && real(cuStreamQuery)(NULL) == CUDA_ERROR_NOT_SUPPORTED);
	version = real_function(cuDriverGetVersion);
	real_between(API_cuDriverGetVersion, (void *)inner);
	check(real(cuDriverGetVersion)(&number) == (CUresult)4242 && number == 0);
	check(version(&number) == CUDA_SUCCESS && number == 12090);
}

TEST(a_drivers_functions_are_known_before_it_is_called)
{
	static const char *const drivers[] = {"METE_TEST_ALONE_DRIVER",
					      "METE_TEST_ALONE_DRIVER_SYSV"};

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		path = getenv(drivers[i]);
		expect_eq(in_child(not_called_yet, NULL, 0), 0);
	}
}
