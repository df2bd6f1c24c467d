/* SPDX-License-Identifier: Apache-2.0 */
/* The events of the law driver: how far each stream was when they were recorded. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/drivers/law_inside.h"

SPECIAL(cuEventCreate);
SPECIAL(cuEventRecord);
SPECIAL(cuCtxRecordEvent);
SPECIAL(cuEventQuery);
SPECIAL(cuEventElapsedTime);
SPECIAL(cuEventDestroy_v2);

struct law_event {
	uint64_t tail[LAW_STREAMS];
	uint64_t before; /* submissions to all law_streams */
};

/* Behind everything that the streams for which `is_behind` have so far. */
static void record(struct law_event *e, const struct law_stream *on, int device,
		   int (*is_behind)(const struct law_stream *s, const struct law_stream *on))
{
	memset(e->tail, 0, sizeof(e->tail));
	e->before = __atomic_load_n(&law_state->submissions, __ATOMIC_RELAXED);
	for (int i = 0; i < LAW_STREAMS; i++) {
		struct law_stream *s = &law_streams[i];

		if (!__atomic_load_n(&s->used, __ATOMIC_ACQUIRE) || law_device_of(s) != device ||
		    !is_behind(s, on))
			continue;
		pthread_mutex_lock(&s->lock);
		e->tail[i] = s->submitted;
		pthread_mutex_unlock(&s->lock);
	}
}

static int is_any(const struct law_stream *s, const struct law_stream *on)
{
	(void)s, (void)on;
	return 1;
}

static int is_blocking(const struct law_stream *s, const struct law_stream *on)
{
	(void)on;
	return __atomic_load_n(&s->blocking, __ATOMIC_SEQ_CST);
}

static int is_same(const struct law_stream *s, const struct law_stream *on)
{
	return s == on;
}

/* The answer for work that is not complete, unless the test lets it complete. */
CUresult law_unready(void)
{
	int (*function)(void) = __atomic_load_n(&law_state->unready, __ATOMIC_ACQUIRE);
	struct law_event now;

	if (!function)
		return CUDA_ERROR_NOT_READY;
	record(&now, NULL, law_device_now(), is_any);
	if (!function())
		return CUDA_ERROR_NOT_READY;
	for (int i = 0; i < LAW_STREAMS; i++)
		if (now.tail[i])
			law_wait_until(&law_streams[i], now.tail[i]);
	return CUDA_SUCCESS;
}

CUresult special_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct law_event *event = calloc(1, sizeof(*event));

	(void)Flags;
	*phEvent = (CUevent)event;
	return event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult special_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	struct law_stream *on = law_stream_of(hStream);

	/* The program's graph would have it. */
	if (__atomic_load_n(&on->capturing, __ATOMIC_SEQ_CST))
		law_add(&law_state->bad_calls);
	if (law_is_legacy(on) && law_anybody_captures(1)) {
		law_add(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	record((struct law_event *)hEvent, on, law_device_of(on),
	       law_is_legacy(on) ? is_blocking : is_same);
	return CUDA_SUCCESS;
}

/* From CUDA 12.5 on; METE_TEST_OLD: a driver of before. */
CUresult special_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	if (getenv("METE_TEST_OLD"))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (law_anybody_captures(0)) {
		law_add(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	record((struct law_event *)hEvent, NULL, hCtx == (CUcontext)0x2000, is_any);
	return CUDA_SUCCESS;
}

CUresult special_cuEventQuery(CUevent hEvent)
{
	struct law_event *e = (struct law_event *)hEvent;

	for (int i = 0; i < LAW_STREAMS; i++)
		if (e->tail[i] && __atomic_load_n(&law_streams[i].used, __ATOMIC_ACQUIRE) &&
		    law_is_busy(&law_streams[i], e->tail[i]))
			return law_unready();
	return CUDA_SUCCESS;
}

/* So much for each call that was submitted in between. */
CUresult special_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct law_event *from = (struct law_event *)hStart, *to = (struct law_event *)hEnd;
	uint32_t us = law_state->call_us ? law_state->call_us : 10;

	if (special_cuEventQuery(hStart) || special_cuEventQuery(hEnd))
		return CUDA_ERROR_NOT_READY;
	*pMilliseconds = (float)(to->before - from->before) * (float)us / 1000;
	return CUDA_SUCCESS;
}

CUresult special_cuEventDestroy_v2(CUevent hEvent)
{
	free(hEvent);
	return CUDA_SUCCESS;
}
