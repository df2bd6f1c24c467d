/* SPDX-License-Identifier: Apache-2.0 */
/* Events of several processes. */
#include "tests/system/sim/processes.h"

/* A word that holds up a stream until the host sets it. */
static atomic_uint *hold(CUstream stream)
{
	CUdeviceptr device;
	void *word;

	check(cuMemHostAlloc(&word, 4, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
	*(unsigned *)word = 0;
	check(cuMemHostGetDevicePointer_v2(&device, word, 0) == CUDA_SUCCESS);
	check(cuStreamWaitValue32_v2(stream, device, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
	return word;
}

struct event_gift {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static void recorder(int end)
{
	const unsigned flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
	struct event_gift gift;
	CUevent event, plain, again;
	CUdeviceptr memory;
	atomic_uint *word;
	CUstream stream;
	char byte;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	check(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
	check(cuIpcGetEventHandle(&gift.event, plain) == CUDA_ERROR_INVALID_HANDLE);
	check(cuEventCreate(&event, flags) == CUDA_SUCCESS);
	check(cuIpcGetEventHandle(&gift.event, event) == CUDA_SUCCESS);
	check(cuIpcOpenEventHandle(&again, gift.event) == CUDA_ERROR_INVALID_CONTEXT);
	check(cuEventQuery(event) == CUDA_SUCCESS);
	check(cuMemAlloc_v2(&memory, 4096) == CUDA_SUCCESS);
	check(cuMemsetD32_v2(memory, 0, 1) == CUDA_SUCCESS);
	check(cuIpcGetMemHandle(&gift.memory, memory) == CUDA_SUCCESS);
	word = hold(stream);
	check(cuMemsetD32Async(memory, 77, 1, stream) == CUDA_SUCCESS);
	check(cuEventRecord(event, stream) == CUDA_SUCCESS);
	say(end, &gift, sizeof(gift));
	hear(end, &byte, 1); /* the other one waits */
	check(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	atomic_store(word, 1);
	hear(end, &byte, 1); /* the other one has recorded it, after a pause of its own */
	check(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	say(end, "", 1);
	check(cuEventSynchronize(event) == CUDA_SUCCESS);
	check(cuEventQuery(event) == CUDA_SUCCESS);
}

static void waiter(int end)
{
	struct event_gift gift;
	CUdeviceptr memory;
	unsigned seen = 0;
	atomic_uint *word;
	CUstream stream;
	CUresult result;
	CUevent event;
	char byte;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	hear(end, &gift, sizeof(gift));
	check(cuIpcOpenMemHandle_v2(&memory, gift.memory, 1) == CUDA_SUCCESS);
	check(cuIpcOpenEventHandle(&event, gift.event) == CUDA_SUCCESS);
	check(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	check(cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS);
	check(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
	say(end, "", 1);
	check(cuMemcpyDtoHAsync_v2(&seen, memory, 4, stream) == CUDA_SUCCESS);
	check(cuStreamSynchronize(stream) == CUDA_SUCCESS);
	check(seen == 77);
	check(cuEventQuery(event) == CUDA_SUCCESS);
	word = hold(stream);
	check(cuEventRecord(event, stream) == CUDA_SUCCESS);
	say(end, "", 1);
	hear(end, &byte, 1);
	atomic_store(word, 1);
	check(cuEventSynchronize(event) == CUDA_SUCCESS);
	check(cuEventDestroy_v2(event) == CUDA_SUCCESS);
	/* An H100's driver answers another error than ours, CUDA_ERROR_INVALID_VALUE. */
	memset(&gift.event, 0x5a, sizeof(gift.event));
	result = cuIpcOpenEventHandle(&event, gift.event);
	fprintf(stderr, "a handle that is none is opened with %d\n", (int)result);
	check(result != CUDA_SUCCESS);
}

TEST(an_event_is_recorded_and_waited_for_in_several_processes)
{
	struct event_gift gift;
	int recording, waiting;
	pid_t first = child_start(recorder, &recording), second = child_start(waiter, &waiting);
	char byte;

	hear(recording, &gift, sizeof(gift));
	say(waiting, &gift, sizeof(gift));
	for (int i = 0; i < 2; i++) {
		hear(waiting, &byte, 1);
		say(recording, "", 1);
	}
	hear(recording, &byte, 1);
	say(waiting, "", 1);
	child_end(second, waiting);
	child_end(first, recording);
}

/* Of work that never ends. */
static void recorder_that_dies(int end)
{
	CUipcEventHandle handle;
	CUstream stream;
	CUevent event;
	char byte;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	check(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ==
	      CUDA_SUCCESS);
	check(cuIpcGetEventHandle(&handle, event) == CUDA_SUCCESS);
	hold(stream);
	check(cuEventRecord(event, stream) == CUDA_SUCCESS);
	say(end, &handle, sizeof(handle));
	hear(end, &byte, 1);
}

/* A stream that waits for what the other process has recorded. */
static CUstream wait_for_record(int end, CUevent *ret_event)
{
	CUipcEventHandle handle;
	CUstream stream;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	hear(end, &handle, sizeof(handle));
	check(cuIpcOpenEventHandle(ret_event, handle) == CUDA_SUCCESS);
	check(cuEventQuery(*ret_event) == CUDA_ERROR_NOT_READY);
	check(cuStreamWaitEvent(stream, *ret_event, 0) == CUDA_SUCCESS);
	say(end, "", 1);
	return stream;
}

static void waiter_for_the_dead(int end)
{
	CUevent event;
	CUstream stream = wait_for_record(end, &event);

	check(cuStreamSynchronize(stream) == CUDA_SUCCESS);
	check(cuEventSynchronize(event) == CUDA_SUCCESS);
}

/* Our choice. An H100's driver (580.159.04) did not get there, and no GPU is asked this. */
TEST(an_event_that_a_dead_process_recorded_counts_as_done)
{
	CUipcEventHandle handle;
	int recording, waiting;
	pid_t first = child_start(recorder_that_dies, &recording),
	      second = child_start(waiter_for_the_dead, &waiting);
	char byte;

	hear(recording, &handle, sizeof(handle));
	say(waiting, &handle, sizeof(handle));
	hear(waiting, &byte, 1);
	expect_eq(kill(first, SIGKILL), 0);
	expect_eq(waitpid(first, NULL, 0), first);
	close(recording);
	child_end(second, waiting);
}

/* Reports whether it was reached, after some seconds at most, and waits to be killed. */
static void asker_about_the_dead(int end)
{
	CUevent event;
	CUstream stream = wait_for_record(end, &event);
	CUresult result = CUDA_ERROR_NOT_READY;
	char byte;

	hear(end, &byte, 1); /* the other one is being killed */
	for (unsigned i = 0; i < NOT_REACHED_TRIES && result == CUDA_ERROR_NOT_READY; i++) {
		result = cuStreamQuery(stream);
		usleep(1000);
	}
	say(end, &result, sizeof(result));
	hear(end, &byte, 1);
}

static bool speaks(int end)
{
	return poll(&(struct pollfd){.fd = end, .events = POLLIN}, 1, SILENT_MS) == 1;
}

/* For a GPU, where a wait that has no end has to become an answer. */
TEST(a_wait_for_an_event_of_a_dead_process_is_told_no_error)
{
	CUipcEventHandle handle;
	int recording, waiting;
	pid_t first = child_start(recorder_that_dies, &recording),
	      second = child_start(asker_about_the_dead, &waiting);
	CUresult result = CUDA_ERROR_UNKNOWN;
	char byte;

	expect(speaks(recording));
	hear(recording, &handle, sizeof(handle));
	say(waiting, &handle, sizeof(handle));
	expect(speaks(waiting));
	hear(waiting, &byte, 1);
	expect_eq(kill(first, SIGKILL), 0);
	say(waiting, "", 1);
	expect(speaks(waiting));
	hear(waiting, &result, sizeof(result));
	fprintf(stderr, "what a dead process recorded is %s\n",
		result == CUDA_ERROR_NOT_READY ? "not reached" : "reached");
	expect(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
	expect_eq(kill(second, SIGKILL), 0);
	expect_eq(waitpid(second, NULL, 0), second);
	expect_eq(waitpid(first, NULL, 0), first);
	close(recording);
	close(waiting);
}
