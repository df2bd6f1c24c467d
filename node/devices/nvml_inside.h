/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library, for the files of nvml.h. */
#pragma once

#include "cuda/nvml_prototypes.h"
#include "node/devices/nvml.h"

/* The library's functions, and whether they are required. */
#define NVML_CALLS(CALL)                                                                           \
	CALL(nvmlInit_v2, 1)                                                                       \
	CALL(nvmlShutdown, 1)                                                                      \
	CALL(nvmlErrorString, 1)                                                                   \
	CALL(nvmlDeviceGetCount_v2, 1)                                                             \
	CALL(nvmlDeviceGetHandleByIndex_v2, 1)                                                     \
	CALL(nvmlDeviceGetUUID, 1)                                                                 \
	CALL(nvmlDeviceGetName, 1)                                                                 \
	CALL(nvmlDeviceGetMemoryInfo, 1)                                                           \
	CALL(nvmlDeviceGetMinorNumber, 0)                                                          \
	CALL(nvmlDeviceGetMemoryInfo_v2, 0)                                                        \
	CALL(nvmlDeviceGetComputeRunningProcesses_v3, 0)                                           \
	CALL(nvmlDeviceGetComputeRunningProcesses_v2, 0)                                           \
	CALL(nvmlDeviceGetCudaComputeCapability, 0)                                                \
	CALL(nvmlSystemGetDriverVersion, 0)                                                        \
	CALL(nvmlSystemGetCudaDriverVersion_v2, 0)                                                 \
	CALL(nvmlDeviceGetNvLinkState, 0)                                                          \
	CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, 0)                                               \
	CALL(nvmlDeviceGetGpuFabricInfo, 0)                                                        \
	CALL(nvmlDeviceGetTopologyCommonAncestor, 0)                                               \
	CALL(nvmlDeviceGetPciInfo_v3, 0)                                                           \
	CALL(nvmlDeviceSetComputeMode, 0)                                                          \
	CALL(nvmlDeviceSetMemoryLimits_v1, 0)                                                      \
	CALL(nvmlDeviceGetMemoryLimits_v1, 0)                                                      \
	CALL(nvmlDeviceGetMigMode, 0)                                                              \
	CALL(nvmlDeviceGetMaxMigDeviceCount, 0)                                                    \
	CALL(nvmlDeviceGetMigDeviceHandleByIndex, 0)                                               \
	CALL(nvmlDeviceGetGpuInstanceId, 0)                                                        \
	CALL(nvmlDeviceGetComputeInstanceId, 0)                                                    \
	CALL(nvmlDeviceGetAttributes_v2, 0)                                                        \
	CALL(nvmlDeviceGetGpuInstanceById, 0)                                                      \
	CALL(nvmlGpuInstanceGetInfo, 0)                                                            \
	CALL(nvmlDeviceGetGpuInstanceProfileInfoV, 0)                                              \
	CALL(nvmlDeviceGetGpuInstancePossiblePlacements_v2, 0)                                     \
	CALL(nvmlDeviceGetProcessUtilization, 0)                                                   \
	CALL(nvmlDeviceGetUtilizationRates, 0)                                                     \
	CALL(nvmlDeviceGetTemperature, 0)                                                          \
	CALL(nvmlDeviceGetPowerUsage, 0)                                                           \
	CALL(nvmlDeviceGetEnforcedPowerLimit, 0)                                                   \
	CALL(nvmlDeviceGetClockInfo, 0)                                                            \
	CALL(nvmlEventSetCreate, 0)                                                                \
	CALL(nvmlEventSetFree, 0)                                                                  \
	CALL(nvmlEventSetWait_v2, 0)                                                               \
	CALL(nvmlDeviceGetSupportedEventTypes, 0)                                                  \
	CALL(nvmlDeviceRegisterEvents, 0)

/* A find of nvml_look_again(), of a device that was accepted. */
struct nvml_found {
	bool told; /* its GPU has said which parts it has */
	bool there;
	/* Where it is, if it is there: other parts may have been made and destroyed. */
	nvmlDevice_t handle;
	unsigned int part_index;
	struct gpu_part part;
};

struct nvml {
	void *library;
	uint32_t count; /* threads that ask the driver read it, too */
	uint32_t read;	/* rows that are filled: beyond `count` they are not accepted yet */
	uint32_t room;
	struct nvml_device *devices;
	nvmlDevice_t *handles;	 /* read by nvml_handle(): a part that is made again has another */
	nvmlDevice_t *gpus;	 /* the GPU that each device is, or is a part of */
	struct nvml_link *links; /* of each device to each other; NULL: not known */
	uint32_t linked;	 /* so many devices */
	nvmlEventSet_t events;	 /* NULL: nobody has asked for them */
	uint32_t registered;	 /* devices whose GPUs send them */
	struct nvml_found found[NVML_DEVICES_LATER];
	char driver[80];
	int cuda; /* 0: not reported */
	bool divisible;
	/* GPUs in MIG mode without parts, and those that nvml_look_again() has found. */
	uint32_t unparted, unparted_later;
	struct nvml_device unparted_gpu[NVML_DEVICES_LATER];
	struct nvml_device unparted_gpu_later[NVML_DEVICES_LATER];
#define CALL(name, needed) nvml_fn_##name *name;
	NVML_CALLS(CALL)
#undef CALL
};

/* Threads that ask the driver read them while another one writes them. */
static inline nvmlDevice_t nvml_handle(const struct nvml *nvml, uint32_t index)
{
	return __atomic_load_n(&nvml->handles[index], __ATOMIC_RELAXED);
}

static inline void nvml_set_handle(struct nvml *nvml, uint32_t index, nvmlDevice_t handle)
{
	__atomic_store_n(&nvml->handles[index], handle, __ATOMIC_RELAXED);
}

/* Reads the links of the devices that are read. A link that is not reported stays 0. Without memory
 * there are none. */
void nvml_read_links(struct nvml *nvml);
/* Whether the GPU can be in a fabric at all: only then its clique is asked for. */
bool nvml_has_fabric(const struct nvml *nvml, uint32_t index);
/* A row more: of a GPU, or of its part `index`. */
must_check int nvml_read_gpu(struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_index,
			     struct fault *why);
must_check int nvml_read_one(struct nvml *nvml, nvmlDevice_t part, nvmlDevice_t gpu,
			     unsigned int gpu_index, unsigned int index, struct fault *why);
/* Reads what a part has; zeros where the driver does not tell. */
void nvml_read_part(const struct nvml *nvml, nvmlDevice_t part, struct gpu_part *ret);
/* Where in its GPU the GPU instance is, and how many slices the GPU has; a figure that the driver
 * does not tell stays as it is. */
void nvml_read_place(const struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_instance,
		     struct gpu_part *part);
/* A GPU in MIG mode without parts, which is no device: from nvml_accept_unparted() on it counts. */
void nvml_add_unparted(struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_index);
void nvml_accept_unparted(struct nvml *nvml);
/* Whether MIG has divided it. */
bool nvml_is_divided(const struct nvml *nvml, nvmlDevice_t gpu);
/* Returns false if there is no part with this index. There may be gaps. */
bool nvml_find_part(const struct nvml *nvml, nvmlDevice_t gpu, unsigned int index,
		    nvmlDevice_t *ret_part);
