/* SPDX-License-Identifier: Apache-2.0 */
/* The table of linear and pooled addresses, for the hooks that are to be quick. */
#pragma once

#include "guest/memory/blocks.h"
#include "guest/memory/memory.h"
#include "guest/memory/pointers_quick.h"
#include "guest/memory/pools.h"

extern struct pointers memory_table;

/* A small allocation as an entry, which is not in the table. */
static inline struct pointer memory_small_entry(struct block *block, uint64_t address,
						unsigned units)
{
	return (struct pointer){.address = address,
				.owner = (uint64_t)(uintptr_t)block,
				.detail = units,
				.kind = MEMORY_SMALL,
				.device = (int16_t)blocks_device(block)};
}

static inline struct pool *memory_pool_of(const struct pointer *entry)
{
	return (struct pool *)(uintptr_t)entry->owner;
}

/* A charged block was returned to the driver unexpectedly. */
void memory_block_gone(int device);

/* The parts of the next two that are rarely needed. */
int memory_remember_odd(struct pointer entry);
void memory_drop_late(struct pointer entry);

/* memory_remember(). */
must_check static inline_ int memory_remember_quick(struct pointer entry)
{
	return likely(pointers_put_new(&memory_table, entry)) ? 0 : memory_remember_odd(entry);
}

/* The part of memory_take() for large allocations. An allocation that just went with its context
 * is not the one that may be at the same address now. */
must_check static inline_ int memory_take_remembered(uint64_t address, struct pointer *ret_entry)
{
	if (unlikely(!pointers_take_known(&memory_table, address, ret_entry)))
		return POINTERS_UNKNOWN;
	if (likely((ret_entry->owner & BLOCKS_LEAVING) == 0))
		return 0;
	memory_drop_late(*ret_entry);
	return POINTERS_UNKNOWN;
}
