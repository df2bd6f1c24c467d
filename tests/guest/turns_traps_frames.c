/* SPDX-License-Identifier: Apache-2.0 */
/* What frameworks do: collectives with proxy threads, loaders, allocators, captures, servers. */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/guest/turns_traps.h"

/* ---- a ring of two tenants: kernels poll flags, and threads copy what they have and set them ----
 */

enum { CHUNKS = 8 };

static struct {
	_Atomic(uint32_t) *words; /* of both, in shared memory of the host */
	CUdeviceptr at, bytes;
	unsigned own;
	void *host;
	CUevent copied;
	atomic_uint wanted; /* chunks that the proxy is to send */
} ring;

/* Sends one chunk after the other, and never sleeps. */
static void *proxy(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (uint32_t sent = 0;; sent++) {
		while (ring.wanted == sent)
			sched_yield();
		ok(g.cuMemcpyDtoHAsync_v2(ring.host, ring.bytes, 1 << 16, g.device[0].stream[1]));
		ok(g.cuEventRecord(ring.copied, g.device[0].stream[1]));
		while (g.cuEventQuery(ring.copied) == CUDA_ERROR_NOT_READY)
			sched_yield();
		atomic_store(&ring.words[1 - ring.own], sent + 1);
	}
	return NULL;
}

static void begin_ring(unsigned own)
{
	pthread_t thread;
	void *memory;

	ring.at = traps_map_words(&memory);
	ok(g.cuMemAlloc_v2(&ring.bytes, 1 << 16));
	ok(g.cuMemHostAlloc(&ring.host, 1 << 16, 0));
	ring.copied = traps_event();
	ring.words = memory;
	ring.own = own;
	traps_thread(proxy, &thread);
}

static void go_around(unsigned own)
{
	if (!ring.words)
		begin_ring(own);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint32_t chunk = (g.round - 1) * CHUNKS + i + 1;
		CUdeviceptr word = ring.at + 4 * own;
		void *arguments[] = {&word, &chunk};

		traps_launch_in(g.device[0].stream[0], 100000);
		ok(g.cuLaunchKernel(g.device[0].wait, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0],
				    arguments, NULL));
		ring.wanted = chunk;
	}
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

void traps_part_ring(void)
{
	if (ring.words)
		atomic_store(&ring.words[1 - ring.own], INT32_MAX);
}

void trap_ring_here(void)
{
	go_around(0);
}

void trap_ring_there(void)
{
	go_around(1);
}

/* ---- memory of a pool goes from thread to thread, each with a stream
 * -----------------------------
 */

enum { HANDS = 4, PASSES = 4 };

static struct {
	CUstream stream[HANDS];
	CUevent ready[HANDS];
	CUdeviceptr at[HANDS];
	pthread_barrier_t all;
} hands;

/* What the thread before has allocated and used is freed here, in the order of events. */
static void *pass_on(void *place)
{
	unsigned own = (unsigned)(uintptr_t)place, before = (own + HANDS - 1) % HANDS;

	traps_use_device();
	for (int i = 0; i < PASSES; i++) {
		ok(g.cuMemAllocAsync(&hands.at[own], 2 << 20, hands.stream[own]));
		traps_launch_in(hands.stream[own], 100000);
		ok(g.cuEventRecord(hands.ready[own], hands.stream[own]));
		pthread_barrier_wait(&hands.all);
		ok(g.cuStreamWaitEvent(hands.stream[own], hands.ready[before], 0));
		traps_launch_in(hands.stream[own], 100000);
		ok(g.cuMemFreeAsync(hands.at[before], hands.stream[own]));
		pthread_barrier_wait(&hands.all);
	}
	ok(g.cuStreamSynchronize(hands.stream[own]));
	return NULL;
}

void trap_allocators(void)
{
	pthread_t thread[HANDS];

	for (int i = 0; i < HANDS && !hands.stream[HANDS - 1]; i++) {
		ok(g.cuStreamCreate(&hands.stream[i], CU_STREAM_NON_BLOCKING));
		hands.ready[i] = traps_event();
	}
	if (pthread_barrier_init(&hands.all, NULL, HANDS) != 0)
		fail("no barrier");
	for (uintptr_t i = 0; i < HANDS; i++)
		if (pthread_create(&thread[i], NULL, pass_on, (void *)i) != 0)
			fail("no thread");
	for (int i = 0; i < HANDS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&hands.all);
}

/* ---- a thread captures again and again, while another one computes and synchronises -------------
 */

static void *synchronise(void *nothing)
{
	(void)nothing;
	traps_use_device();
	while (g.launched < g.round) {
		traps_launch(0, 1, g.device[0].spend, 100000);
		ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	}
	return NULL;
}

void trap_recaptures(void)
{
	CUstream stream = g.device[0].stream[0];
	CUgraphExec ready;
	pthread_t thread;
	CUgraph graph;

	traps_thread(synchronise, &thread);
	for (int i = 0; i < 4; i++) {
		ok(g.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		for (int k = 0; k < 8; k++)
			traps_launch_in(stream, 50000);
		ok(g.cuStreamEndCapture(stream, &graph));
		ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
		ok(g.cuGraphDestroy(graph));
		ok(g.cuGraphLaunch(ready, stream));
		ok(g.cuStreamSynchronize(stream));
		ok(g.cuGraphExecDestroy(ready));
	}
	g.launched = g.round;
	pthread_join(thread, NULL);
}

/* ---- a graph is launched again by a thread that a callback of its last launch wakes -------------
 */

enum { RELAUNCHES = 8 };

static sem_t done;

static void on_done(CUstream stream, CUresult status, void *nothing)
{
	(void)stream;
	(void)status;
	(void)nothing;
	sem_post(&done);
}

static CUgraphExec capture_one(CUstream stream)
{
	CUgraphExec ready;
	CUgraph graph;

	ok(g.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < 4; i++)
		traps_launch_in(stream, 100000);
	ok(g.cuStreamEndCapture(stream, &graph));
	ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	ok(g.cuGraphDestroy(graph));
	return ready;
}

static void *relaunch(void *graph)
{
	traps_use_device();
	for (int i = 0; i < RELAUNCHES; i++) {
		while (sem_wait(&done) != 0)
			;
		ok(g.cuGraphLaunch(graph, g.device[0].stream[0]));
		ok(g.cuStreamAddCallback(g.device[0].stream[0], on_done, NULL, 0));
	}
	while (sem_wait(&done) != 0)
		;
	return NULL;
}

void trap_relaunched(void)
{
	static CUgraphExec ready;
	pthread_t thread;

	if (!ready) {
		ready = capture_one(g.device[0].stream[0]);
		if (sem_init(&done, 0, 0) != 0)
			fail("no semaphore");
	}
	if (pthread_create(&thread, NULL, relaunch, ready) != 0)
		fail("no thread");
	ok(g.cuStreamAddCallback(g.device[0].stream[0], on_done, NULL, 0));
	pthread_join(thread, NULL);
	ok(g.cuCtxSynchronize());
}

/* ---- four threads load: each pins a buffer, copies it to the device, and lets go of it
 * -----------
 */

enum { LOADERS = 4, BUFFER = 1 << 18 };

static void *load(void *place)
{
	static CUdeviceptr at[LOADERS];
	static CUstream stream[LOADERS];
	unsigned own = (unsigned)(uintptr_t)place;
	void *buffer =
		mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	traps_use_device();
	if (buffer == MAP_FAILED)
		fail("no memory");
	if (!at[own]) {
		ok(g.cuMemAlloc_v2(&at[own], BUFFER));
		ok(g.cuStreamCreate(&stream[own], CU_STREAM_NON_BLOCKING));
	}
	memset(buffer, (int)own, BUFFER);
	ok(g.cuMemHostRegister_v2(buffer, BUFFER, 0));
	ok(g.cuMemcpyHtoDAsync_v2(at[own], buffer, BUFFER, stream[own]));
	ok(g.cuStreamSynchronize(stream[own]));
	ok(g.cuMemHostUnregister(buffer));
	munmap(buffer, BUFFER);
	return NULL;
}

void trap_loaders(void)
{
	pthread_t thread[LOADERS];

	for (uintptr_t i = 0; i < LOADERS; i++)
		if (pthread_create(&thread[i], NULL, load, (void *)i) != 0)
			fail("no thread");
	traps_launch(0, 0, g.device[0].spend, 1000000);
	for (int i = 0; i < LOADERS; i++)
		pthread_join(thread[i], NULL);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}
