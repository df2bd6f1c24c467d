/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions of events. */
#include "cuda/prototypes.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/event.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/stream.h"

static CUresult find(CUevent handle)
{
	struct CUctx_st *context;
	CUresult result = context_current(&context);

	if (result == CUDA_ERROR_INVALID_CONTEXT && handle_is(HANDLE_EVENT, handle))
		return CUDA_SUCCESS; /* the event knows its context */
	if (result != CUDA_SUCCESS)
		return result;
	return handle_is(HANDLE_EVENT, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* An event may outlive its context. */
static CUresult error_of(const struct CUevent_st *event)
{
	if (stream_set_ending(event->set))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return context_error(event->set->context);
}

exported CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	const unsigned known =
		CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	struct CUctx_st *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent || Flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	return event_new(context, Flags, NULL, phEvent);
}

exported CUresult cuEventDestroy_v2(CUevent hEvent)
{
	CUresult result = driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle_is(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	handle_remove(HANDLE_EVENT, hEvent);
	event_free(hEvent);
	return CUDA_SUCCESS;
}

exported CUresult cuEventDestroy(CUevent hEvent)
{
	return cuEventDestroy_v2(hEvent);
}

static CUresult record(CUevent event, struct CUstream_st *stream)
{
	struct event_record *made = event_record_new();
	struct op op = {.kind = OP_RECORD, .event.record = made};
	CUresult result;

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_fetch_add(&made->refs, 1); /* one for the op, one until it is published */
	if (event->share) {
		made->share = event_share_ref(event->share);
		made->ticket = event_share_issue(event->share);
	}
	result = stream_enqueue(stream, &op, &made->mark);
	if (result == CUDA_SUCCESS)
		event_publish(event, made);
	event_record_unref(made);
	return result;
}

exported CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle_is(HANDLE_EVENT, hEvent) || hEvent->set->context != stream->context)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream_capturing(stream))
		return capture_record(stream, hEvent, flags);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = capture_check_legacy(stream);
	if (result == CUDA_SUCCESS)
		result = context_error(stream->context);
	return result == CUDA_SUCCESS ? record(hEvent, stream) : result;
}

exported CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

CUresult event_record_set(struct stream_set *set, CUevent event)
{
	struct CUstream_st *tail;
	CUresult result;

	if (!handle_is(HANDLE_EVENT, event) || event->set->context != set->context)
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_forbid_set(set);
	if (result != CUDA_SUCCESS)
		return result;
	tail = stream_tail(set);
	return tail ? record(event, tail) : CUDA_ERROR_OUT_OF_MEMORY;
}

exported CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct CUctx_st *context;
	CUresult result = context_named(hCtx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	return event_record_set(context_streams(context, hCtx), hEvent);
}

exported CUresult cuEventQuery(CUevent hEvent)
{
	struct event_record *last;
	CUresult result = find(hEvent);

	if (result != CUDA_SUCCESS)
		return result;
	if (event_is_captured(hEvent))
		return CUDA_ERROR_CAPTURED_EVENT;
	result = stream_capture_check();
	if (result != CUDA_SUCCESS)
		return result;
	last = event_last(hEvent);
	if (last && !event_record_is_reached(last))
		result = CUDA_ERROR_NOT_READY;
	event_record_unref(last);
	return result == CUDA_SUCCESS ? error_of(hEvent) : result;
}

exported CUresult cuEventSynchronize(CUevent hEvent)
{
	struct event_record *last;
	CUresult result = find(hEvent);

	if (result != CUDA_SUCCESS)
		return result;
	if (event_is_captured(hEvent))
		return CUDA_ERROR_CAPTURED_EVENT;
	result = stream_capture_check();
	if (result != CUDA_SUCCESS)
		return result;
	last = event_last(hEvent);
	if (last)
		best_effort(event_record_await(last, NULL));
	event_record_unref(last);
	return error_of(hEvent);
}

static CUresult elapsed(float *ret_ms, struct event_record *from, struct event_record *to)
{
	int64_t ns;

	if (!from || !to)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!atomic_load(&from->reached) || !atomic_load(&to->reached))
		return CUDA_ERROR_NOT_READY;
	ns = (int64_t)(atomic_load(&to->time_ns) - atomic_load(&from->time_ns));
	*ret_ms = (float)((double)ns / 1e6);
	return CUDA_SUCCESS;
}

exported CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event_record *from, *to;
	CUresult result = find(hStart);

	if (result == CUDA_SUCCESS)
		result = find(hEnd);
	if (result != CUDA_SUCCESS)
		return result;
	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if ((hStart->flags | hEnd->flags) & CU_EVENT_DISABLE_TIMING || hStart->set != hEnd->set)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event_is_captured(hStart) || event_is_captured(hEnd))
		return CUDA_ERROR_CAPTURED_EVENT;
	from = event_last(hStart);
	to = event_last(hEnd);
	result = elapsed(pMilliseconds, from, to);
	event_record_unref(from);
	event_record_unref(to);
	return result;
}

exported CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

static CUresult wait_event(struct CUstream_st *stream, CUevent event)
{
	struct event_record *last = event_last(event);
	struct op op = {.kind = OP_WAIT, .event.record = last};

	if (!last || event_record_is_reached(last)) {
		op_done(&op);
		return CUDA_SUCCESS;
	}
	return stream_enqueue(stream, &op, NULL);
}

CUresult event_wait_set(struct stream_set *set, CUevent event)
{
	struct CUstream_st *gate;
	CUresult result;

	if (!handle_is(HANDLE_EVENT, event))
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_forbid_set(set);
	if (result == CUDA_SUCCESS && event_is_captured(event))
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (result != CUDA_SUCCESS)
		return result;
	gate = stream_gate(set);
	return gate ? wait_event(gate, event) : CUDA_ERROR_OUT_OF_MEMORY;
}

exported CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	struct CUctx_st *context;
	CUresult result = context_named(hCtx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	return event_wait_set(context_streams(context, hCtx), hEvent);
}

exported CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle_is(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream_capturing(stream) || event_is_captured(hEvent))
		return capture_wait(stream, hEvent, Flags);
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = capture_check_legacy(stream);
	if (result == CUDA_SUCCESS)
		result = context_error(stream->context);
	return result == CUDA_SUCCESS ? wait_event(stream, hEvent) : result;
}
