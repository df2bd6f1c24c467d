/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for tests/guest/test_guest_memory.py: takes device memory by every way there is, until
 * it is refused, and gives it back. It knows the truth, too: the driver's own cuMemGetInfo(), asked
 * behind the guest's back, says what the whole device really holds.
 *
 *	memory_load DRIVER WAY      one way of allocating, in several sizes
 *	memory_load DRIVER race N   N threads, as many of these processes as the test starts
 *	memory_load DRIVER mix N    N threads with random histories of all ways
 *	memory_load DRIVER hold     takes a little, says "holds", waits to be killed
 *
 * The limit is what cuMemGetInfo() says is the total. Exit status 0: all is as it should be.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "cuda/prototypes.h"

#define MIB (1ull << 20)

enum {
	MOST = 65536,
	FILL = 3000, /* pieces of one size; the smallest ones do not come to the limit */
};

/* The guest's functions, and one of the driver's. */
#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuDeviceGet)                                                                             \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxDestroy_v2)                                                                         \
	X(cuCtxSetCurrent)                                                                         \
	X(cuCtxSynchronize)                                                                        \
	X(cuMemGetInfo_v2)                                                                         \
	X(cuDeviceTotalMem_v2)                                                                     \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemAllocPitch_v2)                                                                      \
	X(cuMemAllocManaged)                                                                       \
	X(cuMemFree_v2)                                                                            \
	X(cuMemAllocAsync)                                                                         \
	X(cuMemAllocFromPoolAsync)                                                                 \
	X(cuMemFreeAsync)                                                                          \
	X(cuMemPoolCreate)                                                                         \
	X(cuMemPoolDestroy)                                                                        \
	X(cuMemPoolTrimTo)                                                                         \
	X(cuMemPoolSetAttribute)                                                                   \
	X(cuMemCreate)                                                                             \
	X(cuMemRelease)                                                                            \
	X(cuMemAddressReserve)                                                                     \
	X(cuMemAddressFree)                                                                        \
	X(cuMemMap)                                                                                \
	X(cuMemUnmap)                                                                              \
	X(cuMemRetainAllocationHandle)                                                             \
	X(cuArrayCreate_v2)                                                                        \
	X(cuArray3DCreate_v2)                                                                      \
	X(cuArrayDestroy)                                                                          \
	X(cuGraphCreate)                                                                           \
	X(cuGraphDestroy)                                                                          \
	X(cuGraphAddMemAllocNode)                                                                  \
	X(cuGraphAddMemFreeNode)                                                                   \
	X(cuGraphInstantiateWithFlags)                                                             \
	X(cuGraphLaunch)                                                                           \
	X(cuGraphExecDestroy)                                                                      \
	X(cuDeviceGraphMemTrim)                                                                    \
	X(cuModuleLoadData)

static const char nothing[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
			      ".visible .entry nothing()\n{\n\tret;\n}\n";

static struct {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	api_fn_cuMemGetInfo_v2 *truth;
	CUdevice device;
	CUcontext context;
	CUmemoryPool pool;
	size_t limit, before; /* what others of the device held when we began */
	size_t free_at_start;
} g;

static void noreturn_ printf_like(1, 2) fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "memory_load: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	_exit(1);
}

#define ok(call)                                                                                   \
	do {                                                                                       \
		CUresult ok_ = (call);                                                             \
		if (ok_ != CUDA_SUCCESS)                                                           \
			fail("%s:%d: %s is %d", __FILE__, __LINE__, #call, (int)ok_);              \
	} while (0)

/* One piece of memory. */
struct piece {
	CUdeviceptr address;
	size_t bytes;
	CUmemGenericAllocationHandle handle;
	CUarray array;
	CUgraph graph;
	CUgraphExec exec;
};

static CUmemAllocationProp on_device(void)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
}

static CUresult take_linear(struct piece *p)
{
	return g.cuMemAlloc_v2(&p->address, p->bytes);
}

static void give_linear(struct piece *p)
{
	ok(g.cuMemFree_v2(p->address));
}

static CUresult take_pitch(struct piece *p)
{
	size_t pitch;

	return g.cuMemAllocPitch_v2(&p->address, &pitch, p->bytes / 7 + 1, 7, 4);
}

static CUresult take_managed(struct piece *p)
{
	return g.cuMemAllocManaged(&p->address, p->bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult take_async(struct piece *p)
{
	return g.cuMemAllocAsync(&p->address, p->bytes, NULL);
}

static void give_async(struct piece *p)
{
	ok(g.cuMemFreeAsync(p->address, NULL));
}

/* Memory that is ordered by a stream must be there before it can be freed without one. */
static void give_at_once(struct piece *p)
{
	ok(g.cuCtxSynchronize());
	ok(g.cuMemFree_v2(p->address));
}

static CUresult take_pool(struct piece *p)
{
	return g.cuMemAllocFromPoolAsync(&p->address, p->bytes, g.pool, NULL);
}

/* Synchronous memory, freed in a stream's order, and the other way round. */
static void give_the_other_way(struct piece *p)
{
	ok(g.cuMemFreeAsync(p->address, NULL));
}

static CUresult take_virtual(struct piece *p)
{
	CUmemAllocationProp prop = on_device();
	CUmemGenericAllocationHandle again;
	CUresult r;

	p->bytes = (p->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	r = g.cuMemCreate(&p->handle, p->bytes, &prop, 0);
	if (r != CUDA_SUCCESS)
		return r;
	ok(g.cuMemAddressReserve(&p->address, p->bytes, 0, 0, 0));
	ok(g.cuMemMap(p->address, p->bytes, 0, p->handle, 0));
	/* As programs do: the mapping keeps the memory. */
	ok(g.cuMemRelease(p->handle));
	ok(g.cuMemRetainAllocationHandle(&again, (char *)(uintptr_t)p->address + p->bytes - 1));
	ok(g.cuMemRelease(again));
	return r;
}

static void give_virtual(struct piece *p)
{
	ok(g.cuMemUnmap(p->address, p->bytes));
	ok(g.cuMemAddressFree(p->address, p->bytes));
}

/* Not mapped at all: the handle alone holds the memory. */
static CUresult take_handle(struct piece *p)
{
	CUmemAllocationProp prop = on_device();

	p->bytes = (p->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	return g.cuMemCreate(&p->handle, p->bytes, &prop, 0);
}

static void give_handle(struct piece *p)
{
	ok(g.cuMemRelease(p->handle));
}

static CUresult take_array(struct piece *p)
{
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1024,
				       .Height = p->bytes / 4096 + 1,
				       .Format = CU_AD_FORMAT_FLOAT,
				       .NumChannels = 1};

	return g.cuArrayCreate_v2(&p->array, &shape);
}

static CUresult take_array3d(struct piece *p)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 64,
					 .Height = 16,
					 .Depth = p->bytes / 4096 + 1,
					 .Format = CU_AD_FORMAT_UNSIGNED_INT32,
					 .NumChannels = 1};

	return g.cuArray3DCreate_v2(&p->array, &shape);
}

static void give_array(struct piece *p)
{
	ok(g.cuArrayDestroy(p->array));
}

static CUresult take_graph(struct piece *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}},
		.bytesize = p->bytes};
	CUgraphNode node;
	CUresult r;

	ok(g.cuGraphCreate(&p->graph, 0));
	r = g.cuGraphAddMemAllocNode(&node, p->graph, NULL, 0, &alloc);
	if (r == CUDA_SUCCESS)
		r = g.cuGraphAddMemFreeNode(&node, p->graph, &node, 1, alloc.dptr);
	if (r == CUDA_SUCCESS)
		r = g.cuGraphInstantiateWithFlags(&p->exec, p->graph, 0);
	if (r == CUDA_SUCCESS) {
		r = g.cuGraphLaunch(p->exec, NULL);
		ok(g.cuCtxSynchronize());
		if (r != CUDA_SUCCESS)
			ok(g.cuGraphExecDestroy(p->exec));
	}
	if (r != CUDA_SUCCESS)
		ok(g.cuGraphDestroy(p->graph));
	return r;
}

static void give_graph(struct piece *p)
{
	ok(g.cuGraphExecDestroy(p->exec));
	ok(g.cuGraphDestroy(p->graph));
}

/* `cautious`: the truth may be less than the charge (managed memory need not be on the device; what
 * of an array is padding is not known), so that the room that is left says nothing. */
static const struct way {
	const char *name;
	CUresult (*obtain)(struct piece *p);
	void (*give)(struct piece *p);
	bool cautious;
} ways[] = {
	{"linear", take_linear, give_linear, false},
	{"pitch", take_pitch, give_linear, false},
	{"managed", take_managed, give_linear, true},
	{"async", take_async, give_async, false},
	{"pool", take_pool, give_async, false},
	{"async-freed-at-once", take_async, give_at_once, false},
	{"linear-freed-in-order", take_linear, give_the_other_way, false},
	{"virtual", take_virtual, give_virtual, false},
	{"handle", take_handle, give_handle, false},
	{"array", take_array, give_array, true},
	{"array3d", take_array3d, give_array, true},
	{"graph", take_graph, give_graph, true},
};

/* What the device really holds beyond what it held when we began. */
static size_t held(void)
{
	size_t available, total;

	ok(g.truth(&available, &total));
	return total - available - g.before;
}

static void check_limit(const char *when)
{
	size_t truth = held();

	if (truth > g.limit)
		fail("%s the device holds %zu bytes, and the limit is %zu", when, truth, g.limit);
}

static void settle(void)
{
	ok(g.cuCtxSynchronize());
	if (g.pool)
		ok(g.cuMemPoolTrimTo(g.pool, 0));
	best_effort(g.cuDeviceGraphMemTrim(g.device));
}

static struct piece pieces[MOST];

/* Everything is free again. The daemon measures after a context is gone, which takes a moment. */
static void all_free(const char *after)
{
	size_t available = 0, total;

	for (int i = 0; i < 1000; i++) {
		ok(g.cuMemGetInfo_v2(&available, &total));
		if (available == g.free_at_start)
			return;
		usleep(5000);
	}
	fail("after %s %zu bytes are free, and before %zu were", after, available, g.free_at_start);
}

static void fill_and_empty(const struct way *way, size_t bytes)
{
	size_t count = 0, truth, available, total;
	CUresult r = CUDA_SUCCESS;

	while (count < FILL) {
		pieces[count].bytes = bytes;
		r = way->obtain(&pieces[count]);
		if (r != CUDA_SUCCESS)
			break;
		count++;
		if (count % 64 < 4)
			check_limit("while taking");
	}
	check_limit("when refused");
	if (r != CUDA_ERROR_OUT_OF_MEMORY && count < FILL)
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

	for (size_t w = 0; w < ARRAY_SIZE(ways); w++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes) && strcmp(name, ways[w].name) == 0; i++)
			fill_and_empty(&ways[w], sizes[i]);
}

/* ---- threads --------------------------------------------------------------------------------- */

static struct {
	atomic_size_t bytes;
	atomic_int taken;
} race;

static void *race_thread(void *argument)
{
	struct piece *mine = argument;
	size_t count = 0;

	ok(g.cuCtxSetCurrent(g.context));
	for (;;) {
		CUresult r = g.cuMemAlloc_v2(&mine[count].address, atomic_load(&race.bytes));

		if (r == CUDA_ERROR_OUT_OF_MEMORY)
			break;
		ok(r);
		count++;
		if (count == MOST / 16)
			fail("a thread took too much");
	}
	atomic_fetch_add(&race.taken, (int)count);
	return (void *)count;
}

/* The test starts two of us at once. "full" when we are refused; on a line, everything goes. */
static void racing(unsigned threads)
{
	pthread_t thread[16];
	void *count[16];
	char line[64];

	if (threads > 16)
		fail("at most 16 threads");
	while (fgets(line, sizeof(line), stdin) && atoll(line) > 0) {
		atomic_store(&race.bytes, (size_t)atoll(line));
		atomic_store(&race.taken, 0);
		for (unsigned i = 0; i < threads; i++)
			if (pthread_create(&thread[i], NULL, race_thread, &pieces[i * (MOST / 16)]))
				fail("no thread");
		for (unsigned i = 0; i < threads; i++)
			pthread_join(thread[i], &count[i]);
		printf("full %d\n", atomic_load(&race.taken));
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			fail("no line");
		for (unsigned i = 0; i < threads; i++)
			for (size_t n = 0; n < (size_t)count[i]; n++)
				ok(g.cuMemFree_v2(pieces[i * (MOST / 16) + n].address));
		printf("empty\n");
		fflush(stdout);
	}
}

static void *mix_thread(void *argument)
{
	struct {
		struct piece piece;
		const struct way *way;
	} slot[48] = {{.way = NULL}};
	uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;

	ok(g.cuCtxSetCurrent(g.context));
	for (int step = 0; step < 600; step++) {
		unsigned i;
		CUresult r;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		i = (unsigned)(random % ARRAY_SIZE(slot));
		if (slot[i].way) {
			slot[i].way->give(&slot[i].piece);
			slot[i].way = NULL;
			continue;
		}
		/* Not graphs, which are last: the simulator's context fails when others trim. */
		slot[i].way = &ways[random / 64 % (ARRAY_SIZE(ways) - 1)];
		slot[i].piece.bytes = random / 4096 % 8 ? 1 + random / 65536 % (256 << 10)
							: 1 + random / 65536 % (24 << 20);
		r = slot[i].way->obtain(&slot[i].piece);
		if (r == CUDA_SUCCESS)
			continue;
		if (r != CUDA_ERROR_OUT_OF_MEMORY)
			fail("%s answers %d", slot[i].way->name, (int)r);
		slot[i].way = NULL;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(slot); i++)
		if (slot[i].way)
			slot[i].way->give(&slot[i].piece);
	return NULL;
}

static atomic_int mixed;

static void *watch(void *argument)
{
	ok(g.cuCtxSetCurrent(g.context));
	while (!atomic_load(&mixed))
		check_limit("in the mix");
	return argument;
}

static void mixing(unsigned threads)
{
	pthread_t thread[16], watcher;

	pthread_create(&watcher, NULL, watch, NULL);
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, mix_thread, (void *)(i + 1)))
			fail("no thread");
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&mixed, 1);
	pthread_join(watcher, NULL);
	settle();
	all_free("the mix");
}

/* Contexts come and go while memory does. */
static void *making_thread(void *argument)
{
	struct piece piece[8];
	CUcontext own;
	CUresult r;

	while (!atomic_load(&mixed)) {
		unsigned count = 0;

		r = g.cuCtxCreate_v2(&own, 0, g.device);
		if (r == CUDA_ERROR_OUT_OF_MEMORY)
			ok(g.cuCtxSetCurrent(g.context));
		else
			ok(r);
		for (unsigned i = 0; i < ARRAY_SIZE(piece); i++) {
			piece[count].bytes = i % 2 ? 700 << 10 : 5 * MIB;
			if (take_linear(&piece[count]) == CUDA_SUCCESS)
				count++;
		}
		while (count > 0)
			give_linear(&piece[--count]);
		if (r == CUDA_SUCCESS)
			ok(g.cuCtxDestroy_v2(own));
	}
	return argument;
}

/* Until there is a line. */
static void making(unsigned threads)
{
	pthread_t thread[16];

	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, making_thread, NULL))
			fail("no thread");
	best_effort(getchar());
	atomic_store(&mixed, 1);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	all_free("the contexts");
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* What a context held goes with it. */
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
 * move under what is compared with them. Whoever loads a module is answered after a measurement. */
static void measured(size_t *ret_total)
{
	CUmodule module;

	ok(g.cuModuleLoadData(&module, nothing));
	do {
		usleep(1000);
		ok(g.cuMemGetInfo_v2(&g.free_at_start, ret_total));
	} while (g.free_at_start != g.limit - held());
}

static void hold(void)
{
	pieces[0].bytes = 40 * MIB;
	ok(take_linear(&pieces[0]));
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
		fprintf(stderr,
			"usage: memory_load DRIVER WAY|race N|mix N|making N|contexts|hold\n");
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
		hold();
	} else if (strcmp(argv[2], "contexts") == 0) {
		contexts();
	} else if (strcmp(argv[2], "hold") == 0) {
		hold();
	} else {
		one_way(argv[2]);
	}
	return 0;
}
