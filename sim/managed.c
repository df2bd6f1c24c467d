/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/managed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/device.h"
#include "sim/driver.h"
#include "sim/stream.h"

/* Per device: how much of the process's managed memory exists, and how much of it is resident. */
static struct {
	pthread_mutex_t lock;
	struct {
		uint64_t bytes, resident;
	} devices[SETTINGS_DEVICES_MAX];
} managed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t page_round(uint64_t bytes)
{
	return (bytes + SPACE_BLOCK - 1) & ~(SPACE_BLOCK - 1);
}

/* What others pushed out is off the book already. The lock is held. */
static void managed_settle(int device)
{
	uint64_t pushed = device_pushed_out(device);
	uint64_t *resident = &managed.devices[device].resident;

	*resident -= pushed < *resident ? pushed : *resident;
}

static void managed_charge(int device, uint64_t bytes)
{
	uint64_t own = 0;

	pthread_mutex_lock(&managed.lock);
	managed_settle(device);
	managed.devices[device].bytes += bytes;
	if (device_take_managed(device, bytes, &own) == 0) {
		managed.devices[device].resident += bytes;
		managed.devices[device].resident -= own;
	}
	pthread_mutex_unlock(&managed.lock);
}

static void managed_uncharge(int device, uint64_t bytes)
{
	uint64_t *resident = &managed.devices[device].resident;
	uint64_t goes;

	pthread_mutex_lock(&managed.lock);
	managed_settle(device);
	managed.devices[device].bytes -= bytes;
	/* Which pages had gone is not known: the ones that stay are assumed to be resident. */
	goes = *resident > managed.devices[device].bytes ? *resident - managed.devices[device].bytes
							 : 0;
	*resident -= goes;
	if (goes)
		device_give_managed(device, goes);
	pthread_mutex_unlock(&managed.lock);
}

void managed_touch(int device)
{
	bool any;

	pthread_mutex_lock(&managed.lock);
	any = managed.devices[device].bytes != 0;
	pthread_mutex_unlock(&managed.lock);
	if (any)
		device_touch_managed(device);
}

CUresult managed_take(struct CUctx_st *context, size_t bytes, unsigned flags,
		      struct space_range *ret_range)
{
	struct space_range range = {
		.bytes = bytes,
		.kind = SPACE_MANAGED,
		.device = context->device,
		.flags = flags,
		.context = context,
		.origin = context->id,
		.readable = SPACE_DEVICE_ALL,
		.writable = SPACE_DEVICE_ALL,
		.charged = page_round(bytes),
	};
	void *memory = bytes < SIZE_MAX / 2 ? space_host_new(bytes) : NULL;

	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range.base = (uint64_t)(uintptr_t)memory;
	if (space_add(&range) < 0) {
		space_host_free(memory, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	managed_charge(range.device, range.charged);
	*ret_range = range;
	return CUDA_SUCCESS;
}

void managed_give(uint64_t base)
{
	struct space_range range;

	if (space_remove(base, &range) < 0)
		return;
	space_host_free((void *)(uintptr_t)range.base, range.bytes);
	managed_uncharge(range.device, range.charged);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	if (!address || bytes == 0 ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	r = managed_take(context, bytes, flags, &range);
	if (r == CUDA_SUCCESS)
		*address = range.base;
	return r;
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* All of the area must be managed (or pinned host) memory. */
static CUresult managed_area(uint64_t address, size_t bytes)
{
	struct space_range range;
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!bytes || space_find(address, &range) < 0 || range.kind != SPACE_MANAGED ||
	    bytes > range.base + range.bytes - address)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
	CUresult r = managed_area(address, bytes);

	if (r != CUDA_SUCCESS)
		return r;
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return CUDA_ERROR_INVALID_VALUE;
	if (device != CU_DEVICE_CPU && advice > CU_MEM_ADVISE_UNSET_READ_MOSTLY)
		return driver_device(device);
	return CUDA_SUCCESS;
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
			CUmemLocation location)
{
	return cuMemAdvise(address, bytes, advice,
			   location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id
									: CU_DEVICE_CPU);
}

/* The bytes are where both sides reach them already: what is left is the order in the stream. */
static CUresult managed_prefetch(CUdeviceptr address, size_t bytes, CUstream handle)
{
	struct CUstream_st *stream;
	struct op op = {.kind = OP_EMPTY};
	CUresult r = managed_area(address, bytes);

	if (r == CUDA_SUCCESS)
		r = stream_find(handle, &stream);
	return r == CUDA_SUCCESS ? stream_submit(stream, &op) : r;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
{
	CUresult r = device == CU_DEVICE_CPU ? driver_ready() : driver_device(device);

	return r == CUDA_SUCCESS ? managed_prefetch(address, bytes, stream) : r;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
			       unsigned flags, CUstream stream)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemPrefetchAsync(
		address, bytes,
		location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU, stream);
}
