/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of one guest on one driver and a fake daemon: in a child of their own, they begin with
 * a load function.
 */
#pragma once

#include <fcntl.h>

#include "tests/drivers/law.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

static struct fake fake;
static void *guest;
static struct law *law;
static api_fn_cuLaunchKernel *launch_kernel;

static inline CUresult launch(void)
{
	return launch_kernel((CUfunction)1, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL);
}

static inline void load_on(const char *driver, enum fake_fault fault)
{
	fake_start(&fake, 1, fault);
	guest = guest_load(driver);
	launch_kernel = guest_function(guest, cuLaunchKernel);
}

static inline void load_with(enum fake_fault fault)
{
	load_on("law", fault);
}

static inline void find_law(void)
{
	void *driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);

	check(driver != NULL);
	check(dlsym(driver, "law_state") != NULL);
	law = *(struct law **)dlsym(driver, "law_state");
}

static inline void load(void)
{
	load_with(FAKE_GOOD);
	check(guest_function(guest, cuInit)(0) == CUDA_SUCCESS);
	find_law();
}

static inline int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}
