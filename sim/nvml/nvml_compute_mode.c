/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: how many processes may use a GPU. New contexts see it (sim/cuda/context_life.c). */
#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/nvml/nvml.h"

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
	int number;
	nvmlReturn_t r = nvml_device(device, &number);

	if (r != NVML_SUCCESS)
		return r;
	if ((unsigned)mode >= NVML_COMPUTEMODE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	/* It went with CUDA 8. */
	if (mode == NVML_COMPUTEMODE_EXCLUSIVE_THREAD)
		return NVML_ERROR_NOT_SUPPORTED;
	segment_get()->compute_mode[number] = mode;
	return NVML_SUCCESS;
}
