/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of sim/cuda/stream.h, and the driver's functions of streams.
 */
#include "sim/cuda/stream.h"

#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/stream_core.h"

enum {
	PRIORITY_LEAST = 0,
	PRIORITY_GREATEST = -5,
};

CUresult stream_find(CUstream handle, struct CUstream_st **ret_stream)
{
	struct CUstream_st *stream = handle;
	bool fixed = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
	CUresult result;

	if (fixed) {
		struct CUctx_st *context;
		bool thread = handle ? handle == CU_STREAM_PER_THREAD : driver_is_per_thread();

		result = context_current(&context);
		if (result != CUDA_SUCCESS)
			return result;
		stream = thread ? stream_of_thread(context_streams(context, NULL))
				: stream_legacy(context_streams(context, NULL));
		if (!stream)
			return CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		result = driver_ready();
		if (result != CUDA_SUCCESS)
			return result;
		if (!handle_is(HANDLE_STREAM, handle))
			return CUDA_ERROR_INVALID_HANDLE;
		result = context_error(stream->context);
		if (result != CUDA_SUCCESS)
			return result;
	}
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

CUresult stream_submit(struct CUstream_st *stream, struct op *op)
{
	CUresult result;

	if (stream_capturing(stream))
		return capture_add(stream, op);
	result = capture_check_legacy(stream);
	if (result == CUDA_SUCCESS)
		result = context_error(stream->context);
	if (result != CUDA_SUCCESS) {
		op_done(op);
		return result;
	}
	return stream_enqueue(stream, op, NULL);
}

CUresult stream_run(struct CUstream_st *stream, struct op *op)
{
	struct stream_mark mark = {0};
	CUresult result = capture_forbid(stream);

	if (result == CUDA_SUCCESS)
		result = capture_check_legacy(stream);
	if (result == CUDA_SUCCESS)
		result = stream_capture_check();
	if (result == CUDA_SUCCESS)
		result = context_error(stream->context);
	if (result != CUDA_SUCCESS) {
		op_done(op);
		return result;
	}
	result = stream_enqueue(stream, op, &mark);
	if (result != CUDA_SUCCESS)
		return result;
	best_effort(stream_mark_wait(&mark, NULL));
	stream_mark_drop(&mark);
	return context_error(stream->context);
}

CUresult stream_synchronize(struct CUstream_st *stream)
{
	struct stream_mark mark;
	CUresult result = capture_forbid(stream);

	if (result == CUDA_SUCCESS)
		result = capture_check_legacy(stream);
	if (result == CUDA_SUCCESS)
		result = stream_capture_check();
	if (result != CUDA_SUCCESS)
		return result;
	if (stream->kind == STREAM_LEGACY) {
		stream_wait_blocking(stream->set);
	} else {
		stream_end(stream, &mark);
		best_effort(stream_mark_wait(&mark, NULL));
		stream_mark_drop(&mark);
	}
	return context_error(stream->context);
}

struct CUctx_st *stream_context(const struct CUstream_st *stream)
{
	return stream->context;
}

/* ---- the driver's functions ---------------------------------------------------------------- */

CUresult stream_make(struct stream_set *set, unsigned flags, int priority, CUstream *ret_stream)
{
	struct CUstream_st *stream;

	if (!ret_stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	/* Out of range is brought into it, as documented. */
	if (priority > PRIORITY_LEAST)
		priority = PRIORITY_LEAST;
	if (priority < PRIORITY_GREATEST)
		priority = PRIORITY_GREATEST;
	stream = stream_new(set,
			    flags & CU_STREAM_NON_BLOCKING ? STREAM_NON_BLOCKING : STREAM_BLOCKING,
			    priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (handle_add(HANDLE_STREAM, stream) < 0) {
		stream_close(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

exported CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct CUctx_st *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	return stream_make(context_streams(context, NULL), flags, priority, phStream);
}

exported CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return cuStreamCreateWithPriority(phStream, Flags, PRIORITY_LEAST);
}

exported CUresult cuStreamDestroy_v2(CUstream hStream)
{
	CUresult result = driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle_is(HANDLE_STREAM, hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	capture_abandon(hStream);
	handle_remove(HANDLE_STREAM, hStream);
	stream_close(hStream);
	return CUDA_SUCCESS;
}

exported CUresult cuStreamDestroy(CUstream hStream)
{
	return cuStreamDestroy_v2(hStream);
}

exported CUresult cuStreamSynchronize(CUstream hStream)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	return result == CUDA_SUCCESS ? stream_synchronize(stream) : result;
}

exported CUresult cuStreamQuery(CUstream hStream)
{
	struct CUstream_st *stream;
	struct stream_mark mark;
	CUresult result = stream_find(hStream, &stream);

	if (result == CUDA_SUCCESS)
		result = capture_forbid(stream);
	if (result == CUDA_SUCCESS)
		result = capture_check_legacy(stream);
	if (result == CUDA_SUCCESS)
		result = stream_capture_check();
	if (result != CUDA_SUCCESS)
		return result;
	if (stream->kind == STREAM_LEGACY && stream_blocking_pending(stream->set))
		return CUDA_ERROR_NOT_READY;
	stream_end(stream, &mark);
	result = stream_mark_done(&mark) ? context_error(stream->context) : CUDA_ERROR_NOT_READY;
	stream_mark_drop(&mark);
	return result;
}

exported CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

exported CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = stream->kind == STREAM_NON_BLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
	return CUDA_SUCCESS;
}

exported CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!streamId)
		return CUDA_ERROR_INVALID_VALUE;
	*streamId = stream->id;
	return CUDA_SUCCESS;
}

exported CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = stream->context;
	return CUDA_SUCCESS;
}

exported CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	CUresult result = cuStreamGetCtx(hStream, pCtx);

	if (result == CUDA_SUCCESS && pGreenCtx)
		result = cuStreamGetGreenCtx(hStream, pGreenCtx);
	return result;
}

exported CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = stream->context->device;
	return CUDA_SUCCESS;
}

static CUresult submit_host(CUstream handle, struct op *op)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(handle, &stream);

	return result == CUDA_SUCCESS ? stream_submit(stream, op) : result;
}

exported CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct op op = {.kind = OP_HOST, .host = {.function = fn, .data = userData}};

	return fn ? submit_host(hStream, &op) : CUDA_ERROR_INVALID_VALUE;
}

exported CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
				      unsigned int flags)
{
	struct op op = {.kind = OP_CALLBACK,
			.callback = {.function = callback, .handle = hStream, .data = userData}};

	return callback && !flags ? submit_host(hStream, &op) : CUDA_ERROR_INVALID_VALUE;
}

exported CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
					 unsigned int flags)
{
	struct op op = {.kind = OP_EMPTY};

	(void)length;
	if (!dptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
		      flags != CU_MEM_ATTACH_SINGLE))
		return CUDA_ERROR_INVALID_VALUE;
	/* The call only tells which work touches managed memory; nothing but its place in the order
	 * matters. */
	return submit_host(hStream, &op);
}

/* ---- attributes ---------------------------------------------------------------------------- */

exported CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct stream_attributes attributes;
	struct CUstream_st *from, *to;
	CUresult result = stream_find(dst, &to);

	if (result == CUDA_SUCCESS)
		result = stream_find(src, &from);
	if (result != CUDA_SUCCESS)
		return result;
	if (from == to)
		return CUDA_SUCCESS;
	if (from->context != to->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&from->set->lock);
	attributes = from->attributes;
	pthread_mutex_unlock(&from->set->lock);
	pthread_mutex_lock(&to->set->lock);
	to->attributes = attributes;
	pthread_mutex_unlock(&to->set->lock);
	return CUDA_SUCCESS;
}

static CUresult get_attribute(struct CUstream_st *stream, CUstreamAttrID attr,
			      CUstreamAttrValue *value)
{
	memset(value, 0, sizeof(*value));
	if (attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
		value->accessPolicyWindow = stream->attributes.window;
	else if (attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
		value->syncPolicy = stream->attributes.policy;
	else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		value->priority = stream->priority;
	else if (attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
		value->memSyncDomainMap = stream->attributes.domain_map;
	else if (attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
		value->memSyncDomain = stream->attributes.domain;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult set_attribute(struct CUstream_st *stream, CUstreamAttrID attr,
			      const CUstreamAttrValue *value)
{
	if (attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
		stream->attributes.window = value->accessPolicyWindow;
	else if (attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
		stream->attributes.policy = value->syncPolicy;
	else if (attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
		stream->attributes.domain_map = value->memSyncDomainMap;
	else if (attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
		stream->attributes.domain = value->memSyncDomain;
	else /* the priority is fixed when a stream is made */
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

exported CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
				       CUstreamAttrValue_v1 *value)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&stream->set->lock);
	result = get_attribute(stream, attr, value);
	pthread_mutex_unlock(&stream->set->lock);
	return result;
}

exported CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
				       const CUstreamAttrValue_v1 *value)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&stream->set->lock);
	result = set_attribute(stream, attr, value);
	pthread_mutex_unlock(&stream->set->lock);
	return result;
}
