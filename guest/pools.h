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
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Has any pool been used? */
bool pools_used(void);

/* Reads again what the pools of a device (-1: of all) hold, and gives back the difference. */
void pools_settle(int device);

/* The same after asking the driver to let go of what no allocation uses. Not under capture. */
void pools_trim(int device);

/* Work was waited for: memory that was freed in a stream's order may have left its pool. */
void pools_waited(void);

/* The driver has freed an allocation of pool `index`. */
void pools_freed(uint32_t index, uint64_t bytes);

/* In a child of fork(). */
void pools_forget(void);
