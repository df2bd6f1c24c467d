/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: limits of control groups. METE_SIM_NATIVE_LIMITS switches them on. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/limits.h"
#include "sim/nvml/nvml.h"

/* A part of MIG is refused, and so is a GPU that MIG divides. */
static nvmlReturn_t whole(nvmlDevice_t device, const char *group, int *ret_number)
{
	nvmlReturn_t r = nvml_device_or_part(device, ret_number);
	struct stat is;

	if (r != NVML_SUCCESS)
		return r;
	if (!segment_settings()->native_limits || parts_is_part((uint32_t)*ret_number) ||
	    atomic_load(&segment_get()->mig_now[*ret_number]))
		return NVML_ERROR_NOT_SUPPORTED;
	if (!group || *group != '/')
		return NVML_ERROR_INVALID_ARGUMENT;
	return stat(group, &is) == 0 && S_ISDIR(is.st_mode) ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits)
{
	int number, r;
	nvmlReturn_t may = whole(device, limits ? limits->nameSpace : NULL, &number);

	if (may != NVML_SUCCESS)
		return may;
	if (geteuid() != 0)
		return NVML_ERROR_NO_PERMISSION;
	if (limits->softLimit > limits->hardLimit)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = limits_set((uint32_t)number, limits->nameSpace, limits->softLimit, limits->hardLimit);
	if (r == -ENOSPC)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	return r < 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
	uint64_t soft, hard;
	int number;
	nvmlReturn_t r = whole(device, limits ? limits->nameSpace : NULL, &number);

	if (r != NVML_SUCCESS)
		return r;
	limits_get((uint32_t)number, limits->nameSpace, &soft, &hard);
	limits->softLimit = soft;
	limits->hardLimit = hard;
	limits->currentUsed = limits_used((uint32_t)number, limits->nameSpace);
	return NVML_SUCCESS;
}
