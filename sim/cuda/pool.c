/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/context.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/execute.h"
#include "sim/machine/faults.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/heap.h"
#include "sim/cuda/pool_core.h"
#include "sim/machine/segment.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stream_set.h"

static struct {
	pthread_mutex_t lock;
	CUmemoryPool standard[SETTINGS_DEVICES_MAX], current[SETTINGS_DEVICES_MAX];
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- pools ----------------------------------------------------------------------------------- */

static CUmemoryPool pool_new(int device, uint64_t most_bytes)
{
	CUmemoryPool pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	pool->device = device;
	pool->most_bytes = most_bytes;
	pool->heap = heap_new(device);
	pool->reuse[1] = pool->reuse[2] = pool->reuse[3] = 1;
	pool->readable = pool->writable = 1ull << device;
	if (!pool->heap || handle_add(HANDLE_POOL, pool) < 0) {
		heap_free(pool->heap);
		free(pool);
		return NULL;
	}
	return pool;
}

static void pool_free(CUmemoryPool pool)
{
	heap_free(pool->heap);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

static CUresult pool_standard(int device, CUmemoryPool *ret_pool)
{
	pthread_mutex_lock(&pools.lock);
	if (!pools.standard[device]) {
		pools.standard[device] = pool_new(device, 0);
		if (pools.standard[device])
			pools.standard[device]->standard = true;
	}
	*ret_pool = pools.standard[device];
	pthread_mutex_unlock(&pools.lock);
	return *ret_pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult pool_current(int device, CUmemoryPool *ret_pool)
{
	pthread_mutex_lock(&pools.lock);
	*ret_pool = pools.current[device];
	pthread_mutex_unlock(&pools.lock);
	return *ret_pool ? CUDA_SUCCESS : pool_standard(device, ret_pool);
}

CUresult pool_named(CUmemoryPool pool)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return handle_is(HANDLE_POOL, pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	return ret_pool ? pool_standard(device, ret_pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	return ret_pool ? pool_current(device, ret_pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUresult r = driver_device(device);

	if (r == CUDA_SUCCESS)
		r = pool_named(pool);
	if (r != CUDA_SUCCESS)
		return r;
	if (pool->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pools.lock);
	pools.current[device] = pool;
	pthread_mutex_unlock(&pools.lock);
	return CUDA_SUCCESS;
}

/* Of CUDA 13: the same by location. Host and managed pools are not simulated. */
static CUresult pool_location(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return driver_missing("a memory pool that is not of pinned device memory");
	return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *ret_pool, CUmemLocation *location,
				CUmemAllocationType type)
{
	CUresult r = pool_location(location, type);

	return r == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(ret_pool, location->id) : r;
}

CUresult cuMemGetMemPool(CUmemoryPool *ret_pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUresult r = pool_location(location, type);

	return r == CUDA_SUCCESS ? cuDeviceGetMemPool(ret_pool, location->id) : r;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult r = pool_location(location, type);

	return r == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : r;
}

CUresult cuMemPoolCreate(CUmemoryPool *ret_pool, const CUmemPoolProps *properties)
{
	CUresult r = driver_ready();
	CUmemoryPool pool;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return driver_missing("cuMemPoolCreate for host memory");
	if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return driver_missing("cuMemPoolCreate for sharing with other processes");
	r = driver_device(properties->location.id);
	if (r != CUDA_SUCCESS)
		return r;
	pool = pool_new(properties->location.id, properties->maxSize);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult r = pool_named(pool);
	bool gone;

	if (r != CUDA_SUCCESS)
		return r;
	if (pool->standard)
		return CUDA_ERROR_INVALID_VALUE;
	handle_remove(HANDLE_POOL, pool);
	pthread_mutex_lock(&pools.lock);
	if (pools.current[pool->device] == pool)
		pools.current[pool->device] = NULL;
	pthread_mutex_unlock(&pools.lock);
	pthread_mutex_lock(&pool->lock);
	pool->doomed = true;
	gone = pool->alive == 0;
	heap_keep(pool->heap, 0);
	pthread_mutex_unlock(&pool->lock);
	if (gone)
		pool_free(pool);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	CUresult r = pool_named(pool);

	if (r == CUDA_SUCCESS)
		heap_trim(pool->heap, keep);
	return r;
}

/* ---- allocations ----------------------------------------------------------------------------- */

static CUresult pool_take(CUmemoryPool pool, size_t bytes, uint64_t origin, uint64_t *ret_address)
{
	struct heap_sizes sizes;
	struct space_range range = {
		.kind = SPACE_POOL,
		.owner = pool,
		.origin = origin,
		.withheld = true,
	};
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&pool->lock);
	range.readable = pool->readable;
	range.writable = pool->writable;
	heap_sizes(pool->heap, &sizes);
	if (pool->most_bytes && sizes.used + bytes > pool->most_bytes)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		r = heap_take(pool->heap, bytes, &range);
	if (r == CUDA_SUCCESS)
		pool->alive++;
	pthread_mutex_unlock(&pool->lock);
	if (r == CUDA_SUCCESS)
		*ret_address = range.base;
	return r;
}

/* A driver trims pools to their thresholds at synchronisations; here this is done at each free, by
 * the threshold at that time. */
static void pool_give(CUmemoryPool pool, uint64_t address)
{
	bool gone;

	pthread_mutex_lock(&pool->lock);
	heap_keep(pool->heap, pool->doomed ? 0 : pool->threshold);
	heap_give(pool->heap, address);
	gone = --pool->alive == 0 && pool->doomed;
	pthread_mutex_unlock(&pool->lock);
	if (gone)
		pool_free(pool);
}

CUresult pool_free_now(const struct space_range *range)
{
	pool_give(range->owner, range->base);
	return CUDA_SUCCESS;
}

CUresult pool_execute(const struct pool_work *work, struct CUctx_st *context, uint64_t *time_ns)
{
	struct space_range range;

	(void)context, (void)time_ns;
	if (space_find(work->address, &range) < 0 || range.base != work->address ||
	    range.kind != SPACE_POOL)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (work->release) {
		atomic_fetch_sub(&((CUmemoryPool)range.owner)->leaving, 1);
		pool_give(range.owner, range.base);
		return CUDA_SUCCESS;
	}
	return space_admit(range.base) == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* Memory that was freed before this call in stream order can be used at once on a GPU, even before
 * the stream has reached the free. Here it is waited for, if there is no other memory. */
static CUresult pool_take_patiently(CUmemoryPool pool, size_t bytes, struct CUstream_st *stream,
				    uint64_t *ret_address)
{
	struct CUctx_st *context = stream_context(stream);
	CUresult r = pool_take(pool, bytes, context->id, ret_address);

	if (r != CUDA_ERROR_OUT_OF_MEMORY || !atomic_load(&pool->leaving))
		return r;
	r = stream_synchronize(stream);
	if (r == CUDA_SUCCESS)
		r = pool_take(pool, bytes, context->id, ret_address);
	if (r != CUDA_ERROR_OUT_OF_MEMORY || !atomic_load(&pool->leaving))
		return r;
	stream_set_drain(context->streams);
	return pool_take(pool, bytes, context->id, ret_address);
}

static CUresult pool_allocate(CUdeviceptr *ret_address, size_t bytes, CUmemoryPool pool,
			      CUstream handle)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	struct op op = {.kind = OP_POOL};
	struct CUstream_st *stream;
	uint64_t address;
	CUresult r = stream_find(handle, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes) { /* unlike cuMemAlloc(): nothing is allocated, and freeing that is fine */
		*ret_address = 0;
		return CUDA_SUCCESS;
	}
	if (stream_capturing(stream)) {
		props.location.id = pool ? pool->device : stream_context(stream)->device;
		return capture_alloc(stream, bytes, &props, ret_address);
	}
	if (faults_at(FAULTS_ALLOCATION, stream_context(stream)->device) == FAULTS_OUT_OF_MEMORY)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!pool)
		r = pool_current(stream_context(stream)->device, &pool);
	if (r == CUDA_SUCCESS)
		r = pool_take_patiently(pool, bytes, stream, &address);
	if (r != CUDA_SUCCESS)
		return r;
	op.pool = (struct pool_work){.address = address};
	r = stream_submit(stream, &op);
	if (r != CUDA_SUCCESS)
		pool_give(pool, address);
	else
		*ret_address = address;
	return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	return pool_allocate(address, bytes, NULL, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	CUresult r = pool_named(pool);

	return r == CUDA_SUCCESS ? pool_allocate(address, bytes, pool, stream) : r;
}

/* The address may belong to a graph's allocation node. */
static CUresult free_of_graph(CUdeviceptr address, struct CUstream_st *stream)
{
	struct op op = {.kind = OP_FREE, .alloc.address = address};
	CUresult result;

	graph_memory_ref(address);
	result = stream_submit(stream, &op);
	if (result == CUDA_SUCCESS)
		graph_memory_disclaim(address);
	return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
	struct op op = {.kind = OP_POOL, .pool = {.address = address, .release = true}};
	struct CUstream_st *stream;
	struct space_range range;
	CUresult r = stream_find(handle, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (!address)
		return CUDA_SUCCESS;
	if (stream_capturing(stream))
		return capture_free(stream, address);
	if (graph_memory_owns(address))
		return free_of_graph(address, stream);
	if (space_find(address, &range) < 0 || range.base != address)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.kind == SPACE_POOL) {
		atomic_fetch_add(&((CUmemoryPool)range.owner)->leaving, 1);
		r = stream_submit(stream, &op);
		if (r != CUDA_SUCCESS)
			atomic_fetch_sub(&((CUmemoryPool)range.owner)->leaving, 1);
		return r;
	}
	if (range.kind != SPACE_LINEAR)
		return CUDA_ERROR_INVALID_VALUE;
	/* Memory of cuMemAlloc() may be freed in the stream's order too. */
	r = stream_synchronize(stream);
	if (r == CUDA_SUCCESS)
		heap_give(range.heap, range.base);
	return r;
}
