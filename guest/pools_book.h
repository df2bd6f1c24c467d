/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pools.c keeps of each pool, for pools_calls.c, which has the calls, and pools_place.c, which
 * knows whose they are. Nobody else's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "guest/amounts.h"
#include "guest/blocks.h"
#include "guest/current.h"
#include "guest/driver_lock.h"
#include "guest/memory.h"
#include "guest/pools.h"

enum {
	POOLS_FIRM = 64,      /* blocks that are known so */
	POOLS_FIRM_BITS = 20, /* of the count; 43 are of the number */
	POOLS_FIRM_MOST = (1 << POOLS_FIRM_BITS) - 1,
};

struct pool {
	struct driver_lock lock;      /* of what follows; held while the driver allocates */
	_Atomic(CUmemoryPool) handle; /* NULL: a free place */
	int device;		      /* -1: not device memory, or not ours to pay */
	bool ended;		      /* destroyed by the program; goes when it holds nothing */
	_Atomic uint64_t charged;
	uint64_t held; /* credit that is kept aside for a call that is under way, or was left */
	_Atomic uint64_t kept;		   /* so much the driver does not let go of by itself */
	uint64_t step;			   /* it grows by multiples of this, as far as was seen */
	_Atomic uint32_t alive;		   /* allocations, ... */
	_Atomic uint64_t live;		   /* ... of so many bytes */
	_Atomic uint32_t owing;		   /* there is something to settle */
	uint32_t shorts, in_vain;	   /* see want_credit() */
	_Atomic uint64_t firm[POOLS_FIRM]; /* see pools_firm_has() */
};

/* Where a block of the pool stands that is known to be charged, as at least one allocation in it
 * has been alive ever since the driver was asked what the pool holds: its number, and how many such
 * allocations are known. What the driver puts into it takes nothing more, and the driver need not
 * be asked. */
static inline _Atomic uint64_t *pools_firm_place(struct pool *pool, uint64_t address)
{
	return &pool->firm[address / BLOCKS_BYTES % POOLS_FIRM];
}

/* With the lock held: does an allocation lie in such a block? Then it counts. */
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

/* Before an allocation is freed. That it was not counted, or is not freed after all, does no harm:
 * the driver is asked sooner. */
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

/* Nothing is known any more. */
static inline void pools_firm_forget(struct pool *pool)
{
	for (int i = 0; i < POOLS_FIRM; i++)
		atomic_store_explicit(&pool->firm[i], 0, memory_order_seq_cst);
}

/* NULL: not known. */
struct pool *pools_find(CUmemoryPool handle);

/* Knowing a pool twice is harmless. NULL: the table is full. */
struct pool *pools_add(CUmemoryPool handle, int device);

/* `otherwise`: where the driver does not say. */
uint64_t pools_attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t otherwise);

/* With the pool's lock held: the charge becomes what the pool holds. What it holds beyond its
 * charge, and cannot be had, stays owing until the next time. The end of one that has ended. */
void pools_recharge(struct pool *pool);

/* The same, where the caller has just asked the driver how much that is. */
void pools_recharge_to(struct pool *pool, uint64_t holds);

/* After a call for which `held` bytes of credit were kept aside the pool holds `holds`: these
 * become its charge, and what is left of `held` is credit again. false: more is needed, and cannot
 * be had. */
must_check bool pools_grew(struct pool *pool, uint64_t holds, uint64_t held);

/* The same, where it took nothing, or was left by a jump. */
static inline void pools_unheld(struct pool *pool, uint64_t held)
{
	amounts_release(&state.device[pool->device], held);
	pool->held -= held;
}

/* Does what others that found the lock taken have left to do. */
void pools_do_owed(struct pool *pool);

/* Gives the lock back. */
static inline void pools_unlock(struct pool *pool, bool mine)
{
	driver_lock_give(&pool->lock, mine);
	if (unlikely(atomic_load_explicit(&pool->owing, memory_order_seq_cst)))
		pools_do_owed(pool);
}

/* Says how much of a device's pools the driver may let go of. Part of a move. */
void pools_show_loose(int device);

/* So many bytes are alive now, and so many were: what is loose is another amount when another block
 * is in use. */
static inline void pools_show_change(const struct pool *pool, uint64_t before, uint64_t now)
{
	if (unlikely((before ^ now) / BLOCKS_BYTES) && pool->device >= 0)
		pools_show_loose(pool->device);
}

/* ---- guest/pools_place.c --------------------------------------------------------------------- */

/* The forms of the call that allocates. */
struct pools_request {
	CUdeviceptr *address;
	size_t bytes;
	CUmemoryPool pool; /* NULL: the current one of the stream's device */
	CUstream stream;
	bool own; /* stream 0 is the thread's own */
	bool nested;
};

/* The pool that will serve the request; NULL: it is not known, find out. `*ret_handle` is to be
 * compared with the pool's when that is locked. */
static inline struct pool *pools_remembered(const struct pools_request *q, CUmemoryPool *ret_handle)
{
	const struct pools_own *own = &guest_thread.pools;
	const struct current *now = &guest_thread.current;

	if (unlikely(now->era != atomic_load_explicit(&current_era, memory_order_relaxed) + 1 ||
		     own->current_era != now->era || own->context != now->context ||
		     own->stream != q->stream || own->asked != q->pool ||
		     own->era != atomic_load_explicit(&pools_era, memory_order_relaxed) + 1))
		return NULL;
	*ret_handle = own->handle;
	return own->pool;
}

/* Finds out, and remembers it. NULL: the driver has none, and the allocation is charged by itself.
 * What is not CUDA_SUCCESS is to be answered. A pool that nobody told us of is a device's default
 * one. `place` is where the thread is, and becomes where the stream's work runs. */
must_check CUresult pools_find_place(const struct pools_request *q, struct memory_place *place,
				     struct pool **ret_pool);

/* Is it the default pool of a device that is not the tenant's? */
bool pools_foreign(CUmemoryPool handle);
