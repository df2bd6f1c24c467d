/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/guest/memory_ways.h"

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

void racing(unsigned threads)
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
		slot[i].way = &ways[random / 64 % (ways_count - 1)];
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

void mixing(unsigned threads)
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
	struct piece piece[8], pooled;
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
		/* The pool gives it back at some thread's wait. */
		pooled.bytes = 9 * MIB;
		if (take_async(&pooled) == CUDA_SUCCESS)
			give_async(&pooled);
		ok(g.cuCtxSynchronize());
		while (count > 0)
			give_linear(&piece[--count]);
		if (r == CUDA_SUCCESS)
			ok(g.cuCtxDestroy_v2(own));
	}
	return argument;
}

void making(unsigned threads)
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

static void *exchange_pools(void *argument)
{
	CUmemoryPool first;

	ok(g.cuCtxSetCurrent(g.context));
	ok(g.cuDeviceGetDefaultMemPool(&first, g.device));
	while (!atomic_load(&mixed)) {
		ok(g.cuDeviceSetMemPool(g.device, g.pool));
		ok(g.cuDeviceSetMemPool(g.device, first));
	}
	return argument;
}

/* Together they want more than the limit, and each gives all back before it begins again. */
static void *take_from_current(void *argument)
{
	struct piece piece[64];

	ok(g.cuCtxSetCurrent(g.context));
	for (int round = 0; round < 20; round++) {
		size_t count = 0;

		for (; count < ARRAY_SIZE(piece); count++) {
			piece[count].bytes = 3 * MIB;
			if (take_async(&piece[count]) != CUDA_SUCCESS)
				break;
		}
		while (count > 0)
			give_async(&piece[--count]);
	}
	return argument;
}

void exchanging(unsigned threads)
{
	pthread_t thread[16], watcher, exchanger;

	if (pthread_create(&watcher, NULL, watch, NULL) ||
	    pthread_create(&exchanger, NULL, exchange_pools, NULL))
		fail("no thread");
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, take_from_current, NULL))
			fail("no thread");
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&mixed, 1);
	pthread_join(watcher, NULL);
	pthread_join(exchanger, NULL);
	settle();
}

static void *works_on_little(void *none)
{
	struct piece piece = {.bytes = 40 * MIB};
	CUmodule module;
	CUstream stream;

	ok(g.cuCtxSetCurrent(g.context));
	ok(g.cuModuleLoadData(&module, module_of_nothing));
	ok(g.cuStreamCreate(&stream, 0));
	ok(take_linear(&piece));
	ok(g.cuMemsetD8Async(piece.address, 1, piece.bytes, stream));
	ok(g.cuStreamSynchronize(stream));
	give_linear(&piece);
	ok(g.cuStreamDestroy_v2(stream));
	return none;
}

void least_stack(void)
{
	pthread_attr_t little;
	pthread_t thread;

	pthread_attr_init(&little);
	if (pthread_attr_setstacksize(&little, (size_t)sysconf(_SC_THREAD_STACK_MIN)) != 0 ||
	    pthread_create(&thread, &little, works_on_little, NULL) != 0)
		fail("no thread");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&little);
}
