/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/held.h"
#include "guest/time/held_inside.h"

#include <stdatomic.h>
#include <string.h>

#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/process/parts.h"
#include "guest/signals.h"
#include "guest/time/capture.h"
#include "guest/time/own_streams.h"
#include "guest/time/presence.h"

enum {
	CALLS = 64,   /* that are remembered; of others it is not known whether they are over */
	STREAMS = 64, /* that order themselves with the legacy stream */
	ENDED = 32,   /* streams that were destroyed with work left */
};

enum state { OVER = 0, BEGUN, MADE };

struct held_call {
	CUcontext context;	/* of the events; NULL: there are none */
	CUstream stream;	/* NULL: it was destroyed */
	uint32_t thread;	/* whose own stream it is; 0: it is no such one */
	uint32_t ended;		/* the place of the stream in held.ended, from 1; 0: none */
	CUevent before, behind; /* they die with the context */
	enum state state;
};

/* A stream that was destroyed while it had work, which goes on. */
struct ended {
	CUcontext context; /* of the event; NULL: there is none */
	CUevent last;	   /* behind all of its work */
	bool blocking;	   /* it ordered itself with the legacy stream */
	enum state state;
};

static struct {
	struct futex_lock lock; /* of the following, with all signals blocked */
	struct held_call call[CALLS];
	uint32_t next;
	struct {
		CUstream stream;
		CUcontext context;
	} blocking[STREAMS];
	struct ended ended[ENDED];
	_Atomic uint32_t made;	   /* calls that may not be over */
	_Atomic uint32_t unlisted; /* streams for which there was no room in `blocking` ... */
	_Atomic uint32_t lost;	   /* ... or in `ended` */
	_Atomic uint32_t begun;
} held;

/* ---- calls ----------------------------------------------------------------------------------- */

/* With the lock held. */
static bool is_over(struct held_call *call)
{
	if (call->state == MADE && real(cuEventQuery)(call->behind) != CUDA_ERROR_NOT_READY) {
		call->state = OVER;
		atomic_fetch_sub(&held.made, 1);
	}
	return call->state == OVER;
}

static void lock(struct signals *ret_before)
{
	signals_block(ret_before);
	futex_lock_take(&held.lock);
}

static void unlock(const struct signals *before)
{
	futex_lock_give(&held.lock);
	signals_restore(before);
}

/* With the lock held: an event of a context that is about to leave is there until that has told so.
 */
static void drop_events(struct held_call *call)
{
	if (call->context) {
		best_effort(real(cuEventDestroy_v2)(call->before));
		best_effort(real(cuEventDestroy_v2)(call->behind));
	}
	call->context = NULL;
}

/* The next place; NULL: it is taken. The driver is asked once only, as it is by each call.
 * Otherwise the call has BEGUN, and is the caller's; its events are of this context, if of any. */
static struct held_call *take_call(CUcontext context, uint32_t thread)
{
	struct signals before;
	struct held_call *call;

	lock(&before);
	call = &held.call[held.next++ % CALLS];
	if (!is_over(call)) {
		call = NULL;
	} else {
		call->state = BEGUN;
		call->thread = thread;
		call->ended = 0;
		if (call->context != context)
			drop_events(call);
	}
	unlock(&before);
	return call;
}

/* Unless its context has left meanwhile. */
static void set(struct held_call *call, CUstream stream, enum state state)
{
	struct signals before;

	lock(&before);
	if (call->state == BEGUN) {
		call->stream = stream;
		call->state = state;
		atomic_fetch_add(&held.made, state == MADE);
	}
	unlock(&before);
}

static bool make_event(CUcontext context, CUevent *ret_event)
{
	CUcontext popped;
	CUresult r;

	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return false;
	r = real(cuEventCreate)(ret_event, CU_EVENT_DISABLE_TIMING);
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	return r == CUDA_SUCCESS;
}

/* Others compare the contexts of all calls. */
static bool give_events(struct held_call *call, CUcontext context)
{
	struct signals before;
	CUevent first, second;

	if (call->context == context)
		return true;
	if (!make_event(context, &first))
		return false;
	if (!make_event(context, &second)) {
		best_effort(real(cuEventDestroy_v2)(first));
		return false;
	}
	lock(&before);
	call->before = first;
	call->behind = second;
	call->context = context;
	unlock(&before);
	return true;
}

/* Not of a call that the driver makes inside another one, nor into a capture, where nothing is
 * submitted. An event is recorded without the lock: where the stream's queue is full that lasts
 * until the stream gets on, perhaps by another thread's call. */
struct held_call *held_call_begin(CUstream stream, const void *caller)
{
	CUstreamCaptureMode mode;
	struct held_call *call;
	CUcontext context;

	if (real_is_driver(caller) ||
	    real_is_driver((const void *)(uintptr_t)guest_slot->return_address) || capture_open())
		return NULL;
	context = contexts_of_stream(stream);
	if (!context)
		return NULL;
	if (stream == CU_STREAM_PER_THREAD)
		own_streams_used(context);
	mode = capture_relax();
	call = take_call(context, stream == CU_STREAM_PER_THREAD ? own_streams_thread() : 0);
	if (call && (!give_events(call, context) ||
		     real(cuEventRecord)(call->before, stream) != CUDA_SUCCESS)) {
		set(call, NULL, OVER);
		call = NULL;
	}
	capture_restore(mode);
	return call;
}

void held_call_end(struct held_call *call, CUstream stream)
{
	CUcontext context;
	CUresult r;

	if (!call)
		return;
	context = call->context;
	r = real(cuEventRecord)(call->behind, stream);
	set(call, stream, r == CUDA_SUCCESS ? MADE : OVER);
	if (stream == CU_STREAM_PER_THREAD && r == CUDA_SUCCESS)
		own_streams_known(context);
}

/* ---- what is held ---------------------------------------------------------------------------- */

void held_calls_begin(void)
{
	atomic_store(&held.begun, 1);
}

bool held_any(void)
{
	return atomic_load(&held.made) != 0;
}

/* With the lock held. The stream has reached the call, and stands at it. */
static bool stands_at(struct held_call *call)
{
	return call->state == MADE && !is_over(call) &&
	       real(cuEventQuery)(call->before) == CUDA_SUCCESS;
}

/* With the lock held. The stream is between the two events of a call. */
static bool stands(CUcontext context, CUstream stream)
{
	for (uint32_t i = 0; i < CALLS; i++) {
		struct held_call *call = &held.call[i];

		if (call->context == context && call->stream == stream && !call->thread &&
		    stands_at(call))
			return true;
	}
	return false;
}

/* With the lock held. The same of a thread's own stream. */
static enum own_stream own_stands(CUcontext context, uint32_t thread)
{
	bool is_empty = true;

	for (uint32_t i = 0; i < CALLS; i++) {
		struct held_call *call = &held.call[i];

		if (call->context != context || call->thread != thread || call->state == OVER)
			continue;
		if (stands_at(call))
			return OWN_STANDS;
		is_empty &= call->state == OVER;
	}
	return is_empty ? OWN_IS_EMPTY : OWN_RUNS;
}

/* With the lock held. */
static bool is_left(const struct ended *e)
{
	return e->state != OVER &&
	       !(e->state == MADE && real(cuEventQuery)(e->last) != CUDA_ERROR_NOT_READY);
}

/* With the lock held. */
static bool ended_stands(const struct ended *e)
{
	uint32_t place = (uint32_t)(e - held.ended) + 1;

	for (uint32_t i = 0; i < CALLS; i++)
		if (held.call[i].ended == place && stands_at(&held.call[i]))
			return true;
	return false;
}

/* With the lock held. The legacy stream is not ready: a stream that it orders itself with has
 * work. While it stands itself nothing of theirs runs. */
static bool stand_all(CUcontext context)
{
	bool any = false;

	if (stands(context, CU_STREAM_LEGACY))
		return true;
	for (uint32_t i = 0; i < STREAMS; i++) {
		CUstream stream = held.blocking[i].stream;

		if (!stream || held.blocking[i].context != context ||
		    real(cuStreamQuery)(stream) != CUDA_ERROR_NOT_READY)
			continue;
		if (!stands(context, stream))
			return false;
		any = true;
	}
	for (uint32_t i = 0; i < ENDED; i++)
		any |= held.ended[i].context == context && held.ended[i].blocking &&
		       is_left(&held.ended[i]);
	return own_streams_rest(context, own_stands, &any) && any && !atomic_load(&held.unlisted);
}

/* The lock's holder may be in the driver. */
bool held_stands(CUcontext context, CUstream stream)
{
	struct signals before;
	bool stand = false;

	if (!held_any())
		return false;
	signals_block(&before);
	if (futex_lock_try(&held.lock)) {
		stand = stands(context, stream ? stream : CU_STREAM_LEGACY);
		futex_lock_give(&held.lock);
	}
	signals_restore(&before);
	return stand;
}

static bool holds(CUcontext context, CUstream stream)
{
	struct signals before;
	bool stand;

	lock(&before);
	stand = stream == CU_STREAM_LEGACY ? stand_all(context) : stands(context, stream);
	unlock(&before);
	return stand;
}

/* With the lock held. */
static bool concerns(const struct ended *e, int device)
{
	int of = e->context ? contexts_device(e->context) : device;

	return e->state != OVER && (of == device || of < 0);
}

bool held_streams_left(int device)
{
	struct signals before;
	bool left = false;

	lock(&before);
	for (uint32_t i = 0; i < ENDED && !left; i++)
		left = concerns(&held.ended[i], device) && is_left(&held.ended[i]);
	unlock(&before);
	return left;
}

/* Do all streams stand that were destroyed with work left? */
static bool ended_stand(int device)
{
	struct signals before;
	bool stand;

	lock(&before);
	stand = !atomic_load(&held.lost);
	for (uint32_t i = 0; i < ENDED && stand; i++) {
		const struct ended *e = &held.ended[i];

		stand = !concerns(e, device) || !is_left(e) || ended_stands(e);
	}
	unlock(&before);
	return stand;
}

bool held_all(int device)
{
	return !contexts_busy(device, holds) && ended_stand(device);
}

/* ---- streams and contexts -------------------------------------------------------------------- */

void held_stream_made(CUstream stream)
{
	CUcontext context = NULL;
	struct signals before;
	uint32_t i = 0;

	if (real(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS)
		return;
	lock(&before);
	while (i < STREAMS && held.blocking[i].stream)
		i++;
	if (i < STREAMS) {
		held.blocking[i].stream = stream;
		held.blocking[i].context = context;
	} else {
		atomic_store(&held.unlisted, 1);
	}
	unlock(&before);
}

/* A free place, which is the caller's from then on; NULL: there is none. */
static struct ended *take_ended(CUcontext context)
{
	struct ended *e = NULL;
	struct signals before;

	lock(&before);
	for (uint32_t i = 0; i < ENDED && !e; i++)
		if (held.ended[i].state != BEGUN && !is_left(&held.ended[i]))
			e = &held.ended[i];
	if (e) {
		e->state = BEGUN;
		if (e->context && e->context != context) {
			best_effort(real(cuEventDestroy_v2)(e->last));
			e->context = NULL;
		}
	}
	unlock(&before);
	return e;
}

/* It is about to be destroyed with work left: an event is left behind that. Without, nothing is
 * held any more as long as this process lives. */
static struct ended *note_ended(CUstream stream)
{
	CUcontext context = contexts_of_stream(stream);
	struct ended *e = context ? take_ended(context) : NULL;
	unsigned flags = 0;

	if (e && !e->context && make_event(context, &e->last))
		e->context = context;
	if (!e || !e->context || real(cuEventRecord)(e->last, stream) != CUDA_SUCCESS) {
		atomic_store(&held.lost, 1);
		return e;
	}
	e->blocking = real(cuStreamGetFlags)(stream, &flags) == CUDA_SUCCESS &&
		      !(flags & CU_STREAM_NON_BLOCKING);
	return e;
}

static bool has_work(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return real(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_NONE &&
	       real(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY;
}

void held_stream_ends(CUstream stream)
{
	struct ended *e = NULL;
	struct signals before;
	CUstreamCaptureMode mode;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return;
	if (atomic_load(&held.begun)) {
		mode = capture_relax();
		e = has_work(stream) ? note_ended(stream) : NULL;
		capture_restore(mode);
	}
	lock(&before);
	for (uint32_t i = 0; i < STREAMS; i++)
		if (held.blocking[i].stream == stream)
			held.blocking[i].stream = NULL;
	/* The handle may be another stream's soon. */
	for (uint32_t i = 0; i < CALLS; i++) {
		struct held_call *call = &held.call[i];

		/* Of the stream that had the place before. */
		if (e && call->ended == (uint32_t)(e - held.ended) + 1)
			call->ended = 0;
		if (call->stream != stream)
			continue;
		call->stream = NULL;
		call->ended = e ? (uint32_t)(e - held.ended) + 1 : 0;
	}
	if (e)
		e->state = e->context ? MADE : OVER;
	unlock(&before);
}

void held_context_leaves(CUcontext context)
{
	struct signals before;

	lock(&before);
	for (uint32_t i = 0; context && i < CALLS; i++) {
		if (held.call[i].context != context)
			continue;
		if (held.call[i].state == MADE)
			atomic_fetch_sub(&held.made, 1);
		held.call[i] = (struct held_call){.context = NULL};
	}
	for (uint32_t i = 0; context && i < STREAMS; i++)
		if (held.blocking[i].context == context)
			held.blocking[i].stream = NULL;
	for (uint32_t i = 0; context && i < ENDED; i++)
		if (held.ended[i].context == context)
			held.ended[i] = (struct ended){.context = NULL};
	unlock(&before);
	own_streams_context_leaves(context);
}

void held_forget(void)
{
	memset(&held, 0, sizeof(held));
}
