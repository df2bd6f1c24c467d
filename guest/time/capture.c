/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/join.h"
#include "guest/time/capture.h"
#include "guest/time/capture_inside.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/driver_lock.h"
#include "guest/futex.h"
#include "guest/hooks.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/time/gate.h"

enum {
	CAPTURES_FIRST = 32,   /* places without an allocation */
	ENDING_YIELDS = 10000, /* for calls into a capture that is about to end; they are short */
};

struct capture {
	CUstream stream;   /* NULL: a free place */
	CUcontext context; /* the stream's, with which it ends */
	uint32_t thread;   /* the stream's thread, for CU_STREAM_PER_THREAD */
	uint32_t opener;   /* the thread that began it */
	bool bound;	   /* no other thread may end it */
	uint64_t serial;   /* from 1; tells a capture from a later one of the same stream */
	CUevent before;	   /* after the stream's earlier work; NULL: none, see event_before() */
};

static struct {
	struct futex_lock lock; /* of the table */
	struct capture first[CAPTURES_FIRST];
	struct capture *more; /* instead of `first`, if that is too small */
	uint32_t room;	      /* in `more` */
	uint32_t promised;    /* places that are kept for captures that are about to begin */
	uint64_t last_serial;
	struct driver_lock end_lock; /* one capture ends at a time ... */
	_Atomic uint32_t ending;     /* ... and meanwhile no thread passes a closed gate */
	_Atomic uint32_t kept_out;   /* the agent makes calls that a capture does not survive */
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

static uint32_t places(void)
{
	return captures.more ? captures.room : (uint32_t)CAPTURES_FIRST;
}

static struct capture *place_at(uint32_t i)
{
	return captures.more ? &captures.more[i] : &captures.first[i];
}

/* With the lock held. */
static struct capture *find(CUstream stream, uint32_t thread)
{
	for (uint32_t i = 0; i < places(); i++)
		if (place_at(i)->stream == stream && place_at(i)->thread == thread)
			return place_at(i);
	return NULL;
}

/* With the lock held. */
static bool more_room(void)
{
	uint32_t room = 2 * places();
	int saved = errno;
	struct capture *more = mmap(NULL, room * sizeof(*more), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	if (more == MAP_FAILED)
		return false;
	memcpy(more, place_at(0), places() * sizeof(*more));
	if (captures.more)
		munmap(captures.more, places() * sizeof(*more));
	captures.more = more;
	captures.room = room;
	return true;
}

/* A capture that cannot be noted must not begin: its end would not be noticed, and a close would
 * wait for ever. */
static bool promise_place(void)
{
	uint32_t used = 0;
	bool enough = true;

	futex_lock_take(&captures.lock);
	for (uint32_t i = 0; i < places(); i++)
		used += place_at(i)->stream != NULL;
	if (used + captures.promised >= places())
		enough = more_room();
	if (enough)
		captures.promised++;
	futex_lock_give(&captures.lock);
	return enough;
}

static void count(int change)
{
	uint32_t now = atomic_fetch_add(&state.captures, (uint32_t)change) + (uint32_t)change;

	__atomic_store_n(&guest_own_page.captures, now, __ATOMIC_RELAXED);
}

static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult r = real(cuStreamIsCapturing)(stream, &status);

	/* IMPLICIT: the legacy stream, while another one is being captured: the call will fail. */
	return r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
	       (r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Announces first, then checks whether a capture is ending: capture_end() does it in the reverse
 * order. */
bool capture_enter(struct presence_slot *slot, CUstream stream)
{
	while (capture_open()) {
		__atomic_store_n(&slot->captured_at,
				 __atomic_load_n(&slot->countdown, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
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

/* With the lock held. Are all captures, including those that are about to begin, such that they do
 * not hold up a drain? */
static bool all_quiet(void)
{
	uint32_t quiet = 0;

	for (uint32_t i = 0; i < places(); i++) {
		const struct capture *c = place_at(i);

		if (c->stream && c->before && real(cuEventQuery)(c->before) != CUDA_ERROR_NOT_READY)
			quiet++;
	}
	return quiet == atomic_load(&state.captures);
}

enum capture_hold capture_hold(void)
{
	bool quiet;

	if (capture_keep_out())
		return CAPTURE_NONE;
	atomic_store(&captures.kept_out, 1);
	atomic_thread_fence(memory_order_seq_cst);
	futex_lock_take(&captures.lock);
	quiet = all_quiet();
	futex_lock_give(&captures.lock);
	if (quiet)
		return CAPTURE_QUIET;
	atomic_store(&captures.kept_out, 0);
	return CAPTURE_LOUD;
}

bool capture_is_known(CUstream stream)
{
	bool known;

	futex_lock_take(&captures.lock);
	known = find(stream, 0) != NULL;
	futex_lock_give(&captures.lock);
	return known;
}

void capture_let_in(void)
{
	atomic_store(&captures.kept_out, 0);
}

/* Searches the table instead of keeping a count per thread: a capture may be ended by another
 * thread, or the agent may notice its end first. */
static bool opened_here(void)
{
	uint32_t thread = own_thread();
	bool found = false;

	futex_lock_take(&captures.lock);
	for (uint32_t i = 0; i < places() && !found; i++)
		found = place_at(i)->stream && place_at(i)->opener == thread;
	futex_lock_give(&captures.lock);
	return found;
}

static CUresult not_begun(CUresult r)
{
	futex_lock_take(&captures.lock);
	captures.promised--;
	futex_lock_give(&captures.lock);
	return r;
}

static bool turns_are_taken(void)
{
	for (int i = 0; i < WIRE_DEVICES; i++)
		if (__atomic_load_n(&guest_tenant_page.turns[i].reports, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* An event after the stream's earlier work, so that the capture does not hold up a drain: a stream
 * that is being captured cannot be queried. Only for a stream for which the legacy stream does not
 * wait, as the legacy stream could not be queried either. NULL: a drain will wait for the capture.
 */
static CUevent event_before(CUstream stream)
{
	bool own = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUcontext context, popped;
	CUevent event = NULL;
	unsigned flags = 0;

	if (own || !turns_are_taken() || real(cuStreamGetFlags)(stream, &flags) != CUDA_SUCCESS ||
	    !(flags & CU_STREAM_NON_BLOCKING) ||
	    real(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS ||
	    real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return NULL;
	best_effort(real(cuThreadExchangeStreamCaptureMode)(&mode));
	if (real(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		event = NULL;
	if (event && real(cuEventRecord)(event, stream) != CUDA_SUCCESS) {
		best_effort(real(cuEventDestroy_v2)(event));
		event = NULL;
	}
	best_effort(real(cuThreadExchangeStreamCaptureMode)(&mode));
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	return event;
}

static void forget_event(CUevent event)
{
	if (event)
		best_effort(real(cuEventDestroy_v2)(event));
}

/* Counts the capture before it checks the gate: a close does it in the reverse order. */
CUresult capture_begin(CUstream stream, CUevent *ret_before)
{
	CUresult r = state_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!promise_place())
		return CUDA_ERROR_OUT_OF_MEMORY;
	count(1);
	/* A thread with an open capture must not wait here: it could never end that capture. */
	while (__atomic_load_n(&guest_tenant_page.not_open, __ATOMIC_SEQ_CST) && !opened_here()) {
		count(-1);
		r = (CUresult)gate_wait(-1);
		if (r != CUDA_SUCCESS)
			return not_begun(r);
		count(1);
	}
	atomic_thread_fence(memory_order_seq_cst);
	while (atomic_load(&captures.kept_out))
		sched_yield();
	*ret_before = event_before(stream);
	return CUDA_SUCCESS;
}

CUresult capture_begun(CUstream stream, CUevent before, CUresult r, CUstreamCaptureMode mode)
{
	CUcontext context;
	struct capture *place;

	if (r != CUDA_SUCCESS) {
		forget_event(before);
		count(-1);
		return not_begun(r);
	}
	context = contexts_of_stream(stream);
	futex_lock_take(&captures.lock);
	captures.promised--;
	place = find(NULL, 0);
	if (place)
		*place = (struct capture){.stream = stream,
					  .context = context,
					  .thread = thread_of(stream),
					  .opener = own_thread(),
					  .bound = mode != CU_STREAM_CAPTURE_MODE_RELAXED ||
						   stream == CU_STREAM_PER_THREAD,
					  .serial = ++captures.last_serial,
					  .before = before};
	futex_lock_give(&captures.lock);
	return r;
}

/* With the lock held. Returns its event, for forget_event() without the lock. */
static CUevent closed(struct capture *place)
{
	CUevent before = place->before;

	*place = (struct capture){.stream = NULL};
	count(-1);
	return before;
}

struct capture_ending capture_end(CUstream stream)
{
	struct capture_ending which = {0, false};
	struct capture *place;

	futex_lock_take(&captures.lock);
	place = stream ? find(stream, thread_of(stream)) : NULL;
	if (place)
		which.serial = place->serial;
	futex_lock_give(&captures.lock);
	which.mine = driver_lock_take(&captures.end_lock);
	atomic_store(&captures.ending, 1);
	atomic_thread_fence(memory_order_seq_cst);
	for (int i = 0; i < ENDING_YIELDS && presence_captures(guest_slot); i++)
		sched_yield();
	return which;
}

/* After the driver's answer the agent may notice the end, and other threads may begin the next
 * capture. */
CUresult capture_ended(CUstream stream, struct capture_ending which, CUresult r)
{
	struct capture *place;
	CUevent before = NULL;

	atomic_store(&captures.ending, 0);
	driver_lock_give(&captures.end_lock, which.mine);
	/* Some failures end the capture and some do not. */
	if (stream && (r == CUDA_SUCCESS || !is_capturing(stream))) {
		futex_lock_take(&captures.lock);
		place = find(stream, thread_of(stream));
		if (place && place->serial == which.serial)
			before = closed(place);
		futex_lock_give(&captures.lock);
	}
	forget_event(before);
	return r;
}

void capture_forget_stream(CUstream stream)
{
	struct capture *place;
	CUevent before = NULL;

	if (!capture_open() || !stream)
		return;
	futex_lock_take(&captures.lock);
	place = find(stream, 0);
	if (place)
		before = closed(place);
	futex_lock_give(&captures.lock);
	forget_event(before);
}

/* Their events have gone with it. */
void capture_context_gone(CUcontext context)
{
	if (!capture_open() || !context)
		return;
	futex_lock_take(&captures.lock);
	for (uint32_t i = 0; i < places(); i++)
		if (place_at(i)->stream && place_at(i)->context == context)
			(void)closed(place_at(i));
	futex_lock_give(&captures.lock);
}

/* The only thread that could end it has ended itself. */
static bool never_ends(const struct capture *c)
{
	int saved = errno;
	bool gone =
		c->bound && syscall(SYS_tgkill, getpid(), (int)c->opener, 0) != 0 && errno == ESRCH;

	errno = saved;
	return gone;
}

unsigned capture_count(void)
{
	if (!capture_open())
		return 0;
	futex_lock_take(&captures.lock);
	for (uint32_t i = 0; i < places(); i++) {
		struct capture *c = place_at(i);

		if (c->stream && (never_ends(c) ||
				  (c->stream != CU_STREAM_PER_THREAD && !is_capturing(c->stream))))
			(void)closed(
				c); /* the event is not destroyed, as its context may be gone */
	}
	futex_lock_give(&captures.lock);
	return atomic_load(&state.captures);
}

void capture_forget(void)
{
	if (captures.more)
		munmap(captures.more, captures.room * sizeof(*captures.more));
	memset(&captures, 0, sizeof(captures));
}

CUstreamCaptureMode capture_relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (real(cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
		mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	return mode;
}

void capture_restore(CUstreamCaptureMode mode)
{
	best_effort(real(cuThreadExchangeStreamCaptureMode)(&mode));
}
