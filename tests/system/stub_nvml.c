/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest management library that meted runs on, for tests of meted alone:
 *
 *	METE_STUB_DEVICES    how many (default 1)
 *	METE_STUB_BYTES      memory of each (default 4 GiB)
 *	METE_STUB_KIND       how their UUIDs begin (default GPU)
 *	METE_STUB_PROCESSES  a file of lines "DEVICE PID BYTES", read at each question
 *	METE_STUB_LOADS      percent busy, one per device with commas between them; "-": not said
 *	METE_STUB_USED       percent of the memory in use, likewise
 *	METE_STUB_BOARDS     a file of lines "DEVICE CELSIUS MILLIWATTS LIMIT MHZ", likewise
 *
 * A file of processes that begins with "!" is no answer: FILE.failed has a byte more. For each time
 * that a device's power was asked for, the file of boards has a byte more in FILE.asked.
 */
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "cuda/nvml_prototypes.h"

static unsigned long long setting(const char *name, unsigned long long normally)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : normally;
}

/* The device's place in a list with commas; -1 where it is "-". */
static int of_device(const char *name, unsigned index)
{
	const char *text = getenv(name);

	for (; text && index; index--) {
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
	if (!text)
		return 0;
	return *text == '-' ? -1 : atoi(text);
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
	const char *kind = getenv("METE_STUB_KIND");

	snprintf(uuid, length, "%s-00000000-0000-0000-0000-0000000000%02x", kind ? kind : "GPU",
		 index_of(device));
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
	int percent = of_device("METE_STUB_USED", index_of(device));

	memset(memory, 0, sizeof(*memory));
	if (percent < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	memory->total = setting("METE_STUB_BYTES", 4ull << 30);
	memory->used = memory->total / 100 * (unsigned)percent;
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
	int percent = of_device("METE_STUB_LOADS", index_of(device));

	if (percent < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	rates->gpu = rates->memory = (unsigned)percent;
	return NVML_SUCCESS;
}

enum { CELSIUS, MILLIWATTS, LIMIT, MHZ, FIGURES };

/* A figure of the device's board, if there is a line for it. */
static nvmlReturn_t board(nvmlDevice_t device, unsigned which, unsigned int *ret)
{
	const char *path = getenv("METE_STUB_BOARDS");
	owned(fclose) FILE *file = path ? fopen(path, "r") : NULL;
	unsigned index, figure[FIGURES];

	while (file && fscanf(file, "%u %u %u %u %u", &index, &figure[CELSIUS], &figure[MILLIWATTS],
			      &figure[LIMIT], &figure[MHZ]) == 1 + FIGURES) {
		if (index != index_of(device))
			continue;
		*ret = figure[which];
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_SUPPORTED;
}

exported nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
					       unsigned int *ret)
{
	(void)sensor;
	return board(device, CELSIUS, ret);
}

static void note(const char *of, const char *what)
{
	char path[4096];
	owned(fclose) FILE *file = NULL;

	snprintf(path, sizeof(path), "%s.%s", of ? of : "", what);
	file = of ? fopen(path, "a") : NULL;
	if (file)
		fputc('?', file);
}

exported nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *ret)
{
	note(getenv("METE_STUB_BOARDS"), "asked");
	return board(device, MILLIWATTS, ret);
}

exported nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *ret)
{
	return board(device, LIMIT, ret);
}

exported nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
					     unsigned int *ret)
{
	(void)type;
	return board(device, MHZ, ret);
}

static bool fails(FILE *file, const char *path)
{
	int first = fgetc(file);

	if (first != '!') {
		ungetc(first, file);
		return false;
	}
	note(path, "failed");
	return true;
}

exported nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
							      unsigned int *count,
							      nvmlProcessInfo_t *infos)
{
	const char *path = getenv("METE_STUB_PROCESSES");
	owned(fclose) FILE *file = path ? fopen(path, "r") : NULL;
	unsigned index, pid, n = 0;
	unsigned long long bytes;

	if (file && fails(file, path))
		return NVML_ERROR_UNKNOWN;
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
