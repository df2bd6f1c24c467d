/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_hostile.py: `hostile_jump WAY` under `mete run`. While the driver frees memory, which it
 * does after all work is done, a signal comes. Its handler
 *
 *	jumps		leaves the driver by siglongjmp(), and the thread goes on
 *	allocates	takes memory while the driver's call is under way
 *	jumps-alone	likewise, on a signal stack of its own
 *	allocates-alone
 *
 * and as much memory is taken as the thread gets. Prints the last answer, and how many bytes the
 * whole device holds by the driver's own word; waits for the end of its standard input.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sys/syscall.h>

#include "cuda/prototypes.h"
#include "tests/guest/must.h"

#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuCtxCreate_v2)                                                                          \
	X(cuLaunchHostFunc)                                                                        \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemFree_v2)                                                                            \
	X(cuMemGetInfo_v2)

enum {
	PIECE = 64 << 20,
};

static struct {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	bool jumps;
	sigjmp_buf back;
	sem_t done;
	_Atomic int thread; /* that frees */
	CUresult last;
} g;

static void take_all(void)
{
	CUdeviceptr address;

	do
		g.last = g.cuMemAlloc_v2(&address, PIECE);
	while (g.last == CUDA_SUCCESS);
}

static void on_signal(int number)
{
	(void)number;
	if (g.jumps)
		siglongjmp(g.back, 1);
	take_all();
	sem_post(&g.done);
}

/* The work that has to be done first. */
static void host_function(void *unused_data)
{
	(void)unused_data;
	while (sem_wait(&g.done) != 0) {
	}
}

static char state_of(int thread)
{
	char path[64], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	file = fopen(path, "re");
	if (!file || !fgets(text, sizeof(text), file) || !strrchr(text, ')'))
		fail("%s cannot be read", path);
	fclose(file);
	return strrchr(text, ')')[2];
}

/* Signals the thread as soon as it sleeps, which it does nowhere but in the driver. */
static void *interrupt(void *main_thread)
{
	while (!atomic_load(&g.thread) || state_of(g.thread) != 'S')
		usleep(1000);
	pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
	return NULL;
}

static void load(void)
{
	void *guest = dlopen("libcuda.so.1", RTLD_NOW);

	if (!guest)
		fail("%s", dlerror());
#define LOAD(symbol) g.symbol = (api_fn_##symbol *)dlsym(guest, #symbol);
	FUNCTIONS(LOAD)
#undef LOAD
}

/* The whole device's memory in use: asked behind the guest's back. */
static size_t held(void)
{
	const char *driver = getenv("METE_DRIVER");
	api_fn_cuMemGetInfo_v2 *truth;
	size_t available, total;
	char path[4096];
	void *real;

	snprintf(path, sizeof(path), "%s/libcuda.so.1", driver ? driver : "");
	real = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	if (!real)
		real = dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
	truth = real ? (api_fn_cuMemGetInfo_v2 *)dlsym(real, "cuMemGetInfo_v2") : NULL;
	if (!truth || truth == g.cuMemGetInfo_v2)
		fail("%s is not the driver", driver);
	ok(truth(&available, &total));
	return total - available;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t self = pthread_self(), thread;
	bool alone = argc > 1 && strstr(argv[1], "-alone");
	stack_t stack = {.ss_sp = malloc(1 << 20), .ss_size = 1 << 20};
	CUdeviceptr address;
	CUcontext context;

	if (argc != 2 || !stack.ss_sp)
		fail("usage: hostile_jump jumps|allocates[-alone]");
	g.jumps = strncmp(argv[1], "jumps", 5) == 0;
	action.sa_flags = SA_NODEFER | (alone ? SA_ONSTACK : 0);
	load();
	sem_init(&g.done, 0, 0);
	if ((alone && sigaltstack(&stack, NULL) != 0) || sigaction(SIGUSR1, &action, NULL) != 0)
		fail("no handler");
	ok(g.cuInit(0));
	ok(g.cuCtxCreate_v2(&context, 0, 0));
	ok(g.cuMemAlloc_v2(&address, 3 << 20));
	ok(g.cuLaunchHostFunc(NULL, host_function, NULL));
	if (pthread_create(&thread, NULL, interrupt, &self) != 0)
		fail("no thread");
	if (sigsetjmp(g.back, 1) == 0) {
		g.thread = (int)syscall(SYS_gettid);
		ok(g.cuMemFree_v2(address));
		pthread_join(thread, NULL);
	} else {
		pthread_join(thread, NULL);
		sem_post(&g.done);
	}
	take_all();
	printf("[%d, %zu]\n", (int)g.last, held());
	fflush(stdout);
	best_effort(getchar());
	return 0;
}
