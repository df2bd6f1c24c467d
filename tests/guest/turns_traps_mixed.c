/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that must get through while a graph or a kernel waits for them, with memory on the way.
 */
#include <sched.h>
#include <string.h>

#include "tests/guest/turns_traps.h"

enum { LETTERS = 4, SOME = 4 << 20, BIG = 48 << 20 };

/* ---- a graph waits for a value that a thread writes once its own work is done */

static void *answer_graph(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	atomic_store(g.word, 1);
	return NULL;
}

static CUgraphExec graph_that_waits(void)
{
	CUstreamBatchMemOpParams ops[2];
	CUDA_BATCH_MEM_OP_NODE_PARAMS node = {.count = 2, .paramArray = ops};
	CUgraphNode made;
	CUgraphExec ready;
	CUgraph graph;

	memset(ops, 0, sizeof(ops));
	node.ctx = g.device[0].context;
	ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	ops[0].waitValue.address = g.address;
	ops[0].waitValue.value = 1;
	ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[1].writeValue.address = g.address;
	ops[1].writeValue.value = 0;
	ok(g.cuGraphCreate(&graph, 0));
	ok(g.cuGraphAddBatchMemOpNode(&made, graph, NULL, 0, &node));
	ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	return ready;
}

void trap_graph_waits(void)
{
	static CUgraphExec ready;

	if (!ready)
		ready = graph_that_waits();
	traps_launch(0, 0, g.device[0].spend, 100000);
	ok(g.cuGraphLaunch(ready, g.device[0].stream[0]));
	traps_launch(0, 0, g.device[0].spend, 100000);
	traps_finish(answer_graph);
}

/* ---- kernels wait for letters, each of which is written into memory that is allocated for it */

static struct {
	CUdeviceptr at[LETTERS];
	size_t size;
} letters;

static void *post_letters(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (uint32_t i = 0; i < LETTERS; i++) {
		ok(g.cuMemAlloc_v2(&letters.at[i], letters.size));
		traps_launch(0, 1, g.device[0].spend, 100000);
		ok(g.cuStreamSynchronize(g.device[0].stream[1]));
		atomic_store(g.word, g.round * LETTERS + i);
	}
	return NULL;
}

static void post(size_t size)
{
	letters.size = size;
	for (uint32_t i = 0; i < LETTERS; i++)
		traps_launch(0, 0, g.device[0].wait, g.round * LETTERS + i);
	traps_finish(post_letters);
	for (uint32_t i = 0; i < LETTERS; i++)
		ok(g.cuMemFree_v2(letters.at[i]));
}

void trap_posted(void)
{
	post(SOME);
}

void trap_posted_big(void)
{
	post(BIG);
}

/* ---- the host sees by mapped memory alone how far the device is */

void trap_unasked(void)
{
	uint32_t last = g.round * LETTERS;

	for (uint32_t i = last; i < last + LETTERS; i++) {
		traps_launch(0, 0, g.device[0].spend, 200000);
		traps_launch(0, 0, g.device[0].set, i);
		while (atomic_load(g.word) < i)
			sched_yield();
	}
}

/* ---- memory is freed while a kernel waits for a thread: it returns when that has ended */

void trap_freed(void)
{
	pthread_t thread;
	CUdeviceptr some;

	ok(g.cuMemAlloc_v2(&some, SOME));
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_pause();
	traps_thread(traps_launch_and_say, &thread);
	ok(g.cuMemFree_v2(some));
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* ---- a stream is made, used and destroyed by each of two threads that wait for each other */

static void *use_new_stream(void *nothing)
{
	CUstream stream;

	(void)nothing;
	traps_use_device();
	ok(g.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	traps_launch_in(stream, 100000);
	ok(g.cuStreamSynchronize(stream));
	ok(g.cuStreamDestroy_v2(stream));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_new_streams(void)
{
	CUstream stream;
	void *arguments[] = {&g.address, &g.round};

	ok(g.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(g.cuLaunchKernel(g.device[0].wait, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	ok(g.cuStreamDestroy_v2(stream)); /* with work left */
	traps_finish(use_new_stream);
}
