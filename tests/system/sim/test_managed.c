/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: where its pages are, and what was advised about them. */
#include "tests/system/sim/node.h"

/* Adds 1 to the first word of each page. */
static void touch(CUfunction add, CUdeviceptr address, size_t bytes)
{
	unsigned one = 1;
	void *parameters[] = {&address, &one, &one};

	for (; bytes; address += 2 * MiB, bytes -= 2 * MiB)
		expect_ok(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	expect_ok(cuCtxSynchronize());
}

TEST(managed_pages_count_where_they_are)
{
	CUcontext context = node_context();
	CUfunction add = node_kernel(node_module(), "add");
	size_t before = node_free_bytes();
	CUdeviceptr address;

	expect_cuda(cuMemAllocManaged(&address, 100, 4), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemAllocManaged(&address, 20 * MiB, CU_MEM_ATTACH_GLOBAL));
	*(unsigned *)(uintptr_t)address = 41;
	expect_eq(node_free_bytes(), before);
	touch(add, address, 4 * MiB);
	expect_eq(before - node_free_bytes(), 4 * MiB);
	touch(add, address, 4 * MiB);
	expect_eq(before - node_free_bytes(), 4 * MiB);
	expect_eq(*(unsigned *)(uintptr_t)address, 43);
	expect_ok(cuMemPrefetchAsync(address, 20 * MiB, 0, NULL));
	expect_ok(cuCtxSynchronize());
	expect_eq(before - node_free_bytes(), 20 * MiB);
	expect_ok(cuMemPrefetchAsync(address + 2 * MiB, 4 * MiB, CU_DEVICE_CPU, NULL));
	expect_ok(cuCtxSynchronize());
	expect_eq(before - node_free_bytes(), 16 * MiB);
	expect_ok(cuMemFree_v2(address));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

static int range_attribute(CUmem_range_attribute attribute, CUdeviceptr address, size_t bytes)
{
	int number = -77;

	expect_ok(cuMemRangeGetAttribute(&number, sizeof(number), attribute, address, bytes));
	return number;
}

TEST(advice_can_be_read_again)
{
	CUcontext context = node_context();
	CUdeviceptr at;
	int devices[3], number;
	CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};

	expect_ok(cuMemAllocManaged(&at, 5 * MiB, CU_MEM_ATTACH_GLOBAL));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, 5 * MiB), 0);
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 5 * MiB),
		  CU_DEVICE_INVALID);
	expect_ok(cuMemAdvise(at, 5 * MiB, CU_MEM_ADVISE_SET_READ_MOSTLY, 99));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, 5 * MiB), 1);
	/* Of all pages that are asked about; a page is advised as a whole. */
	expect_ok(cuMemAdvise(at + MiB + 1, 10, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, 5 * MiB), 0);
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + MiB + 4095, 1), 0);
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + MiB + 4096, MiB), 1);
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, MiB), 1);
	expect_ok(cuMemAdvise(at, 5 * MiB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + 4 * MiB, 4), 0);

	expect_ok(cuMemAdvise(at, 2 * MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
	expect_ok(cuMemAdvise(at + 2 * MiB, MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
			      CU_DEVICE_CPU));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 2 * MiB), 0);
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at + 2 * MiB, MiB),
		  CU_DEVICE_CPU);
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 3 * MiB),
		  CU_DEVICE_INVALID);
	expect_ok(cuMemAdvise_v2(at, MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, at, MiB),
		  CU_MEM_LOCATION_TYPE_HOST_NUMA);
	expect_ok(cuMemAdvise(at, MiB, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, at, MiB),
		  CU_MEM_LOCATION_TYPE_INVALID);

	expect_ok(cuMemAdvise(at, 3 * MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
	expect_ok(cuMemAdvise(at, 2 * MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
	expect_ok(cuMemRangeGetAttribute(devices, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, MiB));
	expect_eq(devices[0], 0);
	expect_eq(devices[1], CU_DEVICE_CPU);
	expect_eq(devices[2], CU_DEVICE_INVALID);
	expect_ok(cuMemRangeGetAttribute(devices, 8, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at,
					 3 * MiB));
	expect_eq(devices[0], CU_DEVICE_CPU);
	expect_eq(devices[1], CU_DEVICE_INVALID);

	expect_ok(cuMemPrefetchAsync(at, 4 * MiB, 0, NULL));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 4 * MiB), 0);
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 5 * MiB),
		  CU_DEVICE_INVALID);
	expect_ok(cuMemPrefetchAsync(at, 4 * MiB, CU_DEVICE_CPU, NULL));
	expect_eq(range_attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 4096),
		  CU_DEVICE_CPU);

	expect_cuda(cuMemAdvise(at, 5 * MiB + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
		    CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemAdvise(at, MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, 99),
		    CUDA_ERROR_INVALID_DEVICE);
	expect_cuda(cuMemAdvise_v2(at, MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, place),
		    CUDA_ERROR_INVALID_VALUE);
	place.type = CU_MEM_LOCATION_TYPE_INVALID;
	expect_cuda(cuMemPrefetchAsync_v2(at, MiB, place, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemRangeGetAttribute(&number, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at,
					   5 * MiB + 1),
		    CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxSynchronize());
	expect_ok(cuMemFree_v2(at));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(managed_memory_may_exceed_the_device)
{
	CUcontext context = node_context();
	CUfunction add = node_kernel(node_module(), "add");
	size_t before = node_free_bytes(), left = before - 8 * MiB;
	CUdeviceptr most, address;

	expect_ok(cuMemAlloc_v2(&most, left));
	expect_ok(cuMemAllocManaged(&address, 64 * MiB, CU_MEM_ATTACH_GLOBAL));
	touch(add, address, 64 * MiB);
	expect_eq(node_free_bytes(), 0);
	touch(add, address, 64 * MiB);
	for (size_t i = 0; i < 64; i += 2)
		expect_eq(*(unsigned *)(uintptr_t)(address + i * MiB), 2);
	expect_ok(cuMemFree_v2(most));
	expect_eq(node_free_bytes(), left);
	expect_ok(cuMemFree_v2(address));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}
