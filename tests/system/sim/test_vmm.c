/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/sim/node.h"

static const CUmemAllocationProp plain = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAllocationProp shareable = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc both = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmemAccessDesc reading = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
					CU_MEM_ACCESS_FLAGS_PROT_READ};

TEST(reservations_cost_nothing_and_are_freed_whole)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUdeviceptr address, wanted;

	expect_cuda(cuMemAddressReserve(&address, 1000, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemAddressReserve(&address, 10000 * MiB, 0, 0, 0));
	expect_eq(node_free_bytes(), before);
	expect_cuda(cuMemAddressFree(address, 2 * MiB), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemAddressFree(address, 10000 * MiB));
	expect_cuda(cuMemAddressFree(address, 10000 * MiB), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemAddressReserve(&wanted, 4 * MiB, 0, address + 64 * MiB, 0));
	expect_eq(wanted, address + 64 * MiB);
	expect_ok(cuMemAddressFree(wanted, 4 * MiB));
	expect_ok(cuMemAddressReserve(&address, 2 * MiB, 512 * MiB, 0, 0));
	expect_eq(address % (512 * MiB), 0);
	expect_ok(cuMemAddressFree(address, 2 * MiB));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(physical_memory_is_counted_until_its_last_user_has_gone)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes(), granularity;
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr address;

	expect_ok(cuMemGetAllocationGranularity(&granularity, &plain,
						CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	expect_eq(granularity, 2 * MiB);
	expect_cuda(cuMemCreate(&handle, 1000, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemCreate(&handle, before + 2 * MiB, &plain, 0), CUDA_ERROR_OUT_OF_MEMORY);
	expect_ok(cuMemCreate(&handle, 4 * MiB, &plain, 0));
	expect_eq(before - node_free_bytes(), 4 * MiB);
	expect_ok(cuMemAddressReserve(&address, 8 * MiB, 0, 0, 0));
	expect_ok(cuMemMap(address, 4 * MiB, 0, handle, 0));
	expect_cuda(cuMemMap(address, 4 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemMap(address + 6 * MiB, 4 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemRelease(handle));
	expect_cuda(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	expect_eq(before - node_free_bytes(), 4 * MiB);
	expect_ok(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + 100)));
	expect_eq(again, handle);
	expect_ok(cuMemRelease(again));
	expect_cuda(cuMemAddressFree(address, 8 * MiB), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemUnmap(address, 2 * MiB), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemUnmap(address, 4 * MiB));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuMemAddressFree(address, 8 * MiB));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_mapping_is_of_no_use_without_access)
{
	CUcontext context = node_context();
	CUmemGenericAllocationHandle handle;
	unsigned long long flags;
	CUdeviceptr address;
	int word = 5;

	expect_ok(cuMemCreate(&handle, 2 * MiB, &plain, 0));
	expect_ok(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0));
	expect_cuda(cuMemcpyHtoD_v2(address, &word, 4), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemMap(address, 2 * MiB, 0, handle, 0));
	expect_ok(cuMemGetAccess(&flags, &both.location, address));
	expect_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	expect_ok(cuMemSetAccess(address, 2 * MiB, &both, 1));
	expect_ok(cuMemGetAccess(&flags, &both.location, address));
	expect_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	expect_ok(cuMemcpyHtoD_v2(address, &word, 4));
	expect_ok(cuMemSetAccess(address, 2 * MiB, &reading, 1));
	word = 0;
	expect_ok(cuMemcpyDtoH_v2(&word, address, 4));
	expect_eq(word, 5);
	expect_cuda(cuMemcpyHtoD_v2(address, &word, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
	expect_cuda(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	expect_ok(cuMemUnmap(address, 2 * MiB));
	expect_ok(cuMemRelease(handle));
	expect_ok(cuMemAddressFree(address, 2 * MiB));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(one_allocation_shows_at_two_addresses_and_moves)
{
	CUcontext context = node_context();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	int word = 42;

	expect_ok(cuMemCreate(&handle, 2 * MiB, &plain, 0));
	expect_ok(cuMemAddressReserve(&address, 4 * MiB, 0, 0, 0));
	expect_ok(cuMemMap(address, 2 * MiB, 0, handle, 0));
	expect_ok(cuMemMap(address + 2 * MiB, 2 * MiB, 0, handle, 0));
	expect_ok(cuMemSetAccess(address, 4 * MiB, &both, 1));
	expect_ok(cuMemcpyHtoD_v2(address + 100, &word, 4));
	expect_ok(cuMemcpyDtoH_v2(&word, address + 2 * MiB + 100, 4));
	expect_eq(word, 42);
	expect_ok(cuMemUnmap(address, 4 * MiB));
	/* Evicted and back at the same address, in other physical memory. */
	expect_ok(cuMemRelease(handle));
	expect_ok(cuMemCreate(&handle, 2 * MiB, &plain, 0));
	expect_ok(cuMemMap(address, 2 * MiB, 0, handle, 0));
	expect_ok(cuMemSetAccess(address, 2 * MiB, &both, 1));
	expect_ok(cuMemcpyDtoH_v2(&word, address + 100, 4));
	expect(word != 42);
	expect_ok(cuMemUnmap(address, 2 * MiB));
	expect_ok(cuMemRelease(handle));
	expect_ok(cuMemAddressFree(address, 4 * MiB));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_descriptor_carries_memory_to_a_second_handle)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUmemGenericAllocationHandle handle, imported;
	CUdeviceptr address;
	int fd, word = 77;

	expect_ok(cuMemCreate(&handle, 2 * MiB, &plain, 0));
	expect_cuda(cuMemExportToShareableHandle(&fd, handle,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		    CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemRelease(handle));
	expect_ok(cuMemCreate(&handle, 2 * MiB, &shareable, 0));
	expect_ok(cuMemExportToShareableHandle(&fd, handle,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	expect_ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	expect_eq(before - node_free_bytes(), 2 * MiB);
	expect_ok(cuMemAddressReserve(&address, 4 * MiB, 0, 0, 0));
	expect_ok(cuMemMap(address, 2 * MiB, 0, handle, 0));
	expect_ok(cuMemMap(address + 2 * MiB, 2 * MiB, 0, imported, 0));
	expect_ok(cuMemSetAccess(address, 4 * MiB, &both, 1));
	expect_ok(cuMemcpyHtoD_v2(address, &word, 4));
	word = 0;
	expect_ok(cuMemcpyDtoH_v2(&word, address + 2 * MiB, 4));
	expect_eq(word, 77);
	expect_cuda(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)0,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		    CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemUnmap(address, 4 * MiB));
	expect_ok(cuMemRelease(handle));
	expect_ok(cuMemRelease(imported));
	expect_ok(cuMemAddressFree(address, 4 * MiB));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

static CUmemGenericAllocationHandle import(int fd)
{
	CUmemGenericAllocationHandle handle;

	expect_ok(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	return handle;
}

TEST(exported_memory_is_counted_while_a_descriptor_or_an_import_lives)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUmemGenericAllocationHandle handle, first, second;
	int fd, copy;

	expect_ok(cuMemCreate(&handle, 2 * MiB, &shareable, 0));
	expect_ok(cuMemExportToShareableHandle(&fd, handle,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	expect_ok(cuMemRelease(handle));
	expect_eq(before - node_free_bytes(), 2 * MiB);
	copy = dup(fd);
	close(fd);
	expect_eq(before - node_free_bytes(), 2 * MiB);
	first = import(copy);
	second = import(copy);
	expect_eq(before - node_free_bytes(), 2 * MiB);
	close(copy);
	expect_ok(cuMemRelease(first));
	expect_eq(before - node_free_bytes(), 2 * MiB);
	expect_ok(cuMemRelease(second));
	expect_eq(node_free_bytes(), before);
	/* Without an import, it is the descriptor's end that counts. */
	expect_ok(cuMemCreate(&handle, 2 * MiB, &shareable, 0));
	expect_ok(cuMemExportToShareableHandle(&fd, handle,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	expect_ok(cuMemRelease(handle));
	expect_eq(before - node_free_bytes(), 2 * MiB);
	close(fd);
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(exported_memory_does_not_exceed_the_device)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUmemGenericAllocationHandle handle;
	int fds[32], made = 0;

	while (made < 32 && cuMemCreate(&handle, 256 * MiB, &shareable, 0) == CUDA_SUCCESS) {
		expect_ok(cuMemExportToShareableHandle(
			&fds[made++], handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		expect_ok(cuMemRelease(handle));
	}
	expect_eq(made, (int)(before / (256 * MiB)));
	while (made > 0)
		close(fds[--made]);
	expect_ok(cuMemCreate(&handle, before / (2 * MiB) * (2 * MiB), &plain, 0));
	expect_ok(cuMemRelease(handle));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}
