/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves, as the program's threads free it. */
#include "guest/movable/movable.h"

#include <errno.h>
#include <string.h>

#include "guest/contexts/current.h"
#include "guest/credit/blocks.h"
#include "guest/credit/credit.h"
#include "guest/credit/pointers.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/movable/movable_lend.h"
#include "guest/movable/movable_object.h"
#include "guest/movable/movable_stock.h"
#include "guest/time/capture.h"

/* Work that uses the memory must have ended, as with the driver's own cuMemFree(). */
static CUresult complete(uint64_t owner)
{
	CUcontext context = (CUcontext)(uintptr_t)owner, popped;
	CUresult r;

	if (!context || owner & BLOCKS_LEAVING)
		return CUDA_SUCCESS;
	if (likely(current_find(&popped) >= 0 && popped == context))
		return driver_call(real(cuCtxSynchronize)());
	r = driver_call(real(cuCtxPushCurrent_v2)(context));
	if (r != CUDA_SUCCESS)
		return r;
	r = driver_call(real(cuCtxSynchronize)());
	best_effort(driver_call(real(cuCtxPopCurrent_v2)(&popped)));
	return r;
}

static bool travels(const struct movable_area *area)
{
	for (uint32_t i = 0; i < area->count; i++)
		if (area->block[i].where == MOVABLE_LEAVES ||
		    area->block[i].where == MOVABLE_ENTERS)
			return true;
	return false;
}

/* The area has left the table, or stays because of the waiting thread. */
void movable_wait_for_arrival(const struct movable_area *area)
{
	while (travels(area)) {
		uint32_t seen = atomic_load(&movable_.arrivals);

		futex_lock_give(&movable_.lock);
		movable_kick();
		futex_wait(&movable_.arrivals, seen, MOVABLE_CHECK_MS, FUTEX_PRIVATE_FLAG);
		futex_lock_take(&movable_.lock);
	}
}

/* With the lock held: from here on no other thread refers to it. */
void movable_leave_table(struct movable_area *area)
{
	struct range range;

	best_effort(ranges_take(&movable_.areas, area->base, area->bytes, &range));
	atomic_fetch_sub(&movable_.open, 1);
	if (movable_.recent == area)
		movable_.recent = NULL;
}

/* With the lock held. Subtracts what it had on the device and in the store. */
static void count_out(const struct movable_area *area)
{
	for (uint32_t i = 0; i < area->count; i++) {
		if (area->block[i].where == MOVABLE_OUT)
			movable_.out -= area->block[i].bytes;
		else if (!area->why)
			movable_.resident -= area->block[i].bytes;
	}
	movable_show();
}

/* What was to leave may be unused credit now, which does not move. The daemon waits for it, and
 * looks at the own page when it hears anything: then it recalls that. */
static void tell_of_credit(void)
{
	bool due;

	futex_lock_take(&movable_.lock);
	due = movable_.done.left < movable_.order.leave;
	movable_.report_due |= due;
	futex_lock_give(&movable_.lock);
	if (due)
		movable_kick();
}

/* The area has left the table. The mover gives its segments back. */
void movable_dissolve(struct movable_area *area)
{
	uint64_t base = area->base, bytes = area->bytes, id = area->id, here;
	bool lent = (area->why & WIRE_UNMOVABLE_SHARED) != 0;
	bool filled = false, outgoing = area->own.outgoing;

	futex_lock_take(&movable_.lock);
	movable_wait_for_arrival(area);
	count_out(area);
	futex_lock_give(&movable_.lock);
	here = movable_unback_first(area, area->count);
	best_effort(driver_call(real(cuMemAddressFree)(base, bytes)));
	for (uint32_t i = 0; i < area->count; i++)
		filled |= area->block[i].segment.memory != NULL;
	if (filled) {
		futex_lock_take(&movable_.lock);
		area->next = movable_.over;
		movable_.over = area;
		futex_lock_give(&movable_.lock);
	} else {
		movable_area_free(area);
	}
	if (here < bytes || filled)
		movable_kick();
	if (outgoing || (lent && debt_owes(id, here)))
		credit_adrift(movable_.device, (int64_t)here);
	else
		credit_give(movable_.device, here);
	if (lent)
		credit_outgoing(movable_.device, -(int64_t)bytes);
	if (here)
		tell_of_credit();
}

CUresult movable_free_at(uint64_t address)
{
	struct movable_area *area, *ended = NULL;

	futex_lock_take(&movable_.lock);
	area = movable_around(address);
	if (area && area->slab)
		best_effort(movable_piece_give(area->slab,
					       (uint32_t)((address - area->base) / BLOCKS_UNIT)));
	if (area && (!area->slab || movable_slab_empty(area->slab))) {
		movable_leave_table(area);
		ended = area;
	}
	futex_lock_give(&movable_.lock);
	if (ended && movable_stock_keep(ended))
		tell_of_credit();
	else if (ended)
		movable_dissolve(ended);
	return area ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Memory that was freed during a capture, when waiting is not possible. */
static struct pointers late;

static int first_late(const struct pointer *entry, void *found)
{
	if (*(uint64_t *)found)
		return 0;
	*(uint64_t *)found = entry->address;
	return 1;
}

noinline_ void movable_reap(void)
{
	uint64_t address;

	while (atomic_load(&movable_.capturing)) {
		address = 0;
		pointers_sweep(&late, first_late, &address);
		if (!address)
			break;
		atomic_fetch_sub(&movable_.capturing, 1);
		best_effort(movable_free_at(address));
	}
}

/* If it cannot be noted, it stays until its context ends. */
static CUresult free_later(const struct pointer *entry)
{
	struct pointer old;

	if (pointers_put(&late, entry, &old) >= 0)
		atomic_fetch_add(&movable_.capturing, 1);
	return CUDA_SUCCESS;
}

static int is_owned(const struct pointer *entry, void *owner)
{
	if (entry->owner != *(const uint64_t *)owner)
		return 0;
	atomic_fetch_sub(&movable_.capturing, 1);
	return 1;
}

void movable_late_gone(uint64_t owner)
{
	pointers_sweep(&late, is_owned, &owner);
}

void movable_late_rename(uint64_t owner, uint64_t now)
{
	pointers_rename(&late, owner, now);
}

void movable_late_clear(void)
{
	pointers_forget(&late);
}

CUresult movable_free(const struct pointer *entry)
{
	CUresult r;

	if (capture_open())
		return free_later(entry);
	r = complete(entry->owner);
	if (r != CUDA_SUCCESS)
		return r;
	if (atomic_load(&movable_.capturing))
		movable_reap();
	return movable_free_at(entry->address);
}

/* The driver waits for nothing here: of memory that is not a pool's the program knows that nobody
 * uses it. What is in the stream may do so all the same. All else of the context is not waited for:
 * it may wait for this thread. */
CUresult movable_free_in(const struct pointer *entry, CUstream stream, bool own)
{
	CUresult r = CUDA_SUCCESS;

	if (capture_open())
		return free_later(entry);
	if (!(entry->owner & BLOCKS_LEAVING))
		r = driver_call(own ? real(cuStreamSynchronize_ptsz)(stream)
				    : real(cuStreamSynchronize)(stream));
	return r == CUDA_SUCCESS ? movable_free_at(entry->address) : r;
}
