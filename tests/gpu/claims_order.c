/* SPDX-License-Identifier: Apache-2.0 */
/* When work is ready, and which calls captures mind: the guest's drains rest on both. */
#include <dlfcn.h>

#include "tests/gpu/lab.h"

struct asked {
	const struct lab *lab;
	CUevent event;
	CUresult result;
};

static void *record_in_legacy(void *argument)
{
	struct asked *asked = argument;

	must(cuCtxSetCurrent(asked->lab->context));
	asked->result = cuEventRecord(asked->event, CU_STREAM_LEGACY);
	return NULL;
}

static void *query_legacy(void *argument)
{
	struct asked *asked = argument;

	must(cuCtxSetCurrent(asked->lab->context));
	asked->result = cuStreamQuery(CU_STREAM_LEGACY);
	return NULL;
}

CLAIM(an_event_in_the_legacy_stream_waits_for_all_blocking_streams)
{
	struct lab lab = lab_begin();
	struct lab_busy first = lab_busy_new(&lab), second = lab_busy_new(&lab);
	struct asked asked = {.lab = &lab, .event = lab_event(CU_EVENT_DISABLE_TIMING)};
	CUstream blocking = lab_stream(CU_STREAM_DEFAULT);

	lab_busy_start(&first, blocking);
	lab_busy_start(&second, CU_STREAM_PER_THREAD);
	lab_in_thread(record_in_legacy, &asked);
	must(asked.result);
	answers(cuEventQuery(asked.event), CUDA_ERROR_NOT_READY);
	lab_busy_end(&first);
	must(cuStreamSynchronize(blocking));
	answers(cuEventQuery(asked.event), CUDA_ERROR_NOT_READY);
	lab_busy_end(&second);
	must(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	must(cuEventSynchronize(asked.event));
}

static void query_beside(struct lab *lab, CUstream stream, const char *kind)
{
	struct lab_busy busy = lab_busy_new(lab);
	struct asked asked = {.lab = lab};

	lab_busy_start(&busy, stream);
	lab_in_thread(query_legacy, &asked);
	lab_busy_end(&busy);
	must(cuStreamSynchronize(stream));
	holds(asked.result == CUDA_ERROR_NOT_READY,
	      "while %s has work, the legacy stream answers %d", kind, (int)asked.result);
	lab_in_thread(query_legacy, &asked);
	holds(asked.result == CUDA_SUCCESS, "after it, the legacy stream answers %d",
	      (int)asked.result);
}

CLAIM(the_legacy_stream_is_not_ready_while_a_blocking_one_is_not)
{
	struct lab lab = lab_begin();

	query_beside(&lab, lab_stream(CU_STREAM_DEFAULT), "a blocking stream");
	query_beside(&lab, CU_STREAM_PER_THREAD, "a thread's default stream");
}

CLAIM(an_event_of_a_context_waits_for_all_streams_and_orders_nothing)
{
	struct lab lab = lab_begin();
	struct lab_busy first = lab_busy_new(&lab), second = lab_busy_new(&lab);
	CUstream blocking = lab_stream(CU_STREAM_DEFAULT),
		 apart = lab_stream(CU_STREAM_NON_BLOCKING);
	CUevent event = lab_event(CU_EVENT_DISABLE_TIMING);
	api_fn_cuCtxRecordEvent *record =
		(api_fn_cuCtxRecordEvent *)dlsym(RTLD_DEFAULT, "cuCtxRecordEvent");

	if (!record)
		claim_needs("a driver of CUDA 12.5 or later");
	lab_busy_start(&first, blocking);
	lab_busy_start(&second, apart);
	must(record(lab.context, event));
	answers(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	lab_busy_end(&second);
	must(cuStreamSynchronize(apart));
	must(lab_launch(lab_kernel(&lab, "nothing"), apart, NULL));
	must(cuStreamSynchronize(apart)); /* though the event is not complete */
	answers(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	lab_busy_end(&first);
	must(cuEventSynchronize(event));
}

static void *look_relaxed(void *argument)
{
	struct asked *asked = argument;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream other;

	must(cuCtxSetCurrent(asked->lab->context));
	must(cuThreadExchangeStreamCaptureMode(&mode));
	must(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	answers(cuEventRecord(asked->event, CU_STREAM_LEGACY), CUDA_SUCCESS);
	asked->result = cuEventQuery(asked->event);
	holds(asked->result == CUDA_SUCCESS || asked->result == CUDA_ERROR_NOT_READY,
	      "cuEventQuery is %d", (int)asked->result);
	answers(cuEventSynchronize(asked->event), CUDA_SUCCESS);
	answers(cuStreamQuery(other), CUDA_SUCCESS);
	asked->result = cuStreamQuery(CU_STREAM_LEGACY);
	holds(asked->result == CUDA_SUCCESS || asked->result == CUDA_ERROR_NOT_READY,
	      "cuStreamQuery is %d", (int)asked->result);
	return NULL;
}

static void *legacy_is_capturing(void *argument)
{
	struct asked *asked = argument;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status;

	must(cuCtxSetCurrent(asked->lab->context));
	must(cuThreadExchangeStreamCaptureMode(&mode));
	asked->result = cuStreamIsCapturing(CU_STREAM_LEGACY, &status);
	return NULL;
}

/* The capture of one kernel, during which another thread does something. */
static void capture_beside(struct lab *lab, unsigned flags, void *(*other)(void *),
			   struct asked *asked)
{
	CUstream stream = lab_stream(flags);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUfunction nothing = lab_kernel(lab, "nothing");
	CUgraph graph = NULL;
	size_t nodes = 0;

	must(cuCtxSynchronize());
	must(cuStreamBeginCapture_v2(stream, mode));
	must(lab_launch(nothing, stream, NULL));
	lab_in_thread(other, asked);
	must(lab_launch(nothing, stream, NULL));
	answers(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	must(cuGraphGetNodes(graph, NULL, &nodes));
	holds(nodes == 2, "two launches became %zu nodes", nodes);
}

CLAIM(events_and_queries_of_relaxed_threads_leave_captures_alone)
{
	struct lab lab = lab_begin();
	struct asked asked = {.lab = &lab, .event = lab_event(CU_EVENT_DISABLE_TIMING)};

	capture_beside(&lab, CU_STREAM_NON_BLOCKING, look_relaxed, &asked);
}

CLAIM(the_legacy_stream_says_implicit_while_a_blocking_one_is_captured)
{
	struct lab lab = lab_begin();
	struct asked asked = {.lab = &lab};

	capture_beside(&lab, CU_STREAM_DEFAULT, legacy_is_capturing, &asked);
	holds(asked.result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "cuStreamIsCapturing answers %d",
	      (int)asked.result);
}
