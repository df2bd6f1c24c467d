/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves, or leaves while the tenant is suspended (rows.py), between two calls that name
 * it: graphs that are updated, pools that are trimmed, ranges mapped by halves, words that streams
 * wait for, and processes that wait for one another. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { WHILE_MS = 1200, PIECE = 12 * MIB };

static CUstream stream_of(int priority)
{
	CUstream made = NULL;

	CALL(cuStreamCreateWithPriority)(&made, CU_STREAM_NON_BLOCKING, priority);
	return made;
}

static CUgraph graph_that_sets(CUdeviceptr address, unsigned value)
{
	CUDA_MEMSET_NODE_PARAMS params = {
		.dst = address, .value = value, .elementSize = 4, .width = PIECE / 4, .height = 1};
	CUgraphNode node;
	CUgraph graph;

	if (g.cuGraphCreate(&graph, 0) != CUDA_SUCCESS)
		return NULL;
	CALL(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, g.context);
	return graph;
}

/* Reports where world.py reads it that the bytes that were written are not there. */
static void check_words(CUdeviceptr address, unsigned value)
{
	owned(free) unsigned *word = malloc(PIECE);

	if (!word || CALL(cuMemcpyDtoH_v2)(word, address, PIECE) != CUDA_SUCCESS)
		return;
	for (size_t i = 0; i < PIECE / sizeof(*word); i++)
		if (word[i] != value) {
			printf("was shown %x in the place of %x\n", word[i], value);
			fflush(stdout);
			return;
		}
}

/* An executable graph that is updated from one address to the other, and launched, while both move.
 */
static void update(void)
{
	CUgraphExecUpdateResultInfo result;
	CUstream own = stream_of(0);
	CUdeviceptr address[2];
	CUgraphExec exec = NULL;
	uint64_t t = 0;

	if (g.cuMemAlloc_v2(&address[0], PIECE) != CUDA_SUCCESS ||
	    g.cuMemAlloc_v2(&address[1], PIECE) != CUDA_SUCCESS)
		return;
	for (unsigned n = 1; until(&t, WHILE_MS); n++) {
		CUgraph graph = graph_that_sets(address[n % 2], n);

		if (!graph)
			break;
		if (!exec)
			g.cuGraphInstantiateWithFlags(&exec, graph, 0);
		if (exec && CALL(cuGraphExecUpdate_v2)(exec, graph, &result) == CUDA_SUCCESS &&
		    g.cuGraphLaunch(exec, own) == CUDA_SUCCESS &&
		    CALL(cuStreamSynchronize)(own) == CUDA_SUCCESS)
			check_words(address[n % 2], n);
		g.cuGraphDestroy(graph);
	}
}

void attack_both_updated(void)
{
	in_threads(3, update);
	take_everything();
}

/* Pools keep what is freed, are trimmed, and told to keep again. */
static void trim(void)
{
	CUstream own = stream_of(0);
	uint64_t t = 0, keep;
	CUmemoryPool pool;

	if (g.cuDeviceGetDefaultMemPool(&pool, g.device) != CUDA_SUCCESS)
		return;
	for (unsigned n = 0; until(&t, WHILE_MS); n++) {
		CUdeviceptr piece[4] = {0};

		keep = n % 3 ? UINT64_MAX : 0;
		g.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
		for (size_t i = 0; i < ARRAY_SIZE(piece); i++)
			if (g.cuMemAllocAsync(&piece[i], PIECE, own) == CUDA_SUCCESS)
				CALL(cuMemsetD8Async)(piece[i], 3, PIECE, own);
		for (size_t i = 0; i < ARRAY_SIZE(piece); i++)
			if (piece[i])
				g.cuMemFreeAsync(piece[i], own);
		g.cuMemPoolTrimTo(pool, n % 2 ? 0 : PIECE);
	}
}

void attack_both_trimmed(void)
{
	in_threads(4, trim);
	take_everything();
}

/* The first half of a handle and the second change places, overlap what is mapped, are unmapped by
 * less and by more than was mapped, and are seen by another device that is not there. */
static void halve(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
	CUmemAccessDesc access[] = {
		{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{{CU_MEM_LOCATION_TYPE_DEVICE, g.device + 1}, CU_MEM_ACCESS_FLAGS_PROT_READ}};
	const size_t half = 4 * MIB;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range;
	uint64_t t = 0;

	if (g.cuMemAddressReserve(&range, 4 * half, 0, 0, 0) != CUDA_SUCCESS)
		return;
	while (until(&t, WHILE_MS)) {
		if (g.cuMemCreate(&handle, 2 * half, &prop, 0) != CUDA_SUCCESS)
			continue;
		g.cuMemMap(range, half, half, handle, 0);
		g.cuMemMap(range + half, half, 0, handle, 0);
		g.cuMemMap(range + half, 2 * half, 0, handle, 0);
		g.cuMemMap(range + 2 * half, 2 * half, 0, handle, 0);
		CALL(cuMemSetAccess)(range, half / 2, access, 1);
		CALL(cuMemSetAccess)(range, 2 * half, access, 2);
		CALL(cuMemSetAccess)(range, 4 * half, access, 1);
		CALL(cuMemsetD8_v2)(range + half / 2, 7, 2 * half);
		g.cuMemRelease(handle);
		g.cuMemUnmap(range + half / 2, half);
		g.cuMemUnmap(range, half / 2);
		g.cuMemUnmap(range + 2 * half, half);
		if (g.cuMemUnmap(range, 4 * half) == CUDA_SUCCESS)
			continue;
		g.cuMemUnmap(range, half);
		g.cuMemUnmap(range + half, half);
		g.cuMemUnmap(range + half, 2 * half);
		g.cuMemUnmap(range + 2 * half, 2 * half);
	}
	g.cuMemAddressFree(range, 2 * half);
	g.cuMemAddressFree(range, 4 * half);
}

void attack_both_halves(void)
{
	in_threads(3, halve);
	take_everything();
}

/* A stream waits for the word that the other one writes, in memory that moves, by batches. */
static void batch(void)
{
	CUstream first = stream_of(0), second = stream_of(-1);
	CUdeviceptr word;
	uint64_t t = 0;

	if (g.cuMemAlloc_v2(&word, PIECE) != CUDA_SUCCESS)
		return;
	CALL(cuMemsetD8_v2)(word, 0, PIECE);
	g.cuCtxSynchronize();
	for (unsigned n = 1; until(&t, WHILE_MS); n++) {
		CUstreamBatchMemOpParams op[2] = {{0}};

		op[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
		op[0].waitValue.address = word + PIECE / 2;
		op[0].waitValue.value = n;
		op[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		op[1].writeValue.address = word;
		op[1].writeValue.value = n;
		CALL(cuStreamBatchMemOp_v2)(first, 2, op, 0);
		CALL(cuMemsetD8Async)(word + 2 * MIB, 1, MIB, first);
		op[1].writeValue.address = word + PIECE / 2;
		CALL(cuStreamBatchMemOp_v2)(second, 1, &op[1], 0);
		CALL(cuStreamSynchronize)(first);
	}
}

void attack_both_batched(void)
{
	in_threads(4, batch);
	take_everything();
}

/* ---- processes that wait for one another ----------------------------------------------------- */

enum { AT_BARRIER = 3 };

static struct barrier {
	unsigned arrived, round;
} * barrier;

/* Spins, as NCCL's and MPI's processes do on one machine, until all have come. */
static void meet(uint64_t *t)
{
	unsigned round = __atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == AT_BARRIER) {
		__atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELEASE);
		__atomic_add_fetch(&barrier->round, 1, __ATOMIC_ACQ_REL);
		return;
	}
	while (__atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE) == round &&
	       until(t, 4ul * WHILE_MS))
		sched_yield();
}

static void work_and_meet(void)
{
	CUdeviceptr address = 0;
	uint64_t t = 0;

	start();
	g.cuMemAlloc_v2(&address, 4 * PIECE);
	for (unsigned n = 0; until(&t, 2ul * WHILE_MS); n++) {
		if (address)
			CALL(cuMemsetD8_v2)(address, (unsigned char)n, 4 * PIECE);
		g.cuCtxSynchronize();
		meet(&t);
	}
	take_everything();
}

void attack_both_barrier(void)
{
	barrier = mmap(NULL, sizeof(*barrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (barrier == MAP_FAILED)
		return;
	for (int i = 1; i < AT_BARRIER; i++)
		if (fork() == 0) {
			work_and_meet();
			wait_for_the_end();
			_exit(0);
		}
	work_and_meet();
}

/* ---- a capture under a cap ------------------------------------------------------------------- */

static void exec_and_end(void)
{
	static char *const words[] = {"attack", "--list", NULL};
	pid_t pid = vfork();

	if (pid == 0) {
		close(STDOUT_FILENO);
		execv("/proc/self/exe", words);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static void fork_and_work(void)
{
	uint64_t t = 0;

	while (until(&t, WHILE_MS)) {
		pid_t pid = fork();

		if (pid == 0) {
			start();
			take_and_free();
			kill(getpid(), SIGKILL);
		}
		exec_and_end();
		usleep(30000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* In each thread a capture that ends only when the forks and execs beside it are over. */
static void capture_and_fork(void)
{
	CUstream own = stream_of(-5);
	CUdeviceptr piece;
	CUgraphExec exec;
	CUgraph graph;

	if (CALL(cuStreamBeginCapture_v2)(own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) != CUDA_SUCCESS)
		return;
	if (g.cuMemAllocAsync(&piece, PIECE, own) == CUDA_SUCCESS) {
		CALL(cuMemsetD8Async)(piece, 1, PIECE, own);
		g.cuMemFreeAsync(piece, own);
	}
	fork_and_work();
	if (CALL(cuStreamEndCapture)(own, &graph) == CUDA_SUCCESS &&
	    g.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS)
		for (int i = 0; i < 50; i++)
			g.cuGraphLaunch(exec, own);
}

void attack_turns_capture_execs(void)
{
	in_threads(2, capture_and_fork);
	g.cuCtxSynchronize();
	take_everything();
}

static void at_priority(void)
{
	static int turn;
	CUstream own = stream_of(-(__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 6));
	CUdeviceptr address;
	uint64_t t = 0;

	if (g.cuMemAlloc_v2(&address, PIECE) != CUDA_SUCCESS)
		return;
	while (until(&t, WHILE_MS)) {
		for (int i = 0; i < 40; i++)
			CALL(cuMemsetD8Async)(address, 2, PIECE, own);
		for (int i = 0; i < 4; i++)
			attack_spend(own, 1000000);
		CALL(cuStreamSynchronize)(own);
	}
}

void attack_turns_priorities(void)
{
	if (attack_load_spend())
		in_threads(12, at_priority);
	take_everything();
}
