/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices are there that MIG has made since, and what a part of a GPU has. */
#include <string.h>

#include "base/least.h"
#include "base/macros.h"
#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"

enum { PROFILE_KINDS = 32 }; /* that are asked for: NVML's header has 17 so far */

static bool is_known(const struct nvml *nvml, const char *uuid)
{
	for (uint32_t i = 0; i < nvml->count; i++)
		if (strcmp(nvml->devices[i].uuid_text, uuid) == 0)
			return true;
	return false;
}

/* What is not known changes the hash. */
static uint64_t mix(const struct nvml *nvml, nvmlDevice_t device, uint64_t hash)
{
	char uuid[80];

	if (nvml->nvmlDeviceGetUUID(device, uuid, sizeof(uuid)) != NVML_SUCCESS ||
	    is_known(nvml, uuid))
		return hash;
	for (const char *at = uuid; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 1099511628211ULL;
	return hash ? hash : 1;
}

static uint64_t mix_gpu(const struct nvml *nvml, nvmlDevice_t gpu, uint64_t hash)
{
	unsigned int now, later, most = 0;
	nvmlDevice_t part;

	/* A GPU that does not tell is no news, nor is one that cannot be divided. */
	if (nvml->nvmlDeviceGetMigMode(gpu, &now, &later) != NVML_SUCCESS ||
	    nvml->nvmlDeviceGetMaxMigDeviceCount(gpu, &most) != NVML_SUCCESS)
		return hash;
	if (!nvml_is_divided(nvml, gpu))
		return mix(nvml, gpu, hash);
	for (unsigned int i = 0; i < most; i++)
		if (nvml_find_part(nvml, gpu, i, &part))
			hash = mix(nvml, part, hash);
	return hash;
}

uint64_t nvml_news(const struct nvml *nvml)
{
	unsigned int count = 0;
	uint64_t hash = 0;
	nvmlDevice_t gpu;

	if (!nvml->nvmlDeviceGetMigMode || !nvml->nvmlDeviceGetMaxMigDeviceCount ||
	    !nvml->nvmlDeviceGetMigDeviceHandleByIndex ||
	    nvml->nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
		return 0;
	for (unsigned int i = 0; i < count; i++)
		if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &gpu) == NVML_SUCCESS)
			hash = mix_gpu(nvml, gpu, hash);
	return hash;
}

bool nvml_is_divisible(const struct nvml *nvml)
{
	return nvml->divisible;
}

int nvml_unparted(const struct nvml *nvml)
{
	return nvml->unparted;
}

void nvml_read_part(const struct nvml *nvml, nvmlDevice_t part, struct gpu_part *ret)
{
	nvmlDeviceAttributes_t is;

	memset(ret, 0, sizeof(*ret));
	if (!nvml->nvmlDeviceGetAttributes_v2 ||
	    nvml->nvmlDeviceGetAttributes_v2(part, &is) != NVML_SUCCESS)
		return;
	*ret = (struct gpu_part){
		.multiprocessors = is.multiprocessorCount,
		.gpu_slices = is.gpuInstanceSliceCount,
		.compute_slices = is.computeInstanceSliceCount,
		.copy_engines = is.sharedCopyEngineCount,
		.decoders = is.sharedDecoderCount,
		.encoders = is.sharedEncoderCount,
		.jpegs = is.sharedJpegCount,
		.ofas = is.sharedOfaCount,
		.memory_mib = is.memorySizeMB,
	};
}

/* The profiles say what a GPU has: the places of all of them together are all of its memory. */
static void read_slices(const struct nvml *nvml, nvmlDevice_t gpu, struct gpu_part *part)
{
	for (unsigned int kind = 0; kind < PROFILE_KINDS; kind++) {
		nvmlGpuInstanceProfileInfo_v2_t info = {
			.version = NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2)};
		nvmlGpuInstancePlacement_t place[16];
		unsigned int places = ARRAY_SIZE(place);

		if (nvml->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, kind, &info) != NVML_SUCCESS)
			continue;
		part->gpu_compute_slices =
			(uint32_t)most(part->gpu_compute_slices, info.sliceCount);
		if (nvml->nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, info.id, place,
									&places) != NVML_SUCCESS)
			continue;
		for (unsigned int i = 0; i < places && i < ARRAY_SIZE(place); i++)
			part->gpu_memory_slices = (uint32_t)most(part->gpu_memory_slices,
								 place[i].start + place[i].size);
	}
}

void nvml_read_place(const struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_instance,
		     struct gpu_part *part)
{
	nvmlGpuInstanceInfo_t info;
	nvmlGpuInstance_t instance;

	if (!nvml->nvmlDeviceGetGpuInstanceById || !nvml->nvmlGpuInstanceGetInfo ||
	    !nvml->nvmlDeviceGetGpuInstanceProfileInfoV ||
	    !nvml->nvmlDeviceGetGpuInstancePossiblePlacements_v2 ||
	    nvml->nvmlDeviceGetGpuInstanceById(gpu, gpu_instance, &instance) != NVML_SUCCESS ||
	    nvml->nvmlGpuInstanceGetInfo(instance, &info) != NVML_SUCCESS)
		return;
	part->memory_first = info.placement.start;
	part->memory_slices = info.placement.size;
	read_slices(nvml, gpu, part);
}
