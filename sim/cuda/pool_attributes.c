/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions for a pool's attributes, and for devices' access to its memory. */
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/heap.h"
#include "sim/cuda/pool_core.h"

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	uint64_t bytes;
	int on;
	CUresult r = pool_named(pool);

	if (r != CUDA_SUCCESS)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&on, value, sizeof(on));
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pthread_mutex_lock(&pool->lock);
		pool->reuse[attribute] = on != 0;
		pthread_mutex_unlock(&pool->lock);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		memcpy(&bytes, value, sizeof(bytes));
		pthread_mutex_lock(&pool->lock);
		pool->threshold = bytes;
		pthread_mutex_unlock(&pool->lock);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		memcpy(&bytes, value, sizeof(bytes));
		if (bytes)
			return CUDA_ERROR_INVALID_VALUE;
		heap_reset_high(pool->heap, attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
				attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	struct heap_sizes sizes;
	uint64_t bytes;
	CUresult r = pool_named(pool);

	if (r != CUDA_SUCCESS)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	heap_sizes(pool->heap, &sizes);
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		memcpy(value, &pool->reuse[attribute], sizeof(int));
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		bytes = pool->threshold;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		bytes = sizes.reserved;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		bytes = sizes.reserved_high;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		bytes = sizes.used;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		bytes = sizes.used_high;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	memcpy(value, &bytes, sizeof(bytes));
	return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n)
{
	CUresult r = pool_named(pool);

	if (r != CUDA_SUCCESS)
		return r;
	if (!access || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		uint64_t bit;

		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		r = driver_device(access[i].location.id);
		if (r != CUDA_SUCCESS)
			return r;
		if (access[i].location.id == pool->device &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
		if (!device_peer(pool->device, access[i].location.id) &&
		    access[i].location.id != pool->device)
			return CUDA_ERROR_INVALID_DEVICE;
		bit = 1ull << access[i].location.id;
		pthread_mutex_lock(&pool->lock);
		pool->readable &= ~bit;
		pool->writable &= ~bit;
		if (access[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
			pool->readable |= bit;
		if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			pool->writable |= bit;
		pthread_mutex_unlock(&pool->lock);
	}
	return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	CUresult r = pool_named(pool);
	uint64_t bit;

	if (r != CUDA_SUCCESS)
		return r;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	r = driver_device(location->id);
	if (r != CUDA_SUCCESS)
		return r;
	bit = 1ull << location->id;
	*flags = pool->writable & bit	? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : pool->readable & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
					: CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
