/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "cuda/nvml_library.h"
#include "mig/nvml_inside.h"

enum {
	KINDS = 32,	    /* kinds of profiles that are asked for: NVML's header has 17 so far */
	COMPUTE_KINDS = 16, /* the same of compute instances */
	PROCESSES = 256,    /* of one GPU, for which there is room at first */
	TRIES = 4,
};

/* ---- the library ---------------------------------------------------------------------------- */

static int resolve(struct mig_nvml *nvml, struct fault *why)
{
#define CALL(symbol)                                                                               \
	nvml->symbol = (__typeof__(nvml->symbol))dlsym(nvml->library, #symbol);                    \
	if (!nvml->symbol) {                                                                       \
		best_effort(fault_set(why, -ENOSYS,                                                \
				      "the driver has no " #symbol                                 \
				      ": it is too old for this (510 or newer is needed)"));       \
		return -ENOSYS;                                                                    \
	}
	MIG_NVML_CALLS(CALL)
#undef CALL
	return 0;
}

static int says(const struct mig_nvml *nvml, nvmlReturn_t status, uint32_t gpu, const char *what,
		struct fault *why)
{
	if (status == NVML_SUCCESS)
		return 0;
	if (status == NVML_ERROR_NO_PERMISSION)
		return fault_set(why, -EPERM, "GPU %u: only root may change how MIG divides it",
				 gpu);
	if (status == NVML_ERROR_INSUFFICIENT_RESOURCES)
		return fault_set(why, -ENOSPC, "GPU %u: %s: the driver has no room there", gpu,
				 what);
	return fault_set(why, -EIO, "GPU %u: %s: %s", gpu, what, nvml->nvmlErrorString(status));
}

int mig_open(const char *folder, struct mig_nvml **ret_nvml, struct fault *why)
{
	owned(free) struct mig_nvml *nvml = calloc(1, sizeof(*nvml));
	char path[PATH_MAX];
	unsigned int count = 0;
	nvmlReturn_t status;
	int r;

	if (!nvml)
		return fault_set(why, -ENOMEM, "out of memory");
	nvml_library_path(folder, path);
	r = nvml_library_open(path, &nvml->library, why);
	if (r == 0)
		r = resolve(nvml, why);
	if (r < 0)
		return r;
	status = nvml->nvmlInit_v2();
	if (status == NVML_SUCCESS) {
		status = nvml->nvmlDeviceGetCount_v2(&count);
		if (status != NVML_SUCCESS)
			nvml->nvmlShutdown();
	}
	if (status != NVML_SUCCESS)
		return fault_set(why, -EIO, "NVML does not answer: %s",
				 nvml->nvmlErrorString(status));
	nvml->count = count < MIG_GPUS_MAX ? count : MIG_GPUS_MAX;
	*ret_nvml = take(nvml);
	return 0;
}

void mig_close(struct mig_nvml *nvml)
{
	if (!nvml)
		return;
	nvml->nvmlShutdown();
	free(nvml); /* the library stays: its threads may still run its code */
}

uint32_t mig_count(const struct mig_nvml *nvml)
{
	return nvml->count;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void read_places(const struct mig_nvml *nvml, nvmlDevice_t device,
			struct mig_profile *profile)
{
	nvmlGpuInstancePlacement_t places[MIG_PLACES_MAX];
	unsigned int count = MIG_PLACES_MAX;

	if (nvml->nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile->id, places,
								&count) != NVML_SUCCESS)
		return;
	for (unsigned i = 0; i < count && i < MIG_PLACES_MAX; i++)
		profile->place[profile->places++] =
			(struct mig_place){places[i].start, places[i].size};
}

/* A name may have "MIG " before it, as in `nvidia-smi mig -lgip`. */
static void read_profiles(const struct mig_nvml *nvml, nvmlDevice_t device, struct mig_gpu *gpu)
{
	for (unsigned kind = 0; kind < KINDS && gpu->profiles < MIG_KINDS_MAX; kind++) {
		nvmlGpuInstanceProfileInfo_v2_t info = {
			.version = NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2)};
		struct mig_profile *profile = &gpu->profile[gpu->profiles];
		const char *name = info.name;

		if (nvml->nvmlDeviceGetGpuInstanceProfileInfoV(device, kind, &info) != NVML_SUCCESS)
			continue;
		if (strncmp(name, "MIG ", 4) == 0)
			name += 4;
		*profile = (struct mig_profile){.kind = kind,
						.id = info.id,
						.slices = info.sliceCount,
						.most = info.instanceCount,
						.memory_mib = info.memorySizeMB};
#define ENGINE(name, counter, field) profile->engines[MIG_ENGINE_##name] = info.field;
#include "mig/engines.def"
#undef ENGINE
		snprintf(profile->name, sizeof(profile->name), "%.31s", name);
		if (gpu->on)
			read_places(nvml, device, profile);
		gpu->profiles++;
	}
}

static void read_compute(const struct mig_nvml *nvml, nvmlComputeInstance_t compute,
			 uint32_t slices, struct mig_part *part)
{
	nvmlComputeInstanceInfo_t info;
	uint32_t n = part->computes;

	if (n == MIG_COMPUTES_MAX)
		return;
	part->compute_slices[n] = slices;
	if (nvml->nvmlComputeInstanceGetInfo_v2(compute, &info) != NVML_SUCCESS ||
	    nvml->nvmlDeviceGetUUID(info.device, part->uuid[n], MIG_UUID_MAX) != NVML_SUCCESS)
		part->uuid[n][0] = '\0';
	part->computes++;
}

/* Does `each` for every compute instance of the GPU instance, until it fails. */
static nvmlReturn_t each_compute(const struct mig_nvml *nvml, nvmlGpuInstance_t instance,
				 nvmlReturn_t (*each)(const struct mig_nvml *nvml,
						      nvmlComputeInstance_t compute,
						      uint32_t slices, struct mig_part *part),
				 struct mig_part *part)
{
	nvmlReturn_t status = NVML_SUCCESS;

	for (unsigned kind = 0; kind < COMPUTE_KINDS && status == NVML_SUCCESS; kind++) {
		nvmlComputeInstance_t found[64];
		nvmlComputeInstanceProfileInfo_t info;
		unsigned int count = 0;

		if (nvml->nvmlGpuInstanceGetComputeInstanceProfileInfo(
			    instance, kind, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info) !=
			    NVML_SUCCESS ||
		    info.instanceCount > ARRAY_SIZE(found) ||
		    nvml->nvmlGpuInstanceGetComputeInstances(instance, info.id, found, &count) !=
			    NVML_SUCCESS)
			continue;
		for (unsigned i = 0; i < count && status == NVML_SUCCESS; i++)
			status = each(nvml, found[i], info.sliceCount, part);
	}
	return status;
}

static nvmlReturn_t note_compute(const struct mig_nvml *nvml, nvmlComputeInstance_t compute,
				 uint32_t slices, struct mig_part *part)
{
	read_compute(nvml, compute, slices, part);
	return NVML_SUCCESS;
}

static void read_part(const struct mig_nvml *nvml, nvmlGpuInstance_t instance, uint32_t profile,
		      struct mig_gpu *gpu)
{
	struct mig_part *part = &gpu->part[gpu->parts];
	nvmlGpuInstanceInfo_t info;

	if (gpu->parts == MIG_PARTS_MAX ||
	    nvml->nvmlGpuInstanceGetInfo(instance, &info) != NVML_SUCCESS)
		return;
	*part = (struct mig_part){.profile = profile,
				  .id = info.id,
				  .place = {info.placement.start, info.placement.size}};
	best_effort(each_compute(nvml, instance, note_compute, part));
	gpu->parts++;
}

static int read_parts(const struct mig_nvml *nvml, nvmlDevice_t device, struct mig_gpu *gpu,
		      struct fault *why)
{
	for (uint32_t i = 0; i < gpu->profiles; i++) {
		nvmlGpuInstance_t found[64];
		unsigned int count = 0;
		int r;

		if (gpu->profile[i].most > ARRAY_SIZE(found))
			continue;
		r = says(nvml,
			 nvml->nvmlDeviceGetGpuInstances(device, gpu->profile[i].id, found, &count),
			 gpu->index, "its parts", why);
		if (r < 0)
			return r;
		for (unsigned k = 0; k < count; k++)
			read_part(nvml, found[k], i, gpu);
	}
	return 0;
}

static int find_device(const struct mig_nvml *nvml, uint32_t index, nvmlDevice_t *ret_device,
		       struct fault *why)
{
	return says(nvml, nvml->nvmlDeviceGetHandleByIndex_v2(index, ret_device), index,
		    "it cannot be asked", why);
}

int mig_read(const struct mig_nvml *nvml, uint32_t index, struct mig_gpu *gpu, struct fault *why)
{
	unsigned int now = 0, later = 0;
	nvmlDevice_t device;
	nvmlPciInfo_t pci;
	int r = find_device(nvml, index, &device, why);

	if (r < 0)
		return r;
	memset(gpu, 0, sizeof(*gpu));
	gpu->index = index;
	if (nvml->nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS) {
		gpu->model = (struct mig_model){pci.pciDeviceId, pci.pciSubSystemId};
		snprintf(gpu->pci, sizeof(gpu->pci), "%.31s", pci.busId);
	}
	if (nvml->nvmlDeviceGetCudaComputeCapability(device, &gpu->cc_major, &gpu->cc_minor) !=
	    NVML_SUCCESS)
		gpu->cc_major = 0;
	if (nvml->nvmlDeviceGetUUID(device, gpu->uuid, sizeof(gpu->uuid)) != NVML_SUCCESS)
		gpu->uuid[0] = '\0';
	if (nvml->nvmlDeviceGetName(device, gpu->name, sizeof(gpu->name)) != NVML_SUCCESS)
		gpu->name[0] = '\0';
	gpu->capable = nvml->nvmlDeviceGetMigMode(device, &now, &later) == NVML_SUCCESS;
	if (!gpu->capable)
		return 0;
	gpu->on = now == NVML_DEVICE_MIG_ENABLE;
	gpu->later = later == NVML_DEVICE_MIG_ENABLE;
	read_profiles(nvml, device, gpu);
	return gpu->on ? read_parts(nvml, device, gpu, why) : 0;
}

/* ---- changing ------------------------------------------------------------------------------- */

int mig_set_mode(const struct mig_nvml *nvml, const struct mig_gpu *gpu, bool on, struct fault *why)
{
	unsigned int mode = on ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE, now, later;
	nvmlReturn_t activation = NVML_SUCCESS, status;
	nvmlDevice_t device;
	int r = find_device(nvml, gpu->index, &device, why);

	if (r < 0)
		return r;
	status = nvml->nvmlDeviceSetMigMode(device, mode, &activation);
	if (status == NVML_ERROR_IN_USE ||
	    (status == NVML_SUCCESS && activation == NVML_ERROR_IN_USE))
		return MIG_IN_USE;
	r = says(nvml, status, gpu->index, "its MIG mode", why);
	if (r < 0)
		return r;
	if (nvml->nvmlDeviceGetMigMode(device, &now, &later) == NVML_SUCCESS && now != mode)
		return MIG_PENDING;
	return 0;
}

static int complete(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
		    nvmlGpuInstance_t instance, uint32_t slices, struct fault *why)
{
	nvmlComputeInstance_t compute;
	nvmlComputeInstanceProfileInfo_t info;

	for (unsigned kind = 0; kind < COMPUTE_KINDS; kind++)
		if (nvml->nvmlGpuInstanceGetComputeInstanceProfileInfo(
			    instance, kind, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info) ==
			    NVML_SUCCESS &&
		    info.sliceCount == slices)
			return says(nvml,
				    nvml->nvmlGpuInstanceCreateComputeInstance(instance, info.id,
									       &compute),
				    gpu->index, "a compute instance", why);
	return fault_set(why, -ENOSYS,
			 "GPU %u: the driver has no compute instance that is a whole part",
			 gpu->index);
}

/* MIG has no names for parts: one that lies elsewhere would be taken for somebody else's. */
static int check_start(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
		       nvmlGpuInstance_t instance, const char *profile, uint32_t start,
		       struct fault *why)
{
	nvmlGpuInstanceInfo_t info;
	int r = says(nvml, nvml->nvmlGpuInstanceGetInfo(instance, &info), gpu->index, profile, why);

	if (r == 0 && info.placement.start != start)
		r = fault_set(why, -EIO, "GPU %u: %s: the driver makes it at %u instead of %u",
			      gpu->index, profile, info.placement.start, start);
	return r;
}

int mig_make(const struct mig_nvml *nvml, const struct mig_gpu *gpu, uint32_t profile,
	     uint32_t start, struct fault *why)
{
	const struct mig_profile *row = &gpu->profile[profile];
	nvmlGpuInstancePlacement_t place = {start, row->places ? row->place[0].size : 0};
	nvmlGpuInstance_t instance;
	nvmlDevice_t device;
	int r = find_device(nvml, gpu->index, &device, why);

	if (r < 0)
		return r;
	r = says(nvml,
		 nvml->nvmlDeviceCreateGpuInstanceWithPlacement(device, row->id, &place, &instance),
		 gpu->index, row->name, why);
	if (r < 0)
		return r;
	r = check_start(nvml, gpu, instance, row->name, start, why);
	if (r == 0)
		r = complete(nvml, gpu, instance, row->slices, why);
	if (r < 0)
		nvml->nvmlGpuInstanceDestroy(instance);
	return r;
}

static nvmlReturn_t destroy_compute(const struct mig_nvml *nvml, nvmlComputeInstance_t compute,
				    uint32_t slices, struct mig_part *part)
{
	(void)slices;
	(void)part;
	return nvml->nvmlComputeInstanceDestroy(compute);
}

int mig_unmake(const struct mig_nvml *nvml, const struct mig_gpu *gpu, const struct mig_part *part,
	       struct fault *why)
{
	nvmlGpuInstance_t instance;
	nvmlReturn_t status;
	nvmlDevice_t device;
	int r = find_device(nvml, gpu->index, &device, why);

	if (r < 0)
		return r;
	status = nvml->nvmlDeviceGetGpuInstanceById(device, part->id, &instance);
	if (status == NVML_SUCCESS)
		status = each_compute(nvml, instance, destroy_compute, NULL);
	if (status == NVML_SUCCESS)
		status = nvml->nvmlGpuInstanceDestroy(instance);
	if (status == NVML_ERROR_IN_USE)
		return MIG_IN_USE;
	return says(nvml, status, gpu->index, gpu->profile[part->profile].name, why);
}

/* A GPU can have any number of processes: its parts can be shared out further. */
static nvmlReturn_t list_processes(const struct mig_nvml *nvml, nvmlDevice_t device,
				   nvmlProcessInfo_t **rows, unsigned int *ret_count)
{
	nvmlReturn_t status = NVML_ERROR_INSUFFICIENT_SIZE;
	unsigned int room = PROCESSES;

	for (int i = 0; i < TRIES && status == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
		void *more = reallocarray(*rows, room, sizeof(**rows));

		if (!more)
			return NVML_ERROR_MEMORY;
		*rows = more;
		*ret_count = room;
		status = nvml->nvmlDeviceGetComputeRunningProcesses_v3(device, ret_count, *rows);
		if (status == NVML_SUCCESS && *ret_count > room)
			return NVML_ERROR_UNKNOWN;
		/* More than it counted, as others may start meanwhile. */
		room = *ret_count > room ? *ret_count + *ret_count / 8 : 2 * room;
	}
	return status;
}

int mig_user(const struct mig_nvml *nvml, const struct mig_gpu *gpu, const struct mig_part *part,
	     unsigned *ret_pid)
{
	owned(free) nvmlProcessInfo_t *rows = NULL;
	unsigned int count = 0;
	nvmlDevice_t device;
	struct fault why;

	*ret_pid = 0;
	if (find_device(nvml, gpu->index, &device, &why) < 0 ||
	    list_processes(nvml, device, &rows, &count) != NVML_SUCCESS)
		return -EIO;
	for (unsigned i = 0; i < count && !*ret_pid; i++)
		if (!part || rows[i].gpuInstanceId == part->id)
			*ret_pid = rows[i].pid;
	return 0;
}
