/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that alloc-cost, swap-alone and start-cost measure: pairs WHAT BYTES LIVE COUNT. Opens
 * the driver as programs do, makes a context and calls COUNT times, while LIVE other allocations of
 * so many bytes are there. WHAT: init (cuInit and no more), alloc, async, sync (cuCtxSynchronize),
 * launch (of a kernel that does nothing), segments (takes 16 and frees them, as a caching allocator
 * does), timed (alloc, and prints the microseconds of a pair), timed-launch (the nanoseconds of a
 * launch), until (alloc, until standard input ends). With "tables-" before it, the driver's private
 * tables are asked for first, as NVIDIA's runtime does.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda/prototypes.h"

enum {
	SEGMENTS = 16,
	AHEAD = 100, /* pairs that are not waited for, of async */
};

static void *driver;

#define CALL(symbol) ((api_fn_##symbol *)function(#symbol))

static void *function(const char *name)
{
	void *address = dlsym(driver, name);

	if (!address) {
		fprintf(stderr, "pairs: the driver has no %s\n", name);
		exit(1);
	}
	return address;
}

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "pairs: %s failed: %d\n", what, (int)r);
	exit(1);
}

static void pairs(size_t bytes, unsigned long live, unsigned long count)
{
	api_fn_cuMemAlloc_v2 *alloc = CALL(cuMemAlloc_v2);
	api_fn_cuMemFree_v2 *free_ = CALL(cuMemFree_v2);
	CUdeviceptr address, *held = calloc(live + 1, sizeof(*held));

	for (unsigned long i = 0; held && i < live; i++)
		must(alloc(&held[i], bytes), "cuMemAlloc");
	for (unsigned long i = 0; i < count; i++) {
		must(alloc(&address, bytes), "cuMemAlloc");
		must(free_(address), "cuMemFree");
	}
	free(held);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void timed(size_t bytes, unsigned long live, unsigned long count)
{
	double from;

	pairs(bytes, live, 1);
	from = now_us();
	pairs(bytes, 0, count);
	printf("%.1f\n", (now_us() - from) / (double)count);
}

static void segments(size_t bytes, unsigned long count)
{
	api_fn_cuMemAlloc_v2 *alloc = CALL(cuMemAlloc_v2);
	api_fn_cuMemFree_v2 *free_ = CALL(cuMemFree_v2);
	CUdeviceptr held[SEGMENTS];

	for (unsigned long i = 0; i < count; i += SEGMENTS) {
		for (int s = 0; s < SEGMENTS; s++)
			must(alloc(&held[s], bytes), "cuMemAlloc");
		for (int s = 0; s < SEGMENTS; s++)
			must(free_(held[s]), "cuMemFree");
	}
}

static void async_pairs(size_t bytes, unsigned long live, unsigned long count)
{
	api_fn_cuMemAllocAsync *alloc = CALL(cuMemAllocAsync);
	api_fn_cuMemFreeAsync *free_ = CALL(cuMemFreeAsync);
	api_fn_cuStreamSynchronize *wait = CALL(cuStreamSynchronize);
	CUdeviceptr address;
	CUstream stream;

	must(CALL(cuStreamCreate)(&stream, 0), "cuStreamCreate");
	/* Memory that stays keeps the pool's where it is. */
	for (unsigned long i = 0; i < live; i++)
		must(alloc(&address, bytes, stream), "cuMemAllocAsync");
	for (unsigned long i = 0; i < count; i++) {
		must(alloc(&address, bytes, stream), "cuMemAllocAsync");
		must(free_(address, stream), "cuMemFreeAsync");
		/* Calls far ahead of the device make the pool larger, by chance. */
		if (i % AHEAD == 0)
			must(wait(stream), "cuStreamSynchronize");
	}
}

static void waits(unsigned long count)
{
	api_fn_cuCtxSynchronize *wait = CALL(cuCtxSynchronize);

	for (unsigned long i = 0; i < count; i++)
		must(wait(), "cuCtxSynchronize");
}

static const char nothing[] = ".version 6.0\n"
			      ".target sm_50\n"
			      ".address_size 64\n"
			      ".visible .entry nothing()\n"
			      "{\n"
			      "ret;\n"
			      "}\n";

static void launches(size_t bytes, unsigned long live, unsigned long count)
{
	api_fn_cuLaunchKernel *launch = CALL(cuLaunchKernel);
	CUmodule module;
	CUfunction kernel;

	must(CALL(cuModuleLoadData)(&module, nothing), "cuModuleLoadData");
	must(CALL(cuModuleGetFunction)(&kernel, module, "nothing"), "cuModuleGetFunction");
	pairs(bytes, live, 0);
	for (unsigned long i = 0; i < count; i++) {
		must(launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
		if (i % AHEAD == 0)
			waits(1);
	}
	waits(1);
}

static void timed_launches(size_t bytes, unsigned long live, unsigned long count)
{
	double from;

	launches(bytes, live, count / 10);
	from = now_us();
	launches(bytes, 0, count);
	printf("%.1f\n", (now_us() - from) * 1e3 / (double)count);
}

static void ask_for_tables(void)
{
	CUuuid id = {{0}};
	const void *table;

	must(CALL(cuGetExportTable)(&table, &id), "cuGetExportTable");
}

static int ended(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

/* Programs have threads, and their malloc() costs more as soon as there is a second one: with the
 * guest that would be its agent. */
static void *idles(void *argument)
{
	pause();
	return argument;
}

static void measure(const char *what, size_t bytes, unsigned long live, unsigned long count)
{
	if (strcmp(what, "async") == 0)
		async_pairs(bytes, live, count);
	else if (strcmp(what, "sync") == 0)
		waits(count);
	else if (strcmp(what, "launch") == 0)
		launches(bytes, live, count);
	else if (strcmp(what, "timed-launch") == 0)
		timed_launches(bytes, live, count);
	else if (strcmp(what, "timed") == 0)
		timed(bytes, live, count);
	else if (strcmp(what, "segments") == 0)
		segments(bytes, count);
	else
		pairs(bytes, live, count);
	while (strcmp(what, "until") == 0 && !ended())
		pairs(bytes, 0, 1);
}

int main(int argc, char **argv)
{
	const char *what = argc == 5 ? argv[1] : "";
	size_t bytes = argc == 5 ? strtoull(argv[2], NULL, 10) : 0;
	unsigned long live = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
	unsigned long count = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	CUcontext context;
	pthread_t thread;

	if (argc != 5) {
		fprintf(stderr,
			"usage: pairs "
			"[tables-]init|alloc|async|sync|launch|segments|timed|timed-launch|until "
			"BYTES LIVE COUNT\n");
		return 2;
	}
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "pairs: %s\n", dlerror());
		return 1;
	}
	must(CALL(cuInit)(0), "cuInit");
	if (strcmp(what, "init") == 0)
		return 0;
	if (strncmp(what, "tables-", 7) == 0) {
		what += 7;
		ask_for_tables();
	}
	must((CUresult)pthread_create(&thread, NULL, idles, NULL), "pthread_create");
	must(CALL(cuCtxCreate_v2)(&context, 0, 0), "cuCtxCreate");
	measure(what, bytes, live, count);
	return 0;
}
