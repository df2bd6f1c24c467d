/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/contexts.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/contexts/current.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/process/parts.h"

/* A context and its device in one word, so that readers need no lock: 0 is free. */
#define PACK(context, device) (((uint64_t)(uintptr_t)(context) << 6) | (uint64_t)((device) + 2))
#define CONTEXT_OF(word)      ((CUcontext)(uintptr_t)((word) >> 6))
#define DEVICE_OF(word)	      ((int)((word)&63) - 2)

enum {
	CONTEXTS_FIRST = 64, /* places without an allocation */
	CHUNK_BYTES = 4096,
	STREAMS_FIRST = 128, /* likewise; then twice as many, again and again */
};

struct place {
	_Atomic uint64_t known;
	CUevent tail;
	uint8_t recorded; /* for the drain under way, ... */
	uint8_t all;	  /* ... behind the work of all streams */
	uint8_t complete;
};

/* An array of places. A chunk that was added stays, so that readers need no lock. */
struct chunk {
	_Atomic(struct chunk *) next;
	unsigned places;
	struct place place[CONTEXTS_FIRST];
};

#define CHUNK_PLACES ((CHUNK_BYTES - offsetof(struct chunk, place)) / sizeof(struct place))

_Static_assert(CHUNK_PLACES >= CONTEXTS_FIRST, "a chunk is a page");

struct stream {
	CUstream stream;
	CUcontext context;
};

static struct {
	struct chunk first;
	_Atomic uint32_t leaving;    /* contexts being destroyed */
	_Atomic uint32_t unlisted;   /* contexts for which there was no memory */
	_Atomic uint32_t waited_for; /* the agent waits in `waits_in`, without the lock */
	struct futex_lock lock;	     /* of the following, and of the driver's handles in it */
	struct stream first_stream[STREAMS_FIRST];
	struct stream *more; /* instead of `first_stream`, if that is too small */
	uint32_t streams;    /* places in use are below this */
	uint32_t room;	     /* in `more` */
	bool no_tail;	     /* the driver has no event of a whole context */
	uint32_t last_busy;  /* the last stream that was seen to have work */
	CUcontext waits_in;  /* the agent's; written by it alone */
} contexts;

static unsigned places_of(const struct chunk *chunk)
{
	return chunk == &contexts.first ? (unsigned)CONTEXTS_FIRST : chunk->places;
}

/* A loop over all chunks. */
#define each_chunk(chunk)                                                                          \
	for (struct chunk *chunk = &contexts.first; chunk; chunk = atomic_load(&chunk->next))

static struct place *find(CUcontext context)
{
	each_chunk(chunk)
	{
		for (unsigned i = 0; i < places_of(chunk); i++) {
			uint64_t word =
				atomic_load_explicit(&chunk->place[i].known, memory_order_acquire);

			if (word && CONTEXT_OF(word) == context)
				return &chunk->place[i];
		}
	}
	return NULL;
}

int contexts_device(CUcontext context)
{
	const struct place *place = find(context);
	uint64_t word = place ? atomic_load_explicit(&place->known, memory_order_acquire) : 0;

	return word && CONTEXT_OF(word) == context ? DEVICE_OF(word) : -2;
}

CUcontext contexts_some(int device)
{
	each_chunk(chunk)
	{
		for (unsigned i = 0; i < places_of(chunk); i++) {
			uint64_t word =
				atomic_load_explicit(&chunk->place[i].known, memory_order_acquire);

			if (word && DEVICE_OF(word) == device)
				return CONTEXT_OF(word);
		}
	}
	return NULL;
}

bool contexts_only(CUcontext context)
{
	if (atomic_load(&contexts.unlisted))
		return false;
	each_chunk(chunk)
	{
		for (unsigned i = 0; i < places_of(chunk); i++) {
			uint64_t word =
				atomic_load_explicit(&chunk->place[i].known, memory_order_acquire);

			if (word && CONTEXT_OF(word) != context)
				return false;
		}
	}
	return true;
}

static void *map(size_t bytes)
{
	int saved = errno;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	return memory == MAP_FAILED ? NULL : memory;
}

/* With the lock held. NULL: no memory. */
static struct place *free_place(void)
{
	struct chunk *last = &contexts.first, *more;

	each_chunk(chunk)
	{
		last = chunk;
		for (unsigned i = 0; i < places_of(chunk); i++)
			if (atomic_load(&chunk->place[i].known) == 0)
				return &chunk->place[i];
	}
	more = map(CHUNK_BYTES);
	if (!more)
		return NULL;
	more->places = CHUNK_PLACES;
	atomic_store(&last->next, more);
	return &more->place[0];
}

void contexts_add(CUcontext context, int device)
{
	struct place *place;

	if (!context)
		return;
	futex_lock_take(&contexts.lock);
	place = find(context);
	if (!place) {
		place = free_place();
		if (place) {
			place->tail = NULL;
			place->recorded = place->all = place->complete = 0;
		} else {
			/* We cannot tell whether its work is done. */
			atomic_fetch_add(&contexts.unlisted, 1);
		}
	}
	if (place && atomic_exchange(&place->known, PACK(context, device)) == 0)
		current_changed(); /* no context is the only one any more */
	futex_lock_give(&contexts.lock);
}

static struct stream *streams_(void)
{
	return contexts.more ? contexts.more : contexts.first_stream;
}

/* With the lock held. The event ends with its context. */
static void drop(struct place *place)
{
	CUcontext context = CONTEXT_OF(atomic_load(&place->known));

	for (uint32_t i = 0; i < contexts.streams; i++)
		if (streams_()[i].context == context)
			streams_()[i] = (struct stream){NULL, NULL};
	place->tail = NULL;
	atomic_store(&place->known, 0);
}

/* With the lock held. Waits until the agent no longer waits in the context. This may take long, but
 * destroying a context waits for its work anyway. */
static void wait_for_agent(CUcontext context)
{
	while (context && contexts.waits_in == context) {
		uint32_t word = atomic_load(&contexts.waited_for);

		futex_lock_give(&contexts.lock);
		futex_wait(&contexts.waited_for, word, 100, FUTEX_PRIVATE_FLAG);
		futex_lock_take(&contexts.lock);
	}
}

void contexts_still(CUcontext context)
{
	atomic_fetch_add(&contexts.leaving, 1);
	futex_lock_take(&contexts.lock);
	wait_for_agent(context);
	futex_lock_give(&contexts.lock);
}

void contexts_drop(CUcontext context)
{
	struct place *place;

	futex_lock_take(&contexts.lock);
	place = find(context);
	if (place)
		drop(place);
	futex_lock_give(&contexts.lock);
}

void contexts_gone(void)
{
	atomic_fetch_sub(&contexts.leaving, 1);
}

/* With the lock held. Makes room for twice as many. */
static bool more_room(void)
{
	uint32_t room = contexts.more ? contexts.room : (uint32_t)STREAMS_FIRST;
	struct stream *more = map(2 * room * sizeof(*more));

	if (!more)
		return false;
	memcpy(more, streams_(), room * sizeof(*more));
	if (contexts.more)
		munmap(contexts.more, room * sizeof(*more));
	contexts.more = more;
	contexts.room = 2 * room;
	return true;
}

bool contexts_stream_add(CUstream stream)
{
	CUcontext context = NULL;
	bool noted = true;
	uint32_t i = 0;

	if (!stream || real(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS || !context)
		return true;
	futex_lock_take(&contexts.lock);
	while (i < contexts.streams && streams_()[i].stream)
		i++;
	if (i == (contexts.more ? contexts.room : (uint32_t)STREAMS_FIRST))
		noted = more_room();
	if (noted) {
		streams_()[i] = (struct stream){stream, context};
		if (i == contexts.streams)
			contexts.streams++;
	}
	futex_lock_give(&contexts.lock);
	return noted;
}

void contexts_stream_remove(CUstream stream)
{
	futex_lock_take(&contexts.lock);
	for (uint32_t i = 0; i < contexts.streams; i++)
		if (stream && streams_()[i].stream == stream)
			streams_()[i] = (struct stream){NULL, NULL};
	futex_lock_give(&contexts.lock);
}

/* Is it a context of the device, or of an unknown device? */
static bool concerns(const struct place *place, int device)
{
	uint64_t word = atomic_load(&place->known);

	return word && (DEVICE_OF(word) == device || DEVICE_OF(word) < 0);
}

void contexts_drain_start(int device)
{
	futex_lock_take(&contexts.lock);
	each_chunk(chunk)
	{
		for (unsigned i = 0; i < places_of(chunk); i++)
			if (concerns(&chunk->place[i], device))
				chunk->place[i].recorded = chunk->place[i].all =
					chunk->place[i].complete = 0;
	}
	futex_lock_give(&contexts.lock);
}

/* From CUDA 12.5 on a driver can tell when all work so far of a context is done. */
static bool record_all(struct place *place, CUcontext context)
{
	CUresult r;

	if (contexts.no_tail || !real_has(cuCtxRecordEvent))
		return false;
	r = real(cuCtxRecordEvent)(context, place->tail);
	contexts.no_tail = r == CUDA_ERROR_NOT_SUPPORTED;
	return r == CUDA_SUCCESS;
}

/* Is everything done, or everything on the streams that order themselves with the legacy stream?
 * Any error but "not ready" means a context that is gone or broken, in which nothing runs any more.
 */
static int tail_busy(struct place *place, CUcontext context, bool capturing)
{
	CUresult r = CUDA_SUCCESS;

	if (!place->tail)
		r = real(cuEventCreate)(&place->tail, CU_EVENT_DISABLE_TIMING);
	if (r == CUDA_SUCCESS && !place->recorded) {
		/* Not an event of the whole context, which a capture does not allow. */
		place->all = !capturing && record_all(place, context);
		if (!place->all)
			r = real(cuEventRecord)(place->tail, CU_STREAM_LEGACY);
		place->recorded = 1;
	}
	if (r == CUDA_SUCCESS)
		r = real(cuEventQuery)(place->tail);
	return r == CUDA_ERROR_NOT_READY;
}

/* A stream that is being captured cannot be queried. If its capture is known, its earlier work is
 * complete; a stream that joined a capture by waiting for a captured one counts as busy. */
static bool passed_over(CUstream stream, contexts_known *known, bool *ret_busy)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (real(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
	    status == CU_STREAM_CAPTURE_STATUS_NONE)
		return false;
	*ret_busy = !known(stream);
	return true;
}

static bool stream_busy(uint32_t i, CUcontext context, contexts_known *known, contexts_holds *holds)
{
	const struct stream *s = &streams_()[i];
	bool busy = false;

	if (!s->stream || s->context != context)
		return false;
	if (!known || !passed_over(s->stream, known, &busy))
		busy = real(cuStreamQuery)(s->stream) == CUDA_ERROR_NOT_READY &&
		       !(holds && holds(context, s->stream));
	if (busy)
		contexts.last_busy = i;
	return busy;
}

/* Asks first the stream that was busy before: while it is, the others are not asked. */
static int streams_busy(CUcontext context, contexts_known *known, contexts_holds *holds)
{
	if (contexts.last_busy < contexts.streams &&
	    stream_busy(contexts.last_busy, context, known, holds))
		return 1;
	for (uint32_t i = 0; i < contexts.streams; i++)
		if (stream_busy(i, context, known, holds))
			return 1;
	return 0;
}

/* All work that we know of is complete. If the driver has no event of a whole context, this waits
 * for work that no hook saw. It may take long, so it is done without the lock; the context stays
 * meanwhile. Its place stays, too, but belongs to another context if the program destroyed this one
 * in a way that no hook saw. */
static void wait_for_rest(struct place *place, CUcontext context)
{
	CUcontext popped;

	contexts.waits_in = context;
	futex_lock_give(&contexts.lock);
	best_effort(real(cuCtxSynchronize)());
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	futex_lock_take(&contexts.lock);
	contexts.waits_in = NULL;
	atomic_fetch_add(&contexts.waited_for, 1);
	futex_wake_all(&contexts.waited_for);
	if (CONTEXT_OF(atomic_load(&place->known)) == context)
		place->complete = 1;
}

/* With the lock held, so that no thread destroys the context meanwhile. */
static int context_busy(struct place *place, contexts_known *known)
{
	CUcontext context = CONTEXT_OF(atomic_load(&place->known)), popped;
	int busy;

	if (place->complete)
		return 0;
	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS) {
		drop(place);
		return 0;
	}
	busy = tail_busy(place, context, known != NULL) || streams_busy(context, known, NULL);
	if (!busy && !place->all && !known) {
		wait_for_rest(place, context);
		return 0;
	}
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	place->complete = !busy;
	return busy;
}

int contexts_drain_step(int device, contexts_known *known)
{
	int busy;

	futex_lock_take(&contexts.lock);
	/* A context that may be ending is not checked: contexts_still(). */
	busy = atomic_load(&contexts.leaving) != 0;
	each_chunk(chunk)
	{
		for (unsigned i = 0; i < places_of(chunk) && !busy; i++)
			if (concerns(&chunk->place[i], device))
				busy = context_busy(&chunk->place[i], known);
	}
	futex_lock_give(&contexts.lock);
	if (atomic_load(&contexts.leaving) || atomic_load(&contexts.unlisted))
		busy = 1;
	return busy ? CONTEXTS_BUSY : 0;
}

/* With the lock held. The legacy stream is ready when the blocking ones are. */
static bool seems_busy(struct place *place, contexts_holds *holds)
{
	CUcontext context = CONTEXT_OF(atomic_load(&place->known)), popped;
	bool busy;

	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return false;
	busy = (real(cuStreamQuery)(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY &&
		!(holds && holds(context, CU_STREAM_LEGACY))) ||
	       streams_busy(context, NULL, holds);
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	return busy;
}

bool contexts_busy(int device, contexts_holds *holds)
{
	bool busy = false;

	futex_lock_take(&contexts.lock);
	each_chunk(chunk)
	{
		for (unsigned i = 0; i < places_of(chunk) && !busy; i++)
			if (concerns(&chunk->place[i], device))
				busy = seems_busy(&chunk->place[i], holds);
	}
	futex_lock_give(&contexts.lock);
	return busy || atomic_load(&contexts.leaving) || atomic_load(&contexts.unlisted);
}

void contexts_forget(void)
{
	memset(&contexts, 0, sizeof(contexts));
}

CUcontext contexts_of_stream(CUstream stream)
{
	CUcontext context = NULL;
	bool own = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
	CUresult r = own ? real(cuCtxGetCurrent)(&context) : real(cuStreamGetCtx)(stream, &context);

	return r == CUDA_SUCCESS ? context : NULL;
}
