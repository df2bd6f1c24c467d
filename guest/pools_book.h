/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pools.c keeps of each pool, for pools_calls.c, which has the calls. Nobody else's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "guest/futex.h"
#include "guest/pools.h"

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

/* NULL: not known. */
struct pool *pools_find(CUmemoryPool handle);

/* Knowing a pool twice is harmless. NULL: the table is full. */
struct pool *pools_add(CUmemoryPool handle, int device);

/* What an entry of memory has as its owner; see pools_freed(). */
uint32_t pools_index(const struct pool *pool);

/* `otherwise`: where the driver does not say. */
uint64_t pools_attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t otherwise);

/* With the pool's lock held: the charge becomes what the pool holds. What it holds beyond its
 * charge, and cannot be had, stays owing until the next time. */
void pools_recharge(struct pool *pool);

/* Gives the lock back, and does what others that found it locked have left to do. */
void pools_unlock(struct pool *pool);

/* Says how much of a device's pools the driver may let go of. Part of a move. */
void pools_show_loose(int device);
