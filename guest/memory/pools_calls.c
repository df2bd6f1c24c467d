/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that allocate from pools, free into them, make and end them. */
#include <errno.h>
#include <stdatomic.h>

#include <sys/mman.h>

#include "guest/contexts/memory_place.h"
#include "guest/credit/amounts.h"
#include "guest/credit/blocks.h"
#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/table.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/gaps.h"
#include "guest/memory/graphs.h"
#include "guest/memory/memory.h"
#include "guest/memory/pools_book.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"

enum {
	POOLS_STEP = 64 << 20, /* the largest step by which a driver is believed to grow a pool */
	SHORTS_FIRST = 16,     /* allocations without credit before credit is asked for ... */
	SHORTS_DOUBLED = 12,   /* ... which doubles up to so many times, if there is none */
};

static inline CUresult call(const struct pools_request *q)
{
	if (q->pool)
		return q->own ? real(cuMemAllocFromPoolAsync_ptsz)(q->address, q->bytes, q->pool,
								   q->stream)
			      : real(cuMemAllocFromPoolAsync)(q->address, q->bytes, q->pool,
							      q->stream);
	return q->own ? real(cuMemAllocAsync_ptsz)(q->address, q->bytes, q->stream)
		      : real(cuMemAllocAsync)(q->address, q->bytes, q->stream);
}

/* Allocates from the pool that is charged, by its handle: another thread may have made another one
 * current. */
static inline CUresult call_from(const struct pool *pool, const struct pools_request *q)
{
	return q->own ? real(cuMemAllocFromPoolAsync_ptsz)(q->address, q->bytes, pool->handle,
							   q->stream)
		      : real(cuMemAllocFromPoolAsync)(q->address, q->bytes, pool->handle,
						      q->stream);
}

static inline CUresult call_free(const struct pools_request *q, CUdeviceptr address)
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
	return driver_call(real(cuStreamIsCapturing)(stream, &status)) == CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* The pool grew by more than expected: the next request expects that. */
static void learn_step(struct pool *pool, uint64_t before, uint64_t expected)
{
	uint64_t grown = pool->charged - before;

	if (pool->charged > before && grown > expected && grown <= POOLS_STEP)
		pool->step = grown;
}

/* With the lock held, after an allocation outside of all firm blocks: charges the pool's growth. */
static noinline_ bool settle(struct pool *pool, const struct pools_request *q, uint64_t held)
{
	uint64_t before = pool->charged;
	uint64_t holds = pools_attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0);
	bool known = holds != 0 && holds % BLOCKS_BYTES == 0;

	pool->held -= held;
	if (holds == 0)
		holds = before; /* the driver does not report it */
	if (holds == before)
		amounts_release(&state.device[pool->device], held);
	else if (!pools_grew(pool, holds, held))
		return false;
	if (known)
		pools_firm_is(pool, *q->address);
	learn_step(pool, before, held);
	return true;
}

/* With the lock held. */
static inline CUresult keep(struct pool *pool, const struct pools_request *q)
{
	uint64_t address = *q->address, before = atomic_fetch_add(&pool->live, q->bytes);
	struct pointer entry = {.address = address,
				.bytes = q->bytes,
				.owner = (uint64_t)(uintptr_t)pool,
				.about = POINTER_ABOUT(0, MEMORY_POOLED, pool->device)};

	atomic_fetch_add(&pool->alive, 1);
	pools_show_change(pool, before, before + q->bytes);
	if (likely(!address || memory_remember_quick(entry) == 0))
		return CUDA_SUCCESS;
	pools_freed(pool, q->bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* With the lock held, and `held` bytes of credit set aside: the worst case, until the real amount
 * is known. */
static CUresult attempt(struct pool *pool, const struct pools_request *q, uint64_t held)
{
	CUresult r;

	pool->held += held;
	r = driver_call(call_from(pool, q));
	if (unlikely(r != CUDA_SUCCESS)) {
		pools_unheld(pool, held);
		pools_recharge(pool);
		return r;
	}
	if (likely(pools_firm_has(pool, *q->address, q->bytes)))
		pools_unheld(pool, held);
	else if (!settle(pool, q, held))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (likely(r == CUDA_SUCCESS))
		r = keep(pool, q);
	if (unlikely(r != CUDA_SUCCESS)) {
		pools_firm_loses(pool, *q->address);
		best_effort(driver_call(call_free(q, *q->address)));
		pools_recharge(pool);
	}
	return r;
}

/* The allocations from one pool. */
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
 * if the driver fills gaps. If it grows pools in large steps, only the sum is known. */
static bool fits(const struct pool *pool, uint64_t bytes)
{
	uint64_t in_use =
		pools_attribute(pool->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool->charged);
	struct collection all = {.owner = (uint64_t)(uintptr_t)pool,
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

/* The most that the driver may take for a request. */
static uint64_t worst_case(const struct pool *pool, uint64_t bytes)
{
	if (likely(bytes <= pool->step))
		return pool->step;
	return (memory_round(bytes) + pool->step - 1) / pool->step * pool->step;
}

/* With the lock held, after a search for room in what the pool holds, for want of credit. The
 * search costs more the more is allocated: after some searches it is worth asking for credit. */
static void want_credit(struct pool *pool, uint64_t need)
{
	if (++pool->shorts < (uint32_t)SHORTS_FIRST << pool->in_vain)
		return;
	pool->shorts = 0;
	if (credit_take(pool->device, need, CREDIT_SPARE) == 0) {
		credit_give(pool->device, need);
		pool->in_vain = 0;
	} else if (pool->in_vain < SHORTS_DOUBLED) {
		pool->in_vain++;
	}
}

/* There is not enough credit. Gives the lock back. */
static noinline_ CUresult allocate_short(struct pool *pool, const struct pools_request *q,
					 uint64_t need, bool mine)
{
	struct state_device *d = &state.device[pool->device];
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	pools_recharge(pool);
	/* An allocation that fits into what the pool holds costs nothing, and must not be refused.
	 */
	if (amounts_hold(d, need)) {
		r = attempt(pool, q, need);
	} else if (fits(pool, q->bytes)) {
		r = attempt(pool, q, 0);
		want_credit(pool, need);
	}
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		pools_unlock(pool, mine);
		/* Not with the lock held: this may wait, and trims. */
		r = memory_charge(pool->device, need, CREDIT_WAIT);
		mine = driver_lock_take(&pool->lock);
		if (r == CUDA_SUCCESS) {
			amounts_allocate(d, -(int64_t)need);
			r = attempt(pool, q, need);
		}
	}
	pools_unlock(pool, mine);
	return r;
}

static CUresult allocate_asking(struct pools_request *q);

/* Takes the lock. */
static CUresult allocate_from(struct pool *pool, CUmemoryPool handle, struct pools_request *q)
{
	uint64_t need;
	CUresult r;
	bool mine;

	changes_begin();
	mine = driver_lock_take(&pool->lock);
	need = worst_case(pool, q->bytes);
	/* A call left the section by a jump. */
	if (unlikely(mine && pool->held))
		pools_unheld(pool, pool->held);
	if (unlikely(pool->handle != handle || pool->ended)) {
		pools_unlock(pool, mine);
		changes_end();
		/* Another thread has just destroyed the pool, but there may be another current one.
		 */
		return q->pool ? CUDA_ERROR_INVALID_VALUE : allocate_asking(q);
	}
	if (likely(amounts_hold(&state.device[pool->device], need))) {
		r = attempt(pool, q, need);
		pools_unlock(pool, mine);
	} else {
		r = allocate_short(pool, q, need, mine);
	}
	changes_end();
	return r;
}

/* Without a pool: charged by the allocation, like linear memory. */
static CUresult call_uncounted(struct memory_request *request)
{
	const struct pools_request *q = (const struct pools_request *)request->pitch;
	CUresult r = call(q);

	if (r == CUDA_SUCCESS)
		request->address = *q->address;
	return r;
}

/* The slow path: no pool is cached for the request, or it is an unusual case. */
static noinline_ CUresult allocate_asking(struct pools_request *q)
{
	struct memory_request uncounted = {.call = call_uncounted, .bytes = q->bytes, .pitch = q};
	struct memory_place place;
	struct pool *pool;
	CUresult r = memory_begin(&place, q->nested);

	if (r != CUDA_SUCCESS)
		return r;
	if (!place.tracked || !q->address || q->bytes == 0)
		return driver_call(call(q));
	if (unlikely(pools_foreign(q->pool)))
		return memory_charge(-1, q->bytes, CREDIT_ASK);
	if (capturing(q->stream, q->own)) {
		graphs_begin();
		return driver_call(call(q));
	}
	r = pools_find_place(q, &place, &pool);
	if (r != CUDA_SUCCESS)
		return r;
	if (!pool)
		return memory_allocate(&place, &uncounted);
	if (pool->device < 0 && place.device >= 0)
		return driver_call(call(q));
	if (pool->device < 0)
		return memory_charge(-1, q->bytes, CREDIT_ASK);
	return allocate_from(pool, pool->handle, q);
}

static noinline_ CUresult allocate(struct pools_request *q)
{
	CUmemoryPool handle;
	struct pool *pool = pools_remembered(q, &handle);

	if (unlikely(!pool || q->nested || !state_joined() || capture_open() || !q->address ||
		     q->bytes == 0))
		return allocate_asking(q);
	return allocate_from(pool, handle, q);
}

CUresult hook_cuMemAllocAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	struct pools_request q = {dptr, bytesize, NULL, hStream, false, driver_nested()};

	return allocate(&q);
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	struct pools_request q = {dptr, bytesize, NULL, hStream, true, driver_nested()};

	return allocate(&q);
}

/* Without a pool the driver has an answer of its own. */
CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	struct pools_request q = {dptr, bytesize, pool, hStream, false, driver_nested()};

	if (!pool)
		return driver_call(real(cuMemAllocFromPoolAsync)(dptr, bytesize, pool, hStream));
	return allocate(&q);
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool,
					   CUstream hStream)
{
	struct pools_request q = {dptr, bytesize, pool, hStream, true, driver_nested()};

	if (!pool)
		return driver_call(
			real(cuMemAllocFromPoolAsync_ptsz)(dptr, bytesize, pool, hStream));
	return allocate(&q);
}

/* In a capture this becomes a node, which may only free memory of nodes: for an allocation in our
 * table the driver refuses it, and the entry goes back. */
static noinline_ CUresult free_async_odd(struct pointer entry, const struct pools_request *q)
{
	CUresult r;

	changes_begin();
	if (entry.kind == MEMORY_MOVABLE)
		r = movable_free_in(&entry, q->stream, q->own);
	/* For the program this is plain memory, but the driver may refuse to free managed memory in
	 * this way. */
	else if (entry.kind == MEMORY_OVERSIZE && !capturing(q->stream, q->own))
		r = driver_call(real(cuMemFree_v2)(entry.address));
	else
		r = driver_call(call_free(q, entry.address));
	r = memory_freed(&entry, r);
	changes_end();
	return r;
}

/* An address that is not in the table is a small allocation, or unknown to us, and the driver
 * decides. */
static noinline_ CUresult free_async_unknown(CUdeviceptr address, const struct pools_request *q)
{
	struct pointer entry;

	if (!q->nested && memory_take(address, &entry) == 0)
		return free_async_odd(entry, q);
	return driver_call(call_free(q, address));
}

static noinline_ void refused(struct pointer entry, CUresult r)
{
	best_effort(memory_freed(&entry, r));
}

static inline_ CUresult free_async(CUdeviceptr address, CUstream stream, bool own, bool nested)
{
	struct pools_request q = {.stream = stream, .own = own, .nested = nested};
	struct pointer entry;
	struct pool *pool;
	CUresult r;

	if (unlikely(nested || memory_take_remembered(address, &entry) != 0))
		return free_async_unknown(address, &q);
	/* In a copy of a process the page is still the parent's (guest/process/join.c). */
	if (unlikely(!state_joined()))
		return driver_call(call_free(&q, address));
	if (unlikely(entry.kind != MEMORY_POOLED))
		return free_async_odd(entry, &q);
	pool = (struct pool *)(uintptr_t)entry.owner;
	changes_begin();
	pools_firm_loses(pool, address);
	r = driver_call(call_free(&q, address));
	if (likely(r == CUDA_SUCCESS))
		pools_freed(pool, entry.bytes);
	else
		refused(entry, r);
	changes_end();
	return r;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr_v2 dptr, CUstream hStream)
{
	return free_async(dptr, hStream, false, driver_nested());
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr_v2 dptr, CUstream hStream)
{
	return free_async(dptr, hStream, true, driver_nested());
}
