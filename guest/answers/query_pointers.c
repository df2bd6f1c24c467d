/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of a program about its addresses. Mostly the driver answers. For memory that moves
 * (guest/movable/movable.h) the answers come from our table, whether the memory is on the device or
 * not: the driver would describe our blocks, or know nothing.
 */
#include <string.h>

#include "guest/contexts/devices.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/movable/movable.h"
#include "guest/movable/movable_lend.h"
#include "guest/process/join.h"
#include "guest/say.h"

/* ---- whether it may be asked ----------------------------------------------------------------- */

/* The driver knows nothing of an address whose memory is out. But only the driver can tell whether
 * it may be called here and now: libgomp learns from the refusal that it is in a host function,
 * where nothing can be freed. */
static CUresult unless_refused(CUresult r)
{
	return r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : r;
}

static CUresult may_ask_range(CUdeviceptr_v2 address)
{
	CUdeviceptr_v2 base;
	size_t size;

	return unless_refused(driver_call(real(cuMemGetAddressRange_v2)(&base, &size, address)));
}

static CUresult may_ask_attribute(CUdeviceptr_v2 address)
{
	unsigned int type;

	return unless_refused(driver_call(
		real(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)));
}

/* ---- ranges ---------------------------------------------------------------------------------- */

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr_v2 *pbase, size_t *psize, CUdeviceptr_v2 dptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_seen seen;

	if (r != CUDA_SUCCESS ||
	    (!movable_find(dptr, &seen) && !borrow_find(dptr, &seen.base, &seen.bytes)))
		return r ? r : driver_call(real(cuMemGetAddressRange_v2)(pbase, psize, dptr));
	r = may_ask_range(dptr);
	if (r != CUDA_SUCCESS)
		return r;
	if (pbase)
		*pbase = seen.base;
	if (psize)
		*psize = seen.bytes;
	return CUDA_SUCCESS;
}

CUresult hook_cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();

	return r ? r : driver_call(real(cuMemGetAddressRange)(pbase, psize, dptr));
}

CUresult hook_cuMemGetAccess(unsigned long long *flags, const CUmemLocation_v1 *location,
			     CUdeviceptr_v2 ptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_seen seen;

	if (r != CUDA_SUCCESS || !flags || !location || !movable_find(ptr, &seen))
		return r ? r : driver_call(real(cuMemGetAccess)(flags, location, ptr));
	*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && devices_index(location->id) >= 0)
		*flags = seen.mapped ? seen.access : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

/* ---- attributes ------------------------------------------------------------------------------ */

union answer {
	uint64_t wide;
	uint32_t number;
	uint8_t flag;
};

/* Answers that differ for memory that the program maps itself. */
static size_t answer_mapped(CUpointer_attribute attribute, const struct movable_seen *seen,
			    union answer *ret)
{
	*ret = (union answer){0};
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		ret->wide = seen->range;
		return 8;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		ret->wide = seen->range_bytes;
		return 8;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		ret->number = (uint32_t)seen->access; /* the same values */
		return 4;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		ret->wide = seen->exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
		return 8;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return 1;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		ret->flag = seen->rdma;
		return 1;
	default:
		return 0;
	}
}

/* 0: the driver answers; otherwise the answer's bytes. */
static size_t answer(CUpointer_attribute attribute, const struct movable_seen *seen,
		     uint64_t address, union answer *ret)
{
	size_t special = seen->mapped ? answer_mapped(attribute, seen, ret) : 0;

	if (special)
		return special;
	*ret = (union answer){0};
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		ret->wide = seen->owner;
		return 8;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		ret->number = CU_MEMORYTYPE_DEVICE;
		return 4;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		ret->wide = address;
		return 8;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		ret->wide = seen->id;
		return 8;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		ret->number = (uint32_t)movable_ordinal();
		return 4;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		ret->wide = seen->base;
		return 8;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		ret->wide = seen->bytes;
		return 8;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		ret->flag = 1;
		return 1;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		ret->number = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		return 4;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return 8;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		ret->flag = movable_lends();
		return 1;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		ret->flag = movable_suits_rdma();
		return 1;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return 1;
	default:
		return 0;
	}
}

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr_v2 ptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_seen seen;
	union answer value;
	size_t bytes;

	if (r != CUDA_SUCCESS || !data || !movable_find(ptr, &seen))
		return r ? r : driver_call(real(cuPointerGetAttribute)(data, attribute, ptr));
	r = may_ask_attribute(ptr);
	if (r != CUDA_SUCCESS)
		return r;
	bytes = answer(attribute, &seen, ptr, &value);
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, &value, bytes);
	return CUDA_SUCCESS;
}

/* Here a host pointer is zero, and no error: the host has no pointer to the memory. */
CUresult hook_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				     void **data, CUdeviceptr_v2 ptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_seen seen;
	union answer value;
	size_t bytes;

	if (r != CUDA_SUCCESS || !attributes || !data || numAttributes == 0 ||
	    !movable_find(ptr, &seen))
		return r ? r
			 : driver_call(real(cuPointerGetAttributes)(numAttributes, attributes, data,
								    ptr));
	r = may_ask_attribute(ptr);
	if (r != CUDA_SUCCESS)
		return r;
	for (unsigned i = 0; i < numAttributes; i++) {
		bytes = answer(attributes[i], &seen, ptr, &value);
		if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			bytes = sizeof(void *);
		if (!data[i] || bytes == 0)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(data[i], &value, bytes);
	}
	return CUDA_SUCCESS;
}

/* ---- what reaches beyond the process --------------------------------------------------------- */

/* The driver makes such handles only for memory of its own cuMemAlloc(); memory that moves gets one
 * of ours. If the driver cannot export memory, the process allocates plainly from now on. */
CUresult hook_cuIpcGetMemHandle(CUipcMemHandle_v1 *pHandle, CUdeviceptr_v2 dptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_seen seen = {0};

	if (r != CUDA_SUCCESS)
		return r;
	if (!movable_find(dptr, &seen) || seen.mapped) {
		if (!seen.mapped)
			movable_why(WIRE_UNMOVABLE_SHARED);
		return driver_call(real(cuIpcGetMemHandle)(pHandle, dptr));
	}
	r = lend_name(dptr, pHandle);
	if (r != CUDA_ERROR_NOT_SUPPORTED)
		return r;
	say("cuIpcGetMemHandle: memory that can move cannot be given to other processes this way; "
	    "memory that is allocated from now on can. Or start with swap=off");
	movable_no_more();
	return CUDA_ERROR_INVALID_VALUE;
}

/* The memory must stay where the other end finds it. */
CUresult hook_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr_v2 dptr, size_t size,
					    CUmemRangeHandleType handleType,
					    unsigned long long flags)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();

	if (r != CUDA_SUCCESS)
		return r;
	best_effort(movable_pin_range(dptr, size, WIRE_UNMOVABLE_SHARED));
	return driver_call(
		real(cuMemGetHandleForAddressRange)(handle, dptr, size, handleType, flags));
}

/* Tokens and synchronous operations serve devices that reach the memory by themselves. */
CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				    CUdeviceptr_v2 ptr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();

	if (r != CUDA_SUCCESS)
		return r;
	best_effort(movable_pin(ptr, WIRE_UNMOVABLE_SHARED));
	return driver_call(real(cuPointerSetAttribute)(value, attribute, ptr));
}
