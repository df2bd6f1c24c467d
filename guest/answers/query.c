/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program is told of its memory: a device of the size of its limit, of which it and its
 * siblings use some.
 *
 *	total = min(limit, the device's memory)
 *	free  = min(limit - what the tenant has been granted, the device's room) + unused credit
 *
 * Both are the daemon's figures, in the tenant's page. What this process allocates from its credit
 * shows at once, as the credit shrinks; nothing here can fall below zero. Unused credit of
 * siblings and of neighbours is free as well: it is recalled when it is needed. Only they know it,
 * so the daemon is asked to look; alone a process is not held up.
 */
#include "guest/answers/query.h"
#include "guest/contexts/devices.h"
#include "guest/process/join.h"

#include <stdbool.h>

#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/link/link.h"
#include "guest/memory/credit.h"
#include "guest/memory/memory.h"
#include "guest/process/state.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What the tenant was promised and does not use: ours, and its other processes', where the daemon
 * has looked just now. */
static uint64_t idle_bytes(int device, uint64_t granted, bool looked)
{
	uint64_t own = credit_idle(device), used = state_page(device, used_bytes);
	uint64_t all = granted > used ? granted - used : 0;

	return looked && all > own && state_page(device, guests) > 1 ? all : own;
}

static uint64_t free_bytes(int device, uint64_t total, bool looked)
{
	uint64_t lent = (uint64_t)state_page(device, lent_mib) << 20;
	uint64_t room = state_page(device, room_bytes) + lent;
	uint64_t granted = state_page(device, granted_bytes);
	uint64_t idle = idle_bytes(device, granted, looked);
	uint64_t used = granted > idle ? granted - idle : 0;

	/* A daemon of before that field. */
	if (granted == 0)
		used = state_page(device, used_bytes);
	if (used < credit_allocated(device))
		used = credit_allocated(device);
	return least(used < total ? total - used : 0, room + idle);
}

uint64_t query_total(int device, uint64_t physical_bytes)
{
	uint64_t limit = state_page(device, limit_bytes);

	return limit ? least(limit, physical_bytes) : physical_bytes;
}

uint64_t query_left(int device)
{
	uint64_t total = query_total(device, state_page(device, total_bytes));
	uint64_t granted = state_page(device, granted_bytes), own = credit_idle(device);
	uint64_t used = granted > own ? granted - own : 0;

	return used < total ? total - used : 0;
}

uint64_t query_free_seen(int device)
{
	return free_bytes(device, query_total(device, state_page(device, total_bytes)), false);
}

void query_memory(int device, uint64_t physical_bytes, struct query_memory *ret_memory)
{
	bool looked = false;
	size_t rows;

	/* What was returned a moment ago is free, and shall be seen to be. */
	if (credit_returned(device) || state_page(device, guests) > 1 ||
	    (state_page(device, guests) && state_page(device, rivals)))
		looked = link_processes(device, NULL, 0, &rows) == 0;
	ret_memory->total = query_total(device, physical_bytes);
	ret_memory->free = free_bytes(device, ret_memory->total, looked);
}

CUresult hook_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct query_memory seen;
	struct memory_place place;
	size_t physical = 0;
	CUresult r = memory_begin(&place, memory_nested());

	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuMemGetInfo_v2)(free, total));
	if (r != CUDA_SUCCESS || !place.tracked || place.device < 0)
		return r;
	if (total)
		physical = *total;
	else
		physical = state_page(place.device, total_bytes);
	query_memory(place.device, physical, &seen);
	if (free)
		*free = seen.free;
	if (total)
		*total = seen.total;
	return r;
}

static unsigned narrow(uint64_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

CUresult hook_cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	struct query_memory seen;
	struct memory_place place;
	CUresult r = memory_begin(&place, memory_nested());

	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuMemGetInfo)(free, total));
	if (r != CUDA_SUCCESS || !place.tracked || place.device < 0)
		return r;
	query_memory(place.device, state_page(place.device, total_bytes), &seen);
	if (free)
		*free = narrow(seen.free);
	if (total)
		*total = narrow(seen.total);
	return r;
}

/* Of any device, with or without a context on it. */
CUresult hook_cuDeviceTotalMem_v2(size_t *bytes, CUdevice_v1 dev)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	int device;

	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuDeviceTotalMem_v2)(bytes, dev));
	if (r != CUDA_SUCCESS || memory_nested() || !bytes || !state_joined())
		return r;
	device = devices_index(dev);
	if (device >= 0)
		*bytes = query_total(device, *bytes);
	return r;
}

CUresult hook_cuDeviceTotalMem(unsigned int *bytes, CUdevice_v1 dev)
{
	CUresult r = memory_nested() ? CUDA_SUCCESS : state_ready();
	int device;

	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuDeviceTotalMem)(bytes, dev));
	if (r != CUDA_SUCCESS || memory_nested() || !bytes || !state_joined())
		return r;
	device = devices_index(dev);
	if (device >= 0)
		*bytes = narrow(query_total(device, state_page(device, total_bytes)));
	return r;
}
