/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that wait for others, green contexts, and managed memory. */
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/guest/turns_traps.h"

enum { GROUPS = 2, BODIES = 2 };

/* ---- a graph waits for an event that is recorded behind a kernel which waits for a thread -------
 */

static struct {
	CUevent before, after;
	CUgraphExec ready;
	CUstream stream;
} between;

static void make_between(void)
{
	CUDA_KERNEL_NODE_PARAMS_v1 spends = traps_one_thread;
	uint32_t ns = 100000;
	CUgraphNode waits, works, records;
	CUgraph graph;

	ok(g.cuEventCreate(&between.before, CU_EVENT_DISABLE_TIMING));
	ok(g.cuEventCreate(&between.after, CU_EVENT_DISABLE_TIMING));
	ok(g.cuStreamCreate(&between.stream, CU_STREAM_NON_BLOCKING));
	ok(g.cuGraphCreate(&graph, 0));
	ok(g.cuGraphAddEventWaitNode(&waits, graph, NULL, 0, between.before));
	spends.func = g.device[0].spend;
	spends.kernelParams = (void *[]){&ns};
	ok(g.cuGraphAddKernelNode(&works, graph, &waits, 1, &spends));
	ok(g.cuGraphAddEventRecordNode(&records, graph, &works, 1, between.after));
	ok(g.cuGraphInstantiateWithFlags(&between.ready, graph, 0));
}

void trap_graph_events(void)
{
	CUstream stream = g.device[0].stream[0];

	if (!between.ready)
		make_between();
	traps_launch(0, 0, g.device[0].wait, g.round);
	ok(g.cuEventRecord(between.before, stream));
	ok(g.cuGraphLaunch(between.ready, between.stream));
	ok(g.cuStreamWaitEvent(stream, between.after, 0));
	traps_launch(0, 0, g.device[0].spend, 100000);
	traps_finish(traps_launch_and_say);
}

/* ---- a graph whose host node waits for another process, and goes on as a thread has decided -----
 */

/* choose(condition, word, value): whether what the word is then, is odd. */
static const char ptx[] =
	".version 6.5\n.target sm_70\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
	".visible .entry choose(.param .u64 h, .param .u64 p) {\n"
	".reg .u64 %h, %a; .reg .u32 %x;\n"
	"ld.param.u64 %h, [h]; ld.param.u64 %a, [p];\n"
	"ld.volatile.u32 %x, [%a]; and.b32 %x, %x, 1;\n"
	"{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %h; st.param.b32 [p1], %x;\n"
	"call.uni cudaGraphSetConditional, (p0, p1); } ret; }\n";

static struct {
	CUgraphExec ready;
	int other;
} chosen;

static void noreturn_ echo(int fd)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
		;
	_exit(0);
}

/* By way of the other process the thread's byte comes back. */
static void hear_of_thread(void *nothing)
{
	char byte;

	(void)nothing;
	if (read(chosen.other, &byte, 1) != 1)
		fail("the other process has ended");
}

static void *decide(void *nothing)
{
	char byte = 0;

	traps_launch_and_say(nothing);
	if (write(chosen.other, &byte, 1) != 1)
		fail("the other process does not listen");
	return NULL;
}

static void start_echo(void)
{
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || (child = fork()) < 0)
		fail("no other process");
	if (child == 0)
		echo(ends[1]);
	close(ends[1]);
	chosen.other = ends[0];
}

static void make_chosen(void)
{
	CUDA_KERNEL_NODE_PARAMS_v1 kernel = traps_one_thread;
	CUDA_HOST_NODE_PARAMS host = {.fn = hear_of_thread};
	CUgraphNodeParams branch = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	uint32_t ns[BODIES] = {100000, 300000};
	CUgraphNode heard, choice, branched, body;
	CUgraphConditionalHandle handle;
	CUmodule module;
	CUgraph graph;

	ok(g.cuModuleLoadData(&module, ptx));
	ok(g.cuGraphCreate(&graph, 0));
	ok(g.cuGraphConditionalHandleCreate(&handle, graph, g.device[0].context, 0,
					    CU_GRAPH_COND_ASSIGN_DEFAULT));
	ok(g.cuGraphAddHostNode(&heard, graph, NULL, 0, &host));
	ok(g.cuModuleGetFunction(&kernel.func, module, "choose"));
	kernel.kernelParams = (void *[]){&handle, &g.address};
	ok(g.cuGraphAddKernelNode(&choice, graph, &heard, 1, &kernel));
	branch.conditional.handle = handle;
	branch.conditional.type = CU_GRAPH_COND_TYPE_SWITCH;
	branch.conditional.size = BODIES;
	branch.conditional.ctx = g.device[0].context;
	ok(g.cuGraphAddNode(&branched, graph, &choice, 1, &branch));
	kernel.func = g.device[0].spend;
	for (int i = 0; i < BODIES; i++) {
		kernel.kernelParams = (void *[]){&ns[i]};
		ok(g.cuGraphAddKernelNode(&body, branch.conditional.phGraph_out[i], NULL, 0,
					  &kernel));
	}
	ok(g.cuGraphInstantiateWithFlags(&chosen.ready, graph, 0));
}

void trap_chosen(void)
{
	if (!chosen.ready) {
		start_echo();
		make_chosen();
	}
	ok(g.cuGraphLaunch(chosen.ready, g.device[0].stream[0]));
	traps_finish(decide);
}

/* ---- the kernel of a green context waits for that of another one, which a thread launches -------
 */

static struct traps_place green[GROUPS];

static void make_green(void)
{
	CUdevResource all, group[GROUPS];
	CUdevResourceDesc desc;
	unsigned n = GROUPS;
	CUgreenCtx made;

	ok(g.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	ok(g.cuDevSmResourceSplitByCount(group, &n, &all, NULL, 0, all.sm.smCount / GROUPS));
	for (int i = 0; i < GROUPS; i++) {
		ok(g.cuDevResourceGenerateDesc(&desc, &group[i], 1));
		ok(g.cuGreenCtxCreate(&made, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
		ok(g.cuCtxFromGreenCtx(&green[i].context, made));
		ok(g.cuGreenCtxStreamCreate(&green[i].stream, made, CU_STREAM_NON_BLOCKING, 0));
		ok(g.cuCtxSetCurrent(green[i].context));
		traps_load(&green[i]);
	}
}

static void *launch_from_other_group(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(green[1].context));
	traps_launch_at(&green[1], green[1].spend, 100000);
	traps_launch_at(&green[1], green[1].set, g.round);
	ok(g.cuStreamSynchronize(green[1].stream));
	return NULL;
}

void trap_green(void)
{
	if (!green[0].context)
		make_green();
	ok(g.cuCtxSetCurrent(green[0].context));
	traps_launch_at(&green[0], green[0].wait, g.round);
	traps_launch_at(&green[0], green[0].spend, 100000);
	traps_finish(launch_from_other_group);
}

/* ---- a kernel polls managed memory, which a thread writes ---------------------------------------
 */

static _Atomic(uint32_t) *managed;

static void *write_managed(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	atomic_store(managed, g.round);
	return NULL;
}

void trap_managed(void)
{
	static CUdeviceptr at;
	void *arguments[] = {&at, &g.round};

	if (!at) {
		ok(g.cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
		managed = (void *)(uintptr_t)at; /* NOLINT(performance-no-int-to-ptr) */
		atomic_store(managed, 0);
	}
	ok(g.cuLaunchKernel(g.device[0].wait, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0], arguments,
			    NULL));
	traps_finish(write_managed);
}
