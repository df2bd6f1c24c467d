/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of others: IPC handles, and external memory of graphics interfaces. Its owner pays, here
 * nothing is charged. What is mapped is remembered all the same, so that an address that the driver
 * uses again is not taken for what it was before.
 */
#include "guest/hooks.h"
#include "guest/memory.h"
#include "guest/real.h"
#include "guest/state.h"

static CUresult begin(void)
{
	return memory_inside ? CUDA_SUCCESS : state_ready();
}

static CUresult imported(CUresult r, const CUdeviceptr *address)
{
	struct pointer entry = {.kind = MEMORY_IMPORTED, .device = -1};

	if (r == CUDA_SUCCESS && !memory_inside && address && *address) {
		entry.address = *address;
		best_effort(memory_remember(&entry));
	}
	return r;
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr_v2 *pdptr, CUipcMemHandle_v1 handle,
				 unsigned int Flags)
{
	CUresult r = begin();

	return r ? r
		 : imported(memory_driver(real(cuIpcOpenMemHandle)(pdptr, handle, Flags)), pdptr);
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr_v2 *pdptr, CUipcMemHandle_v1 handle,
				    unsigned int Flags)
{
	CUresult r = begin();

	return r ? r
		 : imported(memory_driver(real(cuIpcOpenMemHandle_v2)(pdptr, handle, Flags)),
			    pdptr);
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr_v2 dptr)
{
	struct pointer entry;

	if (memory_inside || memory_take(dptr, &entry) != 0)
		return memory_driver(real(cuIpcCloseMemHandle)(dptr));
	return memory_freed(&entry, memory_driver(real(cuIpcCloseMemHandle)(dptr)));
}

CUresult hook_cuImportExternalMemory(CUexternalMemory *extMem_out,
				     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1 *memHandleDesc)
{
	CUresult r = begin();

	return r ? r : memory_driver(real(cuImportExternalMemory)(extMem_out, memHandleDesc));
}

CUresult hook_cuExternalMemoryGetMappedBuffer(CUdeviceptr_v2 *devPtr, CUexternalMemory extMem,
					      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1 *bufferDesc)
{
	CUresult r = begin();

	return r ? r
		 : imported(memory_driver(real(cuExternalMemoryGetMappedBuffer)(devPtr, extMem,
										bufferDesc)),
			    devPtr);
}

CUresult hook_cuExternalMemoryGetMappedMipmappedArray(
	CUmipmappedArray *mipmap, CUexternalMemory extMem,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_v1 *mipmapDesc)
{
	CUresult r = begin();

	return r ? r
		 : memory_driver(real(cuExternalMemoryGetMappedMipmappedArray)(mipmap, extMem,
									       mipmapDesc));
}

CUresult hook_cuDestroyExternalMemory(CUexternalMemory extMem)
{
	return memory_driver(real(cuDestroyExternalMemory)(extMem));
}
