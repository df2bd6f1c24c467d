/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that calls the driver as NVIDIA's runtime and PyTorch's allocator do, told line by line
 * what to do; each line is answered by one. The runtime finds its functions by cuGetProcAddress
 * with per-thread streams, asks for the driver's private tables first, works in the primary context
 * and sets it again before each call. I is a number below MOST.
 *
 *	segment I BYTES         cuMemAlloc
 *	expand I BYTES          cuMemCreate, mapped in pieces of 20 MiB
 *	pooled I BYTES          cuMemAllocAsync
 *	thread I BYTES          cuMemAlloc of a new thread
 *	unguarded I BYTES       cuMemAlloc, without setting the context before
 *	pairs I BYTES           taken and freed, 100 times
 *	free I
 *	fill I SEED
 *	check I SEED [ADDED]
 *	add I N                 a kernel adds N to some of the words; the first one loads its module
 *	graph I N               the same, captured and launched twice
 *	queue I N               N kernels that add 1, in a stream that waits for nobody
 *	settle                  waits for it
 *	switch                  to the primary context of the next device, by a private table
 *	green                   from now on in a green context with half of the device
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/private_tables.h"
#include "tests/guest/must.h"
#include "tests/guest/runtime_ptx.h"

enum {
	MOST = 256,
	PIECES = 64, /* of one that is expanded */
	PIECE = 20 << 20,
	VERSION = 12090,
	STRIDE = 1024, /* words of which a kernel changes one */
};

#define EACH(F)                                                                                    \
	F(cuInit, cuInit)                                                                          \
	F(cuDriverGetVersion, cuDriverGetVersion)                                                  \
	F(cuModuleGetLoadingMode, cuModuleGetLoadingMode)                                          \
	F(cuGetExportTable, cuGetExportTable)                                                      \
	F(cuDeviceGetCount, cuDeviceGetCount)                                                      \
	F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                      \
	F(cuDeviceGetDevResource, cuDeviceGetDevResource)                                          \
	F(cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount)                                \
	F(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc)                                    \
	F(cuGreenCtxCreate, cuGreenCtxCreate)                                                      \
	F(cuCtxFromGreenCtx, cuCtxFromGreenCtx)                                                    \
	F(cuCtxGetCurrent, cuCtxGetCurrent)                                                        \
	F(cuCtxSetCurrent, cuCtxSetCurrent)                                                        \
	F(cuMemAlloc, cuMemAlloc_v2)                                                               \
	F(cuMemFree, cuMemFree_v2)                                                                 \
	F(cuMemAddressReserve, cuMemAddressReserve)                                                \
	F(cuMemAddressFree, cuMemAddressFree)                                                      \
	F(cuMemCreate, cuMemCreate)                                                                \
	F(cuMemMap, cuMemMap)                                                                      \
	F(cuMemSetAccess, cuMemSetAccess)                                                          \
	F(cuMemUnmap, cuMemUnmap)                                                                  \
	F(cuMemRelease, cuMemRelease)                                                              \
	F(cuMemAllocAsync, cuMemAllocAsync)                                                        \
	F(cuMemFreeAsync, cuMemFreeAsync)                                                          \
	F(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                                                 \
	F(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                                                 \
	F(cuStreamSynchronize, cuStreamSynchronize)                                                \
	F(cuStreamCreate, cuStreamCreate)                                                          \
	F(cuStreamBeginCapture, cuStreamBeginCapture_v2)                                           \
	F(cuStreamEndCapture, cuStreamEndCapture)                                                  \
	F(cuGraphDestroy, cuGraphDestroy)                                                          \
	F(cuGraphExecDestroy, cuGraphExecDestroy)                                                  \
	F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags)                                \
	F(cuGraphLaunch, cuGraphLaunch)                                                            \
	F(cuLibraryLoadData, cuLibraryLoadData)                                                    \
	F(cuLibraryGetKernel, cuLibraryGetKernel)                                                  \
	F(cuKernelGetFunction, cuKernelGetFunction)                                                \
	F(cuLaunchKernel, cuLaunchKernel)

struct held {
	enum { NONE, SEGMENT, EXPANDED, POOLED } kind;
	CUdeviceptr at;
	size_t bytes, pieces;
	CUmemGenericAllocationHandle piece[PIECES];
};

static struct {
	CUresult (*find)(const char *name, void **address, int version, cuuint64_t flags,
			 CUdriverProcAddressQueryResult *status);
#define F(name, symbol) __typeof__(&symbol) name;
	EACH(F)
#undef F
	const struct private_tables_ours *ours;
	CUcontext context;
	CUfunction kernel;
	struct held held[MOST];
} g;

/* The driver's function of that name, as the runtime finds it. */
static void *function(const char *name)
{
	CUdriverProcAddressQueryResult status;
	void *address = NULL;

	if (g.find(name, &address, VERSION, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
		   &status) != CUDA_SUCCESS ||
	    !address)
		fail("no %s", name);
	return address;
}

/* In the order in which the runtime asks, and one of the simulated driver's. */
static void ask_for_tables(void)
{
	static const CUuuid ours = {PRIVATE_TABLES_OURS};
	static const unsigned char asked[][16] = {
		{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c,
		 0x0d, 0xd9},
		{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd,
		 0x9d, 0xf9},
		{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c,
		 0x0a, 0x66},
		{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a,
		 0xec, 0xdc},
	};
	const void *table;
	CUuuid id;

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		memcpy(&id, asked[i], sizeof(id));
		best_effort(g.cuGetExportTable(&table, &id));
	}
	if (g.cuGetExportTable(&table, &ours) == CUDA_SUCCESS)
		g.ours = table;
}

static void start(bool tables)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUmoduleLoadingMode mode;
	int version, devices;

	if (!driver)
		fail("%s", dlerror());
	*(void **)&g.find = dlsym(driver, "cuGetProcAddress_v2");
#define F(name, symbol) *(void **)&g.name = function(#name);
	EACH(F)
#undef F
	ok(g.cuDriverGetVersion(&version));
	if (tables)
		ask_for_tables();
	ok(g.cuInit(0));
	ok(g.cuModuleGetLoadingMode(&mode));
	ok(g.cuDeviceGetCount(&devices));
	ok(g.cuDevicePrimaryCtxRetain(&g.context, 0));
	ok(g.cuCtxSetCurrent(g.context));
	printf("%d tables\n", g.ours != NULL);
}

/* As PyTorch does before it calls its allocator. */
static void guard(void)
{
	CUcontext before;

	ok(g.cuCtxGetCurrent(&before));
	ok(g.cuCtxSetCurrent(g.context));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static CUresult segment(struct held *held, size_t bytes)
{
	guard();
	held->kind = SEGMENT;
	held->bytes = bytes;
	return g.cuMemAlloc(&held->at, bytes);
}

static void shrink(struct held *held)
{
	for (size_t p = 0; p < held->pieces; p++) {
		ok(g.cuMemUnmap(held->at + p * PIECE, PIECE));
		ok(g.cuMemRelease(held->piece[p]));
	}
	ok(g.cuMemAddressFree(held->at, (size_t)PIECES * PIECE));
}

/* Reserves more than it needs, and maps it piece by piece. */
static CUresult expand(struct held *held, size_t bytes)
{
	CUmemAllocationProp about = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {about.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult r;

	guard();
	held->kind = EXPANDED;
	held->bytes = bytes;
	held->pieces = 0;
	if (bytes > (size_t)PIECES * PIECE)
		fail("too many pieces");
	ok(g.cuMemAddressReserve(&held->at, (size_t)PIECES * PIECE, 0, 0, 0));
	while (held->pieces * PIECE < bytes) {
		CUdeviceptr at = held->at + held->pieces * PIECE;

		r = g.cuMemCreate(&held->piece[held->pieces], PIECE, &about, 0);
		if (r != CUDA_SUCCESS) {
			shrink(held);
			return r;
		}
		ok(g.cuMemMap(at, PIECE, 0, held->piece[held->pieces++], 0));
		ok(g.cuMemSetAccess(at, PIECE, &access, 1));
	}
	return CUDA_SUCCESS;
}

static CUresult pooled(struct held *held, size_t bytes)
{
	guard();
	held->kind = POOLED;
	held->bytes = bytes;
	return g.cuMemAllocAsync(&held->at, bytes, NULL);
}

static CUresult release(struct held *held)
{
	guard();
	if (held->kind == SEGMENT)
		return g.cuMemFree(held->at);
	if (held->kind == POOLED) {
		ok(g.cuMemFreeAsync(held->at, NULL));
		return g.cuStreamSynchronize(NULL);
	}
	shrink(held);
	return CUDA_SUCCESS;
}

static CUresult pairs(size_t bytes)
{
	CUdeviceptr at;

	for (int i = 0; i < 100; i++) {
		CUresult r;

		guard();
		r = g.cuMemAlloc(&at, bytes);
		if (r != CUDA_SUCCESS)
			return r;
		ok(g.cuMemFree(at));
	}
	return CUDA_SUCCESS;
}

struct order {
	int i;
	size_t bytes;
	CUresult result;
};

static void *threads_own(void *argument)
{
	struct order *order = argument;

	order->result = segment(&g.held[order->i], order->bytes);
	return NULL;
}

static CUresult in_thread(int i, size_t bytes)
{
	struct order order = {i, bytes, CUDA_SUCCESS};
	pthread_t thread;

	if (pthread_create(&thread, NULL, threads_own, &order) != 0 ||
	    pthread_join(thread, NULL) != 0)
		fail("no thread");
	return order.result;
}

/* ---- what is in it --------------------------------------------------------------------------- */

static uint32_t word(uint64_t seed, uint64_t i)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9;

	return (uint32_t)(x ^ x >> 31);
}

static void fill(const struct held *held, uint64_t seed)
{
	uint32_t *words = malloc(held->bytes);

	for (size_t i = 0; words && i < held->bytes / 4; i++)
		words[i] = word(seed, i);
	guard();
	ok(g.cuMemcpyHtoDAsync(held->at, words, held->bytes, NULL));
	ok(g.cuStreamSynchronize(NULL));
	free(words);
	printf("filled\n");
}

static void check_words(const struct held *held, uint64_t seed, uint32_t added)
{
	uint32_t *words = malloc(held->bytes);
	size_t i = 0;

	guard();
	ok(g.cuMemcpyDtoHAsync(words, held->at, held->bytes, NULL));
	ok(g.cuStreamSynchronize(NULL));
	while (words && i < held->bytes / 4 && words[i] == word(seed, i) + (i % STRIDE ? 0 : added))
		i++;
	printf("%s\n", i == held->bytes / 4 ? "same" : "different");
	free(words);
}

/* Modules are loaded when they are first used. */
static void load_kernel(void)
{
	CUlibrary library;
	CUkernel kernel;

	if (g.kernel)
		return;
	ok(g.cuLibraryLoadData(&library, runtime_ptx, NULL, NULL, 0, NULL, NULL, 0));
	ok(g.cuLibraryGetKernel(&kernel, library, "add"));
	ok(g.cuKernelGetFunction(&g.kernel, kernel));
}

static void add(const struct held *held, uint32_t by, CUstream stream)
{
	CUdeviceptr at = held->at;
	uint32_t n = (uint32_t)(held->bytes / 4 / STRIDE);
	void *arguments[] = {&at, &n, &by};

	ok(g.cuLaunchKernel(g.kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, arguments,
			    NULL));
}

static void launch(const struct held *held, uint32_t by)
{
	guard();
	load_kernel();
	add(held, by, NULL);
	ok(g.cuStreamSynchronize(NULL));
	printf("added\n");
}

static CUstream own_stream(void)
{
	static CUstream stream;

	if (!stream)
		ok(g.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void graph(const struct held *held, uint32_t by)
{
	CUstream stream;
	CUgraphExec executable;
	CUgraph captured;

	guard();
	load_kernel();
	stream = own_stream();
	ok(g.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	add(held, by, stream);
	ok(g.cuStreamEndCapture(stream, &captured));
	ok(g.cuGraphInstantiateWithFlags(&executable, captured, 0));
	for (int i = 0; i < 2; i++)
		ok(g.cuGraphLaunch(executable, stream));
	ok(g.cuStreamSynchronize(stream));
	ok(g.cuGraphExecDestroy(executable));
	ok(g.cuGraphDestroy(captured));
	printf("launched\n");
}

static void queue(const struct held *held, uint64_t count)
{
	guard();
	load_kernel();
	while (count--)
		add(held, 1, own_stream());
	printf("queued\n");
}

static void settle(void)
{
	guard();
	ok(g.cuStreamSynchronize(own_stream()));
	printf("settled\n");
}

/* Nobody sees it. */
static void switch_device(void)
{
	ok(g.cuDevicePrimaryCtxRetain(&g.context, 1));
	if (!g.ours)
		fail("the driver has no such table");
	ok(g.ours->set_current(g.context));
	printf("switched\n");
}

/* As torch.cuda.green_contexts does. */
static void green(void)
{
	CUdevResource all, half;
	CUdevResourceDesc desc;
	CUgreenCtx made;
	unsigned groups = 1;

	ok(g.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	ok(g.cuDevSmResourceSplitByCount(&half, &groups, &all, NULL, 0, all.sm.smCount / 2));
	ok(g.cuDevResourceGenerateDesc(&desc, &half, 1));
	ok(g.cuGreenCtxCreate(&made, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	ok(g.cuCtxFromGreenCtx(&g.context, made));
	printf("green\n");
}

/* ---- what it is told ------------------------------------------------------------------------- */

static void answer(CUresult r)
{
	printf("%d\n", (int)r);
}

static void obey(const char *verb, int i, uint64_t a, uint64_t b)
{
	struct held *held = &g.held[i];

	if (!strcmp(verb, "segment"))
		answer(segment(held, a));
	else if (!strcmp(verb, "expand"))
		answer(expand(held, a));
	else if (!strcmp(verb, "pooled"))
		answer(pooled(held, a));
	else if (!strcmp(verb, "thread"))
		answer(in_thread(i, a));
	else if (!strcmp(verb, "free"))
		answer(release(held));
	else if (!strcmp(verb, "pairs"))
		answer(pairs(a));
	else if (!strcmp(verb, "unguarded"))
		answer(g.cuMemAlloc(&held->at, a));
	else if (!strcmp(verb, "fill"))
		fill(held, a);
	else if (!strcmp(verb, "check"))
		check_words(held, a, (uint32_t)b);
	else if (!strcmp(verb, "add"))
		launch(held, (uint32_t)a);
	else if (!strcmp(verb, "graph"))
		graph(held, (uint32_t)a);
	else if (!strcmp(verb, "queue"))
		queue(held, a);
	else if (!strcmp(verb, "settle"))
		settle();
	else if (!strcmp(verb, "switch"))
		switch_device();
	else if (!strcmp(verb, "green"))
		green();
	else
		fail("what is %s?", verb);
}

int main(int argc, char **argv)
{
	char line[256], verb[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	start(argc > 1 && !strcmp(argv[1], "tables"));
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t a = 0, b = 0;
		int i = 0;

		if (sscanf(line, "%31s %d %" SCNu64 " %" SCNu64, verb, &i, &a, &b) < 1 || i < 0 ||
		    i >= MOST)
			fail("what is %s?", line);
		obey(verb, i, a, b);
	}
	return 0;
}
