/* SPDX-License-Identifier: Apache-2.0 */
/* Two mechanisms at once: memory that moves (rows.py suspends and resumes it, or changes its
 * share), beneath what a program lends, captures, maps in parts and leaves behind. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { WHILE_MS = 1200, PIECE = 20 * MIB };

/* From the lender to the borrower; a pipe that anybody may write. */
static int ends[2];

static pid_t in_child(void (*work)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		work();
		wait_for_the_end();
		_exit(0);
	}
	return pid;
}

static CUdeviceptr fill(size_t bytes)
{
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, bytes) != CUDA_SUCCESS)
		return 0;
	CALL(cuMemsetD8_v2)(address, 3, bytes);
	return address;
}

static CUdeviceptr lend(void)
{
	CUdeviceptr address = fill(PIECE);
	CUipcMemHandle handle;

	if (address && CALL(cuIpcGetMemHandle)(&handle, address) == CUDA_SUCCESS)
		best_effort(write(ends[1], &handle, sizeof(handle)));
	return address;
}

/* Whose handle it is may be out, lend it to others as well, or have died since. */
static void open_and_close(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	start();
	while (read(ends[0], &handle, sizeof(handle)) == sizeof(handle)) {
		if (CALL(cuIpcOpenMemHandle_v2)(&address, handle,
						CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS)
			continue;
		CALL(cuMemsetD8_v2)(address, 4, PIECE);
		if (handle.reserved[0] % 2)
			CALL(cuIpcCloseMemHandle)(address);
	}
}

static void borrow_and_take(void)
{
	alarm(20);
	close(ends[1]);
	open_and_close();
	take_everything();
	alarm(0);
}

static void begin_with_borrower(void)
{
	if (pipe(ends) != 0)
		_exit(1);
	in_child(borrow_and_take);
	start();
}

static void end_with_borrower(void)
{
	close(ends[1]);
	usleep(200000);
	take_everything();
}

/* A child of a lender: what its parent lent is not its own, and it lends as well. */
static void lend_in_turn(void)
{
	start();
	lend();
	take_everything();
	kill(getpid(), SIGKILL);
}

static void lend_fork_die(void)
{
	CUdeviceptr address[4];

	start();
	for (size_t i = 0; i < ARRAY_SIZE(address); i++)
		address[i] = lend();
	if (address[0])
		g.cuMemFree_v2(address[0]);
	if (fork() == 0)
		lend_in_turn();
	if (address[2])
		g.cuMemFree_v2(address[2]);
	usleep(30000);
	kill(getpid(), SIGKILL);
}

void attack_both_lent_forked_died(void)
{
	uint64_t t = 0;

	begin_with_borrower();
	while (until(&t, WHILE_MS)) {
		pid_t pid = fork();

		if (pid == 0)
			lend_fork_die();
		waitpid(pid, NULL, 0);
	}
	end_with_borrower();
}

/* The owner stands still with its memory out while others open what it lends. */
void attack_both_opened_out(void)
{
	uint64_t t = 0;

	begin_with_borrower();
	in_child(open_and_close);
	while (until(&t, WHILE_MS)) {
		lend();
		usleep(20000);
	}
	end_with_borrower();
}

/* Memory that it lends outlives its exec. */
void attack_both_lent_exec(void)
{
	begin_with_borrower();
	for (int i = 0; i < 6; i++)
		lend();
	become("take-linear");
}

static void take_and_work(void)
{
	uint64_t t = 0;

	bool computes;

	start();
	computes = attack_load_spend();
	while (until(&t, WHILE_MS)) {
		CUdeviceptr address = fill(PIECE);

		for (int i = 0; computes && i < 4; i++)
			attack_spend(NULL, 1000000);
		CALL(cuCtxSynchronize)();
		if (address)
			g.cuMemFree_v2(address);
	}
	take_everything();
}

/* A capture that stays open holds the gate; a child of the tenant works beside it, and each takes.
 */
void attack_both_capture_child(void)
{
	CUstream stream;
	uint64_t t = 0;

	for (int i = 0; i < 3; i++)
		in_child(take_and_work);
	start();
	if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return;
	CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	while (until(&t, WHILE_MS)) {
		CUdeviceptr piece;

		g.cuMemAllocAsync(&piece, PIECE, stream);
		fill(6 * MIB);
		usleep(10000);
	}
	take_everything();
}

/* As PyTorch's expandable segments: a range in which parts are mapped as they are needed, unmapped
 * from its middle, and mapped again. */
static void expand(void)
{
	enum { PARTS = 24 };
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	bool mapped[PARTS] = {false};
	CUdeviceptr range;
	uint64_t t = 0;

	if (g.cuMemAddressReserve(&range, (size_t)PARTS * PIECE, 0, 0, 0) != CUDA_SUCCESS)
		return;
	for (unsigned n = 0; until(&t, WHILE_MS); n++) {
		unsigned i = n * 7 % PARTS;
		CUdeviceptr at = range + (size_t)i * PIECE;
		CUmemGenericAllocationHandle handle;

		if (mapped[i]) {
			g.cuMemUnmap(at, PIECE);
			mapped[i] = false;
			continue;
		}
		if (g.cuMemCreate(&handle, PIECE, &prop, 0) != CUDA_SUCCESS)
			continue;
		mapped[i] = g.cuMemMap(at, PIECE, 0, handle, 0) == CUDA_SUCCESS;
		g.cuMemRelease(handle);
		if (mapped[i]) {
			CALL(cuMemSetAccess)(at, PIECE, &access, 1);
			CALL(cuMemsetD8_v2)(at, 6, PIECE);
		}
	}
}

void attack_both_expandable(void)
{
	in_threads(2, expand);
	take_everything();
}

static void hoard(void)
{
	CUdeviceptr address;

	start();
	for (int i = 0; i < 40; i++)
		if (g.cuMemAlloc_v2(&address, 3 * MIB) == CUDA_SUCCESS)
			g.cuMemFree_v2(address);
}

static void ask_and_die(void)
{
	start();
	for (int i = 0; i < 6; i++)
		fill(40 * MIB);
	kill(getpid(), SIGKILL);
}

/* Siblings hoard credit that is recalled for a process that asks, and that is killed while it waits
 * for the answer.
 */
void attack_both_recalled_killed(void)
{
	uint64_t t = 0;

	for (int i = 0; i < 4; i++)
		child(hoard);
	while (until(&t, WHILE_MS)) {
		pid_t pid = fork();

		if (pid == 0)
			ask_and_die();
		usleep(15000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	take_everything();
}

static CUipcEventHandle event_handle;

/* Its neighbour in the tenant records the event when its own memory is back, if it ever is. */
static void wait_for_event(void)
{
	CUevent event;
	CUstream stream;
	uint64_t t = 0;

	start();
	fill(PIECE);
	if (CALL(cuIpcOpenEventHandle)(&event, event_handle) != CUDA_SUCCESS ||
	    CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return;
	while (until(&t, WHILE_MS)) {
		CALL(cuStreamWaitEvent)(stream, event, 0);
		fill(4 * MIB);
		usleep(10000);
	}
}

void attack_both_event_waits(void)
{
	CUevent event;
	uint64_t t = 0;

	if (CALL(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) !=
		    CUDA_SUCCESS ||
	    CALL(cuIpcGetEventHandle)(&event_handle, event) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 3; i++)
		in_child(wait_for_event);
	while (until(&t, WHILE_MS)) {
		CALL(cuEventRecord)(event, NULL);
		fill(2 * MIB);
		usleep(15000);
	}
	take_everything();
}

static void graph_and_die(void)
{
	CUdeviceptr piece;
	CUgraphExec exec;
	CUgraph graph;
	CUstream stream;

	start();
	if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return;
	CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	g.cuMemAllocAsync(&piece, 60 * MIB, stream);
	lend();
	if (CALL(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS &&
	    g.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS)
		g.cuGraphLaunch(exec, stream);
	usleep(20000);
	kill(getpid(), SIGKILL);
}

/* A graph's memory and lent memory of processes that die while both are in use. */
void attack_both_graph_lent(void)
{
	uint64_t t = 0;

	begin_with_borrower();
	while (until(&t, WHILE_MS)) {
		pid_t pid = fork();

		if (pid == 0) {
			graph_and_die();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	end_with_borrower();
}

/* Idle for a little longer than until it is parked, then at work in the middle of that. */
static void doze(void)
{
	CUdeviceptr address;
	uint64_t t = 0;

	start();
	address = fill(3 * PIECE);
	while (until(&t, 2 * WHILE_MS)) {
		usleep(130000);
		if (address)
			CALL(cuMemsetD8_v2)(address, 8, 3 * PIECE);
		fill(MIB);
	}
	take_everything();
}

void attack_both_dozing(void)
{
	for (int i = 0; i < 3; i++)
		in_child(doze);
	doze();
}
