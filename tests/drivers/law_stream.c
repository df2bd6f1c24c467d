/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of the law driver: a queue and a thread each. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/drivers/law_inside.h"

SPECIAL(cuStreamCreate);
SPECIAL(cuStreamDestroy_v2);

struct law_stream law_streams[LAW_STREAMS];
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

/* The threads do not exist in a child of fork(), and locks that they held would stay locked. */
void law_streams_forget(void)
{
	memset(law_streams, 0, sizeof(law_streams));
	pthread_mutex_init(&table, NULL);
}

static void run(const struct law_op *op)
{
	struct timespec pause = {0, 20000};

	if (op->function)
		op->function(op->argument);
	while (op->word && __atomic_load_n(op->word, __ATOMIC_ACQUIRE) < op->value)
		nanosleep(&pause, NULL);
}

static void *work(void *argument)
{
	struct law_stream *s = argument;
	struct law_op op;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (s->completed == s->submitted && !s->ended)
			pthread_cond_wait(&s->changed, &s->lock);
		if (s->completed == s->submitted)
			break;
		op = s->queue[s->completed % LAW_QUEUE];
		pthread_mutex_unlock(&s->lock);
		run(&op);
		pthread_mutex_lock(&s->lock);
		s->completed++;
		__atomic_fetch_sub(&law_state->outstanding_on[law_device_of(s)], 1,
				   __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&law_state->outstanding, 1, __ATOMIC_SEQ_CST);
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void start(struct law_stream *s, int blocking)
{
	/* A place is used again while other threads read it: the lock stays, and the counts go on.
	 */
	if (!s->ready) {
		pthread_mutex_init(&s->lock, NULL);
		pthread_cond_init(&s->changed, NULL);
		s->ready = 1;
	}
	pthread_mutex_lock(&s->lock);
	s->ended = 0;
	__atomic_store_n(&s->device,
			 s < law_streams + LAW_DEVICES ? (int)(s - law_streams) : law_device_now(),
			 __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&s->lock);
	__atomic_store_n(&s->capturing, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->blocking, blocking, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->used, 1, __ATOMIC_RELEASE);
	if (pthread_create(&s->thread, NULL, work, s) != 0)
		abort();
}

struct law_stream *law_stream_of(CUstream handle)
{
	struct law_stream *s = handle && handle != CU_STREAM_LEGACY
				       ? (struct law_stream *)handle
				       : &law_streams[law_device_now()];

	if (s < law_streams + LAW_DEVICES && !__atomic_load_n(&s->used, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&table);
		if (!__atomic_load_n(&s->used, __ATOMIC_ACQUIRE))
			start(s, 1);
		pthread_mutex_unlock(&table);
	}
	return s;
}

int law_is_legacy(const struct law_stream *s)
{
	return s < law_streams + LAW_DEVICES;
}

int law_device_of(const struct law_stream *s)
{
	return __atomic_load_n(&s->device, __ATOMIC_SEQ_CST);
}

int law_anybody_captures(int blocking_only)
{
	for (int i = 0; i < LAW_STREAMS; i++)
		if (__atomic_load_n(&law_streams[i].used, __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&law_streams[i].capturing, __ATOMIC_SEQ_CST) &&
		    (!blocking_only || __atomic_load_n(&law_streams[i].blocking, __ATOMIC_SEQ_CST)))
			return 1;
	return 0;
}

CUresult law_submit(CUstream handle, struct law_op op)
{
	struct law_stream *s = law_stream_of(handle);

	if (__atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST)) {
		__atomic_fetch_add(&law_state->captured, 1, __ATOMIC_RELAXED);
		return CUDA_SUCCESS;
	}
	law_reach();
	__atomic_fetch_add(&law_state->outstanding, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&law_state->outstanding_on[law_device_of(s)], 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&law_state->acknowledged_on[law_device_of(s)], __ATOMIC_SEQ_CST))
		law_add(&law_state->violations);
	__atomic_fetch_add(&law_state->submissions, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&law_state->acknowledged, __ATOMIC_SEQ_CST))
		law_add(&law_state->violations);
	pthread_mutex_lock(&s->lock);
	while (s->submitted - s->completed == LAW_QUEUE)
		pthread_cond_wait(&s->changed, &s->lock);
	s->queue[s->submitted++ % LAW_QUEUE] = op;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (__atomic_load_n(&law_state->acknowledged, __ATOMIC_SEQ_CST))
		law_add(&law_state->violations);
	return CUDA_SUCCESS;
}

CUresult law_wait_for(struct law_stream *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->completed != s->submitted)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return CUDA_SUCCESS;
}

void law_wait_until(struct law_stream *s, uint64_t tail)
{
	pthread_mutex_lock(&s->lock);
	while (s->completed < tail)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

int law_is_busy(struct law_stream *s, uint64_t tail)
{
	int result;

	pthread_mutex_lock(&s->lock);
	result = s->completed < (tail ? tail : s->submitted);
	pthread_mutex_unlock(&s->lock);
	return result;
}

CUresult special_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&table);
	for (int i = LAW_DEVICES; i < LAW_STREAMS; i++) {
		if (__atomic_load_n(&law_streams[i].used, __ATOMIC_ACQUIRE))
			continue;
		start(&law_streams[i], !(Flags & CU_STREAM_NON_BLOCKING));
		*phStream = (CUstream)&law_streams[i];
		r = CUDA_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&table);
	return r;
}

CUresult special_cuStreamDestroy_v2(CUstream hStream)
{
	struct law_stream *s = (struct law_stream *)hStream;

	pthread_mutex_lock(&s->lock);
	s->ended = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	__atomic_store_n(&s->used, 0, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}
