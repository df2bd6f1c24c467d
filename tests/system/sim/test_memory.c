/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/system/sim/node.h"

TEST(capacity_is_exact_and_a_refusal_takes_nothing)
{
	CUcontext context = node_context();
	size_t available = node_free_bytes();
	CUdeviceptr all, more;

	expect_eq(available % (2 * MiB), 0);
	expect_cuda(cuMemAlloc_v2(&all, available + 1), CUDA_ERROR_OUT_OF_MEMORY);
	expect_eq(node_free_bytes(), available);
	expect_ok(cuMemAlloc_v2(&all, available));
	expect_eq(node_free_bytes(), 0);
	expect_cuda(cuMemAlloc_v2(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
	expect_ok(cuMemFree_v2(all));
	expect_eq(node_free_bytes(), available);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(small_allocations_share_a_block_of_two_mebibytes)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUdeviceptr address[100];

	for (int i = 0; i < 100; i++) {
		expect_ok(cuMemAlloc_v2(&address[i], 1 + (size_t)i * 100));
		expect_eq(address[i] % 512, 0);
	}
	expect_eq(before - node_free_bytes(), 2 * MiB);
	for (int i = 0; i < 100; i++)
		expect_ok(cuMemFree_v2(address[i]));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(bad_requests_are_told_apart)
{
	CUcontext context = node_context();
	CUdeviceptr address;
	size_t pitch;

	expect_cuda(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemAlloc_v2(&address, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	expect_cuda(cuMemAllocPitch_v2(&address, &pitch, 10, 10, 3), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemFree_v2(0));
	expect_ok(cuMemAlloc_v2(&address, 1000));
	expect_cuda(cuMemFree_v2(address + 1), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemFree_v2(address));
	expect_cuda(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
	expect_cuda(cuMemAlloc_v2(&address, 1000), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(fresh_and_reused_memory_holds_the_pattern)
{
	CUcontext context = node_context();
	unsigned char bytes[3][64];
	CUdeviceptr address;

	for (int round = 0; round < 3; round++) {
		size_t size = round == 2 ? 100 * MiB : 4096;

		expect_ok(cuMemAlloc_v2(&address, size));
		expect_ok(cuMemcpyDtoH_v2(bytes[round], address + size - 64, 64));
		expect_eq(bytes[round][0], 0xc9);
		expect_eq(bytes[round][63], 0xc9);
		expect_ok(cuMemsetD8_v2(address, 0, size < MiB ? size : MiB));
		expect_ok(cuMemFree_v2(address));
	}
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(pitched_memory_has_room_for_every_row)
{
	CUcontext context = node_context();
	CUdeviceptr address, base;
	size_t pitch, bytes;

	expect_ok(cuMemAllocPitch_v2(&address, &pitch, 1000, 30, 4));
	expect_eq(pitch, 1024);
	expect_ok(cuMemGetAddressRange_v2(&base, &bytes, address + 5000));
	expect_eq(base, address);
	expect_eq(bytes, 1024 * 30);
	expect_cuda(cuMemGetAddressRange_v2(&base, &bytes, 0x1000), CUDA_ERROR_NOT_FOUND);
	expect_ok(cuMemFree_v2(address));
	expect_ok(cuCtxDestroy_v2(context));
}

/* numba compares it with its records' sizes; a program may still touch the rest of the last unit.
 */
TEST(a_program_is_told_the_size_it_asked_for)
{
	CUcontext context = node_context();
	CUstream stream;
	CUdeviceptr plain, pooled, base;
	size_t bytes = 0, wide = 0;

	expect_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	expect_ok(cuMemAlloc_v2(&plain, 1001));
	expect_ok(cuMemGetAddressRange_v2(&base, &bytes, plain + 1000));
	expect_eq(base, plain);
	expect_eq(bytes, 1001);
	expect_ok(cuPointerGetAttribute(&wide, CU_POINTER_ATTRIBUTE_RANGE_SIZE, plain));
	expect_eq(wide, 1001);
	expect_ok(cuMemsetD8_v2(plain, 1, 1024));
	expect_ok(cuMemAllocAsync(&pooled, 3 * MiB + 5, stream));
	expect_ok(cuStreamSynchronize(stream));
	expect_ok(cuMemGetAddressRange_v2(&base, &bytes, pooled));
	expect_eq(bytes, 3 * MiB + 5);
	expect_ok(cuMemFreeAsync(pooled, stream));
	expect_ok(cuMemFree_v2(plain));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(nothing_may_be_allocated_in_a_streams_order)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes(), n = 9;
	CUdeviceptr address = 7;
	CUmemoryPool pool;
	CUstream stream;
	CUgraph graph;

	expect_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	expect_ok(cuDeviceGetDefaultMemPool(&pool, 0));
	expect_ok(cuMemAllocAsync(&address, 0, stream));
	expect_eq(address, 0);
	expect_ok(cuMemFreeAsync(address, stream));
	address = 7;
	expect_ok(cuMemAllocFromPoolAsync(&address, 0, pool, stream));
	expect_eq(address, 0);
	expect_cuda(cuMemAllocAsync(NULL, 0, stream), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect_ok(cuMemAllocAsync(&address, 0, stream));
	expect_ok(cuStreamEndCapture(stream, &graph));
	expect_ok(cuGraphGetNodes(graph, NULL, &n));
	expect_eq(n, 0);
	expect_ok(cuGraphDestroy(graph));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

static sigjmp_buf faulted;

static void on_fault(int signal_number)
{
	(void)signal_number;
	siglongjmp(faulted, 1);
}

TEST(the_host_cannot_touch_device_memory)
{
	CUcontext context = node_context();
	struct sigaction action = {.sa_handler = on_fault}, before;
	CUdeviceptr address;
	volatile bool touched = false;

	expect_ok(cuMemAlloc_v2(&address, 4096));
	sigaction(SIGSEGV, &action, &before);
	if (!sigsetjmp(faulted, 1)) {
		*(volatile char *)(uintptr_t)address = 1;
		touched = true;
	}
	sigaction(SIGSEGV, &before, NULL);
	expect(!touched);
	expect_ok(cuMemFree_v2(address));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(pinned_memory_is_one_address_for_both)
{
	CUcontext context = node_context();
	CUdeviceptr address;
	unsigned flags;
	char *memory;

	expect_cuda(cuMemHostAlloc((void **)&memory, 0, 0), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemHostAlloc((void **)&memory, 1, 0x100), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemHostAlloc((void **)&memory, 10000, CU_MEMHOSTALLOC_PORTABLE));
	memory[9999] = 1;
	expect_ok(cuMemHostGetDevicePointer_v2(&address, memory, 0));
	expect_eq(address, (uintptr_t)memory);
	expect_ok(cuMemHostGetFlags(&flags, memory));
	expect(flags & CU_MEMHOSTALLOC_PORTABLE);
	expect_cuda(cuMemFreeHost(memory + 1), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemFreeHost(memory));
	expect_cuda(cuMemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(host_memory_is_registered_once)
{
	CUcontext context = node_context();
	char *memory = malloc(10000);

	expect_ok(cuMemHostRegister_v2(memory, 10000, 0));
	expect_cuda(cuMemHostRegister_v2(memory + 100, 100, 0),
		    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	expect_ok(cuMemHostUnregister(memory));
	expect_cuda(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	free(memory);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(pointers_are_described)
{
	CUcontext context = node_context(), whose;
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_IS_MANAGED};
	unsigned type;
	int device;
	bool managed;
	void *answers[] = {&type, &device, &managed};
	CUdeviceptr address, start;
	void *host;

	expect_ok(cuMemAlloc_v2(&address, 5000));
	expect_ok(cuPointerGetAttribute(&whose, CU_POINTER_ATTRIBUTE_CONTEXT, address + 10));
	expect(whose == context);
	expect_ok(
		cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 10));
	expect_eq(start, address);
	expect_cuda(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
		    CUDA_ERROR_INVALID_VALUE);
	expect_cuda(
		cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&type),
		CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuPointerGetAttributes(3, asked, answers, address));
	expect_eq(type, CU_MEMORYTYPE_DEVICE);
	expect_eq(device, 0);
	expect_eq(managed, 0);
	expect_ok(cuPointerGetAttributes(3, asked, answers, (uintptr_t)&type));
	expect_eq(type, 0);
	expect_eq(device, CU_DEVICE_INVALID);
	expect_ok(cuMemAllocManaged(&address, 100, CU_MEM_ATTACH_GLOBAL));
	*(char *)(uintptr_t)address = 1;
	expect_ok(cuPointerGetAttributes(3, asked, answers, address));
	expect_eq(managed, 1);
	expect_ok(cuMemFree_v2(address));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_pool_keeps_memory_up_to_its_threshold)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUmemoryPool pool;
	CUdeviceptr address;
	uint64_t bytes, threshold = 64 * MiB;

	expect_ok(cuDeviceGetDefaultMemPool(&pool, 0));
	expect_ok(cuMemAllocAsync(&address, 8 * MiB, NULL));
	expect_ok(cuMemsetD8Async(address, 3, 8 * MiB, NULL));
	expect_ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
	expect_eq(bytes, 8 * MiB);
	expect_ok(cuMemFreeAsync(address, NULL));
	expect_ok(cuStreamSynchronize(NULL));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	expect_ok(cuMemAllocAsync(&address, 8 * MiB, NULL));
	expect_ok(cuMemFreeAsync(address, NULL));
	expect_ok(cuStreamSynchronize(NULL));
	expect_eq(before - node_free_bytes(), 8 * MiB);
	expect_ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
	expect_eq(bytes, 0);
	expect_ok(cuMemPoolTrimTo(pool, 0));
	expect_eq(node_free_bytes(), before);
	expect_cuda(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(memory_freed_in_a_streams_order_serves_the_next_allocation)
{
	CUcontext context = node_context();
	CUdeviceptr address;
	CUstream stream;

	expect_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 50; i++) {
		expect_ok(cuMemAllocAsync(&address, 1000 * MiB, i % 2 ? stream : NULL));
		expect_ok(cuMemsetD8Async(address, 1, 100000, i % 2 ? stream : NULL));
		expect_ok(cuMemFreeAsync(address, i % 2 ? stream : NULL));
	}
	expect_cuda(cuMemAllocAsync(&address, 5000 * MiB, stream), CUDA_ERROR_OUT_OF_MEMORY);
	expect_ok(cuCtxSynchronize());
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_destroyed_pool_goes_with_its_last_allocation)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemoryPool pool;
	CUdeviceptr address;

	expect_ok(cuMemPoolCreate(&pool, &properties));
	expect_ok(cuMemAllocFromPoolAsync(&address, 100, pool, NULL));
	expect_ok(cuMemPoolDestroy(pool));
	expect_cuda(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemsetD8Async(address, 3, 100, NULL));
	expect_ok(cuMemFree_v2(address));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_hundred_thousand_live_pointers_are_no_trouble)
{
	static CUdeviceptr live[100000];
	CUcontext context = node_context();
	size_t before = node_free_bytes();

	for (size_t i = 0; i < ARRAY_SIZE(live); i++)
		expect_ok(cuMemAlloc_v2(&live[i], 64));
	expect_eq(before - node_free_bytes(), (ARRAY_SIZE(live) + 4095) / 4096 * 2 * MiB);
	for (size_t i = 0; i < ARRAY_SIZE(live); i += 2)
		expect_ok(cuMemFree_v2(live[i]));
	expect_ok(cuCtxDestroy_v2(context)); /* the other half goes with it */
}

struct piece {
	CUdeviceptr address;
	size_t bytes;
	unsigned mark;
};

static void mark_check(const struct piece *piece)
{
	unsigned first, last;

	expect_ok(cuMemcpyDtoH_v2(&first, piece->address, 4));
	expect_ok(cuMemcpyDtoH_v2(&last, piece->address + piece->bytes - 4, 4));
	expect_eq(first, piece->mark);
	expect_eq(last, piece->mark);
}

TEST(after_any_history_allocations_are_apart_and_whole)
{
	static struct piece pieces[200];
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	unsigned rounds = test_rounds(3000);

	memset(pieces, 0, sizeof(pieces));
	for (unsigned i = 0; i < rounds; i++) {
		struct piece *piece = &pieces[test_random_below(ARRAY_SIZE(pieces))];

		if (piece->address) {
			mark_check(piece);
			expect_ok(cuMemFree_v2(piece->address));
			piece->address = 0;
			continue;
		}
		piece->bytes = 4 + 4 * test_random_below(test_random_below(10) ? 20000 : 1000000);
		piece->mark = i + 1;
		expect_ok(cuMemAlloc_v2(&piece->address, piece->bytes));
		expect_ok(cuMemsetD32_v2(piece->address, piece->mark, piece->bytes / 4));
		for (size_t j = 0; j < ARRAY_SIZE(pieces); j++) {
			const struct piece *other = &pieces[j];

			if (other != piece && other->address)
				expect(other->address + other->bytes <= piece->address ||
				       piece->address + piece->bytes <= other->address);
		}
	}
	for (size_t j = 0; j < ARRAY_SIZE(pieces); j++) {
		if (pieces[j].address) {
			mark_check(&pieces[j]);
			expect_ok(cuMemFree_v2(pieces[j].address));
		}
	}
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}
