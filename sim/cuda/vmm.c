/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations of addresses, and mappings of physical memory (sim/cuda/physical.h) into them. */
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/physical.h"
#include "sim/machine/segment.h"
#include "sim/cuda/space.h"

struct reservation {
	uint64_t base, bytes;
	unsigned mappings;
};

static struct {
	pthread_mutex_t lock;
	void *reservations; /* tsearch() tree */
} vmm = {.lock = PTHREAD_MUTEX_INITIALIZER};

void physical_maps_stop(void)
{
	pthread_mutex_lock(&vmm.lock);
}

void physical_maps_go_on(void)
{
	pthread_mutex_unlock(&vmm.lock);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static int reservation_compare(const void *left, const void *right)
{
	const struct reservation *a = left, *b = right;

	if (a->base + a->bytes <= b->base)
		return -1;
	if (b->base + b->bytes <= a->base)
		return 1;
	return 0;
}

/* The reservation around all of an area, or NULL. The lock is held. */
static struct reservation *reservation_around(uint64_t base, uint64_t bytes)
{
	struct reservation key = {.base = base, .bytes = 1};
	struct reservation **node;

	if (!bytes || base + bytes < base)
		return NULL;
	node = tfind(&key, &vmm.reservations, reservation_compare);
	if (!node || base + bytes > (*node)->base + (*node)->bytes)
		return NULL;
	return *node;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret_address, size_t bytes, size_t align,
			     CUdeviceptr wanted, unsigned long long flags)
{
	struct reservation *reservation;
	CUresult r = driver_ready();
	int reserved;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || !bytes || bytes % SPACE_BLOCK || flags || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	reservation = calloc(1, sizeof(*reservation));
	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reserved = space_reserve(bytes, align, wanted, &reservation->base);
	if (reserved < 0) {
		free(reservation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	reservation->bytes = bytes;
	pthread_mutex_lock(&vmm.lock);
	if (!tsearch(reservation, &vmm.reservations, reservation_compare))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&vmm.lock);
	if (r != CUDA_SUCCESS) {
		space_release(reservation->base, bytes);
		free(reservation);
		return r;
	}
	*ret_address = reservation->base;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	struct reservation *reservation;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&vmm.lock);
	reservation = reservation_around(address, bytes);
	if (!reservation || reservation->base != address || reservation->bytes != bytes ||
	    reservation->mappings)
		reservation = NULL;
	else
		tdelete(reservation, &vmm.reservations, reservation_compare);
	pthread_mutex_unlock(&vmm.lock);
	if (!reservation)
		return CUDA_ERROR_INVALID_VALUE;
	space_release(address, bytes);
	free(reservation);
	return CUDA_SUCCESS;
}

/* ---- mappings -------------------------------------------------------------------------------- */

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct space_range range = {.base = address, .bytes = bytes, .kind = SPACE_MAPPED}, other;
	struct reservation *reservation;
	struct physical *allocation;
	CUresult r = physical_named(handle, &allocation);

	if (r != CUDA_SUCCESS)
		return r;
	if (!bytes || address % SPACE_BLOCK || bytes % SPACE_BLOCK || offset || flags ||
	    bytes > allocation->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm.lock);
	reservation = reservation_around(address, bytes);
	if (reservation && space_next(address, address + bytes, &other) < 0) {
		range.device = allocation->device;
		range.owner = allocation;
		range.reserved = reservation->base;
		range.delta = (uint64_t)(uintptr_t)space_shadow(address) - address;
		if (space_back_file(address, bytes, physical_fd(allocation),
				    physical_offset(allocation)) < 0 ||
		    space_add(&range) < 0) {
			space_unback(address, bytes);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			reservation->mappings++;
			physical_hold(allocation);
		}
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&vmm.lock);
	if (r == CUDA_SUCCESS)
		clock_spend(segment_settings()->map_ns);
	return r;
}

/* Is the area whole mappings, one after the other? */
static bool mappings_whole(uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes;
	struct space_range range;

	if (!bytes || end < address)
		return false;
	for (; address < end; address = range.base + range.bytes)
		if (space_find(address, &range) < 0 || range.base != address ||
		    range.kind != SPACE_MAPPED || range.base + range.bytes > end)
			return false;
	return true;
}

static void mapping_end(uint64_t address, uint64_t *ret_bytes)
{
	struct reservation *reservation;
	struct space_range range;

	*ret_bytes = SPACE_BLOCK;
	if (space_remove(address, &range) < 0)
		return;
	*ret_bytes = range.bytes;
	space_unback(range.base, range.bytes);
	pthread_mutex_lock(&vmm.lock);
	reservation = reservation_around(range.base, range.bytes);
	if (reservation)
		reservation->mappings--;
	pthread_mutex_unlock(&vmm.lock);
	physical_drop(range.owner, 0, 1);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CUresult r = driver_ready();
	uint64_t done, n;

	if (r != CUDA_SUCCESS)
		return r;
	if (!mappings_whole(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (done = 0; done < bytes; done += n)
		mapping_end(address + done, &n);
	clock_spend(segment_settings()->unmap_ns);
	return CUDA_SUCCESS;
}

static CUresult access_check(const CUmemAccessDesc *access, size_t n)
{
	if (!access || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		CUresult r;

		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		r = driver_device(access[i].location.id);
		if (r != CUDA_SUCCESS)
			return r;
		if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
	CUresult r = driver_ready();
	struct space_range range;

	if (r == CUDA_SUCCESS)
		r = access_check(access, n);
	if (r != CUDA_SUCCESS)
		return r;
	if (!mappings_whole(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = address; at < address + bytes; at = range.base + range.bytes) {
		if (space_find(at, &range) < 0)
			return CUDA_ERROR_INVALID_VALUE;
		for (size_t i = 0; i < n; i++) {
			uint64_t bit = 1ull << access[i].location.id;

			if (access[i].location.id != range.device &&
			    !device_peer(range.device, access[i].location.id))
				return CUDA_ERROR_INVALID_DEVICE;
			range.readable &= ~bit;
			range.writable &= ~bit;
			if (access[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
				range.readable |= bit;
			if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
				range.writable |= bit;
		}
		if (space_change(&range) < 0)
			return CUDA_ERROR_INVALID_VALUE;
	}
	clock_spend(segment_settings()->map_ns);
	return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			CUdeviceptr address)
{
	struct space_range range;
	CUresult r = driver_ready();
	uint64_t bit;

	if (r != CUDA_SUCCESS)
		return r;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	r = driver_device(location->id);
	if (r != CUDA_SUCCESS)
		return r;
	if (space_find(address, &range) < 0 || range.kind != SPACE_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	bit = 1ull << location->id;
	*flags = range.writable & bit	? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : range.readable & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
					: CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
