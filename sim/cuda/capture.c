/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/capture.h"

#include <string.h>

#include "sim/cuda/capture_core.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/stream.h"

static struct {
	pthread_mutex_t lock; /* of all captures, and of each stream's `capture` */
	struct list active;
	atomic_uint count;
	uint64_t last_id;
} captures = {.lock = PTHREAD_MUTEX_INITIALIZER,
	      .active = {.next = &captures.active, .prev = &captures.active}};

/* Its address names the thread. */
static __thread CUstreamCaptureMode my_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void capture_lock(void)
{
	pthread_mutex_lock(&captures.lock);
}

void capture_unlock(void)
{
	pthread_mutex_unlock(&captures.lock);
}

const void *capture_thread(void)
{
	return &my_mode;
}

CUstreamCaptureMode *capture_thread_mode(void)
{
	return &my_mode;
}

bool stream_capturing(struct CUstream_st *stream)
{
	return atomic_load_explicit(&stream->capture, memory_order_acquire) != NULL;
}

/* ---- under the lock ------------------------------------------------------------------------ */

static struct capture_member *join(struct capture *capture, struct CUstream_st *stream)
{
	struct capture_member *member = calloc(1, sizeof(*member));

	if (!member)
		return NULL;
	member->capture = capture;
	member->stream = stream_ref(stream);
	list_append(&capture->members, &member->link);
	if (!stream_is_apart(stream))
		atomic_fetch_add(&stream->set->captures, 1);
	atomic_store_explicit(&stream->capture, member, memory_order_release);
	return member;
}

/* The stream's work still belongs to the capture: its tips must lead to the origin. */
static void leave_tips(struct capture_member *member)
{
	struct CUstream_st *stream = take(member->stream);

	if (!stream)
		return;
	if (!stream_is_apart(stream))
		atomic_fetch_sub(&stream->set->captures, 1);
	atomic_store_explicit(&stream->capture, NULL, memory_order_release);
	stream_unref(stream);
}

static void leave(struct capture_member *member)
{
	leave_tips(member);
	list_remove(&member->link);
	free(member->tips);
	free(member->data);
	free(member);
}

/* Takes the arrays over. */
void capture_set_tips(struct capture_member *member, CUgraphNode *tips, CUgraphEdgeData *data,
		      size_t n)
{
	free(member->tips);
	free(member->data);
	member->tips = tips;
	member->data = data;
	member->n_tips = n;
}

/* Adds those that are not there yet. */
CUresult capture_add_tips(struct capture_member *member, const CUgraphNode *tips,
			  const CUgraphEdgeData *data, size_t n)
{
	CUgraphNode *nodes = malloc((member->n_tips + n + 1) * sizeof(*nodes));
	CUgraphEdgeData *edges = calloc(member->n_tips + n + 1, sizeof(*edges));
	size_t count = member->n_tips;

	if (!nodes || !edges) {
		free(nodes);
		free(edges);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (count) {
		memcpy(nodes, member->tips, count * sizeof(*nodes));
		memcpy(edges, member->data, count * sizeof(*edges));
	}
	for (size_t i = 0; i < n; i++) {
		size_t j = 0;

		while (j < count && nodes[j] != tips[i])
			j++;
		if (j < count)
			continue;
		if (data)
			edges[count] = data[i];
		nodes[count++] = tips[i];
	}
	capture_set_tips(member, nodes, edges, count);
	return CUDA_SUCCESS;
}

static CUresult one_tip(struct capture_member *member, CUgraphNode node)
{
	CUgraphNode *tips = malloc(sizeof(*tips));
	CUgraphEdgeData *data = calloc(1, sizeof(*data));

	if (!tips || !data) {
		free(tips);
		free(data);
		member->capture->broken = true;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	tips[0] = node;
	capture_set_tips(member, tips, data, 1);
	return CUDA_SUCCESS;
}

static CUresult append(struct capture_member *member, CUgraphNodeType type, struct op *op,
		       CUgraphNode *ret_node)
{
	CUresult result;

	if (member->capture->broken) {
		op_done(op);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	result = graph_add(member->capture->graph, type, op, member->tips, member->data,
			   member->n_tips, ret_node);
	if (result != CUDA_SUCCESS) {
		member->capture->broken = true;
		return result;
	}
	return one_tip(member, *ret_node);
}

void capture_end(struct capture *capture)
{
	list_for_each(link, &capture->members) leave(list_entry(link, struct capture_member, link));
	list_remove(&capture->link);
	atomic_fetch_sub(&captures.count, 1);
	if (capture->graph && !capture->borrowed)
		graph_free(capture->graph);
	free(capture);
}

struct capture_member *capture_member_of(struct CUstream_st *stream)
{
	return atomic_load_explicit(&stream->capture, memory_order_acquire);
}

static struct capture *capture_new(CUstreamCaptureMode mode, CUgraph graph)
{
	struct capture *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return NULL;
	capture->graph = graph ? graph : graph_new();
	if (!capture->graph) {
		free(capture);
		return NULL;
	}
	capture->borrowed = graph != NULL;
	capture->mode = mode;
	capture->thread = capture_thread();
	capture->id = ++captures.last_id;
	list_init(&capture->members);
	list_append(&captures.active, &capture->link);
	atomic_fetch_add(&captures.count, 1);
	return capture;
}

struct capture_member *capture_begin(struct CUstream_st *stream, CUstreamCaptureMode mode,
				     CUgraph graph)
{
	struct capture *capture = capture_new(mode, graph);
	struct capture_member *member;

	if (!capture)
		return NULL;
	capture->origin = stream;
	member = join(capture, stream);
	if (!member)
		capture_end(capture);
	return member;
}

/* ---- what streams and events do ------------------------------------------------------------ */

CUresult capture_add(struct CUstream_st *stream, struct op *op)
{
	CUgraphNodeType type = graph_type_of(op->kind);
	struct capture_member *member;
	CUgraphNode node;
	CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

	capture_lock();
	member = capture_member_of(stream);
	if (!member) {
		op_done(op); /* ended by another thread just now: the program's race */
		result = CUDA_ERROR_ILLEGAL_STATE;
	} else if (op->kind != OP_EMPTY && type == CU_GRAPH_NODE_TYPE_EMPTY) {
		op_done(op);
		member->capture->broken = true;
	} else {
		op->context = stream->context;
		result = append(member, type, op, &node);
	}
	capture_unlock();
	return result;
}

CUresult capture_alloc(struct CUstream_st *stream, size_t bytes, const CUmemPoolProps *props,
		       CUdeviceptr *ret_address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	struct capture_member *member;
	CUgraphNode node;
	struct op op;
	CUresult result;

	memset(&params, 0, sizeof(params));
	params.poolProps = *props;
	params.bytesize = bytes;
	result = graph_memory_describe(&params, &op);
	if (result != CUDA_SUCCESS)
		return result;
	op.context = stream->context;
	capture_lock();
	member = capture_member_of(stream);
	result = member ? append(member, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &op, &node)
			: CUDA_ERROR_ILLEGAL_STATE;
	if (result == CUDA_SUCCESS) {
		node->alloc = params;
		*ret_address = params.dptr;
	}
	capture_unlock();
	op_done(&op);
	return result;
}

CUresult capture_free(struct CUstream_st *stream, CUdeviceptr address)
{
	struct op op = {.kind = OP_FREE, .alloc.address = address};

	graph_memory_ref(address);
	return capture_add(stream, &op);
}

CUresult capture_child(struct CUstream_st *stream, const struct CUgraph_st *graph)
{
	struct op op = {.kind = OP_EMPTY};
	struct CUgraph_st *clone;
	struct capture_member *member;
	CUgraphNode node;
	CUresult result = graph_clone(graph, &clone);

	if (result != CUDA_SUCCESS)
		return result;
	capture_lock();
	member = capture_member_of(stream);
	result = member ? append(member, CU_GRAPH_NODE_TYPE_GRAPH, &op, &node)
			: CUDA_ERROR_ILLEGAL_STATE;
	if (result == CUDA_SUCCESS) {
		node->child = clone;
		clone->parent = node;
	}
	capture_unlock();
	if (result != CUDA_SUCCESS)
		graph_free(clone);
	return result;
}

CUresult capture_record(struct CUstream_st *stream, CUevent event, unsigned flags)
{
	struct capture_member *member;
	CUgraphNode *nodes;
	CUresult result = CUDA_SUCCESS;

	if (flags & CU_EVENT_RECORD_EXTERNAL) {
		struct op op = {.kind = OP_RECORD, .event = {.event = event, .flags = flags}};

		if (event->share)
			return driver_missing("a graph that records an event of several processes");
		return capture_add(stream, &op);
	}
	capture_lock();
	member = capture_member_of(stream);
	if (!member) {
		result = CUDA_ERROR_ILLEGAL_STATE;
	} else if (member->capture->broken) {
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		nodes = malloc((member->n_tips + 1) * sizeof(*nodes));
		if (!nodes)
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else if (member->n_tips)
			memcpy(nodes, member->tips, member->n_tips * sizeof(*nodes));
		if (nodes)
			event_publish_capture(event, member->capture->id, nodes, member->n_tips);
	}
	capture_unlock();
	return result;
}

static struct capture *capture_by_id(uint64_t id)
{
	list_for_each(link, &captures.active)
	{
		struct capture *capture = list_entry(link, struct capture, link);

		if (capture->id == id)
			return capture;
	}
	return NULL;
}

/* Under the lock. `id` is the event's capture, 0 for an event of no capture. */
static CUresult wait_captured(struct CUstream_st *stream, uint64_t id, const CUgraphNode *nodes,
			      size_t n)
{
	struct capture *capture = id ? capture_by_id(id) : NULL;
	struct capture_member *member = capture_member_of(stream);

	if (member && member->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!capture) {
		/* An event that was recorded outside of captures, or in one that has ended. */
		if (!member)
			return CUDA_ERROR_INVALID_VALUE;
		member->capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (member && member->capture != capture) {
		member->capture->broken = true;
		capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->kind == STREAM_LEGACY) {
		capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!member)
		member = join(capture, stream);
	return member ? capture_add_tips(member, nodes, NULL, n) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_wait(struct CUstream_st *stream, CUevent event, unsigned flags)
{
	CUgraphNode *nodes = NULL;
	size_t n = 0;
	uint64_t id;
	CUresult result;

	if (flags & CU_EVENT_WAIT_EXTERNAL) {
		struct op op = {.kind = OP_WAIT, .event = {.event = event, .flags = flags}};

		return stream_capturing(stream) ? capture_add(stream, &op)
						: CUDA_ERROR_INVALID_VALUE;
	}
	id = event_capture(event, &nodes, &n);
	if (n == SIZE_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture_lock();
	result = wait_captured(stream, id, nodes, n);
	capture_unlock();
	free(nodes);
	return result;
}

/* ---- what capture forbids ------------------------------------------------------------------ */

CUresult stream_capture_check(void)
{
	CUresult result = CUDA_SUCCESS;

	if (!atomic_load_explicit(&captures.count, memory_order_acquire) ||
	    my_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	capture_lock();
	list_for_each(link, &captures.active)
	{
		struct capture *capture = list_entry(link, struct capture, link);
		bool mine = capture->thread == &my_mode &&
			    capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		bool anyones = my_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
			       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

		if (!mine && !anyones)
			continue;
		capture->broken = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	capture_unlock();
	return result;
}

/* Breaks captures of the set's blocking (or all, then also green contexts') streams. */
static bool break_set(struct stream_set *set, bool all)
{
	const struct CUctx_st *context = all && !set->green ? set->context : NULL;
	bool found = false;

	capture_lock();
	list_for_each(link, &captures.active)
	{
		struct capture *capture = list_entry(link, struct capture, link);

		list_for_each(at, &capture->members)
		{
			const struct CUstream_st *stream =
				list_entry(at, struct capture_member, link)->stream;

			if (!stream || (stream->set != set && stream->context != context) ||
			    (!all && stream_is_apart(stream)))
				continue;
			capture->broken = true;
			found = true;
		}
	}
	capture_unlock();
	return found;
}

CUresult capture_check_legacy(struct CUstream_st *stream)
{
	if (stream->kind != STREAM_LEGACY || !atomic_load(&stream->set->captures))
		return CUDA_SUCCESS;
	return break_set(stream->set, false) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult capture_forbid(struct CUstream_st *stream)
{
	struct capture_member *member;

	if (!stream_capturing(stream))
		return CUDA_SUCCESS;
	capture_lock();
	member = capture_member_of(stream);
	if (member)
		member->capture->broken = true;
	capture_unlock();
	return member ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_forbid_set(struct stream_set *set)
{
	if (!atomic_load_explicit(&captures.count, memory_order_acquire))
		return CUDA_SUCCESS;
	return break_set(set, true) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void capture_abandon(struct CUstream_st *stream)
{
	struct capture_member *member;

	if (!stream_capturing(stream))
		return;
	capture_lock();
	member = capture_member_of(stream);
	if (member && member->capture->origin == stream)
		capture_end(member->capture);
	else if (member)
		leave_tips(member);
	capture_unlock();
}
