/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with a cap that make the device theirs, so that no gate of them can be closed. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

/* wait(word): until it is not zero. spend(ns). */
static const char ptx[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			  ".visible .entry wait(.param .u64 p) {\n"
			  ".reg .u64 %a; .reg .u32 %x; .reg .pred %q;\n"
			  "ld.param.u64 %a, [p];\n"
			  "L: nanosleep.u32 20000; ld.volatile.u32 %x, [%a];\n"
			  "setp.eq.u32 %q, %x, 0; @%q bra L; ret; }\n"
			  ".visible .entry spend(.param .u32 v) {\n"
			  ".reg .u32 %v, %s; .reg .pred %q; ld.param.u32 %v, [v];\n"
			  "L: min.u32 %s, %v, 1000000; nanosleep.u32 %s; sub.u32 %v, %v, %s;\n"
			  "setp.ne.u32 %q, %v, 0; @%q bra L; ret; }\n";

static struct {
	CUfunction wait, spend;
	CUdeviceptr address;
	volatile uint32_t *word;
} kernels;

bool attack_load_spend(void)
{
	CUmodule module;
	void *host;

	if (g.cuModuleLoadData(&module, ptx) != CUDA_SUCCESS ||
	    CALL(cuModuleGetFunction)(&kernels.wait, module, "wait") != CUDA_SUCCESS ||
	    CALL(cuModuleGetFunction)(&kernels.spend, module, "spend") != CUDA_SUCCESS ||
	    CALL(cuMemHostAlloc)(&host, 4096,
				 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) !=
		    CUDA_SUCCESS)
		return false;
	memset(host, 0, 4096);
	kernels.word = host;
	return CALL(cuMemHostGetDevicePointer_v2)(&kernels.address, host, 0) == CUDA_SUCCESS;
}

static CUstream stream(void)
{
	CUstream made = NULL;

	CALL(cuStreamCreate)(&made, CU_STREAM_NON_BLOCKING);
	return made;
}

void attack_spend(CUstream where, uint32_t ns)
{
	CALL(cuLaunchKernel)
	(kernels.spend, 1, 1, 1, 1, 1, 1, 0, where, (void *[]){&ns}, NULL);
}

static void spin(CUstream where)
{
	CALL(cuLaunchKernel)
	(kernels.wait, 1, 1, 1, 1, 1, 1, 0, where, (void *[]){&kernels.address}, NULL);
}

static void work_on(void)
{
	CUstream own = stream();
	uint64_t t = 0;

	while (until(&t, 1500)) {
		for (int i = 0; i < 4; i++)
			attack_spend(own, 1000000);
		CALL(cuStreamSynchronize)(own);
	}
}

/* Kernels that never end in four streams, and threads that are always about to launch. */
void attack_turns_spinning(void)
{
	if (!attack_load_spend())
		return;
	for (int i = 0; i < 4; i++)
		spin(stream());
	in_threads(4, work_on);
	take_everything();
}

static void wait_for_word(void *nothing)
{
	(void)nothing;
	while (!*kernels.word)
		usleep(1000);
}

/* Each time, the work of one stream waits for a word that its own thread writes only after further
 * launches.
 */
static void wait_in_turn(void)
{
	CUstream first = stream(), second = stream();
	uint64_t t = 0;

	while (until(&t, 1500)) {
		CALL(cuLaunchHostFunc)(first, wait_for_word, NULL);
		spin(second);
		for (int i = 0; i < 20; i++)
			attack_spend(first, 1000000);
		usleep(20000);
		*kernels.word = 1;
		CALL(cuStreamSynchronize)(first);
		*kernels.word = 0;
	}
	*kernels.word = 1;
}

void attack_turns_coupled(void)
{
	if (attack_load_spend())
		in_threads(4, wait_in_turn);
	take_everything();
}

void attack_turns_wait_values(void)
{
	if (!attack_load_spend())
		return;
	for (int i = 0; i < 64; i++) {
		CUstream one = stream();

		CALL(cuStreamWaitValue32_v2)
		(one, kernels.address, 1, CU_STREAM_WAIT_VALUE_GEQ);
		attack_spend(one, 50000000);
	}
	in_threads(3, work_on);
	take_everything();
}

static void capture_and_work(void)
{
	static _Thread_local CUstream open;

	open = stream();
	CALL(cuStreamBeginCapture_v2)(open, CU_STREAM_CAPTURE_MODE_RELAXED);
	attack_spend(open, 1000);
	work_on();
}

/* No close is acknowledged while they are open. */
void attack_turns_captured(void)
{
	if (attack_load_spend())
		in_threads(6, capture_and_work);
	take_everything();
}

static void work_in_child(void)
{
	start();
	if (attack_load_spend())
		in_threads(2, work_on);
	take_everything();
}

/* One cap, and nobody of its processes has had it. */
void attack_turns_children(void)
{
	for (int i = 0; i < 5; i++)
		if (fork() == 0) {
			work_in_child();
			wait_for_the_end();
			_exit(0);
		}
	start();
	if (attack_load_spend())
		work_on();
	take_everything();
}

/* Each process works for a moment and ends, before it is charged; the next one comes. */
static void work_and_die(void)
{
	start();
	if (attack_load_spend())
		for (int i = 0; i < 50; i++)
			attack_spend(NULL, 5000000);
	usleep(30000);
	kill(getpid(), SIGKILL);
}

void attack_turns_died(void)
{
	uint64_t t = 0;

	while (until(&t, 1500)) {
		for (int i = 0; i < 3; i++)
			if (fork() == 0)
				work_and_die();
		while (wait(NULL) > 0)
			;
	}
	start_and_take();
}

/* Work that was submitted there is complete in no stream that is left. */
static void work_in_contexts(void)
{
	uint64_t t = 0;

	while (until(&t, 1200)) {
		CUcontext context;
		CUmodule module;
		CUfunction kernel;
		uint32_t ns = 20000000;
		CUstream own;

		if (g.cuCtxCreate_v2(&context, 0, g.device) != CUDA_SUCCESS)
			continue;
		own = stream();
		if (g.cuModuleLoadData(&module, ptx) == CUDA_SUCCESS &&
		    CALL(cuModuleGetFunction)(&kernel, module, "spend") == CUDA_SUCCESS)
			CALL(cuLaunchKernel)
		(kernel, 1, 1, 1, 1, 1, 1, 0, own, (void *[]){&ns}, NULL);
		CALL(cuStreamDestroy_v2)(own);
		g.cuCtxDestroy_v2(context);
	}
}

void attack_turns_contexts(void)
{
	in_threads(3, work_in_contexts);
	take_everything();
}

/* A graph of a second, launched again as soon as it runs: what is under way is never little. */
void attack_turns_graphs(void)
{
	CUstream own = stream();
	CUgraphExec exec;
	CUgraph graph;
	uint64_t t = 0;

	if (!attack_load_spend() ||
	    CALL(cuStreamBeginCapture_v2)(own, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 20; i++)
		attack_spend(own, 50000000);
	if (CALL(cuStreamEndCapture)(own, &graph) != CUDA_SUCCESS ||
	    g.cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS)
		return;
	while (until(&t, 1500)) {
		for (int i = 0; i < 8; i++)
			g.cuGraphLaunch(exec, own);
		usleep(100000);
	}
	take_everything();
}

/* spend(1 ms); is it to go on? go_on(h). */
static const char decided_ptx[] =
	".version 6.5\n.target sm_70\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
	".visible .entry go_on(.param .u64 h) {\n"
	".reg .u64 %h; ld.param.u64 %h, [h]; nanosleep.u32 1000000;\n"
	"{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %h; st.param.b32 [p1], 1;\n"
	"call.uni cudaGraphSetConditional, (p0, p1); } ret; }\n";

/* A while whose body is one kernel, which makes the body run again: for ever. */
static bool make_endless(CUfunction go_on, CUgraphExec *ret_exec)
{
	CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL}, kernel = {0};
	CUgraphConditionalHandle handle;
	CUgraphNode made;
	CUgraph graph;

	if (g.cuGraphCreate(&graph, 0) != CUDA_SUCCESS ||
	    CALL(cuGraphConditionalHandleCreate)(&handle, graph, g.context, 1,
						 CU_GRAPH_COND_ASSIGN_DEFAULT) != CUDA_SUCCESS)
		return false;
	node.conditional.handle = handle;
	node.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
	node.conditional.size = 1;
	node.conditional.ctx = g.context;
	if (CALL(cuGraphAddNode_v2)(&made, graph, NULL, NULL, 0, &node) != CUDA_SUCCESS)
		return false;
	kernel.type = CU_GRAPH_NODE_TYPE_KERNEL;
	kernel.kernel.func = go_on;
	kernel.kernel.gridDimX = kernel.kernel.gridDimY = kernel.kernel.gridDimZ = 1;
	kernel.kernel.blockDimX = kernel.kernel.blockDimY = kernel.kernel.blockDimZ = 1;
	kernel.kernel.kernelParams = (void *[]){&handle};
	return CALL(cuGraphAddNode_v2)(&made, node.conditional.phGraph_out[0], NULL, NULL, 0,
				       &kernel) == CUDA_SUCCESS &&
	       g.cuGraphInstantiateWithFlags(ret_exec, graph, 0) == CUDA_SUCCESS;
}

/* Four launches by the host, and all others by the device: no gate is asked about those. */
void attack_turns_decided(void)
{
	CUfunction go_on;
	CUgraphExec exec;
	CUmodule module;

	if (!attack_load_spend() || g.cuModuleLoadData(&module, decided_ptx) != CUDA_SUCCESS ||
	    CALL(cuModuleGetFunction)(&go_on, module, "go_on") != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 4 && make_endless(go_on, &exec); i++)
		g.cuGraphLaunch(exec, stream());
	in_threads(2, work_on);
	take_everything();
}

static CUcontext green_context(void)
{
	CUdevResource all;
	CUdevResourceDesc description;
	CUcontext context = NULL;
	CUgreenCtx green;

	if (CALL(cuDeviceGetDevResource)(g.device, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS &&
	    CALL(cuDevResourceGenerateDesc)(&description, &all, 1) == CUDA_SUCCESS &&
	    CALL(cuGreenCtxCreate)(&green, description, g.device, CU_GREEN_CTX_DEFAULT_STREAM) ==
		    CUDA_SUCCESS)
		CALL(cuCtxFromGreenCtx)(&context, green);
	return context;
}

/* Its work is in no stream of the process's other contexts. */
static void work_in_green(void)
{
	CUcontext context = green_context();
	CUmodule module;
	CUfunction kernel;
	CUstream own;
	uint32_t ns = 5000000;
	uint64_t t = 0;

	if (!context || g.cuCtxSetCurrent(context) != CUDA_SUCCESS ||
	    g.cuModuleLoadData(&module, ptx) != CUDA_SUCCESS ||
	    CALL(cuModuleGetFunction)(&kernel, module, "spend") != CUDA_SUCCESS)
		return;
	own = stream();
	while (until(&t, 1500)) {
		for (int i = 0; i < 16; i++)
			CALL(cuLaunchKernel)
		(kernel, 1, 1, 1, 1, 1, 1, 0, own, (void *[]){&ns}, NULL);
		CALL(cuStreamSynchronize)(own);
	}
}

void attack_turns_green(void)
{
	in_threads(4, work_in_green);
	take_everything();
}

static void stop_here(void *nothing)
{
	(void)nothing;
	raise(SIGSTOP);
}

static void stop_in_work(void)
{
	CUstream own, other;

	start();
	if (!attack_load_spend())
		return;
	own = stream();
	other = stream();
	for (int i = 0; i < 10; i++)
		attack_spend(other, 50000000);
	CALL(cuLaunchHostFunc)(own, stop_here, NULL);
	for (;;)
		attack_spend(own, 1000000);
}

/* Stopped by the driver's own thread, while another one is in the middle of a launch. */
void attack_turns_stopped(void)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			stop_in_work();
			_exit(0);
		}
	usleep(900000);
	start_and_take();
}
