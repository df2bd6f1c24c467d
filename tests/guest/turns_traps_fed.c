/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that stay on the device and are fed: by the host, by copies, by launches that come later.
 */
#include <stdint.h>

#include "tests/guest/turns_traps.h"

enum { ITEMS = 64, BLOCKS = 8, AGAIN = 4 };

/* serve(words, from, first, last): for each number waits until *from is at least it, works, and
 * says so in words[1]. barrier(word, value): a grid's. until(condition, word, value): whether the
 * graph goes on. */
static const char ptx[] =
	".version 6.5\n.target sm_70\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
	".visible .entry serve(.param .u64 p, .param .u64 f, .param .u32 n, .param .u32 l) {\n"
	".reg .u64 %a, %f; .reg .u32 %x, %n, %l; .reg .pred %q;\n"
	"ld.param.u64 %a, [p]; ld.param.u64 %f, [f]; ld.param.u32 %n, [n]; ld.param.u32 %l, [l];\n"
	"N: ld.volatile.u32 %x, [%f]; setp.ge.u32 %q, %x, %n; @%q bra W;\n"
	"nanosleep.u32 20000; bra N;\n"
	"W: nanosleep.u32 50000; st.volatile.u32 [%a+4], %n; setp.ge.u32 %q, %n, %l;\n"
	"add.u32 %n, %n, 1; @!%q bra N; ret; }\n"
	".visible .entry barrier(.param .u64 p, .param .u32 v) {\n"
	".reg .u64 %a; .reg .u32 %x, %v; .reg .pred %q;\n"
	"ld.param.u64 %a, [p]; ld.param.u32 %v, [v]; atom.global.add.u32 %x, [%a], 1;\n"
	"L: nanosleep.u32 20000; ld.volatile.u32 %x, [%a];\n"
	"setp.lt.u32 %q, %x, %v; @%q bra L; ret; }\n"
	".visible .entry until(.param .u64 h, .param .u64 p, .param .u32 v) {\n"
	".reg .u64 %h, %a; .reg .u32 %x, %v; .reg .pred %q;\n"
	"ld.param.u64 %h, [h]; ld.param.u64 %a, [p]; ld.param.u32 %v, [v];\n"
	"nanosleep.u32 100000; ld.volatile.u32 %x, [%a]; setp.lt.u32 %q, %x, %v;\n"
	"selp.u32 %x, 1, 0, %q;\n"
	"{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %h; st.param.b32 [p1], %x;\n"
	"call.uni cudaGraphSetConditional, (p0, p1); } ret; }\n";

static CUfunction kernel(const char *name)
{
	static CUmodule module;

	return traps_kernel_of(&module, ptx, name);
}

static void serve(CUdeviceptr from, uint32_t first, uint32_t last)
{
	static CUfunction served;
	void *arguments[] = {&g.address, &from, &first, &last};

	if (!served)
		served = kernel("serve");
	ok(g.cuLaunchKernel(served, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0], arguments, NULL));
}

static void await_served(uint32_t number)
{
	const struct timespec pause = {0, 20000};

	while (atomic_load(&g.word[1]) < number)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* A ring of four places in memory of the host, which is filled without the driver. */
void trap_ring(void)
{
	uint32_t first = (g.round - 1) * ITEMS + 1, last = g.round * ITEMS;

	serve(g.address, first, last);
	for (uint32_t i = first; i <= last; i++) {
		await_served(i > 4 ? i - 4 : 0);
		atomic_store(g.word, i);
	}
	ok(g.cuCtxSynchronize());
}

/* One kernel for as long as the program lives, and what it does comes by copies. */
void trap_fed(void)
{
	static CUdeviceptr from;
	CUstream stream = g.device[0].stream[1];

	if (!from) {
		from = traps_new_words();
		serve(from, 1, UINT32_MAX);
	}
	g.word[2] = g.round;
	ok(g.cuMemcpyHtoDAsync_v2(from, (const void *)&g.word[2], 4, stream));
	ok(g.cuStreamSynchronize(stream));
	await_served(g.round);
}

/* Grids whose blocks wait for each other. */
void trap_cooperative(void)
{
	static CUdeviceptr at;
	static CUfunction barrier;
	static uint32_t due;

	if (!at) {
		at = traps_new_words();
		barrier = kernel("barrier");
	}
	for (int i = 0; i < 4; i++) {
		due += BLOCKS;
		ok(g.cuLaunchCooperativeKernel(barrier, BLOCKS, 1, 1, 1, 1, 1, 0,
					       g.device[0].stream[i % STREAMS],
					       (void *[]){&at, &due}));
	}
	ok(g.cuCtxSynchronize());
}

/* ---- a graph that goes on until another thread has launched ---------------------------------- */

static CUgraphExec endless(uint32_t value)
{
	CUDA_KERNEL_NODE_PARAMS_v1 asks = traps_one_thread;
	CUgraphNodeParams loop = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	CUgraphConditionalHandle handle;
	void *arguments[] = {&handle, &g.address, &value};
	CUgraphExec made;
	CUgraphNode node;
	CUgraph graph;

	ok(g.cuGraphCreate(&graph, 0));
	ok(g.cuGraphConditionalHandleCreate(&handle, graph, g.device[0].context, 1,
					    CU_GRAPH_COND_ASSIGN_DEFAULT));
	loop.conditional.handle = handle;
	loop.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
	loop.conditional.size = 1;
	loop.conditional.ctx = g.device[0].context;
	ok(g.cuGraphAddNode(&node, graph, NULL, 0, &loop));
	asks.func = kernel("until");
	asks.kernelParams = arguments;
	ok(g.cuGraphAddKernelNode(&node, loop.conditional.phGraph_out[0], NULL, 0, &asks));
	ok(g.cuGraphInstantiateWithFlags(&made, graph, 0));
	ok(g.cuGraphDestroy(graph));
	return made;
}

static void *launch_and_write(void *nothing)
{
	(void)nothing;
	traps_pause();
	ok(g.cuCtxSetCurrent(g.device[0].context));
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_loop(void)
{
	CUgraphExec graph = endless(g.round);
	pthread_t thread;

	ok(g.cuGraphLaunch(graph, g.device[0].stream[0]));
	traps_thread(launch_and_write, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
	ok(g.cuGraphExecDestroy(graph));
}

/* ---- a graph within a graph, launched again from its host node ------------------------------- */

static CUgraphExec again;

static void *launch_again(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	ok(g.cuGraphLaunch(again, g.device[0].stream[0]));
	g.launched++;
	return NULL;
}

/* The driver must not be called here: a thread does, and is waited for. */
static void from_graph(void *nothing)
{
	unsigned before = g.launched;
	pthread_t thread;

	(void)nothing;
	if (before % AGAIN == 0)
		return;
	traps_thread(launch_again, &thread);
	pthread_join(thread, NULL);
}

static void make_again(void)
{
	CUDA_HOST_NODE_PARAMS host = {.fn = from_graph};
	CUstream stream = g.device[0].stream[0];
	CUgraph inner, outer;
	CUgraphNode node, last;

	ok(g.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	traps_launch(0, 0, g.device[0].spend, 200000);
	ok(g.cuStreamEndCapture(stream, &inner));
	ok(g.cuGraphCreate(&outer, 0));
	ok(g.cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
	ok(g.cuGraphAddHostNode(&last, outer, &node, 1, &host));
	ok(g.cuGraphInstantiateWithFlags(&again, outer, 0));
}

void trap_again(void)
{
	if (!again)
		make_again();
	g.launched = (g.round - 1) * AGAIN + 1;
	ok(g.cuGraphLaunch(again, g.device[0].stream[0]));
	while (g.launched < g.round * AGAIN)
		sched_yield();
	ok(g.cuCtxSynchronize());
}
