/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of linear and pooled addresses, with inline functions for the quick hooks. With an
 * entry end its charge and its kind's own account (guest/memory/ends.c).
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/credit/blocks.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/pointers_quick.h"

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

/* Functions for kinds that have an account of their own: the allocation is about to be freed, and
 * the driver has freed it. Either may be NULL. By kind. */
struct memory_end {
	void (*leaves)(const struct pointer *entry);
	void (*freed)(const struct pointer *entry);
};
extern const struct memory_end memory_ends[MEMORY_KINDS];

/* A charged block was returned to the driver unexpectedly. */
void memory_block_gone(int device);

/* Returns the charge of a block: the allocation filled a gap instead, or the block is gone. */
void memory_block_back(int device);

/* Returns the charge of an allocation with blocks of its own, which the driver has back. */
void memory_large_back(const struct pointer *entry);

/* The parts of the next two that are rarely needed. */
int memory_remember_odd(struct pointer entry);
void memory_drop_late(struct pointer entry);

/* memory_remember(). */
must_check static inline_ int memory_remember_quick(struct pointer entry)
{
	return likely(pointers_put_new(&memory_table, entry)) ? 0 : memory_remember_odd(entry);
}

/* The part of memory_take() for large allocations. An allocation that has just ended with its
 * context must not be confused with a new one at the same address. */
must_check static inline_ int memory_take_remembered(uint64_t address, struct pointer *ret_entry)
{
	if (unlikely(!pointers_take_known(&memory_table, address, ret_entry)))
		return POINTERS_UNKNOWN;
	if (likely((ret_entry->owner & BLOCKS_LEAVING) == 0))
		return 0;
	memory_drop_late(*ret_entry);
	return POINTERS_UNKNOWN;
}

/* The records of linear and pooled addresses. */
must_check int memory_remember(const struct pointer *entry);

/* Calls `each` for every record, with parts of the table locked. */
void memory_each(int (*each)(const struct pointer *entry, void *context), void *context);

/* Call it before an address is freed: removes its entry. 0, POINTERS_UNKNOWN. */
must_check int memory_take(uint64_t address, struct pointer *ret_entry);

/* Call it after the driver returned `r` for freeing the memory of `entry`; returns r. */
CUresult memory_freed(const struct pointer *entry, CUresult r);
