/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that wait for another tenant, and those that want more than their share. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/guest/turns_traps.h"

enum { AHEAD = 4 };

/* ---- those that wait for another tenant --------------------------------------------------- */

const char *traps_meeting_place(void)
{
	const char *path = getenv("METE_TRAP_MEET");

	if (!path)
		fail("METE_TRAP_MEET is not set");
	return path;
}

static CUdeviceptr lend_words(void)
{
	char made[4096];
	CUipcMemHandle_v1 handle;
	CUdeviceptr words;
	FILE *file;

	ok(g.cuMemAlloc_v2(&words, 2 << 20));
	ok(g.cuMemsetD8_v2(words, 0, 8));
	ok(g.cuIpcGetMemHandle(&handle, words));
	snprintf(made, sizeof(made), "%s.new", traps_meeting_place());
	file = fopen(made, "w");
	if (!file || fwrite(&handle, sizeof(handle), 1, file) != 1 || fclose(file) != 0 ||
	    rename(made, traps_meeting_place()) != 0)
		fail("cannot write %s", made);
	return words;
}

static CUdeviceptr borrow_words(void)
{
	const struct timespec pause = {0, 1000000};
	CUipcMemHandle_v1 handle;
	CUdeviceptr words;
	FILE *file;

	while (!(file = fopen(traps_meeting_place(), "r")))
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	if (fread(&handle, sizeof(handle), 1, file) != 1 || fclose(file) != 0)
		fail("cannot read %s", traps_meeting_place());
	ok(g.cuIpcOpenMemHandle_v2(&words, handle, 1));
	return words;
}

/* Each round the kernels of both programs wait for each other. */
static void meet(CUdeviceptr words, uint32_t own, uint32_t value)
{
	void *arguments[] = {&words, &own, &value};

	ok(g.cuLaunchKernel(g.device[0].meet, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0], arguments,
			    NULL));
	ok(g.cuCtxSynchronize());
}

static CUdeviceptr met;
static uint32_t met_as;

void traps_part(void)
{
	uint32_t last = INT32_MAX;
	CUdeviceptr own = met + met_as;
	void *arguments[] = {&own, &last};

	traps_part_ring();
	traps_part_ranks();
	traps_part_credit();
	if (!met)
		return;
	ok(g.cuLaunchKernel(g.device[0].set, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0], arguments,
			    NULL));
	ok(g.cuCtxSynchronize());
}

void trap_lends(void)
{
	if (!met)
		met = lend_words();
	meet(met, met_as, g.round);
}

void trap_borrows(void)
{
	if (!met)
		met = borrow_words();
	met_as = 4;
	meet(met, met_as, g.round);
}

/* Likewise in memory of the host, of which nobody but the two programs knows that they share it. */
CUdeviceptr traps_map_words(void **ret_memory)
{
	int fd = open(traps_meeting_place(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CUdeviceptr words;

	if (fd < 0 || ftruncate(fd, 4096) != 0)
		fail("cannot make %s", traps_meeting_place());
	*ret_memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*ret_memory == MAP_FAILED)
		fail("no shared memory");
	ok(g.cuMemHostRegister_v2(*ret_memory, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
	ok(g.cuMemHostGetDevicePointer_v2(&words, *ret_memory, 0));
	return words;
}

void trap_meets_here(void)
{
	if (!met)
		met = traps_map_words(&(void *){NULL});
	meet(met, met_as, g.round);
}

void trap_meets_there(void)
{
	if (!met)
		met = traps_map_words(&(void *){NULL});
	met_as = 4;
	meet(met, met_as, g.round);
}

/* Streams hand a value to each other, and every so many rounds the program waits for its own. */
static void hand(unsigned rounds)
{
	CUstream stream = g.device[0].stream[0];

	ok(g.cuStreamWriteValue32_v2(stream, met + met_as, g.round, 0));
	ok(g.cuStreamWaitValue32_v2(stream, met + (met_as ^ 4), g.round, CU_STREAM_WAIT_VALUE_GEQ));
	traps_launch(0, 0, g.device[0].spend, 100000);
	if (g.round % rounds == 0)
		ok(g.cuStreamSynchronize(stream));
}

void trap_value_here(void)
{
	if (!met)
		met = traps_map_words(&(void *){NULL});
	hand(1);
}

void trap_value_there(void)
{
	met_as = 4;
	trap_value_here();
}

void trap_ahead_here(void)
{
	if (!met)
		met = traps_map_words(&(void *){NULL});
	hand(AHEAD);
}

void trap_ahead_there(void)
{
	met_as = 4;
	trap_ahead_here();
}

void trap_value_lends(void)
{
	if (!met)
		met = lend_words();
	hand(1);
}

void trap_value_borrows(void)
{
	if (!met)
		met = borrow_words();
	met_as = 4;
	hand(1);
}

/* ---- those that take more ---------------------------------------------------------------- */

/* Kernels of 1 ms, back to back. */
static void work(int stream)
{
	for (int i = 0; i < 4; i++)
		traps_launch(0, stream, g.device[0].spend, 1000000);
	ok(g.cuStreamSynchronize(g.device[0].stream[stream]));
}

/* A graph of one second. */
void trap_graph(void)
{
	static CUgraphExec ready;
	CUstream stream = g.device[0].stream[0];
	CUgraph graph;

	if (!ready) {
		ok(g.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		for (int i = 0; i < 10; i++)
			traps_launch(0, 0, g.device[0].spend, 100000000);
		ok(g.cuStreamEndCapture(stream, &graph));
		ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	}
	ok(g.cuGraphLaunch(ready, stream));
	ok(g.cuStreamSynchronize(stream));
}

/* A capture of a stream that waits for the legacy stream is never closed. */
void trap_open_capture(void)
{
	static CUstream captured;

	if (!captured) {
		ok(g.cuStreamCreate(&captured, CU_STREAM_DEFAULT));
		ok(g.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
	}
	work(1);
}

/* Something waits for ever, and a thread is always about to launch. */
static void never(void *nothing)
{
	(void)nothing;
	for (;;)
		pause();
}

static void *launch_for_ever(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	for (;;)
		work(1);
	return NULL;
}

void trap_never(void)
{
	static pthread_t thread;

	if (!thread) {
		ok(g.cuLaunchHostFunc(g.device[0].stream[0], never, NULL));
		traps_thread(launch_for_ever, &thread);
	}
	work(1);
}

/* A kernel that polls for ever, likewise. */
void trap_spinner(void)
{
	static pthread_t thread;

	if (!thread) {
		traps_launch(0, 0, g.device[0].wait, UINT32_MAX);
		traps_thread(launch_for_ever, &thread);
	}
	work(1);
}
