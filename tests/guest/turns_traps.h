/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs of turns_traps.def: the driver, devices, and a word that both sides see.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cuda/prototypes.h"
#include "tests/guest/must.h"

#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuDeviceGet)                                                                             \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxSetCurrent)                                                                         \
	X(cuCtxSynchronize)                                                                        \
	X(cuModuleLoadData)                                                                        \
	X(cuModuleGetFunction)                                                                     \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemsetD8_v2)                                                                           \
	X(cuIpcGetMemHandle)                                                                       \
	X(cuIpcOpenMemHandle_v2)                                                                   \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemHostRegister_v2)                                                                    \
	X(cuMemHostGetDevicePointer_v2)                                                            \
	X(cuStreamCreate)                                                                          \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamBeginCapture_v2)                                                                 \
	X(cuStreamEndCapture)                                                                      \
	X(cuGraphDestroy)                                                                          \
	X(cuGraphInstantiateWithFlags)                                                             \
	X(cuGraphLaunch)                                                                           \
	X(cuLaunchHostFunc)                                                                        \
	X(cuStreamWaitValue32_v2)                                                                  \
	X(cuStreamWriteValue32_v2)                                                                 \
	X(cuStreamAddCallback)                                                                     \
	X(cuStreamQuery)                                                                           \
	X(cuEventCreate)                                                                           \
	X(cuEventRecord)                                                                           \
	X(cuEventSynchronize)                                                                      \
	X(cuMemcpyDtoH_v2)                                                                         \
	X(cuGraphCreate)                                                                           \
	X(cuGraphAddHostNode)                                                                      \
	X(cuGraphAddBatchMemOpNode)                                                                \
	X(cuCtxDestroy_v2)                                                                         \
	X(cuMemFree_v2)                                                                            \
	X(cuMemAllocAsync)                                                                         \
	X(cuMemFreeAsync)                                                                          \
	X(cuMemcpyHtoDAsync_v2)                                                                    \
	X(cuStreamCreateWithPriority)                                                              \
	X(cuStreamDestroy_v2)                                                                      \
	X(cuStreamWaitEvent)                                                                       \
	X(cuIpcGetEventHandle)                                                                     \
	X(cuIpcOpenEventHandle)                                                                    \
	X(cuGraphExecDestroy)                                                                      \
	X(cuGraphAddChildGraphNode)                                                                \
	X(cuGraphAddKernelNode)                                                                    \
	X(cuGraphAddNode)                                                                          \
	X(cuGraphConditionalHandleCreate)                                                          \
	X(cuLaunchCooperativeKernel)                                                               \
	X(cuStreamBatchMemOp_v2)                                                                   \
	X(cuEventQuery)                                                                            \
	X(cuGraphAddMemAllocNode)                                                                  \
	X(cuGraphAddMemFreeNode)                                                                   \
	X(cuMemcpyHtoD_v2)                                                                         \
	X(cuMemcpyDtoHAsync_v2)                                                                    \
	X(cuMemHostUnregister)                                                                     \
	X(cuLaunchHostFunc_ptsz)                                                                   \
	X(cuLaunchKernel_ptsz)                                                                     \
	X(cuStreamSynchronize_ptsz)                                                                \
	X(cuGraphAddEventWaitNode)                                                                 \
	X(cuGraphAddEventRecordNode)                                                               \
	X(cuDeviceGetDevResource)                                                                  \
	X(cuDevSmResourceSplitByCount)                                                             \
	X(cuDevResourceGenerateDesc)                                                               \
	X(cuGreenCtxCreate)                                                                        \
	X(cuCtxFromGreenCtx)                                                                       \
	X(cuGreenCtxStreamCreate)                                                                  \
	X(cuMemAllocManaged)                                                                       \
	X(cuMemAddressReserve)                                                                     \
	X(cuMemAddressFree)                                                                        \
	X(cuMemCreate)                                                                             \
	X(cuMemMap)                                                                                \
	X(cuMemSetAccess)                                                                          \
	X(cuMemUnmap)                                                                              \
	X(cuMemRelease)                                                                            \
	X(cuMemsetD8Async)                                                                         \
	X(cuMemPoolTrimTo)                                                                         \
	X(cuDeviceGetDefaultMemPool)                                                               \
	X(cuLaunchKernel)

enum { DEVICES = 2, STREAMS = 2 };

struct traps {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	struct device {
		CUcontext context;
		CUfunction wait, set, spend, meet;
		CUstream stream[STREAMS];
	} device[DEVICES];
	_Atomic(uint32_t) *word; /* mapped host memory, ... */
	CUdeviceptr address;	 /* ... as the devices see it */
	unsigned random;
	unsigned long slow;
	pthread_mutex_t lock;
	atomic_uint round, launched;
};

extern struct traps g;

/* Opens the driver, so many devices and the word. */
void traps_start(int devices);

void traps_launch(int device, int stream, CUfunction kernel, uint32_t value);
/* In the first device's first stream, and with that one of the words. */
void traps_launch_on(CUfunction kernel, unsigned word, uint32_t value);
/* One more context of a device, with a stream. */
struct traps_place {
	CUcontext context;
	CUfunction wait, set, spend;
	CUstream stream;
	CUevent event;
};

void traps_open(struct traps_place *ret, int device, int priority);
/* The kernels, in the current context. */
void traps_load(struct traps_place *place);
void traps_launch_at(const struct traps_place *place, CUfunction kernel, uint32_t value);
void traps_pause(void); /* up to 5 ms */
void traps_rest_us(uint64_t us);
CUevent traps_event(void); /* in the current context */
/* A kernel of a program of one's own; loads that once, into the current context. */
CUfunction traps_kernel_of(CUmodule *module, const char *text, const char *name);
/* Of the device's memory, cleared; no other stream waits for that. */
CUdeviceptr traps_new_words(void);
void traps_thread(void *(*work)(void *), pthread_t *ret_thread);
void traps_use_device(void); /* the first, in this thread */
/* Waits until a thread has done `helper`, which all that is on the device waits for. */
void traps_finish(void *(*helper)(void *));

/* A kernel's node, but for the kernel. */
extern const CUDA_KERNEL_NODE_PARAMS_v1 traps_one_thread;

/* A thread whose own work is done first, and that then writes the round into the word. */
void *traps_launch_and_say(void *nothing);

/* Another process of the tenant, which runs that trap for ever and finds the memory of `fd` by
 * METE_TRAP_WORD; and the word in that memory. */
void traps_start_other(const char *trap, int fd);
void traps_share_word(int fd);
/* A page for several processes, and the words in it, which the devices see as well. */
int traps_new_page(void);
void traps_map_page(int fd);

#define TRAP(name, devices) void trap_##name(void);
#include "tests/guest/turns_traps.def"
#undef TRAP

/* The path at which programs that wait for each other meet. */
const char *traps_meeting_place(void);
/* A page of the host's memory that all have who meet there, as the device sees it. */
CUdeviceptr traps_map_words(void **ret_memory);
/* A kernel of so long, on the first device. */
void traps_launch_in(CUstream stream, uint32_t ns);
/* The word has the round in so many ms; returns when the context has ended its work. */
void traps_finish_after(unsigned ms);

/* Of programs that wait for each other: one that ends keeps the other one waiting no more. */
void traps_part(void);
void traps_part_ring(void);
void traps_part_ranks(void);
void traps_part_credit(void);
