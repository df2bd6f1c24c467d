/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvidia-ml.so.1 of a machine with two GPUs, of which MIG has divided the first: a part of its
 * GPU instances 1 and 2 each. As much of it as meted asks for. A file that $METE_TEST_DIVIDED names
 * lists the parts that are there: "12", "1", "" (none), or "-": MIG is off. They have indices from
 * 1 and places from 0 in that order; "0" is a gap. With "*" they were made anew, and with "?" they
 * do not tell their UUIDs.
 *
 * Of processes it says what $METE_TEST_SAMPLES says: "WANTED WRITTEN GROWN". It wants room for
 * WANTED samples, for GROWN more at each question, and writes WRITTEN, of pids 7, 6, 5, 7, 6, ...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "cuda/nvml_prototypes.h"

#define EXPORT __attribute__((visibility("default")))

enum { GPUS = 2, PARTS = 2, PART = 16 };

/* Handles are numbers: of a GPU from 1, of a part of the first from PART. */
static nvmlDevice_t handle(uintptr_t number)
{
	nvmlDevice_t device;

	memcpy(&device, &number, sizeof(device));
	return device;
}

static uintptr_t number_of(nvmlDevice_t device)
{
	return (uintptr_t)device;
}

/* By the file's present content. */
static void read_parts(char ret_parts[8])
{
	const char *path = getenv("METE_TEST_DIVIDED");
	FILE *file = path ? fopen(path, "re") : NULL;

	snprintf(ret_parts, 8, "12");
	if (!file)
		return;
	if (!fgets(ret_parts, 8, file))
		ret_parts[0] = '\0';
	fclose(file);
}

static int is_part(nvmlDevice_t device)
{
	return number_of(device) >= PART;
}

static uintptr_t instance_of(nvmlDevice_t part)
{
	return number_of(part) % PART;
}

/* Of parts that were made anew the handles are others. */
static int is_there(nvmlDevice_t part)
{
	char parts[8];

	read_parts(parts);
	return strchr(parts, '0' + (int)instance_of(part)) &&
	       (number_of(part) / PART == 2) == (strchr(parts, '*') != NULL);
}

/* Where in the order; -1: nowhere. */
static int place_of(uintptr_t instance)
{
	char parts[8];
	const char *at;

	read_parts(parts);
	at = strchr(parts, '0' + (int)instance);
	return at ? (int)(at - parts) : -1;
}

/* How often the samples of processes were asked for. */
static unsigned int asked;

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	asked = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	return result == NVML_SUCCESS ? "well" : "not well";
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = GPUS;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = handle(index + 1);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char parts[8];

	read_parts(parts);
	if (is_part(device) && strchr(parts, '?'))
		return NVML_ERROR_UNKNOWN;
	snprintf(uuid, length, "%s-00000000-0000-0000-0000-0000000000%02x",
		 is_part(device) ? "MIG" : "GPU",
		 (unsigned)(is_part(device) ? PART + instance_of(device) : number_of(device)));
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	snprintf(name, length, is_part(device) ? "H200 MIG 1g.18gb" : "H200");
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	unsigned long long total = is_part(device) ? 18ull << 30 : 140ull << 30;

	if (is_part(device) && !is_there(device))
		return NVML_ERROR_INVALID_ARGUMENT;
	*memory = (nvmlMemory_t){.total = total, .free = total};
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	if (is_part(device))
		return NVML_ERROR_INVALID_ARGUMENT;
	*minor = (unsigned)number_of(device) + 4;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now,
					 unsigned int *later)
{
	char parts[8];

	read_parts(parts);
	*now = *later = number_of(device) == 1 && !strchr(parts, '-');
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	(void)device;
	*count = 7;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
							nvmlDevice_t *part)
{
	char parts[8];

	read_parts(parts);
	if (number_of(device) != 1 || index == 0 || index > strspn(parts, "012") ||
	    parts[index - 1] == '0')
		return NVML_ERROR_NOT_FOUND;
	*part = handle((strchr(parts, '*') ? 2 * PART : PART) +
		       (uintptr_t)(parts[index - 1] - '0'));
	return NVML_SUCCESS;
}

/* Handles of GPU instances are their numbers. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
						 nvmlGpuInstance_t *instance)
{
	uintptr_t number = id;

	if (number_of(device) != 1 || place_of(number) < 0)
		return NVML_ERROR_NOT_FOUND;
	memcpy(instance, &number, sizeof(*instance));
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
	*info = (nvmlGpuInstanceInfo_t){
		.placement = {.start = (unsigned)place_of((uintptr_t)instance), .size = 1}};
	return NVML_SUCCESS;
}

/* One profile, which has a place for each part. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
							 nvmlGpuInstanceProfileInfo_v2_t *info)
{
	(void)device;
	if (profile)
		return NVML_ERROR_NOT_SUPPORTED;
	info->id = 0;
	info->sliceCount = PARTS;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(
	nvmlDevice_t device, unsigned int id, nvmlGpuInstancePlacement_t *places,
	unsigned int *count)
{
	(void)device;
	(void)id;
	*count = PARTS;
	for (unsigned i = 0; i < PARTS; i++)
		places[i] = (nvmlGpuInstancePlacement_t){.start = i, .size = 1};
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t part, unsigned int *id)
{
	*id = (unsigned)instance_of(part);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t part, unsigned int *id)
{
	(void)part;
	*id = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	int *told = calloc(1, sizeof(*told));

	*set = (nvmlEventSet_t)(void *)told;
	return told ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	free(set);
	return NVML_SUCCESS;
}

/* Parts are not watched, but their GPU is, once. */
EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long kinds,
					     nvmlEventSet_t set)
{
	(void)kinds;
	(void)set;
	return is_part(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* Three events: of the second part, of the divided GPU as a whole, of the other GPU. */
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int ms)
{
	static const struct {
		uintptr_t gpu;
		unsigned int gpu_instance;
	} events[] = {{1, 2}, {1, UINT32_MAX}, {2, UINT32_MAX}};
	int *told = (int *)(void *)set;

	(void)ms;
	if (!getenv("METE_TEST_XID") || *told == (int)ARRAY_SIZE(events))
		return NVML_ERROR_TIMEOUT;
	*data = (nvmlEventData_t){
		.device = handle(events[*told].gpu),
		.eventType = nvmlEventTypeXidCriticalError,
		.eventData = 79,
		.gpuInstanceId = events[*told].gpu_instance,
		.computeInstanceId = UINT32_MAX,
	};
	(*told)++;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
						    nvmlProcessUtilizationSample_t *samples,
						    unsigned int *count, unsigned long long since)
{
	const char *text = getenv("METE_TEST_SAMPLES");
	unsigned int wanted, written, grown, room = *count;

	if (is_part(device) && !is_there(device))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!text || sscanf(text, "%u %u %u", &wanted, &written, &grown) != 3)
		return NVML_ERROR_NOT_SUPPORTED;
	wanted += grown * asked++;
	*count = wanted;
	if (!samples || room < wanted)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	*count = written;
	for (unsigned int i = 0; i < written; i++)
		samples[i] = (nvmlProcessUtilizationSample_t){
			.pid = 7 - i % 3, .smUtil = i, .timeStamp = since + i};
	return written ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
