/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/context.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/cuda/coredump.h"
#include "sim/machine/device.h"
#include "sim/cuda/device_heap.h"
#include "sim/cuda/driver.h"
#include "sim/machine/engine.h"
#include "sim/machine/faults.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/heap.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"
#include "sim/machine/segment.h"
#include "sim/cuda/stream.h"

#define CONTEXT_DEPTH	    64
#define CONTEXT_API_VERSION 3020

static struct {
	pthread_mutex_t switching; /* while a context comes or goes; may wait for streams */
	pthread_mutex_t lock;	   /* the list, and the table of primary contexts */
	struct list all;	   /* ever made */
	bool ready;
	uint64_t next_id;
	struct CUctx_st *primary[SETTINGS_DEVICES_MAX];
	unsigned primary_flags[SETTINGS_DEVICES_MAX];
} contexts = {
	.switching = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static _Thread_local struct {
	struct CUctx_st *stack[CONTEXT_DEPTH];
	size_t depth;
} context_thread;

/* ---- which context --------------------------------------------------------------------------- */

static struct CUctx_st *context_top(void)
{
	return context_thread.depth ? context_thread.stack[context_thread.depth - 1] : NULL;
}

static CUresult context_usable(struct CUctx_st *context)
{
	enum faults_kind fault;

	if (atomic_load(&context->state) != CONTEXT_ALIVE)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	fault = faults_at(FAULTS_CALL, context->device);
	if (fault == FAULTS_LOST || device_is_lost(context->device))
		context_fail(context, CUDA_ERROR_UNKNOWN);
	return context_error(context);
}

CUresult context_current(struct CUctx_st **ret_context)
{
	struct CUctx_st *context;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	context = context_top();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = context_usable(context);
	if (r == CUDA_SUCCESS)
		*ret_context = context;
	return r;
}

CUresult context_named(CUcontext named, struct CUctx_st **ret_context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!named)
		return context_current(ret_context);
	if (!handle_is(HANDLE_CONTEXT, named))
		return CUDA_ERROR_INVALID_CONTEXT;
	r = context_usable(named);
	if (r == CUDA_SUCCESS)
		*ret_context = named;
	return r;
}

void context_fail(struct CUctx_st *context, CUresult error)
{
	CUresult none = CUDA_SUCCESS;

	if (error == CUDA_SUCCESS)
		return;
	if (atomic_compare_exchange_strong(&context->error, &none, error))
		driver_log("context %llu on device %d has failed with error %d",
			   (unsigned long long)context->id, context->device, (int)error);
}

CUresult context_drain(struct CUctx_st *context)
{
	return stream_set_synchronize(context->streams);
}

void context_visit(void (*each)(struct CUctx_st *context, void *data), void *data)
{
	pthread_mutex_lock(&contexts.lock);
	if (contexts.ready) {
		list_for_each(link, &contexts.all)
		{
			struct CUctx_st *context = list_entry(link, struct CUctx_st, link);

			if (atomic_load(&context->state) == CONTEXT_ALIVE)
				each(context, data);
		}
	}
	pthread_mutex_unlock(&contexts.lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void context_list(struct CUctx_st *context)
{
	pthread_mutex_lock(&contexts.lock);
	if (!contexts.ready) {
		list_init(&contexts.all);
		contexts.ready = true;
	}
	list_append(&contexts.all, &context->link);
	pthread_mutex_unlock(&contexts.lock);
}

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

	if (device_is_lost(context->device))
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
	pthread_mutex_lock(&contexts.lock);
	context->id = ++contexts.next_id;
	pthread_mutex_unlock(&contexts.lock);
	device_count_context(context->device, 1);
	clock_spend(segment_settings()->context_ns);
	atomic_store(&context->state, CONTEXT_ALIVE);
	return CUDA_SUCCESS;
}

/* Ends all that the context has. `switching` is held. */
static void context_stop(struct CUctx_st *context, enum context_state then)
{
	atomic_store(&context->state, (int)then);
	/* What hangs on demand ends; everything else is waited for. */
	atomic_store(&context->cancel, 1);
	engine_cancel(context->device);
	stream_set_free(context->streams); /* its workers look at the pointer until they end */
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
	pthread_mutex_lock(&contexts.switching);
	context = context_allocate(device);
	if (context)
		r = context_start(context, flags);
	if (context && r != CUDA_SUCCESS) {
		handle_remove(HANDLE_CONTEXT, context);
		atomic_store(&context->state, CONTEXT_DESTROYED);
	}
	pthread_mutex_unlock(&contexts.switching);
	if (r == CUDA_SUCCESS) {
		context->retained = 1;
		*ret_context = context;
	}
	return r;
}

CUresult context_retain_primary(CUdevice device, struct CUctx_st **ret_context)
{
	struct CUctx_st *context;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&contexts.switching);
	context = contexts.primary[device];
	if (!context) {
		context = context_allocate(device);
		if (context)
			context->primary = true;
		contexts.primary[device] = context;
	}
	if (!context)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else if (atomic_load(&context->state) != CONTEXT_ALIVE)
		r = context_start(context, contexts.primary_flags[device]);
	if (r == CUDA_SUCCESS) {
		context->retained++;
		*ret_context = context;
	}
	pthread_mutex_unlock(&contexts.switching);
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
	pthread_mutex_lock(&contexts.switching);
	context = contexts.primary[device];
	if (!context || !context->retained)
		r = CUDA_ERROR_INVALID_CONTEXT;
	else if (--context->retained == 0)
		context_stop(context, CONTEXT_INACTIVE);
	pthread_mutex_unlock(&contexts.switching);
	return r;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	struct CUctx_st *context;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&contexts.switching);
	context = contexts.primary[device];
	if (context && atomic_load(&context->state) == CONTEXT_ALIVE) {
		context->retained = 0;
		context_stop(context, CONTEXT_INACTIVE);
	}
	pthread_mutex_unlock(&contexts.switching);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&contexts.switching);
	contexts.primary_flags[device] = flags;
	if (contexts.primary[device])
		contexts.primary[device]->flags = flags;
	pthread_mutex_unlock(&contexts.switching);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	struct CUctx_st *context;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&contexts.switching);
	context = contexts.primary[device];
	if (flags)
		*flags = contexts.primary_flags[device];
	if (active)
		*active = context && atomic_load(&context->state) == CONTEXT_ALIVE;
	pthread_mutex_unlock(&contexts.switching);
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

/* ---- the thread's stack ---------------------------------------------------------------------- */

static CUresult context_push(struct CUctx_st *context)
{
	if (context_thread.depth == CONTEXT_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context_thread.stack[context_thread.depth++] = context;
	return CUDA_SUCCESS;
}

static bool context_exists(CUcontext context)
{
	return handle_is(HANDLE_CONTEXT, context) &&
	       atomic_load(&context->state) != CONTEXT_DESTROYED;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return context_exists(context) ? context_push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret_context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!context_thread.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (ret_context)
		*ret_context = context_top();
	context_thread.depth--;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (context && !context_exists(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_thread.depth)
		context_thread.depth--;
	return context ? context_push(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ret_context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_context)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_context = context_top();
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	return cuCtxPushCurrent_v2(context);
}

CUresult cuCtxPopCurrent(CUcontext *ret_context)
{
	return cuCtxPopCurrent_v2(ret_context);
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
	pthread_mutex_lock(&contexts.switching);
	if (atomic_load(&context->state) == CONTEXT_ALIVE) {
		context_stop(context, CONTEXT_DESTROYED);
		handle_remove(HANDLE_CONTEXT, context);
	} else {
		r = CUDA_ERROR_INVALID_CONTEXT;
	}
	pthread_mutex_unlock(&contexts.switching);
	if (context_top() == context)
		context_thread.depth--;
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
	pthread_mutex_lock(&contexts.switching);
	context->retained++;
	pthread_mutex_unlock(&contexts.switching);
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
	pthread_mutex_lock(&contexts.switching);
	last = --context->retained == 0;
	pthread_mutex_unlock(&contexts.switching);
	return last ? cuCtxDestroy_v2(context) : CUDA_SUCCESS;
}
