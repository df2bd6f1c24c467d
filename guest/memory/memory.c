/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/table.h"

#include <string.h>

#include "guest/contexts/current.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/amounts.h"
#include "guest/credit/blocks.h"
#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/scarce.h"
#include "guest/credit/view.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/arrays.h"
#include "guest/memory/graphs.h"
#include "guest/memory/heaps.h"
#include "guest/memory/memory.h"
#include "guest/memory/oversize.h"
#include "guest/memory/pools.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"
#include "guest/thread.h"

enum {
	ATTEMPTS = 2,
};

/* Outcomes of keep() if the allocation was returned to the driver. */
enum {
	KEEP_SHORT = 1, /* the driver took more than was charged, and there is no credit for it */
	KEEP_FULL,	/* it cannot be remembered */
};

/* Corrects a charge of `taken` bytes to `need`, if the credit suffices. The daemon is not asked:
 * the memory exists already, and would be beyond the limit until the answer. */
static bool pay(int device, uint64_t need, uint64_t taken)
{
	if (need < taken)
		credit_give(device, taken - need);
	return need <= taken || credit_take(device, need - taken, CREDIT_LOCAL) == 0;
}

static void take_back(uint64_t address, bool noted)
{
	struct pointer entry;
	CUresult r;

	if (noted && memory_take(address, &entry) == 0) {
		r = driver_call(real(cuMemFree_v2)(address));
		best_effort(memory_freed(&entry, r));
	} else {
		best_effort(driver_call(real(cuMemFree_v2)(address)));
	}
}

/* For an allocation that shares a block, after blocks_put() answered `put` and a block was charged
 * in advance. */
static noinline_ int keep_small(int device, uint64_t address, struct block *block, int put)
{
	if (unlikely(put < 0)) {
		take_back(address, false);
		memory_block_back(device);
		return KEEP_FULL;
	}
	if (put == 0 || blocks_paid(block))
		memory_block_back(device);
	return 0;
}

/* Likewise, for an allocation that relied on a gap: between scarce_begin() and scarce_end(). */
static int keep_gap(int device, uint64_t address, struct block *block, int put)
{
	if (put == 0)
		return 0;
	if (put == BLOCKS_UNPAID && credit_take(device, BLOCKS_BYTES, CREDIT_LOCAL) == 0) {
		if (blocks_paid(block))
			credit_give(device, BLOCKS_BYTES);
		return 0;
	}
	take_back(address, put >= 0);
	return put < 0 ? KEEP_FULL : KEEP_SHORT;
}

/* Remembers an allocation with blocks of its own, which is charged. */
static int keep_large(const struct pointer *entry)
{
	if (unlikely(entry->detail == MEMORY_MANAGED))
		credit_adrift(entry->device, (int64_t)entry->bytes);
	if (likely(memory_remember(entry) == 0))
		return 0;
	best_effort(driver_call(real(cuMemFree_v2)(entry->address)));
	memory_large_back(entry);
	return KEEP_FULL;
}

/* Corrects the charge of `taken` bytes to what the driver took, and remembers the address. 0 bytes:
 * the allocation relies on a gap. */
static int keep(const struct memory_place *place, const struct memory_request *q, uint64_t taken)
{
	struct pointer entry = {.address = q->address,
				.bytes = memory_round(q->bytes),
				.owner = (uint64_t)(uintptr_t)place->context,
				.detail = q->managed ? MEMORY_MANAGED : 0,
				.kind = MEMORY_LARGE,
				.device = (int16_t)place->device};
	struct block *block = NULL;
	int put;

	if (!q->shares || q->bytes > BLOCKS_SMALL) {
		if (pay(place->device, entry.bytes, taken))
			return keep_large(&entry);
		best_effort(driver_call(real(cuMemFree_v2)(q->address)));
		credit_give(place->device, taken);
		return KEEP_SHORT;
	}
	put = blocks_put(place->device, (uint64_t)(uintptr_t)place->context, q->address, q->bytes,
			 &block);
	return taken ? keep_small(place->device, q->address, block, put)
		     : keep_gap(place->device, q->address, block, put);
}

/* Calls the driver, with `taken` bytes charged. If they do not suffice, tries once more with the
 * real amount, unless the allocation relied on a gap. */
static CUresult attempt(const struct memory_place *place, struct memory_request *q, uint64_t taken,
			enum credit_how how)
{
	uint64_t expected = q->bytes;
	int most = taken ? ATTEMPTS : 1;
	CUresult r;
	int kept;

	for (int tries = 0; tries < most; tries++) {
		r = driver_call(q->call(q));
		if (unlikely(r != CUDA_SUCCESS || !q->address)) {
			credit_give(place->device, taken);
			q->bytes = expected;
			return r;
		}
		kept = keep(place, q, taken);
		if (likely(kept == 0))
			return r;
		taken = memory_round(q->bytes);
		q->bytes = expected;
		if (kept != KEEP_SHORT || tries + 1 == most ||
		    memory_charge(place->device, taken, how) != CUDA_SUCCESS)
			break;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* There is no credit for another block. An allocation that fits into a block that we hold costs
 * nothing. */
static CUresult allocate_scarce(const struct memory_place *place, struct memory_request *q)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	uint32_t ticket = scarce_begin();

	if (blocks_fit(place->device, (uint64_t)(uintptr_t)place->context, q->bytes))
		r = attempt(place, q, 0, CREDIT_LOCAL);
	scarce_end(ticket);
	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	r = memory_charge(place->device, BLOCKS_BYTES, CREDIT_WAIT);
	return r ? r : attempt(place, q, BLOCKS_BYTES, CREDIT_WAIT);
}

/* Gets credit for a block in advance, if the daemon is not going to refuse it. */
static noinline_ bool stock_up(int device)
{
	if (view_free_seen(device) < BLOCKS_BYTES ||
	    memory_charge(device, BLOCKS_BYTES, CREDIT_ASK))
		return false;
	credit_give(device, BLOCKS_BYTES);
	return true;
}

static CUresult allocate(const struct memory_place *place, struct memory_request *q)
{
	uint64_t taken = memory_round(q->bytes);
	CUresult r;

	if (q->movable && movable_serves(place->device)) {
		r = movable_allocate(place, q);
		if (r != CUDA_ERROR_NOT_SUPPORTED)
			return r;
	}
	if (q->shares && q->bytes <= BLOCKS_SMALL &&
	    unlikely(place->device < 0 ||
		     (credit_unused(place->device) < BLOCKS_BYTES && !stock_up(place->device))))
		return allocate_scarce(place, q);
	r = memory_charge(place->device, taken, CREDIT_WAIT);
	return r ? r : attempt(place, q, taken, CREDIT_WAIT);
}

CUresult memory_allocate(const struct memory_place *place, struct memory_request *q)
{
	uint64_t bytes = q->bytes;
	CUresult r;

	if (likely(!oversize_allowed() || place->device < 0 || !(q->movable || q->managed)))
		return allocate(place, q);
	if (!oversize_exceeds(place->device, memory_round(bytes),
			      q->shares && bytes <= BLOCKS_SMALL)) {
		guest_thread.hushed = 1;
		r = allocate(place, q);
		guest_thread.hushed = 0;
		if (r != CUDA_ERROR_OUT_OF_MEMORY)
			return r;
		q->bytes = bytes;
	}
	return oversize_allocate(place, q);
}

/* ---- the calls, by their form ---------------------------------------------------------------- */

static CUresult call_alloc(struct memory_request *q)
{
	CUresult r = real(cuMemAlloc_v2)(q->place, q->bytes);

	if (r == CUDA_SUCCESS && q->place)
		q->address = *(CUdeviceptr *)q->place;
	return r;
}

static noinline_ CUresult allocate_linear(CUdeviceptr *dptr, size_t bytes, bool nested)
{
	struct memory_request q = {.call = call_alloc,
				   .bytes = bytes,
				   .shares = true,
				   .movable = true,
				   .nested = nested,
				   .place = dptr};

	return memory_request(&q);
}

static inline struct pointer large_entry(CUdeviceptr address, uint64_t bytes, CUcontext context,
					 const struct state_device *home)
{
	return (struct pointer){.address = address,
				.bytes = bytes,
				.owner = (uint64_t)(uintptr_t)context,
				.about = POINTER_ABOUT(0, MEMORY_LARGE, home - state.device)};
}

/* The slow path: the table has to grow, or has the address already. */
static noinline_ CUresult keep_odd(CUdeviceptr address, uint64_t bytes, CUcontext context,
				   const struct state_device *home)
{
	struct pointer entry = large_entry(address, bytes, context, home);

	return keep_large(&entry) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Allocations with blocks of their own, within the credit. */
static noinline_ CUresult allocate_large(CUdeviceptr *dptr, size_t bytes, const void *caller)
{
	uint64_t whole = (bytes + BLOCKS_BYTES - 1) & ~(BLOCKS_BYTES - 1);
	struct guest_thread *me = &guest_thread;
	struct state_device *home;
	CUcontext context;
	CUresult r;

	/* Not so much that rounding overflows. */
	if (unlikely(!dptr || whole < bytes || me->inside || !state_joined()))
		return allocate_linear(dptr, bytes, me->inside && real_is_driver(caller));
	me->inside = 1;
	home = current_home(&context);
	if (unlikely(!home)) {
		me->inside = 0;
		return allocate_linear(dptr, bytes, false);
	}
	changes_begin();
	if (unlikely(!amounts_take(home, whole))) {
		me->inside = 0;
		changes_end();
		return allocate_linear(dptr, bytes, false);
	}
	r = real(cuMemAlloc_v2)(dptr, bytes);
	me->inside = 0;
	if (unlikely(r != CUDA_SUCCESS || *dptr == 0))
		credit_give((int)(home - state.device), whole);
	else if (unlikely(!pointers_put_new(&memory_table,
					    large_entry(*dptr, whole, context, home))))
		r = keep_odd(*dptr, whole, context, home);
	changes_end();
	return r;
}

/* The allocation did not fit: another thread was faster, or the driver chose another block. Now the
 * credit that is held for a block is charged. */
static noinline_ CUresult keep_held(int device, CUdeviceptr address, struct block *block, int put)
{
	int kept;

	changes_begin();
	amounts_allocate(&state.device[device], (int64_t)BLOCKS_BYTES);
	kept = keep_small(device, address, block, put);
	changes_end();
	return kept == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The usual case in a few instructions: the allocation fits into a block that is charged. In case
 * it does not, credit for another block is held meanwhile. */
static noinline_ CUresult allocate_small(CUdeviceptr *dptr, size_t bytes, const void *caller)
{
	struct guest_thread *me = &guest_thread;
	struct block *block;
	CUcontext context;
	int device, put;
	CUresult r;

	if (unlikely(!dptr || me->inside || !state_joined()))
		return allocate_linear(dptr, bytes, me->inside && real_is_driver(caller));
	me->inside = 1;
	device = current_find(&context);
	if (unlikely(device < 0 ||
		     !blocks_fit_likely(device, (uint64_t)(uintptr_t)context, bytes) ||
		     !amounts_hold(&state.device[device], BLOCKS_BYTES))) {
		me->inside = 0;
		return allocate_linear(dptr, bytes, false);
	}
	r = real(cuMemAlloc_v2)(dptr, bytes);
	me->inside = 0;
	if (likely(r == CUDA_SUCCESS && *dptr != 0)) {
		put = blocks_put(device, (uint64_t)(uintptr_t)context, *dptr, bytes, &block);
		if (unlikely(put != 0))
			return keep_held(device, *dptr, block, put);
		scarce_over();
	}
	amounts_release(&state.device[device], BLOCKS_BYTES);
	return r;
}

CUresult hook_cuMemAlloc_v2(CUdeviceptr_v2 *dptr, size_t bytesize)
{
	const void *caller = __builtin_return_address(0);

	return bytesize - 1 < BLOCKS_SMALL ? allocate_small(dptr, bytesize, caller)
					   : allocate_large(dptr, bytesize, caller);
}

/* ---- the end of contexts, and of the process as it was --------------------------------------- */

static int in_context(const struct pointer *entry, void *context)
{
	if ((entry->kind != MEMORY_LARGE && entry->kind != MEMORY_MOVABLE &&
	     entry->kind != MEMORY_OVERSIZE) ||
	    entry->owner != *(const uint64_t *)context)
		return 0;
	memory_drop_late(*entry);
	return 1;
}

static void rename_context(uint64_t owner, uint64_t now)
{
	pointers_rename(&memory_table, owner, now);
	blocks_rename(owner, now);
	arrays_rename(owner, now);
	heaps_rename(owner, now);
	movable_rename(owner, now);
}

uint64_t memory_context_leaves(CUcontext context)
{
	static _Atomic uint64_t number;
	uint64_t leaving = BLOCKS_LEAVING | atomic_fetch_add(&number, 1);

	if (context)
		rename_context((uint64_t)(uintptr_t)context, leaving);
	return leaving;
}

void memory_context_stays(CUcontext context, uint64_t leaving)
{
	if (context)
		rename_context(leaving, (uint64_t)(uintptr_t)context);
}

void memory_context_gone(uint64_t owner)
{
	pointers_sweep(&memory_table, in_context, &owner);
	blocks_context_gone(owner, memory_block_gone);
	arrays_context_gone(owner);
	heaps_context_gone(owner);
	movable_context_gone(owner);
	pools_settle(-1);
	graphs_settle(-1);
}
