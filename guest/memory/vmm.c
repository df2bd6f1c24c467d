/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory that the program maps by itself. Memory of cuMemCreate() lives until its last
 * handle is released, its last mapping is gone and no multicast object is bound to it any more, in
 * any order: programs usually release right after they have mapped. The charge lives as long, and
 * that of exported memory until the process ends: a descriptor keeps the memory, and nothing tells
 * us when its last copy is closed.
 *
 * The exporter pays for imported memory, and its tenant when the exporter has ended (decision 106).
 * Memory of the host is not charged. A multicast object holds no memory of its own, but is mapped
 * and released like memory.
 *
 * If the process's memory moves, so does this, unless it cannot be followed
 * (guest/movable/movable_own.h). Then its handles are ours. Mapping it and changing its access wait
 * until it is on the device; unmapping and releasing do not.
 */
#include "guest/contexts/devices.h"
#include "guest/memory/vmm_object.h"
#include "guest/process/join.h"

#include <string.h>

#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/pointers.h"
#include "guest/credit/settle.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop, unsigned long long flags, int device,
		       uint64_t charged)
{
	int64_t index;
	CUresult r;
	bool mine;

	mine = driver_lock_take(&vmm.lock);
	r = driver_call(real(cuMemCreate)(handle, size, prop, flags));
	if (r == CUDA_SUCCESS && *handle) {
		index = piece_new(charged, device);
		if (index >= 0 && handle_add(*handle, (uint32_t)index) == 0) {
			driver_lock_give(&vmm.lock, mine);
			return r;
		}
		/* Memory that cannot be noted is not given to the program. piece_end() returns the
		 * charge. */
		best_effort(driver_call(real(cuMemRelease)(*handle)));
		r = CUDA_ERROR_OUT_OF_MEMORY;
		if (index >= 0) {
			piece_end((uint32_t)index);
			charged = 0;
		}
	}
	driver_lock_give(&vmm.lock, mine);
	if (charged)
		credit_give(device, charged);
	return r;
}

/* Its handle is the record's address. */
static CUresult create_movable(CUmemGenericAllocationHandle *handle, size_t size,
			       const CUmemAllocationProp *prop, unsigned long long flags,
			       int device)
{
	struct movable_area *area;
	CUresult r = movable_own_create(device, size, prop, flags, &area);
	int64_t index;
	bool mine;

	if (r != CUDA_SUCCESS)
		return r;
	mine = driver_lock_take(&vmm.lock);
	index = piece_new(size, device);
	if (index >= 0) {
		piece_at((uint32_t)index)->area = area;
		if (handle_add((uint64_t)(uintptr_t)area, (uint32_t)index) < 0) {
			piece_end((uint32_t)index);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	} else {
		movable_own_end(area);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	driver_lock_give(&vmm.lock, mine);
	if (r == CUDA_SUCCESS)
		*handle = (uint64_t)(uintptr_t)area;
	return r;
}

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle_v1 *handle, size_t size,
			  const CUmemAllocationProp_v1 *prop, unsigned long long flags)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	uint64_t charged;
	int device;

	if (r != CUDA_SUCCESS)
		return r;
	if (driver_nested() || !state_joined() || !handle || !prop || size == 0 ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return driver_call(real(cuMemCreate)(handle, size, prop, flags));
	r = memory_refuse_device(prop->location.id);
	if (r != CUDA_SUCCESS)
		return r;
	device = devices_index(prop->location.id);
	if (device < 0)
		return driver_call(real(cuMemCreate)(handle, size, prop, flags));
	charged = memory_round(size);
	changes_begin();
	r = create_movable(handle, size, prop, flags, device);
	if (r == CUDA_ERROR_NOT_SUPPORTED) {
		movable_why(WIRE_UNMOVABLE_OWN);
		r = memory_charge(device, charged, CREDIT_WAIT);
		if (r == CUDA_SUCCESS)
			r = create(handle, size, prop, flags, device, charged);
	}
	changes_end();
	return r;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	int64_t index = piece_of(handle);

	if (index >= 0 && piece_at((uint32_t)index)->area)
		return CUDA_SUCCESS;
	return driver_call(real(cuMemRelease)(handle));
}

CUresult hook_cuMemRelease(CUmemGenericAllocationHandle_v1 handle)
{
	struct pointer entry, old;
	CUresult r;
	bool mine;

	if (driver_nested())
		return driver_call(real(cuMemRelease)(handle));
	changes_begin();
	mine = driver_lock_take(&vmm.lock);
	r = release(handle);
	if (r == CUDA_SUCCESS && pointers_take(&vmm.handles, handle, &entry) == 0) {
		if (--entry.bytes)
			best_effort(pointers_put(&vmm.handles, &entry, &old));
		piece_at(entry.detail)->handles--;
		piece_end(entry.detail);
	}
	vmm_leave(mine);
	return r;
}

static CUresult unmap(CUdeviceptr ptr, size_t size, struct movable_area *area)
{
	if (area)
		return movable_own_unmap(area, ptr, size);
	return driver_call(real(cuMemUnmap)(ptr, size));
}

CUresult hook_cuMemMap(CUdeviceptr_v2 ptr, size_t size, size_t offset,
		       CUmemGenericAllocationHandle_v1 handle, unsigned long long flags)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_area *area;
	int64_t index;
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS)
		return r ? r : driver_call(real(cuMemMap)(ptr, size, offset, handle, flags));
	mine = vmm_take_held(handle, &index);
	area = index >= 0 ? piece_at((uint32_t)index)->area : NULL;
	if (area)
		r = movable_own_map(area, ptr, size, offset, flags);
	else
		r = driver_call(real(cuMemMap)(ptr, size, offset, handle, flags));
	if (r == CUDA_SUCCESS && index >= 0) {
		if (ranges_add(&vmm.maps, ptr, size, (uint64_t)index) == 0) {
			piece_at((uint32_t)index)->maps++;
		} else {
			best_effort(unmap(ptr, size, area));
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	vmm_let(index);
	driver_lock_give(&vmm.lock, mine);
	return r;
}

/* With the lock held: is the range whole mappings, one after the other? */
static bool is_whole(uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes;

	for (size_t i = ranges_first(&vmm.maps, address); address < end; i++) {
		const struct range *range = &vmm.maps.range[i];

		if (i == vmm.maps.count || range->base != address || range->bytes > end - address)
			return false;
		address += range->bytes;
	}
	return true;
}

static void unmapped(const struct range *range)
{
	piece_at((uint32_t)range->value)->maps--;
	piece_end((uint32_t)range->value);
}

/* With the lock held. Part of it may be in the store, where the driver knows of no mapping: so the
 * driver's checks are made here, and the mappings are removed one by one. */
static CUresult unmap_each(uint64_t address, uint64_t bytes)
{
	CUresult r = CUDA_SUCCESS;
	struct range range;

	if (address + bytes < address || !is_whole(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t end = address + bytes; address < end; address += range.bytes) {
		range = *ranges_find(&vmm.maps, address);
		r = unmap(range.base, range.bytes, piece_at((uint32_t)range.value)->area);
		if (r != CUDA_SUCCESS)
			break;
		best_effort(ranges_take(&vmm.maps, range.base, range.bytes, &range));
		unmapped(&range);
	}
	return r;
}

/* May take several mappings at once, each of them whole. */
CUresult hook_cuMemUnmap(CUdeviceptr_v2 ptr, size_t size)
{
	struct range range;
	CUresult r;
	bool mine;

	if (driver_nested())
		return driver_call(real(cuMemUnmap)(ptr, size));
	changes_begin();
	mine = driver_lock_take(&vmm.lock);
	if (vmm_area_in(ptr, size)) {
		r = unmap_each(ptr, size);
	} else {
		r = driver_call(real(cuMemUnmap)(ptr, size));
		while (r == CUDA_SUCCESS && ranges_take(&vmm.maps, ptr, size, &range) == 0)
			unmapped(&range);
	}
	vmm_leave(mine);
	return r;
}

/* The access of the tenant's device, which is set again whenever the memory comes back; -1: not
 * given. Access of other devices keeps the memory where it is. */
static int access_of(const CUmemAccessDesc *desc, size_t count, bool *ret_others)
{
	int access = -1;

	*ret_others = false;
	for (size_t i = 0; i < count; i++) {
		if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    desc[i].location.id == movable_ordinal())
			access = (int)desc[i].flags;
		else
			*ret_others = true;
	}
	return access;
}

static CUresult set_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult r = driver_call(real(cuMemSetAccess)(ptr, size, desc, count));
	bool others;
	int access;

	if (r != CUDA_SUCCESS || !vmm_area_in(ptr, size))
		return r;
	access = access_of(desc, count, &others);
	if (access >= 0)
		movable_own_accessed(ptr, size, (CUmemAccess_flags)access);
	for (size_t i = ranges_first(&vmm.maps, ptr); others && i < vmm.maps.count; i++) {
		const struct range *range = &vmm.maps.range[i];

		if (range->base >= ptr + size)
			break;
		if (piece_at((uint32_t)range->value)->area)
			movable_own_fix(piece_at((uint32_t)range->value)->area,
					WIRE_UNMOVABLE_SHARED);
	}
	return r;
}

CUresult hook_cuMemSetAccess(CUdeviceptr_v2 ptr, size_t size, const CUmemAccessDesc_v1 *desc,
			     size_t count)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS || !desc)
		return r ? r : driver_call(real(cuMemSetAccess)(ptr, size, desc, count));
	best_effort(movable_await_at(ptr));
	mine = vmm_take_range_held(ptr, size);
	r = set_access(ptr, size, desc, count);
	vmm_let_range(ptr, size);
	driver_lock_give(&vmm.lock, mine);
	return r;
}

/* With the lock held. Memory that moves has one handle, which is ours. */
static CUresult retain(CUmemGenericAllocationHandle *handle, void *addr, const struct range *range)
{
	struct movable_area *area = range ? piece_at((uint32_t)range->value)->area : NULL;

	if (!area)
		return driver_call(real(cuMemRetainAllocationHandle)(handle, addr));
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	*handle = (uint64_t)(uintptr_t)area;
	return CUDA_SUCCESS;
}

/* The handle may be a new number for the mapped memory, or the old one again. */
CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle_v1 *handle, void *addr)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	const struct range *range;
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS)
		return r ? r : driver_call(real(cuMemRetainAllocationHandle)(handle, addr));
	if (!movable_maps((uint64_t)(uintptr_t)addr))
		best_effort(movable_pin((uint64_t)(uintptr_t)addr, WIRE_UNMOVABLE_SHARED));
	mine = driver_lock_take(&vmm.lock);
	range = ranges_find(&vmm.maps, (uint64_t)(uintptr_t)addr);
	r = retain(handle, addr, range);
	if (r == CUDA_SUCCESS && handle && *handle && range &&
	    handle_add(*handle, (uint32_t)range->value) < 0) {
		best_effort(release(*handle));
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	driver_lock_give(&vmm.lock, mine);
	return r;
}

/* Counted before another process can have it: if we are killed in the middle, the memory may live
 * on. */
static CUresult export(struct piece *piece, CUmemGenericAllocationHandle handle,
		       CUmemAllocationHandleType type, unsigned long long flags,
		       void *ret_descriptor)
{
	struct movable_area *area = piece->area;
	int64_t bytes = (int64_t)(area ? area->bytes : piece->bytes);
	bool counts = !piece->outgoing;
	CUresult r;

	if (counts)
		credit_outgoing(piece->device, bytes);
	r = driver_call(real(cuMemExportToShareableHandle)(
		ret_descriptor, area ? area->block[0].handle : handle, type, flags));
	if (r == CUDA_SUCCESS) {
		piece->outgoing = true;
		if (area) {
			area->own.outgoing = true;
			movable_own_fix(area, WIRE_UNMOVABLE_SHARED);
		}
	}
	/* movable_own_fix() has counted an area. */
	if (counts && (r != CUDA_SUCCESS || area))
		credit_outgoing(piece->device, -bytes);
	return r;
}

CUresult hook_cuMemExportToShareableHandle(void *shareableHandle,
					   CUmemGenericAllocationHandle_v1 handle,
					   CUmemAllocationHandleType handleType,
					   unsigned long long flags)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_area *area;
	int64_t index;
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : driver_call(real(cuMemExportToShareableHandle)(shareableHandle, handle,
									  handleType, flags));
	mine = vmm_take_held(handle, &index);
	area = index >= 0 ? piece_at((uint32_t)index)->area : NULL;
	r = index >= 0
		    ? export(piece_at((uint32_t)index), handle, handleType, flags, shareableHandle)
		    : driver_call(real(cuMemExportToShareableHandle)(shareableHandle, handle,
								     handleType, flags));
	vmm_let(index);
	driver_lock_give(&vmm.lock, mine);
	if (!area)
		movable_why(WIRE_UNMOVABLE_SHARED);
	return r;
}

CUresult hook_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle_v1 *handle,
					     void *osHandle, CUmemAllocationHandleType shHandleType)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : driver_call(real(cuMemImportFromShareableHandle)(handle, osHandle,
									    shHandleType));
	changes_other(-1); /* the driver may count it as ours, too */
	mine = driver_lock_take(&vmm.lock);
	r = driver_call(real(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType));
	if (r == CUDA_SUCCESS && handle && *handle)
		note_free_of_charge(*handle, false);
	driver_lock_give(&vmm.lock, mine);
	if (r == CUDA_SUCCESS)
		settle_all();
	return r;
}

/* The driver answers with what the program asked for. If the memory moves, we do: the driver would
 * describe our blocks. */
CUresult hook_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp_v1 *prop,
						     CUmemGenericAllocationHandle_v1 handle)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_area *area = NULL;
	int64_t index;
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS || !prop)
		return r ? r
			 : driver_call(real(cuMemGetAllocationPropertiesFromHandle)(prop, handle));
	mine = driver_lock_take(&vmm.lock);
	index = piece_of(handle);
	area = index >= 0 ? piece_at((uint32_t)index)->area : NULL;
	if (area)
		*prop = area->own.about;
	else
		r = driver_call(real(cuMemGetAllocationPropertiesFromHandle)(prop, handle));
	driver_lock_give(&vmm.lock, mine);
	return r;
}
