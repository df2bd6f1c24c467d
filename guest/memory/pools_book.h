/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that pools.c keeps of each pool, for pools_calls.c, which has the calls, and
 * pools_place.c, which finds their owners. No other file includes this.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "guest/contexts/current.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/amounts.h"
#include "guest/credit/blocks.h"
#include "guest/driver_lock.h"
#include "guest/memory/pools.h"
#include "guest/process/state.h"
#include "guest/thread.h"

enum {
	POOLS_FIRM = 64,      /* the most blocks that are remembered as firm */
	POOLS_FIRM_BITS = 20, /* bits of the count; the block's number has 43 */
	POOLS_FIRM_MOST = (1 << POOLS_FIRM_BITS) - 1,
};

struct pool {
	struct driver_lock lock;      /* of the following; held while the driver allocates */
	_Atomic(CUmemoryPool) handle; /* NULL: a free place */
	int device;		      /* -1: not device memory, or not ours to pay */
	bool ended;		      /* destroyed by the program; really destroyed when empty */
	_Atomic uint64_t charged;
	uint64_t held; /* credit set aside for a call that is in progress, or was left by a jump */
	_Atomic uint64_t kept;		   /* the driver does not release this much by itself */
	uint64_t step;			   /* it grows by multiples of this, as observed so far */
	_Atomic uint32_t alive;		   /* allocations, ... */
	_Atomic uint64_t live;		   /* ... and their bytes */
	_Atomic uint32_t owing;		   /* there is something to settle */
	uint32_t shorts, in_vain;	   /* see want_credit() */
	_Atomic uint64_t firm[POOLS_FIRM]; /* see pools_firm_has() */
};

/* The word of a firm block: its number, and how many allocations in it are known. A block is firm,
 * that is known to be charged, if an allocation in it has been alive ever since the driver was
 * asked what the pool holds. Further allocations in it take no more memory, so the driver need not
 * be asked. */
static inline _Atomic uint64_t *pools_firm_place(struct pool *pool, uint64_t address)
{
	return &pool->firm[address / BLOCKS_BYTES % POOLS_FIRM];
}

/* With the lock held: is an allocation in such a block? Then it is counted. */
static inline bool pools_firm_has(struct pool *pool, uint64_t address, uint64_t bytes)
{
	_Atomic uint64_t *place = pools_firm_place(pool, address);
	uint64_t firm = atomic_load_explicit(place, memory_order_relaxed);
	uint64_t first = address / BLOCKS_BYTES, last = (address + bytes - 1) / BLOCKS_BYTES;

	do {
		if (firm >> POOLS_FIRM_BITS != first || first != last ||
		    (firm & POOLS_FIRM_MOST) == 0 || (firm & POOLS_FIRM_MOST) == POOLS_FIRM_MOST)
			return false;
	} while (!atomic_compare_exchange_weak(place, &firm, firm + 1));
	return true;
}

/* With the lock held, after the driver was asked: the block of this allocation is charged. */
static inline void pools_firm_is(struct pool *pool, uint64_t address)
{
	_Atomic uint64_t *place = pools_firm_place(pool, address);

	if (atomic_load(place) >> POOLS_FIRM_BITS != address / BLOCKS_BYTES ||
	    (atomic_load(place) & POOLS_FIRM_MOST) == 0)
		atomic_store(place, address / BLOCKS_BYTES << POOLS_FIRM_BITS | 1);
}

/* Call it before an allocation is freed. If the allocation was not counted, or is not freed after
 * all, this does no harm: the driver is only asked sooner. */
static inline void pools_firm_loses(struct pool *pool, uint64_t address)
{
	_Atomic uint64_t *place = pools_firm_place(pool, address);
	uint64_t firm = atomic_load_explicit(place, memory_order_relaxed);

	do {
		if (firm >> POOLS_FIRM_BITS != address / BLOCKS_BYTES ||
		    (firm & POOLS_FIRM_MOST) == 0)
			return;
	} while (!atomic_compare_exchange_weak(place, &firm, firm - 1));
}

/* Forgets all firm blocks. */
static inline void pools_firm_forget(struct pool *pool)
{
	for (int i = 0; i < POOLS_FIRM; i++)
		atomic_store_explicit(&pool->firm[i], 0, memory_order_seq_cst);
}

/* NULL: not known. */
struct pool *pools_find(CUmemoryPool handle);

/* Knowing a pool twice is harmless. NULL: the table is full. */
struct pool *pools_add(CUmemoryPool handle, int device);

/* `otherwise`: the result if the driver does not report it. */
uint64_t pools_attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t otherwise);

/* With the pool's lock held: sets the charge to what the pool holds. An excess for which there
 * is no credit stays owed until the next time. Also finishes the destruction of a destroyed
 * pool. */
void pools_recharge(struct pool *pool);

/* The same, if the caller has just asked the driver for the figure. */
void pools_recharge_to(struct pool *pool, uint64_t holds);

/* After a call for which `held` bytes of credit were set aside, the pool holds `holds` bytes:
 * they become its charge, and the rest of `held` becomes credit again. false: more is needed and
 * not available. */
must_check bool pools_grew(struct pool *pool, uint64_t holds, uint64_t held);

/* The same for a call that took nothing, or was left by a jump. */
static inline void pools_unheld(struct pool *pool, uint64_t held)
{
	amounts_release(&state.device[pool->device], held);
	pool->held -= held;
}

/* Settles what other threads left, because the lock was taken. */
void pools_do_owed(struct pool *pool);

/* Gives the lock back. */
static inline void pools_unlock(struct pool *pool, bool mine)
{
	driver_lock_give(&pool->lock, mine);
	if (unlikely(atomic_load_explicit(&pool->owing, memory_order_seq_cst)))
		pools_do_owed(pool);
}

/* Updates how much of a device's pools the driver may release. Part of a change. */
void pools_show_loose(int device);

/* The live bytes now and before: the loose amount changes if the number of blocks in use
 * changes. */
static inline void pools_show_change(const struct pool *pool, uint64_t before, uint64_t now)
{
	if (unlikely((before ^ now) / BLOCKS_BYTES) && pool->device >= 0)
		pools_show_loose(pool->device);
}

/* ---- guest/memory/pools_place.c -------------------------------------------------------------- */

/* The forms of the call that allocates. */
struct pools_request {
	CUdeviceptr *address;
	size_t bytes;
	CUmemoryPool pool; /* NULL: the current one of the stream's device */
	CUstream stream;
	bool own; /* stream 0 is the thread's own */
	bool nested;
};

/* The pool that will serve the request; NULL: unknown, find it. `*ret_handle` is to be compared
 * with the pool's when that is locked. */
static inline struct pool *pools_remembered(const struct pools_request *q, CUmemoryPool *ret_handle)
{
	const struct pools_own *own = &guest_thread.pools;
	const struct current *now = &guest_thread.current;

	if (unlikely(!current_holds() || own->current_era != now->known ||
		     own->context != now->context || own->stream != q->stream ||
		     own->asked != q->pool ||
		     own->era != atomic_load_explicit(&pools_era, memory_order_relaxed) + 1))
		return NULL;
	*ret_handle = own->handle;
	return own->pool;
}

/* Finds the pool and caches it. NULL: the driver has none, and the allocation is charged on its
 * own. The call must return any result that is not CUDA_SUCCESS. A pool that we have not seen is a
 * device's default one. `place` is the thread's, and becomes that of the stream's work. */
must_check CUresult pools_find_place(const struct pools_request *q, struct memory_place *place,
				     struct pool **ret_pool);

/* Is it the default pool of a device that is not the tenant's? */
bool pools_foreign(CUmemoryPool handle);
