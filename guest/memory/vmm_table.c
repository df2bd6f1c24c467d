/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/vmm_object.h"

#include <errno.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/credit/credit.h"
#include "guest/credit/pointers.h"
#include "guest/credit/settle.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"

struct vmm vmm;

int64_t piece_new(uint64_t bytes, int device)
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

/* A multicast object is gone: releases the memory that was bound to it. */
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

void piece_end(uint32_t index)
{
	struct piece *piece = piece_at(index);
	bool multicast = piece->multicast;

	if (piece->handles || piece->maps || piece->bound)
		return;
	if (piece->area) {
		movable_own_end(piece->area);
	} else if (piece->bytes && piece->outgoing) {
		credit_adrift(piece->device, (int64_t)piece->bytes);
		credit_outgoing(piece->device, -(int64_t)piece->bytes);
	} else if (piece->bytes)
		credit_give(piece->device, piece->bytes);
	else if (!multicast)
		vmm.import_ended = true;
	memset(piece, 0, sizeof(*piece));
	piece->next = vmm.unused_;
	vmm.unused_ = index + 1;
	if (multicast)
		unbind_all(index);
}

int64_t piece_of(CUmemGenericAllocationHandle handle)
{
	struct pointer entry;

	return pointers_find(&vmm.handles, handle, &entry) == 0 ? (int64_t)entry.detail : -1;
}

int handle_add(CUmemGenericAllocationHandle handle, uint32_t index)
{
	struct pointer entry = {.address = handle, .bytes = 1, .detail = index}, old;
	int r = pointers_put(&vmm.handles, &entry, &old);

	if (r < 0)
		return r;
	if (r == POINTERS_REPLACED && old.detail == index) {
		entry.bytes = old.bytes + 1;
		best_effort(pointers_put(&vmm.handles, &entry, &old));
	} else if (r == POINTERS_REPLACED) {
		/* The older one was released in a way that no hook saw. */
		piece_at(old.detail)->handles -= (uint32_t)old.bytes;
		piece_end(old.detail);
	}
	piece_at(index)->handles++;
	return 0;
}

void note_free_of_charge(CUmemGenericAllocationHandle handle, bool multicast)
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

/* ---- memory that moves ----------------------------------------------------------------------- */

bool vmm_take_held(CUmemGenericAllocationHandle handle, int64_t *ret_index)
{
	uint64_t began = 0;

	for (;;) {
		bool mine = driver_lock_take(&vmm.lock);
		int64_t index = piece_of(handle);

		if (index < 0 || !piece_at((uint32_t)index)->area ||
		    movable_own_hold(piece_at((uint32_t)index)->area)) {
			*ret_index = index;
			return mine;
		}
		driver_lock_give(&vmm.lock, mine);
		movable_own_await(&began);
	}
}

void vmm_let(int64_t index)
{
	if (index >= 0 && piece_at((uint32_t)index)->area)
		movable_own_let(piece_at((uint32_t)index)->area);
}

/* The area of the mapping with this index in the table. NULL: it is plain. */
static struct movable_area *area_of(size_t i)
{
	return piece_at((uint32_t)vmm.maps.range[i].value)->area;
}

static bool is_behind(size_t i, uint64_t address, uint64_t bytes)
{
	uint64_t base = vmm.maps.range[i].base;

	return base >= address && base - address >= bytes;
}

struct movable_area *vmm_area_in(uint64_t address, uint64_t bytes)
{
	for (size_t i = ranges_first(&vmm.maps, address); i < vmm.maps.count; i++) {
		if (is_behind(i, address, bytes))
			break;
		if (area_of(i))
			return area_of(i);
	}
	return NULL;
}

/* Holds all areas, or none. */
static bool hold_range(uint64_t address, uint64_t bytes)
{
	size_t first = ranges_first(&vmm.maps, address);

	for (size_t i = first; i < vmm.maps.count && !is_behind(i, address, bytes); i++) {
		if (!area_of(i) || movable_own_hold(area_of(i)))
			continue;
		while (i-- > first)
			if (area_of(i))
				movable_own_let(area_of(i));
		return false;
	}
	return true;
}

bool vmm_take_range_held(uint64_t address, uint64_t bytes)
{
	uint64_t began = 0;

	for (;;) {
		bool mine = driver_lock_take(&vmm.lock);

		if (hold_range(address, bytes))
			return mine;
		driver_lock_give(&vmm.lock, mine);
		movable_own_await(&began);
	}
}

void vmm_let_range(uint64_t address, uint64_t bytes)
{
	for (size_t i = ranges_first(&vmm.maps, address); i < vmm.maps.count; i++) {
		if (is_behind(i, address, bytes))
			break;
		if (area_of(i))
			movable_own_let(area_of(i));
	}
}

void vmm_leave(bool mine)
{
	bool import_ended = vmm.import_ended;

	vmm.import_ended = false;
	driver_lock_give(&vmm.lock, mine);
	changes_end();
	if (import_ended)
		settle_all();
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
