/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, graphs and grids that wait for values, for the host, and for each other. */
#include <string.h>

#include "tests/guest/turns_traps.h"

enum { HOPS = 8, LINKS = 4, PHASES = 4, GRID = 8 };

static void rest(uint64_t ns)
{
	struct timespec pause;

	ns *= g.slow;
	pause = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void work_in(int stream)
{
	traps_launch(0, stream, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[stream]));
}

/* ---- two streams hand a word to each other by batches of memory operations --------------------
 */

static void *begin_batch(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 0, g.device[0].spend, 100000);
	atomic_store(g.word, g.round * (HOPS + 1));
	return NULL;
}

void trap_batch(void)
{
	for (uint32_t i = 0; i < HOPS; i++) {
		CUstreamBatchMemOpParams ops[2];

		memset(ops, 0, sizeof(ops));
		ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
		ops[0].waitValue.address = g.address;
		ops[0].waitValue.value = g.round * (HOPS + 1) + i;
		ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		ops[1].writeValue.address = g.address;
		ops[1].writeValue.value = g.round * (HOPS + 1) + i + 1;
		ok(g.cuStreamBatchMemOp_v2(g.device[0].stream[i % STREAMS], 2, ops, 0));
		traps_launch(0, (int)i % STREAMS, g.device[0].spend, 50000);
	}
	traps_finish(begin_batch);
}

/* ---- the blocks of a grid wait for each other, and then for the host, again and again ----------
 */

/* phases(arrived, due, word, value, phases): in each, all blocks arrive and wait for the word. */
static const char ptx[] =
	".version 6.5\n.target sm_70\n.address_size 64\n"
	".visible .entry phases(.param .u64 p, .param .u32 d, .param .u64 w, .param .u32 v, "
	".param .u32 n) {\n"
	".reg .u64 %a, %w; .reg .u32 %x, %d, %v, %n; .reg .pred %q;\n"
	"ld.param.u64 %a, [p]; ld.param.u32 %d, [d]; ld.param.u64 %w, [w];\n"
	"ld.param.u32 %v, [v]; ld.param.u32 %n, [n];\n"
	"N: atom.global.add.u32 %x, [%a], 1;\n"
	"B: nanosleep.u32 20000; ld.volatile.u32 %x, [%a];\n"
	"setp.lt.u32 %q, %x, %d; @%q bra B;\n"
	"H: nanosleep.u32 20000; ld.volatile.u32 %x, [%w];\n"
	"setp.lt.u32 %q, %x, %v; @%q bra H;\n"
	"add.u32 %d, %d, 8; add.u32 %v, %v, 1; sub.u32 %n, %n, 1;\n"
	"setp.ne.u32 %q, %n, 0; @%q bra N; ret; }\n";

static void *let_phases_go(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (uint32_t i = 0; i < PHASES; i++) {
		traps_pause();
		work_in(1);
		atomic_store(g.word, g.round * PHASES + i);
	}
	return NULL;
}

void trap_grid(void)
{
	static CUdeviceptr arrived;
	static CUfunction phases;
	uint32_t due = (g.round - 1) * PHASES * GRID + GRID, value = g.round * PHASES, n = PHASES;
	CUmodule module;

	if (!phases) {
		ok(g.cuModuleLoadData(&module, ptx));
		ok(g.cuModuleGetFunction(&phases, module, "phases"));
		ok(g.cuMemAlloc_v2(&arrived, 4096));
		ok(g.cuMemsetD8_v2(arrived, 0, 4096));
		ok(g.cuCtxSynchronize());
	}
	ok(g.cuLaunchCooperativeKernel(phases, GRID, 1, 1, 1, 1, 1, 0, g.device[0].stream[0],
				       (void *[]){&arrived, &due, &g.address, &value, &n}));
	traps_finish(let_phases_go);
}

/* ---- events of one thread are polled in a second one and awaited in a third --------------------
 */

static struct {
	CUevent first, second;
	atomic_uint recorded, seen;
} events;

static void *record_first(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuEventRecord(events.first, g.device[0].stream[1]));
	events.recorded = g.round;
	return NULL;
}

static void *poll_first(void *nothing)
{
	(void)nothing;
	traps_use_device();
	while (events.recorded < g.round)
		sched_yield();
	while (g.cuEventQuery(events.first) == CUDA_ERROR_NOT_READY)
		sched_yield();
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuEventRecord(events.second, g.device[0].stream[1]));
	events.seen = g.round;
	return NULL;
}

static void *await_second(void *nothing)
{
	pthread_t recorder, poller;

	(void)nothing;
	traps_use_device();
	traps_thread(poll_first, &poller);
	traps_thread(record_first, &recorder);
	while (events.seen < g.round)
		sched_yield();
	ok(g.cuEventSynchronize(events.second));
	atomic_store(g.word, g.round);
	pthread_join(recorder, NULL);
	pthread_join(poller, NULL);
	return NULL;
}

void trap_events(void)
{
	if (!events.first) {
		ok(g.cuEventCreate(&events.first, CU_EVENT_DISABLE_TIMING));
		ok(g.cuEventCreate(&events.second, CU_EVENT_DISABLE_TIMING));
	}
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(await_second);
}

/* ---- host functions, each of which waits until a thread has allocated and freed -----------------
 */

static atomic_uint asked, given;

static void *allocate_for_each(void *nothing)
{
	CUstream stream = g.device[0].stream[1];
	CUdeviceptr at;
	void *host;

	(void)nothing;
	traps_use_device();
	for (int i = 0; i < LINKS; i++) {
		while (asked == given)
			sched_yield();
		ok(g.cuMemAlloc_v2(&at, 4 << 20));
		ok(g.cuMemFreeAsync(at, stream));
		ok(g.cuMemAllocAsync(&at, 2 << 20, stream));
		ok(g.cuMemFreeAsync(at, stream));
		ok(g.cuStreamSynchronize(stream));
		host = malloc(1 << 20);
		free(host);
		given++;
	}
	return NULL;
}

static void ask_for_memory(void *nothing)
{
	unsigned mine = ++asked;

	(void)nothing;
	while (given < mine)
		sched_yield();
}

void trap_chain(void)
{
	for (int i = 0; i < LINKS; i++) {
		traps_launch(0, 0, g.device[0].spend, 50000);
		ok(g.cuLaunchHostFunc(g.device[0].stream[0], ask_for_memory, NULL));
	}
	traps_finish(allocate_for_each);
}

/* ---- a graph with memory of its own, whose host node waits for a thread -------------------------
 */

static void *work_and_say(void *nothing)
{
	(void)nothing;
	traps_use_device();
	work_in(1);
	g.launched = g.round;
	return NULL;
}

static void wait_for_work(void *nothing)
{
	(void)nothing;
	while (g.launched < g.round)
		sched_yield();
}

static CUgraphExec with_memory(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS memory = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = 4 << 20};
	CUDA_HOST_NODE_PARAMS host = {.fn = wait_for_work};
	CUgraphNode allocated, waited, freed;
	CUgraphExec made;
	CUgraph graph;

	ok(g.cuGraphCreate(&graph, 0));
	ok(g.cuGraphAddMemAllocNode(&allocated, graph, NULL, 0, &memory));
	ok(g.cuGraphAddHostNode(&waited, graph, &allocated, 1, &host));
	ok(g.cuGraphAddMemFreeNode(&freed, graph, &waited, 1, memory.dptr));
	ok(g.cuGraphInstantiateWithFlags(&made, graph, 0));
	ok(g.cuGraphDestroy(graph));
	return made;
}

void trap_graph_memory(void)
{
	static CUgraphExec ready;

	if (!ready)
		ready = with_memory();
	ok(g.cuGraphLaunch(ready, g.device[0].stream[0]));
	traps_launch(0, 0, g.device[0].spend, 100000);
	traps_finish(work_and_say);
}

/* ---- callbacks, each of which has another thread launch the next one ----------------------------
 */

static atomic_uint wanted, called;

static void on_done(CUstream stream, CUresult status, void *nothing)
{
	(void)stream;
	(void)status;
	(void)nothing;
	called++;
	wanted++;
}

static void *launch_for_each(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (int i = 0; i < LINKS; i++) {
		while (!wanted)
			sched_yield();
		wanted--;
		traps_launch(0, 1, g.device[0].spend, 100000);
		ok(g.cuStreamAddCallback(g.device[0].stream[1], on_done, NULL, 0));
	}
	return NULL;
}

void trap_callbacks(void)
{
	unsigned last = g.round * (LINKS + 1);
	pthread_t thread;

	wanted = 0;
	traps_thread(launch_for_each, &thread);
	ok(g.cuStreamAddCallback(g.device[0].stream[0], on_done, NULL, 0));
	while (called < last)
		sched_yield();
	pthread_join(thread, NULL);
}

/* ---- a kernel polls while another thread copies, and the calls return when the bytes are there -
 */

static void *copy_then_write(void *nothing)
{
	static CUdeviceptr at;
	static char bytes[1 << 16];

	(void)nothing;
	traps_use_device();
	if (!at)
		ok(g.cuMemAlloc_v2(&at, sizeof(bytes)));
	ok(g.cuMemcpyHtoD_v2(at, bytes, sizeof(bytes)));
	ok(g.cuMemcpyDtoH_v2(bytes, at, sizeof(bytes)));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_copies(void)
{
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(copy_then_write);
}

/* ---- host functions that take longer than the kernels between them ------------------------------
 */

static void compute_on_host(void *nothing)
{
	(void)nothing;
	rest(4000000);
}

void trap_host_heavy(void)
{
	for (int i = 0; i < LINKS; i++) {
		traps_launch(0, 0, g.device[0].spend, 200000);
		ok(g.cuLaunchHostFunc(g.device[0].stream[0], compute_on_host, NULL));
	}
	ok(g.cuCtxSynchronize());
}

/* ---- a stream waits for what comes from outside, after up to 0.9 s ------------------------------
 */

static void *hear_from_outside(void *nothing)
{
	(void)nothing;
	rest(100000000 + (uint64_t)(rand_r(&g.random) % 800) * 1000000);
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_outside(void)
{
	ok(g.cuStreamWaitValue32_v2(g.device[0].stream[0], g.address, g.round,
				    CU_STREAM_WAIT_VALUE_GEQ));
	traps_launch(0, 0, g.device[0].spend, 500000);
	traps_finish(hear_from_outside);
}

/* ---- one that works for 10 ms and sleeps for 90 -------------------------------------------------
 */

void trap_sleeper(void)
{
	rest(90000000);
	for (int i = 0; i < 10; i++)
		traps_launch(0, 0, g.device[0].spend, 1000000);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}
