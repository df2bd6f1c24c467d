/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves, as the program's threads use it: whether it does, and allocating. */
#include "guest/movable/movable.h"

#include <errno.h>
#include <string.h>

#include "guest/contexts/current.h"
#include "guest/contexts/devices.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/blocks.h"
#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/settle.h"
#include "guest/credit/table.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/link/link.h"
#include "guest/movable/movable_fit.h"
#include "guest/movable/movable_object.h"
#include "guest/movable/movable_stock.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"

enum {
	ROOM_MS = 10000,
};

struct movable_object movable_;

/* ---- whether it is used ---------------------------------------------------------------------- */

static void answered(uint32_t serving)
{
	atomic_store(&movable_.serving, serving);
	futex_wake_all(&movable_.serving);
}

/* One thread asks the daemon; others wait for the answer. */
static noinline_ bool ask(int device)
{
	uint32_t was = MOVABLE_UNASKED, why;
	int r;

	if (!atomic_compare_exchange_strong(&movable_.serving, &was, MOVABLE_ASKING)) {
		for (int i = 0; i < LINK_ANSWER_MS / MOVABLE_CHECK_MS && was == MOVABLE_ASKING;
		     i++) {
			futex_wait(&movable_.serving, MOVABLE_ASKING, MOVABLE_CHECK_MS,
				   FUTEX_PRIVATE_FLAG);
			was = atomic_load(&movable_.serving);
		}
		return was == MOVABLE_SERVED;
	}
	movable_.device = device;
	movable_.ordinal = devices_ordinal(device);
	why = movable_unfit(movable_.ordinal);
	if (why) {
		movable_why(why);
		answered(MOVABLE_PLAIN);
		return false;
	}
	movable_.about = movable_properties(movable_.ordinal);
	r = movable_ask_store(LINK_AT_ONCE);
	if (r == 0)
		r = movable_start();
	atomic_store(&state.device[device].moves, r == 0);
	/* If the daemon is away, ask again another time. */
	answered(r == 0 ? MOVABLE_SERVED : r == -ENOTCONN ? MOVABLE_UNASKED : MOVABLE_PLAIN);
	if (r == 0)
		current_changed();
	return r == 0;
}

bool movable_on(int device)
{
	return atomic_load_explicit(&movable_.serving, memory_order_acquire) == MOVABLE_SERVED &&
	       device == movable_.device;
}

bool movable_serves(int device)
{
	uint32_t serving = atomic_load_explicit(&movable_.serving, memory_order_acquire);

	if (likely(serving == MOVABLE_PLAIN) || device < 0)
		return false;
	if (serving == MOVABLE_SERVED)
		return device == movable_.device;
	/* Nothing may wait during a capture. */
	return !capture_open() && ask(device);
}

void movable_no_more(void)
{
	if (atomic_load(&movable_.serving) != MOVABLE_SERVED)
		return;
	answered(MOVABLE_PLAIN);
	atomic_store(&state.device[movable_.device].moves, 0);
	current_changed();
	movable_stock_release(movable_.device, UINT64_MAX);
}

CUdevice movable_ordinal(void)
{
	return movable_.ordinal;
}

/* ---- the own page ---------------------------------------------------------------------------- */

void movable_show(void)
{
	uint32_t w = atomic_load(&state.device[movable_.device].wire_index);
	struct wire_own_movable *page = &guest_own_page.movable[w];

	__atomic_store_n(&page->resident_bytes, movable_.resident, __ATOMIC_SEQ_CST);
	__atomic_store_n(&page->out_bytes, movable_.out, __ATOMIC_SEQ_CST);
	__atomic_store_n(&page->saved_bytes, movable_.saved, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < atomic_load(&state.devices); i++) {
		w = atomic_load(&state.device[i].wire_index);
		__atomic_store_n(&guest_own_page.movable[w].why, atomic_load(&movable_.why),
				 __ATOMIC_SEQ_CST);
	}
}

void movable_publish(void)
{
	futex_lock_take(&movable_.lock);
	movable_show();
	futex_lock_give(&movable_.lock);
}

void movable_why(uint32_t why)
{
	if ((atomic_fetch_or(&movable_.why, why) & why) != why)
		movable_publish();
}

/* ---- the driver's part ----------------------------------------------------------------------- */

uint64_t movable_unback_first(struct movable_area *area, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct movable_block *block = &area->block[i];

		if (block->where != MOVABLE_HERE)
			continue;
		best_effort(movable_unback(block));
		bytes += block->bytes;
	}
	return bytes;
}

/* Backs all of it with memory. */
static CUresult furnish(struct movable_area *area)
{
	CUresult r = CUDA_SUCCESS;
	uint32_t backed = 0;

	while (r == CUDA_SUCCESS && backed < area->count) {
		r = movable_back(&area->block[backed]);
		backed += r == CUDA_SUCCESS;
	}
	if (r == CUDA_SUCCESS)
		r = movable_access(area->base, area->bytes);
	if (r != CUDA_SUCCESS)
		best_effort(movable_unback_first(area, backed));
	return r;
}

/* ---- allocating ------------------------------------------------------------------------------ */

static uint64_t row_of(uint64_t width)
{
	return (width + BLOCKS_UNIT - 1) & ~(BLOCKS_UNIT - 1);
}

/* With the lock held. */
static int add(struct movable_area *area)
{
	if (ranges_add(&movable_.areas, area->base, area->bytes, (uint64_t)(uintptr_t)area) < 0)
		return -ENOMEM;
	area->id = ++movable_.next_id;
	movable_.resident += area->bytes;
	atomic_fetch_add(&movable_.open, 1);
	movable_show();
	return 0;
}

struct movable_charged movable_charged_now(void)
{
	return (struct movable_charged){link_connection(), credit_recalls()};
}

/* Memory that the previous daemon granted is missing from the inventory that this one got, if it
 * was created in between. Likewise, if a recall was answered in between, the daemon has seen memory
 * that is granted and not movable, and takes it for plain. Any message makes it look at the own
 * page. */
static void tell_of(struct movable_charged then)
{
	struct movable_charged now = movable_charged_now();

	if (then.connection == now.connection && then.recalls == now.recalls && !(now.recalls & 1))
		return;
	futex_lock_take(&movable_.lock);
	movable_.report_due = true;
	futex_lock_give(&movable_.lock);
	movable_kick();
}

void movable_give_back(struct movable_area *area)
{
	movable_unback_first(area, area->count);
	best_effort(driver_call(real(cuMemAddressFree)(area->base, area->bytes)));
	movable_area_free(area);
}

/* Undoes an area that is charged and created, but not known to anybody. */
static void unmake(struct movable_area *area, int device)
{
	uint64_t bytes = area->bytes;

	movable_give_back(area);
	credit_give(device, bytes);
}

CUresult movable_enter(struct movable_area *area, int device, struct movable_charged then)
{
	int r;

	futex_lock_take(&movable_.lock);
	r = add(area);
	futex_lock_give(&movable_.lock);
	tell_of(then);
	if (r == 0)
		return CUDA_SUCCESS;
	unmake(area, device);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Granted memory may not be available, because somebody has memory that the daemon has not seen
 * yet. The daemon looks, and others make room. Addresses that cannot be had are this process's own
 * want (RLIMIT_AS), and nobody makes room for them. */
static CUresult furnish_in_time(struct movable_area *area, int device)
{
	CUdeviceptr base = 0;
	CUresult r = driver_call(real(cuMemAddressReserve)(&base, area->bytes, BLOCKS_BYTES, 0, 0));

	if (r != CUDA_SUCCESS)
		return r;
	movable_area_place(area, base);
	r = furnish(area);
	for (int i = 0; r == CUDA_ERROR_OUT_OF_MEMORY && i < ROOM_MS / MOVABLE_CHECK_MS; i++) {
		uint32_t seen = atomic_load(&movable_.arrivals);

		settle_device(device);
		futex_wait(&movable_.arrivals, seen, MOVABLE_CHECK_MS, FUTEX_PRIVATE_FLAG);
		r = furnish(area);
	}
	if (r != CUDA_SUCCESS)
		best_effort(driver_call(real(cuMemAddressFree)(base, area->bytes)));
	return r;
}

/* Creates an area, charged and furnished. NULL: failed, see *ret_why. */
struct movable_area *movable_make(const struct memory_place *place, uint64_t bytes, bool slab,
				  const CUmemAllocationProp *own, CUresult *ret_why)
{
	struct movable_area *area = own ? NULL : movable_stock_take(bytes, slab);

	if (area) {
		area->owner = (uint64_t)(uintptr_t)place->context;
		*ret_why = CUDA_SUCCESS;
		return area;
	}
	*ret_why = memory_charge(place->device, bytes, CREDIT_WAIT | CREDIT_MOVABLE);
	if (*ret_why != CUDA_SUCCESS)
		return NULL;
	area = movable_area_new(bytes, movable_.chunk, slab);
	if (area && own)
		area->own = (struct movable_own){.is = true, .about = *own};
	*ret_why = area ? furnish_in_time(area, place->device) : CUDA_ERROR_OUT_OF_MEMORY;
	if (*ret_why == CUDA_SUCCESS) {
		area->owner = (uint64_t)(uintptr_t)place->context;
		return area;
	}
	movable_area_free(area);
	credit_give(place->device, bytes);
	return NULL;
}

/* With the lock held. Also tries the program's other slabs. */
static struct movable_area *slab_with_room(uint64_t owner, uint64_t bytes, int *ret_unit)
{
	struct movable_area *area = movable_.recent;

	for (size_t i = 0; i <= movable_.areas.count; i++) {
		if (area && area->slab && area->owner == owner) {
			*ret_unit = movable_piece_take(area->slab, bytes,
						       (uint32_t)movable_.next_id + 1);
			if (*ret_unit >= 0) {
				movable_.next_id++;
				movable_.recent = area;
				return area;
			}
		}
		if (i < movable_.areas.count)
			area = movable_area_at(i);
	}
	return NULL;
}

static uint64_t take_piece(uint64_t owner, uint64_t bytes)
{
	struct movable_area *area;
	uint64_t address = 0;
	int unit;

	futex_lock_take(&movable_.lock);
	area = slab_with_room(owner, bytes, &unit);
	if (area)
		address = area->base + (uint64_t)unit * BLOCKS_UNIT;
	futex_lock_give(&movable_.lock);
	return address;
}

static CUresult allocate_piece(const struct memory_place *place, uint64_t bytes,
			       uint64_t *ret_address)
{
	uint64_t owner = (uint64_t)(uintptr_t)place->context;
	struct movable_charged then = movable_charged_now();
	struct movable_area *area;
	CUresult r;
	int unit;

	*ret_address = take_piece(owner, bytes);
	if (*ret_address)
		return CUDA_SUCCESS;
	area = movable_make(place, BLOCKS_BYTES, true, NULL, &r);
	if (!area)
		return r;
	futex_lock_take(&movable_.lock);
	unit = movable_piece_take(area->slab, bytes, (uint32_t)++movable_.next_id);
	r = unit >= 0 && add(area) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		movable_.recent = area;
	futex_lock_give(&movable_.lock);
	tell_of(then);
	if (r == CUDA_SUCCESS)
		*ret_address = area->base + (uint64_t)unit * BLOCKS_UNIT;
	else
		unmake(area, place->device);
	return r;
}

static CUresult allocate_large(const struct memory_place *place, uint64_t bytes,
			       uint64_t *ret_address)
{
	struct movable_charged then = movable_charged_now();
	struct movable_area *area;
	uint64_t base;
	CUresult r;

	area = movable_make(place, memory_round(bytes), false, NULL, &r);
	if (!area)
		return r;
	area->asked = bytes;
	base = area->base;
	r = movable_enter(area, place->device, then);
	if (r == CUDA_SUCCESS)
		*ret_address = base;
	return r;
}

CUresult movable_allocate(const struct memory_place *place, struct memory_request *q)
{
	struct pointer entry = {.owner = (uint64_t)(uintptr_t)place->context,
				.kind = MEMORY_MOVABLE,
				.device = (int16_t)place->device};
	uint64_t bytes = q->bytes;
	CUresult r;

	if (capture_open() || bytes > UINT64_MAX / 2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (q->pitch && q->element != 4 && q->element != 8 && q->element != 16)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (atomic_load(&movable_.capturing))
		movable_reap();
	r = bytes <= BLOCKS_SMALL ? allocate_piece(place, bytes, &entry.address)
				  : allocate_large(place, bytes, &entry.address);
	if (r != CUDA_SUCCESS)
		return r;
	entry.bytes = bytes;
	if (memory_remember(&entry) < 0) {
		best_effort(movable_free_at(entry.address));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (q->pitch)
		*(size_t *)q->pitch = row_of(q->width);
	*(CUdeviceptr *)q->place = entry.address;
	return CUDA_SUCCESS;
}
