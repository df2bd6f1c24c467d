/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graphs outlives them. Each case leaves nothing behind, so that what is free shows what
 * the next one is charged.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/guest/memory_ways.h"

enum {
	LARGE = 60 << 20, /* once is within the limit, twice is beyond it */
};

struct graph_gate {
	uint32_t *word;
	CUdeviceptr address;
	CUstream stream;
};

static struct graph_gate closed_gate(void)
{
	struct graph_gate gate;

	ok(g.cuMemHostAlloc((void **)&gate.word, 64, CU_MEMHOSTALLOC_DEVICEMAP));
	*gate.word = 0;
	ok(g.cuMemHostGetDevicePointer_v2(&gate.address, gate.word, 0));
	ok(g.cuStreamCreate(&gate.stream, CU_STREAM_NON_BLOCKING));
	ok(g.cuStreamWaitValue32_v2(gate.stream, gate.address, 1, CU_STREAM_WAIT_VALUE_GEQ));
	return gate;
}

static void open_gate(struct graph_gate *gate)
{
	__atomic_store_n(gate->word, 1, __ATOMIC_SEQ_CST);
	ok(g.cuStreamSynchronize(gate->stream));
	ok(g.cuStreamDestroy_v2(gate->stream));
	ok(g.cuMemFreeHost(gate->word));
}

static CUgraphExec exec_new(size_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}},
		.bytesize = bytes};
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	ok(g.cuGraphCreate(&graph, 0));
	ok(g.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
	ok(g.cuGraphAddMemFreeNode(&node, graph, &node, 1, alloc.dptr));
	ok(g.cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(g.cuGraphDestroy(graph));
	return exec;
}

/* A graph that has come and gone. */
static void leave(size_t bytes)
{
	CUgraphExec exec = exec_new(bytes);

	ok(g.cuGraphLaunch(exec, NULL));
	ok(g.cuCtxSynchronize());
	ok(g.cuGraphExecDestroy(exec));
}

static void expect_charged(size_t bytes, const char *when)
{
	size_t available, total;

	ok(g.cuMemGetInfo_v2(&available, &total));
	if (g.free_at_start - available != bytes)
		fail("%s %zu bytes are charged, not %zu", when, g.free_at_start - available, bytes);
	if (available != g.limit - held())
		fail("%s %zu bytes are said to be free, and %zu are", when, available,
		     g.limit - held());
}

static void all_trimmed(void)
{
	ok(g.cuDeviceGraphMemTrim(g.device));
	expect_charged(0, "after a trim");
}

static void charged_once_until_it_is_trimmed(void)
{
	CUgraphExec exec;

	leave(LARGE);
	expect_charged(LARGE, "when its graph has gone");
	exec = exec_new(LARGE / 2);
	expect_charged(LARGE, "when a smaller one is there");
	ok(g.cuGraphLaunch(exec, NULL));
	ok(g.cuGraphLaunch(exec, NULL));
	ok(g.cuCtxSynchronize());
	expect_charged(LARGE, "when that has reused a part of it");
	/* There is no room for both until the first one's is trimmed. */
	leave(LARGE + 2 * MIB);
	expect_charged(LARGE + 2 * MIB, "when a larger one has come and gone");
	ok(g.cuGraphExecDestroy(exec));
	all_trimmed();
}

/* Memory that no graph uses is trimmed before anything is refused. */
static void room_for_everything_else(void)
{
	for (size_t i = 0; i < ways_count; i++) {
		/* Some take twice as much, and none finds room beside it. */
		struct piece piece = {.bytes = 40 * MIB};
		CUresult r;

		leave(LARGE);
		r = ways[i].obtain(&piece);
		if (r != CUDA_SUCCESS)
			fail("%s beside memory that graphs have left answers %d", ways[i].name,
			     (int)r);
		check_limit(ways[i].name);
		ways[i].give(&piece);
		settle();
		expect_charged(0, ways[i].name);
	}
}

static void trimmed_while_it_runs(void)
{
	struct graph_gate gate = closed_gate();
	CUgraphExec exec = exec_new(LARGE);
	CUdeviceptr address;

	ok(g.cuGraphLaunch(exec, gate.stream));
	ok(g.cuDeviceGraphMemTrim(g.device));
	expect_charged(LARGE, "trimmed while it runs");
	if (g.cuMemAlloc_v2(&address, LARGE) != CUDA_ERROR_OUT_OF_MEMORY)
		fail("memory of a graph that runs was given to somebody else");
	/* Its memory is enough for it to be launched again. */
	ok(g.cuGraphLaunch(exec, gate.stream));
	expect_charged(LARGE, "launched again");
	open_gate(&gate);
	ok(g.cuGraphExecDestroy(exec));
	expect_charged(LARGE, "when it has ended");
	all_trimmed();
}

static void destroyed_while_it_runs(void)
{
	struct graph_gate gate = closed_gate();
	CUgraphExec exec = exec_new(LARGE);

	ok(g.cuGraphLaunch(exec, gate.stream));
	ok(g.cuGraphExecDestroy(exec));
	ok(g.cuDeviceGraphMemTrim(g.device));
	expect_charged(LARGE, "destroyed while it runs");
	open_gate(&gate);
	expect_charged(LARGE, "when it has ended, destroyed");
	all_trimmed();
}

/* A driver may keep an upload's memory for later: then a launch must find room. */
static void uploaded_and_not_reserved(void)
{
	CUgraphExec exec = exec_new(LARGE);
	CUdeviceptr address;

	ok(g.cuGraphUpload(exec, NULL));
	ok(g.cuMemAlloc_v2(&address, LARGE));
	if (g.cuGraphLaunch(exec, NULL) != CUDA_ERROR_OUT_OF_MEMORY)
		fail("a launch after an upload went beyond the limit");
	check_limit("after an upload");
	ok(g.cuMemFree_v2(address));
	ok(g.cuGraphLaunch(exec, NULL));
	ok(g.cuCtxSynchronize());
	ok(g.cuGraphExecDestroy(exec));
	all_trimmed();
}

void graphs_outlived(void)
{
	charged_once_until_it_is_trimmed();
	room_for_everything_else();
	trimmed_while_it_runs();
	destroyed_while_it_runs();
	uploaded_and_not_reserved();
	leave(LARGE);
}
