/* SPDX-License-Identifier: Apache-2.0 */
/* Two or three mechanisms in each other's way: a C library that fails, a tracer, bounds that come
 * and go, green contexts, captures, ranges that are mapped anew, exec, fork; with memory that moves
 * (both_...) or with a cap (turns_...). */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { WHILE_MS = 1500, THREADS = 3, PART = 2 * MIB, PARTS = 16, EXECS = 8 };

/* Its C library's functions that others than the program call fail now and then (unlucky.c). */
void attack_both_unlucky(void)
{
	const char *others = getenv("LD_PRELOAD");
	char path[4096] = "", preload[8300];
	char *folder_end;

	best_effort(readlink("/proc/self/exe", path, sizeof(path) - 32));
	folder_end = strrchr(path, '/');
	if (!folder_end || !others)
		_exit(127);
	strcpy(folder_end + 1, "unlucky.so");
	snprintf(preload, sizeof(preload), "%s:%s", path, others);
	setenv("LD_PRELOAD", preload, 1);
	become("moves_taken");
}

/* ---- a tracer that answers in the kernel's place --------------------------------------------- */

#ifdef __x86_64__
static bool seize(pid_t thread)
{
	return ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_TRACESYSGOOD) == 0 &&
	       ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 &&
	       waitpid(thread, NULL, __WALL) == thread;
}

/* What its calls answer: nothing was done, interrupted, again, bad, or half of it. */
static void lie(pid_t thread, unsigned turn)
{
	static const long answers[] = {0, -4, -11, -22, -12};
	struct user_regs_struct registers;

	if (turn % 3 != 1 || ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0)
		return;
	registers.rax = turn % 5 ? (unsigned long)answers[turn / 3 % ARRAY_SIZE(answers)]
				 : registers.rax / 2;
	ptrace(PTRACE_SETREGS, thread, NULL, &registers);
}

static void lie_to(pid_t thread)
{
	int status;

	if (!seize(thread))
		return;
	for (unsigned turn = 0; turn < 400; turn++) {
		if (ptrace(PTRACE_SYSCALL, thread, NULL, NULL) != 0 ||
		    waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
			return;
		if (turn % 2)
			lie(thread, turn / 2);
	}
	ptrace(PTRACE_DETACH, thread, NULL, NULL);
}
#else
static void lie_to(pid_t thread)
{
	(void)thread;
}
#endif

static void lie_to_agents(pid_t maker)
{
	alarm(2);
	attack_each_thread(maker, lie_to);
}

/* The library's own threads are told wrong results of their system calls. */
void attack_both_agent_lies(void)
{
	pid_t maker = getpid(), pid;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	take_everything();
	pid = fork();
	if (pid == 0) {
		lie_to_agents(maker);
		_exit(0);
	}
	in_threads(3, take_and_free);
	waitpid(pid, NULL, 0);
	take_everything();
}

/* ---- bounds that come and go ----------------------------------------------------------------- */

static volatile bool bounded;
static pthread_barrier_t called; /* each thread has what the loader gives at a first call */

static void *change_bounds(void *nothing)
{
	static const int which[] = {RLIMIT_AS, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_DATA,
				    RLIMIT_FSIZE};

	pthread_barrier_wait(&called);
	for (unsigned turn = 0; bounded; turn++) {
		struct rlimit limit;
		int kind = which[turn / 2 % ARRAY_SIZE(which)];

		if (getrlimit(kind, &limit) == 0) {
			limit.rlim_cur = turn % 2 ? limit.rlim_max : 1;
			setrlimit(kind, &limit);
		}
		usleep(200);
	}
	return nothing;
}

static void call_and_take(void)
{
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, 3 * MIB) == CUDA_SUCCESS)
		g.cuMemFree_v2(address);
	pthread_barrier_wait(&called);
	take_and_free();
}

/* A thousand times a second there is no address space, no descriptor, no data. */
void attack_both_bounds_storm(void)
{
	pthread_t thread;

	bounded = true;
	if (pthread_barrier_init(&called, NULL, THREADS + 1) != 0 ||
	    pthread_create(&thread, NULL, change_bounds, NULL) != 0)
		return;
	in_threads(THREADS, call_and_take);
	take_everything();
	bounded = false;
	pthread_join(thread, NULL);
	take_everything();
}

/* ---- captures over ranges that are mapped anew ----------------------------------------------- */

struct range {
	CUdeviceptr address;
	CUmemGenericAllocationHandle part[PARTS];
};

static CUmemAllocationProp on_device(void)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = g.device}};
}

static bool map_part(struct range *range, int n)
{
	CUmemAllocationProp how = on_device();
	CUmemAccessDesc access = {.location = how.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr at = range->address + (CUdeviceptr)n * PART;

	if (CALL(cuMemCreate)(&range->part[n], PART, &how, 0) != CUDA_SUCCESS)
		return false;
	return CALL(cuMemMap)(at, PART, 0, range->part[n], 0) == CUDA_SUCCESS &&
	       CALL(cuMemSetAccess)(at, PART, &access, 1) == CUDA_SUCCESS;
}

static void unmap_part(struct range *range, int n)
{
	CALL(cuMemUnmap)(range->address + (CUdeviceptr)n * PART, PART);
	CALL(cuMemRelease)(range->part[n]);
}

static bool make_range(struct range *range)
{
	if (CALL(cuMemAddressReserve)(&range->address, (size_t)PARTS * PART, 0, 0, 0) !=
	    CUDA_SUCCESS)
		return false;
	for (int i = 0; i < PARTS; i++)
		if (!map_part(range, i))
			return false;
	return true;
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

static CUgraphExec capture(CUstream stream, const struct range *range)
{
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;

	if (CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
		return NULL;
	for (int i = 0; i < PARTS; i++)
		CALL(cuMemsetD8Async)
	(range->address + (CUdeviceptr)i * PART, (unsigned char)i, PART, stream);
	if (CALL(cuStreamEndCapture)(stream, &graph) != CUDA_SUCCESS ||
	    g.cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS)
		return NULL;
	CALL(cuGraphDestroy)(graph);
	return exec;
}

/* A green context's stream is captured over parts of a range that are unmapped and mapped again
 * before its graph is launched, and between its launches. */
static void capture_anew(void)
{
	CUcontext context = green_context();
	struct range range;
	CUstream stream;
	uint64_t t = 0;

	if (context)
		g.cuCtxSetCurrent(context);
	if (!make_range(&range) ||
	    CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return;
	for (int n = 0; until(&t, WHILE_MS); n = (n + 1) % PARTS) {
		CUgraphExec exec = capture(stream, &range);

		unmap_part(&range, n);
		if (!map_part(&range, n) || !exec)
			break;
		g.cuGraphLaunch(exec, stream);
		CALL(cuStreamSynchronize)(stream);
		g.cuGraphLaunch(exec, stream);
		CALL(cuGraphExecDestroy)(exec);
	}
}

void attack_both_green_captured(void)
{
	in_threads(4, capture_anew);
	take_everything();
}

/* ---- exec and fork --------------------------------------------------------------------------- */

/* A quarter of a second of work is submitted, and the process becomes another program: by the same
 * number, before that is charged. */
void attack_turns_execs(void)
{
	const char *longer = getenv("HOSTILE_LONGER"), *turn = getenv("HOSTILE_TURN");
	int n = turn ? atoi(turn) : 0, most = EXECS * (longer ? atoi(longer) : 1);
	char next[16];

	start();
	if (n >= most || !attack_load_spend()) {
		take_everything();
		return;
	}
	for (int i = 0; i < 50; i++)
		attack_spend(NULL, 5000000);
	usleep(30000);
	snprintf(next, sizeof(next), "%d", n + 1);
	setenv("HOSTILE_TURN", next, 1);
	become("turns_execs");
}

static void *call_everything(void *nothing)
{
	enter();
	while (bounded) {
		CUdeviceptr address;
		CUmodule module;
		CUcontext context;
		char *text = image(MIB);

		if (g.cuMemAlloc_v2(&address, 3 * MIB) == CUDA_SUCCESS)
			g.cuMemFree_v2(address);
		if (CALL(cuMemAllocAsync)(&address, 3 * MIB, NULL) == CUDA_SUCCESS)
			CALL(cuMemFreeAsync)(address, NULL);
		if (g.cuModuleLoadData(&module, text) == CUDA_SUCCESS)
			CALL(cuModuleUnload)(module);
		if (g.cuCtxCreate_v2(&context, 0, g.device) == CUDA_SUCCESS)
			g.cuCtxDestroy_v2(context);
		free(text);
	}
	return nothing;
}

/* Children of a process whose other threads are within every lock: they take, and die there. */
void attack_forks_in_locks(void)
{
	pthread_t thread[6];
	uint64_t t = 0;

	bounded = true;
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		if (pthread_create(&thread[i], NULL, call_everything, NULL) != 0)
			return;
	while (until(&t, WHILE_MS)) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(1);
			start();
			take_everything();
			kill(getpid(), SIGKILL);
		}
		usleep(3000);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			continue;
	}
	bounded = false;
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	take_everything();
}
