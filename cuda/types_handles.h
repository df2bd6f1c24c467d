/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scalars and opaque handles of the driver API.
 *
 * The pointed-to structs belong to whoever implements the driver; a caller only carries the
 * pointers. CUdeviceptr_v1 is what the functions of before CUDA 3.2 take: 32 bits.
 *
 * Layouts and values are those of CUDA 13.0 on 64-bit Linux; `make abi-check` compares them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

/* An address in the one space that host and devices share; never to be followed on the host. */
typedef unsigned long long CUdeviceptr_v2;
typedef CUdeviceptr_v2 CUdeviceptr;

/* An ordinal among the devices that the process can see. */
typedef int CUdevice_v1;
typedef CUdevice_v1 CUdevice;

/* Handles. The structs are defined by the driver, real or simulated. */
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef unsigned long long CUtexObject_v1;
typedef CUtexObject_v1 CUtexObject;
typedef unsigned long long CUsurfObject_v1;
typedef CUsurfObject_v1 CUsurfObject;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUuserObject_st *CUuserObject;

/* Plain numbers that serve as handles. */
typedef cuuint64_t CUgraphConditionalHandle;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;
typedef struct CUasyncCallbackEntry_st *CUasyncCallbackHandle;
typedef struct CUgreenCtx_st *CUgreenCtx;

/* Sixteen bytes that name a device. */
typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;

typedef struct CUlinkState_st *CUlinkState;
typedef unsigned long long CUmemGenericAllocationHandle_v1;
typedef CUmemGenericAllocationHandle_v1 CUmemGenericAllocationHandle;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct CUlogsCallbackEntry_st *CUlogsCallbackHandle;
typedef unsigned int CUlogIterator;

/* Of before CUDA 3.2. */
typedef unsigned int CUdeviceptr_v1;
typedef struct CUeglStreamConnection_st *CUeglStreamConnection;

/* Streams that exist without having been created. */
#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

/* Stand in for a device where a location may be the host, or where there is none. */
#define CU_DEVICE_CPU	  ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)
