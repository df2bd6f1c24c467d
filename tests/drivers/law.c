/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver in which work completes later, in stream order, on a thread per stream: kernels, copies,
 * host functions and waits for a word. It checks the guest: no submission while the test says that
 * a close is acknowledged, and no call that CUDA forbids while a capture is open. law_stream.c has
 * the streams and their threads, law_calls.c the calls that ask about them, law_event.c the events,
 * law_work.c the calls that submit.
 *
 * Two devices with a context each (0x1000, 0x2000). Streams: a legacy one for each context, and
 * those that are created.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "tests/drivers/law_inside.h"

SPECIAL(cuDriverGetVersion);
SPECIAL(cuDeviceGetUuid);
SPECIAL(cuDeviceGetUuid_v2);
SPECIAL(cuCtxGetCurrent);
SPECIAL(cuCtxCreate_v2);
SPECIAL(cuCtxSetCurrent);
SPECIAL(cuCtxPushCurrent_v2);
SPECIAL(cuCtxPopCurrent_v2);
SPECIAL(cuCtxGetDevice);
SPECIAL(cuMemAlloc_v2);

static struct law own_state;
__attribute__((visibility("default"))) struct law *law_state = &own_state;

static __thread CUcontext current[8] = {(CUcontext)0x1000};
static __thread int depth;

/* A child of fork() starts with a driver that has not been asked for anything yet. */
static void forget(void)
{
	law_streams_forget();
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

void law_add(uint32_t *place)
{
	__atomic_fetch_add(place, 1, __ATOMIC_SEQ_CST);
}

void law_reach(void)
{
	void (*function)(void) = __atomic_load_n(&law_state->probe, __ATOMIC_ACQUIRE);

	if (function)
		function();
}

int law_device_now(void)
{
	return current[depth] == (CUcontext)0x2000;
}

CUresult special_cuDriverGetVersion(int *driverVersion)
{
	*driverVersion = 12090;
	return CUDA_SUCCESS;
}

CUresult special_cuDeviceGetUuid(CUuuid *uuid, CUdevice_v1 dev)
{
	if (dev < 0 || dev >= LAW_DEVICES)
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
	law_reach();
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
	*device = law_device_now();
	return CUDA_SUCCESS;
}

CUresult special_cuMemAlloc_v2(CUdeviceptr_v2 *dptr, size_t bytesize)
{
	(void)bytesize;
	*dptr = 0x7f0000000000;
	return CUDA_SUCCESS;
}
