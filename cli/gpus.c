/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpus.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "cuda/nvml_prototypes.h"

struct gpus {
	void *library;
	__typeof__(&nvmlInit_v2) init;
	__typeof__(&nvmlErrorString) text;
	__typeof__(&nvmlDeviceGetCount_v2) count;
	__typeof__(&nvmlDeviceGetHandleByIndex_v2) handle;
	__typeof__(&nvmlDeviceGetUUID) uuid;
	__typeof__(&nvmlDeviceGetName) name;
	__typeof__(&nvmlDeviceGetUtilizationRates) rates;
	__typeof__(&nvmlDeviceGetMemoryInfo) memory;
	__typeof__(&nvmlDeviceGetComputeRunningProcesses_v3) processes;
};

void gpus_close(struct gpus *gpus)
{
	free(gpus); /* the library stays: a driver does not like to be unloaded, and we end soon */
}

static int find(struct gpus *gpus, const char *path, struct fault *why)
{
	gpus->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!gpus->library)
		return fault_set(why, -ENOENT, "no NVIDIA driver here: %s", dlerror());
#define FUNCTION(field, symbol) gpus->field = (__typeof__(gpus->field))dlsym(gpus->library, #symbol)
	FUNCTION(init, nvmlInit_v2);
	FUNCTION(text, nvmlErrorString);
	FUNCTION(count, nvmlDeviceGetCount_v2);
	FUNCTION(handle, nvmlDeviceGetHandleByIndex_v2);
	FUNCTION(uuid, nvmlDeviceGetUUID);
	FUNCTION(name, nvmlDeviceGetName);
	FUNCTION(rates, nvmlDeviceGetUtilizationRates);
	FUNCTION(memory, nvmlDeviceGetMemoryInfo);
	FUNCTION(processes, nvmlDeviceGetComputeRunningProcesses_v3);
#undef FUNCTION
	if (!gpus->init || !gpus->text || !gpus->count || !gpus->handle || !gpus->uuid ||
	    !gpus->memory)
		return fault_set(why, -EINVAL, "%s is too old: functions are missing", path);
	return 0;
}

int gpus_open(struct gpus **ret_gpus, struct fault *why)
{
	const char *folder = getenv("METE_DRIVER");
	owned(free) struct gpus *gpus = calloc(1, sizeof(*gpus));
	char path[PATH_MAX];
	nvmlReturn_t status;
	int r;

	if (!gpus)
		return fault_set(why, -ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "%s%slibnvidia-ml.so.1", folder ? folder : "",
		 folder ? "/" : "");
	r = find(gpus, path, why);
	if (r < 0 || !gpus->init || !gpus->text)
		return r < 0 ? r : -EINVAL;
	status = gpus->init();
	if (status != NVML_SUCCESS)
		return fault_set(why, -EIO, "NVML does not initialise: %s", gpus->text(status));
	*ret_gpus = take(gpus);
	return 0;
}

static void look_at(const struct gpus *gpus, nvmlDevice_t device, struct pick_gpu *gpu)
{
	nvmlUtilization_t rates;
	nvmlMemory_t memory;

	gpu->load = gpu->memory = NAN;
	gpu->memory_bytes = gpu->free_bytes = 0;
	if (gpus->rates && gpus->rates(device, &rates) == NVML_SUCCESS)
		gpu->load = rates.gpu / 100.0;
	if (gpus->memory(device, &memory) == NVML_SUCCESS && memory.total) {
		gpu->memory = (double)memory.used / (double)memory.total;
		gpu->memory_bytes = memory.total;
		gpu->free_bytes = memory.free;
	}
}

int gpus_look(const struct gpus *gpus, struct pick_gpu ret_gpu[PICK_GPUS], size_t *ret_size,
	      size_t *ret_count, struct fault *why)
{
	unsigned count = 0;
	nvmlReturn_t status = gpus->count(&count);

	if (status != NVML_SUCCESS)
		return fault_set(why, -EIO, "NVML cannot count the GPUs: %s", gpus->text(status));
	*ret_count = count;
	*ret_size = 0;
	for (unsigned i = 0; i < count && *ret_size < PICK_GPUS; i++) {
		struct pick_gpu *gpu = &ret_gpu[*ret_size];
		nvmlDevice_t device;

		if (gpus->handle(i, &device) != NVML_SUCCESS ||
		    gpus->uuid(device, gpu->uuid, sizeof(gpu->uuid)) != NVML_SUCCESS)
			continue;
		gpu->index = i;
		look_at(gpus, device, gpu);
		++*ret_size;
	}
	return 0;
}

struct gpus_model gpus_model(const struct gpus *gpus, unsigned index)
{
	struct gpus_model model;
	nvmlDevice_t device;

	if (!gpus->name || gpus->handle(index, &device) != NVML_SUCCESS ||
	    gpus->name(device, model.text, sizeof(model.text)) != NVML_SUCCESS)
		model.text[0] = '\0';
	return model;
}

size_t gpus_processes(const struct gpus *gpus, unsigned index, struct gpus_process *out,
		      size_t room)
{
	nvmlProcessInfo_t rows[256];
	unsigned count = ARRAY_SIZE(rows);
	nvmlDevice_t device;
	size_t n = 0;

	if (!gpus->processes || gpus->handle(index, &device) != NVML_SUCCESS ||
	    gpus->processes(device, &count, rows) != NVML_SUCCESS)
		return 0;
	for (unsigned i = 0; i < count && n < room; i++) {
		out[n].pid = rows[i].pid;
		/* All ones: the driver does not say. */
		out[n++].used_bytes =
			rows[i].usedGpuMemory == UINT64_MAX ? 0 : rows[i].usedGpuMemory;
	}
	return n;
}
