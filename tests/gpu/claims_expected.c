/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that the tests of other programs expect of a driver, and that the simulated one gives for
 * that reason. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/lab.h"

CLAIM(address_ranges_have_the_size_that_was_asked_for)
{
	struct lab lab = lab_begin();
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr plain, pooled, base;
	size_t bytes = 0;

	(void)lab;
	must(cuMemAlloc_v2(&plain, 1001));
	must(cuMemGetAddressRange_v2(&base, &bytes, plain + 1000));
	holds(base == plain && bytes == 1001, "1001 bytes of cuMemAlloc: %zu", bytes);
	must(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, plain));
	holds(bytes == 1001, "1001 bytes of cuMemAlloc, as an attribute: %zu", bytes);
	must(cuMemAllocAsync(&pooled, 3 * MiB + 5, stream));
	must(cuStreamSynchronize(stream));
	must(cuMemGetAddressRange_v2(&base, &bytes, pooled));
	holds(base == pooled && bytes == 3 * MiB + 5, "3 MiB and 5 bytes of a pool: %zu", bytes);
}

CLAIM(no_bytes_of_a_pool_have_no_address)
{
	struct lab lab = lab_begin();
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr address = 7;
	size_t n = 9;
	CUgraph graph;

	(void)lab;
	answers(cuMemAllocAsync(&address, 0, stream), CUDA_SUCCESS);
	holds(!address, "no bytes are at %#llx", (unsigned long long)address);
	answers(cuMemFreeAsync(address, stream), CUDA_SUCCESS);
	must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	answers(cuMemAllocAsync(&address, 0, stream), CUDA_SUCCESS);
	must(cuStreamEndCapture(stream, &graph));
	must(cuGraphGetNodes(graph, NULL, &n));
	holds(n == 0, "they make %zu nodes in a capture", n);
}

static int advised(CUmem_range_attribute attribute, CUdeviceptr at, size_t bytes)
{
	int value = -77;

	must(cuMemRangeGetAttribute(&value, sizeof(value), attribute, at, bytes));
	return value;
}

CLAIM(advice_is_kept_by_pages_and_told_of_all_that_is_asked_about)
{
	const CUmem_range_attribute READ = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
	struct lab lab = lab_begin();
	CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_INVALID};
	int devices[3], there;
	CUdeviceptr at;

	must(cuDeviceGetAttribute(&there, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
				  lab.device));
	if (!there)
		claim_needs("a device that manages memory by pages");
	must(cuMemAllocManaged(&at, 5 * MiB, CU_MEM_ATTACH_GLOBAL));
	holds(advised(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, MiB) == CU_DEVICE_INVALID,
	      "without advice there is a preferred location");
	must(cuMemAdvise(at, 5 * MiB, CU_MEM_ADVISE_SET_READ_MOSTLY, lab.device));
	holds(advised(READ, at, 5 * MiB) == 1, "advice cannot be asked");
	must(cuMemAdvise(at + MiB + 1, 10, CU_MEM_ADVISE_UNSET_READ_MOSTLY, lab.device));
	holds(advised(READ, at, 5 * MiB) == 0, "a part without it does not count");
	holds(advised(READ, at + MiB + 4095, 1) == 0, "advice changes for less than a page");
	holds(advised(READ, at + MiB + 4096, MiB) == 1, "advice changes for more than 4 KiB");
	must(cuMemAdvise(at, 3 * MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
	must(cuMemAdvise(at, 2 * MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, lab.device));
	must(cuMemRangeGetAttribute(devices, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, MiB));
	holds(devices[0] == lab.device && devices[1] == CU_DEVICE_CPU &&
		      devices[2] == CU_DEVICE_INVALID,
	      "accessed by %d, %d, %d", devices[0], devices[1], devices[2]);
	must(cuMemPrefetchAsync(at, 4 * MiB, lab.device, NULL));
	holds(advised(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 4 * MiB) == lab.device,
	      "the last prefetch cannot be asked");
	holds(advised(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 5 * MiB) ==
		      CU_DEVICE_INVALID,
	      "a part that was not prefetched does not count");
	must(cuCtxSynchronize());
	answers(cuMemPrefetchAsync_v2(at, MiB, nowhere, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

CLAIM(arrays_are_described_in_two_dimensions_however_they_were_made)
{
	struct lab lab = lab_begin();
	CUDA_ARRAY3D_DESCRIPTOR shape = {6, 5, 0, CU_AD_FORMAT_FLOAT, 2, CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_ARRAY_DESCRIPTOR flat;
	CUarray array;

	(void)lab;
	must(cuArray3DCreate_v2(&array, &shape));
	answers(cuArrayGetDescriptor_v2(&flat, array), CUDA_SUCCESS);
	holds(flat.Width == 6 && flat.Height == 5 && flat.NumChannels == 2,
	      "%zu x %zu, %u channels", flat.Width, flat.Height, flat.NumChannels);
	shape.Depth = 1;
	must(cuArray3DCreate_v2(&array, &shape));
	answers(cuArrayGetDescriptor_v2(&flat, array), CUDA_SUCCESS);
}

CLAIM(levels_of_a_mipmapped_array_are_halves_and_as_many_as_there_can_be)
{
	struct lab lab = lab_begin();
	CUDA_ARRAY3D_DESCRIPTOR shape = {12, 5, 0, CU_AD_FORMAT_FLOAT, 2, 0}, seen;
	static const size_t widths[] = {12, 6, 3, 1}, heights[] = {5, 2, 1, 1};
	CUmipmappedArray mipmap;
	CUarray level, again;

	(void)lab;
	must(cuMipmappedArrayCreate(&mipmap, &shape, 9));
	for (unsigned i = 0; i < ARRAY_SIZE(widths); i++) {
		must(cuMipmappedArrayGetLevel(&level, mipmap, i));
		must(cuArray3DGetDescriptor_v2(&seen, level));
		holds(seen.Width == widths[i] && seen.Height == heights[i], "level %u: %zu x %zu",
		      i, seen.Width, seen.Height);
	}
	answers(cuMipmappedArrayGetLevel(&again, mipmap, 4), CUDA_ERROR_INVALID_VALUE);
	must(cuMipmappedArrayGetLevel(&again, mipmap, 3));
	holds(again == level, "a level has another handle each time");
	must(cuMipmappedArrayDestroy(mipmap));
	shape.Depth = 6;
	shape.Flags = CUDA_ARRAY3D_LAYERED;
	must(cuMipmappedArrayCreate(&mipmap, &shape, 2));
	must(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	must(cuArray3DGetDescriptor_v2(&seen, level));
	holds(seen.Depth == 6, "the second level has %zu layers of 6", seen.Depth);
}

/* Of everybody, or of the current context; with room for 1024. */
static void wished_file(CUresult (*get)(CUcoredumpSettings, void *, size_t *), const char *wanted,
			const char *whose)
{
	char file[1024] = "untouched";
	size_t room = sizeof(file);

	must(get(CU_COREDUMP_FILE, file, &room));
	holds(!strcmp(file, wanted), "%s file is '%s', not '%s'", whose, file, wanted);
	holds(room == sizeof(file), "%s file has %zu bytes of 1024", whose, room);
}

CLAIM(a_context_has_the_processs_wishes_for_core_dumps_as_they_were_when_it_began)
{
	struct lab lab;
	char all[] = "all", own[] = "own";
	size_t size = sizeof(all);
	bool host = false;

	unsetenv("CUDA_COREDUMP_FILE");
	unsetenv("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION");
	lab = lab_begin();
	wished_file(cuCoredumpGetAttributeGlobal, "", "at first everybody's");
	wished_file(cuCoredumpGetAttribute, "", "at first a context's");
	must(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, all, &size));
	wished_file(cuCoredumpGetAttributeGlobal, "all", "then everybody's");
	wished_file(cuCoredumpGetAttribute, "", "then the context's");
	must(cuCtxCreate_v2(&lab.context, 0, lab.device));
	wished_file(cuCoredumpGetAttribute, "all", "a later context's");
	must(cuCoredumpSetAttribute(CU_COREDUMP_FILE, own, &size));
	wished_file(cuCoredumpGetAttribute, "own", "in the end the context's");
	wished_file(cuCoredumpGetAttributeGlobal, "all", "in the end everybody's");
	size = sizeof(host);
	must(cuCoredumpGetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &host, &size));
	holds(host, "the host's dump is not wanted at first");
	answers(cuCoredumpSetAttribute(CU_COREDUMP_PIPE, own, &size), CUDA_ERROR_INVALID_VALUE);
}

CLAIM(available_shared_memory_is_what_a_launch_may_have)
{
	struct lab lab = lab_begin();
	CUfunction nothing = lab_kernel(&lab, "nothing");
	int usual, most;
	size_t bytes;

	must(cuDeviceGetAttribute(&usual, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
				  lab.device));
	must(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
				  lab.device));
	must(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 1, 128));
	holds(bytes == (size_t)usual, "%zu bytes, of %d without opting in", bytes, usual);
	if (most <= usual)
		claim_needs("a device with more shared memory for who opts in");
	must(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
	must(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 1, 128));
	holds(bytes == (size_t)most, "%zu bytes, of %d that were opted in for", bytes, most);
}

CLAIM(names_of_no_function_are_invalid_values)
{
	struct lab lab = lab_begin();
	const char *name = NULL;

	answers(cuFuncGetName(&name, lab_kernel(&lab, "add")), CUDA_SUCCESS);
	holds(name && !strcmp(name, "add"), "add is called %s", name ? name : "nothing");
	answers(cuFuncGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
	answers(cuKernelGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
}

static CUgraphInstantiateResult for_device(CUgraph graph, CUresult wanted)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH};
	CUgraphExec exec;
	CUresult r = cuGraphInstantiateWithParams(&exec, graph, &how);

	claim_say("instantiated for the device: %d, of kind %d", (int)r, (int)how.result_out);
	holds(r == wanted, "it is %d, not %d", (int)r, (int)wanted);
	if (r == CUDA_SUCCESS)
		must(cuGraphExecDestroy(exec));
	return how.result_out;
}

CLAIM(graphs_for_the_device_hold_what_it_can_do_alone)
{
	struct lab lab = lab_begin();
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .WidthInBytes = 4,
			      .Height = 1,
			      .Depth = 1};
	CUDA_HOST_NODE_PARAMS_v1 host = {.fn = free};
	struct lab_word word = lab_shared_word();
	unsigned pageable = 5;
	CUgraphNode node;
	CUgraph graph;

	must(cuMemAlloc_v2(&copy.dstDevice, 4));
	copy.srcHost = (void *)word.host;
	must(cuGraphCreate(&graph, 0));
	must(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, lab.context));
	(void)for_device(graph, CUDA_SUCCESS);
	copy.srcHost = &pageable;
	must(cuGraphMemcpyNodeSetParams(node, &copy));
	holds(for_device(graph, CUDA_ERROR_INVALID_VALUE) ==
		      CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED,
	      "a copy of pageable memory is refused for another reason");
	must(cuGraphDestroyNode(node));
	must(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
	holds(for_device(graph, CUDA_ERROR_INVALID_VALUE) ==
		      CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED,
	      "a host node is refused for another reason");
}

static void count_end(void *ended)
{
	atomic_fetch_add((atomic_uint *)ended, 1);
}

static CUgraph graph_that_holds(atomic_uint *ended)
{
	CUuserObject object;
	CUgraphNode node;
	CUgraph graph;

	must(cuGraphCreate(&graph, 0));
	must(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	must(cuUserObjectCreate(&object, ended, count_end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	must(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	return graph;
}

/* Nobody says when a destructor will run: it has its time, and what must not run gets as much. */
static bool ends(atomic_uint *ended)
{
	for (int i = 0; i < 30 && !atomic_load(ended); i++)
		usleep(10000);
	return atomic_load(ended);
}

CLAIM(an_update_of_an_executable_graph_takes_over_the_user_objects)
{
	struct lab lab = lab_begin();
	static atomic_uint first, second;
	CUgraph graph = graph_that_holds(&first), wanted = graph_that_holds(&second);
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;

	(void)lab;
	must(cuGraphInstantiateWithFlags(&exec, graph, 0));
	must(cuGraphDestroy(graph));
	must(cuGraphLaunch(exec, NULL));
	must(cuCtxSynchronize());
	holds(!ends(&first), "an object ends before the executable graph that holds it");
	must(cuGraphExecUpdate_v2(exec, wanted, &info));
	must(cuGraphDestroy(wanted));
	holds(ends(&first), "the old graph's object outlives an update");
	holds(!ends(&second), "the new graph's object ends with that graph");
	must(cuGraphExecDestroy(exec));
	holds(ends(&second), "the new graph's object outlives the executable graph");
}
