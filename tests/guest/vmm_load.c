/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that maps its memory itself, for tests/guest/test_guest_movable_vmm.py, which tells it
 * line by line what to do; each is answered by a line, mostly the driver's result. P is a piece of
 * memory, R a reservation, M a mapping: numbers below MOST.
 *
 *	reserve R BYTES         create P BYTES [KIND]           release P       properties P
 *	map M R OFFSET P [BYTES]        access M FLAGS          unmap M
 *	unmap-range R OFFSET BYTES      access-range R OFFSET BYTES FLAGS       access-of M
 *	free-range R            retain P M      export P        import P        map-others M FLAGS
 *	fill M SEED             check M SEED    look M OFFSET   ipc M           sync-memops M
 *	alloc M BYTES           open PATH       context         end-context
 *	capture                 end-capture     fork            segments COUNT THREADS SEED
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cuda/prototypes.h"
#include "tests/guest/must.h"

#define MIB (1ull << 20)

enum {
	MOST = 64,
	EXPORTABLE = 1,
	RDMA = 2,
	TILES = 4,
	THREADS = 4,
	SEGMENTS = 12,
	SEGMENT_BYTES = 2 << 20,
};

#define EACH(F)                                                                                    \
	F(cuInit)                                                                                  \
	F(cuCtxCreate_v2)                                                                          \
	F(cuCtxDestroy_v2)                                                                         \
	F(cuCtxSetCurrent)                                                                         \
	F(cuCtxSynchronize)                                                                        \
	F(cuMemAlloc_v2)                                                                           \
	F(cuMemcpyHtoD_v2)                                                                         \
	F(cuMemcpyDtoH_v2)                                                                         \
	F(cuMemGetAddressRange_v2)                                                                 \
	F(cuMemAddressReserve)                                                                     \
	F(cuMemAddressFree)                                                                        \
	F(cuMemCreate)                                                                             \
	F(cuMemRelease)                                                                            \
	F(cuMemMap)                                                                                \
	F(cuMemUnmap)                                                                              \
	F(cuMemSetAccess)                                                                          \
	F(cuMemGetAccess)                                                                          \
	F(cuMemRetainAllocationHandle)                                                             \
	F(cuMemExportToShareableHandle)                                                            \
	F(cuMemImportFromShareableHandle)                                                          \
	F(cuMemGetAllocationPropertiesFromHandle)                                                  \
	F(cuIpcGetMemHandle)                                                                       \
	F(cuPointerGetAttribute)                                                                   \
	F(cuPointerSetAttribute)                                                                   \
	F(cuStreamCreate)                                                                          \
	F(cuStreamBeginCapture_v2)                                                                 \
	F(cuStreamEndCapture)

static struct {
#define F(name) __typeof__(&name) name;
	EACH(F)
#undef F
	CUcontext context;
	CUstream stream;
	CUmemGenericAllocationHandle piece[MOST];
	size_t piece_bytes[MOST];
	CUdeviceptr range[MOST], at[MOST];
	size_t range_bytes[MOST], bytes[MOST];
	int descriptor;
} g;

static void load(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver)
		fail("%s", dlerror());
#define F(name)                                                                                    \
	g.name = (__typeof__(&name))dlsym(driver, #name);                                          \
	if (!g.name)                                                                               \
		fail("no %s", #name);
	EACH(F)
#undef F
}

/* ---- contents -------------------------------------------------------------------------------- */

static uint64_t *pattern(size_t bytes, uint64_t seed)
{
	uint64_t *words = malloc(bytes), x;

	if (!words)
		fail("no memory");
	for (size_t i = 0; i < bytes / 8; i++) {
		x = seed * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9;
		words[i] = x ^ x >> 31;
	}
	return words;
}

static void fill(CUdeviceptr at, size_t bytes, uint64_t seed)
{
	uint64_t *content = pattern(bytes, seed);

	ok(g.cuMemcpyHtoD_v2(at, content, bytes));
	free(content);
}

static bool is_filled(CUdeviceptr at, size_t bytes, uint64_t seed)
{
	uint64_t *content = pattern(bytes, seed), *found = malloc(bytes);
	bool same;

	if (!found)
		fail("no memory");
	ok(g.cuMemcpyDtoH_v2(found, at, bytes));
	same = memcmp(content, found, bytes) == 0;
	free(content);
	free(found);
	return same;
}

/* ---- one call each --------------------------------------------------------------------------- */

static CUmemAllocationProp about(uint64_t kind)
{
	CUmemAllocationProp about = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

	if (kind & EXPORTABLE)
		about.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	about.allocFlags.gpuDirectRDMACapable = (kind & RDMA) != 0;
	if (kind & TILES)
		about.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	return about;
}

static CUresult allow(CUdeviceptr at, size_t bytes, uint64_t flags)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, (CUmemAccess_flags)flags};

	return g.cuMemSetAccess(at, bytes, &access, 1);
}

/* Addresses are told as seen from the beginning of the mapping. */
static void look(CUdeviceptr origin, uint64_t offset)
{
	unsigned type = 9, access = 9;
	uint64_t start = 0, size = 0, id = 0, map = 0, map_size = 0;
	CUdeviceptr base = 0, at = origin + offset;
	CUcontext context = g.context;
	uint8_t mapped = 9, managed = 9;
	int ordinal = -1;
	size_t bytes = 0;

	ok(g.cuMemGetAddressRange_v2(&base, &bytes, at));
	ok(g.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
	ok(g.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	ok(g.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
	ok(g.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
	ok(g.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
	ok(g.cuPointerGetAttribute(&map, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at));
	ok(g.cuPointerGetAttribute(&map_size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at));
	ok(g.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ok(g.cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, at));
	ok(g.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
	ok(g.cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at));
	printf("base=%" PRId64 " bytes=%zu context=%d type=%u ordinal=%d start=%" PRId64
	       " size=%" PRIu64 " map=%" PRId64 " map_size=%" PRIu64
	       " mapped=%u managed=%u access=%u id=%" PRIu64 "\n",
	       (int64_t)(base - origin), bytes, context != NULL, type, ordinal,
	       (int64_t)(start - origin), size, (int64_t)(map - origin), map_size, mapped, managed,
	       access, id);
}

static void properties(int p)
{
	CUmemAllocationProp said = {0};
	CUresult r = g.cuMemGetAllocationPropertiesFromHandle(&said, g.piece[p]);

	printf("%d type=%d handles=%d location=%d:%d\n", (int)r, (int)said.type,
	       (int)said.requestedHandleTypes, (int)said.location.type, said.location.id);
}

static CUresult map(int m, int r, uint64_t offset, int p, uint64_t bytes)
{
	g.at[m] = g.range[r] + offset;
	g.bytes[m] = bytes ? bytes : g.piece_bytes[p];
	return g.cuMemMap(g.at[m], g.bytes[m], 0, g.piece[p], 0);
}

static CUresult access_of(int m, unsigned long long *ret_flags)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

	return g.cuMemGetAccess(ret_flags, &here, g.at[m]);
}

/* The handle's number once more, of the memory that is mapped there. */
static void retain(int p, int m)
{
	CUmemGenericAllocationHandle handle = 0;
	CUresult r = g.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)g.at[m]);

	printf("%d %s\n", (int)r, handle == g.piece[p] ? "same" : "other");
	g.piece[p] = handle;
	g.piece_bytes[p] = g.bytes[m];
}

static void fork_once(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = about(0);
	int status;
	pid_t child = fork();

	if (child == 0)
		/* CUDA does not live on in a child; nothing may hang, or touch the parent's. */
		_exit(g.cuMemCreate(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS ||
		      g.cuMemUnmap(g.at[0], g.bytes[0]) == CUDA_SUCCESS);
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("the child ended with %x", (unsigned)status);
	printf("forked\n");
}

static void capture(bool begins)
{
	CUgraph graph;

	if (begins && !g.stream)
		ok(g.cuStreamCreate(&g.stream, CU_STREAM_NON_BLOCKING));
	if (begins)
		ok(g.cuStreamBeginCapture_v2(g.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	else
		ok(g.cuStreamEndCapture(g.stream, &graph));
	printf("captures\n");
}

/* ---- as PyTorch's expandable segments -------------------------------------------------------- */

/* A large reservation, in which pieces of one size are mapped at their places, and given back from
 * anywhere in it; the handles are kept. */
struct segments {
	pthread_t thread;
	CUdeviceptr base;
	CUmemGenericAllocationHandle handle[SEGMENTS];
	uint64_t seed[SEGMENTS]; /* 0: not mapped */
	uint64_t random, made;
	uint64_t steps;
};

static unsigned draw(struct segments *s, unsigned below)
{
	s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(s->random >> 33) % below;
}

/* Maps what is missing of the first `count` from `first` on, and opens all of it at once. */
static void grow(struct segments *s, unsigned first, unsigned count)
{
	CUmemAllocationProp prop = about(draw(s, 2) ? EXPORTABLE : 0);

	for (unsigned i = first; i < first + count; i++) {
		if (s->seed[i])
			continue;
		ok(g.cuMemCreate(&s->handle[i], SEGMENT_BYTES, &prop, 0));
		ok(g.cuMemMap(s->base + (uint64_t)i * SEGMENT_BYTES, SEGMENT_BYTES, 0, s->handle[i],
			      0));
	}
	ok(allow(s->base + (uint64_t)first * SEGMENT_BYTES, (size_t)count * SEGMENT_BYTES,
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	for (unsigned i = first; i < first + count; i++)
		if (!s->seed[i]) {
			s->seed[i] = ++s->made + s->random % 1000 * 1000;
			fill(s->base + (uint64_t)i * SEGMENT_BYTES, SEGMENT_BYTES, s->seed[i]);
		}
}

static void check(const struct segments *s, unsigned i)
{
	if (!is_filled(s->base + (uint64_t)i * SEGMENT_BYTES, SEGMENT_BYTES, s->seed[i]))
		fail("piece %u is not what it was", i);
}

static void shrink(struct segments *s, unsigned i)
{
	check(s, i);
	ok(g.cuMemUnmap(s->base + (uint64_t)i * SEGMENT_BYTES, SEGMENT_BYTES));
	ok(g.cuMemRelease(s->handle[i]));
	s->seed[i] = 0;
}

/* The piece goes elsewhere, with its content. */
static void remap(struct segments *s, unsigned from, unsigned to)
{
	ok(g.cuMemUnmap(s->base + (uint64_t)from * SEGMENT_BYTES, SEGMENT_BYTES));
	ok(g.cuMemMap(s->base + (uint64_t)to * SEGMENT_BYTES, SEGMENT_BYTES, 0, s->handle[from],
		      0));
	ok(allow(s->base + (uint64_t)to * SEGMENT_BYTES, SEGMENT_BYTES,
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	s->handle[to] = s->handle[from];
	s->seed[to] = s->seed[from];
	s->seed[from] = 0;
}

static void segments_step(struct segments *s)
{
	unsigned i = draw(s, SEGMENTS), j = draw(s, SEGMENTS);

	if (!s->seed[i])
		grow(s, i, 1 + draw(s, SEGMENTS - i < 3 ? SEGMENTS - i : 3));
	else if (!s->seed[j])
		remap(s, i, j);
	else if (draw(s, 3))
		check(s, i);
	else
		shrink(s, i);
}

static void *segments_run(void *argument)
{
	struct segments *s = argument;

	ok(g.cuCtxSetCurrent(g.context));
	ok(g.cuMemAddressReserve(&s->base, (size_t)SEGMENTS * SEGMENT_BYTES, 0, 0, 0));
	for (uint64_t i = 0; i < s->steps; i++)
		segments_step(s);
	for (unsigned i = 0; i < SEGMENTS; i++)
		if (s->seed[i])
			shrink(s, i);
	ok(g.cuMemAddressFree(s->base, (size_t)SEGMENTS * SEGMENT_BYTES));
	return NULL;
}

static void segments(uint64_t steps, int threads, uint64_t seed)
{
	static struct segments s[THREADS];

	for (int i = 0; i < threads; i++) {
		s[i] = (struct segments){.random = seed + (uint64_t)i, .steps = steps};
		if (pthread_create(&s[i].thread, NULL, segments_run, &s[i]) != 0)
			fail("no thread");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(s[i].thread, NULL);
	printf("same\n");
}

/* ---- the lines ------------------------------------------------------------------------------- */

struct line {
	char verb[32];
	int i;
	uint64_t a, b, c, d;
};

static bool obey_memory(const struct line *l)
{
	CUmemAllocationProp prop = about(l->b);
	int i = l->i;

	if (!strcmp(l->verb, "reserve")) {
		g.range_bytes[i] = l->a;
		printf("%d\n", (int)g.cuMemAddressReserve(&g.range[i], l->a, 0, 0, 0));
	} else if (!strcmp(l->verb, "create")) {
		g.piece_bytes[i] = l->a;
		printf("%d\n", (int)g.cuMemCreate(&g.piece[i], l->a, &prop, 0));
	} else if (!strcmp(l->verb, "release")) {
		printf("%d\n", (int)g.cuMemRelease(g.piece[i]));
	} else if (!strcmp(l->verb, "properties")) {
		properties(i);
	} else if (!strcmp(l->verb, "free-range")) {
		printf("%d\n", (int)g.cuMemAddressFree(g.range[i], g.range_bytes[i]));
	} else if (!strcmp(l->verb, "retain")) {
		retain(i, (int)l->a);
	} else if (!strcmp(l->verb, "export")) {
		printf("%d\n", (int)g.cuMemExportToShareableHandle(
				       &g.descriptor, g.piece[i],
				       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	} else if (!strcmp(l->verb, "import")) {
		printf("%d\n", (int)g.cuMemImportFromShareableHandle(
				       &g.piece[i], (void *)(intptr_t)g.descriptor,
				       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	} else if (!strcmp(l->verb, "alloc")) {
		g.bytes[i] = l->a;
		printf("%d\n", (int)g.cuMemAlloc_v2(&g.at[i], l->a));
	} else {
		return false;
	}
	return true;
}

static bool obey_mapping(const struct line *l)
{
	unsigned long long flags = 99;
	int i = l->i, one = 1;
	CUresult r;

	if (!strcmp(l->verb, "map")) {
		printf("%d\n", (int)map(i, (int)l->a, l->b, (int)l->c, l->d));
	} else if (!strcmp(l->verb, "access")) {
		printf("%d\n", (int)allow(g.at[i], g.bytes[i], l->a));
	} else if (!strcmp(l->verb, "access-range")) {
		printf("%d\n", (int)allow(g.range[i] + l->a, l->b, l->c));
	} else if (!strcmp(l->verb, "access-of")) {
		r = access_of(i, &flags);
		printf("%d %llu\n", (int)r, flags);
	} else if (!strcmp(l->verb, "unmap")) {
		printf("%d\n", (int)g.cuMemUnmap(g.at[i], g.bytes[i]));
	} else if (!strcmp(l->verb, "unmap-range")) {
		printf("%d\n", (int)g.cuMemUnmap(g.range[i] + l->a, l->b));
	} else if (!strcmp(l->verb, "sync-memops")) {
		printf("%d\n", (int)g.cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
							    g.at[i]));
	} else {
		return false;
	}
	return true;
}

static bool obey_content(const struct line *l)
{
	CUipcMemHandle handle;
	int i = l->i;

	if (!strcmp(l->verb, "fill")) {
		fill(g.at[i], g.bytes[i], l->a);
		printf("filled\n");
	} else if (!strcmp(l->verb, "check")) {
		printf("%s\n", is_filled(g.at[i], g.bytes[i], l->a) ? "same" : "different");
	} else if (!strcmp(l->verb, "look")) {
		look(g.at[i], l->a);
	} else if (!strcmp(l->verb, "ipc")) {
		printf("%d\n", (int)g.cuIpcGetMemHandle(&handle, g.at[i]));
	} else if (!strcmp(l->verb, "segments")) {
		segments((uint64_t)i, (int)l->a, l->b);
	} else {
		return false;
	}
	return true;
}

static void obey_process(const char *text, const struct line *l)
{
	char path[200];

	if (!strcmp(l->verb, "context")) {
		ok(g.cuCtxCreate_v2(&g.context, 0, 0));
		printf("context\n");
	} else if (!strcmp(l->verb, "end-context")) {
		ok(g.cuCtxDestroy_v2(g.context));
		printf("ended\n");
	} else if (!strcmp(l->verb, "capture") || !strcmp(l->verb, "end-capture")) {
		capture(l->verb[0] == 'c');
	} else if (!strcmp(l->verb, "fork")) {
		fork_once();
	} else if (sscanf(text, "open %199s", path) == 1) {
		printf("%d\n", open(path, O_RDONLY | O_CLOEXEC) >= 0);
	} else {
		fail("what is %s?", l->verb);
	}
}

int main(void)
{
	char text[256];

	load();
	ok(g.cuInit(0));
	setvbuf(stdout, NULL, _IOLBF, 0);
	ok(g.cuCtxCreate_v2(&g.context, 0, 0));
	printf("context\n");
	while (fgets(text, sizeof(text), stdin)) {
		struct line l = {.i = 0};

		if (sscanf(text, "%31s %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, l.verb,
			   &l.i, &l.a, &l.b, &l.c, &l.d) < 1)
			continue;
		if (!obey_memory(&l) && !obey_mapping(&l) && !obey_content(&l))
			obey_process(text, &l);
	}
	return 0;
}
