/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads in one context, and contexts that come and go beside them. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/system/sim/node.h"

#define THREADS 8
#define ROUNDS	40

/* In threads: cmocka's jump out of a failed test is not for them. */
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void run_all(void *(*body)(void *), void *data)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		expect_eq(pthread_create(&threads[i], NULL, body, data), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void check_bytes(CUdeviceptr address, size_t bytes, unsigned char wanted, CUstream stream)
{
	unsigned char *out = malloc(bytes);

	must(cuMemcpyDtoHAsync_v2(out, address, bytes, stream) == CUDA_SUCCESS);
	must(cuStreamSynchronize(stream) == CUDA_SUCCESS);
	for (size_t i = 0; i < bytes; i++)
		must(out[i] == wanted);
	free(out);
}

static void *allocate_and_copy(void *context)
{
	CUstream stream;

	must(cuCtxSetCurrent(context) == CUDA_SUCCESS);
	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	for (int i = 0; i < ROUNDS; i++) {
		size_t bytes = i % 4 == 0 ? 3 * MiB : 100 + (size_t)i * 300;
		CUdeviceptr first, second;

		must(cuMemAlloc_v2(&first, bytes) == CUDA_SUCCESS);
		must(cuMemAllocAsync(&second, bytes, stream) == CUDA_SUCCESS);
		must(cuMemsetD8Async(first, (unsigned char)i, bytes, stream) == CUDA_SUCCESS);
		must(cuMemcpyDtoDAsync_v2(second, first, bytes, stream) == CUDA_SUCCESS);
		check_bytes(second, bytes < 4096 ? bytes : 4096, (unsigned char)i, stream);
		must(cuMemFreeAsync(second, stream) == CUDA_SUCCESS);
		must(cuMemFree_v2(first) == CUDA_SUCCESS);
	}
	must(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
	return NULL;
}

TEST(threads_allocate_copy_and_free_in_one_context)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();

	run_all(allocate_and_copy, context);
	expect_ok(cuCtxSynchronize());
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

static void *map_and_unmap(void *context)
{
	static const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	static const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
					       CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;
	CUstream stream;

	must(cuCtxSetCurrent(context) == CUDA_SUCCESS);
	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	must(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0) == CUDA_SUCCESS);
	for (int i = 0; i < ROUNDS; i++) {
		CUmemGenericAllocationHandle handle;

		must(cuMemCreate(&handle, 2 * MiB, &properties, 0) == CUDA_SUCCESS);
		must(cuMemMap(address, 2 * MiB, 0, handle, 0) == CUDA_SUCCESS);
		must(cuMemSetAccess(address, 2 * MiB, &access, 1) == CUDA_SUCCESS);
		must(cuMemRelease(handle) == CUDA_SUCCESS);
		must(cuMemsetD8Async(address, (unsigned char)i, 2 * MiB, stream) == CUDA_SUCCESS);
		check_bytes(address + MiB, 4096, (unsigned char)i, stream);
		must(cuMemUnmap(address, 2 * MiB) == CUDA_SUCCESS);
	}
	must(cuMemAddressFree(address, 2 * MiB) == CUDA_SUCCESS);
	must(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
	return NULL;
}

TEST(threads_map_and_unmap_beside_each_other)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();

	run_all(map_and_unmap, context);
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

static void *come_and_go(void *unused_data)
{
	(void)unused_data;
	for (int i = 0; i < ROUNDS / 4; i++) {
		CUcontext context;
		CUdeviceptr address;
		void *host;

		must(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
		must(cuMemAlloc_v2(&address, 5000) == CUDA_SUCCESS);
		must(cuMemHostAlloc(&host, 5000, 0) == CUDA_SUCCESS);
		must(cuMemsetD8_v2(address, 1, 5000) == CUDA_SUCCESS);
		must(cuCtxDestroy_v2(context) == CUDA_SUCCESS);
		must(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
		must(cuCtxSetCurrent(context) == CUDA_SUCCESS);
		must(cuMemAlloc_v2(&address, 5000) == CUDA_SUCCESS);
		must(cuMemFree_v2(address) == CUDA_SUCCESS);
		must(cuCtxSetCurrent(NULL) == CUDA_SUCCESS);
		must(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	}
	return NULL;
}

TEST(contexts_come_and_go_on_many_threads)
{
	CUcontext context = node_context();
	size_t before = node_free_bytes();

	run_all(come_and_go, NULL);
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

static void *initialise(void *unused_data)
{
	void *address;

	(void)unused_data;
	must(cuInit(0) == CUDA_SUCCESS);
	must(cuGetProcAddress("cuMemAlloc", &address, 12000, 0) == CUDA_SUCCESS);
	return NULL;
}

TEST(threads_initialise_at_once)
{
	run_all(initialise, NULL);
}
