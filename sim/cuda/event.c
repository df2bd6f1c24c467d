/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/event.h"

#include <string.h>

#include "sim/cuda/context.h"
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
	/* No stream will reach it any more. */
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

bool event_record_is_reached(struct event_record *record)
{
	uint64_t time_ns;

	if (!record->foreign)
		return atomic_load(&record->reached);
	if (!event_share_reached(record->share, record->ticket, &time_ns))
		return false;
	atomic_store(&record->time_ns, time_ns);
	return true;
}

bool event_record_await(struct event_record *record, const struct stream_set *waiter)
{
	struct CUstream_st *stream = record->mark.stream;
	uint64_t time_ns;

	if (event_record_is_reached(record))
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

	if (!event_record_await(record, waiter))
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

bool event_is_captured(struct CUevent_st *event)
{
	bool is;

	pthread_mutex_lock(&event->lock);
	is = event->capture_id != 0;
	pthread_mutex_unlock(&event->lock);
	return is;
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

void event_free(struct CUevent_st *event)
{
	forget(event);
	stream_set_unref(event->set);
	event_share_unref(event->share);
	pthread_mutex_destroy(&event->lock);
	free(event);
}
