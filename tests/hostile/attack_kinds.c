/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of memory whose size or place is not plain: managed, mipmapped, sparse, other pools. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { ADVICES = 6, PIECE = 24 * MIB };

static void advise(CUdeviceptr address, unsigned seed)
{
	unsigned random = seed;

	for (int i = 0; i < 12; i++) {
		size_t from = (size_t)(rand_r(&random) % 6) * 4 * MIB;
		CUdevice place = rand_r(&random) % 2 ? CU_DEVICE_CPU : g.device;

		CALL(cuMemAdvise)
		(address + from, PIECE - from,
		 (CUmem_advise)(CU_MEM_ADVISE_SET_READ_MOSTLY + rand_r(&random) % ADVICES), place);
		CALL(cuMemPrefetchAsync)(address + from, PIECE - from, place, NULL);
	}
}

static void advise_many(void)
{
	struct piece piece = {.bytes = PIECE};

	for (unsigned i = 0; i < 8 && take_managed(&piece) == CUDA_SUCCESS; i++) {
		memset((void *)(uintptr_t)piece.address, 1, piece.bytes);
		advise(piece.address, i + 1);
		if (i % 3 == 0)
			g.cuMemFree_v2(piece.address);
	}
}

void attack_managed_advised(void)
{
	in_threads(4, advise_many);
	g.cuCtxSynchronize();
	take_everything();
}

/* Memory of one stream, whose stream ends; of the host, of all. */
void attack_managed_attached(void)
{
	static const unsigned kinds[] = {CU_MEM_ATTACH_SINGLE, CU_MEM_ATTACH_HOST,
					 CU_MEM_ATTACH_GLOBAL};

	for (size_t i = 0; i < 30; i++) {
		struct piece piece = {.bytes = PIECE};
		CUstream stream;

		if (take_managed(&piece) != CUDA_SUCCESS ||
		    CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
			break;
		CALL(cuStreamAttachMemAsync)
		(stream, piece.address, piece.bytes, kinds[i % ARRAY_SIZE(kinds)]);
		CALL(cuMemsetD8Async)(piece.address, 3, piece.bytes, stream);
		CALL(cuStreamDestroy_v2)(stream);
		if (i % 4 == 0)
			g.cuMemFreeAsync(piece.address, NULL);
	}
	g.cuCtxSynchronize();
	take_everything();
}

/* Levels are destroyed in the place of their whole, and the whole twice. */
void attack_mipmap_levels(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 1500, .Height = 1100, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};

	for (unsigned i = 0; i < 200; i++) {
		CUmipmappedArray mipmap;
		CUarray level;

		if (g.cuMipmappedArrayCreate(&mipmap, &shape, 1 + i % 11) != CUDA_SUCCESS)
			break;
		for (unsigned n = 0; n < 12; n++)
			if (CALL(cuMipmappedArrayGetLevel)(&level, mipmap, n) == CUDA_SUCCESS &&
			    i % 2)
				g.cuArrayDestroy(level);
		if (i % 3 == 0) {
			g.cuMipmappedArrayDestroy(mipmap);
			g.cuMipmappedArrayDestroy(mipmap);
		}
	}
	take_everything();
}

/* Arrays that claim to have no memory yet, cubes, layers, and sizes that no array has. */
void attack_arrays_odd(void)
{
	static const unsigned flags[] = {0,
					 CUDA_ARRAY3D_LAYERED,
					 CUDA_ARRAY3D_CUBEMAP,
					 CUDA_ARRAY3D_SPARSE,
					 CUDA_ARRAY3D_DEFERRED_MAPPING,
					 CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_LAYERED,
					 UINT32_MAX};

	for (size_t i = 0; i < 400; i++) {
		CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = (i % 5 == 4) ? SIZE_MAX / 16 : 256 + i,
						 .Height = (i % 7 == 6) ? SIZE_MAX / 8 : 256 + i,
						 .Depth = i % 3 ? 6 : 0,
						 .Format = CU_AD_FORMAT_FLOAT,
						 .NumChannels = 4,
						 .Flags = flags[i % ARRAY_SIZE(flags)]};
		CUmipmappedArray mipmap;
		CUarray array;

		g.cuArray3DCreate_v2(&array, &shape);
		g.cuMipmappedArrayCreate(&mipmap, &shape, 4);
	}
	take_everything();
}

/* The device's pool is exchanged under threads that allocate from whichever it is. */
static void exchange_pools(void)
{
	static int count;
	bool exchanges = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) == 0;
	uint64_t t = 0, keep = UINT64_MAX;

	while (until(&t, 600)) {
		CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					.location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
		CUmemoryPool pool;
		CUdeviceptr piece;

		if (!exchanges) {
			if (g.cuMemAllocAsync(&piece, 9 * MIB, NULL) == CUDA_SUCCESS)
				g.cuMemFreeAsync(piece, NULL);
			continue;
		}
		if (g.cuMemPoolCreate(&pool, &props) != CUDA_SUCCESS)
			continue;
		g.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
		CALL(cuDeviceSetMemPool)(g.device, pool);
		usleep(2000);
		g.cuMemPoolDestroy(pool);
	}
}

void attack_pools_exchanged(void)
{
	in_threads(5, exchange_pools);
	take_everything();
}

/* Green contexts and their primary one, where the driver has them; each ends in the middle. */
static void green_in_the_middle(void)
{
	uint64_t t = 0;

	while (until(&t, 500)) {
		CUdevResource resource;
		CUdevResourceDesc desc;
		CUcontext context;
		CUgreenCtx green;
		CUdeviceptr piece;

		if (CALL(cuDeviceGetDevResource)(g.device, &resource, CU_DEV_RESOURCE_TYPE_SM) !=
			    CUDA_SUCCESS ||
		    CALL(cuDevResourceGenerateDesc)(&desc, &resource, 1) != CUDA_SUCCESS ||
		    CALL(cuGreenCtxCreate)(&green, desc, g.device, CU_GREEN_CTX_DEFAULT_STREAM) !=
			    CUDA_SUCCESS)
			break;
		if (CALL(cuCtxFromGreenCtx)(&context, green) == CUDA_SUCCESS) {
			g.cuCtxSetCurrent(context);
			g.cuMemAlloc_v2(&piece, 6 * MIB);
			g.cuMemAllocAsync(&piece, 6 * MIB, NULL);
		}
		CALL(cuGreenCtxDestroy)(green);
	}
}

void attack_green_contexts(void)
{
	in_threads(4, green_in_the_middle);
	enter();
	take_everything();
}
