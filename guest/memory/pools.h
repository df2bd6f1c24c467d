/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered memory. Pools belong to the driver, and a pool holds what it has reserved, not
 * only what was allocated from it. A pool's charge is therefore its RESERVED_MEM_CURRENT: before an
 * allocation the possible growth is charged, afterwards the actual growth, and the charge is
 * updated whenever the pool may have shrunk. Near the limit, pools are trimmed before anything is
 * refused.
 *
 * Allocations inside a stream capture become graph nodes: guest/memory/graphs.h.
 *
 * Imported pools are charged to their exporter. Pools of host memory are not device memory.
 *
 * If the program destroys a pool while it has allocations, or memory that is still being freed in
 * stream order, we destroy it only when it is empty: a destroyed pool could not be asked what it
 * holds. If a pool cannot be tracked (there are at most 1,024), it is not created.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "guest/credit/pointers.h"

/* Rereads what the pools of a device (-1: all) hold, and returns the difference. */
void pools_settle(int device);

/* Has anything been freed in stream order that may still be in its pool? */
extern _Atomic uint32_t pools_due;
static inline bool pools_await(void)
{
	return atomic_load_explicit(&pools_due, memory_order_relaxed) != 0;
}

/* The program has waited for work: memory that was freed in stream order may have left its pool. */
void pools_waited(void);

struct pool;

/* The pool of an entry of kind MEMORY_POOLED. */
static inline struct pool *memory_pool_of(const struct pointer *entry)
{
	return (struct pool *)(uintptr_t)entry->owner;
}

/* An allocation of the pool is about to be freed; the driver has freed it. */
void pools_leaves(struct pool *pool);
void pools_freed(struct pool *pool, uint64_t bytes);

/* The same, for an entry of the table. */
void pools_entry_leaves(const struct pointer *entry);
void pools_entry_freed(const struct pointer *entry);

/* The pool that serves an allocation may have changed: a device has another current pool, or a
 * stream's handle may have been reused. */
extern _Atomic uint32_t pools_era; /* less one */
void pools_changed(void);
