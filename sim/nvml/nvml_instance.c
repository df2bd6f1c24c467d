/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: GPU instances and their compute instances are made, found, described and destroyed. A
 * compute instance is all of its GPU instance here: smaller ones are not simulated. */
#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/machine/faults.h"
#include "sim/nvml/nvml.h"

/* Handles are addresses: they stand for a place, and for the generation of its part. */
struct nvmlGpuInstance_st {
	char any;
};
struct nvmlComputeInstance_st {
	char any;
};

static struct nvmlGpuInstance_st gpu_instances[SEGMENT_PARTS_MAX * NVML_MADE];
static struct nvmlComputeInstance_st compute_instances[SEGMENT_PARTS_MAX * NVML_MADE];

static size_t number_of(int place)
{
	return (size_t)(place - SETTINGS_DEVICES_MAX) * NVML_MADE + nvml_made(place);
}

static nvmlGpuInstance_t gpu_handle(int place)
{
	return &gpu_instances[number_of(place)];
}

static nvmlComputeInstance_t compute_handle(int place)
{
	return &compute_instances[number_of(place)];
}

/* `offset`: of the handle in its table. Does its part exist, in the required state? */
static nvmlReturn_t find(uintptr_t offset, uint32_t state, int *ret_place)
{
	nvmlReturn_t r = nvml_ready();
	int place = parts_place((uint32_t)(offset / NVML_MADE));

	if (r != NVML_SUCCESS)
		return r;
	if (offset >= SEGMENT_PARTS_MAX * NVML_MADE || offset % NVML_MADE != nvml_made(place) ||
	    atomic_load(&parts_get(place)->state) < state)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_place = place;
	return NVML_SUCCESS;
}

static nvmlReturn_t find_gpu(nvmlGpuInstance_t instance, int *ret_place)
{
	return find((uintptr_t)instance - (uintptr_t)gpu_instances, SEGMENT_PART_EMPTY, ret_place);
}

static nvmlReturn_t find_compute(nvmlComputeInstance_t instance, int *ret_place)
{
	return find((uintptr_t)instance - (uintptr_t)compute_instances, SEGMENT_PART_MADE,
		    ret_place);
}

static nvmlReturn_t answer(int r)
{
	switch (r) {
	case 0:
		return NVML_SUCCESS;
	case PARTS_IN_USE:
		return NVML_ERROR_IN_USE;
	case PARTS_FULL:
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	case PARTS_OFF:
		return NVML_ERROR_NOT_SUPPORTED;
	default:
		return NVML_ERROR_INVALID_ARGUMENT;
	}
}

/* A change of a GPU's division. The process may be made to die before and after it. */
static void may_die(void)
{
	best_effort(faults_at(FAULTS_DIVISION, -1));
}

static nvmlReturn_t after(int r)
{
	may_die();
	return answer(r);
}

/* The driver does not do it. */
static nvmlReturn_t refused(enum faults_kind kind)
{
	if (kind == FAULTS_IN_USE)
		return NVML_ERROR_IN_USE;
	if (kind == FAULTS_NO_ROOM)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	return kind == FAULTS_UNKNOWN ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

static nvmlReturn_t refusal(enum faults_point point, int gpu)
{
	return refused(faults_at(point, gpu));
}

/* ---- GPU instances ------------------------------------------------------------------------- */

/* `start` is -1 where there is room. */
static nvmlReturn_t create(nvmlDevice_t device, unsigned int id, int start,
			   nvmlGpuInstance_t *ret_instance)
{
	enum faults_kind kind;
	int gpu, place;
	uint32_t profile;
	nvmlReturn_t r = nvml_device(device, &gpu);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_instance || !nvml_profile(gpu, id, &profile))
		return NVML_ERROR_INVALID_ARGUMENT;
	kind = faults_at(FAULTS_MAKE_GI, gpu);
	r = refused(kind);
	if (r != NVML_SUCCESS)
		return r;
	may_die();
	r = after(parts_create(gpu, profile, kind == FAULTS_ELSEWHERE ? -1 : start, &place));
	if (r == NVML_SUCCESS)
		*ret_instance = gpu_handle(place);
	return r;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id,
					 nvmlGpuInstance_t *instance)
{
	return create(device, id, -1, instance);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
						      const nvmlGpuInstancePlacement_t *placement,
						      nvmlGpuInstance_t *instance)
{
	if (!placement || placement->start > INT16_MAX)
		return NVML_ERROR_INVALID_ARGUMENT;
	return create(device, id, (int)placement->start, instance);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
	int place;
	nvmlReturn_t r = find_gpu(instance, &place);

	if (r == NVML_SUCCESS)
		r = refusal(FAULTS_DESTROY_GI, (int)parts_get(place)->gpu);
	if (r != NVML_SUCCESS)
		return r;
	may_die();
	return after(parts_destroy(place));
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id,
				       nvmlGpuInstance_t *instances, unsigned int *count)
{
	int gpu, places[MIG_PARTS];
	uint32_t profile;
	unsigned n;
	nvmlReturn_t r = nvml_device(device, &gpu);

	if (r != NVML_SUCCESS)
		return r;
	if (!instances || !count || !nvml_profile(gpu, id, &profile))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!parts_on(gpu))
		return NVML_ERROR_NOT_SUPPORTED;
	n = parts_list(gpu, false, places);
	*count = 0;
	for (unsigned i = 0; i < n; i++)
		if (parts_get(places[i])->profile == profile)
			instances[(*count)++] = gpu_handle(places[i]);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
					  nvmlGpuInstance_t *instance)
{
	int gpu, places[MIG_PARTS];
	unsigned n;
	nvmlReturn_t r = nvml_device(device, &gpu);

	if (r != NVML_SUCCESS)
		return r;
	if (!instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	n = parts_list(gpu, false, places);
	for (unsigned i = 0; i < n; i++) {
		if (parts_get(places[i])->instance != id)
			continue;
		*instance = gpu_handle(places[i]);
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
	const struct segment_part *part;
	int place;
	nvmlReturn_t r = find_gpu(instance, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	part = parts_get(place);
	*info = (nvmlGpuInstanceInfo_t){.device = nvml_handle((int)part->gpu),
					.id = part->instance,
					.profileId = mig_row(part->profile)->id,
					.placement = {part->start, mig_row(part->profile)->size}};
	return NVML_SUCCESS;
}

/* ---- compute instances --------------------------------------------------------------------- */

/* The kind of compute instance that is the whole of a GPU instance with so many slices. */
static unsigned int kind_of(uint32_t slices)
{
	return slices == 7 ? NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE : slices - 1;
}

static nvmlReturn_t whole(nvmlGpuInstance_t instance, unsigned int kind, int *ret_place)
{
	nvmlReturn_t r = find_gpu(instance, ret_place);

	if (r != NVML_SUCCESS)
		return r;
	return kind == kind_of(mig_row(parts_get(*ret_place)->profile)->slices)
		       ? NVML_SUCCESS
		       : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance,
							  unsigned int profile,
							  unsigned int engines,
							  nvmlComputeInstanceProfileInfo_t *info)
{
	const struct mig_profile *row;
	int place;
	nvmlReturn_t r = whole(instance, profile, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!info || engines != NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		return NVML_ERROR_INVALID_ARGUMENT;
	row = mig_row(parts_get(place)->profile);
	*info = (nvmlComputeInstanceProfileInfo_t){.id = profile,
						   .sliceCount = row->slices,
						   .instanceCount = 1,
						   .multiprocessorCount =
							   parts_get(place)->shape.sms,
						   .sharedCopyEngineCount = row->copies,
						   .sharedDecoderCount = row->decoders,
						   .sharedJpegCount = row->jpegs,
						   .sharedOfaCount = row->ofas};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance,
								unsigned int id,
								unsigned int *count)
{
	int place;
	nvmlReturn_t r = whole(instance, id, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = atomic_load(&parts_get(place)->state) == SEGMENT_PART_EMPTY;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id,
						  nvmlComputeInstance_t *ret_instance)
{
	int place, r;
	nvmlReturn_t found = whole(instance, id, &place);

	if (found != NVML_SUCCESS)
		return found;
	if (!ret_instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	found = refusal(FAULTS_MAKE_CI, (int)parts_get(place)->gpu);
	if (found != NVML_SUCCESS)
		return found;
	may_die();
	r = parts_complete(place);
	/* It has its compute instance already. */
	if (r == PARTS_IN_USE)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	if (r == 0)
		*ret_instance = compute_handle(place);
	return after(r);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance)
{
	int place;
	nvmlReturn_t r = find_compute(instance, &place);

	if (r == NVML_SUCCESS)
		r = refusal(FAULTS_DESTROY_CI, (int)parts_get(place)->gpu);
	if (r != NVML_SUCCESS)
		return r;
	may_die();
	return after(parts_undo(place));
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int id,
						nvmlComputeInstance_t *instances,
						unsigned int *count)
{
	int place;
	nvmlReturn_t r = whole(instance, id, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!instances || !count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = atomic_load(&parts_get(place)->state) == SEGMENT_PART_MADE;
	if (*count)
		*instances = compute_handle(place);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
						   nvmlComputeInstance_t *ret_instance)
{
	int place;
	nvmlReturn_t r = find_gpu(instance, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (id || atomic_load(&parts_get(place)->state) != SEGMENT_PART_MADE)
		return NVML_ERROR_NOT_FOUND;
	*ret_instance = compute_handle(place);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance,
					   nvmlComputeInstanceInfo_t *info)
{
	const struct mig_profile *row;
	int place;
	nvmlReturn_t r = find_compute(instance, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	row = mig_row(parts_get(place)->profile);
	*info = (nvmlComputeInstanceInfo_t){.device = nvml_handle(place),
					    .gpuInstance = gpu_handle(place),
					    .profileId = kind_of(row->slices),
					    .placement = {0, row->slices}};
	return NVML_SUCCESS;
}
