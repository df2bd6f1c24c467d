/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts.h"

#include <stdatomic.h>
#include <string.h>

#include "guest/futex.h"
#include "guest/real.h"

/* A context and its device in one word, so that readers need no lock: 0 is free. */
#define PACK(context, device) (((uint64_t)(uintptr_t)(context) << 6) | (uint64_t)((device) + 2))
#define CONTEXT_OF(word)      ((CUcontext)(uintptr_t)((word) >> 6))
#define DEVICE_OF(word)	      ((int)((word)&63) - 2)

struct stream {
	CUstream stream;
	CUcontext context;
};

static struct {
	_Atomic uint64_t known[CONTEXTS];
	_Atomic uint32_t leaving; /* contexts being destroyed */
	_Atomic uint32_t unlisted_streams;
	struct futex_lock lock; /* of what follows, and of the driver's handles in it */
	CUevent tail[CONTEXTS];
	uint8_t recorded[CONTEXTS]; /* for the drain under way */
	uint8_t complete[CONTEXTS];
	struct stream stream[CONTEXTS_STREAMS];
	uint32_t streams; /* places in use are below this */
} contexts;

int contexts_device(CUcontext context)
{
	for (int i = 0; i < CONTEXTS; i++) {
		uint64_t word = atomic_load_explicit(&contexts.known[i], memory_order_acquire);

		if (word && CONTEXT_OF(word) == context)
			return DEVICE_OF(word);
	}
	return -2;
}

void contexts_add(CUcontext context, int device)
{
	int place = -1;

	if (!context)
		return;
	futex_lock_take(&contexts.lock);
	for (int i = 0; i < CONTEXTS; i++) {
		uint64_t word = atomic_load(&contexts.known[i]);

		if (word && CONTEXT_OF(word) == context) {
			place = i;
			break;
		}
		if (!word && place < 0)
			place = i;
	}
	if (place >= 0) {
		if (!atomic_load(&contexts.known[place])) {
			contexts.tail[place] = NULL;
			contexts.recorded[place] = contexts.complete[place] = 0;
		}
		atomic_store(&contexts.known[place], PACK(context, device));
	}
	futex_lock_give(&contexts.lock);
}

/* With the lock held. The event died, or dies, with its context. */
static void drop(int place)
{
	CUcontext context = CONTEXT_OF(atomic_load(&contexts.known[place]));

	for (uint32_t i = 0; i < contexts.streams; i++)
		if (contexts.stream[i].context == context)
			contexts.stream[i] = (struct stream){NULL, NULL};
	contexts.tail[place] = NULL;
	atomic_store(&contexts.known[place], 0);
}

void contexts_leave(CUcontext context)
{
	atomic_fetch_add(&contexts.leaving, 1);
	futex_lock_take(&contexts.lock);
	for (int i = 0; i < CONTEXTS; i++) {
		uint64_t word = atomic_load(&contexts.known[i]);

		if (word && CONTEXT_OF(word) == context)
			drop(i);
	}
	futex_lock_give(&contexts.lock);
}

void contexts_gone(void)
{
	atomic_fetch_sub(&contexts.leaving, 1);
}

void contexts_stream_add(CUstream stream)
{
	CUcontext context = NULL;
	uint32_t i = 0;

	if (!stream || real(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS || !context)
		return;
	futex_lock_take(&contexts.lock);
	while (i < contexts.streams && contexts.stream[i].stream)
		i++;
	if (i < CONTEXTS_STREAMS) {
		contexts.stream[i] = (struct stream){stream, context};
		if (i == contexts.streams)
			contexts.streams++;
	} else {
		/* A drain then relies on the last step, which waits for all of a context. */
		atomic_fetch_add(&contexts.unlisted_streams, 1);
	}
	futex_lock_give(&contexts.lock);
}

void contexts_stream_remove(CUstream stream)
{
	futex_lock_take(&contexts.lock);
	for (uint32_t i = 0; i < contexts.streams; i++)
		if (stream && contexts.stream[i].stream == stream)
			contexts.stream[i] = (struct stream){NULL, NULL};
	futex_lock_give(&contexts.lock);
}

void contexts_drain_start(int device)
{
	futex_lock_take(&contexts.lock);
	for (int i = 0; i < CONTEXTS; i++) {
		uint64_t word = atomic_load(&contexts.known[i]);

		if (word && (DEVICE_OF(word) == device || DEVICE_OF(word) < 0))
			contexts.recorded[i] = contexts.complete[i] = 0;
	}
	futex_lock_give(&contexts.lock);
}

/* Is everything on the streams that order themselves with the legacy stream done? Any error but
 * "not ready" means a context that is gone or broken, in which nothing runs any more. */
static int tail_busy(int place)
{
	CUresult r = CUDA_SUCCESS;

	if (!contexts.tail[place])
		r = real(cuEventCreate)(&contexts.tail[place], CU_EVENT_DISABLE_TIMING);
	if (r == CUDA_SUCCESS && !contexts.recorded[place]) {
		r = real(cuEventRecord)(contexts.tail[place], CU_STREAM_LEGACY);
		contexts.recorded[place] = 1;
	}
	if (r == CUDA_SUCCESS)
		r = real(cuEventQuery)(contexts.tail[place]);
	return r == CUDA_ERROR_NOT_READY;
}

static int streams_busy(CUcontext context)
{
	for (uint32_t i = 0; i < contexts.streams; i++)
		if (contexts.stream[i].stream && contexts.stream[i].context == context &&
		    real(cuStreamQuery)(contexts.stream[i].stream) == CUDA_ERROR_NOT_READY)
			return 1;
	return 0;
}

/* With the lock held, so that nobody destroys what is looked at. */
static int context_busy(int place)
{
	CUcontext context = CONTEXT_OF(atomic_load(&contexts.known[place])), popped;
	int busy;

	if (contexts.complete[place])
		return 0;
	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS) {
		drop(place);
		return 0;
	}
	busy = tail_busy(place) || streams_busy(context);
	if (!busy) {
		/* All that we know of is complete: this waits only for what nobody told us of. */
		best_effort(real(cuCtxSynchronize)());
		contexts.complete[place] = 1;
	}
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	return busy;
}

int contexts_drain_step(int device)
{
	int busy = 0;

	futex_lock_take(&contexts.lock);
	for (int i = 0; i < CONTEXTS && !busy; i++) {
		uint64_t word = atomic_load(&contexts.known[i]);

		if (word && (DEVICE_OF(word) == device || DEVICE_OF(word) < 0))
			busy = context_busy(i);
	}
	futex_lock_give(&contexts.lock);
	if (atomic_load(&contexts.leaving))
		busy = 1;
	return busy ? CONTEXTS_BUSY : 0;
}

void contexts_forget(void)
{
	memset(&contexts, 0, sizeof(contexts));
}
