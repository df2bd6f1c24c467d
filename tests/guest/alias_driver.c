/* SPDX-License-Identifier: Apache-2.0 */
/* A driver in which an allocation and a free have one address: the guest cannot tell them apart. */
#include "cuda/prototypes.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CUresult cuInit(unsigned int Flags)
{
	(void)Flags;
	return CUDA_SUCCESS;
}

EXPORTED CUresult cuDriverGetVersion(int *driverVersion)
{
	*driverVersion = 12090;
	return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemFree_v2(CUdeviceptr_v2 dptr)
{
	(void)dptr;
	return CUDA_SUCCESS;
}

__asm__(".globl cuMemAlloc_v2\n.type cuMemAlloc_v2, @function\n.set cuMemAlloc_v2, cuMemFree_v2");
