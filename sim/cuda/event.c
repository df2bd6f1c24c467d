/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/event.h"

#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"

/* ---- records ------------------------------------------------------------------------------- */

struct event_record *event_record_new(void)
{
	struct event_record *record = calloc(1, sizeof(*record));

	if (record)
		atomic_init(&record->refs, 1);
	return record;
}

void event_record_unref(struct event_record *record)
{
	if (!record || atomic_fetch_sub(&record->refs, 1) != 1)
		return;
	/* Nobody will come to it any more. */
	if (record->share && !record->foreign && !atomic_load(&record->reached))
		event_share_reach(record->share, record->ticket, 0);
	event_share_unref(record->share);
	stream_mark_drop(&record->mark);
	free(record);
}

void event_record_reached(struct event_record *record, struct CUstream_st *stream, uint64_t time_ns)
{
	atomic_store(&record->time_ns, time_ns);
	pthread_mutex_lock(&stream->lock);
	atomic_store(&record->reached, true);
	pthread_cond_broadcast(&stream->done);
	pthread_mutex_unlock(&stream->lock);
	if (record->share)
		event_share_reach(record->share, record->ticket, time_ns);
}

/* False: not yet. */
static bool is_reached(struct event_record *record)
{
	uint64_t time_ns;

	if (!record->foreign)
		return atomic_load(&record->reached);
	if (!event_share_reached(record->share, record->ticket, &time_ns))
		return false;
	atomic_store(&record->time_ns, time_ns);
	return true;
}

/* False: given up because the waiter's context is ending. */
static bool await(struct event_record *record, const struct stream_set *waiter)
{
	struct CUstream_st *stream = record->mark.stream;
	uint64_t time_ns;

	if (is_reached(record))
		return true;
	if (record->foreign) {
		if (!event_share_wait(record->share, record->ticket, waiter, &time_ns))
			return false;
		atomic_store(&record->time_ns, time_ns);
		return true;
	}
	pthread_mutex_lock(&stream->lock);
	while (!atomic_load(&record->reached) && !stream_mark_done(&record->mark)) {
		if (waiter && waiter != stream->set && stream_set_ending(waiter))
			break;
		stream_wait_done(stream, waiter);
	}
	pthread_mutex_unlock(&stream->lock);
	return atomic_load(&record->reached);
}

void event_record_wait(struct event_record *record, const struct stream_set *waiter,
		       uint64_t *time_ns)
{
	uint64_t reached_ns;

	if (!await(record, waiter))
		return;
	reached_ns = atomic_load(&record->time_ns);
	if (*time_ns < reached_ns)
		*time_ns = reached_ns;
}

static void forget(struct CUevent_st *event)
{
	event_record_unref(take(event->last));
	free(take(event->nodes));
	event->n_nodes = 0;
	event->capture_id = 0;
}

void event_publish(struct CUevent_st *event, struct event_record *record)
{
	atomic_fetch_add(&record->refs, 1);
	pthread_mutex_lock(&event->lock);
	forget(event);
	event->last = record;
	pthread_mutex_unlock(&event->lock);
}

/* NULL: no memory. */
static struct event_record *foreign_record(struct event_share *share, uint64_t ticket)
{
	struct event_record *record = event_record_new();

	if (!record)
		return NULL;
	record->share = event_share_ref(share);
	record->ticket = ticket;
	record->foreign = true;
	return record;
}

struct event_record *event_last(struct CUevent_st *event)
{
	uint64_t ticket = event->share ? event_share_last(event->share) : 0;
	struct event_record *record;

	pthread_mutex_lock(&event->lock);
	record = event->last;
	if (record)
		atomic_fetch_add(&record->refs, 1);
	pthread_mutex_unlock(&event->lock);
	if (!ticket || (record && record->ticket >= ticket))
		return record;
	event_record_unref(record);
	return foreign_record(event->share, ticket);
}

void event_publish_capture(struct CUevent_st *event, uint64_t capture_id, CUgraphNode *nodes,
			   size_t n_nodes)
{
	pthread_mutex_lock(&event->lock);
	forget(event);
	event->capture_id = capture_id;
	event->nodes = nodes;
	event->n_nodes = n_nodes;
	pthread_mutex_unlock(&event->lock);
}

uint64_t event_capture(struct CUevent_st *event, CUgraphNode **ret_nodes, size_t *ret_n)
{
	uint64_t id;

	pthread_mutex_lock(&event->lock);
	id = event->capture_id;
	if (id) {
		*ret_n = event->n_nodes;
		*ret_nodes = calloc(event->n_nodes ? event->n_nodes : 1, sizeof(**ret_nodes));
		if (!*ret_nodes)
			*ret_n = SIZE_MAX;
		else if (event->n_nodes)
			memcpy(*ret_nodes, event->nodes, event->n_nodes * sizeof(**ret_nodes));
	}
	pthread_mutex_unlock(&event->lock);
	return id;
}

static bool captured(struct CUevent_st *event)
{
	bool is;

	pthread_mutex_lock(&event->lock);
	is = event->capture_id != 0;
	pthread_mutex_unlock(&event->lock);
	return is;
}

/* ---- the driver's functions ---------------------------------------------------------------- */

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

CUresult event_new(struct CUctx_st *context, unsigned flags, struct event_share *share,
		   CUevent *ret_event)
{
	struct CUevent_st *event = calloc(1, sizeof(*event));

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->share = share;
	if (!share && flags & CU_EVENT_INTERPROCESS) {
		event->share = event_share_new();
		if (!event->share) {
			free(event);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	event->set = context->streams;
	atomic_fetch_add(&event->set->refs, 1);
	event->flags = flags;
	pthread_mutex_init(&event->lock, NULL);
	if (handle_add(HANDLE_EVENT, event) == 0) {
		*ret_event = event;
		return CUDA_SUCCESS;
	}
	stream_set_unref(event->set);
	pthread_mutex_destroy(&event->lock);
	if (!share)
		event_share_unref(event->share);
	free(event);
	return CUDA_ERROR_OUT_OF_MEMORY;
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
	forget(hEvent);
	stream_set_unref(hEvent->set);
	event_share_unref(hEvent->share);
	pthread_mutex_destroy(&hEvent->lock);
	free(hEvent);
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
	if (!handle_is(HANDLE_EVENT, hEvent) || hEvent->set != stream->set)
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

exported CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct CUctx_st *context;
	struct CUstream_st *tail;
	CUresult result = context_named(hCtx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle_is(HANDLE_EVENT, hEvent) || hEvent->set != context->streams)
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_forbid_set(context->streams);
	if (result != CUDA_SUCCESS)
		return result;
	tail = stream_tail(context->streams);
	return tail ? record(hEvent, tail) : CUDA_ERROR_OUT_OF_MEMORY;
}

exported CUresult cuEventQuery(CUevent hEvent)
{
	struct event_record *last;
	CUresult result = find(hEvent);

	if (result != CUDA_SUCCESS)
		return result;
	if (captured(hEvent))
		return CUDA_ERROR_CAPTURED_EVENT;
	result = stream_capture_check();
	if (result != CUDA_SUCCESS)
		return result;
	last = event_last(hEvent);
	if (last && !is_reached(last))
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
	if (captured(hEvent))
		return CUDA_ERROR_CAPTURED_EVENT;
	result = stream_capture_check();
	if (result != CUDA_SUCCESS)
		return result;
	last = event_last(hEvent);
	if (last)
		best_effort(await(last, NULL));
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
	if (captured(hStart) || captured(hEnd))
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

	if (!last || is_reached(last)) {
		op_done(&op);
		return CUDA_SUCCESS;
	}
	return stream_enqueue(stream, &op, NULL);
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
	if (stream_capturing(stream) || captured(hEvent))
		return capture_wait(stream, hEvent, Flags);
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = capture_check_legacy(stream);
	if (result == CUDA_SUCCESS)
		result = context_error(stream->context);
	return result == CUDA_SUCCESS ? wait_event(stream, hEvent) : result;
}
