/* SPDX-License-Identifier: Apache-2.0 */
#include "node/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#include "cuda/nvml_prototypes.h"

/* What is called, and whether it can be done without. */
#define NVML_CALLS(CALL)                                                                           \
	CALL(nvmlInit_v2, 1)                                                                       \
	CALL(nvmlShutdown, 1)                                                                      \
	CALL(nvmlErrorString, 1)                                                                   \
	CALL(nvmlDeviceGetCount_v2, 1)                                                             \
	CALL(nvmlDeviceGetHandleByIndex_v2, 1)                                                     \
	CALL(nvmlDeviceGetUUID, 1)                                                                 \
	CALL(nvmlDeviceGetName, 1)                                                                 \
	CALL(nvmlDeviceGetMemoryInfo, 1)                                                           \
	CALL(nvmlDeviceGetMemoryInfo_v2, 0)                                                        \
	CALL(nvmlDeviceGetComputeRunningProcesses_v3, 0)                                           \
	CALL(nvmlDeviceGetComputeRunningProcesses_v2, 0)                                           \
	CALL(nvmlDeviceGetProcessUtilization, 0)

struct nvml {
	void *library;
	uint32_t count;
	struct nvml_device *devices;
	nvmlDevice_t *handles;
#define CALL(name, needed) nvml_fn_##name *name;
	NVML_CALLS(CALL)
#undef CALL
};

OWNED_POINTER(struct nvml, nvml_close)

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	if (nvml->handles)
		nvml->nvmlShutdown();
	/* The library stays: what its threads still run must not be unmapped. */
	free(nvml->handles);
	free(nvml->devices);
	free(nvml);
}

static int resolve(struct nvml *nvml, struct fault *why)
{
#define CALL(name, needed)                                                                         \
	nvml->name = (nvml_fn_##name *)dlsym(nvml->library, #name);                                \
	if (needed && !nvml->name)                                                                 \
		return fault_set(why, -ENOSYS,                                                     \
				 "it has no " #name ": the driver is too old (450 "                \
				 "or newer is needed)");
	NVML_CALLS(CALL)
#undef CALL
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
		const char *hex = "0123456789abcdef", *at;

		if (*text == '-')
			continue;
		at = strchr(hex, *text >= 'A' && *text <= 'F' ? *text - 'A' + 'a' : *text);
		if (!at || digits == 32)
			return -EINVAL;
		uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | (at - hex));
		digits++;
	}
	if (digits != 32)
		return -EINVAL;
	memcpy(ret_uuid, uuid, sizeof(uuid));
	return 0;
}

static int read_device(struct nvml *nvml, uint32_t index, struct fault *why)
{
	struct nvml_device *device = &nvml->devices[index];
	nvmlMemory_t memory;
	nvmlMemory_v2_t more = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	nvmlDevice_t handle;
	int r;

	r = says(nvml, nvml->nvmlDeviceGetHandleByIndex_v2(index, &handle), "its handle", why);
	if (r < 0)
		return r;
	nvml->handles[index] = handle;
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
	device->total_bytes = memory.total;
	if (nvml->nvmlDeviceGetMemoryInfo_v2 &&
	    nvml->nvmlDeviceGetMemoryInfo_v2(handle, &more) == NVML_SUCCESS)
		device->reserved_bytes = more.reserved;
	return 0;
}

static int read_devices(struct nvml *nvml, struct fault *why)
{
	unsigned int count = 0;
	int r = says(nvml, nvml->nvmlInit_v2(), "nvmlInit", why);

	if (r < 0)
		return r;
	nvml->handles = calloc(1, sizeof(*nvml->handles)); /* from here on, it must be shut down */
	r = says(nvml, nvml->nvmlDeviceGetCount_v2(&count), "the number of devices", why);
	if (r < 0)
		return r;
	free(nvml->handles);
	nvml->handles = calloc(count + 1, sizeof(*nvml->handles));
	nvml->devices = calloc(count + 1, sizeof(*nvml->devices));
	if (!nvml->handles || !nvml->devices)
		return fault_set(why, -ENOMEM, "out of memory");
	for (nvml->count = 0; nvml->count < count; nvml->count++) {
		r = read_device(nvml, nvml->count, why);
		if (r < 0) {
			fault_within(why, "device %u", nvml->count);
			return r;
		}
	}
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

int nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out, uint32_t room,
		   uint32_t *ret_count)
{
	nvml_fn_nvmlDeviceGetComputeRunningProcesses_v3 *list =
		nvml->nvmlDeviceGetComputeRunningProcesses_v3
			? nvml->nvmlDeviceGetComputeRunningProcesses_v3
			: nvml->nvmlDeviceGetComputeRunningProcesses_v2;
	owned(free) nvmlProcessInfo_t *infos = calloc(room, sizeof(*infos));
	unsigned int count = room;
	uint32_t n = 0;
	nvmlReturn_t r;

	if (!infos)
		return -ENOMEM;
	if (!list)
		return -EIO;
	r = list(nvml->handles[index], &count, infos);
	if (r == NVML_ERROR_INSUFFICIENT_SIZE)
		return -ENOSPC;
	if (r != NVML_SUCCESS || count > room)
		return -EIO;
	for (unsigned int i = 0; i < count; i++) {
		if (infos[i].usedGpuMemory == (unsigned long long)NVML_VALUE_NOT_AVAILABLE)
			continue;
		/* One row per process and MIG instance, or per context: they are one process. */
		out[n++] = (struct nvml_process){infos[i].pid, infos[i].usedGpuMemory};
	}
	*ret_count = n;
	return 0;
}

int nvml_busy(struct nvml *nvml, uint32_t index, uint64_t since_us, struct nvml_busy *out,
	      uint32_t room, uint32_t *ret_count)
{
	owned(free) nvmlProcessUtilizationSample_t *samples = calloc(room, sizeof(*samples));
	unsigned int count = room;
	nvmlReturn_t r;

	if (!samples)
		return -ENOMEM;
	if (!nvml->nvmlDeviceGetProcessUtilization)
		return -EIO;
	r = nvml->nvmlDeviceGetProcessUtilization(nvml->handles[index], samples, &count, since_us);
	if (r == NVML_ERROR_NOT_FOUND)
		count = 0; /* nobody had any */
	else if (r == NVML_ERROR_INSUFFICIENT_SIZE)
		return -ENOSPC;
	else if (r != NVML_SUCCESS || count > room)
		return -EIO;
	for (unsigned int i = 0; i < count; i++)
		out[i] = (struct nvml_busy){samples[i].pid, samples[i].smUtil};
	*ret_count = count;
	return 0;
}
