/* SPDX-License-Identifier: Apache-2.0 */
/* When graphs and libraries take their memory. */
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/lab.h"

static CUgraph graph_that_allocates(const struct lab *lab, size_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUgraphNode taken, freed;
	CUgraph graph;

	memset(&params, 0, sizeof(params));
	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.poolProps.location.id = lab->device;
	params.bytesize = bytes;
	must(cuGraphCreate(&graph, 0));
	must(cuGraphAddMemAllocNode(&taken, graph, NULL, 0, &params));
	must(cuGraphAddMemFreeNode(&freed, graph, &taken, 1, params.dptr));
	return graph;
}

static uint64_t reserved(const struct lab *lab)
{
	uint64_t bytes;

	must(cuDeviceGetGraphMemAttribute(lab->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
					  &bytes));
	return bytes;
}

CLAIM(a_launch_reserves_a_graphs_memory_until_it_is_trimmed)
{
	enum { BYTES = 64 << 20 };
	struct lab lab = lab_begin();
	CUgraph graph = graph_that_allocates(&lab, BYTES);
	CUgraphExec exec;

	must(cuGraphInstantiateWithFlags(&exec, graph, 0));
	holds(reserved(&lab) == 0, "an instance reserves %llu bytes",
	      (unsigned long long)reserved(&lab));
	must(cuGraphLaunch(exec, NULL));
	holds(reserved(&lab) >= BYTES, "a launch reserves %llu bytes",
	      (unsigned long long)reserved(&lab));
	must(cuCtxSynchronize());
	holds(reserved(&lab) >= BYTES, "after it, %llu are reserved",
	      (unsigned long long)reserved(&lab));
	must(cuDeviceGraphMemTrim(lab.device));
	holds(reserved(&lab) == 0, "after trimming, %llu are reserved",
	      (unsigned long long)reserved(&lab));
}

CLAIM(graph_memory_stays_when_the_last_graph_is_gone)
{
	struct lab lab = lab_begin();
	CUgraph graph = graph_that_allocates(&lab, 64 * MiB);
	CUgraphExec exec;

	must(cuGraphInstantiateWithFlags(&exec, graph, 0));
	must(cuGraphLaunch(exec, NULL));
	must(cuCtxSynchronize());
	must(cuGraphExecDestroy(exec));
	must(cuGraphDestroy(graph));
	holds(reserved(&lab) >= 64 * MiB, "%llu bytes stay reserved",
	      (unsigned long long)reserved(&lab));
	must(cuDeviceGraphMemTrim(lab.device));
	holds(reserved(&lab) == 0, "after trimming, %llu are reserved",
	      (unsigned long long)reserved(&lab));
}

CLAIM(missing_graph_memory_is_found_at_the_launch)
{
	struct lab lab = lab_begin();
	CUgraph graph = graph_that_allocates(&lab, lab_free_bytes() + 1024 * MiB);
	CUgraphExec exec;

	answers(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
	answers(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

static const char large[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .global .align 8 .b8 room[67108864];\n"
	".visible .entry k(.param .u64 p)\n{\n.reg .u64 %a, %b;\n"
	"ld.param.u64 %a, [p];\nmov.u64 %b, room;\nst.global.u64 [%a], %b;\nret;\n}\n";

/* As seen in a second context, in which nothing was loaded before. */
CLAIM(the_first_use_of_a_library_loads_it_and_no_earlier_call_does)
{
	struct lab lab;
	CUcontext second;
	CUlibrary library;
	CUkernel kernel;
	CUfunction function;
	size_t before;
	int registers;

	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	lab = lab_begin();
	must(cuCtxCreate_v2(&second, 0, lab.device));
	before = lab_free_bytes();
	must(cuLibraryLoadData(&library, large, NULL, NULL, 0, NULL, NULL, 0));
	holds(before - lab_free_bytes() < 32 * MiB, "cuLibraryLoadData loads it");
	must(cuLibraryGetKernel(&kernel, library, "k"));
	holds(before - lab_free_bytes() < 32 * MiB, "cuLibraryGetKernel loads it");
	must(cuKernelGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, lab.device));
	holds(before - lab_free_bytes() < 32 * MiB, "cuKernelGetAttribute loads it");
	must(cuKernelGetFunction(&function, kernel));
	if (before - lab_free_bytes() < 64 * MiB) {
		CUdeviceptr out;
		void *arguments[] = {&out};

		must(cuMemAlloc_v2(&out, 4));
		must(lab_launch(function, NULL, arguments));
		must(cuCtxSynchronize());
		holds(before - lab_free_bytes() < 64 * MiB,
		      "cuKernelGetFunction does not load it: a launch does");
		claim_no("a launch does not show in cuMemGetInfo either");
	}
}
