/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions that set and query hints about managed memory. */
#include <sched.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/managed.h"

CUresult managed_location(int device, CUmemLocation *ret_location)
{
	memset(ret_location, 0, sizeof(*ret_location));
	ret_location->type =
		device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
	ret_location->id = device == CU_DEVICE_CPU ? 0 : device;
	return managed_location_check(ret_location);
}

CUresult managed_location_check(CUmemLocation *location)
{
	unsigned node = 0;

	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return driver_device(location->id);
	case CU_MEM_LOCATION_TYPE_HOST:
		location->id = 0;
		return driver_ready();
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return location->id < 0 ? CUDA_ERROR_INVALID_VALUE : driver_ready();
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		best_effort(getcpu(NULL, &node));
		location->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		location->id = (int)node;
		return driver_ready();
	case CU_MEM_LOCATION_TYPE_INVALID:
	case CU_MEM_LOCATION_TYPE_MAX:
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* ---- saying ---------------------------------------------------------------------------------- */

static bool is_numa(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* The location is checked where the advice has one. */
struct said {
	CUmem_advise advice;
	CUmemLocation location;
};

/* For a location that was checked. */
static uint64_t bit_of(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? 1ull << location->id
							     : MANAGED_HINT_HOST;
}

static void apply(struct managed_hint *hint, const void *what)
{
	const struct said *said = what;
	const CUmemLocation *location = &said->location;

	switch (said->advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		hint->read_mostly = said->advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		hint->preferred = *location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		memset(&hint->preferred, 0, sizeof(hint->preferred));
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		hint->accessed_by |= bit_of(location);
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		hint->accessed_by &= ~bit_of(location);
		break;
	}
}

static bool has_location(CUmem_advise advice)
{
	return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
	       advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
			CUmemLocation location)
{
	struct said said;
	CUresult r = managed_check(address, bytes);

	if (r != CUDA_SUCCESS)
		return r;
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return CUDA_ERROR_INVALID_VALUE;
	if (has_location(advice))
		r = managed_location_check(&location);
	if (r != CUDA_SUCCESS)
		return r;
	if (is_numa(&location) && advice != CU_MEM_ADVISE_SET_PREFERRED_LOCATION &&
	    has_location(advice))
		return CUDA_ERROR_INVALID_VALUE;
	said = (struct said){advice, location};
	return managed_hints_change(address, bytes, apply, &said);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
	CUmemLocation location;
	CUresult r = managed_location(device, &location);

	if (r != CUDA_SUCCESS && has_location(advice))
		return r;
	return cuMemAdvise_v2(address, bytes, advice, location);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* As the attributes of CUDA 8 name locations: by device. */
static int32_t device_of(const CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_INVALID)
		return CU_DEVICE_INVALID;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id : CU_DEVICE_CPU;
}

/* As many as fit; the other entries are marked as empty. */
static CUresult tell_accessors(uint64_t accessed_by, int32_t *ret_devices, size_t bytes)
{
	size_t room = bytes / sizeof(*ret_devices), n = 0;

	if (!bytes || bytes % sizeof(*ret_devices))
		return CUDA_ERROR_INVALID_VALUE;
	for (int device = 0; device < 63 && n < room; device++)
		if (accessed_by >> device & 1)
			ret_devices[n++] = device;
	if (accessed_by & MANAGED_HINT_HOST && n < room)
		ret_devices[n++] = CU_DEVICE_CPU;
	while (n < room)
		ret_devices[n++] = CU_DEVICE_INVALID;
	return CUDA_SUCCESS;
}

static bool number_of(CUmem_range_attribute attribute, const struct managed_hint *hint,
		      int32_t *ret_number)
{
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*ret_number = hint->read_mostly;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*ret_number = device_of(&hint->preferred);
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*ret_number = device_of(&hint->prefetched);
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*ret_number = (int32_t)hint->preferred.type;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*ret_number = hint->preferred.id;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*ret_number = (int32_t)hint->prefetched.type;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*ret_number = hint->prefetched.id;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		break;
	}
	return false;
}

CUresult cuMemRangeGetAttribute(void *data, size_t bytes, CUmem_range_attribute attribute,
				CUdeviceptr address, size_t count)
{
	struct managed_hint hint;
	int32_t number;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!data || managed_hint_common(address, count, &hint) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
		return tell_accessors(hint.accessed_by, data, bytes);
	if (bytes != sizeof(number) || !number_of(attribute, &hint, &number))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, &number, sizeof(number));
	return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *bytes, CUmem_range_attribute *attributes,
				 size_t n, CUdeviceptr address, size_t count)
{
	if (!data || !bytes || !attributes || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		CUresult r =
			cuMemRangeGetAttribute(data[i], bytes[i], attributes[i], address, count);

		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}
