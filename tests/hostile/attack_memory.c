/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory by every way, in orders that nobody sane would use. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

static CUmemAllocationProp exportable(void)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
}

void attack_mipmaps(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
	CUmipmappedArray mipmap;

	for (int i = 0; i < 100; i++)
		if (CALL(cuMipmappedArrayCreate)(&mipmap, &shape, 10) != CUDA_SUCCESS)
			break;
	take_everything();
}

void attack_sizes(void)
{
	static const size_t sizes[] = {0,	   1ull << 63,	     SIZE_MAX, SIZE_MAX - 4096,
				       1ull << 40, (1ull << 30) - 1, 1};
	struct piece piece = {0};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t pitch;

		g.cuMemAlloc_v2(&piece.address, sizes[i]);
		g.cuMemAllocAsync(&piece.address, sizes[i], NULL);
		g.cuMemAllocManaged(&piece.address, sizes[i], CU_MEM_ATTACH_GLOBAL);
		g.cuMemAllocPitch_v2(&piece.address, &pitch, sizes[i], SIZE_MAX / 2 + 1, 4);
		g.cuMemAllocPitch_v2(&piece.address, &pitch, 1ull << 33, 1ull << 31, 16);
		g.cuMemCreate(&piece.handle, sizes[i], &(CUmemAllocationProp){0}, 0);
	}
	take_everything();
}

void attack_managed_moves(void)
{
	struct piece piece = {.bytes = 32 * MIB};

	for (int i = 0; i < 40; i++) {
		if (take_managed(&piece) != CUDA_SUCCESS)
			break;
		memset((void *)(uintptr_t)piece.address, i, piece.bytes);
		CALL(cuMemPrefetchAsync)(piece.address, piece.bytes, g.device, NULL);
	}
	g.cuCtxSynchronize();
	take_everything();
}

static bool make_pool(CUmemoryPool *ret_pool)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
	uint64_t keep = UINT64_MAX;

	if (g.cuMemPoolCreate(ret_pool, &props) != CUDA_SUCCESS)
		return false;
	g.cuMemPoolSetAttribute(*ret_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
	return true;
}

static void sleep_a_little(void *nothing)
{
	(void)nothing;
	usleep(2000);
}

void attack_pools_destroyed(void)
{
	for (int i = 0; i < 200; i++) {
		CUdeviceptr kept, freed;
		CUmemoryPool pool;

		if (!make_pool(&pool))
			break;
		g.cuMemAllocFromPoolAsync(&kept, 8 * MIB, pool, NULL);
		if (g.cuMemAllocFromPoolAsync(&freed, 24 * MIB, pool, NULL) == CUDA_SUCCESS) {
			if (i % 8 == 0)
				CALL(cuLaunchHostFunc)(NULL, sleep_a_little, NULL);
			g.cuMemFreeAsync(freed, NULL);
		}
		g.cuMemPoolDestroy(pool);
	}
	take_everything();
}

void attack_pools_many(void)
{
	for (int i = 0; i < 1500; i++) {
		CUdeviceptr piece;
		CUmemoryPool pool;

		if (!make_pool(&pool))
			break;
		if (g.cuMemAllocFromPoolAsync(&piece, MIB, pool, NULL) == CUDA_SUCCESS)
			g.cuMemFreeAsync(piece, NULL);
	}
	g.cuCtxSynchronize();
	take_everything();
}

static void trim(void)
{
	uint64_t t = 0;

	while (until(&t, 400))
		g.cuMemPoolTrimTo(g.pool, 0);
}

static void take_and_free_in_order(void)
{
	uint64_t t = 0;

	while (until(&t, 400)) {
		CUdeviceptr linear, piece;

		if (g.cuMemAllocFromPoolAsync(&piece, 30 * MIB, g.pool, NULL) == CUDA_SUCCESS)
			g.cuMemFreeAsync(piece, NULL);
		if (g.cuMemAlloc_v2(&linear, 20 * MIB) == CUDA_SUCCESS)
			g.cuMemFreeAsync(linear, NULL);
	}
}

static void trim_or_take(void)
{
	static int count;

	if (__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % 2)
		trim();
	else
		take_and_free_in_order();
}

void attack_pools_trimmed(void)
{
	in_threads(6, trim_or_take);
	take_everything();
}

void attack_vmm_kept(void)
{
	CUmemAllocationProp prop = exportable();

	for (int i = 0; i < 40; i++) {
		CUmemGenericAllocationHandle handle, again;
		CUdeviceptr at;

		if (g.cuMemCreate(&handle, 32 * MIB, &prop, 0) != CUDA_SUCCESS)
			break;
		if (g.cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0) != CUDA_SUCCESS)
			break;
		g.cuMemMap(at, 32 * MIB, 0, handle, 0);
		g.cuMemMap(at + 32 * MIB, 32 * MIB, 0, handle, 0);
		g.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at);
		g.cuMemRelease(handle);
		g.cuMemRelease(again);
		g.cuMemRelease(handle); /* once too often */
		if (i % 2)
			g.cuMemUnmap(at, 32 * MIB);
	}
	take_everything();
}

void attack_vmm_exported(void)
{
	CUmemAllocationProp prop = exportable();

	for (int i = 0; i < 60; i++) {
		CUmemGenericAllocationHandle handle;
		int fd;

		if (g.cuMemCreate(&handle, 16 * MIB, &prop, 0) != CUDA_SUCCESS)
			break;
		CALL(cuMemExportToShareableHandle)
		(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		g.cuMemRelease(handle);
	}
	take_everything();
}

/* Memory that was exported by a parent that ends: descriptors 100, 101, ... of `exports`. */
enum { EXPORTS = 6, FIRST_EXPORT = 100 };

static void import_and_take(void)
{
	start();
	for (int i = 0; i < EXPORTS; i++) {
		CUmemGenericAllocationHandle handle;

		CALL(cuMemImportFromShareableHandle)
		(&handle, (void *)(uintptr_t)(FIRST_EXPORT + i),
		 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	}
	take_everything();
}

static void export_and_end(void)
{
	CUmemAllocationProp prop = exportable();

	start();
	for (int i = 0; i < EXPORTS; i++) {
		CUmemGenericAllocationHandle handle;
		int fd = -1;

		if (g.cuMemCreate(&handle, 40 * MIB, &prop, 0) != CUDA_SUCCESS)
			break;
		CALL(cuMemExportToShareableHandle)
		(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		dup2(fd, FIRST_EXPORT + i);
	}
	child(import_and_take);
	_exit(0);
}

/* The driver is not for children of fork(): a process that uses it was forked before any did. */
void attack_export_outlives(void)
{
	child(export_and_end);
	take_everything();
}

static CUipcMemHandle shared;

static void open_shared(void)
{
	CUdeviceptr address;

	start();
	CALL(cuIpcOpenMemHandle_v2)(&address, shared, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	take_everything();
}

void attack_ipc_opened(void)
{
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, 64 * MIB) == CUDA_SUCCESS)
		CALL(cuIpcGetMemHandle)(&shared, address);
	for (int i = 0; i < 3; i++)
		child(open_shared);
	take_everything();
}

void attack_heaps(void)
{
	for (int i = 0; i < 4; i++) {
		CUcontext context;

		for (size_t size = 8 * MIB; size <= 1024 * MIB; size *= 2) {
			CALL(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, size);
			CALL(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, size / 2);
			CALL(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, size / 1024);
		}
		if (g.cuCtxCreate_v2(&context, 0, g.device) != CUDA_SUCCESS)
			break;
	}
	take_everything();
}

void attack_contexts_many(void)
{
	CUcontext context;

	for (int i = 0; i < 100; i++)
		if (g.cuCtxCreate_v2(&context, 0, g.device) != CUDA_SUCCESS)
			break;
	take_everything();
}

static void churn(void)
{
	uint64_t t = 0;

	while (until(&t, 600)) {
		CUdeviceptr address;
		CUcontext context;

		if (g.cuCtxCreate_v2(&context, 0, g.device) != CUDA_SUCCESS)
			continue;
		for (int i = 0; i < 4; i++)
			g.cuMemAlloc_v2(&address, 17 * MIB);
		g.cuCtxDestroy_v2(context);
	}
}

void attack_contexts_churn(void)
{
	in_threads(8, churn);
	take_everything();
}

static void retain_and_release(void)
{
	uint64_t t = 0;

	for (unsigned i = 0; until(&t, 500); i++) {
		CUdeviceptr address;
		CUcontext context;

		if (CALL(cuDevicePrimaryCtxRetain)(&context, g.device) != CUDA_SUCCESS)
			continue;
		g.cuCtxSetCurrent(context);
		g.cuMemAlloc_v2(&address, 5 * MIB);
		if (i % 7 == 0)
			CALL(cuDevicePrimaryCtxReset_v2)(g.device);
		CALL(cuDevicePrimaryCtxRelease_v2)(g.device);
	}
}

void attack_primary_race(void)
{
	CUcontext context;

	in_threads(8, retain_and_release);
	CALL(cuDevicePrimaryCtxRetain)(&context, g.device);
	take_everything();
}

static void load_modules(void)
{
	owned(free) char *large = image(100 * MIB), *small = image(20 * MIB);
	CUmodule module;

	for (int i = 0; i < 40; i++)
		if (g.cuModuleLoadData(&module, i % 2 ? small : large) != CUDA_SUCCESS && i % 2)
			break;
}

void attack_modules(void)
{
	load_modules();
	take_everything();
}

void attack_modules_threads(void)
{
	in_threads(8, load_modules);
	take_everything();
}

void attack_libraries(void)
{
	owned(free) char *text = image(60 * MIB);
	CUlibrary library;
	CUmodule module;

	for (int i = 0; i < 12; i++) {
		CUcontext context;

		if (CALL(cuLibraryLoadData)(&library, text, NULL, NULL, 0, NULL, NULL, 0) ==
		    CUDA_SUCCESS)
			CALL(cuLibraryGetModule)(&module, library);
		if (g.cuCtxCreate_v2(&context, 0, g.device) == CUDA_SUCCESS)
			CALL(cuLibraryGetModule)(&module, library);
	}
	take_everything();
}

void attack_graph_nodes(void)
{
	const struct way *graphs = NULL;
	size_t count = 0;

	for (size_t i = 0; i < ways_count; i++)
		if (strcmp(ways[i].name, "graph") == 0)
			graphs = &ways[i];
	while (graphs && count < 200) {
		pieces[count].bytes = 7 * MIB;
		if (graphs->obtain(&pieces[count++]) != CUDA_SUCCESS)
			break;
	}
	take_everything();
}

void attack_graph_captured(void)
{
	CUdeviceptr piece;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 100; i++) {
		if (CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED) !=
		    CUDA_SUCCESS)
			break;
		g.cuMemAllocAsync(&piece, 20 * MIB, stream);
		if (CALL(cuStreamEndCapture)(stream, &graph) != CUDA_SUCCESS)
			break;
		if (g.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS)
			for (int n = 0; n < 3; n++)
				g.cuGraphLaunch(exec, stream);
	}
	g.cuCtxSynchronize();
	take_everything();
}

static void take_all_and_free_some(void)
{
	uint64_t t = 0;

	while (until(&t, 700)) {
		CUdeviceptr mine[16];
		size_t count = 0;

		while (count < 16 &&
		       g.cuMemAlloc_v2(&mine[count], (count + 1) * MIB) == CUDA_SUCCESS)
			count++;
		while (count > 1)
			g.cuMemFree_v2(mine[--count]);
		if (count)
			g.cuMemFree_v2(mine[0]);
	}
	take_everything();
}

void attack_threads_race(void)
{
	in_threads(24, take_all_and_free_some);
}

static void large_pair(void)
{
	uint64_t t = 0;

	while (until(&t, 600)) {
		CUdeviceptr address;

		if (g.cuMemAlloc_v2(&address, 200 * MIB) == CUDA_SUCCESS)
			g.cuMemFree_v2(address);
	}
}

void attack_large_pairs(void)
{
	in_threads(8, large_pair);
	take_everything();
}
