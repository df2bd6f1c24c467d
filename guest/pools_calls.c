/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that allocate from pools, free into them, make and end them. */
#include <errno.h>
#include <stdatomic.h>

#include <sys/mman.h>

#include "guest/blocks.h"
#include "guest/capture.h"
#include "guest/gaps.h"
#include "guest/graphs.h"
#include "guest/hooks.h"
#include "guest/memory.h"
#include "guest/pools_book.h"
#include "guest/real.h"
#include "guest/state.h"

enum {
	POOLS_STEP = 64 << 20, /* the largest step by which a driver is believed to grow a pool */
};

/* The forms of the call. */
struct request {
	CUdeviceptr *address;
	size_t bytes;
	CUmemoryPool pool; /* NULL: the current one of the stream's device */
	CUstream stream;
	bool own; /* stream 0 is the thread's own */
};

static CUresult call(const struct request *q)
{
	if (q->pool)
		return q->own ? real(cuMemAllocFromPoolAsync_ptsz)(q->address, q->bytes, q->pool,
								   q->stream)
			      : real(cuMemAllocFromPoolAsync)(q->address, q->bytes, q->pool,
							      q->stream);
	return q->own ? real(cuMemAllocAsync_ptsz)(q->address, q->bytes, q->stream)
		      : real(cuMemAllocAsync)(q->address, q->bytes, q->stream);
}

static CUresult call_free(const struct request *q, CUdeviceptr address)
{
	return q->own ? real(cuMemFreeAsync_ptsz)(address, q->stream)
		      : real(cuMemFreeAsync)(address, q->stream);
}

static bool capturing(CUstream stream, bool own)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (likely(!capture_open()))
		return false;
	if (!stream && own)
		stream = CU_STREAM_PER_THREAD;
	return memory_driver(real(cuStreamIsCapturing)(stream, &status)) == CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Where the stream's work runs; the current context for the streams that every context has. */
static void stream_place(CUstream stream, struct memory_place *place)
{
	CUcontext context = NULL;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return;
	if (memory_driver(real(cuStreamGetCtx)(stream, &context)) == CUDA_SUCCESS && context) {
		place->context = context;
		place->device = state_context_device(context);
	}
}

/* The pool that will serve the request, charged from now on; NULL: one that is not charged by what
 * it holds. A pool that nobody told us of is a device's default one. */
static struct pool *pool_of(const struct request *q, int device)
{
	CUmemoryPool handle = q->pool, other;
	int ordinal = memory_ordinal(device);
	struct pool *pool;

	if (!handle && (ordinal < 0 ||
			memory_driver(real(cuDeviceGetMemPool)(&handle, ordinal)) != CUDA_SUCCESS))
		return NULL;
	pool = handle ? pools_find(handle) : NULL;
	if (pool || !handle)
		return pool;
	for (int i = 0; q->pool && i < (int)atomic_load(&state.devices); i++)
		if (memory_ordinal(i) >= 0 &&
		    memory_driver(real(cuDeviceGetDefaultMemPool)(&other, memory_ordinal(i))) ==
			    CUDA_SUCCESS &&
		    other == handle)
			device = i;
	return pools_add(handle, device);
}

/* Is it the default pool of a device that is not the tenant's? */
static bool foreign(CUmemoryPool handle)
{
	CUmemoryPool other;
	int count = 0;

	if (!handle || pools_find(handle) ||
	    memory_driver(real(cuDeviceGetCount)(&count)) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < count; i++)
		if (state_device(i) < 0 &&
		    memory_driver(real(cuDeviceGetDefaultMemPool)(&other, i)) == CUDA_SUCCESS &&
		    other == handle)
			return true;
	return false;
}

/* Grown by more than was thought: the next request expects it. */
static void learn_step(struct pool *pool, uint64_t before, uint64_t expected)
{
	uint64_t grown = pool->charged - before;

	if (pool->charged > before && grown > expected && grown <= POOLS_STEP)
		pool->step = grown;
}

/* With the lock held, `taken` bytes charged beyond pool->charged. Consumes them. */
static CUresult attempt(struct pool *pool, const struct request *q, uint64_t taken)
{
	struct pointer entry = {.bytes = q->bytes,
				.owner = pools_index(pool),
				.kind = MEMORY_POOLED,
				.device = (int16_t)pool->device};
	uint64_t before = pool->charged, holds;
	CUresult r;

	/* The worst case is the charge until it is known better. */
	pool->charged += taken;
	r = memory_driver(call(q));
	if (r == CUDA_SUCCESS) {
		entry.address = *q->address;
		holds = pools_attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
					pool->charged);
		if (holds > pool->charged && memory_charge(pool->device, holds - pool->charged,
							   CREDIT_OWED) != CUDA_SUCCESS) {
			r = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			pool->charged = holds > pool->charged ? holds : pool->charged;
			atomic_fetch_add(&pool->alive, 1);
			atomic_fetch_add(&pool->live, q->bytes);
			if (entry.address && memory_remember(&entry) < 0) {
				atomic_fetch_sub(&pool->alive, 1);
				atomic_fetch_sub(&pool->live, q->bytes);
				r = CUDA_ERROR_OUT_OF_MEMORY;
			}
		}
		if (r != CUDA_SUCCESS)
			best_effort(memory_driver(call_free(q, entry.address)));
	}
	pools_recharge(pool);
	pools_show_loose(pool->device);
	if (r == CUDA_SUCCESS)
		learn_step(pool, before, taken);
	return r;
}

/* What is allocated from one pool. */
struct collection {
	uint64_t owner;
	struct gaps_piece *pieces;
	size_t count, most;
};

static int collect(const struct pointer *entry, void *context)
{
	struct collection *all = context;

	if (entry->kind == MEMORY_POOLED && entry->owner == all->owner && all->count < all->most)
		all->pieces[all->count++] = (struct gaps_piece){entry->address, entry->bytes};
	return 0;
}

/* With the lock held: would the driver find room in what the pool holds? Exact for small requests
 * where it fills gaps; of a driver that grows pools in large steps, all that is known is the sum.
 */
static bool fits(const struct pool *pool, uint64_t bytes)
{
	uint64_t in_use =
		pools_attribute(pool->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool->charged);
	struct collection all = {.owner = pools_index(pool), .most = atomic_load(&pool->alive)};
	size_t size = all.most * sizeof(struct gaps_piece);
	int saved = errno;
	bool fit;

	if (in_use > pool->charged || pool->charged - in_use < bytes || all.most == 0)
		return false;
	if (pool->step > BLOCKS_BYTES)
		return true;
	if (bytes > BLOCKS_SMALL)
		return false;
	all.pieces = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved;
	if (all.pieces == MAP_FAILED)
		return false;
	memory_each(collect, &all);
	fit = gaps_fit(all.pieces, all.count, bytes);
	munmap(all.pieces, size);
	errno = saved;
	return fit;
}

/* Takes the lock. */
static CUresult allocate_from(struct pool *pool, const struct request *q)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t need;

	moves_begin();
	futex_lock_take(&pool->lock);
	pools_recharge(pool);
	need = (memory_round(q->bytes) + pool->step - 1) / pool->step * pool->step;
	/* What fits into what it holds costs nothing, and must not be refused. */
	if (credit_unused(pool->device) < need && fits(pool, q->bytes))
		r = attempt(pool, q, 0);
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		pools_unlock(pool);
		/* Not with the lock held: this may wait, and trims. */
		r = memory_charge(pool->device, need, CREDIT_WAIT);
		futex_lock_take(&pool->lock);
		if (r == CUDA_SUCCESS)
			r = attempt(pool, q, need);
	}
	pools_unlock(pool);
	moves_end();
	return r;
}

/* By the allocation, as if it were linear memory. */
static CUresult call_uncounted(struct memory_request *request)
{
	const struct request *q = (const struct request *)request->pitch;
	CUresult r = call(q);

	if (r == CUDA_SUCCESS)
		request->address = *q->address;
	return r;
}

static CUresult allocate(struct request *q)
{
	struct memory_request uncounted = {.call = call_uncounted, .bytes = q->bytes, .pitch = q};
	struct memory_place place;
	struct pool *pool;
	CUresult r = memory_begin(&place);

	if (r != CUDA_SUCCESS)
		return r;
	if (!place.tracked || !q->address || q->bytes == 0)
		return memory_driver(call(q));
	if (unlikely(foreign(q->pool)))
		return memory_charge(-1, q->bytes, CREDIT_ASK);
	if (capturing(q->stream, q->own)) {
		graphs_begin();
		return memory_driver(call(q));
	}
	stream_place(q->stream, &place);
	pool = pool_of(q, place.device);
	if (!pool)
		return memory_allocate(&place, &uncounted);
	if (pool->device < 0 && place.device >= 0)
		return memory_driver(call(q));
	if (pool->device < 0)
		return memory_charge(-1, q->bytes, CREDIT_ASK);
	return allocate_from(pool, q);
}

CUresult hook_cuMemAllocAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	struct request q = {dptr, bytesize, NULL, hStream, false};

	return allocate(&q);
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	struct request q = {dptr, bytesize, NULL, hStream, true};

	return allocate(&q);
}

/* Without a pool the driver has an answer of its own. */
CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	struct request q = {dptr, bytesize, pool, hStream, false};

	if (!pool)
		return memory_driver(real(cuMemAllocFromPoolAsync)(dptr, bytesize, pool, hStream));
	return allocate(&q);
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool,
					   CUstream hStream)
{
	struct request q = {dptr, bytesize, pool, hStream, true};

	if (!pool)
		return memory_driver(
			real(cuMemAllocFromPoolAsync_ptsz)(dptr, bytesize, pool, hStream));
	return allocate(&q);
}

/* ---- freeing --------------------------------------------------------------------------------- */

/* In a capture this becomes a node, which may only free what a node allocated: the driver refuses
 * what we know of, and the entry goes back. */
CUresult hook_cuMemFreeAsync(CUdeviceptr_v2 dptr, CUstream hStream)
{
	struct pointer entry;
	CUresult r;

	if (unlikely(memory_inside) || memory_take(dptr, &entry) != 0)
		return memory_driver(real(cuMemFreeAsync)(dptr, hStream));
	moves_begin();
	r = memory_freed(&entry, memory_driver(real(cuMemFreeAsync)(dptr, hStream)));
	moves_end();
	return r;
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr_v2 dptr, CUstream hStream)
{
	struct pointer entry;
	CUresult r;

	if (unlikely(memory_inside) || memory_take(dptr, &entry) != 0)
		return memory_driver(real(cuMemFreeAsync_ptsz)(dptr, hStream));
	moves_begin();
	r = memory_freed(&entry, memory_driver(real(cuMemFreeAsync_ptsz)(dptr, hStream)));
	moves_end();
	return r;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static int located(const CUmemLocation *location)
{
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !state_joined())
		return -1;
	return state_device(location->id);
}

CUresult hook_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps_v1 *poolProps)
{
	CUresult r = memory_inside ? CUDA_SUCCESS : state_ready();

	if (r == CUDA_SUCCESS && !memory_inside && poolProps &&
	    poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		r = memory_refuse_device(poolProps->location.id);
	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuMemPoolCreate)(pool, poolProps));
	if (r == CUDA_SUCCESS && !memory_inside && pool && *pool && poolProps)
		pools_add(*pool, located(&poolProps->location));
	return r;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool handle)
{
	struct pool *pool = memory_inside || !handle ? NULL : pools_find(handle);
	CUresult r;

	if (!pool)
		return memory_driver(real(cuMemPoolDestroy)(handle));
	futex_lock_take(&pool->lock);
	pools_recharge(pool);
	r = memory_driver(real(cuMemPoolDestroy)(handle));
	if (r == CUDA_SUCCESS) {
		/* The handle may be used again; the place is told apart by its index. */
		pool->ended = true;
		atomic_store(&pool->handle, pool->device < 0 ? NULL : (CUmemoryPool)pool);
		pools_recharge(pool);
	}
	pools_unlock(pool);
	return r;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
	struct pool *pool = memory_inside || !handle ? NULL : pools_find(handle);
	CUresult r;

	if (!pool)
		return memory_driver(real(cuMemPoolTrimTo)(handle, minBytesToKeep));
	moves_begin();
	futex_lock_take(&pool->lock);
	r = memory_driver(real(cuMemPoolTrimTo)(handle, minBytesToKeep));
	if (atomic_load(&pool->handle))
		pools_recharge(pool);
	pools_unlock(pool);
	moves_end();
	return r;
}

CUresult hook_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						 CUmemAllocationHandleType handleType,
						 unsigned long long flags)
{
	CUresult r = memory_inside ? CUDA_SUCCESS : state_ready();

	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuMemPoolImportFromShareableHandle)(pool_out, handle,
									   handleType, flags));
	if (r == CUDA_SUCCESS && !memory_inside && pool_out && *pool_out)
		pools_add(*pool_out, -1);
	return r;
}

/* The exporter pays; the address is remembered, so that a later owner of it is not mistaken. */
CUresult hook_cuMemPoolImportPointer(CUdeviceptr_v2 *ptr_out, CUmemoryPool pool,
				     CUmemPoolPtrExportData_v1 *shareData)
{
	struct pointer entry = {.kind = MEMORY_IMPORTED, .device = -1};
	CUresult r = memory_inside ? CUDA_SUCCESS : state_ready();

	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuMemPoolImportPointer)(ptr_out, pool, shareData));
	if (r == CUDA_SUCCESS && !memory_inside && ptr_out) {
		entry.address = *ptr_out;
		best_effort(memory_remember(&entry));
	}
	return r;
}
