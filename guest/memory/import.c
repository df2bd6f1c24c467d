/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of others: IPC handles, and external memory of graphics interfaces. Its owner pays; here
 * nothing is charged. But the driver may count it as ours as well, and does so when its owner has
 * ended: so the daemon measures after each import and each end of one. Mapped addresses are
 * remembered nevertheless, so that an older entry of the same address is replaced.
 */
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/settle.h"
#include "guest/credit/table.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/movable/movable_lend.h"
#include "guest/process/join.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"

static CUresult begin(bool nested)
{
	CUresult r = nested ? CUDA_SUCCESS : state_ready();

	if (r == CUDA_SUCCESS && !nested && state_joined())
		changes_other(-1); /* the driver may count it as ours, too */
	return r;
}

/* Something was imported or freed, on an unknown device. */
static CUresult settled(CUresult r, bool nested)
{
	if (r == CUDA_SUCCESS && !nested)
		settle_all();
	return r;
}

static CUresult imported(CUresult r, const CUdeviceptr *address, bool nested)
{
	struct pointer entry = {.kind = MEMORY_IMPORTED, .device = -1};

	if (r == CUDA_SUCCESS && !nested && address && *address) {
		entry.address = *address;
		best_effort(memory_remember(&entry));
	}
	return settled(r, nested);
}

/* Opens memory that moves: guest/movable/movable_borrow.c remembers it. It is not charged either.
 */
static CUresult open_borrowed(CUdeviceptr *ret_address, const CUipcMemHandle_v1 *handle,
			      unsigned flags, bool nested)
{
	return settled(borrow_open(handle, flags, ret_address), nested);
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr_v2 *pdptr, CUipcMemHandle_v1 handle,
				 unsigned int Flags)
{
	CUresult r = begin(driver_nested());

	if (r == CUDA_SUCCESS && lend_is_handle(&handle))
		return open_borrowed(pdptr, &handle, Flags, driver_nested());
	return r ? r
		 : imported(driver_call(real(cuIpcOpenMemHandle)(pdptr, handle, Flags)), pdptr,
			    driver_nested());
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr_v2 *pdptr, CUipcMemHandle_v1 handle,
				    unsigned int Flags)
{
	CUresult r = begin(driver_nested());

	if (r == CUDA_SUCCESS && lend_is_handle(&handle))
		return open_borrowed(pdptr, &handle, Flags, driver_nested());
	return r ? r
		 : imported(driver_call(real(cuIpcOpenMemHandle_v2)(pdptr, handle, Flags)), pdptr,
			    driver_nested());
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr_v2 dptr)
{
	bool nested = driver_nested(), gone;
	struct pointer entry;
	CUresult r = nested ? CUDA_ERROR_NOT_FOUND : borrow_close(dptr, &gone);

	if (r == CUDA_SUCCESS && gone)
		settle_all();
	if (r != CUDA_ERROR_NOT_FOUND)
		return r;
	if (nested || memory_take(dptr, &entry) != 0)
		return settled(driver_call(real(cuIpcCloseMemHandle)(dptr)), nested);
	return settled(memory_freed(&entry, driver_call(real(cuIpcCloseMemHandle)(dptr))), nested);
}

CUresult hook_cuImportExternalMemory(CUexternalMemory *extMem_out,
				     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1 *memHandleDesc)
{
	CUresult r = begin(driver_nested());

	return r ? r
		 : settled(driver_call(real(cuImportExternalMemory)(extMem_out, memHandleDesc)),
			   driver_nested());
}

CUresult hook_cuExternalMemoryGetMappedBuffer(CUdeviceptr_v2 *devPtr, CUexternalMemory extMem,
					      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1 *bufferDesc)
{
	CUresult r = begin(driver_nested());

	return r ? r
		 : imported(driver_call(real(cuExternalMemoryGetMappedBuffer)(devPtr, extMem,
									      bufferDesc)),
			    devPtr, driver_nested());
}

CUresult hook_cuExternalMemoryGetMappedMipmappedArray(
	CUmipmappedArray *mipmap, CUexternalMemory extMem,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_v1 *mipmapDesc)
{
	CUresult r = begin(driver_nested());

	return r ? r
		 : driver_call(real(cuExternalMemoryGetMappedMipmappedArray)(mipmap, extMem,
									     mipmapDesc));
}

CUresult hook_cuDestroyExternalMemory(CUexternalMemory extMem)
{
	return settled(driver_call(real(cuDestroyExternalMemory)(extMem)), driver_nested());
}
