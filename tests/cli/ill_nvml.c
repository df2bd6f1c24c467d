/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A management library of an ill machine, for mete doctor: METE_ILL_INIT is what nvmlInit answers,
 * METE_ILL_MODE the compute mode of its only GPU, METE_ILL_UUID its UUID.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/nvml_prototypes.h"

static int setting(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 0;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return (nvmlReturn_t)setting("METE_ILL_INIT");
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	return result == NVML_SUCCESS ? "Success" : "it is ill";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (index)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = (nvmlDevice_t)(uintptr_t)(index + 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
	(void)device;
	*mode = (nvmlComputeMode_t)setting("METE_ILL_MODE");
	return NVML_SUCCESS;
}

/* mete asks for no GPU without these. */
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	(void)device;
	if (!getenv("METE_ILL_UUID"))
		return NVML_ERROR_NOT_SUPPORTED;
	snprintf(uuid, length, "%s", getenv("METE_ILL_UUID"));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	(void)device;
	(void)memory;
	return NVML_ERROR_NOT_SUPPORTED;
}
