/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pools.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/blocks.h"
#include "guest/capture.h"
#include "guest/credit.h"
#include "guest/futex.h"
#include "guest/gaps.h"
#include "guest/graphs.h"
#include "guest/hooks.h"
#include "guest/memory.h"
#include "guest/real.h"
#include "guest/state.h"

enum {
	POOLS = 1024,	       /* that are charged by what they hold; further ones by allocation */
	POOLS_STEP = 64 << 20, /* the largest step by which a driver is believed to grow a pool */
};

struct pool {
	struct futex_lock lock;	      /* of what follows; held while the driver allocates */
	_Atomic(CUmemoryPool) handle; /* NULL: a free place */
	int device;		      /* -1: not device memory, or not ours to pay */
	bool ended;		      /* destroyed; lives as long as its allocations */
	_Atomic uint64_t charged;
	_Atomic uint64_t kept;	/* so much the driver does not let go of by itself */
	uint64_t step;		/* it grows by multiples of this, as far as was seen */
	_Atomic uint32_t alive; /* allocations, ... */
	_Atomic uint64_t live;	/* ... of so many bytes */
	_Atomic uint32_t owing; /* there is something to settle */
};

static struct {
	struct futex_lock lock; /* of adding */
	struct futex_lock loose_lock;
	_Atomic uint32_t made;
	_Atomic uint32_t due; /* counts what was freed in a stream's order; 0: nothing is loose */
	struct pool pool[POOLS];
} pools;

bool pools_used(void)
{
	return atomic_load_explicit(&pools.made, memory_order_relaxed) != 0;
}

static struct pool *find(CUmemoryPool handle)
{
	uint32_t made = atomic_load(&pools.made);

	for (uint32_t i = 0; i < made; i++)
		if (atomic_load_explicit(&pools.pool[i].handle, memory_order_relaxed) == handle)
			return &pools.pool[i];
	return NULL;
}

/* Knowing a pool twice is harmless. NULL: the table is full. */
static struct pool *add(CUmemoryPool handle, int device)
{
	struct pool *pool;
	uint32_t i = 0;

	futex_lock_take(&pools.lock);
	pool = find(handle);
	while (!pool && i < POOLS && atomic_load(&pools.pool[i].handle))
		i++;
	if (!pool && i < POOLS) {
		pool = &pools.pool[i];
		pool->device = device;
		pool->ended = false;
		atomic_store(&pool->charged, 0);
		atomic_store(&pool->kept, 0);
		atomic_store(&pool->live, 0);
		pool->step = BLOCKS_BYTES;
		atomic_store(&pool->alive, 0);
		atomic_store(&pool->handle, handle);
		if (i >= atomic_load(&pools.made))
			atomic_store(&pools.made, i + 1);
	}
	futex_lock_give(&pools.lock);
	return pool;
}

static uint64_t attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t otherwise)
{
	cuuint64_t value = 0;

	if (memory_driver(real(cuMemPoolGetAttribute)(handle, which, &value)) != CUDA_SUCCESS)
		return otherwise;
	return value;
}

/* What a pool holds and nobody uses: the driver may let go of it whenever something is waited for,
 * and we hear of it after that. */
static uint64_t loose(const struct pool *pool)
{
	uint64_t charged = pool->charged, live = pool->live, kept = pool->kept;
	uint64_t firm = live > kept ? live : kept;

	return charged > firm ? charged - firm : 0;
}

static void show_loose(int device)
{
	uint64_t sum = 0;

	futex_lock_take(&pools.loose_lock);
	for (uint32_t i = 0; i < atomic_load(&pools.made); i++) {
		const struct pool *pool = &pools.pool[i];

		if (atomic_load(&pool->handle) && pool->device == device)
			sum += loose(pool);
	}
	credit_loose(device, sum);
	futex_lock_give(&pools.loose_lock);
}

/* With the pool's lock held: the charge becomes what the pool holds. What it holds beyond its
 * charge, and cannot be had, stays owing until the next time. */
static void settle(struct pool *pool)
{
	uint64_t holds;

	if (pool->device < 0)
		return;
	if (pool->ended) {
		holds = atomic_load(&pool->alive) ? pool->charged : 0;
	} else {
		holds = attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
				  pool->charged);
		pool->kept = attribute(pool->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
	}
	if (holds == pool->charged && !(pool->ended && holds == 0))
		return;
	moves_begin();
	if (holds < pool->charged)
		credit_give(pool->device, pool->charged - holds);
	else if (holds > pool->charged &&
		 credit_take(pool->device, holds - pool->charged, CREDIT_OWED) != 0)
		holds = pool->charged;
	pool->charged = holds;
	show_loose(pool->device);
	moves_end();
	if (pool->ended && holds == 0)
		atomic_store(&pool->handle, NULL);
}

/* Who does not get the lock leaves word that there is something to settle, and who gives it back
 * does that. */
static bool lock_if_free(struct pool *pool)
{
	uint32_t was = 0;

	atomic_store(&pool->owing, 1);
	return atomic_compare_exchange_strong(&pool->lock.word, &was, 1);
}

static void unlock(struct pool *pool)
{
	futex_lock_give(&pool->lock);
	while (unlikely(atomic_load(&pool->owing)) && lock_if_free(pool)) {
		atomic_store(&pool->owing, 0);
		if (atomic_load(&pool->handle))
			settle(pool);
		futex_lock_give(&pool->lock);
	}
}

static void each(int device, bool trim)
{
	uint32_t made = atomic_load(&pools.made);

	for (uint32_t i = 0; i < made; i++) {
		struct pool *pool = &pools.pool[i];

		if (!atomic_load(&pool->handle) || pool->device < 0 ||
		    (device >= 0 && pool->device != device) || !lock_if_free(pool))
			continue;
		if (trim && !pool->ended && pool->charged)
			best_effort(memory_driver(real(cuMemPoolTrimTo)(pool->handle, 0)));
		unlock(pool);
	}
}

void pools_settle(int device)
{
	each(device, false);
}

void pools_trim(int device)
{
	if (!capture_open())
		each(device, true);
}

static bool any_loose(void)
{
	for (uint32_t i = 0; i < atomic_load(&pools.made); i++)
		if (pools.pool[i].device >= 0 && loose(&pools.pool[i]))
			return true;
	return false;
}

/* While anything is loose every wait looks again: it may be the one that lets go of it. */
void pools_waited(void)
{
	uint32_t due = atomic_load_explicit(&pools.due, memory_order_relaxed);

	if (likely(due == 0) || memory_inside)
		return;
	pools_settle(-1);
	if (!any_loose())
		atomic_compare_exchange_strong(&pools.due, &due, 0);
}

void pools_freed(uint32_t index, uint64_t bytes)
{
	struct pool *pool = &pools.pool[index];

	atomic_fetch_sub(&pool->live, bytes);
	atomic_fetch_sub(&pool->alive, 1);
	if (pool->device >= 0)
		show_loose(pool->device);
	atomic_fetch_add(&pools.due, 1);
	if (lock_if_free(pool))
		unlock(pool);
}

void pools_forget(void)
{
	uint32_t made = atomic_load(&pools.made);

	memset(pools.pool, 0, made * sizeof(pools.pool[0]));
	atomic_store(&pools.made, 0);
	atomic_store(&pools.due, 0);
	memset(&pools.lock, 0, sizeof(pools.lock));
	memset(&pools.loose_lock, 0, sizeof(pools.loose_lock));
}

/* ---- allocating ------------------------------------------------------------------------------ */

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
	pool = handle ? find(handle) : NULL;
	if (pool || !handle)
		return pool;
	for (int i = 0; q->pool && i < (int)atomic_load(&state.devices); i++)
		if (memory_ordinal(i) >= 0 &&
		    memory_driver(real(cuDeviceGetDefaultMemPool)(&other, memory_ordinal(i))) ==
			    CUDA_SUCCESS &&
		    other == handle)
			device = i;
	return add(handle, device);
}

/* Is it the default pool of a device that is not the tenant's? */
static bool foreign(CUmemoryPool handle)
{
	CUmemoryPool other;
	int count = 0;

	if (!handle || find(handle) ||
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
				.owner = (uint64_t)(pool - pools.pool),
				.kind = MEMORY_POOLED,
				.device = (int16_t)pool->device};
	uint64_t before = pool->charged, holds;
	CUresult r;

	/* The worst case is the charge until it is known better. */
	pool->charged += taken;
	r = memory_driver(call(q));
	if (r == CUDA_SUCCESS) {
		entry.address = *q->address;
		holds = attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
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
	settle(pool);
	show_loose(pool->device);
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
	uint64_t in_use = attribute(pool->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool->charged);
	struct collection all = {.owner = (uint64_t)(pool - pools.pool),
				 .most = atomic_load(&pool->alive)};
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
	settle(pool);
	need = (memory_round(q->bytes) + pool->step - 1) / pool->step * pool->step;
	/* What fits into what it holds costs nothing, and must not be refused. */
	if (credit_unused(pool->device) < need && fits(pool, q->bytes))
		r = attempt(pool, q, 0);
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		unlock(pool);
		/* Not with the lock held: this may wait, and trims. */
		r = memory_charge(pool->device, need, CREDIT_WAIT);
		futex_lock_take(&pool->lock);
		if (r == CUDA_SUCCESS)
			r = attempt(pool, q, need);
	}
	unlock(pool);
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
		add(*pool, located(&poolProps->location));
	return r;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool handle)
{
	struct pool *pool = memory_inside || !handle ? NULL : find(handle);
	CUresult r;

	if (!pool)
		return memory_driver(real(cuMemPoolDestroy)(handle));
	futex_lock_take(&pool->lock);
	settle(pool);
	r = memory_driver(real(cuMemPoolDestroy)(handle));
	if (r == CUDA_SUCCESS) {
		/* The handle may be used again; the place is told apart by its index. */
		pool->ended = true;
		atomic_store(&pool->handle, pool->device < 0 ? NULL : (CUmemoryPool)pool);
		settle(pool);
	}
	unlock(pool);
	return r;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
	struct pool *pool = memory_inside || !handle ? NULL : find(handle);
	CUresult r;

	if (!pool)
		return memory_driver(real(cuMemPoolTrimTo)(handle, minBytesToKeep));
	moves_begin();
	futex_lock_take(&pool->lock);
	r = memory_driver(real(cuMemPoolTrimTo)(handle, minBytesToKeep));
	if (atomic_load(&pool->handle))
		settle(pool);
	unlock(pool);
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
		add(*pool_out, -1);
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
