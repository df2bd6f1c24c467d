/* SPDX-License-Identifier: Apache-2.0 */
#include "node/devices/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "node/devices/nvml_inside.h"

OWNED_POINTER(struct nvml, nvml_close)

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	if (nvml->events)
		nvml->nvmlEventSetFree(nvml->events);
	if (nvml->handles)
		nvml->nvmlShutdown();
	/* The library stays loaded: its threads may still run its code. */
	free(nvml->handles);
	free(nvml->gpus);
	free(nvml->devices);
	free(nvml->links);
	free(nvml);
}

struct symbol {
	const char *name;
	size_t at; /* in struct nvml */
	bool needed;
};

static const struct symbol symbols[] = {
#define CALL(name, needed) {#name, offsetof(struct nvml, name), needed},
	NVML_CALLS(CALL)
#undef CALL
};

static int resolve(struct nvml *nvml, struct fault *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *function = dlsym(nvml->library, symbols[i].name);

		memcpy((char *)nvml + symbols[i].at, &function, sizeof(function));
		if (symbols[i].needed && !function)
			return fault_set(why, -ENOSYS,
					 "it has no %s: the driver is too old (450 or newer is "
					 "needed)",
					 symbols[i].name);
	}
	return 0;
}

static int says(const struct nvml *nvml, nvmlReturn_t r, const char *what, struct fault *why)
{
	if (r == NVML_SUCCESS)
		return 0;
	return fault_set(why, -EIO, "%s: %s", what, nvml->nvmlErrorString(r));
}

int nvml_parse_uuid(const char *text, uint8_t ret_uuid[16])
{
	uint8_t uuid[16] = {0};
	int digits = 0;

	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return -EINVAL;
	for (text += 4; *text; text++) {
		int value = text_hex(*text);

		if (*text == '-')
			continue;
		if (value < 0 || digits == 32)
			return -EINVAL;
		uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | value);
		digits++;
	}
	if (digits != 32)
		return -EINVAL;
	memcpy(ret_uuid, uuid, sizeof(uuid));
	return 0;
}

static bool make_room(struct nvml *nvml)
{
	uint32_t room = nvml->room ? 2 * nvml->room : NVML_DEVICES_LATER;
	void *devices, *handles, *gpus;

	if (nvml->read < nvml->room)
		return true;
	devices = realloc(nvml->devices, room * sizeof(*nvml->devices));
	nvml->devices = devices ? devices : nvml->devices;
	handles = realloc(nvml->handles, room * sizeof(*nvml->handles));
	nvml->handles = handles ? handles : nvml->handles;
	gpus = realloc(nvml->gpus, room * sizeof(*nvml->gpus));
	nvml->gpus = gpus ? gpus : nvml->gpus;
	if (!devices || !handles || !gpus)
		return false;
	nvml->room = room;
	return true;
}

/* Reads figures that older drivers do not report. */
static void read_optional(const struct nvml *nvml, nvmlDevice_t handle, nvmlDevice_t gpu,
			  struct nvml_device *device)
{
	nvmlMemory_v2_t more = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	unsigned int now, later, minor;
	nvmlPciInfo_t pci;

	if (nvml->nvmlDeviceGetMinorNumber &&
	    nvml->nvmlDeviceGetMinorNumber(gpu, &minor) == NVML_SUCCESS)
		device->minor = (int)minor;
	if (nvml->nvmlDeviceGetMemoryInfo_v2 &&
	    nvml->nvmlDeviceGetMemoryInfo_v2(handle, &more) == NVML_SUCCESS)
		device->reserved_bytes = more.reserved;
	if (nvml->nvmlDeviceGetPciInfo_v3 &&
	    nvml->nvmlDeviceGetPciInfo_v3(gpu, &pci) == NVML_SUCCESS)
		snprintf(device->pci, sizeof(device->pci), "%.31s", pci.busId);
	if (!nvml->nvmlDeviceGetCudaComputeCapability ||
	    nvml->nvmlDeviceGetCudaComputeCapability(gpu, &device->cc_major, &device->cc_minor) !=
		    NVML_SUCCESS)
		device->cc_major = 0;
	device->is_divisible = nvml->nvmlDeviceGetMigMode &&
			       nvml->nvmlDeviceGetMigMode(gpu, &now, &later) == NVML_SUCCESS;
}

/* Reads the next device: `handle` is that GPU or a part of it. */
static int read_device(struct nvml *nvml, nvmlDevice_t handle, nvmlDevice_t gpu, struct fault *why)
{
	struct nvml_device *device;
	nvmlMemory_t memory;
	int r;

	if (!make_room(nvml) || !nvml->devices || !nvml->gpus)
		return fault_set(why, -ENOMEM, "out of memory");
	device = &nvml->devices[nvml->read];
	*device = (struct nvml_device){.minor = -1, .gpu_instance = -1, .compute_instance = -1};
	nvml->handles[nvml->read] = handle;
	nvml->gpus[nvml->read] = gpu;
	r = says(nvml,
		 nvml->nvmlDeviceGetUUID(handle, device->uuid_text, sizeof(device->uuid_text)),
		 "its UUID", why);
	if (r < 0)
		return r;
	if (nvml_parse_uuid(device->uuid_text, device->uuid) < 0)
		return fault_set(why, -EINVAL, "'%.40s' is not a UUID", device->uuid_text);
	r = says(nvml, nvml->nvmlDeviceGetName(handle, device->model, sizeof(device->model)),
		 "its name", why);
	if (r < 0)
		return r;
	r = says(nvml, nvml->nvmlDeviceGetMemoryInfo(handle, &memory), "its memory", why);
	if (r < 0)
		return r;
	device->has_fabric = nvml_has_fabric(nvml, nvml->read);
	nvml_clique(nvml, nvml->read, device->clique);
	device->total_bytes = device->gpu_bytes = memory.total;
	if (gpu != handle && nvml->nvmlDeviceGetMemoryInfo(gpu, &memory) == NVML_SUCCESS)
		device->gpu_bytes = memory.total;
	if (gpu != handle && nvml->nvmlDeviceGetUUID(gpu, device->gpu_uuid,
						     sizeof(device->gpu_uuid)) != NVML_SUCCESS)
		*device->gpu_uuid = '\0';
	read_optional(nvml, handle, gpu, device);
	nvml->read++;
	return 0;
}

int nvml_read_gpu(struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_index, struct fault *why)
{
	int r = read_device(nvml, gpu, gpu, why);

	if (r == 0)
		nvml->devices[nvml->read - 1].gpu_index = gpu_index;
	return r;
}

int nvml_read_one(struct nvml *nvml, nvmlDevice_t part, nvmlDevice_t gpu, unsigned int gpu_index,
		  unsigned int index, struct fault *why)
{
	unsigned int gpu_instance = 0, compute_instance = 0;
	struct nvml_device *device;
	int r = says(nvml, nvml->nvmlDeviceGetGpuInstanceId(part, &gpu_instance),
		     "its GPU instance", why);

	if (r == 0)
		r = says(nvml, nvml->nvmlDeviceGetComputeInstanceId(part, &compute_instance),
			 "its compute instance", why);
	if (r == 0)
		r = read_device(nvml, part, gpu, why);
	if (r < 0)
		return r;
	device = &nvml->devices[nvml->read - 1];
	device->gpu_index = gpu_index;
	device->part_index = index;
	nvml_read_part(nvml, part, &device->part);
	nvml_read_place(nvml, gpu, gpu_instance, &device->part);
	device->gpu_instance = (int)gpu_instance;
	device->compute_instance = (int)compute_instance;
	return 0;
}

bool nvml_is_divided(const struct nvml *nvml, nvmlDevice_t gpu)
{
	unsigned int now = 0, later;

	return nvml->nvmlDeviceGetMigMode && nvml->nvmlDeviceGetMaxMigDeviceCount &&
	       nvml->nvmlDeviceGetMigDeviceHandleByIndex && nvml->nvmlDeviceGetGpuInstanceId &&
	       nvml->nvmlDeviceGetComputeInstanceId &&
	       nvml->nvmlDeviceGetMigMode(gpu, &now, &later) == NVML_SUCCESS &&
	       now == NVML_DEVICE_MIG_ENABLE;
}

bool nvml_find_part(const struct nvml *nvml, nvmlDevice_t gpu, unsigned int index,
		    nvmlDevice_t *ret_part)
{
	return nvml->nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, ret_part) == NVML_SUCCESS;
}

/* Reads the parts into which MIG has divided a GPU; there may be none yet. */
static int read_parts(struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_index,
		      struct fault *why)
{
	unsigned int most = 0;
	int r = says(nvml, nvml->nvmlDeviceGetMaxMigDeviceCount(gpu, &most),
		     "how many parts MIG may make of it", why);

	for (unsigned int i = 0; i < most && r == 0; i++) {
		nvmlDevice_t part;

		if (!nvml_find_part(nvml, gpu, i, &part))
			continue;
		r = nvml_read_one(nvml, part, gpu, gpu_index, i, why);
		/* It was destroyed meanwhile: divided.c sees what is there then. */
		if (r < 0 && !nvml_find_part(nvml, gpu, i, &part))
			r = 0;
		if (r < 0)
			fault_within(why, "part %u of MIG", i);
	}
	return r;
}

static int read_gpu_or_parts(struct nvml *nvml, unsigned int index, struct fault *why)
{
	uint32_t first = nvml->read;
	nvmlDevice_t gpu;
	int r = says(nvml, nvml->nvmlDeviceGetHandleByIndex_v2(index, &gpu), "its handle", why);

	if (r == 0)
		r = nvml_is_divided(nvml, gpu) ? read_parts(nvml, gpu, index, why)
					       : nvml_read_gpu(nvml, gpu, index, why);
	for (uint32_t i = first; r == 0 && i < nvml->read; i++)
		nvml->divisible |= nvml->devices[i].is_divisible;
	/* In MIG mode, and without parts. */
	if (r == 0 && first == nvml->read) {
		nvml->divisible = true;
		nvml_add_unparted(nvml, gpu, index);
	}
	return r;
}

static int read_devices(struct nvml *nvml, struct fault *why)
{
	unsigned int count = 0;
	int r = says(nvml, nvml->nvmlInit_v2(), "nvmlInit", why);

	if (r < 0)
		return r;
	nvml->handles = calloc(1, sizeof(*nvml->handles)); /* from here on, it must be shut down */
	if (!nvml->nvmlSystemGetDriverVersion ||
	    nvml->nvmlSystemGetDriverVersion(nvml->driver, sizeof(nvml->driver)) != NVML_SUCCESS)
		*nvml->driver = '\0';
	if (!nvml->nvmlSystemGetCudaDriverVersion_v2 ||
	    nvml->nvmlSystemGetCudaDriverVersion_v2(&nvml->cuda) != NVML_SUCCESS)
		nvml->cuda = 0;
	r = says(nvml, nvml->nvmlDeviceGetCount_v2(&count), "the number of devices", why);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < count; i++) {
		r = read_gpu_or_parts(nvml, i, why);
		if (r < 0) {
			fault_within(why, "device %u", i);
			return r;
		}
	}
	nvml_accept_unparted(nvml);
	nvml_read_links(nvml);
	nvml->count = nvml->read;
	return 0;
}

int nvml_open(const char *folder, struct nvml **ret_nvml, struct fault *why)
{
	owned(nvml_close) struct nvml *nvml = calloc(1, sizeof(*nvml));
	char path[PATH_MAX] = "libnvidia-ml.so.1";
	int r;

	if (!nvml)
		return fault_set(why, -ENOMEM, "out of memory");
	if (folder && snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", folder) >= PATH_MAX)
		return fault_set(why, -ENAMETOOLONG, "%.40s...: the path is too long", folder);
	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return fault_set(why, -ENOENT, "NVIDIA's management library cannot be opened: %s",
				 dlerror());
	r = resolve(nvml, why);
	if (r == 0)
		r = read_devices(nvml, why);
	if (r < 0) {
		fault_within(why, "%s", path);
		return r;
	}
	*ret_nvml = take(nvml);
	return 0;
}

uint32_t nvml_count(const struct nvml *nvml)
{
	return nvml->count;
}

const struct nvml_device *nvml_device(const struct nvml *nvml, uint32_t index)
{
	return &nvml->devices[index];
}

const char *nvml_driver(const struct nvml *nvml)
{
	return nvml->driver;
}

int nvml_cuda(const struct nvml *nvml)
{
	return nvml->cuda;
}

int nvml_set_exclusive(struct nvml *nvml, uint32_t index, bool exclusive)
{
	nvmlReturn_t r;

	if (!nvml->nvmlDeviceSetComputeMode || index >= nvml->count)
		return -ENOTSUP;
	r = nvml->nvmlDeviceSetComputeMode(nvml->gpus[index],
					   exclusive ? NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
						     : NVML_COMPUTEMODE_DEFAULT);
	if (r == NVML_SUCCESS)
		return 0;
	if (r == NVML_ERROR_NO_PERMISSION)
		return -EPERM;
	return r == NVML_ERROR_NOT_SUPPORTED ? -ENOTSUP : -EIO;
}
