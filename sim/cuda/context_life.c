/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How contexts come and go: with them their memory, streams, modules and dumps.
 */
#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "sim/machine/mps.h"
#include "sim/machine/segment.h"
#include "sim/cuda/context.h"
#include "sim/cuda/coredump.h"
#include "sim/cuda/device_heap.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/heap.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream_set.h"

#define CONTEXT_API_VERSION 3020

static struct {
	pthread_mutex_t switching; /* while a context comes or goes; may wait for streams */
	struct CUctx_st *primary[SETTINGS_DEVICES_MAX];
	unsigned primary_flags[SETTINGS_DEVICES_MAX];
} lives = {
	.switching = PTHREAD_MUTEX_INITIALIZER,
};

/* ---- life ------------------------------------------------------------------------------------ */

static struct CUctx_st *context_allocate(CUdevice device)
{
	struct CUctx_st *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->device = device;
	context->api_version = CONTEXT_API_VERSION;
	list_init(&context->modules);
	atomic_store(&context->state, CONTEXT_INACTIVE);
	if (handle_add(HANDLE_CONTEXT, context) < 0) {
		free(context);
		return NULL;
	}
	context_list(context);
	return context;
}

static void limits_reset(struct CUctx_st *context)
{
	static const size_t defaults[CU_LIMIT_MAX] = {
		[CU_LIMIT_STACK_SIZE] = 1024,
		[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
		[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
		[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128,
	};

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		atomic_store(&context->limits[i], defaults[i]);
}

/* Gives an allocated context its memory and streams. `switching` is held. */
static CUresult context_start(struct CUctx_st *context, unsigned flags)
{
	uint64_t bytes = segment_settings()->context_bytes;

	if (device_is_lost(context->device) || !mps_may_begin(context->device))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (device_take(context->device, bytes) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->heap = heap_new(context->device);
	context->streams = stream_set_new(context);
	if (!context->heap || !context->streams || !coredump_begin(context)) {
		stream_set_free(take(context->streams));
		heap_free(take(context->heap));
		device_give(context->device, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	context->flags = flags;
	atomic_store(&context->error, CUDA_SUCCESS);
	atomic_store(&context->cancel, 0);
	atomic_store(&context->peers, 1ull << context->device);
	atomic_store(&context->device_heap, 0);
	atomic_store(&context->cache, CU_FUNC_CACHE_PREFER_NONE);
	limits_reset(context);
	context_begin_life(context);
	device_count_context(context->device, 1);
	clock_spend(segment_settings()->context_ns);
	atomic_store(&context->state, CONTEXT_ALIVE);
	return CUDA_SUCCESS;
}

/* Ends everything that the context has. `switching` is held. */
static void context_stop(struct CUctx_st *context, enum context_state then)
{
	atomic_store(&context->state, (int)then);
	/* Kernels that hang on demand end; all other work is waited for. */
	atomic_store(&context->cancel, 1);
	engine_cancel(context->device);
	stream_set_free(context->streams); /* its workers use the pointer until they end */
	context->streams = NULL;
	module_context_ended(context);
	memory_context_ended(context);
	device_heap_ended(context);
	heap_free(take(context->heap));
	coredump_end(context);
	device_count_context(context->device, -1);
	device_give(context->device, segment_settings()->context_bytes);
}

static CUresult context_new(CUdevice device, unsigned flags, struct CUctx_st **ret_context)
{
	struct CUctx_st *context;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lives.switching);
	context = context_allocate(device);
	if (context)
		r = context_start(context, flags);
	if (context && r != CUDA_SUCCESS) {
		handle_remove(HANDLE_CONTEXT, context);
		atomic_store(&context->state, CONTEXT_DESTROYED);
	}
	pthread_mutex_unlock(&lives.switching);
	if (r == CUDA_SUCCESS) {
		context->retained = 1;
		*ret_context = context;
	}
	return r;
}

static CUresult context_retain_primary(CUdevice device, struct CUctx_st **ret_context)
{
	struct CUctx_st *context;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&lives.switching);
	context = lives.primary[device];
	if (!context) {
		context = context_allocate(device);
		if (context)
			context->primary = true;
		lives.primary[device] = context;
	}
	if (!context)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else if (atomic_load(&context->state) != CONTEXT_ALIVE)
		r = context_start(context, lives.primary_flags[device]);
	if (r == CUDA_SUCCESS) {
		context->retained++;
		*ret_context = context;
	}
	pthread_mutex_unlock(&lives.switching);
	return r;
}

/* ---- primary contexts ------------------------------------------------------------------------ */

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_context)
		return CUDA_ERROR_INVALID_VALUE;
	return context_retain_primary(device, ret_context);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	struct CUctx_st *context;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lives.switching);
	context = lives.primary[device];
	if (!context || !context->retained)
		r = CUDA_ERROR_INVALID_CONTEXT;
	else if (--context->retained == 0)
		context_stop(context, CONTEXT_INACTIVE);
	pthread_mutex_unlock(&lives.switching);
	return r;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	struct CUctx_st *context;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lives.switching);
	context = lives.primary[device];
	if (context && atomic_load(&context->state) == CONTEXT_ALIVE) {
		context->retained = 0;
		context_stop(context, CONTEXT_INACTIVE);
	}
	pthread_mutex_unlock(&lives.switching);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lives.switching);
	lives.primary_flags[device] = flags;
	if (lives.primary[device])
		lives.primary[device]->flags = flags;
	pthread_mutex_unlock(&lives.switching);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	struct CUctx_st *context;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lives.switching);
	context = lives.primary[device];
	if (flags)
		*flags = lives.primary_flags[device];
	if (active)
		*active = context && atomic_load(&context->state) == CONTEXT_ALIVE;
	pthread_mutex_unlock(&lives.switching);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return cuDevicePrimaryCtxReset_v2(device);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

/* ---- a program's own contexts ---------------------------------------------------------------- */

static CUresult context_create(CUcontext *ret_context, unsigned flags, CUdevice device)
{
	struct CUctx_st *context;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_context)
		return CUDA_ERROR_INVALID_VALUE;
	r = context_new(device, flags, &context);
	if (r != CUDA_SUCCESS)
		return r;
	r = context_push(context);
	if (r == CUDA_SUCCESS)
		*ret_context = context;
	return r;
}

CUresult cuCtxCreate_v2(CUcontext *ret_context, unsigned flags, CUdevice device)
{
	return context_create(ret_context, flags, device);
}

CUresult cuCtxCreate(CUcontext *ret_context, unsigned flags, CUdevice device)
{
	return context_create(ret_context, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext *ret_context, CUexecAffinityParam *affinity, int n_affinity,
			unsigned flags, CUdevice device)
{
	if (n_affinity < 0 || (n_affinity > 0 && !affinity))
		return CUDA_ERROR_INVALID_VALUE;
	if (n_affinity > 0)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return context_create(ret_context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *ret_context, CUctxCreateParams *parameters, unsigned flags,
			CUdevice device)
{
	if (parameters && parameters->cigParams)
		return driver_missing("cuCtxCreate_v4 with cigParams");
	if (!parameters)
		return context_create(ret_context, flags, device);
	return cuCtxCreate_v3(ret_context, parameters->execAffinityParams,
			      parameters->numExecAffinityParams, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!context_exists(context) || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lives.switching);
	if (atomic_load(&context->state) == CONTEXT_ALIVE) {
		context_stop(context, CONTEXT_DESTROYED);
		handle_remove(HANDLE_CONTEXT, context);
	} else {
		r = CUDA_ERROR_INVALID_CONTEXT;
	}
	pthread_mutex_unlock(&lives.switching);
	context_pop(context);
	return r;
}

CUresult cuCtxDestroy(CUcontext context)
{
	return cuCtxDestroy_v2(context);
}

CUresult cuCtxAttach(CUcontext *ret_context, unsigned flags)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_context || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lives.switching);
	context->retained++;
	pthread_mutex_unlock(&lives.switching);
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context)
{
	bool last;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!context_exists(context) || context->primary || context != context_top())
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lives.switching);
	last = --context->retained == 0;
	pthread_mutex_unlock(&lives.switching);
	return last ? cuCtxDestroy_v2(context) : CUDA_SUCCESS;
}
