/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/heaps.h"

#include <stdbool.h>
#include <string.h>

#include "guest/contexts/memory_place.h"
#include "guest/credit/blocks.h"
#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/pointers.h"
#include "guest/credit/settle.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/driver_lock.h"
#include "guest/hooks.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"

static struct {
	struct driver_lock lock; /* from the charge to the driver's answer */
	struct pointers table;	 /* `detail`: blocks that it had from the start, without a charge */
} heaps;

/* A key for each of the two limits: handles of contexts are further apart than 2. */
static uint64_t key_of(CUcontext context, CUlimit limit)
{
	return (uint64_t)(uintptr_t)context + (limit == CU_LIMIT_MALLOC_HEAP_SIZE ? 1 : 2);
}

/* With the lock held. The noted entry, or else one with the present size. */
static struct pointer entry_of(const struct memory_place *place, CUlimit limit)
{
	struct pointer entry;
	size_t now = 0;

	if (pointers_find(&heaps.table, key_of(place->context, limit), &entry) == 0)
		return entry;
	best_effort(driver_call(real(cuCtxGetLimit)(&now, limit)));
	return (struct pointer){.address = key_of(place->context, limit),
				.owner = (uint64_t)(uintptr_t)place->context,
				.detail = (uint32_t)(memory_round(now) / BLOCKS_BYTES),
				.device = (int16_t)place->device};
}

static CUresult set(const struct memory_place *place, CUlimit limit, size_t value)
{
	struct pointer entry = entry_of(place, limit), old;
	uint64_t want = memory_round(value), free_of_charge = entry.detail * BLOCKS_BYTES;
	CUresult r;

	want = want > free_of_charge ? want - free_of_charge : 0;
	want = want > entry.bytes ? want - entry.bytes : 0;
	r = memory_charge(place->device, want, CREDIT_ASK);
	if (r != CUDA_SUCCESS)
		return r;
	r = driver_call(real(cuCtxSetLimit)(limit, value));
	entry.bytes += want;
	if (r == CUDA_SUCCESS && want > 0 && pointers_put(&heaps.table, &entry, &old) >= 0)
		credit_adrift(place->device, (int64_t)want);
	else if (r != CUDA_SUCCESS)
		credit_give(place->device, want);
	return r;
}

CUresult hook_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct memory_place place;
	CUresult r = memory_begin(&place, driver_nested());
	bool mine;

	if (r != CUDA_SUCCESS)
		return r;
	if (place.device >= 0)
		changes_other(place.device);
	if (place.tracked && place.device >= 0 &&
	    (limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE)) {
		changes_begin();
		mine = driver_lock_take(&heaps.lock);
		r = set(&place, limit, value);
		driver_lock_give(&heaps.lock, mine);
		changes_end();
	} else {
		r = driver_call(real(cuCtxSetLimit)(limit, value));
	}
	settle_device(place.device);
	return r;
}

static int in_context(const struct pointer *entry, void *owner)
{
	if (entry->owner != *(const uint64_t *)owner)
		return 0;
	credit_adrift(entry->device, -(int64_t)entry->bytes);
	credit_give(entry->device, entry->bytes);
	return 1;
}

void heaps_rename(uint64_t owner, uint64_t now)
{
	pointers_rename(&heaps.table, owner, now);
}

void heaps_context_gone(uint64_t owner)
{
	pointers_sweep(&heaps.table, in_context, &owner);
}

void heaps_forget(void)
{
	pointers_forget(&heaps.table);
	memset(&heaps.lock, 0, sizeof(heaps.lock));
}
