/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests/unit/test_ptx_harness.h: kernels run on the machine's driver in the interpreter's
 * place, over the same memory. What a test computes is then a GPU's, and is compared with the same
 * reference. A device that is older than the texts' target cannot answer: exit status 77.
 */
#pragma once

#include <unistd.h>

#include "cuda/prototypes.h"

static struct {
	CUcontext context;
	CUdeviceptr data; /* what HARNESS_DATA stands for */
	CUmodule module;
	const char *text;
} on_driver;

#define on_driver_must(call)                                                                       \
	do {                                                                                       \
		CUresult got_ = (call);                                                            \
		if (got_ != CUDA_SUCCESS)                                                          \
			test_fail(__FILE__, __LINE__, "%s is %d, of\n%s", #call, (int)got_,        \
				  on_driver.text);                                                 \
	} while (0)

static void on_driver_begin(void)
{
	int major;

	on_driver_must(cuInit(0));
	on_driver_must(
		cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	if (major * 10 < HARNESS_CAPABILITY) {
		printf("a device of capability %d.0 or more\n", HARNESS_CAPABILITY / 10);
		_exit(77);
	}
	on_driver_must(cuCtxCreate_v2(&on_driver.context, 0, 0));
	on_driver_must(cuMemAlloc_v2(&on_driver.data, HARNESS_BYTES));
}

static void on_driver_load(const char *text)
{
	if (!on_driver.context)
		on_driver_begin();
	if (on_driver.module)
		on_driver_must(cuModuleUnload(on_driver.module));
	on_driver.text = text;
	on_driver_must(cuModuleLoadData(&on_driver.module, text));
}

/* The module's own variables are the driver's; what tests look at begins at HARNESS_DATA. */
static void on_driver_run(const char *name, uint32_t blocks, uint32_t threads)
{
	uint64_t params[] = {on_driver.data, on_driver.data + (1 << 20), 3, 4};
	size_t bytes = sizeof(params), room = HARNESS_BYTES - (HARNESS_DATA - HARNESS_DEVICE);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &bytes, CU_LAUNCH_PARAM_END};
	void *data = harness.memory + (HARNESS_DATA - HARNESS_DEVICE);
	CUfunction kernel;

	on_driver_must(cuModuleGetFunction(&kernel, on_driver.module, name));
	on_driver_must(cuMemcpyHtoD_v2(on_driver.data, data, room));
	while (bytes > 0 && cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, NULL, NULL,
					   extra) == CUDA_ERROR_INVALID_VALUE)
		bytes -= 8; /* until they are the kernel's, as the interpreter takes those that it
			       has */
	on_driver_must(cuMemcpyDtoH_v2(data, on_driver.data, room));
}
