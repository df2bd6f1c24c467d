/* SPDX-License-Identifier: Apache-2.0 */
/* A chain of kernels captured once and launched as a graph many times, as decoders of language
 * models do. Each launch advances a table; the host knows how far it must have come. */
#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

int main(int argc, char **argv)
{
	static const char *const settings[] = {"launches", "nodes", "size", NULL};
	size_t launches = workload_setting(argc, argv, "launches", 40);
	size_t nodes = workload_setting(argc, argv, "nodes", 6);
	unsigned n = (unsigned)workload_setting(argc, argv, "size", 4 << 10);
	size_t bytes = n * sizeof(uint32_t);
	uint32_t *table = malloc(bytes);
	unsigned factor = 5, offset = 9;
	struct workload w;
	CUfunction advance, fill;
	CUdeviceptr device;
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;

	workload_begin(&w, "graph-loop", vector_ptx, argc, argv, settings);
	if (!table || !n)
		workload_fail(&w, "size=%u: no memory for it", n);
	fill = workload_kernel(&w, "fill_pattern");
	advance = workload_kernel(&w, "advance");
	device = workload_alloc(&w, bytes);
	workload_try(&w, w.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	workload_launch(&w, stream, fill, n, (void *[]){&device, &n, &factor, &offset});
	workload_try(&w, w.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (size_t i = 0; i < nodes; i++)
		workload_launch(&w, stream, advance, n, (void *[]){&device, &n});
	workload_try(&w, w.cuStreamEndCapture(stream, &graph));
	workload_try(&w, w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (size_t i = 0; i < launches; i++)
		workload_try(&w, w.cuGraphLaunch(exec, stream));
	workload_try(&w, w.cuStreamSynchronize(stream));
	workload_try(&w, w.cuMemcpyDtoH_v2(table, device, bytes));
	for (unsigned i = 0; i < n; i += 61) {
		uint32_t wanted = i * factor + offset;

		for (size_t k = 0; k < launches * nodes; k++)
			wanted = wanted * 1664525u + 1013904223u;
		if (table[i] != wanted)
			workload_fail(&w, "entry %u is %u, wanted %u", i, table[i], wanted);
	}
	workload_sum(&w, table, bytes);
	workload_try(&w, w.cuGraphExecDestroy(exec));
	workload_try(&w, w.cuGraphDestroy(graph));
	workload_try(&w, w.cuStreamDestroy_v2(stream));
	workload_free(&w, device, bytes);
	free(table);
	return workload_end(&w, "launches=%zu nodes=%zu", launches, nodes);
}
