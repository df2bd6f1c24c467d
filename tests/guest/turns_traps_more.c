/* SPDX-License-Identifier: Apache-2.0 */
/* Further ways to wait for one's own threads and processes. In each, `helper` is what something on
 * the device waits for. */
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/guest/turns_traps.h"

static void wait_for_helper(void *nothing)
{
	(void)nothing;
	while (g.launched < g.round)
		sched_yield();
}

/* ---- a callback waits until another stream's work is done ----------------------------------- */

static void *work_and_say(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	g.launched = g.round;
	return NULL;
}

static void on_reached(CUstream stream, CUresult status, void *nothing)
{
	(void)stream;
	(void)status;
	wait_for_helper(nothing);
}

void trap_callback(void)
{
	ok(g.cuStreamAddCallback(g.device[0].stream[0], on_reached, NULL, 0));
	traps_finish(work_and_say);
}

/* A host node of a graph, likewise. */
void trap_graph_host(void)
{
	static CUgraphExec ready;
	CUDA_HOST_NODE_PARAMS node = {.fn = wait_for_helper};
	CUgraph graph;
	CUgraphNode made;

	if (!ready) {
		ok(g.cuGraphCreate(&graph, 0));
		ok(g.cuGraphAddHostNode(&made, graph, NULL, 0, &node));
		ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	}
	ok(g.cuGraphLaunch(ready, g.device[0].stream[0]));
	traps_finish(work_and_say);
}

/* ---- a stream waits for what another stream writes ------------------------------------------- */

static void *write_in_stream(void *nothing)
{
	CUstream stream = g.device[0].stream[1];

	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamWriteValue32_v2(stream, g.address, g.round, 0));
	return NULL;
}

void trap_write_value(void)
{
	ok(g.cuStreamWaitValue32_v2(g.device[0].stream[0], g.address, g.round,
				    CU_STREAM_WAIT_VALUE_GEQ));
	traps_finish(write_in_stream);
}

/* ---- a kernel polls a word until another thread has seen an event, or polled a stream -------- */

static void *see_event(void *nothing)
{
	static CUevent event;

	(void)nothing;
	traps_use_device();
	if (!event)
		ok(g.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuEventRecord(event, g.device[0].stream[1]));
	ok(g.cuEventSynchronize(event));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_event(void)
{
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(see_event);
}

static void *poll_stream(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	while (g.cuStreamQuery(g.device[0].stream[1]) == CUDA_ERROR_NOT_READY)
		sched_yield();
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_query(void)
{
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(poll_stream);
}

/* ---- a host function waits until another thread has copied something to the host ------------- */

static CUdeviceptr copied;

static void *copy_and_say(void *nothing)
{
	uint32_t got[64];

	(void)nothing;
	traps_use_device();
	ok(g.cuMemcpyDtoH_v2(got, copied, sizeof(got)));
	g.launched = g.round;
	return NULL;
}

void trap_copy(void)
{
	if (!copied) {
		ok(g.cuMemAlloc_v2(&copied, 4096));
		ok(g.cuMemsetD8_v2(copied, 0, 4096));
	}
	ok(g.cuLaunchHostFunc(g.device[0].stream[0], wait_for_helper, NULL));
	traps_finish(copy_and_say);
}

/* ---- eight kernels wait for a thread that never calls the driver ----------------------------- */

enum { LETTERS = 8 };

static void *write_letters(void *nothing)
{
	(void)nothing;
	for (uint32_t i = 0; i < LETTERS; i++) {
		traps_pause();
		atomic_store(g.word, g.round * LETTERS + i);
	}
	return NULL;
}

void trap_mailbox(void)
{
	pthread_t thread;

	traps_thread(write_letters, &thread);
	for (uint32_t i = 0; i < LETTERS; i++)
		traps_launch(0, 0, g.device[0].wait, g.round * LETTERS + i);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* ---- a kernel waits for another process of the tenant ---------------------------------------- */

/* An odd word asks it for the next even one. */
void trap_partner(void)
{
	const struct timespec pause = {0, 100000};
	uint32_t seen;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traps_share_word(atoi(getenv("METE_TRAP_WORD")));
	for (;;) {
		while (!((seen = atomic_load(g.word)) & 1))
			clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		traps_launch(0, 1, g.device[0].spend, 100000);
		ok(g.cuCtxSynchronize());
		atomic_store(g.word, seen + 1);
	}
}

void trap_process(void)
{
	static bool begun;
	int fd;

	if (!begun) {
		fd = memfd_create("turns_traps", 0);
		if (fd < 0 || ftruncate(fd, 4096) != 0)
			fail("no shared memory");
		traps_share_word(fd);
		ok(g.cuMemHostRegister_v2(g.word, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
		ok(g.cuMemHostGetDevicePointer_v2(&g.address, g.word, 0));
		traps_start_other("partner", fd);
		begun = true;
	}
	traps_launch(0, 0, g.device[0].wait, 2 * g.round);
	traps_pause();
	atomic_store(g.word, 2 * g.round - 1);
	ok(g.cuCtxSynchronize());
}
