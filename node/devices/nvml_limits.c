/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of control groups, which the driver enforces by itself. */
#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"

bool nvml_has_limits(const struct nvml *nvml, const char *group)
{
	bool has = false;

	if (!nvml->nvmlDeviceSetMemoryLimits_v1 || !nvml->nvmlDeviceGetMemoryLimits_v1)
		return false;
	for (uint32_t i = 0; i < nvml->count && !has; i++) {
		nvmlGetMemoryLimits_v1_t limits = {.nameSpace = group};
		nvmlReturn_t r = NVML_ERROR_NOT_SUPPORTED;

		if (nvml->devices[i].gpu_instance < 0)
			r = nvml->nvmlDeviceGetMemoryLimits_v1(nvml_handle(nvml, i), &limits);
		has = r != NVML_ERROR_NOT_SUPPORTED && r != NVML_ERROR_FUNCTION_NOT_FOUND;
	}
	return has;
}

static int result_of(nvmlReturn_t r)
{
	static const struct {
		nvmlReturn_t r;
		int result;
	} known[] = {
		{NVML_SUCCESS, 0},
		{NVML_ERROR_NO_PERMISSION, -EPERM},
		{NVML_ERROR_NOT_SUPPORTED, -ENOTSUP},
		{NVML_ERROR_FUNCTION_NOT_FOUND, -ENOTSUP},
		{NVML_ERROR_NOT_FOUND, -ENOENT},
		{NVML_ERROR_INVALID_ARGUMENT, -EINVAL},
		{NVML_ERROR_INSUFFICIENT_RESOURCES, -ENOSPC},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].r == r)
			return known[i].result;
	return -EIO;
}

int nvml_limit(const struct nvml *nvml, uint32_t index, const char *group, uint64_t soft_bytes,
	       uint64_t hard_bytes)
{
	nvmlSetMemoryLimits_v1_t limits = {
		.nameSpace = group, .softLimit = soft_bytes, .hardLimit = hard_bytes};

	if (!nvml->nvmlDeviceSetMemoryLimits_v1 || nvml->devices[index].gpu_instance >= 0)
		return -ENOTSUP;
	return result_of(nvml->nvmlDeviceSetMemoryLimits_v1(nvml_handle(nvml, index), &limits));
}
