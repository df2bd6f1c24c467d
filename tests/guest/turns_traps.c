/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that a gate which is closed naively would stop for ever: their work on the device waits
 * for one of their own threads, which waits at the gate; and some that keep it from being closed in
 * order to have more than their share. For test_guest_turns_traps.py and bench/coupled.py:
 *
 *	turns_traps TRAP ROUNDS       prints "done" when all rounds are
 *	turns_traps TRAP 0            prints the number of rounds once its input has ended
 *
 * `lends` and `borrows` are two programs in one barrier: METE_TRAP_MEET is the file through which
 * the second gets the first one's memory. Those of turns_traps_tenants.c have their sockets there.
 *
 * Pauses are METE_TRAP_SLOW times as long, for devices whose clock is as much slower.
 *
 * A kernel that waits polls a word of mapped host memory, so that it does on a GPU what it does on
 * the simulated one. Rounds begin at random: the gate may close anywhere in them.
 */
#include <dlfcn.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/guest/turns_traps.h"

/* wait(word, value): until the word is at least the value. set(word, value). spend(ns).
 * meet(words, own, value): sets the own one of two words, and waits for the other. */
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
			  ".visible .entry meet(.param .u64 p, .param .u32 o, .param .u32 v) {\n"
			  ".reg .u64 %a, %b, %o; .reg .u32 %i, %x, %v; .reg .pred %q;\n"
			  "ld.param.u64 %a, [p]; ld.param.u32 %i, [o]; ld.param.u32 %v, [v];\n"
			  "cvt.u64.u32 %o, %i; add.u64 %b, %a, %o; st.volatile.u32 [%b], %v;\n"
			  "xor.b32 %i, %i, 4; cvt.u64.u32 %o, %i; add.u64 %b, %a, %o;\n"
			  "L: nanosleep.u32 20000; ld.volatile.u32 %x, [%b];\n"
			  "setp.lt.u32 %q, %x, %v; @%q bra L; ret; }\n"
			  ".visible .entry spend(.param .u32 v) {\n"
			  ".reg .u32 %v, %s; .reg .pred %q; ld.param.u32 %v, [v];\n"
			  "L: min.u32 %s, %v, 1000000; nanosleep.u32 %s; sub.u32 %v, %v, %s;\n"
			  "setp.ne.u32 %q, %v, 0; @%q bra L; ret; }\n";

struct traps g = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void open_driver(void)
{
	static const struct {
		const char *name;
		void **at;
	} functions[] = {
#define ROW(symbol) {#symbol, (void **)&g.symbol},
		FUNCTIONS(ROW)
#undef ROW
	};
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver)
		fail("%s", dlerror());
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		*functions[i].at = dlsym(driver, functions[i].name);
		if (!*functions[i].at)
			fail("no %s", functions[i].name);
	}
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
	ok(g.cuModuleGetFunction(&d->meet, module, "meet"));
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

void traps_start(int devices)
{
	open_driver();
	for (int n = devices - 1; n >= 0; n--)
		open_device(n);
	make_word();
}

void traps_launch(int n, int stream, CUfunction kernel, uint32_t value)
{
	void *arguments[] = {&g.address, &value}, *only[] = {&value};

	ok(g.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, g.device[n].stream[stream],
			    kernel == g.device[n].spend ? only : arguments, NULL));
}

void traps_launch_on(CUfunction kernel, unsigned word, uint32_t value)
{
	CUdeviceptr at = g.address + 4 * word;
	void *arguments[] = {&at, &value};

	ok(g.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0], arguments, NULL));
}

void traps_load(struct traps_place *place)
{
	CUmodule module;

	ok(g.cuModuleLoadData(&module, ptx));
	ok(g.cuModuleGetFunction(&place->wait, module, "wait"));
	ok(g.cuModuleGetFunction(&place->set, module, "set"));
	ok(g.cuModuleGetFunction(&place->spend, module, "spend"));
}

void traps_open(struct traps_place *ret, int n, int priority)
{
	CUdevice device;

	ok(g.cuDeviceGet(&device, n));
	ok(g.cuCtxCreate_v2(&ret->context, 0, device));
	traps_load(ret);
	ok(g.cuStreamCreateWithPriority(&ret->stream, CU_STREAM_NON_BLOCKING, priority));
	ok(g.cuEventCreate(&ret->event, CU_EVENT_DISABLE_TIMING));
}

void traps_launch_at(const struct traps_place *place, CUfunction kernel, uint32_t value)
{
	void *arguments[] = {&g.address, &value}, *only[] = {&value};

	ok(g.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, place->stream,
			    kernel == place->spend ? only : arguments, NULL));
}

void traps_pause(void)
{
	uint64_t ns = (uint64_t)(rand_r(&g.random) % 5000000) * g.slow;
	struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

void traps_rest_us(uint64_t us)
{
	uint64_t ns = us * 1000 * g.slow;
	struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

void traps_thread(void *(*work)(void *), pthread_t *ret_thread)
{
	if (pthread_create(ret_thread, NULL, work, NULL) != 0)
		fail("no thread");
}

void traps_use_device(void)
{
	ok(g.cuCtxSetCurrent(g.device[0].context));
}

void traps_finish(void *(*helper)(void *))
{
	pthread_t thread;

	traps_pause();
	traps_thread(helper, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

const CUDA_KERNEL_NODE_PARAMS_v1 traps_one_thread = {
	.gridDimX = 1,
	.gridDimY = 1,
	.gridDimZ = 1,
	.blockDimX = 1,
	.blockDimY = 1,
	.blockDimZ = 1,
};

void *traps_launch_and_say(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	atomic_store(g.word, g.round);
	return NULL;
}

void traps_start_other(const char *trap, int fd)
{
	char *arguments[] = {(char *)"turns_traps", (char *)trap, (char *)"1", NULL};
	char number[16];
	extern char **environ;
	pid_t pid;

	snprintf(number, sizeof(number), "%d", fd);
	setenv("METE_TRAP_WORD", number, 1);
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
		fail("no other process");
}

void traps_share_word(int fd)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		fail("no shared memory");
	g.word = memory;
}

int traps_new_page(void)
{
	int fd = memfd_create("turns_traps", 0);

	if (fd < 0 || ftruncate(fd, 4096) != 0)
		fail("no shared memory");
	return fd;
}

void traps_map_page(int fd)
{
	traps_share_word(fd);
	ok(g.cuMemHostRegister_v2((void *)g.word, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
	ok(g.cuMemHostGetDevicePointer_v2(&g.address, (void *)g.word, 0));
}

CUfunction traps_kernel_of(CUmodule *module, const char *text, const char *name)
{
	CUfunction found;

	if (!*module)
		ok(g.cuModuleLoadData(module, text));
	ok(g.cuModuleGetFunction(&found, *module, name));
	return found;
}

CUdeviceptr traps_new_words(void)
{
	CUdeviceptr made;

	ok(g.cuMemAlloc_v2(&made, 4096));
	ok(g.cuMemsetD8_v2(made, 0, 4096));
	ok(g.cuCtxSynchronize());
	return made;
}

CUevent traps_event(void)
{
	CUevent made;

	ok(g.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
	return made;
}

static const struct trap {
	const char *name;
	void (*work)(void);
	int devices;
} traps[] = {
#define TRAP(name, devices) {#name, trap_##name, devices},
#include "tests/guest/turns_traps.def"
#undef TRAP
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
	g.slow = getenv("METE_TRAP_SLOW") ? strtoul(getenv("METE_TRAP_SLOW"), NULL, 10) : 1;
	if (trap->devices)
		traps_start(trap->devices);
	rounds = (unsigned)strtoul(argv[2], NULL, 10);
	for (g.round = 1; rounds ? g.round <= rounds : !has_ended(); g.round++) {
		traps_pause();
		trap->work();
		if (!rounds && g.round == 1)
			say("started");
	}
	traps_part();
	if (rounds)
		puts("done");
	else
		printf("rounds=%u\n", g.round - 2);
	fflush(stdout);
	_exit(0);
}
