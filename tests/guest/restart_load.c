/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for tests/guest/test_guest_restarts.py: many threads on several devices allocate and
 * free, make contexts and destroy them, while the management library is polled and somebody kills
 * their daemon again and again.
 *
 *	restart_load BOOK DEVICES THREADS SEED
 *	restart_load watch BOOK DEVICES      another process, without mete: the driver's figures
 *
 * BOOK is a file that the test maps, too: struct book.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "tests/guest/must.h"

enum {
	PIECES = 6,
	MOST_THREADS = 64,
	MOST_DEVICES = 16,
	BOOK_BYTES = 4096,
};

/* As the test reads it. */
struct book {
	atomic_uint rest;    /* the test's: everybody is to rest */
	atomic_uint resting; /* threads */
	atomic_ulong polls;  /* of the management library */
	atomic_ulong looks;  /* of the watcher */
	atomic_ulong longest_ms;
	atomic_ulong most_bytes[MOST_DEVICES]; /* that a device ever had in use */
	atomic_ulong operations[MOST_THREADS];
	atomic_ulong contexts[MOST_DEVICES]; /* that there are */
};
_Static_assert(sizeof(struct book) <= BOOK_BYTES, "one page");

#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxDestroy_v2)                                                                         \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemFree_v2)                                                                            \
	X(cuMemGetInfo_v2)

static struct {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	struct book *book;
	uint64_t seed;
	unsigned devices;
} g;

struct thread {
	uint64_t random;
	unsigned number;
	CUcontext context;
	CUdeviceptr piece[PIECES];
};

static uint64_t random_of(struct thread *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void raise_to(atomic_ulong *place, unsigned long value)
{
	unsigned long is = atomic_load(place);

	while (is < value && !atomic_compare_exchange_weak(place, &is, value)) {
	}
}

/* True: there it is. */
static bool obtained(CUresult r)
{
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
		fail("an allocation answers %d", (int)r);
	return r == CUDA_SUCCESS;
}

static void drop_context(struct thread *t)
{
	atomic_fetch_sub(&g.book->contexts[t->number % g.devices], 1);
	ok(g.cuCtxDestroy_v2(t->context)); /* and what is in it */
	t->context = NULL;
	memset(t->piece, 0, sizeof(t->piece));
}

static void step(struct thread *t)
{
	uint64_t random = random_of(t);
	CUdeviceptr *p = &t->piece[random % PIECES];
	size_t bytes;

	if (!t->context) {
		if (!obtained(g.cuCtxCreate_v2(&t->context, 0, (int)(t->number % g.devices))))
			t->context = NULL;
		else
			atomic_fetch_add(&g.book->contexts[t->number % g.devices], 1);
	} else if (random / 64 % 64 == 0) {
		drop_context(t);
	} else if (random / 64 % 8 == 1) {
		ok(g.cuMemGetInfo_v2(&bytes, &(size_t){0}));
	} else if (*p) {
		ok(g.cuMemFree_v2(*p));
		*p = 0;
	} else {
		bytes = random / 4096 % 4 ? 1 + random / 65536 % (600 << 10)
					  : 1 + random / 65536 % (180 << 20);
		if (!obtained(g.cuMemAlloc_v2(p, bytes)))
			*p = 0;
	}
}

static void *work(void *argument)
{
	struct thread t = {.number = (unsigned)(uintptr_t)argument};
	uint64_t before;

	t.random = g.seed + t.number * 0x9e3779b97f4a7c15u;
	for (;;) {
		if (atomic_load(&g.book->rest)) {
			atomic_fetch_add(&g.book->resting, 1);
			while (atomic_load(&g.book->rest))
				usleep(500);
			atomic_fetch_sub(&g.book->resting, 1);
		}
		before = now_ms();
		step(&t);
		raise_to(&g.book->longest_ms, now_ms() - before);
		atomic_fetch_add(&g.book->operations[t.number], 1);
	}
	return NULL;
}

struct nvml {
	int (*init)(void);
	int (*device)(unsigned index, void **ret_device);
	int (*memory)(void *device, unsigned long long ret_amounts[3]); /* total, free, used */
	void *handle[MOST_DEVICES];
};

static void open_nvml(struct nvml *nvml)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	if (!library)
		fail("%s", dlerror());
	nvml->init = (int (*)(void))dlsym(library, "nvmlInit_v2");
	nvml->device = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	nvml->memory =
		(int (*)(void *, unsigned long long *))dlsym(library, "nvmlDeviceGetMemoryInfo");
	if (nvml->init() != 0)
		fail("nvmlInit");
	for (unsigned i = 0; i < g.devices; i++)
		if (nvml->device(i, &nvml->handle[i]) != 0)
			fail("no device %u", i);
}

/* As monitors in a program do it. */
static void *poll_nvml(void *argument)
{
	unsigned long long amounts[3];
	struct nvml nvml;
	uint64_t before;

	open_nvml(&nvml);
	for (unsigned i = 0;; i = (i + 1) % g.devices) {
		before = now_ms();
		if (nvml.memory(nvml.handle[i], amounts) == 0 && amounts[2] > amounts[0])
			fail("%llu of %llu bytes are in use", amounts[2], amounts[0]);
		raise_to(&g.book->longest_ms, now_ms() - before);
		atomic_fetch_add(&g.book->polls, 1);
	}
	return argument;
}

static void noreturn_ watch(void)
{
	unsigned long long amounts[3];
	struct nvml nvml;

	open_nvml(&nvml);
	for (;;) {
		for (unsigned i = 0; i < g.devices; i++) {
			if (nvml.memory(nvml.handle[i], amounts) != 0)
				fail("no memory info of %u", i);
			raise_to(&g.book->most_bytes[i], amounts[2]);
		}
		atomic_fetch_add(&g.book->looks, 1);
	}
}

static void open_book(const char *path)
{
	owned(close) int fd = open(path, O_RDWR | O_CLOEXEC);

	g.book = mmap(NULL, BOOK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (g.book == MAP_FAILED)
		fail("no book at %s", path);
}

static void load(void)
{
	void *guest = dlopen("libcuda.so.1", RTLD_NOW);

	if (!guest)
		fail("%s", dlerror());
#define LOAD(symbol) g.symbol = (api_fn_##symbol *)dlsym(guest, #symbol);
	FUNCTIONS(LOAD)
#undef LOAD
	ok(g.cuInit(0));
}

int main(int argc, char **argv)
{
	bool watches = argc == 4 && strcmp(argv[1], "watch") == 0;
	unsigned threads;
	pthread_t thread;

	if (argc != 5 && !watches) {
		fprintf(stderr, "usage: restart_load BOOK DEVICES THREADS SEED\n");
		return 2;
	}
	open_book(argv[watches ? 2 : 1]);
	g.devices = (unsigned)atoi(argv[watches ? 3 : 2]);
	if (g.devices < 1 || g.devices > MOST_DEVICES)
		fail("%u devices", g.devices);
	if (watches)
		watch();
	threads = (unsigned)atoi(argv[3]);
	g.seed = strtoull(argv[4], NULL, 10) * 2 + 1;
	if (threads < 1 || threads > MOST_THREADS)
		fail("%u threads", threads);
	load();
	for (uintptr_t i = 0; i <= threads; i++)
		if (pthread_create(&thread, NULL, i < threads ? work : poll_nvml, (void *)i))
			fail("no thread");
	pause();
	return 0;
}
