/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory.h"

#include <string.h>

#include "guest/arrays.h"
#include "guest/blocks.h"
#include "guest/capture.h"
#include "guest/context.h"
#include "guest/contexts.h"
#include "guest/credit.h"
#include "guest/futex.h"
#include "guest/graphs.h"
#include "guest/hooks.h"
#include "guest/nvml.h"
#include "guest/pools.h"
#include "guest/query.h"
#include "guest/real.h"
#include "guest/state.h"
#include "guest/vmm.h"

enum {
	ATTEMPTS = 2,
};

#define state_credit(index) atomic_load_explicit(&state.device[index].credit, memory_order_relaxed)

static struct {
	struct pointers table;
	struct futex_lock scarce; /* one small allocation at a time tries what it cannot pay for */
} memory;

__thread unsigned memory_inside;

CUresult memory_begin(struct memory_place *ret_place)
{
	struct memory_place place = {NULL, -1, false};
	CUresult r;

	if (likely(memory_inside == 0)) {
		r = state_joined() ? CUDA_SUCCESS : state_ready();
		if (unlikely(r != CUDA_SUCCESS))
			return r;
		if (likely(state_joined() &&
			   memory_driver(real(cuCtxGetCurrent)(&place.context)) == CUDA_SUCCESS &&
			   place.context)) {
			place.device = contexts_device(place.context);
			if (unlikely(place.device == -2))
				place.device = state_context_device(place.context);
			place.tracked = true;
		}
	}
	*ret_place = place;
	return CUDA_SUCCESS;
}

static struct block *block_of(const struct pointer *entry)
{
	return (struct block *)(uintptr_t)entry->owner;
}

/* One with blocks of its own is the driver's again. */
static void drop_large(const struct pointer *entry)
{
	if (unlikely(entry->detail == MEMORY_MANAGED))
		credit_adrift(entry->device, -(int64_t)entry->bytes);
	credit_give(entry->device, entry->bytes);
}

static void drop(const struct pointer *entry)
{
	switch (entry->kind) {
	case MEMORY_LARGE:
		drop_large(entry);
		break;
	case MEMORY_SMALL:
		if (blocks_freed(block_of(entry), entry->detail) == BLOCKS_EMPTY)
			credit_give(entry->device, BLOCKS_BYTES);
		break;
	case MEMORY_POOLED:
		pools_freed((uint32_t)entry->owner, entry->bytes);
		break;
	default:
		break;
	}
}

int memory_remember(const struct pointer *entry)
{
	struct pointer old;
	int r = pointers_put(&memory.table, entry, &old);

	/* It was freed in a way that nobody told us of. */
	if (unlikely(r == POINTERS_REPLACED)) {
		drop(&old);
		r = 0;
	}
	return r;
}

void memory_each(int (*each)(const struct pointer *entry, void *context), void *context)
{
	pointers_sweep(&memory.table, each, context);
}

/* A small allocation as an entry, which is not in the table. */
static struct pointer small_entry(struct block *block, uint64_t address, unsigned units)
{
	return (struct pointer){.address = address,
				.owner = (uint64_t)(uintptr_t)block,
				.detail = units,
				.kind = MEMORY_SMALL,
				.device = (int16_t)blocks_device(block)};
}

int memory_take(uint64_t address, struct pointer *ret_entry)
{
	unsigned units;
	struct block *block = blocks_detach(address, &units);

	if (block)
		*ret_entry = small_entry(block, address, units);
	return block ? 0 : pointers_take(&memory.table, address, ret_entry);
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
	if (pointers_put(&memory.table, entry, &newer) != POINTERS_REPLACED)
		return r;
	/* Another thread was given the address meanwhile: so it had been freed after all. */
	if (memory_remember(&newer) < 0)
		drop(&newer);
	return r;
}

/* Outcomes of keeping what the driver gave: it went back. */
enum {
	KEEP_SHORT = 1, /* it was more than was charged, and than there is credit for */
	KEEP_FULL,	/* it cannot be remembered */
};

/* Charges what the driver took beyond the `taken` bytes that were charged before, as far as that is
 * at hand. The daemon is not asked with memory in hand that is not paid for: it would be beyond the
 * limit until the answer. */
static bool pay(int device, uint64_t need, uint64_t taken)
{
	if (need < taken)
		credit_give(device, taken - need);
	return need <= taken || credit_take(device, need - taken, CREDIT_LOCAL) == 0;
}

/* For an allocation that shares a block, after blocks_put() answered `put` and `taken` bytes were
 * charged in advance. */
static noinline_ int keep_small(int device, uint64_t address, struct block *block, int put,
				uint64_t taken)
{
	int r = put < 0 ? KEEP_FULL : 0;
	struct pointer entry;

	if (put == BLOCKS_UNPAID && !pay(device, BLOCKS_BYTES, taken))
		r = KEEP_SHORT;
	if ((put != BLOCKS_UNPAID || r != 0) && taken)
		credit_give(device, taken);
	if (r == 0) {
		if (put == BLOCKS_UNPAID && blocks_paid(block))
			credit_give(device, BLOCKS_BYTES);
		return r;
	}
	if (put >= 0 && memory_take(address, &entry) == 0)
		best_effort(memory_freed(&entry, memory_driver(real(cuMemFree_v2)(address))));
	else
		best_effort(memory_driver(real(cuMemFree_v2)(address)));
	return r;
}

/* Remembers one with blocks of its own, which is paid for. */
static int keep_large(const struct pointer *entry)
{
	if (unlikely(entry->detail == MEMORY_MANAGED))
		credit_adrift(entry->device, (int64_t)entry->bytes);
	if (likely(memory_remember(entry) == 0))
		return 0;
	best_effort(memory_driver(real(cuMemFree_v2)(entry->address)));
	drop_large(entry);
	return KEEP_FULL;
}

/* Corrects the charge of `taken` bytes to what the driver took, and remembers the address. */
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
		best_effort(memory_driver(real(cuMemFree_v2)(q->address)));
		credit_give(place->device, taken);
		return KEEP_SHORT;
	}
	put = blocks_put(place->device, (uint64_t)(uintptr_t)place->context, q->address, q->bytes,
			 &block);
	return keep_small(place->device, q->address, block, put, taken);
}

/* With `taken` bytes charged. If they do not do, once more with what it really comes to. */
static CUresult attempt(const struct memory_place *place, struct memory_request *q, uint64_t taken,
			enum credit_how how)
{
	uint64_t expected = q->bytes;
	CUresult r;
	int kept;

	for (int tries = 0; tries < ATTEMPTS; tries++) {
		r = memory_driver(q->call(q));
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
		if (kept != KEEP_SHORT || tries + 1 == ATTEMPTS ||
		    memory_charge(place->device, taken, how) != CUDA_SUCCESS)
			break;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* There is no credit for another block. What fits into a block that we hold costs nothing. */
static CUresult allocate_scarce(const struct memory_place *place, struct memory_request *q)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	futex_lock_take(&memory.scarce);
	if (blocks_fit(place->device, (uint64_t)(uintptr_t)place->context, q->bytes))
		r = attempt(place, q, 0, CREDIT_ASK);
	futex_lock_give(&memory.scarce);
	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	r = memory_charge(place->device, BLOCKS_BYTES, CREDIT_WAIT);
	return r ? r : attempt(place, q, BLOCKS_BYTES, CREDIT_WAIT);
}

/* Gets credit for a block in advance, if the daemon is not going to refuse it. */
static noinline_ bool stock_up(int device)
{
	if (memory_looks_short(device, BLOCKS_BYTES) ||
	    memory_charge(device, BLOCKS_BYTES, CREDIT_ASK))
		return false;
	credit_give(device, BLOCKS_BYTES);
	return true;
}

CUresult memory_allocate(const struct memory_place *place, struct memory_request *q)
{
	uint64_t taken = memory_round(q->bytes);
	CUresult r;

	if (q->shares && q->bytes <= BLOCKS_SMALL) {
		if (unlikely(place->device < 0 || (credit_unused(place->device) < BLOCKS_BYTES &&
						   !stock_up(place->device))))
			return allocate_scarce(place, q);
		if (blocks_fit_likely(place->device, (uint64_t)(uintptr_t)place->context, q->bytes))
			taken = 0;
	}
	r = memory_charge(place->device, taken, CREDIT_WAIT);
	return r ? r : attempt(place, q, taken, CREDIT_WAIT);
}

/* ---- the calls, by their form ---------------------------------------------------------------- */

static CUresult call_alloc(struct memory_request *q)
{
	CUresult r = real(cuMemAlloc_v2)(q->place, q->bytes);

	if (r == CUDA_SUCCESS && q->place)
		q->address = *(CUdeviceptr *)q->place;
	return r;
}

static CUresult call_alloc_v1(struct memory_request *q)
{
	CUresult r = real(cuMemAlloc)(q->place, (unsigned)q->bytes);

	if (r == CUDA_SUCCESS && q->place)
		q->address = *(CUdeviceptr_v1 *)q->place;
	return r;
}

static CUresult call_managed(struct memory_request *q)
{
	CUresult r = real(cuMemAllocManaged)(q->place, q->bytes, q->flags);

	if (r == CUDA_SUCCESS && q->place)
		q->address = *(CUdeviceptr *)q->place;
	return r;
}

static CUresult call_pitch(struct memory_request *q)
{
	CUresult r = real(cuMemAllocPitch_v2)(q->place, q->pitch, q->width, q->height, q->element);

	if (r == CUDA_SUCCESS && q->place && q->pitch) {
		q->address = *(CUdeviceptr *)q->place;
		q->bytes = *(size_t *)q->pitch * q->height;
	}
	return r;
}

static CUresult call_pitch_v1(struct memory_request *q)
{
	CUresult r = real(cuMemAllocPitch)(q->place, q->pitch, (unsigned)q->width,
					   (unsigned)q->height, q->element);

	if (r == CUDA_SUCCESS && q->place && q->pitch) {
		q->address = *(CUdeviceptr_v1 *)q->place;
		q->bytes = (uint64_t)(*(unsigned *)q->pitch) * q->height;
	}
	return r;
}

/* Bytes of rows, each of whole units; what nobody has where that overflows. */
static uint64_t pitched_bytes(uint64_t width, uint64_t height)
{
	uint64_t row, bytes;

	if (width > UINT64_MAX - BLOCKS_UNIT)
		return UINT64_MAX;
	row = (width + BLOCKS_UNIT - 1) & ~(BLOCKS_UNIT - 1);
	return __builtin_mul_overflow(row, height, &bytes) ? UINT64_MAX : bytes;
}

/* What the driver refuses by itself (no size, nowhere to put the address), and what there is
 * nothing to charge to, goes to it directly. */
static CUresult allocate(struct memory_request *q)
{
	struct memory_place place;
	CUresult r = memory_begin(&place);

	if (unlikely(r != CUDA_SUCCESS))
		return r;
	if (unlikely(!place.tracked || q->bytes == 0 || !q->place))
		return memory_driver(q->call(q));
	moves_begin();
	r = memory_allocate(&place, q);
	moves_end();
	return r;
}

static noinline_ CUresult allocate_linear(CUdeviceptr *dptr, size_t bytes)
{
	struct memory_request q = {
		.call = call_alloc, .bytes = bytes, .shares = true, .place = dptr};

	return allocate(&q);
}

/* Blocks of their own, within the credit. */
static noinline_ CUresult allocate_large(CUdeviceptr *dptr, size_t bytes)
{
	struct pointer entry = {.bytes = memory_round(bytes), .kind = MEMORY_LARGE};
	unsigned *inside = &memory_inside;
	CUcontext context;
	CUresult r;
	int device;

	if (unlikely(!dptr || bytes <= BLOCKS_SMALL || *inside || !state_joined()))
		return allocate_linear(dptr, bytes);
	*inside = 1;
	r = real(cuCtxGetCurrent)(&context);
	device = likely(r == CUDA_SUCCESS && context) ? contexts_device(context) : -1;
	if (unlikely(device < 0 || state_credit(device) < entry.bytes)) {
		*inside = 0;
		return allocate_linear(dptr, bytes);
	}
	moves_begin();
	if (unlikely(credit_take(device, entry.bytes, CREDIT_LOCAL) != 0)) {
		*inside = 0;
		moves_end();
		return allocate_linear(dptr, bytes);
	}
	r = real(cuMemAlloc_v2)(dptr, bytes);
	*inside = 0;
	if (likely(r == CUDA_SUCCESS && *dptr)) {
		entry.address = *dptr;
		entry.owner = (uint64_t)(uintptr_t)context;
		entry.device = (int16_t)device;
		r = keep_large(&entry) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		credit_give(device, entry.bytes);
	}
	moves_end();
	return r;
}

/* It did not fit: another thread was faster, or the driver chose otherwise. */
static noinline_ CUresult keep_or_go_on(int device, CUdeviceptr *dptr, size_t bytes,
					struct block *block, int put)
{
	int kept;

	moves_begin();
	kept = keep_small(device, *dptr, block, put, 0);
	moves_end();
	if (kept == KEEP_SHORT)
		return allocate_linear(dptr, bytes);
	return kept == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The usual case in a few instructions: it fits into a block that was paid for. */
CUresult hook_cuMemAlloc_v2(CUdeviceptr_v2 *dptr, size_t bytesize)
{
	unsigned *inside = &memory_inside;
	struct block *block;
	CUcontext context;
	int device, put;
	CUresult r;

	if (unlikely(bytesize - 1 >= BLOCKS_SMALL || !dptr || *inside || !state_joined()))
		return allocate_large(dptr, bytesize);
	*inside = 1;
	r = real(cuCtxGetCurrent)(&context);
	device = likely(r == CUDA_SUCCESS && context) ? contexts_device(context) : -1;
	if (unlikely(device < 0 || state_credit(device) < BLOCKS_BYTES ||
		     !blocks_fit_likely(device, (uint64_t)(uintptr_t)context, bytesize))) {
		*inside = 0;
		return allocate_linear(dptr, bytesize);
	}
	r = real(cuMemAlloc_v2)(dptr, bytesize);
	*inside = 0;
	if (unlikely(r != CUDA_SUCCESS || *dptr == 0))
		return r;
	put = blocks_put(device, (uint64_t)(uintptr_t)context, *dptr, bytesize, &block);
	return likely(put == 0) ? r : keep_or_go_on(device, dptr, bytesize, block, put);
}

CUresult hook_cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	struct memory_request q = {
		.call = call_alloc_v1, .bytes = bytesize, .shares = true, .place = dptr};

	return allocate(&q);
}

/* Managed memory may be larger than the device, and move; it is charged whole all the same, as the
 * driver may bring all of it to the device. */
CUresult hook_cuMemAllocManaged(CUdeviceptr_v2 *dptr, size_t bytesize, unsigned int flags)
{
	struct memory_request q = {.call = call_managed,
				   .bytes = bytesize,
				   .managed = true,
				   .place = dptr,
				   .flags = flags};

	return allocate(&q);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr_v2 *dptr, size_t *pPitch, size_t WidthInBytes,
				 size_t Height, unsigned int ElementSizeBytes)
{
	struct memory_request q = {
		.call = call_pitch,
		.bytes = pPitch ? pitched_bytes(WidthInBytes, Height) : 0,
		.shares = true,
		.place = dptr,
		.pitch = pPitch,
		.width = WidthInBytes,
		.height = Height,
		.element = ElementSizeBytes,
	};

	return allocate(&q);
}

CUresult hook_cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
			      unsigned int Height, unsigned int ElementSizeBytes)
{
	struct memory_request q = {
		.call = call_pitch_v1,
		.bytes = pPitch ? pitched_bytes(WidthInBytes, Height) : 0,
		.shares = true,
		.place = dptr,
		.pitch = pPitch,
		.width = WidthInBytes,
		.height = Height,
		.element = ElementSizeBytes,
	};

	return allocate(&q);
}

/* Small allocations do not count as moves, except where a whole block comes or goes. */
static noinline_ void block_gone(int device)
{
	moves_begin();
	credit_give(device, BLOCKS_BYTES);
	moves_end();
}

static noinline_ bool free_large(CUdeviceptr address, CUresult *ret_result)
{
	struct pointer entry;

	if (pointers_take(&memory.table, address, &entry) != 0)
		return false;
	moves_begin();
	*ret_result = memory_driver(real(cuMemFree_v2)(address));
	if (likely(entry.kind == MEMORY_LARGE && *ret_result == CUDA_SUCCESS))
		drop_large(&entry);
	else
		best_effort(memory_freed(&entry, *ret_result));
	moves_end();
	return true;
}

/* What is not a small allocation of ours: an unknown address is the driver's to judge. */
static noinline_ CUresult free_other(CUdeviceptr address)
{
	CUresult r;

	return free_large(address, &r) ? r : memory_driver(real(cuMemFree_v2)(address));
}

CUresult hook_cuMemFree_v2(CUdeviceptr_v2 dptr)
{
	struct block *block;
	unsigned units;
	CUresult r;
	int device;

	/* Large ones begin with a block, few small ones do. */
	if (unlikely(memory_inside))
		return memory_driver(real(cuMemFree_v2)(dptr));
	if (unlikely(dptr % BLOCKS_BYTES == 0) && free_large(dptr, &r))
		return r;
	block = blocks_detach(dptr, &units);
	if (!block)
		return free_other(dptr);
	r = memory_driver(real(cuMemFree_v2)(dptr));
	device = blocks_device(block);
	if (unlikely(r != CUDA_SUCCESS))
		blocks_attach(block, dptr, units);
	else if (unlikely(blocks_freed(block, units) == BLOCKS_EMPTY))
		block_gone(device);
	return r;
}

CUresult hook_cuMemFree(CUdeviceptr_v1 dptr)
{
	struct pointer entry;

	if (unlikely(memory_inside || memory_take(dptr, &entry) != 0))
		return memory_driver(real(cuMemFree)(dptr));
	return memory_freed(&entry, memory_driver(real(cuMemFree)(dptr)));
}

/* ---- the end of contexts, and of the process as it was --------------------------------------- */

static int in_context(const struct pointer *entry, void *context)
{
	if (entry->kind != MEMORY_LARGE || entry->owner != (uint64_t)(uintptr_t)context)
		return 0;
	drop(entry);
	return 1;
}

void memory_context_gone(CUcontext context)
{
	pointers_sweep(&memory.table, in_context, context);
	blocks_context_gone((uint64_t)(uintptr_t)context, block_gone);
	arrays_context_gone(context);
	pools_settle(-1);
}

void memory_forget(void)
{
	pointers_forget(&memory.table);
	memset(&memory, 0, sizeof(memory));
	blocks_forget();
	arrays_forget();
	graphs_forget();
	module_forget();
	nvml_forget();
	pools_forget();
	vmm_forget();
	memory_inside = 0;
}
