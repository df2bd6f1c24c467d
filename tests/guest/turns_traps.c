/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that a gate which is closed naively would stop for ever: their work on the device waits
 * for one of their own threads, which waits at the gate; and some that keep it from being closed in
 * order to have more than their share. For test_guest_turns_traps.py and bench/coupled.py:
 *
 *	turns_traps TRAP ROUNDS       prints "done" when all rounds are
 *	turns_traps TRAP 0            prints the number of rounds once its input has ended
 *
 * A kernel that waits polls a word of mapped host memory, so that it does on a GPU what it does on
 * the simulated one. Rounds begin at random: the gate may close anywhere in them.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "tests/guest/must.h"

/* wait(word, value): until the word is at least the value. set(word, value). spend(ns). */
static const char ptx[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			  ".visible .entry wait(.param .u64 p, .param .u32 v) {\n"
			  ".reg .u64 %a; .reg .u32 %x, %v; .reg .pred %q;\n"
			  "ld.param.u64 %a, [p]; ld.param.u32 %v, [v];\n"
			  "L: nanosleep.u32 20000; ld.volatile.u32 %x, [%a];\n"
			  "setp.lt.u32 %q, %x, %v; @%q bra L; ret; }\n"
			  ".visible .entry set(.param .u64 p, .param .u32 v) {\n"
			  ".reg .u64 %a; .reg .u32 %v;\n"
			  "ld.param.u64 %a, [p]; ld.param.u32 %v, [v];\n"
			  "st.volatile.u32 [%a], %v; ret; }\n"
			  ".visible .entry spend(.param .u32 v) {\n"
			  ".reg .u32 %v, %s; .reg .pred %q; ld.param.u32 %v, [v];\n"
			  "L: min.u32 %s, %v, 1000000; nanosleep.u32 %s; sub.u32 %v, %v, %s;\n"
			  "setp.ne.u32 %q, %v, 0; @%q bra L; ret; }\n";

#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuDeviceGet)                                                                             \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxSetCurrent)                                                                         \
	X(cuCtxSynchronize)                                                                        \
	X(cuModuleLoadData)                                                                        \
	X(cuModuleGetFunction)                                                                     \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemHostRegister_v2)                                                                    \
	X(cuMemHostGetDevicePointer_v2)                                                            \
	X(cuStreamCreate)                                                                          \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamBeginCapture_v2)                                                                 \
	X(cuStreamEndCapture)                                                                      \
	X(cuGraphDestroy)                                                                          \
	X(cuGraphInstantiateWithFlags)                                                             \
	X(cuGraphLaunch)                                                                           \
	X(cuLaunchHostFunc)                                                                        \
	X(cuStreamWaitValue32_v2)                                                                  \
	X(cuLaunchKernel)

enum { DEVICES = 2, STREAMS = 2 };

static struct {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	struct device {
		CUcontext context;
		CUfunction wait, set, spend;
		CUstream stream[STREAMS];
	} device[DEVICES];
	_Atomic(uint32_t) *word; /* mapped host memory, ... */
	CUdeviceptr address;	 /* ... as the devices see it */
	unsigned random;
	pthread_mutex_t lock;
	atomic_uint round, launched;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void open_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver)
		fail("%s", dlerror());
#define LOAD(symbol)                                                                               \
	*(void **)&g.symbol = dlsym(driver, #symbol);                                              \
	if (!g.symbol)                                                                             \
		fail("no " #symbol);
	FUNCTIONS(LOAD)
#undef LOAD
	ok(g.cuInit(0));
}

static void open_device(int n)
{
	struct device *d = &g.device[n];
	CUmodule module;
	CUdevice device;

	ok(g.cuDeviceGet(&device, n));
	ok(g.cuCtxCreate_v2(&d->context, 0, device));
	ok(g.cuModuleLoadData(&module, ptx));
	ok(g.cuModuleGetFunction(&d->wait, module, "wait"));
	ok(g.cuModuleGetFunction(&d->set, module, "set"));
	ok(g.cuModuleGetFunction(&d->spend, module, "spend"));
	for (int i = 0; i < STREAMS; i++)
		ok(g.cuStreamCreate(&d->stream[i], CU_STREAM_NON_BLOCKING));
}

static void make_word(void)
{
	void *memory;

	ok(g.cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	memset(memory, 0, 4096);
	g.word = memory;
	ok(g.cuMemHostGetDevicePointer_v2(&g.address, memory, 0));
}

static void launch(int n, int stream, CUfunction kernel, uint32_t value)
{
	void *arguments[] = {&g.address, &value}, *only[] = {&value};

	ok(g.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, g.device[n].stream[stream],
			    kernel == g.device[n].spend ? only : arguments, NULL));
}

static void pause_a_while(void)
{
	struct timespec pause = {0, (long)(rand_r(&g.random) % 5000000)};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void in_thread(void *(*work)(void *), pthread_t *ret_thread)
{
	if (pthread_create(ret_thread, NULL, work, NULL) != 0)
		fail("no thread");
}

/* A kernel waits for a word that another thread writes after it has launched something. */
static void *launch_then_write(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	launch(0, 1, g.device[0].spend, 100000);
	atomic_store(g.word, g.round);
	return NULL;
}

static void trap_flag(void)
{
	pthread_t thread;

	launch(0, 0, g.device[0].wait, g.round);
	pause_a_while();
	in_thread(launch_then_write, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A stream waits for a value that a thread writes after it has launched something. */
static void trap_wait_value(void)
{
	pthread_t thread;

	ok(g.cuStreamWaitValue32_v2(g.device[0].stream[0], g.address, g.round,
				    CU_STREAM_WAIT_VALUE_GEQ));
	launch(0, 0, g.device[0].spend, 100000);
	pause_a_while();
	in_thread(launch_then_write, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A kernel waits for a word that the same thread's signal handler writes after its launch. */
static void on_signal(int number)
{
	(void)number;
	launch(0, 1, g.device[0].spend, 100000);
	atomic_store(g.word, g.round);
}

static void *send_signal(void *target)
{
	pause_a_while();
	pthread_kill(*(pthread_t *)target, SIGUSR1);
	return NULL;
}

static void trap_signal(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t self = pthread_self(), thread;

	sigaction(SIGUSR1, &action, NULL);
	launch(0, 0, g.device[0].wait, g.round);
	pthread_create(&thread, NULL, send_signal, &self);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A host function waits until another thread's launch has returned. */
static void *launch_and_say(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	launch(0, 1, g.device[0].spend, 100000);
	g.launched = g.round;
	return NULL;
}

static void wait_for_launch(void *nothing)
{
	(void)nothing;
	while (g.launched < g.round)
		sched_yield();
}

static void trap_host_function(void)
{
	pthread_t thread;

	ok(g.cuLaunchHostFunc(g.device[0].stream[0], wait_for_launch, NULL));
	pause_a_while();
	in_thread(launch_and_say, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A host function needs a lock that another thread holds across its launches. */
static void *launch_under_lock(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	pthread_mutex_lock(&g.lock);
	for (int i = 0; i < 8; i++)
		launch(0, 1, g.device[0].spend, 500000);
	pthread_mutex_unlock(&g.lock);
	return NULL;
}

static void take_lock(void *nothing)
{
	(void)nothing;
	pthread_mutex_lock(&g.lock);
	pthread_mutex_unlock(&g.lock);
}

static void trap_lock(void)
{
	pthread_t thread;

	in_thread(launch_under_lock, &thread);
	ok(g.cuLaunchHostFunc(g.device[0].stream[0], take_lock, NULL));
	pause_a_while();
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A kernel on each device waits for one on the other. */
static void trap_devices(void)
{
	uint32_t step = 2 * g.round;

	ok(g.cuCtxSetCurrent(g.device[0].context));
	launch(0, 0, g.device[0].wait, step);
	ok(g.cuCtxSetCurrent(g.device[1].context));
	pause_a_while();
	launch(1, 0, g.device[1].set, step);
	launch(1, 0, g.device[1].wait, step + 1);
	ok(g.cuCtxSetCurrent(g.device[0].context));
	launch(0, 0, g.device[0].set, step + 1);
	ok(g.cuCtxSynchronize());
	ok(g.cuCtxSetCurrent(g.device[1].context));
	ok(g.cuCtxSynchronize());
}

/* A capture that stays open for longer than any drain may take. */
static void trap_capture(void)
{
	struct timespec pause = {g.round == 1 ? 3 : 0, 0};
	CUgraph graph;

	ok(g.cuStreamBeginCapture_v2(g.device[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(0, 0, g.device[0].spend, 100000);
	launch(0, 1, g.device[0].spend, 1000000);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	ok(g.cuStreamEndCapture(g.device[0].stream[0], &graph));
	ok(g.cuGraphDestroy(graph));
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
}

/* ---- those that take more ---------------------------------------------------------------- */

/* Kernels of 1 ms, back to back. */
static void work(int stream)
{
	for (int i = 0; i < 4; i++)
		launch(0, stream, g.device[0].spend, 1000000);
	ok(g.cuStreamSynchronize(g.device[0].stream[stream]));
}

/* A graph of one second. */
static void trap_graph(void)
{
	static CUgraphExec ready;
	CUstream stream = g.device[0].stream[0];
	CUgraph graph;

	if (!ready) {
		ok(g.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		for (int i = 0; i < 10; i++)
			launch(0, 0, g.device[0].spend, 100000000);
		ok(g.cuStreamEndCapture(stream, &graph));
		ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	}
	ok(g.cuGraphLaunch(ready, stream));
	ok(g.cuStreamSynchronize(stream));
}

/* A capture of a stream that waits for the legacy stream is never closed. */
static void trap_open_capture(void)
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

static void trap_never(void)
{
	static pthread_t thread;

	if (!thread) {
		ok(g.cuLaunchHostFunc(g.device[0].stream[0], never, NULL));
		in_thread(launch_for_ever, &thread);
	}
	work(1);
}

/* A kernel that polls for ever, likewise. */
static void trap_spinner(void)
{
	static pthread_t thread;

	if (!thread) {
		launch(0, 0, g.device[0].wait, UINT32_MAX);
		in_thread(launch_for_ever, &thread);
	}
	work(1);
}

static const struct trap {
	const char *name;
	void (*work)(void);
	int devices;
} traps[] = {
	{"flag", trap_flag, 1},
	{"host_function", trap_host_function, 1},
	{"wait_value", trap_wait_value, 1},
	{"signal", trap_signal, 1},
	{"lock", trap_lock, 1},
	{"devices", trap_devices, 2},
	{"capture", trap_capture, 1},
	{"graph", trap_graph, 1},
	{"open_capture", trap_open_capture, 1},
	{"never", trap_never, 1},
	{"spinner", trap_spinner, 1},
};

static void say(const char *word)
{
	puts(word);
	fflush(stdout);
}

static bool has_ended(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

int main(int argc, char **argv)
{
	const struct trap *trap = NULL;
	unsigned rounds;

	for (size_t i = 0; i < ARRAY_SIZE(traps); i++)
		if (argc == 3 && strcmp(argv[1], traps[i].name) == 0)
			trap = &traps[i];
	if (!trap)
		fail("usage: turns_traps TRAP ROUNDS");
	open_driver();
	for (int n = trap->devices - 1; n >= 0; n--)
		open_device(n);
	make_word();
	rounds = (unsigned)strtoul(argv[2], NULL, 10);
	for (g.round = 1; rounds ? g.round <= rounds : !has_ended(); g.round++) {
		pause_a_while();
		trap->work();
		if (!rounds && g.round == 1)
			say("started");
	}
	if (rounds)
		puts("done");
	else
		printf("rounds=%u\n", g.round - 2);
	fflush(stdout);
	_exit(0);
}
