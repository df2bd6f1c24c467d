/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver in which work completes later, in stream order, on a thread per stream: kernels, copies,
 * host functions and waits for a word. It checks the guest: no submission while the test says that
 * a close is acknowledged, and no call that CUDA forbids while a capture is open.
 *
 * Two devices with a context each (0x1000, 0x2000). Streams: a legacy one for each context, and
 * those that are created.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/mman.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "tests/drivers/law.h"

#define SPECIAL(symbol) __typeof__(symbol) special_##symbol

SPECIAL(cuDriverGetVersion);
SPECIAL(cuDeviceGetUuid);
SPECIAL(cuDeviceGetUuid_v2);
SPECIAL(cuCtxCreate_v2);
SPECIAL(cuCtxGetCurrent);
SPECIAL(cuCtxSetCurrent);
SPECIAL(cuCtxPushCurrent_v2);
SPECIAL(cuCtxPopCurrent_v2);
SPECIAL(cuCtxGetDevice);
SPECIAL(cuStreamGetCtx);
SPECIAL(cuMemAlloc_v2);
SPECIAL(cuStreamCreate);
SPECIAL(cuStreamDestroy_v2);
SPECIAL(cuStreamGetFlags);
SPECIAL(cuStreamQuery);
SPECIAL(cuStreamSynchronize);
SPECIAL(cuStreamIsCapturing);
SPECIAL(cuStreamBeginCapture_v2);
SPECIAL(cuStreamEndCapture);
SPECIAL(cuEventCreate);
SPECIAL(cuEventRecord);
SPECIAL(cuEventQuery);
SPECIAL(cuEventElapsedTime);
SPECIAL(cuEventDestroy_v2);
SPECIAL(cuCtxSynchronize);
SPECIAL(cuCtxRecordEvent);
SPECIAL(cuLaunchKernel);
SPECIAL(cuMemcpyHtoDAsync_v2);
SPECIAL(cuMemcpyHtoD_v2);
SPECIAL(cuMemsetD8_v2);
SPECIAL(cuGraphLaunch);
SPECIAL(cuLaunchHostFunc);
SPECIAL(cuStreamWaitValue32_v2);

enum {
	DEVICES = 2,
	STREAMS = 256,
	QUEUE = 4096,
};

struct op {
	CUhostFn function;
	void *argument;
	const volatile uint32_t *word; /* wait until *word >= value */
	uint32_t value;
};

struct stream {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct op queue[QUEUE];
	uint64_t submitted, completed;
	int ready; /* lock and changed are initialised, once */
	int used, blocking, capturing, ended;
	int device;
};

struct event {
	uint64_t tail[STREAMS];
	uint64_t before; /* submissions to all streams */
};

static struct law own_state;
__attribute__((visibility("default"))) struct law *law_state = &own_state;

static struct stream streams[STREAMS]; /* the first ones: legacy, of each device */
static __thread CUcontext current[8] = {(CUcontext)0x1000};
static __thread int depth;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

/* In a child of fork() the workers are not there, and what they held would be held for ever: the
 * child starts with a driver that nothing was asked of yet. */
static void forget(void)
{
	memset(streams, 0, sizeof(streams));
	pthread_mutex_init(&table, NULL);
	if (law_state != &own_state)
		return;
	own_state.outstanding = 0;
	memset(own_state.outstanding_on, 0, sizeof(own_state.outstanding_on));
}

/* The state in a file, for tests in which it is another process that closes and opens. */
static __attribute__((constructor)) void share(void)
{
	const char *path = getenv("METE_TEST_LAW");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	pthread_atfork(NULL, NULL, forget);
	if (fd < 0)
		return;
	memory = mmap(NULL, sizeof(struct law), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory != MAP_FAILED)
		law_state = memory;
}

static void count(uint32_t *place)
{
	__atomic_fetch_add(place, 1, __ATOMIC_SEQ_CST);
}

static int device_of(const struct stream *s);

static void probe(void)
{
	void (*function)(void) = __atomic_load_n(&law_state->probe, __ATOMIC_ACQUIRE);

	if (function)
		function();
}

static void run(const struct op *op)
{
	struct timespec pause = {0, 20000};

	if (op->function)
		op->function(op->argument);
	while (op->word && __atomic_load_n(op->word, __ATOMIC_ACQUIRE) < op->value)
		nanosleep(&pause, NULL);
}

static void *work(void *argument)
{
	struct stream *s = argument;
	struct op op;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (s->completed == s->submitted && !s->ended)
			pthread_cond_wait(&s->changed, &s->lock);
		if (s->completed == s->submitted)
			break;
		op = s->queue[s->completed % QUEUE];
		pthread_mutex_unlock(&s->lock);
		run(&op);
		pthread_mutex_lock(&s->lock);
		s->completed++;
		__atomic_fetch_sub(&law_state->outstanding_on[device_of(s)], 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&law_state->outstanding, 1, __ATOMIC_SEQ_CST);
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int device_now(void)
{
	return current[depth] == (CUcontext)0x2000;
}

static void start(struct stream *s, int blocking)
{
	/* A place is used again while others look at it: the lock stays, and the counts go on. */
	if (!s->ready) {
		pthread_mutex_init(&s->lock, NULL);
		pthread_cond_init(&s->changed, NULL);
		s->ready = 1;
	}
	pthread_mutex_lock(&s->lock);
	s->ended = 0;
	__atomic_store_n(&s->device, s < streams + DEVICES ? (int)(s - streams) : device_now(),
			 __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&s->lock);
	__atomic_store_n(&s->capturing, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->blocking, blocking, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->used, 1, __ATOMIC_RELEASE);
	if (pthread_create(&s->thread, NULL, work, s) != 0)
		abort();
}

static struct stream *stream_of(CUstream handle)
{
	struct stream *s = handle && handle != CU_STREAM_LEGACY ? (struct stream *)handle
								: &streams[device_now()];

	if (s < streams + DEVICES && !__atomic_load_n(&s->used, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&table);
		if (!__atomic_load_n(&s->used, __ATOMIC_ACQUIRE))
			start(s, 1);
		pthread_mutex_unlock(&table);
	}
	return s;
}

static int is_legacy(const struct stream *s)
{
	return s < streams + DEVICES;
}

static int device_of(const struct stream *s)
{
	return __atomic_load_n(&s->device, __ATOMIC_SEQ_CST);
}

static int anybody_captures(int blocking_only)
{
	for (int i = 0; i < STREAMS; i++)
		if (__atomic_load_n(&streams[i].used, __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&streams[i].capturing, __ATOMIC_SEQ_CST) &&
		    (!blocking_only || __atomic_load_n(&streams[i].blocking, __ATOMIC_SEQ_CST)))
			return 1;
	return 0;
}

static CUresult submit(CUstream handle, struct op op)
{
	struct stream *s = stream_of(handle);

	if (__atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST)) {
		__atomic_fetch_add(&law_state->captured, 1, __ATOMIC_RELAXED);
		return CUDA_SUCCESS;
	}
	probe();
	__atomic_fetch_add(&law_state->outstanding, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&law_state->outstanding_on[device_of(s)], 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&law_state->acknowledged_on[device_of(s)], __ATOMIC_SEQ_CST))
		count(&law_state->violations);
	__atomic_fetch_add(&law_state->submissions, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&law_state->acknowledged, __ATOMIC_SEQ_CST))
		count(&law_state->violations);
	pthread_mutex_lock(&s->lock);
	while (s->submitted - s->completed == QUEUE)
		pthread_cond_wait(&s->changed, &s->lock);
	s->queue[s->submitted++ % QUEUE] = op;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (__atomic_load_n(&law_state->acknowledged, __ATOMIC_SEQ_CST))
		count(&law_state->violations);
	return CUDA_SUCCESS;
}

static CUresult wait_for(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->completed != s->submitted)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return CUDA_SUCCESS;
}

static void wait_until(struct stream *s, uint64_t tail)
{
	pthread_mutex_lock(&s->lock);
	while (s->completed < tail)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static int busy(struct stream *s, uint64_t tail)
{
	int result;

	pthread_mutex_lock(&s->lock);
	result = s->completed < (tail ? tail : s->submitted);
	pthread_mutex_unlock(&s->lock);
	return result;
}

CUresult special_cuDriverGetVersion(int *driverVersion)
{
	*driverVersion = 12090;
	return CUDA_SUCCESS;
}

CUresult special_cuDeviceGetUuid(CUuuid *uuid, CUdevice_v1 dev)
{
	if (dev < 0 || dev >= DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	/* The stub of the management library that meted is tested on has zeros. */
	memset(uuid->bytes, getenv("METE_TEST_LAW") ? 0 : 0x11 + dev, sizeof(uuid->bytes));
	return CUDA_SUCCESS;
}

CUresult special_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice_v1 dev)
{
	return special_cuDeviceGetUuid(uuid, dev);
}

CUresult special_cuCtxGetCurrent(CUcontext *pctx)
{
	*pctx = current[depth];
	return CUDA_SUCCESS;
}

CUresult special_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	int (*nested)(void **, unsigned, int) = law_state->nested;
	void *inner = NULL;

	(void)flags;
	probe();
	law_state->nested = NULL;
	if (nested && nested(&inner, 0, dev) != CUDA_SUCCESS)
		return CUDA_ERROR_UNKNOWN;
	*pctx = current[depth] = (CUcontext)(dev ? 0x2000UL : 0x1000UL);
	return CUDA_SUCCESS;
}

CUresult special_cuCtxSetCurrent(CUcontext ctx)
{
	current[depth] = ctx;
	return CUDA_SUCCESS;
}

CUresult special_cuCtxPushCurrent_v2(CUcontext ctx)
{
	current[++depth % 8] = ctx;
	return CUDA_SUCCESS;
}

CUresult special_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	*pctx = current[depth--];
	return CUDA_SUCCESS;
}

CUresult special_cuCtxGetDevice(CUdevice_v1 *device)
{
	*device = device_now();
	return CUDA_SUCCESS;
}

CUresult special_cuMemAlloc_v2(CUdeviceptr_v2 *dptr, size_t bytesize)
{
	(void)bytesize;
	*dptr = 0x7f0000000000;
	return CUDA_SUCCESS;
}

CUresult special_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	*pctx = (CUcontext)(device_of(stream_of(hStream)) ? 0x2000UL : 0x1000UL);
	return CUDA_SUCCESS;
}

CUresult special_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&table);
	for (int i = DEVICES; i < STREAMS; i++) {
		if (__atomic_load_n(&streams[i].used, __ATOMIC_ACQUIRE))
			continue;
		start(&streams[i], !(Flags & CU_STREAM_NON_BLOCKING));
		*phStream = (CUstream)&streams[i];
		r = CUDA_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&table);
	return r;
}

CUresult special_cuStreamDestroy_v2(CUstream hStream)
{
	struct stream *s = (struct stream *)hStream;

	pthread_mutex_lock(&s->lock);
	s->ended = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	__atomic_store_n(&s->used, 0, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

CUresult special_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	*flags = __atomic_load_n(&stream_of(hStream)->blocking, __ATOMIC_SEQ_CST)
			 ? CU_STREAM_DEFAULT
			 : CU_STREAM_NON_BLOCKING;
	return CUDA_SUCCESS;
}

static int blocking_busy(const struct stream *legacy)
{
	for (int i = 0; i < STREAMS; i++)
		if (__atomic_load_n(&streams[i].used, __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&streams[i].blocking, __ATOMIC_SEQ_CST) &&
		    device_of(&streams[i]) == device_of(legacy) && busy(&streams[i], 0))
			return 1;
	return 0;
}

CUresult special_cuStreamSynchronize(CUstream hStream)
{
	return wait_for(stream_of(hStream));
}

CUresult special_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct stream *s = stream_of(hStream);

	if (is_legacy(s) && anybody_captures(1))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*captureStatus = __atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST)
				 ? CU_STREAM_CAPTURE_STATUS_ACTIVE
				 : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

CUresult special_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	(void)mode;
	__atomic_store_n(&stream_of(hStream)->capturing, 1, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

CUresult special_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct stream *s = stream_of(hStream);

	if (!__atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST))
		return CUDA_ERROR_ILLEGAL_STATE;
	__atomic_store_n(&s->capturing, 0, __ATOMIC_SEQ_CST);
	probe();
	*phGraph = (CUgraph)0x2000;
	return CUDA_SUCCESS;
}

CUresult special_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct event *event = calloc(1, sizeof(*event));

	(void)Flags;
	*phEvent = (CUevent)event;
	return event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Behind everything that the streams for which `is_behind` have so far. */
static void record(struct event *e, const struct stream *on, int device,
		   int (*is_behind)(const struct stream *s, const struct stream *on))
{
	memset(e->tail, 0, sizeof(e->tail));
	e->before = __atomic_load_n(&law_state->submissions, __ATOMIC_RELAXED);
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &streams[i];

		if (!__atomic_load_n(&s->used, __ATOMIC_ACQUIRE) || device_of(s) != device ||
		    !is_behind(s, on))
			continue;
		pthread_mutex_lock(&s->lock);
		e->tail[i] = s->submitted;
		pthread_mutex_unlock(&s->lock);
	}
}

static int is_any(const struct stream *s, const struct stream *on)
{
	(void)s, (void)on;
	return 1;
}

static int is_blocking(const struct stream *s, const struct stream *on)
{
	(void)on;
	return __atomic_load_n(&s->blocking, __ATOMIC_SEQ_CST);
}

static int is_same(const struct stream *s, const struct stream *on)
{
	return s == on;
}

/* What is said of work that is not complete, unless the test lets it complete. */
static CUresult unready(void)
{
	int (*function)(void) = __atomic_load_n(&law_state->unready, __ATOMIC_ACQUIRE);
	struct event now;

	if (!function)
		return CUDA_ERROR_NOT_READY;
	record(&now, NULL, device_now(), is_any);
	if (!function())
		return CUDA_ERROR_NOT_READY;
	for (int i = 0; i < STREAMS; i++)
		if (now.tail[i])
			wait_until(&streams[i], now.tail[i]);
	return CUDA_SUCCESS;
}

CUresult special_cuStreamQuery(CUstream hStream)
{
	struct stream *s = stream_of(hStream);
	void (*look)(void) = __atomic_load_n(&law_state->look, __ATOMIC_ACQUIRE);

	if (look)
		look();
	if (__atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST) ||
	    (is_legacy(s) && anybody_captures(1))) {
		count(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return (is_legacy(s) ? blocking_busy(s) : busy(s, 0)) ? unready() : CUDA_SUCCESS;
}

CUresult special_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	struct stream *on = stream_of(hStream);

	if (is_legacy(on) && anybody_captures(1)) {
		count(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	record((struct event *)hEvent, on, device_of(on), is_legacy(on) ? is_blocking : is_same);
	return CUDA_SUCCESS;
}

/* From CUDA 12.5 on; METE_TEST_OLD: a driver of before. */
CUresult special_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	if (getenv("METE_TEST_OLD"))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (anybody_captures(0)) {
		count(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	record((struct event *)hEvent, NULL, hCtx == (CUcontext)0x2000, is_any);
	return CUDA_SUCCESS;
}

CUresult special_cuEventQuery(CUevent hEvent)
{
	struct event *e = (struct event *)hEvent;

	for (int i = 0; i < STREAMS; i++)
		if (e->tail[i] && __atomic_load_n(&streams[i].used, __ATOMIC_ACQUIRE) &&
		    busy(&streams[i], e->tail[i]))
			return unready();
	return CUDA_SUCCESS;
}

/* So much for each call that was submitted in between. */
CUresult special_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event *from = (struct event *)hStart, *to = (struct event *)hEnd;
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

CUresult special_cuCtxSynchronize(void)
{
	if (anybody_captures(0)) {
		count(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	for (int i = 0; i < STREAMS; i++)
		if (__atomic_load_n(&streams[i].used, __ATOMIC_ACQUIRE))
			wait_for(&streams[i]);
	return CUDA_SUCCESS;
}

CUresult special_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
				unsigned int gridDimZ, unsigned int blockDimX,
				unsigned int blockDimY, unsigned int blockDimZ,
				unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
				void **extra)
{
	(void)f, (void)gridDimX, (void)gridDimY, (void)gridDimZ, (void)blockDimX;
	(void)blockDimY, (void)blockDimZ, (void)sharedMemBytes, (void)kernelParams, (void)extra;
	return submit(hStream, (struct op){.function = NULL});
}

CUresult special_cuMemcpyHtoDAsync_v2(CUdeviceptr_v2 dstDevice, const void *srcHost,
				      size_t ByteCount, CUstream hStream)
{
	(void)dstDevice, (void)srcHost, (void)ByteCount;
	return submit(hStream, (struct op){.function = NULL});
}

/* The bytes are not looked at: there may be none. */
CUresult special_cuMemcpyHtoD_v2(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount)
{
	CUresult r = submit(NULL, (struct op){.function = NULL});

	(void)dstDevice, (void)srcHost;
	__atomic_fetch_add(&law_state->copies, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&law_state->copied_bytes, ByteCount, __ATOMIC_SEQ_CST);
	wait_for(stream_of(NULL));
	return r;
}

CUresult special_cuMemsetD8_v2(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N)
{
	(void)dstDevice, (void)uc, (void)N;
	return submit(NULL, (struct op){.function = NULL});
}

CUresult special_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	(void)hGraphExec;
	return submit(hStream, (struct op){.function = NULL});
}

CUresult special_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	return submit(hStream, (struct op){.function = fn, .argument = userData});
}

CUresult special_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value,
					unsigned int flags)
{
	(void)flags;
	return submit(stream, (struct op){.word = (const volatile uint32_t *)(uintptr_t)addr,
					  .value = value});
}
