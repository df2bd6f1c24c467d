/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for tests/guest/test_guest_kill.py: threads that allocate and free, make contexts and
 * destroy them, with and without what is in them, at random until the process is killed.
 *
 *	kill_load BOOK SLOT THREADS SEED
 *
 * BOOK is a file that the test maps, too: a word with which it lets everybody rest, then a slot for
 * each process, where it states what it has done, and what the book should have of it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "tests/guest/must.h"

enum {
	PIECES = 8,
	BOOK_BYTES = 4096,
};

#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxDestroy_v2)                                                                         \
	X(cuCtxSynchronize)                                                                        \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemFree_v2)                                                                            \
	X(cuMemCreate)                                                                             \
	X(cuMemRelease)                                                                            \
	X(cuMemAddressReserve)                                                                     \
	X(cuMemAddressFree)                                                                        \
	X(cuMemMap)                                                                                \
	X(cuMemUnmap)

/* As the test reads it: "<QII", from byte 64 * (SLOT + 1) on. */
struct slot {
	atomic_ulong operations;
	atomic_uint resting;  /* threads */
	atomic_uint contexts; /* while they rest: how many there are */
};

static struct {
#define MEMBER(symbol) api_fn_##symbol *symbol;
	FUNCTIONS(MEMBER)
#undef MEMBER
	atomic_uint *rest;
	struct slot *slot;
	uint64_t seed;
} g;

/* True: there it is. */
static bool obtained(CUresult r)
{
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
		fail("an allocation answers %d", (int)r);
	return r == CUDA_SUCCESS;
}

enum kind { NOTHING, LINEAR, HANDLE, MAPPED, KINDS };

struct piece {
	enum kind kind;
	CUdeviceptr address;
	size_t bytes;
	CUmemGenericAllocationHandle handle;
};

struct thread {
	uint64_t random;
	CUcontext context;
	struct piece piece[PIECES];
};

static uint64_t random_of(struct thread *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

static bool make_handle(struct piece *p)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

	p->bytes = (p->bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
	return obtained(g.cuMemCreate(&p->handle, p->bytes, &prop, 0));
}

static void obtain(struct piece *p, enum kind kind)
{
	bool done = false;

	switch (kind) {
	case LINEAR:
		done = obtained(g.cuMemAlloc_v2(&p->address, p->bytes));
		break;
	case HANDLE:
		done = make_handle(p);
		break;
	case MAPPED:
		done = make_handle(p);
		if (!done)
			break;
		ok(g.cuMemAddressReserve(&p->address, p->bytes, 0, 0, 0));
		ok(g.cuMemMap(p->address, p->bytes, 0, p->handle, 0));
		break;
	case NOTHING:
	case KINDS:
		break;
	}
	p->kind = done ? kind : NOTHING;
}

static void give(struct piece *p)
{
	switch (p->kind) {
	case LINEAR:
		ok(g.cuMemFree_v2(p->address));
		break;
	case MAPPED:
		ok(g.cuMemUnmap(p->address, p->bytes));
		ok(g.cuMemAddressFree(p->address, p->bytes));
		ok(g.cuMemRelease(p->handle));
		break;
	case HANDLE:
		ok(g.cuMemRelease(p->handle));
		break;
	case NOTHING:
	case KINDS:
		break;
	}
	p->kind = NOTHING;
}

static void make_context(struct thread *t)
{
	if (!obtained(g.cuCtxCreate_v2(&t->context, 0, 0))) {
		t->context = NULL;
		return;
	}
	atomic_fetch_add(&g.slot->contexts, 1);
}

/* Linear memory goes with its context; all else would stay. */
static void destroy_context(struct thread *t)
{
	for (int i = 0; i < PIECES; i++) {
		if (t->piece[i].kind == LINEAR)
			t->piece[i].kind = NOTHING;
		else
			give(&t->piece[i]);
	}
	ok(g.cuCtxSynchronize());
	ok(g.cuCtxDestroy_v2(t->context));
	t->context = NULL;
	atomic_fetch_sub(&g.slot->contexts, 1);
}

/* Until the test lets us go on; nothing is under way meanwhile. */
static void rest(const struct thread *t)
{
	if (t->context)
		ok(g.cuCtxSynchronize());
	atomic_fetch_add(&g.slot->resting, 1);
	while (atomic_load(g.rest))
		usleep(500);
	atomic_fetch_sub(&g.slot->resting, 1);
}

static void step(struct thread *t)
{
	uint64_t random = random_of(t);
	struct piece *p = &t->piece[random % PIECES];

	if (!t->context) {
		make_context(t);
	} else if (random / 64 % 16 == 0) {
		destroy_context(t);
	} else if (p->kind) {
		give(p);
	} else {
		p->bytes = random / 4096 % 4 ? 1 + random / 65536 % (600 << 10)
					     : 1 + random / 65536 % (24 << 20);
		obtain(p, LINEAR + (enum kind)(random / 1024 % (KINDS - LINEAR)));
	}
}

static void *work(void *argument)
{
	struct thread t = {.random = g.seed + (uintptr_t)argument * 0x9e3779b97f4a7c15u};

	for (;;) {
		if (atomic_load(g.rest))
			rest(&t);
		step(&t);
		atomic_fetch_add(&g.slot->operations, 1);
	}
	return NULL;
}

static void load(const char *path, unsigned slot)
{
	void *guest = dlopen("libcuda.so.1", RTLD_NOW);
	owned(close) int fd = open(path, O_RDWR | O_CLOEXEC);
	char *book = mmap(NULL, BOOK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (!guest)
		fail("%s", dlerror());
	if (book == MAP_FAILED)
		fail("no book at %s", path);
	g.rest = (atomic_uint *)book;
	g.slot = (struct slot *)(book + 64ul * (slot + 1));
#define LOAD(symbol) g.symbol = (api_fn_##symbol *)dlsym(guest, #symbol);
	FUNCTIONS(LOAD)
#undef LOAD
	ok(g.cuInit(0));
}

int main(int argc, char **argv)
{
	unsigned slot, threads;
	pthread_t thread;

	if (argc != 5) {
		fprintf(stderr, "usage: kill_load BOOK SLOT THREADS SEED\n");
		return 2;
	}
	slot = (unsigned)atoi(argv[2]);
	threads = (unsigned)atoi(argv[3]);
	g.seed = strtoull(argv[4], NULL, 10) * 2 + 1;
	if (slot >= BOOK_BYTES / 64 - 1 || !threads)
		fail("slot %u, %u threads", slot, threads);
	load(argv[1], slot);
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, work, (void *)i))
			fail("no thread");
	pause();
	return 0;
}
