/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for tests/guest/test_guest_memory.py: takes device memory by every way there is, until
 * it is refused, and gives it back. It knows the truth, too: the driver's own cuMemGetInfo(), asked
 * behind the guest's back, tells what the whole device really holds.
 *
 *	memory_load DRIVER WAY       one way of allocating, in several sizes
 *	memory_load DRIVER race N    N threads, as many of these processes as the test starts
 *	memory_load DRIVER mix N     N threads with random histories of all ways
 *	memory_load DRIVER making N  contexts and memory in N threads, until a line; then as hold
 *	memory_load DRIVER exchange N  N threads take from the current pool, which another exchanges
 *	memory_load DRIVER contexts  what contexts held goes with them
 *	memory_load DRIVER graphs    what graphs held does not go with them
 *	memory_load DRIVER hold      takes a little, says "holds", waits to be killed
 *	memory_load DRIVER hold-managed  likewise, and none of it is on the device
 *
 * The limit is what cuMemGetInfo() says is the total. Exit status 0: all is as it should be.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guest/memory_ways.h"

const char module_of_nothing[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
				 ".visible .entry nothing()\n{\n\tret;\n}\n";

static void fill_and_empty(const struct way *way, size_t bytes)
{
	size_t count = 0, truth, available, total;
	CUresult r = CUDA_SUCCESS;

	while (count < way->most) {
		pieces[count].bytes = bytes;
		r = way->obtain(&pieces[count]);
		if (r != CUDA_SUCCESS)
			break;
		count++;
		if (count % 64 < 4)
			check_limit("while taking");
	}
	check_limit("when refused");
	if (r != CUDA_ERROR_OUT_OF_MEMORY && count < way->most)
		fail("%s of %zu bytes answers %d", way->name, bytes, (int)r);
	truth = held();
	if (r == CUDA_ERROR_OUT_OF_MEMORY && !way->cautious &&
	    g.limit - truth >= (bytes + 4 * MIB - 1) / (2 * MIB) * (2 * MIB))
		fail("%s of %zu bytes was refused while %zu were left", way->name, bytes,
		     g.limit - truth);
	ok(g.cuMemGetInfo_v2(&available, &total));
	if (available > g.limit - (way->cautious ? 0 : truth))
		fail("%zu bytes are said to be free, and %zu are", available, g.limit - truth);
	/* In another order than they were taken. */
	for (size_t i = 0; i < count; i++)
		if (i % 2)
			way->give(&pieces[i]);
	for (size_t i = count; i-- > 0;)
		if (i % 2 == 0)
			way->give(&pieces[i]);
	settle();
	/* Of what it knows roughly the daemon may have looked in the middle; it looks again. */
	if (way->cautious)
		all_free(way->name);
	ok(g.cuMemGetInfo_v2(&available, &total));
	if (available != g.free_at_start)
		fail("after %zu %s of %zu bytes %zu are free, and before %zu were", count,
		     way->name, bytes, available, g.free_at_start);
	printf("%s: %zu of %zu bytes\n", way->name, count, bytes);
}

static void one_way(const char *name)
{
	static const size_t sizes[] = {1,	   40000,   700 << 10,	    (1 << 20),
				       1100 << 10, 3 << 20, (17 << 20) + 5, 200 << 20};

	for (size_t w = 0; w < ways_count; w++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes) && strcmp(name, ways[w].name) == 0; i++)
			fill_and_empty(&ways[w], sizes[i]);
}

/* A context's memory goes with it. */
static void contexts(void)
{
	for (int round = 0; round < 3; round++) {
		CUcontext other;

		ok(g.cuCtxCreate_v2(&other, 0, g.device));
		for (size_t i = 0; i < 100; i++) {
			pieces[i].bytes = i % 3 ? 5000 : 3 * MIB;
			ok(take_linear(&pieces[i]));
			if (i % 10 == 0)
				ok(take_array(&pieces[i]));
		}
		check_limit("with two contexts");
		ok(g.cuCtxDestroy_v2(other));
		ok(g.cuCtxSetCurrent(g.context));
	}
	all_free("the contexts");
}

/* Until the daemon has measured the new context: while it has only an estimate, its figures may
 * move under what is compared with them. A guest that loads a module is answered after a
 * measurement. */
static void measured(size_t *ret_total)
{
	CUmodule module;

	ok(g.cuModuleLoadData(&module, module_of_nothing));
	do {
		usleep(1000);
		ok(g.cuMemGetInfo_v2(&g.free_at_start, ret_total));
	} while (g.free_at_start != g.limit - held());
}

static void hold(CUresult (*obtain)(struct piece *p))
{
	pieces[0].bytes = 40 * MIB;
	ok(obtain(&pieces[0]));
	printf("holds\n");
	fflush(stdout);
	best_effort(getchar());
}

static void load(const char *driver)
{
	void *guest = dlopen("libcuda.so.1", RTLD_NOW), *real;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	uint64_t keep = UINT64_MAX;
	size_t available, total;

	if (!guest)
		fail("%s", dlerror());
#define LOAD(symbol) g.symbol = (api_fn_##symbol *)dlsym(guest, #symbol);
	FUNCTIONS(LOAD)
#undef LOAD
	ok(g.cuInit(0));
	real = dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
	if (!real)
		fail("%s is not loaded: %s", driver, dlerror());
	g.truth = (api_fn_cuMemGetInfo_v2 *)dlsym(real, "cuMemGetInfo_v2");
	if (g.truth == g.cuMemGetInfo_v2)
		fail("this is not run under mete");
	ok(g.cuDeviceGet(&g.device, 0));
	ok(g.cuDeviceTotalMem_v2(&g.limit, g.device));
	ok(g.cuCtxCreate_v2(&g.context, 0, g.device));
	ok(g.truth(&available, &total));
	if (g.limit >= total)
		fail("the limit is the whole device");
	props.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, g.device};
	ok(g.cuMemPoolCreate(&g.pool, &props));
	ok(g.cuMemPoolSetAttribute(g.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	measured(&total);
	if (total != g.limit)
		fail("cuMemGetInfo() says %zu in all, cuDeviceTotalMem() %zu", total, g.limit);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: memory_load DRIVER WAY|race N|mix N|making "
				"N|exchange N|least-stack|contexts|graphs|hold|hold-managed\n");
		return 2;
	}
	load(argv[1]);
	if (strcmp(argv[2], "race") == 0 && argc > 3) {
		printf("ready %zu\n", g.free_at_start);
		fflush(stdout);
		racing((unsigned)atoi(argv[3]));
	} else if (strcmp(argv[2], "mix") == 0 && argc > 3) {
		mixing((unsigned)atoi(argv[3]));
	} else if (strcmp(argv[2], "making") == 0 && argc > 3) {
		making((unsigned)atoi(argv[3]));
		hold(take_linear);
	} else if (strcmp(argv[2], "exchange") == 0 && argc > 3) {
		exchanging((unsigned)atoi(argv[3]));
	} else if (strcmp(argv[2], "least-stack") == 0) {
		least_stack();
	} else if (strcmp(argv[2], "contexts") == 0) {
		contexts();
	} else if (strcmp(argv[2], "graphs") == 0) {
		graphs_outlived();
	} else if (strcmp(argv[2], "hold") == 0) {
		hold(take_linear);
	} else if (strcmp(argv[2], "hold-managed") == 0) {
		hold(take_managed);
	} else {
		one_way(argv[2]);
	}
	return 0;
}
