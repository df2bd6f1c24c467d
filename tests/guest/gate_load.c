/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/guest/gate_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "tests/check.h"

enum {
	STREAMS = 64, /* at once */
};

#define FUNCTIONS(F)                                                                               \
	F(cuInit)                                                                                  \
	F(cuCtxCreate_v2)                                                                          \
	F(cuCtxSetCurrent)                                                                         \
	F(cuModuleLoadData)                                                                        \
	F(cuModuleGetFunction)                                                                     \
	F(cuMemAlloc_v2)                                                                           \
	F(cuMemHostAlloc)                                                                          \
	F(cuMemHostGetDevicePointer_v2)                                                            \
	F(cuLaunchKernel)                                                                          \
	F(cuMemcpyHtoDAsync_v2)                                                                    \
	F(cuMemsetD8_v2)                                                                           \
	F(cuGraphInstantiateWithFlags)                                                             \
	F(cuGraphExecDestroy)                                                                      \
	F(cuGraphDestroy)                                                                          \
	F(cuGraphLaunch)                                                                           \
	F(cuLaunchHostFunc)                                                                        \
	F(cuStreamWaitValue32_v2)                                                                  \
	F(cuStreamCreate)                                                                          \
	F(cuStreamDestroy_v2)                                                                      \
	F(cuStreamQuery)                                                                           \
	F(cuStreamSynchronize)

static const char nothing[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
			      ".visible .entry nothing()\n{\n\tret;\n}\n";

struct load load;

static struct {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	CUcontext context;
	CUfunction function;
	CUdeviceptr_v2 memory;
	atomic_int stop;
	atomic_ulong hosted;
	pthread_mutex_t lock;
	CUstream stream[STREAMS];
	pthread_t thread[16];
} g = {.function = (CUfunction)1, .memory = 1, .lock = PTHREAD_MUTEX_INITIALIZER};

void load_find(void *library)
{
	CUmodule module = NULL;

#define FIND(symbol)                                                                               \
	g.symbol = (api_fn_##symbol *)dlsym(library, #symbol);                                     \
	check(g.symbol != NULL);
	FUNCTIONS(FIND)
#undef FIND
	load.begin = (api_fn_cuStreamBeginCapture_v2 *)dlsym(library, "cuStreamBeginCapture_v2");
	load.end = (api_fn_cuStreamEndCapture *)dlsym(library, "cuStreamEndCapture");
	check(load.begin && load.end);
	check(g.cuInit(0) == CUDA_SUCCESS);
	check(g.cuCtxCreate_v2(&g.context, 0, 0) == CUDA_SUCCESS);
	check(g.cuModuleLoadData(&module, nothing) == CUDA_SUCCESS);
	check(g.cuModuleGetFunction(&g.function, module, "nothing") == CUDA_SUCCESS);
	check(g.cuMemAlloc_v2(&g.memory, 4096) == CUDA_SUCCESS);
}

CUresult load_launch(CUstream stream)
{
	return g.cuLaunchKernel(g.function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

CUstream load_stream(unsigned flags)
{
	CUstream stream = NULL;

	check(g.cuStreamCreate(&stream, flags) == CUDA_SUCCESS);
	pthread_mutex_lock(&g.lock);
	for (int i = 0; i < STREAMS; i++)
		if (!g.stream[i]) {
			g.stream[i] = stream;
			break;
		}
	pthread_mutex_unlock(&g.lock);
	return stream;
}

void load_set_current(CUcontext context)
{
	check(g.cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

void load_synchronize(CUstream stream)
{
	check(g.cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

static void drop_stream(CUstream stream)
{
	pthread_mutex_lock(&g.lock);
	for (int i = 0; i < STREAMS; i++)
		if (g.stream[i] == stream)
			g.stream[i] = NULL;
	pthread_mutex_unlock(&g.lock);
	check(g.cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
}

int load_idle(void)
{
	int idle = 1;

	g.cuCtxSetCurrent(g.context);
	pthread_mutex_lock(&g.lock);
	for (int i = 0; i < STREAMS; i++)
		if (g.stream[i] && g.cuStreamQuery(g.stream[i]) == CUDA_ERROR_NOT_READY)
			idle = 0;
	pthread_mutex_unlock(&g.lock);
	return idle;
}

static CUstream start(void *argument)
{
	check(g.cuCtxSetCurrent(g.context) == CUDA_SUCCESS);
	return load_stream((unsigned)(uintptr_t)argument & 1);
}

static void *launches(void *argument)
{
	CUstream stream = start(argument);

	for (unsigned i = 0; !g.stop; i++) {
		check(load_launch(stream) == CUDA_SUCCESS);
		check(g.cuMemcpyHtoDAsync_v2(g.memory, &i, 4, stream) == CUDA_SUCCESS);
		if (i % 16 == 0)
			check(g.cuStreamSynchronize(stream) == CUDA_SUCCESS);
		if (i % 1024 == 0) {
			check(g.cuStreamSynchronize(stream) == CUDA_SUCCESS);
			drop_stream(stream);
			stream = load_stream(i / 1024 & 1);
		}
	}
	return NULL;
}

static void *captures(void *argument)
{
	CUstream stream = start(argument), other = load_stream(1);

	while (!g.stop) {
		CUgraph graph = NULL, second = NULL;
		CUgraphExec exec = NULL;

		check(load.begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
		/* With a capture of its own open a second one must not wait for the gate. */
		check(load.begin(other, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
		for (int i = 0; i < 10; i++)
			check(load_launch(i & 1 ? stream : other) == CUDA_SUCCESS);
		check(load.end(other, &second) == CUDA_SUCCESS);
		check(load.end(stream, &graph) == CUDA_SUCCESS);
		check(g.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
		check(g.cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
		check(g.cuStreamSynchronize(stream) == CUDA_SUCCESS);
		check(g.cuGraphExecDestroy(exec) == CUDA_SUCCESS);
		check(g.cuGraphDestroy(graph) == CUDA_SUCCESS);
		check(g.cuGraphDestroy(second) == CUDA_SUCCESS);
	}
	return NULL;
}

static void hosted(void *argument)
{
	(void)argument;
	atomic_fetch_add(&g.hosted, 1);
}

unsigned long load_hosted(void)
{
	return g.hosted;
}

CUresult load_host(void)
{
	return g.cuLaunchHostFunc(NULL, hosted, NULL);
}

static void *host_functions(void *argument)
{
	CUstream stream = start(argument);

	while (!g.stop) {
		check(g.cuLaunchHostFunc(stream, hosted, NULL) == CUDA_SUCCESS);
		check(g.cuStreamSynchronize(stream) == CUDA_SUCCESS);
	}
	return NULL;
}

/* The stream waits for a word that this thread writes after another launch: a close in between
 * cannot drain, and must be given up. */
static void *stream_waits(void *argument)
{
	CUstream stream = start(argument), other = load_stream(1);
	uint32_t own = 0, *word, value = 0;
	CUdeviceptr_v2 address = (CUdeviceptr_v2)(uintptr_t)&own;
	void *host = &own;

	check(g.cuMemHostAlloc(&host, 64, 0) == CUDA_SUCCESS);
	check(g.cuMemHostGetDevicePointer_v2(&address, host, 0) == CUDA_SUCCESS);
	word = host;
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	while (!g.stop) {
		value++;
		check(g.cuStreamWaitValue32_v2(stream, address, value, 0) == CUDA_SUCCESS);
		check(load_launch(other) == CUDA_SUCCESS);
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
		check(g.cuStreamSynchronize(stream) == CUDA_SUCCESS);
	}
	return NULL;
}

/* Threads that live for a few launches: their slots are handed on. */
static void *few_launches(void *argument)
{
	(void)argument;
	check(g.cuCtxSetCurrent(g.context) == CUDA_SUCCESS);
	for (int i = 0; i < 3; i++)
		check(load_launch(argument) == CUDA_SUCCESS);
	return NULL;
}

static void *short_lives(void *argument)
{
	CUstream stream = start(argument);
	pthread_t thread;

	while (!g.stop) {
		check(pthread_create(&thread, NULL, few_launches, stream) == 0);
		pthread_join(thread, NULL);
		check(g.cuStreamSynchronize(stream) == CUDA_SUCCESS);
	}
	return NULL;
}

void load_start(void)
{
	void *(*const kind[16])(void *) = {
		launches,	launches,     launches,	    launches,	 launches, launches,
		launches,	captures,     captures,	    captures,	 captures, host_functions,
		host_functions, stream_waits, stream_waits, short_lives,
	};

	for (uintptr_t i = 0; i < 16; i++)
		check(pthread_create(&g.thread[i], NULL, kind[i], (void *)i) == 0);
}

void load_stop(void)
{
	g.stop = 1;
	for (int i = 0; i < 16; i++)
		pthread_join(g.thread[i], NULL);
}
