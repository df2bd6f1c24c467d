/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the devices that MIG has made since, and reads what a part of a GPU has.
 *
 * Rows of nvml.h keep their places: a device that is gone stays, and a new one stands behind the
 * others. So an index means the same device for as long as meted runs.
 */
#include <string.h>

#include "base/hash.h"
#include "base/least.h"
#include "base/macros.h"
#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"

enum { PROFILE_KINDS = 32 }; /* that are asked for: NVML's header has 17 so far */

/* The row of a device that was accepted; `count`: there is none. */
static uint32_t find(const struct nvml *nvml, nvmlDevice_t device, char uuid[80])
{
	uint32_t i = 0;

	if (nvml->nvmlDeviceGetUUID(device, uuid, 80) != NVML_SUCCESS)
		*uuid = '\0';
	while (i < nvml->count && strcmp(nvml->devices[i].uuid_text, uuid) != 0)
		i++;
	return i;
}

/* A device that is not known, was gone, or has another index, changes the hash. */
static uint64_t mix(const struct nvml *nvml, nvmlDevice_t device, unsigned int index, uint64_t hash)
{
	char uuid[80];
	uint32_t row = find(nvml, device, uuid);

	if (!*uuid || (row < nvml->count && !nvml->devices[row].gone &&
		       nvml->devices[row].part_index == index))
		return hash;
	hash = hash_add(hash_text(hash, uuid), index);
	return hash ? hash : 1;
}

/* A GPU that does not tell is no news, nor is one that cannot be divided. */
static bool tells(const struct nvml *nvml, nvmlDevice_t gpu, unsigned int *ret_most)
{
	unsigned int now, later;

	return nvml->nvmlDeviceGetMigMode(gpu, &now, &later) == NVML_SUCCESS &&
	       nvml->nvmlDeviceGetMaxMigDeviceCount(gpu, ret_most) == NVML_SUCCESS;
}

/* A GPU that has no parts any more changes the hash, until that was accepted. */
static uint64_t mix_unparted(const struct nvml *nvml, unsigned int gpu_index, uint64_t hash)
{
	for (uint32_t i = 0; i < nvml->unparted; i++)
		if (nvml->unparted_gpu[i].gpu_index == gpu_index)
			return hash;
	hash = hash_add(hash_text(hash, "unparted"), gpu_index);
	return hash ? hash : 1;
}

static uint64_t mix_gpu(const struct nvml *nvml, nvmlDevice_t gpu, unsigned int index,
			uint64_t hash)
{
	unsigned int most = 0, parts = 0;
	nvmlDevice_t part;

	if (!tells(nvml, gpu, &most))
		return hash;
	if (!nvml_is_divided(nvml, gpu))
		return mix(nvml, gpu, 0, hash);
	for (unsigned int i = 0; i < most; i++) {
		if (!nvml_find_part(nvml, gpu, i, &part))
			continue;
		parts++;
		hash = mix(nvml, part, i, hash);
	}
	return parts ? hash : mix_unparted(nvml, index, hash);
}

/* The number of GPUs; 0: this driver knows nothing of MIG. */
static unsigned int count_gpus(const struct nvml *nvml)
{
	unsigned int count = 0;

	if (!nvml->nvmlDeviceGetMigMode || !nvml->nvmlDeviceGetMaxMigDeviceCount ||
	    !nvml->nvmlDeviceGetMigDeviceHandleByIndex ||
	    nvml->nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
		return 0;
	return count;
}

uint64_t nvml_news(const struct nvml *nvml)
{
	unsigned int count = count_gpus(nvml);
	uint64_t hash = 0;
	nvmlDevice_t gpu;

	for (unsigned int i = 0; i < count; i++)
		if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &gpu) == NVML_SUCCESS)
			hash = mix_gpu(nvml, gpu, i, hash);
	return hash;
}

/* ---- the same, with rows --------------------------------------------------------------------- */

static int full(struct fault *why)
{
	return fault_set(why, -ENOSPC, "with those that are gone there are more than %d devices",
			 NVML_DEVICES_LATER);
}

static void set_told(struct nvml *nvml, nvmlDevice_t gpu, bool told)
{
	for (uint32_t i = 0; i < nvml->count; i++)
		if (nvml->gpus[i] == gpu)
			nvml->found[i].told = told;
}

/* A device that is known. Its place depends on which other parts there are. */
static void take_known(struct nvml *nvml, uint32_t row, nvmlDevice_t handle, unsigned int index)
{
	const struct nvml_device *device = &nvml->devices[row];
	struct nvml_found *found = &nvml->found[row];

	found->there = true;
	found->handle = handle;
	found->part_index = index;
	found->part = device->part;
	if (device->gpu_instance >= 0)
		nvml_read_place(nvml, nvml->gpus[row], (unsigned int)device->gpu_instance,
				&found->part);
}

static int take_part(struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_index,
		     unsigned int index, struct fault *why)
{
	nvmlDevice_t part;
	char uuid[80];
	uint32_t row;
	int r;

	if (!nvml_find_part(nvml, gpu, index, &part))
		return 0;
	row = find(nvml, part, uuid);
	/* It may be any of the GPU's: those that are not found stay what they were. */
	if (!*uuid) {
		set_told(nvml, gpu, false);
		return 0;
	}
	if (row < nvml->count) {
		take_known(nvml, row, part, index);
		return 0;
	}
	if (nvml->read == NVML_DEVICES_LATER)
		return full(why);
	r = nvml_read_one(nvml, part, gpu, gpu_index, index, why);
	/* It was destroyed meanwhile. */
	return r < 0 && !nvml_find_part(nvml, gpu, index, &part) ? 0 : r;
}

static int take_gpu(struct nvml *nvml, nvmlDevice_t gpu, unsigned int index, struct fault *why)
{
	char uuid[80];
	uint32_t row = find(nvml, gpu, uuid);

	if (!*uuid) {
		set_told(nvml, gpu, false);
		return 0;
	}
	if (row < nvml->count) {
		take_known(nvml, row, gpu, 0);
		return 0;
	}
	if (nvml->read == NVML_DEVICES_LATER)
		return full(why);
	return nvml_read_gpu(nvml, gpu, index, why);
}

static int take_from(struct nvml *nvml, nvmlDevice_t gpu, unsigned int index, struct fault *why)
{
	unsigned int most = 0, parts = 0;
	nvmlDevice_t part;
	int r = 0;

	/* A GPU that has fallen off the bus is not listed, or does not tell: its devices stay what
	 * they were. */
	if (!tells(nvml, gpu, &most))
		return 0;
	set_told(nvml, gpu, true);
	if (!nvml_is_divided(nvml, gpu))
		return take_gpu(nvml, gpu, index, why);
	for (unsigned int i = 0; i < most && r == 0; i++) {
		parts += nvml_find_part(nvml, gpu, i, &part);
		r = take_part(nvml, gpu, index, i, why);
	}
	if (!parts && r == 0)
		nvml_add_unparted(nvml, gpu, index);
	return r;
}

int nvml_look_again(struct nvml *nvml, struct fault *why)
{
	unsigned int count = count_gpus(nvml);
	int r = 0;

	nvml->read = nvml->count;
	nvml->unparted_later = 0;
	memset(nvml->found, 0, sizeof(nvml->found));
	if (nvml->count > NVML_DEVICES_LATER)
		return full(why);
	for (unsigned int i = 0; r == 0 && i < count; i++) {
		nvmlDevice_t gpu;

		if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &gpu) == NVML_SUCCESS)
			r = take_from(nvml, gpu, i, why);
		if (r < 0)
			fault_within(why, "GPU %u", i);
	}
	return r;
}

void nvml_accept(struct nvml *nvml)
{
	for (uint32_t i = 0; i < nvml->count; i++) {
		const struct nvml_found *found = &nvml->found[i];
		struct nvml_device *device = &nvml->devices[i];

		if (found->there || found->told)
			device->gone = !found->there;
		if (!found->there)
			continue;
		device->part_index = found->part_index;
		device->part = found->part;
		nvml_set_handle(nvml, i, found->handle);
	}
	nvml_accept_unparted(nvml);
	__atomic_store_n(&nvml->count, nvml->read, __ATOMIC_RELEASE);
}

bool nvml_is_divisible(const struct nvml *nvml)
{
	return nvml->divisible;
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
