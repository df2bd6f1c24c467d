/* SPDX-License-Identifier: Apache-2.0 */
/* Which process is on a GPU or a part of it; the test stands in for the driver. */
#include "mig/nvml_inside.h"

#include "tests/test.h"

enum { MOST = 2000 };

/* Processes 1 to `processes`, the last of which is on the part; `starting` more are there at each
 * further look. */
static struct {
	unsigned processes, starting;
	unsigned part;
	bool silent;
} driver;

static nvmlReturn_t handle(unsigned int index, nvmlDevice_t *ret)
{
	(void)index;
	*ret = NULL;
	return NVML_SUCCESS;
}

static nvmlReturn_t list(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *rows)
{
	unsigned room = *count, processes = driver.processes;

	(void)device;
	if (driver.silent)
		return NVML_ERROR_UNKNOWN;
	driver.processes += driver.starting;
	*count = processes;
	if (processes > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < processes; i++)
		rows[i] = (nvmlProcessInfo_t){
			.pid = i + 1,
			.gpuInstanceId = i + 1 == processes ? driver.part : driver.part + 1};
	return NVML_SUCCESS;
}

static unsigned user(const struct mig_part *part)
{
	static const struct mig_nvml nvml = {
		.count = 1,
		.nvmlDeviceGetHandleByIndex_v2 = handle,
		.nvmlDeviceGetComputeRunningProcesses_v3 = list,
	};
	static const struct mig_gpu gpu;
	unsigned pid = 4711;
	int r = mig_user(&nvml, &gpu, part, &pid);

	expect_eq(r, driver.silent ? -EIO : 0);
	return pid;
}

TEST(a_user_is_found_behind_any_number_of_other_processes)
{
	static const unsigned counts[] = {1, 255, 256, 257, 512, 513, MOST};
	const struct mig_part part = {.id = 5}, other = {.id = 7};

	driver.part = part.id;
	driver.starting = 0;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		driver.processes = counts[i];
		expect_eq(user(&part), counts[i]);
		expect_eq(user(NULL), 1);
		expect_eq(user(&other), 0);
	}
}

TEST(a_user_is_found_while_processes_start)
{
	driver.processes = 300;
	driver.starting = 10;
	expect_eq(user(NULL), 1);
}

TEST(a_gpu_without_processes_has_no_user)
{
	driver.processes = driver.starting = 0;
	expect_eq(user(NULL), 0);
}

/* A caller that destroys unused parts must not take a missing answer for a part without a user. */
TEST(a_missing_answer_of_the_driver_is_an_error_and_not_an_unused_part)
{
	driver.processes = 3;
	driver.silent = true;
	expect_eq(user(NULL), 0);
	driver.silent = false;
	expect_eq(user(NULL), 1);
}
