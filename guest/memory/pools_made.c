/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that make, change and end pools, as against allocating from them (pools_calls.c). */
#include "guest/contexts/devices.h"
#include "guest/credit/charge.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/table.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/pools_book.h"
#include "guest/process/join.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"

static int located(const CUmemLocation *location)
{
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !state_joined())
		return -1;
	return devices_index(location->id);
}

CUresult hook_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps_v1 *poolProps)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();

	if (r == CUDA_SUCCESS && !driver_nested() && poolProps &&
	    poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		r = memory_refuse_device(poolProps->location.id);
	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemPoolCreate)(pool, poolProps));
	if (r == CUDA_SUCCESS && !driver_nested() && pool && *pool && poolProps &&
	    !pools_add(*pool, located(&poolProps->location))) {
		/* A pool that cannot be tracked is not given to the program. */
		best_effort(driver_call(real(cuMemPoolDestroy)(*pool)));
		*pool = NULL;
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return r;
}

/* A default pool: the driver refuses to destroy it. */
static bool is_default(const struct pool *pool)
{
	int ordinal = devices_ordinal(pool->device);
	CUmemoryPool other;

	return ordinal >= 0 &&
	       driver_call(real(cuDeviceGetDefaultMemPool)(&other, ordinal)) == CUDA_SUCCESS &&
	       other == pool->handle;
}

/* With the lock held. For the program the pool is destroyed; the driver destroys it when it is
 * empty. */
static void end_pool(struct pool *pool)
{
	int ordinal = devices_ordinal(pool->device);
	cuuint64_t keep = 0;
	CUmemoryPool other;

	/* The default pool takes its place, as with the driver. */
	if (ordinal >= 0 &&
	    driver_call(real(cuDeviceGetMemPool)(&other, ordinal)) == CUDA_SUCCESS &&
	    other == pool->handle &&
	    driver_call(real(cuDeviceGetDefaultMemPool)(&other, ordinal)) == CUDA_SUCCESS)
		best_effort(driver_call(real(cuDeviceSetMemPool)(ordinal, other)));
	best_effort(driver_call(real(cuMemPoolSetAttribute)(
		pool->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep)));
	pool->ended = true;
	pools_recharge(pool);
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool handle)
{
	struct pool *pool = driver_nested() || !handle ? NULL : pools_find(handle);
	CUresult r;
	bool mine;

	pools_changed();
	if (!pool) {
		r = driver_call(real(cuMemPoolDestroy)(handle));
		pools_changed();
		return r;
	}
	/* The driver may release what it kept as soon as the threshold is lowered. */
	changes_begin();
	mine = driver_lock_take(&pool->lock);
	if (pool->ended || atomic_load(&pool->handle) != handle) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (pool->device < 0 || is_default(pool)) {
		r = driver_call(real(cuMemPoolDestroy)(handle));
		if (r == CUDA_SUCCESS)
			atomic_store(&pool->handle, NULL);
	} else {
		r = CUDA_SUCCESS;
		end_pool(pool);
	}
	pools_changed();
	pools_unlock(pool, mine);
	changes_end();
	return r;
}

/* The driver releases memory beyond the new threshold by itself. */
CUresult hook_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	struct pool *pool = NULL;
	CUresult r;
	bool mine;

	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && handle && !driver_nested())
		pool = pools_find(handle);
	if (!pool)
		return driver_call(real(cuMemPoolSetAttribute)(handle, attr, value));
	changes_begin();
	mine = driver_lock_take(&pool->lock);
	r = pool->ended ? CUDA_ERROR_INVALID_VALUE
			: driver_call(real(cuMemPoolSetAttribute)(handle, attr, value));
	if (atomic_load(&pool->handle))
		pools_recharge(pool);
	pools_unlock(pool, mine);
	changes_end();
	return r;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
	struct pool *pool = driver_nested() || !handle ? NULL : pools_find(handle);
	CUresult r;
	bool mine;

	if (!pool)
		return driver_call(real(cuMemPoolTrimTo)(handle, minBytesToKeep));
	changes_begin();
	mine = driver_lock_take(&pool->lock);
	r = pool->ended ? CUDA_ERROR_INVALID_VALUE
			: driver_call(real(cuMemPoolTrimTo)(handle, minBytesToKeep));
	if (atomic_load(&pool->handle))
		pools_recharge(pool);
	pools_unlock(pool, mine);
	changes_end();
	return r;
}

CUresult hook_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						 CUmemAllocationHandleType handleType,
						 unsigned long long flags)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();

	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemPoolImportFromShareableHandle)(pool_out, handle,
									 handleType, flags));
	if (r == CUDA_SUCCESS && !driver_nested() && pool_out && *pool_out)
		pools_add(*pool_out, -1);
	return r;
}

/* The exporter pays; the address is remembered, so that a later owner of it is not mistaken. */
CUresult hook_cuMemPoolImportPointer(CUdeviceptr_v2 *ptr_out, CUmemoryPool pool,
				     CUmemPoolPtrExportData_v1 *shareData)
{
	struct pointer entry = {.kind = MEMORY_IMPORTED, .device = -1};
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();

	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemPoolImportPointer)(ptr_out, pool, shareData));
	if (r == CUDA_SUCCESS && !driver_nested() && ptr_out) {
		entry.address = *ptr_out;
		best_effort(memory_remember(&entry));
	}
	return r;
}
