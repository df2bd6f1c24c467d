/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest management library that meted runs on, for tests of meted alone:
 *
 *	METE_STUB_DEVICES    how many (default 1)
 *	METE_STUB_BYTES      memory of each (default 4 GiB)
 *	METE_STUB_PROCESSES  a file of lines "DEVICE PID BYTES", read at each question
 */
#include <string.h>

#include "base/macros.h"
#include "cuda/nvml_prototypes.h"

static unsigned long long setting(const char *name, unsigned long long normally)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : normally;
}

static unsigned index_of(nvmlDevice_t device)
{
	return (unsigned)((uintptr_t)device - 1);
}

exported nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

exported const char *nvmlErrorString(nvmlReturn_t result)
{
	return result == NVML_SUCCESS ? "no error" : "an error of the stub";
}

exported nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = (unsigned)setting("METE_STUB_DEVICES", 1);
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)(uintptr_t)(index + 1);
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	snprintf(uuid, length, "GPU-00000000-0000-0000-0000-0000000000%02x", index_of(device));
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	(void)device;
	snprintf(name, length, "Stub");
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	(void)device;
	memset(memory, 0, sizeof(*memory));
	memory->total = memory->free = setting("METE_STUB_BYTES", 4ull << 30);
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
							      unsigned int *count,
							      nvmlProcessInfo_t *infos)
{
	const char *path = getenv("METE_STUB_PROCESSES");
	owned(fclose) FILE *file = path ? fopen(path, "r") : NULL;
	unsigned index, pid, n = 0;
	unsigned long long bytes;

	while (file && fscanf(file, "%u %u %llu", &index, &pid, &bytes) == 3) {
		if (index != index_of(device))
			continue;
		if (n == *count)
			return NVML_ERROR_INSUFFICIENT_SIZE;
		infos[n++] = (nvmlProcessInfo_t){.pid = pid, .usedGpuMemory = bytes};
	}
	*count = n;
	return NVML_SUCCESS;
}
