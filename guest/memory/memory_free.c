/* SPDX-License-Identifier: Apache-2.0 */
/* Freeing linear memory. The usual ways are short: for a small allocation, and for one with blocks
 * of its own. */
#include "guest/credit/amounts.h"
#include "guest/credit/blocks.h"
#include "guest/credit/credit.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/scarce.h"
#include "guest/credit/table.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"
#include "guest/thread.h"

/* The driver judges addresses that we do not know. */
static noinline_ CUresult free_unknown(CUdeviceptr address)
{
	return driver_call(real(cuMemFree_v2)(address));
}

/* The last allocation in its block: the block will go, which is a change. */
static noinline_ CUresult free_last(CUdeviceptr address, struct block *block, unsigned units)
{
	struct pointer entry = memory_small_entry(block, address, units);
	CUresult r;

	changes_begin();
	r = memory_freed(&entry, driver_call(real(cuMemFree_v2)(address)));
	changes_end();
	return r;
}

/* It was the last in its block after all. */
static noinline_ void last_gone(int device)
{
	scarce_over();
	memory_block_gone(device);
}

/* Frees an allocation that shares a block. false: it does not. */
static inline_ bool free_small(CUdeviceptr address, CUresult *ret_result)
{
	unsigned units;
	struct block *block = blocks_detach(address, &units);
	CUresult r;
	int device;

	if (unlikely(!block))
		return false;
	if (unlikely(units & BLOCKS_LAST)) {
		*ret_result = free_last(address, block, units);
		return true;
	}
	r = driver_call(real(cuMemFree_v2)(address));
	device = blocks_device(block);
	if (unlikely(r != CUDA_SUCCESS))
		blocks_attach(block, address, units);
	else if (unlikely(blocks_freed(block, address, units) == BLOCKS_EMPTY))
		last_gone(device);
	*ret_result = r;
	return true;
}

/* Frees an allocation from the table that is not a plain large one. */
static noinline_ CUresult free_odd(struct pointer entry)
{
	CUresult r;

	if (memory_ends[entry.kind].leaves)
		memory_ends[entry.kind].leaves(&entry);
	changes_begin();
	if (entry.kind == MEMORY_MOVABLE)
		r = movable_free(&entry);
	else
		r = driver_call(real(cuMemFree_v2)(entry.address));
	r = memory_freed(&entry, r);
	changes_end();
	return r;
}

static noinline_ void refused(struct pointer entry, CUresult r)
{
	best_effort(memory_freed(&entry, r));
}

/* Frees an allocation that was in the table. */
static inline_ CUresult free_taken(struct pointer entry)
{
	struct guest_thread *me = &guest_thread;
	uint64_t credit;
	CUresult r;

	/* In a copy of a process the page is still the parent's (guest/process/join.c). */
	if (unlikely(!state_joined()))
		return free_unknown(entry.address);
	if (unlikely(entry.about << 16 != POINTER_ABOUT(0, MEMORY_LARGE, 0) << 16))
		return free_odd(entry);
	changes_begin();
	me->inside = 1;
	r = real(cuMemFree_v2)(entry.address);
	me->inside = 0;
	if (likely(r == CUDA_SUCCESS)) {
		credit = amounts_give(&state.device[entry.device], entry.bytes);
		if (unlikely(credit > 2ULL * CREDIT_KEPT))
			credit_surplus(entry.device, credit);
	} else {
		refused(entry, r);
	}
	changes_end();
	return r;
}

static noinline_ CUresult free_small_first(CUdeviceptr address)
{
	struct pointer entry;
	CUresult r;

	if (likely(free_small(address, &r)))
		return r;
	return memory_take_remembered(address, &entry) == 0 ? free_taken(entry)
							    : free_unknown(address);
}

static noinline_ CUresult free_large_first(CUdeviceptr address)
{
	struct pointer entry;

	return likely(memory_take_remembered(address, &entry) == 0) ? free_taken(entry)
								    : free_small_first(address);
}

/* The slow path: the thread is in a call of ours, or left one by a jump. */
static noinline_ CUresult free_inside(CUdeviceptr address, const void *caller)
{
	if (real_is_driver(caller))
		return free_unknown(address);
	return free_large_first(address);
}

/* Large allocations begin with a block; few small ones do. */
CUresult hook_cuMemFree_v2(CUdeviceptr_v2 dptr)
{
	if (unlikely(driver_inside))
		return free_inside(dptr, __builtin_return_address(0));
	return dptr % BLOCKS_BYTES == 0 ? free_large_first(dptr) : free_small_first(dptr);
}

CUresult hook_cuMemFree(CUdeviceptr_v1 dptr)
{
	struct pointer entry;
	CUresult r;

	if (unlikely(driver_nested() || memory_take(dptr, &entry) != 0))
		return driver_call(real(cuMemFree)(dptr));
	changes_begin();
	r = entry.kind == MEMORY_MOVABLE ? movable_free(&entry)
					 : driver_call(real(cuMemFree)(dptr));
	r = memory_freed(&entry, r);
	changes_end();
	return r;
}
