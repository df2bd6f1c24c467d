/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory that the program maps by itself. What cuMemCreate() makes lives until the last
 * handle on it is released, the last mapping is gone and no multicast object is bound to it any
 * more, in whatever order: programs usually release right after they have mapped. The charge lives
 * as long, and that of memory that was exported until the process ends: a descriptor keeps it, and
 * nobody says when the last copy of one is closed.
 *
 * Imported memory is its exporter's to pay; where the driver counts it as ours, as it does when its
 * exporter has ended, it is measured. What lies in host memory is nobody's. A multicast object
 * holds no memory of its own, but is mapped and released like one.
 *
 * One lock around all of it, the driver's call included: a handle's number may be given out again
 * as soon as it was released, and these calls take the driver tens of microseconds anyway.
 */
#include "guest/vmm.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/context.h"
#include "guest/credit.h"
#include "guest/driver_lock.h"
#include "guest/hooks.h"
#include "guest/memory.h"
#include "guest/movable.h"
#include "guest/moves.h"
#include "guest/pointers.h"
#include "guest/ranges.h"
#include "guest/real.h"
#include "guest/state.h"

enum {
	CHUNK = 256, /* pieces */
	CHUNKS = 4096,
	BINDINGS = 1024,
};

/* Physical memory, or a multicast object. */
struct piece {
	uint64_t bytes;	  /* charged */
	uint32_t handles; /* that were not released */
	uint32_t maps;
	uint32_t bound; /* multicast objects that hold it */
	int32_t device;
	uint32_t next; /* of the unused ones; index + 1 */
	bool multicast;
	bool outgoing; /* exported */
};

struct binding {
	uint32_t object, memory; /* pieces; index + 1 */
	CUdevice device;
	uint64_t offset, bytes;
};

static struct {
	struct driver_lock lock;
	struct piece *chunk[CHUNKS];
	uint32_t made, unused_;
	struct pointers
		handles;    /* detail: the piece's index; bytes: how often it is to be released */
	struct ranges maps; /* value: the piece's index */
	struct binding binding[BINDINGS];
	bool import_ended; /* whoever has ended it says so after its move: leave() */
} vmm;

/* ---- with the lock held ---------------------------------------------------------------------- */

static struct piece *piece_at(uint32_t index)
{
	return &vmm.chunk[index / CHUNK][index % CHUNK];
}

/* Index of a new piece, or -ENOMEM. */
static int64_t piece_new(uint64_t bytes, int device)
{
	uint32_t index = vmm.unused_;
	int saved = errno;
	void *memory;

	if (index) {
		vmm.unused_ = piece_at(index - 1)->next;
		index--;
	} else {
		if (vmm.made == CHUNK * CHUNKS)
			return -ENOMEM;
		if (vmm.made % CHUNK == 0) {
			memory = mmap(NULL, CHUNK * sizeof(struct piece), PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			errno = saved;
			if (memory == MAP_FAILED)
				return -ENOMEM;
			vmm.chunk[vmm.made / CHUNK] = memory;
		}
		index = vmm.made++;
	}
	*piece_at(index) = (struct piece){.bytes = bytes, .device = device};
	return index;
}

static void piece_end(uint32_t index);

/* A multicast object is gone, and lets go of what was bound to it. */
static void unbind_all(uint32_t object)
{
	for (int i = 0; i < BINDINGS; i++) {
		struct binding *b = &vmm.binding[i];
		uint32_t memory = b->memory;

		if (b->object != object + 1)
			continue;
		memset(b, 0, sizeof(*b));
		if (memory) {
			piece_at(memory - 1)->bound--;
			piece_end(memory - 1);
		}
	}
}

/* If nothing holds it any more, its memory is the driver's again, unless it was exported. */
static void piece_end(uint32_t index)
{
	struct piece *piece = piece_at(index);
	bool multicast = piece->multicast;

	if (piece->handles || piece->maps || piece->bound)
		return;
	if (piece->bytes && piece->outgoing)
		credit_adrift(piece->device, (int64_t)piece->bytes);
	else if (piece->bytes)
		credit_give(piece->device, piece->bytes);
	else if (!multicast)
		vmm.import_ended = true;
	memset(piece, 0, sizeof(*piece));
	piece->next = vmm.unused_;
	vmm.unused_ = index + 1;
	if (multicast)
		unbind_all(index);
}

/* The piece of a handle, or -1. */
static int64_t piece_of(CUmemGenericAllocationHandle handle)
{
	struct pointer entry;

	return pointers_find(&vmm.handles, handle, &entry) == 0 ? (int64_t)entry.detail : -1;
}

/* One more release is due for the handle. 0; -ENOMEM: it is not noted. */
static int handle_add(CUmemGenericAllocationHandle handle, uint32_t index)
{
	struct pointer entry = {.address = handle, .bytes = 1, .detail = index}, old;
	int r = pointers_put(&vmm.handles, &entry, &old);

	if (r < 0)
		return r;
	if (r == POINTERS_REPLACED && old.detail == index) {
		entry.bytes = old.bytes + 1;
		best_effort(pointers_put(&vmm.handles, &entry, &old));
	} else if (r == POINTERS_REPLACED) {
		/* Released in a way that nobody told us of. */
		piece_at(old.detail)->handles -= (uint32_t)old.bytes;
		piece_end(old.detail);
	}
	piece_at(index)->handles++;
	return 0;
}

/* A handle that came without being charged: imported, or host memory. */
static void note_free_of_charge(CUmemGenericAllocationHandle handle, bool multicast)
{
	int64_t index;

	if (piece_of(handle) >= 0) {
		/* Importing what this process exported gives the same memory once more. */
		best_effort(handle_add(handle, (uint32_t)piece_of(handle)));
		return;
	}
	index = piece_new(0, -1);
	if (index < 0)
		return;
	piece_at((uint32_t)index)->multicast = multicast;
	if (handle_add(handle, (uint32_t)index) < 0)
		piece_end((uint32_t)index);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Ends a move, and the section of the lock in it. What was imported may have been the driver's to
 * count as ours: without it there is something to measure. */
static void leave(bool mine)
{
	bool import_ended = vmm.import_ended;

	vmm.import_ended = false;
	driver_lock_give(&vmm.lock, mine);
	moves_end();
	if (import_ended)
		context_settle_all();
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop, unsigned long long flags, int device,
		       uint64_t charged)
{
	int64_t index;
	CUresult r;
	bool mine;

	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMemCreate)(handle, size, prop, flags));
	if (r == CUDA_SUCCESS && *handle) {
		index = piece_new(charged, device);
		if (index >= 0 && handle_add(*handle, (uint32_t)index) == 0) {
			driver_lock_give(&vmm.lock, mine);
			return r;
		}
		/* What cannot be followed cannot be given out. piece_end() gives the charge. */
		best_effort(memory_driver(real(cuMemRelease)(*handle)));
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

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle_v1 *handle, size_t size,
			  const CUmemAllocationProp_v1 *prop, unsigned long long flags)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	uint64_t charged;
	int device;

	if (r != CUDA_SUCCESS)
		return r;
	if (memory_nested() || !state_joined() || !handle || !prop || size == 0 ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return memory_driver(real(cuMemCreate)(handle, size, prop, flags));
	r = memory_refuse_device(prop->location.id);
	if (r != CUDA_SUCCESS)
		return r;
	device = state_device(prop->location.id);
	if (device < 0)
		return memory_driver(real(cuMemCreate)(handle, size, prop, flags));
	charged = memory_round(size);
	movable_why(WIRE_UNMOVABLE_OWN);
	moves_begin();
	r = memory_charge(device, charged, CREDIT_WAIT);
	if (r == CUDA_SUCCESS)
		r = create(handle, size, prop, flags, device, charged);
	moves_end();
	return r;
}

CUresult hook_cuMemRelease(CUmemGenericAllocationHandle_v1 handle)
{
	struct pointer entry, old;
	CUresult r;
	bool mine;

	if (memory_nested())
		return memory_driver(real(cuMemRelease)(handle));
	moves_begin();
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMemRelease)(handle));
	if (r == CUDA_SUCCESS && pointers_take(&vmm.handles, handle, &entry) == 0) {
		if (--entry.bytes)
			best_effort(pointers_put(&vmm.handles, &entry, &old));
		piece_at(entry.detail)->handles--;
		piece_end(entry.detail);
	}
	leave(mine);
	return r;
}

CUresult hook_cuMemMap(CUdeviceptr_v2 ptr, size_t size, size_t offset,
		       CUmemGenericAllocationHandle_v1 handle, unsigned long long flags)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	int64_t index;
	bool mine;

	if (memory_nested() || r != CUDA_SUCCESS)
		return r ? r : memory_driver(real(cuMemMap)(ptr, size, offset, handle, flags));
	mine = driver_lock_take(&vmm.lock);
	index = piece_of(handle);
	r = memory_driver(real(cuMemMap)(ptr, size, offset, handle, flags));
	if (r == CUDA_SUCCESS && index >= 0) {
		if (ranges_add(&vmm.maps, ptr, size, (uint64_t)index) == 0) {
			piece_at((uint32_t)index)->maps++;
		} else {
			best_effort(memory_driver(real(cuMemUnmap)(ptr, size)));
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	driver_lock_give(&vmm.lock, mine);
	return r;
}

/* May take several mappings at once, each of them whole. */
CUresult hook_cuMemUnmap(CUdeviceptr_v2 ptr, size_t size)
{
	struct range range;
	CUresult r;
	bool mine;

	if (memory_nested())
		return memory_driver(real(cuMemUnmap)(ptr, size));
	moves_begin();
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMemUnmap)(ptr, size));
	while (r == CUDA_SUCCESS && ranges_take(&vmm.maps, ptr, size, &range) == 0) {
		piece_at((uint32_t)range.value)->maps--;
		piece_end((uint32_t)range.value);
	}
	leave(mine);
	return r;
}

/* The handle may be a new number for what is mapped at the address, or the old one again. */
CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle_v1 *handle, void *addr)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	const struct range *range;
	bool mine;

	if (memory_nested() || r != CUDA_SUCCESS)
		return r ? r : memory_driver(real(cuMemRetainAllocationHandle)(handle, addr));
	best_effort(movable_pin((uint64_t)(uintptr_t)addr, WIRE_UNMOVABLE_SHARED));
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMemRetainAllocationHandle)(handle, addr));
	range = ranges_find(&vmm.maps, (uint64_t)(uintptr_t)addr);
	if (r == CUDA_SUCCESS && handle && *handle && range &&
	    handle_add(*handle, (uint32_t)range->value) < 0) {
		best_effort(memory_driver(real(cuMemRelease)(*handle)));
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	driver_lock_give(&vmm.lock, mine);
	return r;
}

CUresult hook_cuMemExportToShareableHandle(void *shareableHandle,
					   CUmemGenericAllocationHandle_v1 handle,
					   CUmemAllocationHandleType handleType,
					   unsigned long long flags)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	int64_t index;
	bool mine;

	if (memory_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : memory_driver(real(cuMemExportToShareableHandle)(shareableHandle, handle,
									    handleType, flags));
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(
		real(cuMemExportToShareableHandle)(shareableHandle, handle, handleType, flags));
	index = piece_of(handle);
	if (r == CUDA_SUCCESS && index >= 0)
		piece_at((uint32_t)index)->outgoing = true;
	movable_why(WIRE_UNMOVABLE_SHARED);
	driver_lock_give(&vmm.lock, mine);
	return r;
}

CUresult hook_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle_v1 *handle,
					     void *osHandle, CUmemAllocationHandleType shHandleType)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	bool mine;

	if (memory_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : memory_driver(real(cuMemImportFromShareableHandle)(handle, osHandle,
									      shHandleType));
	moves_other(-1); /* the driver may count it as ours, too */
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType));
	if (r == CUDA_SUCCESS && handle && *handle)
		note_free_of_charge(*handle, false);
	driver_lock_give(&vmm.lock, mine);
	if (r == CUDA_SUCCESS)
		context_settle_all();
	return r;
}

/* The driver answers what the program asked for, as the memory is the driver's own. */
CUresult hook_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp_v1 *prop,
						     CUmemGenericAllocationHandle_v1 handle)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();

	return r ? r : memory_driver(real(cuMemGetAllocationPropertiesFromHandle)(prop, handle));
}

/* ---- multicast ------------------------------------------------------------------------------- */

CUresult hook_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
				const CUmulticastObjectProp *prop)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	bool mine;

	if (memory_nested() || r != CUDA_SUCCESS)
		return r ? r : memory_driver(real(cuMulticastCreate)(mcHandle, prop));
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMulticastCreate)(mcHandle, prop));
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

/* With the lock held. What cannot be noted is held for good: too much is charged, not
 * too little. */
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

CUresult hook_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				 CUmemGenericAllocationHandle memHandle, size_t memOffset,
				 size_t size, unsigned long long flags)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	bool mine;

	if (memory_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : memory_driver(real(cuMulticastBindMem)(mcHandle, mcOffset, memHandle,
								  memOffset, size, flags));
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(
		real(cuMulticastBindMem)(mcHandle, mcOffset, memHandle, memOffset, size, flags));
	if (r == CUDA_SUCCESS)
		bind(piece_of(mcHandle), piece_of(memHandle), mcOffset, size);
	driver_lock_give(&vmm.lock, mine);
	return r;
}

CUresult hook_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				  CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	const struct range *range;
	bool mine;

	if (memory_nested() || r != CUDA_SUCCESS)
		return r ? r
			 : memory_driver(real(cuMulticastBindAddr)(mcHandle, mcOffset, memptr, size,
								   flags));
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMulticastBindAddr)(mcHandle, mcOffset, memptr, size, flags));
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

	if (memory_nested())
		return memory_driver(real(cuMulticastUnbind)(mcHandle, dev, mcOffset, size));
	moves_begin();
	mine = driver_lock_take(&vmm.lock);
	r = memory_driver(real(cuMulticastUnbind)(mcHandle, dev, mcOffset, size));
	object = piece_of(mcHandle);
	device = r == CUDA_SUCCESS && object >= 0 ? state_device(dev) : -1;
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
	leave(mine);
	return r;
}

void vmm_forget(void)
{
	int saved = errno;

	pointers_forget(&vmm.handles);
	ranges_forget(&vmm.maps);
	for (uint32_t i = 0; i < (vmm.made + CHUNK - 1) / CHUNK; i++) {
		munmap(vmm.chunk[i], CHUNK * sizeof(struct piece));
		vmm.chunk[i] = NULL;
	}
	vmm.made = vmm.unused_ = 0;
	memset(vmm.binding, 0, sizeof(vmm.binding));
	memset(&vmm.lock, 0, sizeof(vmm.lock));
	errno = saved;
}
