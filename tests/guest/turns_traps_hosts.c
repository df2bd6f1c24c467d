/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions, signal handlers and threads that poll; graphs with host nodes. */
#include <sched.h>
#include <string.h>
#include <sys/time.h>

#include "tests/guest/turns_traps.h"

enum { CHAIN = 8, POLLERS = 3 };

/* ---- host functions of two streams: each waits for the one before it, in the other stream -------
 */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned at;
} chain = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void pass_on(void *place)
{
	unsigned own = (unsigned)(uintptr_t)place;

	pthread_mutex_lock(&chain.lock);
	while (chain.at != own)
		pthread_cond_wait(&chain.moved, &chain.lock);
	chain.at++;
	pthread_cond_broadcast(&chain.moved);
	pthread_mutex_unlock(&chain.lock);
}

static void *pass_on_in_other_stream(void *first)
{
	traps_use_device();
	for (uintptr_t i = 0; i < CHAIN; i += 2) {
		traps_launch(0, 1, g.device[0].spend, 50000);
		ok(g.cuLaunchHostFunc(g.device[0].stream[1], pass_on,
				      (void *)((uintptr_t)first + i + 1)));
	}
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	return NULL;
}

void trap_host_chain(void)
{
	uintptr_t first = (g.round - 1) * CHAIN;
	pthread_t thread;

	if (pthread_create(&thread, NULL, pass_on_in_other_stream, (void *)first) != 0)
		fail("no thread");
	for (uintptr_t i = 0; i < CHAIN; i += 2) {
		ok(g.cuLaunchHostFunc(g.device[0].stream[0], pass_on, (void *)(first + i)));
		traps_launch(0, 0, g.device[0].spend, 50000);
	}
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	pthread_join(thread, NULL);
}

/* ---- a handler of an alarm waits for the context, while a kernel waits for a thread -------------
 */

static void synchronise(int number)
{
	(void)number;
	ok(g.cuCtxSynchronize());
}

static void *await_and_write(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_rest_us(1000);
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	atomic_store(g.word, g.round);
	return NULL;
}

/* The handler runs in this thread, which is in no call of the driver then. */
void trap_handler(void)
{
	struct sigaction action = {.sa_handler = synchronise, .sa_flags = SA_RESTART};
	pthread_t thread;

	sigaction(SIGUSR2, &action, NULL);
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_thread(await_and_write, &thread);
	traps_pause();
	pthread_kill(pthread_self(), SIGUSR2);
	traps_launch(0, 0, g.device[0].spend, 100000);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* ---- threads that never sleep ask for their streams, each of which waits for the one before -----
 */

static struct {
	CUstream stream[POLLERS];
	atomic_uint ended;
} pollers;

static void *poll_own(void *place)
{
	unsigned own = (unsigned)(uintptr_t)place, due = (g.round - 1) * POLLERS + own;

	traps_use_device();
	while (pollers.ended < due)
		sched_yield();
	for (int i = 0; i < 2; i++) {
		traps_launch_in(pollers.stream[own], 50000);
		while (g.cuStreamQuery(pollers.stream[own]) == CUDA_ERROR_NOT_READY)
			sched_yield();
	}
	if (own + 1 == POLLERS)
		atomic_store(g.word, g.round);
	pollers.ended = due + 1;
	return NULL;
}

void trap_pollers(void)
{
	pthread_t thread[POLLERS];

	for (int i = 0; i < POLLERS && !pollers.stream[POLLERS - 1]; i++)
		ok(g.cuStreamCreate(&pollers.stream[i], CU_STREAM_NON_BLOCKING));
	traps_launch(0, 0, g.device[0].wait, g.round);
	for (uintptr_t i = 0; i < POLLERS; i++)
		if (pthread_create(&thread[i], NULL, poll_own, (void *)i) != 0)
			fail("no thread");
	while (g.cuStreamQuery(g.device[0].stream[0]) == CUDA_ERROR_NOT_READY)
		sched_yield();
	for (int i = 0; i < POLLERS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- two graphs: a host node of the first waits for that of the second, which a thread launches -
 */

static struct {
	CUgraphExec ready[2];
	sem_t reached;
} graphs;

static void say_reached(void *nothing)
{
	(void)nothing;
	sem_post(&graphs.reached);
}

static void await_reached(void *nothing)
{
	(void)nothing;
	while (sem_wait(&graphs.reached) != 0)
		;
}

static CUgraphExec graph_around(CUhostFn function)
{
	CUDA_KERNEL_NODE_PARAMS_v1 spends = traps_one_thread;
	CUDA_HOST_NODE_PARAMS host = {.fn = function};
	CUgraphNode before, node, after;
	uint32_t ns = 50000;
	CUgraphExec ready;
	CUgraph graph;

	spends.func = g.device[0].spend;
	spends.kernelParams = (void *[]){&ns};
	ok(g.cuGraphCreate(&graph, 0));
	ok(g.cuGraphAddKernelNode(&before, graph, NULL, 0, &spends));
	ok(g.cuGraphAddHostNode(&node, graph, &before, 1, &host));
	ok(g.cuGraphAddKernelNode(&after, graph, &node, 1, &spends));
	ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	ok(g.cuGraphDestroy(graph));
	return ready;
}

static void *launch_second(void *nothing)
{
	(void)nothing;
	traps_use_device();
	ok(g.cuGraphLaunch(graphs.ready[1], g.device[0].stream[1]));
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	return NULL;
}

void trap_graphs(void)
{
	if (!graphs.ready[0]) {
		if (sem_init(&graphs.reached, 0, 0) != 0)
			fail("no semaphore");
		graphs.ready[0] = graph_around(await_reached);
		graphs.ready[1] = graph_around(say_reached);
	}
	ok(g.cuGraphLaunch(graphs.ready[0], g.device[0].stream[0]));
	traps_finish(launch_second);
}

/* ---- a context is destroyed while a kernel of another one waits, and its own work goes on -------
 */

static void *work_and_destroy(void *nothing)
{
	struct traps_place own;

	(void)nothing;
	traps_open(&own, 0, 0);
	traps_launch_at(&own, own.spend, 200000);
	ok(g.cuCtxDestroy_v2(own.context));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_destroys(void)
{
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(work_and_destroy);
}

/* ---- kernels are loaded when they are first needed, while another one waits ---------------------
 */

static void *load_and_work(void *nothing)
{
	struct traps_place late = {.stream = g.device[0].stream[1]};

	(void)nothing;
	traps_use_device();
	for (int i = 0; i < 3; i++) {
		traps_load(&late);
		traps_launch_at(&late, late.spend, 50000);
	}
	ok(g.cuStreamSynchronize(late.stream));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_lazy(void)
{
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(load_and_work);
}

/* ---- a thread gives back what a pool keeps, while a stream that allocates from it waits ---------
 */

static void *trim(void *nothing)
{
	CUmemoryPool pool;
	CUdeviceptr at;

	(void)nothing;
	traps_use_device();
	ok(g.cuDeviceGetDefaultMemPool(&pool, 0));
	ok(g.cuMemAllocAsync(&at, 8 << 20, g.device[0].stream[1]));
	traps_launch(0, 1, g.device[0].spend, 50000);
	ok(g.cuMemFreeAsync(at, g.device[0].stream[1]));
	ok(g.cuMemPoolTrimTo(pool, 0));
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	ok(g.cuMemPoolTrimTo(pool, 0));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_trims(void)
{
	CUstream stream = g.device[0].stream[0];
	CUdeviceptr at;

	ok(g.cuMemAllocAsync(&at, 4 << 20, stream));
	ok(g.cuStreamWaitValue32_v2(stream, g.address, g.round, CU_STREAM_WAIT_VALUE_GEQ));
	traps_launch(0, 0, g.device[0].spend, 50000);
	ok(g.cuMemFreeAsync(at, stream));
	traps_finish(trim);
}
