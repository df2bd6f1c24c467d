/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpus.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cuda/nvml_board.h"
#include "cuda/nvml_library.h"
#include "cuda/nvml_prototypes.h"

struct gpus {
	void *library;
	__typeof__(&nvmlInit_v2) init;
	__typeof__(&nvmlErrorString) text;
	__typeof__(&nvmlDeviceGetCount_v2) count;
	__typeof__(&nvmlDeviceGetHandleByIndex_v2) handle;
	__typeof__(&nvmlDeviceGetUUID) uuid;
	__typeof__(&nvmlDeviceGetName) name;
	struct nvml_board_calls board;
	__typeof__(&nvmlDeviceGetMemoryInfo) memory;
	__typeof__(&nvmlDeviceGetComputeRunningProcesses_v3) processes;
	__typeof__(&nvmlDeviceGetHandleByUUID) by_uuid;
	__typeof__(&nvmlDeviceGetProcessUtilization) samples;
	__typeof__(&nvmlDeviceGetMinorNumber) minor;
	__typeof__(&nvmlDeviceGetComputeMode) mode;
};

void gpus_close(struct gpus *gpus)
{
	free(gpus); /* the library stays loaded: a driver may not survive being unloaded, and we end
		       soon */
}

static int find(struct gpus *gpus, const char *path, struct fault *why)
{
	int r = nvml_library_open(path, &gpus->library, why);

	if (r < 0)
		return r;
#define FUNCTION(field, symbol) gpus->field = (__typeof__(gpus->field))dlsym(gpus->library, #symbol)
	FUNCTION(init, nvmlInit_v2);
	FUNCTION(text, nvmlErrorString);
	FUNCTION(count, nvmlDeviceGetCount_v2);
	FUNCTION(handle, nvmlDeviceGetHandleByIndex_v2);
	FUNCTION(uuid, nvmlDeviceGetUUID);
	FUNCTION(name, nvmlDeviceGetName);
	FUNCTION(board.rates, nvmlDeviceGetUtilizationRates);
	FUNCTION(memory, nvmlDeviceGetMemoryInfo);
	FUNCTION(processes, nvmlDeviceGetComputeRunningProcesses_v3);
	FUNCTION(by_uuid, nvmlDeviceGetHandleByUUID);
	FUNCTION(board.temperature, nvmlDeviceGetTemperature);
	FUNCTION(board.power, nvmlDeviceGetPowerUsage);
	FUNCTION(board.power_limit, nvmlDeviceGetEnforcedPowerLimit);
	FUNCTION(board.clock, nvmlDeviceGetClockInfo);
	FUNCTION(samples, nvmlDeviceGetProcessUtilization);
	FUNCTION(minor, nvmlDeviceGetMinorNumber);
	FUNCTION(mode, nvmlDeviceGetComputeMode);
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
	nvml_library_path(folder, path);
	r = find(gpus, path, why);
	if (r < 0 || !gpus->init || !gpus->text)
		return r < 0 ? r : -EINVAL;
	status = gpus->init();
	if (status != NVML_SUCCESS)
		return fault_set(why, -EIO, "NVML does not initialise: %s", gpus->text(status));
	*ret_gpus = take(gpus);
	return 0;
}

static void read_gpu(const struct gpus *gpus, nvmlDevice_t device, struct pick_gpu *gpu)
{
	nvmlUtilization_t rates;
	nvmlMemory_t memory;

	gpu->load = gpu->memory = NAN;
	gpu->memory_bytes = gpu->free_bytes = 0;
	if (gpus->board.rates && gpus->board.rates(device, &rates) == NVML_SUCCESS)
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
		read_gpu(gpus, device, gpu);
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

int gpus_mode(const struct gpus *gpus, unsigned index)
{
	nvmlComputeMode_t mode;
	nvmlDevice_t device;

	if (gpus->handle(index, &device) != NVML_SUCCESS)
		return -ENODEV;
	return gpus->mode && gpus->mode(device, &mode) == NVML_SUCCESS ? (int)mode : GPUS_UNSAID;
}

int gpus_minor(const struct gpus *gpus, const char *uuid)
{
	nvmlDevice_t device;
	unsigned minor;

	if (!gpus->by_uuid || !gpus->minor || gpus->by_uuid(uuid, &device) != NVML_SUCCESS ||
	    gpus->minor(device, &minor) != NVML_SUCCESS)
		return -1;
	return (int)minor;
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

static bool find_device(const struct gpus *gpus, const char *uuid, nvmlDevice_t *ret_device)
{
	return gpus && gpus->by_uuid && gpus->by_uuid(uuid, ret_device) == NVML_SUCCESS;
}

struct gpu_board gpus_gauges(const struct gpus *gpus, const char *uuid)
{
	nvmlDevice_t device;

	return find_device(gpus, uuid, &device) ? nvml_board_read(&gpus->board, device)
						: board_unsaid();
}

enum {
	SAMPLES_FIRST = 128,
	SAMPLES_MOST = 1 << 16,
};

/* The driver requires room for all samples that it may keep, even if it then writes few. */
static unsigned read_samples(const struct gpus *gpus, nvmlDevice_t device, uint64_t since_us,
			     nvmlProcessUtilizationSample_t **ret_samples)
{
	for (unsigned room = SAMPLES_FIRST; room <= SAMPLES_MOST; room *= 4) {
		void *more = reallocarray(*ret_samples, room, sizeof(**ret_samples));
		unsigned count = room;
		nvmlReturn_t r;

		if (!more)
			return 0;
		*ret_samples = more;
		r = gpus->samples(device, *ret_samples, &count, since_us);
		if (r != NVML_ERROR_INSUFFICIENT_SIZE)
			return r == NVML_SUCCESS && count <= room ? count : 0;
	}
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const nvmlProcessUtilizationSample_t *one = a, *other = b;

	return (one->pid > other->pid) - (one->pid < other->pid);
}

size_t gpus_busy(const struct gpus *gpus, const char *uuid, uint64_t *since_us,
		 struct gpus_busy *out, size_t room)
{
	owned(free) nvmlProcessUtilizationSample_t *samples = NULL;
	uint64_t newest = *since_us;
	nvmlDevice_t device;
	unsigned count;
	size_t n = 0;

	if (!gpus->samples || !find_device(gpus, uuid, &device))
		return 0;
	count = read_samples(gpus, device, *since_us, &samples);
	if (count)
		qsort(samples, count, sizeof(*samples), by_pid);
	for (unsigned i = 0, next; i < count && n < room; i = next) {
		unsigned sum = 0;

		for (next = i; next < count && samples[next].pid == samples[i].pid; next++) {
			sum += samples[next].smUtil;
			if (samples[next].timeStamp > newest)
				newest = samples[next].timeStamp;
		}
		out[n++] = (struct gpus_busy){samples[i].pid, sum / (next - i)};
	}
	*since_us = newest;
	return n;
}
