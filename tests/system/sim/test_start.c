/* SPDX-License-Identifier: Apache-2.0 */
/* One test in a process that has not called the driver before. */
#include "tests/system/sim/node.h"

TEST(everything_but_questions_needs_cuinit)
{
	CUdevice device;
	int version;

	expect_ok(cuDriverGetVersion(&version));
	expect_eq(version, 12090);
	expect_cuda(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
	expect_cuda(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	expect_cuda(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuInit(0));
	expect_ok(cuInit(0));
	expect_ok(cuDeviceGet(&device, 0));
	expect_cuda(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
	expect_cuda(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
	expect_cuda(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}
