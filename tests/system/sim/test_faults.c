/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on demand. The program itself never calls the driver: its children do, each with its own
 * METE_SIM_FAULTS. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/system/sim/node.h"

/* In children: cmocka's jump out of a failed test is not for them. */
#define must(call, wanted)                                                                         \
	do {                                                                                       \
		CUresult got_ = (call);                                                            \
		if (got_ != (wanted)) {                                                            \
			fprintf(stderr, "%s:%d: %s is %d, wanted %d\n", __FILE__, __LINE__, #call, \
				(int)got_, (int)(wanted));                                         \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void in_child(const char *faults, void (*body)(CUresult), CUresult wanted)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		setenv("METE_SIM_FAULTS", faults, 1);
		body(wanted);
		_exit(0);
	}
	expect_eq(waitpid(child, &status, 0), child);
	expect_eq(status, 0);
}

static void start(void)
{
	CUcontext context;

	must(cuInit(0), CUDA_SUCCESS);
	must(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
}

static void allocate(CUresult wanted)
{
	CUdeviceptr address;
	size_t before, after, total;

	start();
	must(cuMemAlloc_v2(&address, 100), CUDA_SUCCESS);
	must(cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
	must(cuMemAlloc_v2(&address, 100), wanted);
	must(cuMemGetInfo_v2(&after, &total), before == after ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
	must(cuMemAlloc_v2(&address, 100), CUDA_SUCCESS);
}

TEST(the_second_allocation_fails_when_asked_to)
{
	in_child("oom@2", allocate, CUDA_ERROR_OUT_OF_MEMORY);
	in_child("oom@2:1", allocate, CUDA_SUCCESS); /* on another device */
}

static CUresult store_once(void)
{
	CUdeviceptr address;
	CUfunction store;
	CUmodule module;
	void *parameters[] = {&address};

	must(cuModuleLoadData(&module, node_ptx), CUDA_SUCCESS);
	must(cuModuleGetFunction(&store, module, "store"), CUDA_SUCCESS);
	must(cuMemAlloc_v2(&address, 4), CUDA_SUCCESS);
	must(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
	return cuCtxSynchronize();
}

static void launch(CUresult wanted)
{
	CUcontext context;

	start();
	must(store_once(), wanted);
	must(cuCtxSynchronize(), wanted);
	must(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	must(cuCtxDestroy_v2(context), CUDA_SUCCESS);
	must(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	must(store_once(), CUDA_SUCCESS);
}

TEST(a_kernel_fails_when_asked_to_and_its_context_with_it)
{
	in_child("launch@1", launch, CUDA_ERROR_LAUNCH_FAILED);
	in_child("illegal@1", launch, CUDA_ERROR_ILLEGAL_ADDRESS);
	in_child("ecc@1", launch, CUDA_ERROR_ECC_UNCORRECTABLE);
	in_child("ecc-corrected@1", launch, CUDA_SUCCESS);
	in_child("xid=31@1", launch, CUDA_SUCCESS);
}

static void hang(CUresult wanted)
{
	CUcontext context;
	CUdeviceptr address;
	CUfunction store;
	CUmodule module;
	void *parameters[] = {&address};

	start();
	must(cuModuleLoadData(&module, node_ptx), CUDA_SUCCESS);
	must(cuModuleGetFunction(&store, module, "store"), CUDA_SUCCESS);
	must(cuMemAlloc_v2(&address, 4), CUDA_SUCCESS);
	must(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
	must(cuStreamQuery(NULL), wanted);
	must(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	must(cuCtxDestroy_v2(context), CUDA_SUCCESS);
	must(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	must(store_once(), CUDA_SUCCESS);
}

TEST(a_kernel_that_hangs_ends_with_its_context)
{
	in_child("hang@1", hang, CUDA_ERROR_NOT_READY);
}

static void lose(CUresult wanted)
{
	CUcontext context;

	start();
	must(store_once(), wanted);
	must(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	must(cuCtxDestroy_v2(context), CUDA_SUCCESS);
	must(cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

TEST(a_lost_device_stays_lost)
{
	in_child("lost@1", lose, CUDA_ERROR_UNKNOWN);
}
