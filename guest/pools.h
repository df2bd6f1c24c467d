/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered memory: pools are the driver's own, and what one holds is not what was allocated
 * from it but what it has reserved. So a pool is charged by its RESERVED_MEM_CURRENT: before an
 * allocation by as much as it may grow, afterwards by as much as it did, and again whenever it may
 * have shrunk. Near the limit pools are trimmed before anything is refused.
 *
 * Allocations inside a stream capture become graph nodes: guest/graphs.h.
 *
 * Imported pools are their exporter's to pay. Pools of host memory are not device memory.
 *
 * A pool that the program destroys while anything is allocated from it, or is still being freed in
 * some stream's order, is destroyed by us when it holds nothing any more: of one that is gone
 * nobody could ask what it holds. A pool that cannot be followed (there are 1,024) is not made.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Has any pool been used? */
bool pools_used(void);

/* Reads again what the pools of a device (-1: of all) hold, and gives back the difference. */
void pools_settle(int device);

/* The same after asking the driver to let go of what no allocation uses. Not under capture. */
void pools_trim(int device);

/* Has anything been freed in a stream's order that may be in its pool still? */
extern _Atomic uint32_t pools_due;
static inline bool pools_await(void)
{
	return atomic_load_explicit(&pools_due, memory_order_relaxed) != 0;
}

/* Work was waited for: memory that was freed in a stream's order may have left its pool. */
void pools_waited(void);

struct pool;

/* An allocation of the pool is about to be freed; the driver has freed it. */
void pools_leaves(struct pool *pool);
void pools_freed(struct pool *pool, uint64_t bytes);

/* Which pool serves an allocation may have changed: another one is a device's current one, or a
 * stream's handle may be that of another. */
extern _Atomic uint32_t pools_era; /* less one */
void pools_changed(void);

/* In a child of fork(). */
void pools_forget(void);
