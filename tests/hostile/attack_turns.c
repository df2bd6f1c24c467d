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

static bool load(void)
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

static void spend(CUstream where, uint32_t ns)
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
			spend(own, 1000000);
		CALL(cuStreamSynchronize)(own);
	}
}

/* Kernels that never end in four streams, and threads that are always about to launch. */
void attack_turns_spinning(void)
{
	if (!load())
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

/* Who says so may write for ever: it is always another stream's work that is waited for. */
static void wait_in_turn(void)
{
	CUstream first = stream(), second = stream();
	uint64_t t = 0;

	while (until(&t, 1500)) {
		CALL(cuLaunchHostFunc)(first, wait_for_word, NULL);
		spin(second);
		for (int i = 0; i < 20; i++)
			spend(first, 1000000);
		usleep(20000);
		*kernels.word = 1;
		CALL(cuStreamSynchronize)(first);
		*kernels.word = 0;
	}
	*kernels.word = 1;
}

void attack_turns_coupled(void)
{
	if (load())
		in_threads(4, wait_in_turn);
	take_everything();
}

void attack_turns_wait_values(void)
{
	if (!load())
		return;
	for (int i = 0; i < 64; i++) {
		CUstream one = stream();

		CALL(cuStreamWaitValue32_v2)
		(one, kernels.address, 1, CU_STREAM_WAIT_VALUE_GEQ);
		spend(one, 50000000);
	}
	in_threads(3, work_on);
	take_everything();
}

static void capture_and_work(void)
{
	static _Thread_local CUstream open;

	open = stream();
	CALL(cuStreamBeginCapture_v2)(open, CU_STREAM_CAPTURE_MODE_RELAXED);
	spend(open, 1000);
	work_on();
}

/* No close is acknowledged while they are open. */
void attack_turns_captured(void)
{
	if (load())
		in_threads(6, capture_and_work);
	take_everything();
}

static void work_in_child(void)
{
	start();
	if (load())
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
	work_on();
	take_everything();
}

/* Each process works for a moment and ends, before it is charged; the next one comes. */
static void work_and_die(void)
{
	start();
	if (load())
		for (int i = 0; i < 50; i++)
			spend(NULL, 5000000);
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
	take_everything();
}

/* What was submitted there is complete in no stream that is left. */
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

	if (!load() ||
	    CALL(cuStreamBeginCapture_v2)(own, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 20; i++)
		spend(own, 50000000);
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

static void stop_here(void *nothing)
{
	(void)nothing;
	raise(SIGSTOP);
}

static void stop_in_work(void)
{
	CUstream own;

	start();
	if (!load())
		return;
	own = stream();
	spin(stream());
	CALL(cuLaunchHostFunc)(own, stop_here, NULL);
	for (;;)
		spend(own, 1000000);
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
	take_everything();
}
