/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for tests/guest/test_guest_movable.py, which tells it line by line what to do; each is
 * answered by a line. I is a number below MOST, SEED says what is written.
 *
 *	alloc I BYTES	pitch I WIDTH HEIGHT	free I		free-async I
 *	fill I SEED	check I SEED		look I [OFFSET]	touch I		ipc I
 *	map FILE (into the process, as a library is)
 *	lend I (answers a handle)		borrow I HANDLE BYTES		return I
 *	range I (where its allocation begins, from I, and its size)
 *	context (a new one instead)		capture		end-capture
 *	info (how much is free)
 *	fork		jump (out of a copy that waits at the gate)		storm N
 *	interrupted I SIZE (the allocation is left when SIGALRM comes)
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "cuda/prototypes.h"
#include "tests/guest/must.h"

enum { MOST = 64 };

#define EACH(F)                                                                                    \
	F(cuInit)                                                                                  \
	F(cuCtxCreate_v2)                                                                          \
	F(cuCtxDestroy_v2)                                                                         \
	F(cuMemAlloc_v2)                                                                           \
	F(cuMemAllocPitch_v2)                                                                      \
	F(cuMemFree_v2)                                                                            \
	F(cuMemFreeAsync)                                                                          \
	F(cuMemcpyHtoD_v2)                                                                         \
	F(cuMemcpyDtoH_v2)                                                                         \
	F(cuMemGetInfo_v2)                                                                         \
	F(cuMemGetAddressRange_v2)                                                                 \
	F(cuMemAdvise)                                                                             \
	F(cuIpcCloseMemHandle)                                                                     \
	F(cuIpcGetMemHandle)                                                                       \
	F(cuIpcOpenMemHandle_v2)                                                                   \
	F(cuPointerGetAttribute)                                                                   \
	F(cuPointerGetAttributes)                                                                  \
	F(cuStreamCreate)                                                                          \
	F(cuStreamBeginCapture_v2)                                                                 \
	F(cuStreamEndCapture)

static struct {
#define F(name) __typeof__(&name) name;
	EACH(F)
#undef F
	CUcontext context;
	CUstream stream;
	CUdeviceptr at[MOST];
	size_t bytes[MOST];
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

static uint64_t word(uint64_t seed, uint64_t i)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9;

	return x ^ x >> 31;
}

static uint8_t *pattern(size_t bytes, uint64_t seed)
{
	uint64_t *words = calloc(bytes / 8 + 1, 8);

	for (size_t i = 0; words && i < bytes / 8 + 1; i++)
		words[i] = word(seed, i);
	if (!words)
		fail("no memory");
	return (uint8_t *)words;
}

static void fill(int i, uint64_t seed)
{
	uint8_t *content = pattern(g.bytes[i], seed);

	ok(g.cuMemcpyHtoD_v2(g.at[i], content, g.bytes[i]));
	free(content);
	printf("filled\n");
}

static bool is_filled(int i, uint64_t seed)
{
	uint8_t *content = pattern(g.bytes[i], seed), *found = malloc(g.bytes[i]);
	bool same;

	ok(g.cuMemcpyDtoH_v2(found, g.at[i], g.bytes[i]));
	same = memcmp(content, found, g.bytes[i]) == 0;
	free(content);
	free(found);
	return same;
}

static void look(int i, size_t offset)
{
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_RANGE_SIZE,
				       CU_POINTER_ATTRIBUTE_HOST_POINTER};
	unsigned type = 0, access = 0;
	uint64_t start = 0, size = 0, id = 0, seen = 0;
	CUdeviceptr base = 0, at = g.at[i] + offset;
	CUcontext context = NULL;
	uint8_t mapped = 9, managed = 9, ipc = 9;
	int ordinal = -1;
	void *host = &base, *data[] = {&ordinal, &seen, &host};
	size_t bytes = 0;

	ok(g.cuMemGetAddressRange_v2(&base, &bytes, at));
	ok(g.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
	ok(g.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	ok(g.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
	ok(g.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
	ok(g.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ok(g.cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, at));
	ok(g.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
	ok(g.cuPointerGetAttribute(&ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at));
	ok(g.cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at));
	ok(g.cuPointerGetAttributes(3, which, data, at));
	if (g.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at) !=
	    CUDA_ERROR_INVALID_VALUE)
		fail("the host has a pointer to it");
	printf("base=%d bytes=%zu context=%d type=%u start=%d size=%" PRIu64 " id=%" PRIu64
	       " mapped=%u managed=%u ipc=%u access=%u ordinal=%d seen=%" PRIu64 " host=%d\n",
	       base == g.at[i], bytes, context == g.context, type, start == g.at[i], size, id,
	       mapped, managed, ipc, access, ordinal, seen, host != NULL);
}

static sigjmp_buf out;

static void jump(int number)
{
	(void)number;
	siglongjmp(out, 1);
}

/* The gate is closed. */
static void jump_out(void)
{
	struct itimerval soon = {.it_value = {.tv_usec = 20000}};
	uint64_t nothing;

	signal(SIGALRM, jump);
	if (sigsetjmp(out, 1) == 0) {
		setitimer(ITIMER_REAL, &soon, NULL);
		ok(g.cuMemcpyDtoH_v2(&nothing, g.at[0], sizeof(nothing)));
		fail("the gate was open");
	}
	signal(SIGALRM, SIG_DFL);
	printf("jumped\n");
}

/* SIGALRM comes while it is under way. */
static void interrupted(uint64_t size)
{
	CUdeviceptr at;

	signal(SIGALRM, jump);
	if (sigsetjmp(out, 1) == 0) {
		g.cuMemAlloc_v2(&at, size);
		fail("nothing came");
	}
	signal(SIGALRM, SIG_DFL);
	printf("jumped\n");
}

static void fork_once(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		CUdeviceptr at = 0;

		/* CUDA does not live on in a child; nothing may hang, or touch the parent's. */
		_exit(g.cuMemAlloc_v2(&at, 1 << 20) == CUDA_SUCCESS);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("the child ended with %x", (unsigned)status);
	printf("forked\n");
}

/* Allocates and frees, in a random order. */
static void storm(int count)
{
	static CUdeviceptr at[MOST];
	uint64_t random = 1;

	memset(at, 0, sizeof(at));
	for (int i = 0; i < count; i++) {
		unsigned which;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		which = (unsigned)(random >> 33) % MOST;
		if (at[which]) {
			ok(g.cuMemFree_v2(at[which]));
			at[which] = 0;
		} else {
			ok(g.cuMemAlloc_v2(&at[which], 1 + (random >> 40) % (5 << 20)));
		}
	}
	for (int i = 0; i < MOST; i++)
		if (at[i])
			ok(g.cuMemFree_v2(at[i]));
	printf("stormed\n");
}

static void context(void)
{
	if (g.context)
		ok(g.cuCtxDestroy_v2(g.context));
	ok(g.cuCtxCreate_v2(&g.context, 0, 0));
	printf("context\n");
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

/* A handle as 128 digits. */
static void lend(int i)
{
	CUipcMemHandle handle;

	ok(g.cuIpcGetMemHandle(&handle, g.at[i]));
	for (size_t b = 0; b < sizeof(handle); b++)
		printf("%02x", ((uint8_t *)&handle)[b]);
	printf("\n");
}

static void borrow(int i, const char *digits, size_t bytes)
{
	CUipcMemHandle handle;

	for (size_t b = 0; b < sizeof(handle); b++)
		if (sscanf(digits + 2 * b, "%2hhx", (uint8_t *)&handle + b) != 1)
			fail("no handle: %s", digits);
	g.bytes[i] = bytes;
	printf("%d\n", (int)g.cuIpcOpenMemHandle_v2(&g.at[i], handle, 1));
}

static void map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		fail("%s cannot be mapped", path);
	printf("mapped\n");
}

static void range(int i)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;

	ok(g.cuMemGetAddressRange_v2(&base, &bytes, g.at[i] + 1));
	printf("%d %zu\n", (int)(base - g.at[i]), bytes);
}

static void info(void)
{
	size_t available, total;

	ok(g.cuMemGetInfo_v2(&available, &total));
	printf("%zu\n", available);
}

static void allocated(int i, CUresult r, size_t bytes)
{
	g.bytes[i] = r == CUDA_SUCCESS ? bytes : 0;
	printf("%d\n", (int)r);
}

static void obey(const char *verb, int i, uint64_t a, uint64_t b)
{
	CUipcMemHandle handle;
	size_t pitch = 0;

	if (!strcmp(verb, "alloc")) {
		allocated(i, g.cuMemAlloc_v2(&g.at[i], a), a);
	} else if (!strcmp(verb, "pitch")) {
		CUresult r = g.cuMemAllocPitch_v2(&g.at[i], &pitch, a, b, 4);

		allocated(i, pitch % 512 ? CUDA_ERROR_UNKNOWN : r, pitch * b);
	} else if (!strcmp(verb, "free")) {
		printf("%d\n", (int)g.cuMemFree_v2(g.at[i]));
	} else if (!strcmp(verb, "free-async")) {
		printf("%d\n", (int)g.cuMemFreeAsync(g.at[i], NULL));
	} else if (!strcmp(verb, "fill")) {
		fill(i, a);
	} else if (!strcmp(verb, "check")) {
		printf("%s\n", is_filled(i, a) ? "same" : "different");
	} else if (!strcmp(verb, "look")) {
		look(i, a);
	} else if (!strcmp(verb, "touch")) {
		printf("%d\n", (int)g.cuMemAdvise(g.at[i], g.bytes[i], 1, 0) != 0);
	} else if (!strcmp(verb, "ipc")) {
		printf("%d\n", (int)g.cuIpcGetMemHandle(&handle, g.at[i]));
	} else if (!strcmp(verb, "lend")) {
		lend(i);
	} else if (!strcmp(verb, "return")) {
		printf("%d\n", (int)g.cuIpcCloseMemHandle(g.at[i]));
	} else if (!strcmp(verb, "range")) {
		range(i);
	} else if (!strcmp(verb, "info")) {
		info();
	} else if (!strcmp(verb, "context")) {
		context();
	} else if (!strcmp(verb, "capture")) {
		capture(true);
	} else if (!strcmp(verb, "end-capture")) {
		capture(false);
	} else if (!strcmp(verb, "fork")) {
		fork_once();
	} else if (!strcmp(verb, "jump")) {
		jump_out();
	} else if (!strcmp(verb, "interrupted")) {
		interrupted(a);
	} else if (!strcmp(verb, "storm")) {
		storm(i);
	} else {
		fail("what is %s?", verb);
	}
}

int main(void)
{
	char line[256], verb[32], text[129];

	load();
	ok(g.cuInit(0));
	setvbuf(stdout, NULL, _IOLBF, 0);
	context();
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t a = 0, b = 0;
		int i = 0;

		if (sscanf(line, "map %128s", text) == 1)
			map(text);
		else if (sscanf(line, "borrow %d %128s %" SCNu64, &i, text, &a) == 3)
			borrow(i, text, a);
		else if (sscanf(line, "%31s %d %" SCNu64 " %" SCNu64, verb, &i, &a, &b) >= 1)
			obey(verb, i, a, b);
	}
	return 0;
}
