/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress where the address that the driver answers with says nothing: it is not exported,
 * it is of a version that we do not know, or it belongs to two functions. And what no header
 * declares.
 */
#include <sched.h>

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
	/* What is only passed on may be new. */
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

static void aliases(void)
{
	fake_start(&fake, 1, FAKE_GOOD);
	guest = guest_load("null");
	check(getenv("METE_TEST_ALIAS_DRIVER") != NULL);
	setenv("METE_DRIVER", getenv("METE_TEST_ALIAS_DRIVER"), 1);
	check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
	/* Nothing of it is used. */
	check(guest_function(guest, cuMemFree_v2)(1) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

TEST(two_functions_at_one_address_are_an_error_at_the_start)
{
	char said[4096];

	expect_eq(in_child(aliases, said, sizeof(said)), 0);
	expect(strstr(said, "the same address for cuMemAlloc_v2 and cuMemFree_v2") != NULL);
}

static const char *const names[] = {
#define CUDA_NAME(symbol) #symbol,
#include "cuda/names.def"
#undef CUDA_NAME
};

typedef long any_function(long, long, long, long, long, long, long, double);

static void passed_on(void)
{
	guest = guest_load("null");
	check(getenv("METE_TEST_NAMES_DRIVER") != NULL);
	setenv("METE_DRIVER", getenv("METE_TEST_NAMES_DRIVER"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		any_function *f = (any_function *)dlsym(guest, names[i]);

		check(f && f(1, 2, 3, 4, 5, 6, 7, 8) == (long)strlen(names[i]) + 1 + 36);
	}
}

TEST(what_no_header_declares_is_passed_on)
{
	expect_eq(in_child(passed_on, NULL, 0), 0);
}

static void not_there(void)
{
	guest = guest_load("null");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		CUresult (*f)(void) = (CUresult(*)(void))dlsym(guest, names[i]);

		check(f && f() == CUDA_ERROR_NOT_SUPPORTED);
	}
}

TEST(what_no_header_declares_may_be_missing)
{
	expect_eq(in_child(not_there, NULL, 0), 0);
}
