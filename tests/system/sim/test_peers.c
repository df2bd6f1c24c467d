/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices in one machine. */
#include <stdlib.h>

#include "tests/system/sim/node.h"

static __attribute__((constructor)) void two_devices(void)
{
	setenv("METE_SIM_DEVICES", "2xV100", 1);
}

static CUcontext on_device(CUdevice device)
{
	CUcontext context;

	expect_ok(cuInit(0));
	expect_ok(cuCtxCreate_v2(&context, 0, device));
	return context;
}

static CUresult store_at(CUdeviceptr address)
{
	CUfunction store = node_kernel(node_module(), "store");
	void *parameters[] = {&address};

	expect_ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	return cuCtxSynchronize();
}

TEST(devices_are_told_apart)
{
	CUuuid first, second;
	char bus[16];
	CUdevice device;
	int count, can;

	expect_ok(cuInit(0));
	expect_ok(cuDeviceGetCount(&count));
	expect_eq(count, 2);
	expect_ok(cuDeviceGetUuid(&first, 0));
	expect_ok(cuDeviceGetUuid(&second, 1));
	expect(memcmp(&first, &second, sizeof(first)) != 0);
	expect_ok(cuDeviceGetPCIBusId(bus, sizeof(bus), 1));
	expect_ok(cuDeviceGetByPCIBusId(&device, bus));
	expect_eq(device, 1);
	expect_cuda(cuDeviceGetByPCIBusId(&device, "nonsense"), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuDeviceCanAccessPeer(&can, 0, 1));
	expect_eq(can, 1);
	expect_ok(cuDeviceCanAccessPeer(&can, 0, 0));
	expect_eq(can, 0);
}

TEST(copies_between_devices_need_no_permission)
{
	CUcontext first = on_device(0), second;
	CUdeviceptr here, there;
	unsigned word = 77;

	expect_ok(cuMemAlloc_v2(&here, 4096));
	expect_ok(cuMemcpyHtoD_v2(here, &word, 4));
	second = on_device(1);
	expect_ok(cuMemAlloc_v2(&there, 4096));
	expect_ok(cuMemcpyPeer(there, second, here, first, 4));
	word = 0;
	expect_ok(cuMemcpyDtoH_v2(&word, there, 4));
	expect_eq(word, 77);
	expect_cuda(cuMemcpyPeer(there, (CUcontext)&word, here, first, 4),
		    CUDA_ERROR_INVALID_CONTEXT);
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuCtxDestroy_v2(first));
}

TEST(kernels_reach_a_peer_only_with_permission)
{
	CUcontext first = on_device(0), second, third;
	CUdeviceptr address;
	unsigned word = 0;

	expect_ok(cuMemAlloc_v2(&address, 4096));
	second = on_device(1);
	expect_cuda(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	expect_cuda(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_INVALID_CONTEXT);
	expect_cuda(cuCtxEnablePeerAccess(first, 1), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxEnablePeerAccess(first, 0));
	expect_cuda(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	expect_ok(store_at(address));
	expect_ok(cuMemcpyDtoH_v2(&word, address, 4));
	expect_eq(word, 7);
	third = on_device(1);
	expect_cuda(store_at(address), CUDA_ERROR_ILLEGAL_ADDRESS);
	expect_ok(cuCtxDestroy_v2(third));
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuCtxDestroy_v2(first));
}

/* tinygrad's JIT makes such graphs: kernels of two devices, added while either's context is
 * current. */
TEST(a_graph_runs_each_kernel_on_the_device_of_its_function)
{
	CUcontext first = on_device(0), second;
	CUdeviceptr here, there;
	void *here_params[] = {&here}, *there_params[] = {&there};
	CUDA_KERNEL_NODE_PARAMS_v1 params = {.gridDimX = 1,
					     .gridDimY = 1,
					     .gridDimZ = 1,
					     .blockDimX = 1,
					     .blockDimY = 1,
					     .blockDimZ = 1};
	CUgraphNode one, two;
	CUgraphExec executable;
	CUgraph graph;
	CUfunction on_first = node_kernel(node_module(), "store"), on_second;
	unsigned word = 0;

	expect_ok(cuMemAlloc_v2(&here, 4096));
	second = on_device(1);
	on_second = node_kernel(node_module(), "store");
	expect_ok(cuMemAlloc_v2(&there, 4096));
	expect_ok(cuGraphCreate(&graph, 0));
	params.func = on_first;
	params.kernelParams = here_params;
	expect_ok(cuGraphAddKernelNode(&one, graph, NULL, 0, &params));
	params.func = on_second;
	params.kernelParams = there_params;
	expect_ok(cuGraphAddKernelNode(&two, graph, &one, 1, &params));
	expect_ok(cuGraphInstantiate_v2(&executable, graph, NULL, NULL, 0));
	expect_ok(cuGraphExecKernelNodeSetParams(executable, two, &params));
	expect_ok(cuGraphLaunch(executable, NULL));
	expect_ok(cuCtxSynchronize());
	expect_ok(cuMemcpyDtoH_v2(&word, here, 4));
	expect_eq(word, 7);
	word = 0;
	expect_ok(cuMemcpyDtoH_v2(&word, there, 4));
	expect_eq(word, 7);
	expect_ok(cuGraphExecDestroy(executable));
	expect_ok(cuGraphDestroy(graph));
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuCtxDestroy_v2(first));
}

TEST(mappings_and_pools_are_opened_to_a_peer)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemAccessDesc access[] = {
		{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
	};
	CUcontext first = on_device(0), second;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr mapped, pooled;
	CUmemAccess_flags flags;
	CUmemoryPool pool;

	expect_ok(cuMemCreate(&handle, 2 * MiB, &properties, 0));
	expect_ok(cuMemAddressReserve(&mapped, 2 * MiB, 0, 0, 0));
	expect_ok(cuMemMap(mapped, 2 * MiB, 0, handle, 0));
	expect_ok(cuMemSetAccess(mapped, 2 * MiB, access, 2));
	expect_ok(cuDeviceGetMemPool(&pool, 0));
	expect_ok(cuMemPoolGetAccess(&flags, pool, &access[1].location));
	expect_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	expect_ok(cuMemPoolSetAccess(pool, &access[1], 1));
	expect_ok(cuMemAllocAsync(&pooled, 100, NULL));
	expect_ok(cuCtxSynchronize());
	second = on_device(1);
	expect_ok(store_at(mapped));
	expect_ok(store_at(pooled));
	expect_ok(cuMemSetAccess(mapped, 2 * MiB, access, 1)); /* leaves the peer's as it is */
	expect_ok(store_at(mapped));
	access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	expect_ok(cuMemSetAccess(mapped, 2 * MiB, &access[1], 1));
	expect_cuda(store_at(mapped), CUDA_ERROR_ILLEGAL_ADDRESS);
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuMemFreeAsync(pooled, NULL));
	expect_ok(cuMemUnmap(mapped, 2 * MiB));
	expect_ok(cuMemRelease(handle));
	expect_ok(cuMemAddressFree(mapped, 2 * MiB));
	expect_ok(cuCtxDestroy_v2(first));
}
