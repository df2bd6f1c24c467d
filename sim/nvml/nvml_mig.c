/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: whether MIG divides a GPU, into which parts it could, and which parts there are as devices.
 * nvml_instance.c makes and destroys them. */
#include <string.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/nvml/nvml.h"

/* ---- the mode ------------------------------------------------------------------------------ */

/* A whole GPU whose model has MIG. */
static nvmlReturn_t capable(nvmlDevice_t device, int *ret_gpu)
{
	nvmlReturn_t r = nvml_device(device, ret_gpu);

	return r == NVML_SUCCESS && !parts_possible(*ret_gpu) ? NVML_ERROR_NOT_SUPPORTED : r;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	int gpu;
	nvmlReturn_t r = capable(device, &gpu);

	if (r != NVML_SUCCESS && r != NVML_ERROR_NOT_SUPPORTED)
		return r;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (r != NVML_SUCCESS)
		return r;
	*current = parts_on(gpu) ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
	*pending = segment_get()->mig_later[gpu] ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
	return NVML_SUCCESS;
}

/* As by the driver: the call succeeds, and *activation tells whether the mode has changed already.
 */
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
	int gpu;
	nvmlReturn_t r = capable(device, &gpu);

	if (r != NVML_SUCCESS)
		return r;
	if (!activation || mode > NVML_DEVICE_MIG_ENABLE)
		return NVML_ERROR_INVALID_ARGUMENT;
	*activation = parts_set_mode(gpu, mode == NVML_DEVICE_MIG_ENABLE) == 0 ? NVML_SUCCESS
									       : NVML_ERROR_IN_USE;
	return NVML_SUCCESS;
}

/* ---- profiles ------------------------------------------------------------------------------ */

/* The GPU's row with that kind. */
static const struct mig_profile *kind_of(int gpu, unsigned int kind, uint32_t *ret_number)
{
	const char *model = device_shape(gpu)->model;
	const struct mig_profile *row;

	for (uint32_t i = 0; (row = mig_next(model, i, ret_number)); i = *ret_number + 1)
		if (row->profile == kind)
			return row;
	return NULL;
}

const struct mig_profile *nvml_profile(int gpu, unsigned int id, uint32_t *ret_number)
{
	const char *model = device_shape(gpu)->model;
	const struct mig_profile *row;

	for (uint32_t i = 0; (row = mig_next(model, i, ret_number)); i = *ret_number + 1)
		if (row->id == id)
			return row;
	return NULL;
}

static nvmlReturn_t find_kind(nvmlDevice_t device, unsigned int kind, const void *info,
			      const struct mig_profile **ret_row, struct settings_device *ret_shape)
{
	uint32_t number;
	int gpu;
	nvmlReturn_t r = capable(device, &gpu);

	if (r != NVML_SUCCESS)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_row = kind_of(gpu, kind, &number);
	if (!*ret_row)
		return NVML_ERROR_NOT_SUPPORTED;
	mig_shape(*ret_row, device_shape(gpu), ret_shape);
	return NVML_SUCCESS;
}

/* The members that all versions of the structure have in common. */
#define FILL(info, row, shape)                                                                     \
	do {                                                                                       \
		(info)->id = (row)->id;                                                            \
		(info)->sliceCount = (row)->slices;                                                \
		(info)->instanceCount = (row)->most;                                               \
		(info)->multiprocessorCount = (shape)->sms;                                        \
		(info)->copyEngineCount = (row)->copies;                                           \
		(info)->decoderCount = (row)->decoders;                                            \
		(info)->encoderCount = 0;                                                          \
		(info)->jpegCount = (row)->jpegs;                                                  \
		(info)->ofaCount = (row)->ofas;                                                    \
		(info)->memorySizeMB = (shape)->memory_bytes >> 20;                                \
	} while (0)

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
						 nvmlGpuInstanceProfileInfo_t *info)
{
	const struct mig_profile *row;
	struct settings_device shape;
	nvmlReturn_t r = find_kind(device, profile, info, &row, &shape);

	if (r != NVML_SUCCESS)
		return r;
	FILL(info, row, &shape);
	info->isP2pSupported = 0;
	return NVML_SUCCESS;
}

/* The caller's version field tells the second version from the third. */
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
						  nvmlGpuInstanceProfileInfo_v2_t *info)
{
	nvmlGpuInstanceProfileInfo_v3_t *newer = (void *)info;
	const struct mig_profile *row;
	struct settings_device shape;
	nvmlReturn_t r = find_kind(device, profile, info, &row, &shape);

	if (r != NVML_SUCCESS)
		return r;
	if (info->version == NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2)) {
		FILL(info, row, &shape);
		info->isP2pSupported = 0;
		snprintf(info->name, sizeof(info->name), "%s", row->name);
	} else if (info->version == NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 3)) {
		FILL(newer, row, &shape);
		newer->capabilities = 0;
		snprintf(newer->name, sizeof(newer->name), "%s", row->name);
	} else {
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t find_id(nvmlDevice_t device, unsigned int id, const void *info, int *ret_gpu,
			    uint32_t *ret_number)
{
	nvmlReturn_t r = capable(device, ret_gpu);

	if (r != NVML_SUCCESS)
		return r;
	if (!info || !nvml_profile(*ret_gpu, id, ret_number))
		return NVML_ERROR_INVALID_ARGUMENT;
	return parts_on(*ret_gpu) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* All starts of the profile, whether anything is there or not. */
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
							   nvmlGpuInstancePlacement_t *placements,
							   unsigned int *count)
{
	const struct mig_profile *row;
	unsigned int room;
	uint32_t number;
	int gpu;
	nvmlReturn_t r = find_id(device, id, count, &gpu, &number);

	if (r != NVML_SUCCESS)
		return r;
	row = mig_row(number);
	room = *count;
	*count = row->places;
	if (!placements)
		return NVML_SUCCESS;
	if (room < row->places)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (uint32_t i = 0; i < row->places; i++)
		placements[i] = (nvmlGpuInstancePlacement_t){i * row->step, row->size};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id,
						       unsigned int *count)
{
	uint32_t number;
	int gpu;
	nvmlReturn_t r = find_id(device, id, count, &gpu, &number);

	if (r == NVML_SUCCESS)
		*count = parts_room(gpu, number);
	return r;
}

/* ---- parts as devices ---------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
						 nvmlDevice_t *mig)
{
	int gpu, places[MIG_PARTS];
	nvmlReturn_t r = capable(device, &gpu);

	if (r != NVML_SUCCESS)
		return r;
	if (!mig || index >= MIG_PARTS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (index >= parts_list(gpu, true, places))
		return NVML_ERROR_NOT_FOUND;
	*mig = nvml_handle(places[index]);
	return NVML_SUCCESS;
}

/* A part, not a GPU. */
static nvmlReturn_t part_of(nvmlDevice_t device, int *ret_place)
{
	nvmlReturn_t r = nvml_device_or_part(device, ret_place);

	return r == NVML_SUCCESS && !parts_is_part((uint32_t)*ret_place) ? NVML_ERROR_NOT_SUPPORTED
									 : r;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
	int place;
	nvmlReturn_t r = part_of(mig, &place);

	if (r != NVML_SUCCESS)
		return r == NVML_ERROR_NOT_SUPPORTED ? NVML_ERROR_INVALID_ARGUMENT : r;
	if (!device)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = nvml_handle((int)parts_gpu((uint32_t)place));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_part)
{
	int place;
	nvmlReturn_t r = nvml_device_or_part(device, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!is_part)
		return NVML_ERROR_INVALID_ARGUMENT;
	*is_part = parts_is_part((uint32_t)place);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
	int place;
	nvmlReturn_t r = part_of(device, &place);

	if (r == NVML_SUCCESS && id)
		*id = parts_get(place)->instance;
	return r == NVML_SUCCESS && !id ? NVML_ERROR_INVALID_ARGUMENT : r;
}

/* Each GPU instance has one compute instance. */
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
	int place;
	nvmlReturn_t r = part_of(device, &place);

	if (r == NVML_SUCCESS && id)
		*id = 0;
	return r == NVML_SUCCESS && !id ? NVML_ERROR_INVALID_ARGUMENT : r;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	const struct mig_profile *row;
	int place;
	nvmlReturn_t r = part_of(device, &place);

	if (r != NVML_SUCCESS)
		return attributes ? r : NVML_ERROR_INVALID_ARGUMENT;
	if (!attributes)
		return NVML_ERROR_INVALID_ARGUMENT;
	row = mig_row(parts_get(place)->profile);
	*attributes =
		(nvmlDeviceAttributes_t){.multiprocessorCount = device_shape(place)->sms,
					 .sharedCopyEngineCount = row->copies,
					 .sharedDecoderCount = row->decoders,
					 .sharedJpegCount = row->jpegs,
					 .sharedOfaCount = row->ofas,
					 .gpuInstanceSliceCount = row->slices,
					 .computeInstanceSliceCount = row->slices,
					 .memorySizeMB = device_shape(place)->memory_bytes >> 20};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	return nvmlDeviceGetAttributes_v2(device, attributes);
}
