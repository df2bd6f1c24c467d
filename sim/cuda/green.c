/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By NVIDIA's documentation of green contexts; see the top of resource.c.
 */
#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/event.h"
#include "sim/cuda/green_types.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/resource.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stream_core.h"
#include "sim/cuda/stream_set.h"

/* The latest one. None is freed, as threads may have the handle of one that was destroyed. */
static struct CUgreenCtx_st *_Atomic last_made;

static void keep(struct CUgreenCtx_st *green)
{
	green->before = atomic_load(&last_made);
	while (!atomic_compare_exchange_weak(&last_made, &green->before, green))
		;
}

/* INVALID_CONTEXT for a handle of no green context, or of one whose primary context was reset. */
static CUresult find(CUgreenCtx handle)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!handle_is(HANDLE_GREEN, handle) || !context_primary(handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_error(handle->primary);
}

static CUresult make(struct CUgreenCtx_st *green, struct CUctx_st *primary)
{
	struct CUctx_st *named = calloc(1, sizeof(*named));

	if (!named)
		return CUDA_ERROR_OUT_OF_MEMORY;
	named->device = primary->device;
	named->primary = true; /* so that it cannot be destroyed by this handle */
	named->green = green;
	atomic_store(&named->state, CONTEXT_ALIVE);
	green->named = named;
	green->primary = primary;
	green->life = primary->id;
	context_begin_life(named);
	green->id = named->id;
	green->streams = stream_set_new_green(primary, green);
	if (green->streams && handle_add(HANDLE_CONTEXT, named) == 0) {
		if (handle_add(HANDLE_GREEN, green) == 0)
			return CUDA_SUCCESS;
		handle_remove(HANDLE_CONTEXT, named);
	}
	if (green->streams)
		stream_set_retire(green->streams);
	free(named);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGreenCtxCreate(CUgreenCtx *ret_green, CUdevResourceDesc desc, CUdevice device,
			  unsigned flags)
{
	struct CUgreenCtx_st *green;
	struct CUctx_st *primary;
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_green || flags != CU_GREEN_CTX_DEFAULT_STREAM ||
	    !handle_is(HANDLE_RESOURCE_DESC, desc) || desc->has.device != device)
		return CUDA_ERROR_INVALID_VALUE;
	green = calloc(1, sizeof(*green));
	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	green->has = desc->has;
	r = cuDevicePrimaryCtxRetain(&primary, device);
	if (r == CUDA_SUCCESS) {
		r = make(green, primary);
		if (r != CUDA_SUCCESS)
			best_effort(cuDevicePrimaryCtxRelease_v2(device));
	}
	if (r != CUDA_SUCCESS) {
		free(green);
		return r;
	}
	keep(green);
	*ret_green = green;
	return CUDA_SUCCESS;
}

/* Streams that a program has made in it go on until they are destroyed. */
CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!handle_is(HANDLE_GREEN, green))
		return CUDA_ERROR_INVALID_CONTEXT;
	handle_remove(HANDLE_GREEN, green);
	handle_remove(HANDLE_CONTEXT, green->named);
	atomic_store(&green->named->state, CONTEXT_DESTROYED);
	context_pop(green->named);
	if (!context_primary(green))
		return CUDA_SUCCESS; /* a reset has ended it, with everything that retained it */
	stream_set_retire(green->streams);
	return cuDevicePrimaryCtxRelease_v2(green->primary->device);
}

CUresult cuCtxFromGreenCtx(CUcontext *ret_context, CUgreenCtx green)
{
	CUresult r = find(green);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_context)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_context = green->named;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *ret_resource,
				  CUdevResourceType type)
{
	CUresult r = find(green);

	return r == CUDA_SUCCESS ? resource_show(&green->has, type, ret_resource) : r;
}

CUresult cuGreenCtxGetId(CUgreenCtx green, unsigned long long *ret_id)
{
	CUresult r = find(green);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_id)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_id = green->id;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *ret_stream, CUgreenCtx green, unsigned flags,
				int priority)
{
	CUresult r = find(green);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_make(green->streams, flags, priority, ret_stream);
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *ret_green)
{
	struct CUstream_st *stream;
	CUresult r = stream_find(handle, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_green)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_green = stream->set->green;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
	CUresult r = find(green);

	return r == CUDA_SUCCESS ? event_record_set(green->streams, event) : r;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
	CUresult r = find(green);

	return r == CUDA_SUCCESS ? event_wait_set(green->streams, event) : r;
}
