/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and contexts: attributes, limits, affinity, partial devices, how symbols are asked for.
 *
 * Layouts and values are those of CUDA 13.0 on 64-bit Linux; `make abi-check` compares them.
 */
#pragma once

#include "cuda/types_handles.h"

/* What cuDeviceGetAttribute can be asked; the rows are in cuda/attributes.def. */
typedef enum CUdevice_attribute_enum {
#define CUDA_ATTRIBUTE(name, number)	   CU_DEVICE_ATTRIBUTE_##name = number,
#define CUDA_ATTRIBUTE_ALIAS(name, number) CU_DEVICE_ATTRIBUTE_##name = number,
#include "cuda/attributes.def"
#undef CUDA_ATTRIBUTE
	CU_DEVICE_ATTRIBUTE_MAX = 148,
} CUdevice_attribute;

/* Flags of a context. */
typedef enum CUctx_flags_enum {
	CU_CTX_SCHED_AUTO = 0x0,
	CU_CTX_SCHED_SPIN = 0x1,
	CU_CTX_SCHED_YIELD = 0x2,
	CU_CTX_SCHED_BLOCKING_SYNC = 0x4,
	CU_CTX_BLOCKING_SYNC = 0x4,
	CU_CTX_SCHED_MASK = 0x7,
	CU_CTX_MAP_HOST = 0x8,
	CU_CTX_LMEM_RESIZE_TO_MAX = 0x10,
	CU_CTX_COREDUMP_ENABLE = 0x20,
	CU_CTX_USER_COREDUMP_ENABLE = 0x40,
	CU_CTX_SYNC_MEMOPS = 0x80,
	CU_CTX_FLAGS_MASK = 0xff,
} CUctx_flags;

/* Answer of cuDeviceGetProperties, an ancestor of the attributes. */
typedef struct CUdevprop_st {
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int sharedMemPerBlock;
	int totalConstantMemory;
	int SIMDWidth;
	int memPitch;
	int regsPerBlock;
	int clockRate;
	int textureAlign;
} CUdevprop_v1;
typedef CUdevprop_v1 CUdevprop;

/* Answer of CU_DEVICE_ATTRIBUTE_COMPUTE_MODE. */
typedef enum CUcomputemode_enum {
	CU_COMPUTEMODE_DEFAULT = 0,
	CU_COMPUTEMODE_PROHIBITED = 2,
	CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} CUcomputemode;

/* Limits of a context. */
typedef enum CUlimit_enum {
	CU_LIMIT_STACK_SIZE = 0x0,
	CU_LIMIT_PRINTF_FIFO_SIZE = 0x1,
	CU_LIMIT_MALLOC_HEAP_SIZE = 0x2,
	CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 0x3,
	CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 0x4,
	CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 0x5,
	CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x6,
	CU_LIMIT_SHMEM_SIZE = 0x7,
	CU_LIMIT_CIG_ENABLED = 0x8,
	CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 0x9,
	CU_LIMIT_MAX = 0xa,
} CUlimit;

/* cuGetProcAddress: which default stream the caller means, and what became of the request. */
typedef enum CUdriverProcAddress_flags_enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0x0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 0x1,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 0x2,
} CUdriverProcAddress_flags;

typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

/* Contexts on a part of the multiprocessors (MPS). */
typedef enum CUexecAffinityType_enum {
	CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0,
	CU_EXEC_AFFINITY_TYPE_MAX = 1,
} CUexecAffinityType;

typedef struct CUexecAffinitySmCount_st {
	unsigned int val;
} CUexecAffinitySmCount_v1;
typedef CUexecAffinitySmCount_v1 CUexecAffinitySmCount;

typedef struct CUexecAffinityParam_st {
	CUexecAffinityType type;
	union {
		CUexecAffinitySmCount smCount;
	} param;
} CUexecAffinityParam_v1;
typedef CUexecAffinityParam_v1 CUexecAffinityParam;

/* Contexts shared with a graphics API. */
typedef enum CUcigDataType_enum {
	CIG_DATA_TYPE_D3D12_COMMAND_QUEUE = 0x1,
	CIG_DATA_TYPE_NV_BLOB = 0x2,
} CUcigDataType;

typedef struct CUctxCigParam_st {
	CUcigDataType sharedDataType;
	void *sharedData;
} CUctxCigParam;

/* What cuCtxCreate_v4 takes. */
typedef struct CUctxCreateParams_st {
	CUexecAffinityParam *execAffinityParams;
	int numExecAffinityParams;
	CUctxCigParam *cigParams;
} CUctxCreateParams;

/* What cuDeviceGetP2PAttribute can be asked. */
typedef enum CUdevice_P2PAttribute_enum {
	CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 0x1,
	CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 0x2,
	CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 0x3,
	CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED = 0x4,
	CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 0x4,
	CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 0x5,
} CUdevice_P2PAttribute;

/* Atomics across a link: which operations, how. */
typedef enum CUatomicOperation_enum {
	CU_ATOMIC_OPERATION_INTEGER_ADD = 0,
	CU_ATOMIC_OPERATION_INTEGER_MIN = 1,
	CU_ATOMIC_OPERATION_INTEGER_MAX = 2,
	CU_ATOMIC_OPERATION_INTEGER_INCREMENT = 3,
	CU_ATOMIC_OPERATION_INTEGER_DECREMENT = 4,
	CU_ATOMIC_OPERATION_AND = 5,
	CU_ATOMIC_OPERATION_OR = 6,
	CU_ATOMIC_OPERATION_XOR = 7,
	CU_ATOMIC_OPERATION_EXCHANGE = 8,
	CU_ATOMIC_OPERATION_CAS = 9,
	CU_ATOMIC_OPERATION_FLOAT_ADD = 10,
	CU_ATOMIC_OPERATION_FLOAT_MIN = 11,
	CU_ATOMIC_OPERATION_FLOAT_MAX = 12,
	CU_ATOMIC_OPERATION_MAX = 13,
} CUatomicOperation;

typedef enum CUatomicOperationCapability_enum {
	CU_ATOMIC_CAPABILITY_SIGNED = 0x1,
	CU_ATOMIC_CAPABILITY_UNSIGNED = 0x2,
	CU_ATOMIC_CAPABILITY_REDUCTION = 0x4,
	CU_ATOMIC_CAPABILITY_SCALAR_32 = 0x8,
	CU_ATOMIC_CAPABILITY_SCALAR_64 = 0x10,
	CU_ATOMIC_CAPABILITY_SCALAR_128 = 0x20,
	CU_ATOMIC_CAPABILITY_VECTOR_32x4 = 0x40,
} CUatomicOperationCapability;

/* Writes of other PCIe devices into device memory. */
typedef enum CUflushGPUDirectRDMAWritesOptions_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST = 0x1,
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS = 0x2,
} CUflushGPUDirectRDMAWritesOptions;

typedef enum CUGPUDirectRDMAWritesOrdering_enum {
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE = 0,
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100,
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES = 200,
} CUGPUDirectRDMAWritesOrdering;

typedef enum CUflushGPUDirectRDMAWritesScope_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100,
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES = 200,
} CUflushGPUDirectRDMAWritesScope;

typedef enum CUflushGPUDirectRDMAWritesTarget_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX = 0,
} CUflushGPUDirectRDMAWritesTarget;

/* Answer of CU_DEVICE_ATTRIBUTE_NUMA_CONFIG. */
typedef enum CUdeviceNumaConfig_enum {
	CU_DEVICE_NUMA_CONFIG_NONE = 0,
	CU_DEVICE_NUMA_CONFIG_NUMA_NODE = 1,
} CUdeviceNumaConfig;

/* Answer of cuModuleGetLoadingMode. */
typedef enum CUmoduleLoadingMode_enum {
	CU_MODULE_EAGER_LOADING = 0x1,
	CU_MODULE_LAZY_LOADING = 0x2,
} CUmoduleLoadingMode;

/* Green contexts: a share of the multiprocessors. */
typedef enum {
	CU_GREEN_CTX_DEFAULT_STREAM = 0x1,
} CUgreenCtxCreate_flags;

typedef enum {
	CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING = 0x1,
	CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE = 0x2,
} CUdevSmResourceSplit_flags;

typedef enum {
	CU_DEV_RESOURCE_TYPE_INVALID = 0,
	CU_DEV_RESOURCE_TYPE_SM = 1,
	CU_DEV_RESOURCE_TYPE_MAX = 2,
} CUdevResourceType;

typedef struct CUdevSmResource_st {
	unsigned int smCount;
	unsigned int minSmPartitionSize;
	unsigned int smCoscheduledAlignment;
} CUdevSmResource;

typedef struct CUdevResource_st {
	CUdevResourceType type;
	unsigned char _internal_padding[92];
	union {
		CUdevSmResource sm;
		unsigned char _oversize[48];
	};
} CUdevResource_v1;
typedef CUdevResource_v1 CUdevResource;
