/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows NVIDIA's documentation of green contexts (CUDA 12.9 and 13.0):
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GREEN__CONTEXTS.html. The errors of
 * refused calls are partly our choice; docs/UNVERIFIED.md.
 */
#include "sim/cuda/resource.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/machine/device.h"

static const uint32_t MAGIC = 0x6d65675f;

/* In a CUdevResource's padding, which programs copy and do not look into. */
struct note {
	uint32_t magic;
	uint32_t first;
	CUdevice device;
	uint32_t whole; /* from a device or a context: it may be split */
};

struct granularity {
	unsigned least, multiple;
};

/* Groups of multiprocessors, by the documentation's table. */
static struct granularity granularity_of(CUdevice device, unsigned flags)
{
	const struct settings_device *shape = device_shape(device);

	if (shape->capability_major >= 9)
		return flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING
			       ? (struct granularity){2, 2}
			       : (struct granularity){8, 8};
	if (shape->capability_major == 8)
		return (struct granularity){4, 2};
	return shape->capability_major == 7 ? (struct granularity){2, 2}
					    : (struct granularity){1, 1};
}

static CUdevResource shown(const struct resource *has, bool whole)
{
	CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_INVALID};
	struct granularity by = granularity_of(has->device, 0);
	struct note note = {
		.magic = MAGIC, .first = has->first, .device = has->device, .whole = whole};

	if (!has->count)
		return resource;
	resource.type = CU_DEV_RESOURCE_TYPE_SM;
	resource.sm = (CUdevSmResource){.smCount = has->count,
					.minSmPartitionSize = by.least,
					.smCoscheduledAlignment = by.multiple};
	memcpy(resource._internal_padding, &note, sizeof(note));
	return resource;
}

static CUresult read_note(const CUdevResource *resource, struct note *ret_note)
{
	if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	memcpy(ret_note, resource->_internal_padding, sizeof(*ret_note));
	/* It does not come from us. */
	if (ret_note->magic != MAGIC || driver_device(ret_note->device) != CUDA_SUCCESS ||
	    !resource->sm.smCount ||
	    resource->sm.smCount > resource_whole(ret_note->device).count - ret_note->first)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	return CUDA_SUCCESS;
}

struct resource resource_whole(CUdevice device)
{
	return (struct resource){.device = device, .count = device_shape(device)->sms};
}

CUresult resource_show(const struct resource *has, CUdevResourceType type, CUdevResource *ret_shown)
{
	if (!ret_shown)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*ret_shown = shown(has, true);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *ret_resource,
				CUdevResourceType type)
{
	struct resource whole;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	whole = resource_whole(device);
	return resource_show(&whole, type, ret_resource);
}

CUresult cuCtxGetDevResource(CUcontext named, CUdevResource *ret_resource, CUdevResourceType type)
{
	struct CUgreenCtx_st *green;
	struct CUctx_st *context;
	struct resource has;
	CUresult r = context_named(named, &context);

	if (r != CUDA_SUCCESS)
		return r;
	green = context_green(named);
	has = green ? green->has : resource_whole(context->device);
	return resource_show(&has, type, ret_resource);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned *groups_count,
				     const CUdevResource *input, CUdevResource *remaining,
				     unsigned flags, unsigned least)
{
	const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
			       CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	struct granularity by;
	struct resource left;
	struct note note;
	uint64_t size;
	unsigned count;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!groups_count || !input || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	r = read_note(input, &note);
	if (r != CUDA_SUCCESS)
		return r;
	/* A group may be split again only after a green context has it. */
	if (!note.whole)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	by = granularity_of(note.device, flags);
	size = least > by.least ? least : by.least;
	size = (size + by.multiple - 1) / by.multiple * by.multiple;
	if (size > input->sm.smCount)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	count = (unsigned)(input->sm.smCount / size);
	if (groups && count > *groups_count)
		count = *groups_count;
	left = (struct resource){note.device, note.first, input->sm.smCount};
	*groups_count = count;
	for (unsigned i = 0; i < count; i++) {
		const struct resource group = {note.device, left.first, (uint32_t)size};

		if (groups)
			groups[i] = shown(&group, false);
		left.first += (uint32_t)size;
		left.count -= (uint32_t)size;
	}
	if (remaining)
		*remaining = shown(&left, false);
	return CUDA_SUCCESS;
}

static bool overlap(const struct note *a, unsigned a_count, const struct note *b, unsigned b_count)
{
	return a->first < b->first + b_count && b->first < a->first + a_count;
}

/* All of one device, and none twice. */
static CUresult add_up(const CUdevResource *resources, unsigned count, struct resource *ret_has)
{
	struct note note, other;

	for (unsigned i = 0; i < count; i++) {
		CUresult r = read_note(&resources[i], &note);

		if (r != CUDA_SUCCESS)
			return r;
		if (!i)
			*ret_has = (struct resource){.device = note.device, .first = note.first};
		for (unsigned k = 0; k < i; k++) {
			memcpy(&other, resources[k]._internal_padding, sizeof(other));
			if (other.device != note.device || overlap(&note, resources[i].sm.smCount,
								   &other, resources[k].sm.smCount))
				return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		}
		if (note.first < ret_has->first)
			ret_has->first = note.first;
		ret_has->count += resources[i].sm.smCount;
	}
	return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *ret_desc, CUdevResource *resources,
				   unsigned count)
{
	static struct CUdevResourceDesc_st *_Atomic last_made;
	struct CUdevResourceDesc_st *desc;
	struct resource has = {0};
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_desc || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	r = add_up(resources, count, &has);
	if (r != CUDA_SUCCESS)
		return r;
	desc = calloc(1, sizeof(*desc));
	if (!desc || handle_add(HANDLE_RESOURCE_DESC, desc) < 0) {
		free(desc);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	desc->has = has;
	desc->before = atomic_load(&last_made);
	while (!atomic_compare_exchange_weak(&last_made, &desc->before, desc))
		;
	*ret_desc = desc;
	return CUDA_SUCCESS;
}
