/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                   mig/nvml_inside.h
 * NVIDIA's management library as mig/nvml.c calls it.
 */
#pragma once

#include "cuda/nvml_prototypes.h"
#include "mig/nvml.h"

/* All of them are in the drivers that have MIG (450), but for the names of profiles (470). */
#define MIG_NVML_CALLS(CALL)                                                                       \
	CALL(nvmlInit_v2)                                                                          \
	CALL(nvmlShutdown)                                                                         \
	CALL(nvmlErrorString)                                                                      \
	CALL(nvmlDeviceGetCount_v2)                                                                \
	CALL(nvmlDeviceGetHandleByIndex_v2)                                                        \
	CALL(nvmlDeviceGetUUID)                                                                    \
	CALL(nvmlDeviceGetName)                                                                    \
	CALL(nvmlDeviceGetPciInfo_v3)                                                              \
	CALL(nvmlDeviceGetCudaComputeCapability)                                                   \
	CALL(nvmlDeviceGetComputeRunningProcesses_v3)                                              \
	CALL(nvmlDeviceGetMigMode)                                                                 \
	CALL(nvmlDeviceSetMigMode)                                                                 \
	CALL(nvmlDeviceGetGpuInstanceProfileInfoV)                                                 \
	CALL(nvmlDeviceGetGpuInstancePossiblePlacements_v2)                                        \
	CALL(nvmlDeviceGetGpuInstances)                                                            \
	CALL(nvmlDeviceGetGpuInstanceById)                                                         \
	CALL(nvmlDeviceCreateGpuInstanceWithPlacement)                                             \
	CALL(nvmlGpuInstanceGetInfo)                                                               \
	CALL(nvmlGpuInstanceDestroy)                                                               \
	CALL(nvmlGpuInstanceGetComputeInstanceProfileInfo)                                         \
	CALL(nvmlGpuInstanceGetComputeInstances)                                                   \
	CALL(nvmlGpuInstanceCreateComputeInstance)                                                 \
	CALL(nvmlComputeInstanceGetInfo_v2)                                                        \
	CALL(nvmlComputeInstanceDestroy)

struct mig_nvml {
	void *library;
	uint32_t count;
#define CALL(name) __typeof__(&(name)) name;
	MIG_NVML_CALLS(CALL)
#undef CALL
};
