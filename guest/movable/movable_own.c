/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/movable_own.h"

#include "guest/contexts/memory_place.h"
#include "guest/credit/blocks.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/movable/movable_object.h"
#include "guest/process/notice.h"
#include "guest/time/capture.h"

/* ---- coming and going ------------------------------------------------------------------------ */

/* Descriptors and other devices keep the memory that they were given, not what replaces it: so
 * memory stays once it was exported, or a network adapter is used. Only a single block can be
 * exported. Pages of other sizes, compressed ones and pools of tiles are left alone. */
static bool can_follow(uint64_t bytes, const CUmemAllocationProp *about, unsigned long long flags)
{
	bool exportable = about->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;

	return about->type == CU_MEM_ALLOCATION_TYPE_PINNED && bytes && bytes % BLOCKS_BYTES == 0 &&
	       bytes < UINT64_MAX / 2 && !flags && !about->win32HandleMetaData &&
	       !about->allocFlags.compressionType && !about->allocFlags.usage &&
	       (!exportable ||
		(about->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
		 bytes <= movable_.chunk));
}

CUresult movable_own_create(int device, uint64_t bytes, const CUmemAllocationProp *about,
			    unsigned long long flags, struct movable_area **ret_area)
{
	struct memory_place place = {.device = device};
	struct movable_charged then = movable_charged_now();
	struct movable_area *area;
	CUresult r;

	if (capture_open() || !movable_serves(device) || !can_follow(bytes, about, flags))
		return CUDA_ERROR_NOT_SUPPORTED;
	area = movable_make(&place, bytes, false, about, &r);
	if (!area)
		return r;
	r = movable_enter(area, device, then);
	if (r == CUDA_SUCCESS)
		*ret_area = area;
	return r;
}

void movable_own_end(struct movable_area *area)
{
	futex_lock_take(&movable_.lock);
	movable_leave_table(area);
	futex_lock_give(&movable_.lock);
	movable_dissolve(area);
}

/* ---- holding --------------------------------------------------------------------------------- */

/* Returns whether all of it is on the device. */
static bool hold(struct movable_area *area, bool anywhere)
{
	bool here;

	futex_lock_take(&movable_.lock);
	movable_wait_for_arrival(area);
	here = movable_is_here(area);
	area->own.held += here || anywhere;
	futex_lock_give(&movable_.lock);
	return here;
}

bool movable_own_hold(struct movable_area *area)
{
	return hold(area, false);
}

void movable_own_let(struct movable_area *area)
{
	futex_lock_take(&movable_.lock);
	area->own.held--;
	futex_lock_give(&movable_.lock);
	movable_kick();
}

void movable_own_await(uint64_t *began_ns)
{
	notice_wait(began_ns, NOTICE_MEMORY);
	movable_await();
}

void movable_own_fix(struct movable_area *area, uint32_t why)
{
	futex_lock_take(&movable_.lock);
	movable_fix(area, why);
	futex_lock_give(&movable_.lock);
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* An area of several blocks has a handle of the driver's for each of them. */
static CUresult map_blocks(const struct movable_area *area, uint64_t address, uint64_t bytes)
{
	const struct movable_alias whole = {.address = address, .bytes = bytes};
	CUresult r = CUDA_SUCCESS;
	uint64_t at = address, part;

	for (uint32_t b = 0; b < area->count; b++) {
		if (!movable_alias_part(&whole, &area->block[b], &at, &part))
			break;
		r = driver_call(real(cuMemMap)(at, part, 0, area->block[b].handle, 0));
		if (r != CUDA_SUCCESS)
			break;
	}
	if (r != CUDA_SUCCESS && at > address)
		best_effort(driver_call(real(cuMemUnmap)(address, at - address)));
	return r;
}

/* Notes the driver's answer about the address range, as there is none while nothing is mapped. */
static void ask_range(struct movable_alias *alias, uint64_t block_bytes)
{
	uint64_t start, bytes;

	if (driver_call(real(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
						    alias->address)) == CUDA_SUCCESS)
		alias->range = start;
	/* For the program the range of a single block is that of the mapping. */
	if (driver_call(real(cuPointerGetAttribute)(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
						    alias->address)) == CUDA_SUCCESS &&
	    bytes != block_bytes)
		alias->range_bytes = bytes;
}

/* false: it cannot be noted. */
static bool note(struct movable_area *area, uint64_t address, uint64_t bytes)
{
	struct movable_alias about = {.address = address, .bytes = bytes, .range_bytes = bytes},
			     *alias;

	about.range = address;
	ask_range(&about, area->block[0].bytes);
	futex_lock_take(&movable_.lock);
	alias = movable_alias_add(area, address, bytes);
	if (alias && ranges_add(&movable_.aliases, address, bytes, (uint64_t)(uintptr_t)area) < 0) {
		alias->bytes = 0;
		alias = NULL;
	}
	if (alias) {
		alias->range = about.range;
		alias->range_bytes = about.range_bytes;
		alias->id = ++movable_.next_id;
	}
	futex_lock_give(&movable_.lock);
	return alias != NULL;
}

CUresult movable_own_map(struct movable_area *area, uint64_t address, uint64_t bytes,
			 uint64_t offset, unsigned long long flags)
{
	CUresult r;

	if (area->count == 1)
		r = driver_call(
			real(cuMemMap)(address, bytes, offset, area->block[0].handle, flags));
	else if (bytes == 0 || bytes > area->bytes || offset || flags)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = map_blocks(area, address, bytes);
	if (r == CUDA_SUCCESS && (offset || flags || !note(area, address, bytes)))
		movable_own_fix(area, WIRE_UNMOVABLE_OWN);
	return r;
}

static CUresult unmap_blocks(const struct movable_area *area, const struct movable_alias *alias)
{
	CUresult r = CUDA_SUCCESS;
	uint64_t at, part;

	for (uint32_t b = 0; b < area->count && r == CUDA_SUCCESS; b++)
		if (area->block[b].where == MOVABLE_HERE &&
		    movable_alias_part(alias, &area->block[b], &at, &part))
			r = driver_call(real(cuMemUnmap)(at, part));
	return r;
}

/* With the lock held. */
static void forget(struct movable_alias *alias)
{
	struct range range;

	best_effort(ranges_take(&movable_.aliases, alias->address, alias->bytes, &range));
	alias->bytes = 0;
}

/* A mapping that was not noted stays on the device: the driver knows it. */
CUresult movable_own_unmap(struct movable_area *area, uint64_t address, uint64_t bytes)
{
	bool here = hold(area, true);
	struct movable_alias *alias = movable_alias_at(area, address);
	CUresult r;

	if (here || !alias)
		r = driver_call(real(cuMemUnmap)(address, bytes));
	else
		r = unmap_blocks(area, alias);
	futex_lock_take(&movable_.lock);
	if (r == CUDA_SUCCESS && alias)
		forget(alias);
	area->own.held--;
	futex_lock_give(&movable_.lock);
	movable_kick();
	return r;
}

void movable_own_accessed(uint64_t address, uint64_t bytes, CUmemAccess_flags flags)
{
	futex_lock_take(&movable_.lock);
	for (size_t i = ranges_first(&movable_.aliases, address); i < movable_.aliases.count; i++) {
		const struct range *range = &movable_.aliases.range[i];
		struct movable_area *area = movable_area_of(range);

		if (range->base >= address + bytes)
			break;
		if (range->base >= address && range->bytes <= address + bytes - range->base)
			movable_alias_at(area, range->base)->access = flags;
		else
			movable_fix(area, WIRE_UNMOVABLE_OWN);
	}
	futex_lock_give(&movable_.lock);
}
