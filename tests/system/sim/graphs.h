/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of graphs. */
#pragma once

#include "tests/system/sim/streams.h"

/* As tinygrad gives them: one buffer. */
struct arguments {
	CUdeviceptr p;
	unsigned n, k;
};

static inline CUDA_MEMCPY3D device_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.srcPitch = bytes,
		.srcHeight = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.dstPitch = bytes,
		.dstHeight = 1,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static inline void append_digit(void *data)
{
	*(unsigned *)data = *(unsigned *)data * 10 + 1;
}

static inline CUgraph kernel_graph(struct sim *sim, CUfunction second, CUdeviceptr word, unsigned k)
{
	unsigned n = 1;
	void *params[] = {&word, &n, &k};
	CUDA_KERNEL_NODE_PARAMS_v1 one = first_form(sim->add, params);
	CUDA_KERNEL_NODE_PARAMS_v1 two = first_form(second, params);
	CUgraphNode a, b;
	CUgraph graph;

	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddKernelNode(&a, graph, NULL, 0, &one));
	ok(cuGraphAddKernelNode(&b, graph, &a, 1, &two));
	return graph;
}
