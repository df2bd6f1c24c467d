/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of captures. */
#pragma once

#include <pthread.h>

#include "tests/system/sim/streams.h"

static inline CUstream stream_new(unsigned flags)
{
	CUstream stream;

	ok(cuStreamCreate(&stream, flags));
	return stream;
}

static inline CUevent event_new(void)
{
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static inline size_t count_nodes(CUgraph graph)
{
	size_t n = 0;

	ok(cuGraphGetNodes(graph, NULL, &n));
	return n;
}

/* Instantiates, launches `times` times, destroys. */
static inline void run_graph(CUgraph graph, CUstream stream, unsigned times)
{
	CUgraphExec exec;

	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (unsigned i = 0; i < times; i++)
		ok(cuGraphLaunch(exec, stream));
	ok(cuGraphExecDestroy(exec));
	ok(cuStreamSynchronize(stream));
}
