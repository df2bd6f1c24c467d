/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/table.h"

#include <string.h>

#include "guest/contexts/current.h"
#include "guest/credit/credit.h"
#include "guest/credit/pointers.h"
#include "guest/credit/scarce.h"
#include "guest/driver/nested.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"

struct pointers memory_table;

static struct block *block_of(const struct pointer *entry)
{
	return (struct block *)(uintptr_t)entry->owner;
}

void memory_block_back(int device)
{
	scarce_over();
	credit_give(device, BLOCKS_BYTES);
}

void memory_large_back(const struct pointer *entry)
{
	if (unlikely(entry->detail == MEMORY_MANAGED))
		credit_adrift(entry->device, -(int64_t)entry->bytes);
	credit_give(entry->device, entry->bytes);
}

static void drop(const struct pointer *entry)
{
	switch (entry->kind) {
	case MEMORY_LARGE:
		memory_large_back(entry);
		break;
	case MEMORY_SMALL:
		if (blocks_freed(block_of(entry), entry->address, entry->detail) == BLOCKS_EMPTY)
			memory_block_back(entry->device);
		break;
	default:
		if (memory_ends[entry->kind].leaves)
			memory_ends[entry->kind].leaves(entry);
		if (memory_ends[entry->kind].freed)
			memory_ends[entry->kind].freed(entry);
		break;
	}
}

int memory_remember_odd(struct pointer entry)
{
	struct pointer old;
	int r = pointers_put(&memory_table, &entry, &old);

	/* The older one was freed in a way that no hook saw. */
	if (r == POINTERS_REPLACED) {
		drop(&old);
		r = 0;
	}
	return r;
}

int memory_remember(const struct pointer *entry)
{
	return memory_remember_quick(*entry);
}

void memory_each(int (*each)(const struct pointer *entry, void *context), void *context)
{
	pointers_sweep(&memory_table, each, context);
}

noinline_ void memory_drop_late(struct pointer entry)
{
	drop(&entry);
}

int memory_take(uint64_t address, struct pointer *ret_entry)
{
	unsigned units;
	struct block *block = blocks_detach(address, &units);

	if (block)
		*ret_entry = memory_small_entry(block, address, units);
	else if (memory_take_remembered(address, ret_entry) != 0)
		return POINTERS_UNKNOWN;
	if (memory_ends[ret_entry->kind].leaves)
		memory_ends[ret_entry->kind].leaves(ret_entry);
	return 0;
}

CUresult memory_freed(const struct pointer *entry, CUresult r)
{
	struct pointer newer;

	if (likely(r == CUDA_SUCCESS)) {
		drop(entry);
		return r;
	}
	if (entry->kind == MEMORY_SMALL) {
		blocks_attach(block_of(entry), entry->address, entry->detail);
		return r;
	}
	if (pointers_put(&memory_table, entry, &newer) != POINTERS_REPLACED)
		return r;
	/* Another thread was given the address meanwhile: so this allocation had been freed after
	 * all. */
	if (memory_remember(&newer) < 0)
		drop(&newer);
	return r;
}

/* Small allocations are no changes, except where a whole block comes or goes. */
noinline_ void memory_block_gone(int device)
{
	changes_begin();
	credit_give(device, BLOCKS_BYTES);
	changes_end();
}

void memory_forget(void)
{
	current_changed();
	pointers_forget(&memory_table);
	memset(&changes_own, 0, sizeof(changes_own));
	driver_inside = 0;
}
