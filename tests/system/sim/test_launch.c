/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tests/system/sim/node.h"

static CUfunction add, store;

static CUcontext begin(void)
{
	CUcontext context = node_context();
	CUmodule module = node_module();

	add = node_kernel(module, "add");
	store = node_kernel(module, "store");
	return context;
}

static CUresult launch(CUfunction function, unsigned grid, unsigned block, void **parameters)
{
	return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, NULL, parameters, NULL);
}

TEST(kernels_compute_over_all_blocks)
{
	CUcontext context = begin();
	unsigned n = 100000, value = 3, *words = malloc(n * 4);
	CUdeviceptr address;
	void *parameters[] = {&address, &n, &value};

	expect_ok(cuMemAlloc_v2(&address, n * 4));
	expect_ok(cuMemsetD32_v2(address, 39, n));
	expect_ok(launch(add, (n + 255) / 256, 256, parameters));
	expect_ok(cuMemcpyDtoH_v2(words, address, n * 4));
	for (unsigned i = 0; i < n; i++)
		expect_eq(words[i], 42);
	free(words);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(parameters_are_copied_when_the_call_is_made)
{
	CUcontext context = begin();
	unsigned n = 1, value = 1, word = 0;
	CUdeviceptr address;
	void *parameters[] = {&address, &n, &value};

	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_ok(cuMemsetD32_v2(address, 0, 1));
	for (value = 1; value <= 10; value++)
		expect_ok(launch(add, 1, 32, parameters));
	value = 1000;
	expect_ok(cuMemcpyDtoH_v2(&word, address, 4));
	expect_eq(word, 55);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(parameters_may_come_as_one_buffer)
{
	CUcontext context = begin();
	struct {
		CUdeviceptr address;
		unsigned n, value;
	} packed = {.n = 1, .value = 9};
	size_t bytes = sizeof(packed), short_bytes = 12;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &bytes, CU_LAUNCH_PARAM_END};
	void *parameters[] = {&packed.address, &packed.n, &packed.value};
	unsigned word = 0;

	expect_ok(cuMemAlloc_v2(&packed.address, 4));
	expect_ok(cuMemsetD32_v2(packed.address, 0, 1));
	expect_ok(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
	expect_ok(cuMemcpyDtoH_v2(&word, packed.address, 4));
	expect_eq(word, 9);
	expect_cuda(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, extra),
		    CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL),
		    CUDA_ERROR_INVALID_VALUE);
	extra[3] = &short_bytes;
	expect_cuda(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra),
		    CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(impossible_shapes_are_refused_and_the_context_lives)
{
	CUcontext context = begin();
	CUdeviceptr address;
	void *parameters[] = {&address};
	unsigned word = 0;

	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_cuda(launch(store, 0, 1, parameters), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(launch(store, 1, 0, parameters), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(launch(store, 1, 1025, parameters), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuLaunchKernel(store, 1, 65536, 1, 1, 1, 1, 0, NULL, parameters, NULL),
		    CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, parameters, NULL),
		    CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuLaunchCooperativeKernel(store, 1000, 1, 1, 1024, 1, 1, 0, NULL, parameters),
		    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	expect_ok(cuLaunchCooperativeKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters));
	expect_ok(cuMemcpyDtoH_v2(&word, address, 4));
	expect_eq(word, 7);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(attributes_of_a_launch_are_read)
{
	CUcontext context = begin();
	CUdeviceptr address;
	void *parameters[] = {&address};
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, &attribute, 1};
	unsigned word = 0;

	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_ok(cuLaunchKernelEx(&config, store, parameters, NULL));
	attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
	attribute.value.clusterDim.x = 2;
	attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
	expect_cuda(cuLaunchKernelEx(&config, store, parameters, NULL), CUDA_ERROR_NOT_SUPPORTED);
	expect_cuda(cuLaunchKernelEx(NULL, store, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemcpyDtoH_v2(&word, address, 4));
	expect_eq(word, 7);
	expect_ok(cuCtxDestroy_v2(context));
}

/* After this only destroying the context helps. */
static void expect_illegal(CUdeviceptr address)
{
	void *parameters[] = {&address};
	CUdeviceptr other;

	expect_ok(launch(store, 1, 1, parameters));
	expect_cuda(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	expect_cuda(cuMemAlloc_v2(&other, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
	expect_cuda(launch(store, 1, 1, parameters), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(an_illegal_address_sticks_to_the_context_alone)
{
	static unsigned pageable;
	CUcontext context = begin(), other;
	CUdeviceptr address;

	expect_ok(cuMemAlloc_v2(&address, 4096));
	expect_ok(cuMemFree_v2(address));
	expect_illegal(address); /* freed */
	other = begin();
	expect_ok(cuCtxSynchronize());
	expect_ok(cuMemAlloc_v2(&address, 3 * MiB));
	expect_illegal(address + 4 * MiB); /* beyond the end */
	expect_ok(cuCtxDestroy_v2(other));
	other = begin();
	expect_illegal((uintptr_t)&pageable);
	expect_ok(cuCtxDestroy_v2(other));
	expect_ok(cuCtxDestroy_v2(context));
	context = begin();
	expect_ok(cuCtxSynchronize());
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(an_unmapped_block_is_an_illegal_address_and_pinned_memory_is_not)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUcontext context = begin();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	unsigned *pinned, word = 0;
	void *parameters[] = {&address};

	expect_ok(cuMemHostAlloc((void **)&pinned, 4, 0));
	address = (uintptr_t)pinned;
	expect_ok(launch(store, 1, 1, parameters));
	expect_ok(cuCtxSynchronize());
	expect_eq(*pinned, 7);
	expect_ok(cuMemAllocManaged(&address, 4, CU_MEM_ATTACH_GLOBAL));
	expect_ok(launch(store, 1, 1, parameters));
	expect_ok(cuCtxSynchronize());
	expect_eq(*(unsigned *)(uintptr_t)address, 7);
	expect_ok(cuMemCreate(&handle, 2 * MiB, &properties, 0));
	expect_ok(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0));
	expect_ok(cuMemMap(address, 2 * MiB, 0, handle, 0));
	expect_ok(cuMemSetAccess(address, 2 * MiB, &access, 1));
	expect_ok(launch(store, 1, 1, parameters));
	expect_ok(cuMemcpyDtoH_v2(&word, address, 4));
	expect_eq(word, 7);
	expect_ok(cuMemUnmap(address, 2 * MiB));
	expect_illegal(address);
	expect_ok(cuCtxDestroy_v2(context));
	expect_ok(cuMemRelease(handle));
	expect_ok(cuMemAddressFree(address, 2 * MiB));
}

TEST(the_oldest_launch_calls_still_work)
{
	CUcontext context = begin();
	CUdeviceptr address;
	unsigned word = 0;

	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_ok(cuMemsetD32_v2(address, 1, 1));
	expect_ok(cuFuncSetBlockShape(add, 32, 1, 1));
	expect_ok(cuParamSetv(add, 0, &address, 8));
	expect_ok(cuParamSeti(add, 8, 1));
	expect_ok(cuParamSeti(add, 12, 5));
	expect_ok(cuParamSetSize(add, 16));
	expect_ok(cuLaunch(add));
	expect_ok(cuLaunchGrid(add, 2, 1));
	expect_ok(cuMemcpyDtoH_v2(&word, address, 4));
	expect_eq(word, 11);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_context_can_be_destroyed_under_a_kernel_that_waits_for_ever)
{
	CUcontext context = begin();
	CUdeviceptr address;
	void *parameters[] = {&address};

	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_ok(cuMemsetD32_v2(address, 0, 1));
	expect_ok(launch(node_kernel(node_module(), "spin"), 1, 1, parameters));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_waiting_kernel_sees_the_hosts_writes)
{
	CUcontext context = begin();
	CUdeviceptr address;
	void *parameters[] = {&address};
	CUstream stream;
	unsigned one = 1;

	expect_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_ok(cuMemsetD32_v2(address, 0, 1));
	expect_ok(cuCtxSynchronize());
	expect_ok(cuLaunchKernel(node_kernel(node_module(), "spin"), 1, 1, 1, 1, 1, 1, 0, stream,
				 parameters, NULL));
	expect_cuda(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	expect_ok(cuMemcpyHtoD_v2(address, &one, 4));
	expect_ok(cuStreamSynchronize(stream));
	expect_ok(cuCtxDestroy_v2(context));
}
