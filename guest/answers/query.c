/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions that report a device's memory: they answer with the tenant's view. */
#include "guest/contexts/devices.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/view.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/process/join.h"
#include "guest/process/state.h"

CUresult hook_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct view_memory seen;
	struct memory_place place;
	size_t physical = 0;
	CUresult r = memory_begin(&place, driver_nested());

	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemGetInfo_v2)(free, total));
	if (r != CUDA_SUCCESS || !place.tracked || place.device < 0)
		return r;
	if (total)
		physical = *total;
	else
		physical = state_page(place.device, total_bytes);
	view_memory(place.device, physical, &seen);
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
	struct view_memory seen;
	struct memory_place place;
	CUresult r = memory_begin(&place, driver_nested());

	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemGetInfo)(free, total));
	if (r != CUDA_SUCCESS || !place.tracked || place.device < 0)
		return r;
	view_memory(place.device, state_page(place.device, total_bytes), &seen);
	if (free)
		*free = narrow(seen.free);
	if (total)
		*total = narrow(seen.total);
	return r;
}

/* Works for any device, with or without a context on it. */
CUresult hook_cuDeviceTotalMem_v2(size_t *bytes, CUdevice_v1 dev)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	int device;

	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuDeviceTotalMem_v2)(bytes, dev));
	if (r != CUDA_SUCCESS || driver_nested() || !bytes || !state_joined())
		return r;
	device = devices_index(dev);
	if (device >= 0)
		*bytes = view_total(device, *bytes);
	return r;
}

CUresult hook_cuDeviceTotalMem(unsigned int *bytes, CUdevice_v1 dev)
{
	CUresult r = driver_nested() ? CUDA_SUCCESS : state_ready();
	int device;

	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuDeviceTotalMem)(bytes, dev));
	if (r != CUDA_SUCCESS || driver_nested() || !bytes || !state_joined())
		return r;
	device = devices_index(dev);
	if (device >= 0)
		*bytes = narrow(view_total(device, state_page(device, total_bytes)));
	return r;
}
