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

static struct {
	struct pointers table;
	struct futex_lock scarce; /* one small allocation at a time tries what it cannot pay for */
} memory;

__thread unsigned memory_inside;

uint64_t memory_round(uint64_t bytes)
{
	if (bytes > UINT64_MAX - BLOCKS_BYTES)
		return UINT64_MAX - BLOCKS_BYTES + 1;
	return (bytes + BLOCKS_BYTES - 1) & ~(BLOCKS_BYTES - 1);
}

CUresult memory_begin(struct memory_place *ret_place)
{
	struct memory_place place = {NULL, -1, false};
	CUresult r;

	if (likely(memory_inside == 0)) {
		r = state_ready();
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

int memory_ordinal(int device)
{
	int count = 0;

	for (int i = 0; i < STATE_ORDINALS && device >= 0; i++)
		if (atomic_load_explicit(&state.ordinal[i], memory_order_relaxed) == device + 1)
			return i;
	if (device < 0 || memory_driver(real(cuDeviceGetCount)(&count)) != CUDA_SUCCESS)
		return -1;
	for (int i = 0; i < count; i++)
		if (state_device(i) == device)
			return i;
	return -1;
}

CUresult memory_refuse_device(CUdevice ordinal)
{
	CUuuid uuid;

	if (!state_joined() || state_device(ordinal) >= 0 ||
	    memory_driver(real(cuDeviceGetUuid)(&uuid, ordinal)) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	return memory_charge(-1, 1, false);
}

/* Would the daemon refuse, as far as its page says? */
static bool looks_short(int device, uint64_t bytes)
{
	struct query_memory seen;

	query_memory(device, state_page(device, total_bytes), &seen);
	return seen.free < bytes;
}

/* Rarely run: once in many allocations there is no credit left. */
static noinline_ void look_for_bytes(int device, uint64_t bytes)
{
	pools_settle(device);
	graphs_settle(device);
	if (credit_unused(device) >= bytes || !looks_short(device, bytes))
		return;
	pools_trim(device);
	if (credit_unused(device) < bytes)
		graphs_trim(device);
}

CUresult memory_charge(int device, uint64_t bytes, bool patient)
{
	bool may_wait = patient && !capture_open();

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (unlikely(device >= 0 && credit_unused(device) < bytes))
		look_for_bytes(device, bytes);
	return credit_take(device, bytes, may_wait) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void drop(const struct pointer *entry)
{
	switch (entry->kind) {
	case MEMORY_LARGE:
		credit_give(entry->device, entry->bytes);
		break;
	case MEMORY_SMALL:
		if (blocks_take(entry->detail, entry->address, entry->bytes) == BLOCKS_EMPTY)
			credit_give(entry->device, BLOCKS_BYTES);
		break;
	case MEMORY_POOLED:
		pools_freed((uint32_t)entry->owner);
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

int memory_take(uint64_t address, struct pointer *ret_entry)
{
	return pointers_take(&memory.table, address, ret_entry);
}

CUresult memory_freed(const struct pointer *entry, CUresult r)
{
	struct pointer newer;

	if (likely(r == CUDA_SUCCESS)) {
		drop(entry);
		return r;
	}
	if (pointers_put(&memory.table, entry, &newer) != POINTERS_REPLACED)
		return r;
	/* Another thread was given the address meanwhile: so it had been freed after all. */
	if (memory_remember(&newer) < 0)
		drop(&newer);
	return r;
}

/* Charges what the driver took beyond the `taken` bytes that were charged before. */
static CUresult pay(int device, uint64_t need, uint64_t taken, bool patient)
{
	if (need <= taken) {
		if (need < taken)
			credit_give(device, taken - need);
		return CUDA_SUCCESS;
	}
	return memory_charge(device, need - taken, patient);
}

/* The same for an allocation that shares a block. Consumes `taken` in any case. */
static CUresult pay_block(struct pointer *entry, uint64_t taken, bool patient)
{
	CUresult r = CUDA_SUCCESS;
	int put = blocks_put(entry->device, entry->owner, entry->address, entry->bytes,
			     &entry->detail);

	if (put == BLOCKS_UNPAID)
		r = pay(entry->device, BLOCKS_BYTES, taken, patient);
	else if (taken)
		credit_give(entry->device, taken);
	if (put < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		if (taken)
			credit_give(entry->device, taken);
		best_effort(memory_driver(real(cuMemFree_v2)(entry->address)));
		if (blocks_take(entry->detail, entry->address, entry->bytes) == BLOCKS_EMPTY)
			credit_give(entry->device, BLOCKS_BYTES);
		entry->address = 0;
		return r;
	}
	if (put == BLOCKS_UNPAID && blocks_paid(entry->detail))
		credit_give(entry->device, BLOCKS_BYTES);
	return CUDA_SUCCESS;
}

/* Corrects the charge of `taken` bytes to what the driver took, and remembers the address. If that
 * is more than the tenant may have it goes back to the driver. */
static CUresult settle(const struct memory_place *place, struct memory_request *q, uint64_t taken,
		       bool patient)
{
	struct pointer entry = {
		.address = q->address,
		.bytes = q->bytes,
		.owner = (uint64_t)(uintptr_t)place->context,
		.kind = MEMORY_SMALL,
		.device = (int16_t)place->device,
	};
	CUresult r;

	if (likely(q->shares && q->bytes <= BLOCKS_SMALL)) {
		r = pay_block(&entry, taken, patient);
	} else {
		entry.kind = MEMORY_LARGE;
		entry.bytes = memory_round(q->bytes);
		r = pay(place->device, entry.bytes, taken, patient);
		if (r != CUDA_SUCCESS)
			credit_give(place->device, taken);
	}
	if (likely(r == CUDA_SUCCESS)) {
		if (likely(memory_remember(&entry) == 0))
			return CUDA_SUCCESS;
		best_effort(memory_driver(real(cuMemFree_v2)(entry.address)));
		drop(&entry);
	} else if (entry.address) {
		best_effort(memory_driver(real(cuMemFree_v2)(entry.address)));
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult attempt(const struct memory_place *place, struct memory_request *q, uint64_t taken,
			bool patient)
{
	uint64_t expected = q->bytes;
	CUresult r = memory_driver(q->call(q));

	if (likely(r == CUDA_SUCCESS && q->address))
		return settle(place, q, taken, patient);
	credit_give(place->device, taken);
	q->bytes = expected;
	return r;
}

/* There is no credit for another block. What fits into a block that we hold costs nothing. */
static CUresult allocate_scarce(const struct memory_place *place, struct memory_request *q)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	futex_lock_take(&memory.scarce);
	if (blocks_fit(place->device, (uint64_t)(uintptr_t)place->context, q->bytes))
		r = attempt(place, q, 0, false);
	futex_lock_give(&memory.scarce);
	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	r = memory_charge(place->device, BLOCKS_BYTES, true);
	return r ? r : attempt(place, q, BLOCKS_BYTES, true);
}

CUresult memory_allocate(const struct memory_place *place, struct memory_request *q)
{
	uint64_t taken = memory_round(q->bytes);
	CUresult r;

	if (q->shares && q->bytes <= BLOCKS_SMALL) {
		if (place->device < 0 || credit_unused(place->device) < BLOCKS_BYTES)
			return allocate_scarce(place, q);
		if (blocks_fit_likely(place->device, (uint64_t)(uintptr_t)place->context, q->bytes))
			taken = 0;
	}
	r = memory_charge(place->device, taken, true);
	return r ? r : attempt(place, q, taken, true);
}

/* ---- the calls, by their form ---------------------------------------------------------------- */

static CUresult call_alloc(struct memory_request *q)
{
	CUresult r = real(cuMemAlloc_v2)(q->place, q->bytes);

	if (r == CUDA_SUCCESS)
		q->address = *(CUdeviceptr *)q->place;
	return r;
}

static CUresult call_alloc_v1(struct memory_request *q)
{
	CUresult r = real(cuMemAlloc)(q->place, (unsigned)q->bytes);

	if (r == CUDA_SUCCESS)
		q->address = *(CUdeviceptr_v1 *)q->place;
	return r;
}

static CUresult call_managed(struct memory_request *q)
{
	CUresult r = real(cuMemAllocManaged)(q->place, q->bytes, q->flags);

	if (r == CUDA_SUCCESS)
		q->address = *(CUdeviceptr *)q->place;
	return r;
}

static CUresult call_pitch(struct memory_request *q)
{
	CUresult r = real(cuMemAllocPitch_v2)(q->place, q->pitch, q->width, q->height, q->element);

	if (r == CUDA_SUCCESS) {
		q->address = *(CUdeviceptr *)q->place;
		q->bytes = *(size_t *)q->pitch * q->height;
	}
	return r;
}

static CUresult call_pitch_v1(struct memory_request *q)
{
	CUresult r = real(cuMemAllocPitch)(q->place, q->pitch, (unsigned)q->width,
					   (unsigned)q->height, q->element);

	if (r == CUDA_SUCCESS) {
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
	return memory_allocate(&place, q);
}

CUresult hook_cuMemAlloc_v2(CUdeviceptr_v2 *dptr, size_t bytesize)
{
	struct memory_request q = {
		.call = call_alloc, .bytes = bytesize, .shares = true, .place = dptr};

	return allocate(&q);
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
	struct memory_request q = {
		.call = call_managed, .bytes = bytesize, .place = dptr, .flags = flags};

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

CUresult hook_cuMemFree_v2(CUdeviceptr_v2 dptr)
{
	struct pointer entry;

	if (unlikely(memory_inside || pointers_take(&memory.table, dptr, &entry) != 0))
		return memory_driver(real(cuMemFree_v2)(dptr));
	return memory_freed(&entry, memory_driver(real(cuMemFree_v2)(dptr)));
}

CUresult hook_cuMemFree(CUdeviceptr_v1 dptr)
{
	struct pointer entry;

	if (unlikely(memory_inside || pointers_take(&memory.table, dptr, &entry) != 0))
		return memory_driver(real(cuMemFree)(dptr));
	return memory_freed(&entry, memory_driver(real(cuMemFree)(dptr)));
}

/* ---- the end of contexts, and of the process as it was --------------------------------------- */

static int in_context(const struct pointer *entry, void *context)
{
	if ((entry->kind != MEMORY_LARGE && entry->kind != MEMORY_SMALL) ||
	    entry->owner != (uint64_t)(uintptr_t)context)
		return 0;
	drop(entry);
	return 1;
}

void memory_context_gone(CUcontext context)
{
	pointers_sweep(&memory.table, in_context, context);
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
	nvml_forget();
	pools_forget();
	vmm_forget();
	memory_inside = 0;
}
