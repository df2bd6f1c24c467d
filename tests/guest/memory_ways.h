/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of memory_load.c: the ways to device memory (memory_ways.c), what threads do with them
 * (memory_threads.c), what graphs leave (memory_graphs.c), and what all of them share.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "tests/guest/must.h"

#define MIB (1ull << 20)

enum {
	MOST = 65536,
	FILL = 3000,	   /* pieces of one size; the smallest ones do not come to the limit */
	FILL_GRAPHS = 300, /* each is searched among all */
};

/* The guest's functions, and one of the driver's. */
#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuDeviceGet)                                                                             \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxDestroy_v2)                                                                         \
	X(cuCtxSetCurrent)                                                                         \
	X(cuCtxSynchronize)                                                                        \
	X(cuMemGetInfo_v2)                                                                         \
	X(cuDeviceTotalMem_v2)                                                                     \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemAllocPitch_v2)                                                                      \
	X(cuMemAllocManaged)                                                                       \
	X(cuMemFree_v2)                                                                            \
	X(cuMemAllocAsync)                                                                         \
	X(cuMemAllocFromPoolAsync)                                                                 \
	X(cuMemFreeAsync)                                                                          \
	X(cuMemPoolCreate)                                                                         \
	X(cuMemPoolDestroy)                                                                        \
	X(cuMemPoolTrimTo)                                                                         \
	X(cuMemPoolSetAttribute)                                                                   \
	X(cuDeviceGetDefaultMemPool)                                                               \
	X(cuDeviceSetMemPool)                                                                      \
	X(cuMemCreate)                                                                             \
	X(cuMemRelease)                                                                            \
	X(cuMemAddressReserve)                                                                     \
	X(cuMemAddressFree)                                                                        \
	X(cuMemMap)                                                                                \
	X(cuMemUnmap)                                                                              \
	X(cuMemRetainAllocationHandle)                                                             \
	X(cuArrayCreate_v2)                                                                        \
	X(cuArray3DCreate_v2)                                                                      \
	X(cuArrayDestroy)                                                                          \
	X(cuMipmappedArrayCreate)                                                                  \
	X(cuMipmappedArrayDestroy)                                                                 \
	X(cuGraphCreate)                                                                           \
	X(cuGraphDestroy)                                                                          \
	X(cuGraphAddMemAllocNode)                                                                  \
	X(cuGraphAddMemFreeNode)                                                                   \
	X(cuGraphInstantiateWithFlags)                                                             \
	X(cuGraphLaunch)                                                                           \
	X(cuGraphUpload)                                                                           \
	X(cuGraphExecDestroy)                                                                      \
	X(cuDeviceGraphMemTrim)                                                                    \
	X(cuStreamCreate)                                                                          \
	X(cuStreamDestroy_v2)                                                                      \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamWaitValue32_v2)                                                                  \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemHostGetDevicePointer_v2)                                                            \
	X(cuMemFreeHost)                                                                           \
	X(cuMemsetD8Async)                                                                         \
	X(cuModuleLoadData)

struct load {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	api_fn_cuMemGetInfo_v2 *truth;
	CUdevice device;
	CUcontext context;
	CUmemoryPool pool;
	size_t limit, before; /* what others of the device held when we began */
	size_t free_at_start;
};

extern struct load g;
extern const char module_of_nothing[]; /* a module with a kernel that does nothing */

/* One piece of memory. */
struct piece {
	CUdeviceptr address;
	size_t bytes;
	CUmemGenericAllocationHandle handle;
	CUarray array;
	CUmipmappedArray mipmap;
	CUgraph graph;
	CUgraphExec exec;
};

/* `cautious`: the truth may be less than the charge (managed memory need not be on the device; what
 * of an array is padding is not known), so that the room that is left proves nothing. */
struct way {
	const char *name;
	CUresult (*obtain)(struct piece *p);
	void (*give)(struct piece *p);
	bool cautious;
	size_t most; /* pieces of one size */
};

extern const struct way ways[];
extern const size_t ways_count;

CUresult take_linear(struct piece *p);
void give_linear(struct piece *p);
CUresult take_managed(struct piece *p);
CUresult take_array(struct piece *p);
CUresult take_async(struct piece *p);
void give_async(struct piece *p);

extern struct piece pieces[MOST];

/* The device's real memory in use beyond that when we began. */
size_t held(void);

/* Fails if that is more than the limit. */
void check_limit(const char *when);

/* Waits for all work, and has pools give back what they do not need. */
void settle(void);

/* Everything is free again. The daemon measures after a context is gone, which takes a moment. */
void all_free(const char *after);

/* On a line with a number of bytes so many threads take pieces of that size until they are refused:
 * "full"; on the next line everything goes: "empty". */
void racing(unsigned threads);

/* Random histories of all ways, in so many threads. */
void mixing(unsigned threads);

/* Memory of graphs outlives them, and is charged for as long (memory_graphs.c). */
void graphs_outlived(void);

/* Contexts come and go beside memory in so many threads, until there is a line. */
void making(unsigned threads);

/* Memory of the device's current pool in so many threads, while another exchanges that pool. */
void exchanging(unsigned threads);

/* A thread with the least stack that there is loads, allocates, launches and frees. */
void least_stack(void);
