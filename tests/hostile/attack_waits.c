/* SPDX-License-Identifier: Apache-2.0 */
/* Work that never ends, and requests without end. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda/nvml_prototypes.h"
#include "tests/hostile/attack.h"

static void for_ever(void *nothing)
{
	(void)nothing;
	for (;;)
		pause();
}

void attack_host_function(void)
{
	CUstream stream;

	for (int i = 0; i < 8; i++)
		if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
			CALL(cuLaunchHostFunc)(stream, for_ever, NULL);
	take_everything();
}

static void open_captures(int count)
{
	CUstream stream;

	for (int i = 0; i < count; i++)
		if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
			CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

void attack_captures_open(void)
{
	open_captures(200);
	take_everything();
}

static void capture_and_end(void)
{
	CUstream stream;

	if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
		CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

void attack_capture_dies(void)
{
	for (int i = 0; i < 8; i++)
		in_threads(16, capture_and_end);
	take_everything();
}

static void nothing_to_do(void *nothing)
{
	(void)nothing;
}

void attack_streams_many(void)
{
	CUstream stream;

	for (int i = 0; i < 1100; i++)
		if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
			CALL(cuLaunchHostFunc)(stream, nothing_to_do, NULL);
	take_everything();
}

static void poll_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	nvmlReturn_t (*init)(void) = NULL;
	nvmlReturn_t (*by_index)(unsigned, nvmlDevice_t *) = NULL;
	nvmlReturn_t (*processes)(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *) = NULL;
	nvmlReturn_t (*memory)(nvmlDevice_t, nvmlMemory_t *) = NULL;
	static _Thread_local nvmlProcessInfo_t rows[64];
	nvmlDevice_t device;
	nvmlMemory_t bytes;
	uint64_t t = 0;

	if (!library)
		return;
	*(void **)&init = dlsym(library, "nvmlInit_v2");
	*(void **)&by_index = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	*(void **)&memory = dlsym(library, "nvmlDeviceGetMemoryInfo");
	if (!init || !by_index || !processes || !memory || init() != 0 || by_index(0, &device) != 0)
		return;
	while (until(&t, 1000)) {
		unsigned count = ARRAY_SIZE(rows);

		processes(device, &count, rows);
		memory(device, &bytes);
	}
}

void attack_nvml_polled(void)
{
	in_threads(8, poll_nvml);
	take_everything();
}

static void poll_info(void)
{
	size_t available, total;
	uint64_t t = 0;

	while (until(&t, 600))
		g.cuMemGetInfo_v2(&available, &total);
}

void attack_info_polled(void)
{
	in_threads(8, poll_info);
	take_everything();
}

static void take_and_free_large(void)
{
	uint64_t t = 0;

	while (until(&t, 500)) {
		CUdeviceptr address;

		if (g.cuMemAlloc_v2(&address, 60 * MIB) == CUDA_SUCCESS)
			g.cuMemFree_v2(address);
	}
}

static void take_on_next_device(void)
{
	static int next;
	CUcontext context;
	CUdevice device;
	int count = 1;

	CALL(cuDeviceGetCount)(&count);
	if (g.cuDeviceGet(&device, __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % count) !=
	    CUDA_SUCCESS)
		return;
	if (CALL(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS)
		g.cuCtxSetCurrent(context);
	take_and_free_large();
	take_everything();
}

void attack_devices_all(void)
{
	in_threads(24, take_on_next_device);
}

static void hoard(void)
{
	CUdeviceptr address;

	start();
	if (g.cuMemAlloc_v2(&address, 90 * MIB) == CUDA_SUCCESS)
		g.cuMemFree_v2(address);
	raise(SIGSTOP);
}

void attack_credit_hoarded(void)
{
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			hoard();
			_exit(0);
		}
	usleep(800000);
	take_everything();
}
