/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the law driver that submit work. */
#include "tests/drivers/law_inside.h"

SPECIAL(cuLaunchKernel);
SPECIAL(cuMemcpyHtoDAsync_v2);
SPECIAL(cuMemcpyHtoD_v2);
SPECIAL(cuMemsetD8_v2);
SPECIAL(cuGraphLaunch);
SPECIAL(cuLaunchHostFunc);
SPECIAL(cuStreamWaitValue32_v2);

CUresult special_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
				unsigned int gridDimZ, unsigned int blockDimX,
				unsigned int blockDimY, unsigned int blockDimZ,
				unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
				void **extra)
{
	(void)f, (void)gridDimX, (void)gridDimY, (void)gridDimZ, (void)blockDimX;
	(void)blockDimY, (void)blockDimZ, (void)sharedMemBytes, (void)kernelParams, (void)extra;
	return law_submit(hStream, (struct law_op){.function = NULL});
}

CUresult special_cuMemcpyHtoDAsync_v2(CUdeviceptr_v2 dstDevice, const void *srcHost,
				      size_t ByteCount, CUstream hStream)
{
	(void)dstDevice, (void)srcHost, (void)ByteCount;
	return law_submit(hStream, (struct law_op){.function = NULL});
}

/* The bytes are not read: there may be none. */
CUresult special_cuMemcpyHtoD_v2(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount)
{
	CUresult r = law_submit(NULL, (struct law_op){.function = NULL});

	(void)dstDevice, (void)srcHost;
	__atomic_fetch_add(&law_state->copies, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&law_state->copied_bytes, ByteCount, __ATOMIC_SEQ_CST);
	law_wait_for(law_stream_of(NULL));
	return r;
}

CUresult special_cuMemsetD8_v2(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N)
{
	(void)dstDevice, (void)uc, (void)N;
	return law_submit(NULL, (struct law_op){.function = NULL});
}

CUresult special_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	(void)hGraphExec;
	return law_submit(hStream, (struct law_op){.function = NULL});
}

CUresult special_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	return law_submit(hStream, (struct law_op){.function = fn, .argument = userData});
}

CUresult special_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value,
					unsigned int flags)
{
	(void)flags;
	return law_submit(stream,
			  (struct law_op){.word = (const volatile uint32_t *)(uintptr_t)addr,
					  .value = value});
}
