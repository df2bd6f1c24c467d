/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/capture.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "guest/futex.h"
#include "guest/hooks.h"
#include "guest/real.h"
#include "guest/state.h"

enum {
	CAPTURES = 128,
	ENDING_YIELDS = 10000, /* for calls into a capture that is about to end; they are short */
};

struct capture {
	CUstream stream; /* NULL: a free place */
	uint32_t thread; /* whose stream it is, for CU_STREAM_PER_THREAD */
	uint32_t opener; /* the thread that began it */
	uint64_t serial; /* from 1: who ends it means no later one of the same stream */
};

static struct {
	struct futex_lock lock; /* of the table */
	struct capture open[CAPTURES];
	uint64_t last_serial;
	struct futex_lock end_lock; /* one capture ends at a time ... */
	_Atomic uint32_t ending;    /* ... and meanwhile nobody passes a closed gate */
	_Atomic uint32_t kept_out;  /* the agent makes calls that a capture does not survive */
} captures;

static uint32_t own_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static uint32_t thread_of(CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? own_thread() : 0;
}

bool capture_open(void)
{
	return atomic_load_explicit(&state.captures, memory_order_relaxed) != 0;
}

/* With the lock held. */
static struct capture *find(CUstream stream, uint32_t thread)
{
	for (int i = 0; i < CAPTURES; i++)
		if (captures.open[i].stream == stream && captures.open[i].thread == thread)
			return &captures.open[i];
	return NULL;
}

static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult r = real(cuStreamIsCapturing)(stream, &status);

	/* IMPLICIT: the legacy stream, while another one is being captured: the call will fail. */
	return r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
	       (r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Announce first, then look whether one ends: end() does it the other way round. */
bool capture_enter(struct presence_slot *slot, CUstream stream)
{
	while (capture_open()) {
		__atomic_store_n(&slot->captured_at, slot->countdown, __ATOMIC_RELAXED);
		atomic_store(&slot->state, PRESENCE_CAPTURES);
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(&captures.ending) == 0) {
			if (is_capturing(stream))
				return true;
			break;
		}
		atomic_store(&slot->state, PRESENCE_IN);
		sched_yield();
	}
	atomic_store(&slot->state, PRESENCE_IN);
	return false;
}

static CUstream stream_named(CUstream stream, bool own)
{
	return !stream && own ? CU_STREAM_PER_THREAD : stream;
}

/* A gate may open, and a capture begin, while the agent still drains for a close that was
 * given up. */
bool capture_keep_out(void)
{
	atomic_store(&captures.kept_out, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (!capture_open())
		return true;
	atomic_store(&captures.kept_out, 0);
	return false;
}

void capture_let_in(void)
{
	atomic_store(&captures.kept_out, 0);
}

/* Of the table, and not a count of the thread's own: an end that the agent sees first, or that
 * another thread asks for, ends it there. */
static bool opened_here(void)
{
	uint32_t thread = own_thread();
	bool found = false;

	futex_lock_take(&captures.lock);
	for (int i = 0; i < CAPTURES && !found; i++)
		found = captures.open[i].stream && captures.open[i].opener == thread;
	futex_lock_give(&captures.lock);
	return found;
}

/* Counts the capture before it looks at the gate: a close looks the other way round. */
static CUresult begin(void)
{
	CUresult r = state_ready();

	if (r != CUDA_SUCCESS)
		return r;
	atomic_fetch_add(&state.captures, 1);
	/* A thread that waited here with a capture of its own open could never end it. */
	while (__atomic_load_n(&guest_tenant_page.not_open, __ATOMIC_SEQ_CST) && !opened_here()) {
		atomic_fetch_sub(&state.captures, 1);
		r = (CUresult)presence_wait(-1);
		if (r != CUDA_SUCCESS)
			return r;
		atomic_fetch_add(&state.captures, 1);
	}
	atomic_thread_fence(memory_order_seq_cst);
	while (atomic_load(&captures.kept_out))
		sched_yield();
	return CUDA_SUCCESS;
}

static CUresult begun(CUstream stream, CUresult r)
{
	struct capture *place;

	if (r != CUDA_SUCCESS) {
		atomic_fetch_sub(&state.captures, 1);
		return r;
	}
	futex_lock_take(&captures.lock);
	place = find(NULL, 0);
	if (place)
		*place = (struct capture){.stream = stream,
					  .thread = thread_of(stream),
					  .opener = own_thread(),
					  .serial = ++captures.last_serial};
	futex_lock_give(&captures.lock);
	return r;
}

/* With the lock held. */
static void closed(struct capture *place)
{
	*place = (struct capture){.stream = NULL};
	atomic_fetch_sub(&state.captures, 1);
}

/* Returns which capture it is; 0: none that is known. */
static uint64_t end(CUstream stream)
{
	struct capture *place;
	uint64_t serial = 0;

	futex_lock_take(&captures.lock);
	place = stream ? find(stream, thread_of(stream)) : NULL;
	if (place)
		serial = place->serial;
	futex_lock_give(&captures.lock);
	futex_lock_take(&captures.end_lock);
	atomic_store(&captures.ending, 1);
	atomic_thread_fence(memory_order_seq_cst);
	for (int i = 0; i < ENDING_YIELDS && presence_captures(guest_slot); i++)
		sched_yield();
	return serial;
}

/* From the driver's answer on the agent may see that it is over, and others begin the next one. */
static CUresult ended(CUstream stream, uint64_t serial, CUresult r)
{
	struct capture *place;

	atomic_store(&captures.ending, 0);
	futex_lock_give(&captures.end_lock);
	/* Some failures end the capture and some do not. */
	if (stream && (r == CUDA_SUCCESS || !is_capturing(stream))) {
		futex_lock_take(&captures.lock);
		place = find(stream, thread_of(stream));
		if (place && place->serial == serial)
			closed(place);
		futex_lock_give(&captures.lock);
	}
	return r;
}

void capture_forget_stream(CUstream stream)
{
	struct capture *place;

	if (!capture_open() || !stream)
		return;
	futex_lock_take(&captures.lock);
	place = find(stream, 0);
	if (place)
		closed(place);
	futex_lock_give(&captures.lock);
}

unsigned capture_count(void)
{
	if (!capture_open())
		return 0;
	futex_lock_take(&captures.lock);
	for (int i = 0; i < CAPTURES; i++) {
		struct capture *c = &captures.open[i];

		if (c->stream && c->stream != CU_STREAM_PER_THREAD && !is_capturing(c->stream))
			closed(c);
	}
	futex_lock_give(&captures.lock);
	return atomic_load(&state.captures);
}

void capture_forget(void)
{
	memset(&captures, 0, sizeof(captures));
}

CUresult hook_cuStreamBeginCapture(CUstream hStream)
{
	CUresult r = begin();

	return r ? r : begun(hStream, real(cuStreamBeginCapture)(hStream));
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream hStream)
{
	CUresult r = begin();

	return r ? r : begun(stream_named(hStream, true), real(cuStreamBeginCapture_ptsz)(hStream));
}

CUresult hook_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	CUresult r = begin();

	return r ? r : begun(hStream, real(cuStreamBeginCapture_v2)(hStream, mode));
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	CUresult r = begin();

	return r ? r
		 : begun(stream_named(hStream, true),
			 real(cuStreamBeginCapture_v2_ptsz)(hStream, mode));
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData,
					  size_t numDependencies, CUstreamCaptureMode mode)
{
	CUresult r = begin();

	return r ? r
		 : begun(hStream,
			 real(cuStreamBeginCaptureToGraph)(hStream, hGraph, dependencies,
							   dependencyData, numDependencies, mode));
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
					       const CUgraphNode *dependencies,
					       const CUgraphEdgeData *dependencyData,
					       size_t numDependencies, CUstreamCaptureMode mode)
{
	CUresult r = begin();

	return r ? r
		 : begun(stream_named(hStream, true),
			 real(cuStreamBeginCaptureToGraph_ptsz)(hStream, hGraph, dependencies,
								dependencyData, numDependencies,
								mode));
}

CUresult hook_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	uint64_t serial = end(hStream);

	return ended(hStream, serial, real(cuStreamEndCapture)(hStream, phGraph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	CUstream stream = stream_named(hStream, true);
	uint64_t serial = end(stream);

	return ended(stream, serial, real(cuStreamEndCapture_ptsz)(hStream, phGraph));
}
