/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves, while its tenant is suspended and resumed or its limit changes (rows.py). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { WHILE_MS = 900 };

static void take_fill_free(void)
{
	uint64_t t = 0;

	while (until(&t, WHILE_MS)) {
		CUdeviceptr mine[6];
		size_t count = 0;

		while (count < ARRAY_SIZE(mine) &&
		       g.cuMemAlloc_v2(&mine[count], (7 + 5 * count) * MIB) == CUDA_SUCCESS)
			CALL(cuMemsetD8_v2)(mine[count++], 7, 4096);
		while (count)
			g.cuMemFree_v2(mine[--count]);
	}
}

void attack_moves_taken(void)
{
	in_threads(8, take_fill_free);
	take_everything();
}

static CUdeviceptr fill(size_t bytes)
{
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, bytes) != CUDA_SUCCESS)
		return 0;
	CALL(cuMemsetD8_v2)(address, 5, bytes);
	return address;
}

static void start_and_fill(void)
{
	start();
	fill(60 * MIB);
	take_everything();
}

void attack_moves_forked(void)
{
	for (int i = 0; i < 3; i++) {
		fill(50 * MIB);
		child(start_and_fill);
	}
	take_everything();
}

static void map_again(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t t = 0;

	while (until(&t, WHILE_MS)) {
		CUmemGenericAllocationHandle handle;
		CUdeviceptr at;

		if (g.cuMemCreate(&handle, 32 * MIB, &prop, 0) != CUDA_SUCCESS)
			continue;
		if (g.cuMemAddressReserve(&at, 96 * MIB, 0, 0, 0) == CUDA_SUCCESS) {
			for (size_t i = 0; i < 3; i++)
				if (g.cuMemMap(at + i * 32 * MIB, 32 * MIB, 0, handle, 0) ==
				    CUDA_SUCCESS)
					CALL(cuMemSetAccess)
			(at + i * 32 * MIB, 32 * MIB, &access, 1);
			g.cuMemRelease(handle);
			for (size_t i = 0; i < 3; i++)
				g.cuMemUnmap(at + i * 32 * MIB, 32 * MIB);
			g.cuMemAddressFree(at, 96 * MIB);
		} else {
			g.cuMemRelease(handle);
		}
	}
}

void attack_moves_mapped(void)
{
	in_threads(4, map_again);
	take_everything();
}

/* By each of the ways in which a program says that its memory must stay. */
static void pin(CUdeviceptr address, int way)
{
	CUmemGenericAllocationHandle retained;
	CUipcMemHandle handle;
	int fd, yes = 1;

	if (way == 0)
		CALL(cuIpcGetMemHandle)(&handle, address);
	else if (way == 1)
		CALL(cuPointerSetAttribute)(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
	else if (way == 2)
		g.cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)address);
	else
		CALL(cuMemGetHandleForAddressRange)
	(&fd, address, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static void pin_late(void)
{
	uint64_t t = 0;

	for (int i = 0; until(&t, WHILE_MS); i++) {
		CUdeviceptr address = fill(6 * MIB);

		usleep(20000);
		if (!address)
			continue;
		pin(address, i % 4);
		if (i % 3)
			g.cuMemFree_v2(address);
	}
}

void attack_moves_pinned(void)
{
	in_threads(4, pin_late);
	take_everything();
}

static void capture_and_touch(void)
{
	uint64_t t = 0;

	while (until(&t, WHILE_MS)) {
		CUdeviceptr address = fill(10 * MIB), piece;
		CUstream stream;

		if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
			break;
		CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
		g.cuMemAllocAsync(&piece, 3 * MIB, stream);
		g.cuMemAlloc_v2(&piece, 4 * MIB);
		g.cuMemFree_v2(address);
		usleep(50000);
	}
}

/* No close is acknowledged while they are open, and what is freed meanwhile is freed later. */
void attack_moves_captured(void)
{
	in_threads(3, capture_and_touch);
	take_everything();
}

static void fill_and_die(void)
{
	alarm(10);
	start();
	fill(150 * MIB);
	fill(60 * MIB);
	usleep(100000);
	kill(getpid(), SIGKILL);
}

static void one_after_another(unsigned count, void (*work)(void))
{
	while (count-- > 0) {
		if (fork() == 0) {
			work();
			_exit(0);
		}
		usleep(40000);
	}
}

void attack_moves_killed(void)
{
	one_after_another(8, fill_and_die);
	while (wait(NULL) > 0)
		;
	take_everything();
}

/* Freed memory that moves is still mapped: a stock, which only its own mover can give up. */
static void stock_and_stop(void)
{
	start();
	for (int i = 0; i < 6; i++) {
		CUdeviceptr address = fill((size_t)(10 + i) * MIB);

		if (address)
			g.cuMemFree_v2(address);
	}
	raise(SIGSTOP);
}

void attack_moves_stocked(void)
{
	one_after_another(4, stock_and_stop);
	usleep(800000);
	take_everything();
}

static void context_in_the_middle(void)
{
	uint64_t t = 0;

	while (until(&t, WHILE_MS)) {
		CUcontext context;

		if (g.cuCtxCreate_v2(&context, 0, g.device) != CUDA_SUCCESS)
			continue;
		fill(30 * MIB);
		fill(9 * MIB);
		usleep(30000);
		g.cuCtxDestroy_v2(context);
	}
}

void attack_moves_contexts(void)
{
	fill(40 * MIB);
	in_threads(3, context_in_the_middle);
	take_everything();
}

void attack_moves_execs(void)
{
	const char *count = getenv("HOSTILE_EXECS");
	int times = count ? atoi(count) : 0;
	char next[16];

	fill(200 * MIB);
	fill(90 * MIB);
	usleep(150000);
	if (times >= 5) {
		take_everything();
		return;
	}
	snprintf(next, sizeof(next), "%d", times + 1);
	setenv("HOSTILE_EXECS", next, 1);
	become("moves_execs");
}

/* The connection, the pages and the store, and not what is the simulated driver's own. */
static void close_ours(void)
{
	static const char *const ours[] = {"socket:", "/memfd:mete-guest", "/memfd:mete-tenant",
					   "/memfd:mete-store"};

	for (int fd = 3; fd < 1024; fd++) {
		char path[32], name[64] = "";
		bool is_ours = false;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, name, sizeof(name) - 1) < 0)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
			is_ours |= strncmp(name, ours[i], strlen(ours[i])) == 0;
		if (is_ours)
			close(fd);
	}
}

void attack_moves_closed(void)
{
	for (int i = 0; i < 8; i++) {
		fill(30 * MIB);
		close_ours();
		usleep(60000);
	}
	take_everything();
}

/* Its own mappings of the store: what left is gone with them, and that is its own affair. */
void attack_moves_protected(void)
{
	fill(200 * MIB);
	for (int i = 0; i < 10; i++) {
		FILE *maps = fopen("/proc/self/maps", "re");
		unsigned long first, last;
		char line[512];

		while (maps && fgets(line, sizeof(line), maps))
			if (strstr(line, "mete-store") &&
			    sscanf(line, "%lx-%lx", &first, &last) == 2)
				mprotect((void *)first, last - first, /* NOLINT */
					 i % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
		if (maps)
			fclose(maps);
		usleep(80000);
	}
	take_everything();
}

static void never_again(void *nothing)
{
	(void)nothing;
	for (;;)
		pause();
}

/* Its memory is told to leave, and a host function of it never returns. */
void attack_moves_undrained(void)
{
	CUstream stream;

	fill(200 * MIB);
	if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
		CALL(cuLaunchHostFunc)(stream, never_again, NULL);
	take_everything();
}
