/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/held.h"

#include <stdatomic.h>
#include <string.h>

#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/process/parts.h"
#include "guest/signals.h"
#include "guest/time/capture.h"
#include "guest/time/flight.h"
#include "guest/time/presence.h"

enum {
	CALLS = 64,   /* that are remembered; of others it is not known whether they are over */
	STREAMS = 64, /* that order themselves with the legacy stream */
};

enum state { OVER = 0, BEGUN, MADE };

struct call {
	CUcontext context; /* of the events; NULL: there are none */
	CUstream stream;
	CUevent before, behind; /* they die with the context */
	enum state state;
};

static struct {
	struct futex_lock lock; /* of the following, with all signals blocked */
	struct call call[CALLS];
	uint32_t next;
	struct {
		CUstream stream;
		CUcontext context;
	} blocking[STREAMS];
	_Atomic uint32_t made;	   /* calls that may not be over */
	_Atomic uint32_t unlisted; /* streams for which there was no room in `blocking` */
} held;

/* The prototypes are cuda/api.def's; the stream is called `stream`. PTSZ: NULL is the thread's own.
 */
#define WAITS_32   (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
#define WAITS_64   (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
#define BATCHES	   (CUstream stream, unsigned count, CUstreamBatchMemOpParams *ops, unsigned flags)
#define CALLS_IN   (CUstream stream, CUhostFn function, void *data)
#define CALLS_BACK (CUstream stream, CUstreamCallback function, void *data, unsigned flags)
#define SEMAPHORES                                                                                 \
	(const CUexternalSemaphore *semaphores,                                                    \
	 const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1 *each, unsigned count, CUstream stream)
#define HOLDING(X)                                                                                 \
	X(cuStreamWaitValue32, WAITS_32, (stream, address, value, flags))                          \
	X(cuStreamWaitValue32_v2, WAITS_32, (stream, address, value, flags))                       \
	X(cuStreamWaitValue32_ptsz, WAITS_32, (stream, address, value, flags))                     \
	X(cuStreamWaitValue32_v2_ptsz, WAITS_32, (stream, address, value, flags))                  \
	X(cuStreamWaitValue64, WAITS_64, (stream, address, value, flags))                          \
	X(cuStreamWaitValue64_v2, WAITS_64, (stream, address, value, flags))                       \
	X(cuStreamWaitValue64_ptsz, WAITS_64, (stream, address, value, flags))                     \
	X(cuStreamWaitValue64_v2_ptsz, WAITS_64, (stream, address, value, flags))                  \
	X(cuStreamBatchMemOp, BATCHES, (stream, count, ops, flags))                                \
	X(cuStreamBatchMemOp_v2, BATCHES, (stream, count, ops, flags))                             \
	X(cuStreamBatchMemOp_ptsz, BATCHES, (stream, count, ops, flags))                           \
	X(cuStreamBatchMemOp_v2_ptsz, BATCHES, (stream, count, ops, flags))                        \
	X(cuLaunchHostFunc, CALLS_IN, (stream, function, data))                                    \
	X(cuLaunchHostFunc_ptsz, CALLS_IN, (stream, function, data))                               \
	X(cuStreamAddCallback, CALLS_BACK, (stream, function, data, flags))                        \
	X(cuStreamAddCallback_ptsz, CALLS_BACK, (stream, function, data, flags))                   \
	X(cuWaitExternalSemaphoresAsync, SEMAPHORES, (semaphores, each, count, stream))            \
	X(cuWaitExternalSemaphoresAsync_ptsz, SEMAPHORES, (semaphores, each, count, stream))

static struct {
#define MEMBER(symbol, parameters, arguments) api_fn_##symbol *symbol;
	HOLDING(MEMBER)
#undef MEMBER
} driver;

/* ---- calls ----------------------------------------------------------------------------------- */

/* With the lock held. */
static bool is_over(struct call *call)
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
static void drop_events(struct call *call)
{
	if (call->context) {
		best_effort(real(cuEventDestroy_v2)(call->before));
		best_effort(real(cuEventDestroy_v2)(call->behind));
	}
	call->context = NULL;
}

/* The next place; NULL: it is taken. The driver is asked once only, as it is by each call.
 * Otherwise the call has BEGUN, and is the caller's; its events are of this context, if of any. */
static struct call *take_call(CUcontext context)
{
	struct signals before;
	struct call *call;

	lock(&before);
	call = &held.call[held.next++ % CALLS];
	if (!is_over(call)) {
		call = NULL;
	} else {
		call->state = BEGUN;
		if (call->context != context)
			drop_events(call);
	}
	unlock(&before);
	return call;
}

/* Unless its context has left meanwhile. */
static void set(struct call *call, CUstream stream, enum state state)
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

static bool give_events(struct call *call, CUcontext context)
{
	CUcontext popped;
	CUresult r;

	if (call->context == context)
		return true;
	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return false;
	r = real(cuEventCreate)(&call->before, CU_EVENT_DISABLE_TIMING);
	if (r == CUDA_SUCCESS) {
		r = real(cuEventCreate)(&call->behind, CU_EVENT_DISABLE_TIMING);
		if (r != CUDA_SUCCESS)
			best_effort(real(cuEventDestroy_v2)(call->before));
	}
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	if (r == CUDA_SUCCESS)
		call->context = context;
	return r == CUDA_SUCCESS;
}

static CUstream named(CUstream stream, bool own)
{
	if (stream)
		return stream;
	return own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Not of a call that the driver makes inside another one, nor into a capture, where nothing is
 * submitted. An event is recorded without the lock: where the stream's queue is full that lasts
 * until the stream gets on, perhaps by another thread's call. */
static struct call *begin(CUstream stream, const void *caller)
{
	CUstreamCaptureMode mode;
	struct call *call;
	CUcontext context;

	if (real_is_driver(caller) ||
	    real_is_driver((const void *)(uintptr_t)guest_slot->return_address) || capture_open())
		return NULL;
	context = flight_context(stream);
	if (!context || stream == CU_STREAM_PER_THREAD)
		return NULL;
	mode = flight_relax();
	call = take_call(context);
	if (call && (!give_events(call, context) ||
		     real(cuEventRecord)(call->before, stream) != CUDA_SUCCESS)) {
		set(call, NULL, OVER);
		call = NULL;
	}
	flight_restore(mode);
	return call;
}

static void end(struct call *call, CUstream stream)
{
	if (call)
		set(call, stream,
		    real(cuEventRecord)(call->behind, stream) == CUDA_SUCCESS ? MADE : OVER);
}

#define BETWEEN(symbol, parameters, arguments)                                                     \
	static CUresult between_##symbol parameters                                                \
	{                                                                                          \
		CUstream at = named(stream, api_rows[API_##symbol].stream != API_PLAIN);           \
		struct call *call = begin(at, __builtin_return_address(0));                        \
		CUresult r = driver.symbol arguments;                                              \
		end(call, at);                                                                     \
		return r;                                                                          \
	}
HOLDING(BETWEEN)
#undef BETWEEN

void held_begin(void)
{
	static _Atomic uint32_t begun;

	if (atomic_exchange(&begun, 1))
		return;
#define INSERT(symbol, parameters, arguments)                                                      \
	driver.symbol = real_function(symbol);                                                     \
	real_between(API_##symbol, (void *)between_##symbol);
	HOLDING(INSERT)
#undef INSERT
}

/* ---- what is held ---------------------------------------------------------------------------- */

bool held_any(void)
{
	return atomic_load(&held.made) != 0;
}

/* With the lock held. The stream is between the two events of a call. */
static bool stands(CUcontext context, CUstream stream)
{
	for (uint32_t i = 0; i < CALLS; i++) {
		struct call *call = &held.call[i];

		if (call->state == MADE && call->context == context && call->stream == stream &&
		    !is_over(call) && real(cuEventQuery)(call->before) == CUDA_SUCCESS)
			return true;
	}
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
	return any && !atomic_load(&held.unlisted) && !flight_own_streams();
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

bool held_all(int device)
{
	return !contexts_busy(device, holds);
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

void held_stream_ends(CUstream stream)
{
	struct signals before;

	lock(&before);
	for (uint32_t i = 0; stream && i < STREAMS; i++)
		if (held.blocking[i].stream == stream)
			held.blocking[i].stream = NULL;
	/* The handle may be another stream's soon. */
	for (uint32_t i = 0; stream && i < CALLS; i++)
		if (held.call[i].stream == stream)
			held.call[i].stream = NULL;
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
		held.call[i] = (struct call){.context = NULL};
	}
	for (uint32_t i = 0; context && i < STREAMS; i++)
		if (held.blocking[i].context == context)
			held.blocking[i].stream = NULL;
	unlock(&before);
}

void held_forget(void)
{
	memset(&held, 0, sizeof(held));
}
