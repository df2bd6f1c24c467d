/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's types about the division of a GPU by MIG: GPU instances, and compute instances of these.
 */
#pragma once

#include "cuda/nvml_types_device.h"

/* nvmlDeviceGetMigMode */
#define NVML_DEVICE_MIG_DISABLE 0x0
#define NVML_DEVICE_MIG_ENABLE	0x1

/* Kinds of profiles. Newer versions have more: which a GPU has, only its answers say. */
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE	    0x0
#define NVML_GPU_INSTANCE_PROFILE_2_SLICE	    0x1
#define NVML_GPU_INSTANCE_PROFILE_3_SLICE	    0x2
#define NVML_GPU_INSTANCE_PROFILE_4_SLICE	    0x3
#define NVML_GPU_INSTANCE_PROFILE_7_SLICE	    0x4
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1	    0x7
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2	    0x9
#define NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE	    0x0
#define NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE	    0x1
#define NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE	    0x2
#define NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE	    0x3
#define NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE	    0x4
#define NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED 0x0
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE		    96

typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;

typedef struct nvmlGpuInstancePlacement_st {
	unsigned int start, size; /* in slices of memory */
} nvmlGpuInstancePlacement_t;

typedef struct nvmlGpuInstanceProfileInfo_st {
	unsigned int id;
	unsigned int isP2pSupported;
	unsigned int sliceCount;
	unsigned int instanceCount;
	unsigned int multiprocessorCount;
	unsigned int copyEngineCount;
	unsigned int decoderCount;
	unsigned int encoderCount;
	unsigned int jpegCount;
	unsigned int ofaCount;
	unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct nvmlGpuInstanceProfileInfo_v2_st {
	unsigned int version;
	unsigned int id;
	unsigned int isP2pSupported;
	unsigned int sliceCount;
	unsigned int instanceCount;
	unsigned int multiprocessorCount;
	unsigned int copyEngineCount;
	unsigned int decoderCount;
	unsigned int encoderCount;
	unsigned int jpegCount;
	unsigned int ofaCount;
	unsigned long long memorySizeMB;
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct nvmlGpuInstanceProfileInfo_v3_st {
	unsigned int version;
	unsigned int id;
	unsigned int sliceCount;
	unsigned int instanceCount;
	unsigned int multiprocessorCount;
	unsigned int copyEngineCount;
	unsigned int decoderCount;
	unsigned int encoderCount;
	unsigned int jpegCount;
	unsigned int ofaCount;
	unsigned long long memorySizeMB;
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
	unsigned int capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;

typedef struct nvmlGpuInstanceInfo_st {
	nvmlDevice_t device; /* the GPU */
	unsigned int id;
	unsigned int profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct nvmlComputeInstancePlacement_st {
	unsigned int start, size; /* in slices of computing */
} nvmlComputeInstancePlacement_t;

typedef struct nvmlComputeInstanceProfileInfo_st {
	unsigned int id;
	unsigned int sliceCount;
	unsigned int instanceCount;
	unsigned int multiprocessorCount;
	unsigned int sharedCopyEngineCount;
	unsigned int sharedDecoderCount;
	unsigned int sharedEncoderCount;
	unsigned int sharedJpegCount;
	unsigned int sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct nvmlComputeInstanceInfo_st {
	nvmlDevice_t device; /* the MIG device, if its function is of the second version */
	nvmlGpuInstance_t gpuInstance;
	unsigned int id;
	unsigned int profileId;
	nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;
