/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions around captures.
 */
#include "cuda/prototypes.h"
#include "sim/cuda/capture_core.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/stream.h"

static CUresult find(CUstream handle, struct CUstream_st **ret_stream)
{
	CUresult result = stream_find(handle, ret_stream);

	if (result == CUDA_SUCCESS && (*ret_stream)->kind == STREAM_LEGACY &&
	    atomic_load(&(*ret_stream)->set->captures))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return result;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph graph,
		      const CUgraphNode *tips, const CUgraphEdgeData *data, size_t n)
{
	struct CUstream_st *stream;
	struct capture_member *member;
	CUresult result = stream_find(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->kind == STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	capture_lock();
	if (capture_member_of(stream)) {
		result = CUDA_ERROR_ILLEGAL_STATE;
	} else {
		member = capture_begin(stream, mode, graph);
		result =
			member ? capture_add_tips(member, tips, data, n) : CUDA_ERROR_OUT_OF_MEMORY;
		if (member && result != CUDA_SUCCESS)
			capture_end(member->capture);
	}
	capture_unlock();
	return result;
}

exported CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	return begin(hStream, mode, NULL, NULL, NULL, 0);
}

exported CUresult cuStreamBeginCapture(CUstream hStream)
{
	return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

exported CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					      const CUgraphNode *dependencies,
					      const CUgraphEdgeData *dependencyData,
					      size_t numDependencies, CUstreamCaptureMode mode)
{
	if (!graph_is(hGraph) || (numDependencies && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numDependencies; i++) {
		if (!graph_node_is(dependencies[i]) || dependencies[i]->graph != hGraph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return begin(hStream, mode, hGraph, dependencies, dependencyData, numDependencies);
}

/* Everything that leads to the origin's tips gets scratch 1. `stack` has room for all nodes. */
static void mark_joined(struct capture *capture, const struct capture_member *origin,
			CUgraphNode *stack)
{
	size_t n = 0;

	list_for_each(link, &capture->graph->nodes) list_entry(link, struct CUgraphNode_st, link)
		->scratch = 0;
	for (size_t i = 0; i < origin->n_tips; i++) {
		origin->tips[i]->scratch = 1;
		stack[n++] = origin->tips[i];
	}
	while (n) {
		struct graph_links *before = &stack[--n]->before;

		for (size_t i = 0; i < before->n; i++) {
			if (before->nodes[i]->scratch)
				continue;
			before->nodes[i]->scratch = 1;
			stack[n++] = before->nodes[i];
		}
	}
}

static CUresult check_joined(struct capture *capture, const struct capture_member *origin)
{
	CUgraphNode *stack = calloc(capture->graph->n_nodes + 1, sizeof(*stack));
	CUresult result = CUDA_SUCCESS;

	if (!stack)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mark_joined(capture, origin, stack);
	list_for_each(link, &capture->members)
	{
		struct capture_member *member = list_entry(link, struct capture_member, link);

		for (size_t i = 0; i < member->n_tips; i++) {
			if (!member->tips[i]->scratch)
				result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		}
	}
	free(stack);
	return result;
}

/* Under the lock; ends the capture, unless the caller must not end it. */
static CUresult finish(struct CUstream_st *stream, CUgraph *ret_graph)
{
	struct capture_member *member = capture_member_of(stream);
	struct capture *capture;
	CUresult result;

	if (!member)
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = member->capture;
	if (capture->origin != stream) {
		capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->thread != capture_thread() &&
	    capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
		capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	}
	result = capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
				 : check_joined(capture, member);
	if (result == CUDA_SUCCESS)
		*ret_graph = take(capture->graph);
	capture_end(capture);
	return result;
}

exported CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = NULL;
	capture_lock();
	result = finish(stream, phGraph);
	capture_unlock();
	return result;
}

exported CUresult cuStreamGetCaptureInfo_v3(CUstream hStream,
					    CUstreamCaptureStatus *captureStatus_out,
					    cuuint64_t *id_out, CUgraph *graph_out,
					    const CUgraphNode **dependencies_out,
					    const CUgraphEdgeData **edgeData_out,
					    size_t *numDependencies_out)
{
	struct CUstream_st *stream;
	struct capture_member *member;
	CUresult result = find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!captureStatus_out)
		return CUDA_ERROR_INVALID_VALUE;
	capture_lock();
	member = capture_member_of(stream);
	*captureStatus_out = !member		       ? CU_STREAM_CAPTURE_STATUS_NONE
			     : member->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
						       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (*captureStatus_out == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		if (id_out)
			*id_out = member->capture->id;
		if (graph_out)
			*graph_out = member->capture->graph;
		if (dependencies_out)
			*dependencies_out = member->tips;
		if (edgeData_out)
			*edgeData_out = member->data;
		if (numDependencies_out)
			*numDependencies_out = member->n_tips;
	}
	capture_unlock();
	return CUDA_SUCCESS;
}

exported CUresult cuStreamGetCaptureInfo_v2(CUstream hStream,
					    CUstreamCaptureStatus *captureStatus_out,
					    cuuint64_t *id_out, CUgraph *graph_out,
					    const CUgraphNode **dependencies_out,
					    size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
					 dependencies_out, NULL, numDependencies_out);
}

exported CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
					 cuuint64_t *id_out)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL,
					 NULL);
}

exported CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL);
}

static CUresult update(struct capture_member *member, const CUgraphNode *nodes,
		       const CUgraphEdgeData *data, size_t n, unsigned flags)
{
	if (!member)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (member->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	for (size_t i = 0; i < n; i++) {
		if (!graph_node_is(nodes[i]) || nodes[i]->graph != member->capture->graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		capture_set_tips(member, NULL, NULL, 0);
	return capture_add_tips(member, nodes, data, n);
}

exported CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
						       const CUgraphEdgeData *dependencyData,
						       size_t numDependencies, unsigned int flags)
{
	struct CUstream_st *stream;
	CUresult result = find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (numDependencies && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	capture_lock();
	result = update(capture_member_of(stream), dependencies, dependencyData, numDependencies,
			flags);
	capture_unlock();
	return result;
}

exported CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
						    size_t numDependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
						    flags);
}

exported CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode *mine = capture_thread_mode(), before = *mine;

	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	*mine = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
