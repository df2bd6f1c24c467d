/* SPDX-License-Identifier: Apache-2.0 */
/* Multicast objects: one address that stands for memory on several devices. */
#include <string.h>

#include "guest/contexts/devices.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/vmm_object.h"
#include "guest/movable/movable.h"
#include "guest/process/join.h"
#include "guest/process/changes.h"

CUresult hook_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
				const CUmulticastObjectProp *prop)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS)
		return r ? r : driver_call(real(cuMulticastCreate)(mcHandle, prop));
	mine = driver_lock_take(&vmm.lock);
	r = driver_call(real(cuMulticastCreate)(mcHandle, prop));
	if (r == CUDA_SUCCESS && mcHandle && *mcHandle)
		note_free_of_charge(*mcHandle, true);
	driver_lock_give(&vmm.lock, mine);
	return r;
}

static struct binding *binding_free(void)
{
	for (int i = 0; i < BINDINGS; i++)
		if (vmm.binding[i].object == 0)
			return &vmm.binding[i];
	return NULL;
}

/* With the lock held. A binding that cannot be noted holds the memory for good: too much is
 * charged, not too little. */
static void bind(int64_t object, int64_t memory, uint64_t offset, uint64_t bytes)
{
	struct binding *b = binding_free();

	if (object < 0 || memory < 0)
		return;
	piece_at((uint32_t)memory)->bound++;
	if (b)
		*b = (struct binding){(uint32_t)object + 1, (uint32_t)memory + 1,
				      piece_at((uint32_t)memory)->device, offset, bytes};
}

/* If the memory moves, each of its blocks has a handle of the driver's. */
static CUresult bind_blocks(CUmemGenericAllocationHandle object, uint64_t at,
			    const struct movable_area *area, uint64_t from, uint64_t bytes,
			    unsigned long long flags)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	for (uint32_t b = 0; b < area->count && bytes; b++) {
		const struct movable_block *block = &area->block[b];
		uint64_t part = block->bytes;

		if (from >= part) {
			from -= part;
			continue;
		}
		part = part - from < bytes ? part - from : bytes;
		r = driver_call(
			real(cuMulticastBindMem)(object, at, block->handle, from, part, flags));
		if (r != CUDA_SUCCESS)
			break;
		at += part;
		bytes -= part;
		from = 0;
	}
	return r;
}

CUresult hook_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				 CUmemGenericAllocationHandle memHandle, size_t memOffset,
				 size_t size, unsigned long long flags)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	struct movable_area *area;
	int64_t memory;
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : driver_call(real(cuMulticastBindMem)(mcHandle, mcOffset, memHandle,
								memOffset, size, flags));
	mine = vmm_take_held(memHandle, &memory);
	area = memory >= 0 ? piece_at((uint32_t)memory)->area : NULL;
	if (area) {
		movable_own_fix(area, WIRE_UNMOVABLE_SHARED);
		r = bind_blocks(mcHandle, mcOffset, area, memOffset, size, flags);
	} else {
		r = driver_call(real(cuMulticastBindMem)(mcHandle, mcOffset, memHandle, memOffset,
							 size, flags));
	}
	if (r == CUDA_SUCCESS)
		bind(piece_of(mcHandle), memory, mcOffset, size);
	vmm_let(memory);
	driver_lock_give(&vmm.lock, mine);
	return r;
}

CUresult hook_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				  CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	const struct range *range;
	bool mine;

	if (driver_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : driver_call(real(cuMulticastBindAddr)(mcHandle, mcOffset, memptr, size,
								 flags));
	best_effort(movable_pin_range(memptr, size, WIRE_UNMOVABLE_SHARED));
	mine = driver_lock_take(&vmm.lock);
	r = driver_call(real(cuMulticastBindAddr)(mcHandle, mcOffset, memptr, size, flags));
	range = ranges_find(&vmm.maps, memptr);
	if (r == CUDA_SUCCESS && range)
		bind(piece_of(mcHandle), (int64_t)range->value, mcOffset, size);
	driver_lock_give(&vmm.lock, mine);
	return r;
}

CUresult hook_cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
				size_t mcOffset, size_t size)
{
	int64_t object;
	CUresult r;
	int device;
	bool mine;

	if (driver_nested())
		return driver_call(real(cuMulticastUnbind)(mcHandle, dev, mcOffset, size));
	changes_begin();
	mine = driver_lock_take(&vmm.lock);
	r = driver_call(real(cuMulticastUnbind)(mcHandle, dev, mcOffset, size));
	object = piece_of(mcHandle);
	device = r == CUDA_SUCCESS && object >= 0 ? devices_index(dev) : -1;
	for (int i = 0; i < BINDINGS && device >= 0; i++) {
		struct binding *b = &vmm.binding[i];
		uint32_t memory = b->memory;

		if (b->object != (uint32_t)object + 1 || b->device != device ||
		    b->offset < mcOffset || b->offset + b->bytes > mcOffset + size)
			continue;
		memset(b, 0, sizeof(*b));
		piece_at(memory - 1)->bound--;
		piece_end(memory - 1);
	}
	vmm_leave(mine);
	return r;
}
