/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tests/guest/memory_ways.h"

struct load g;
struct piece pieces[MOST];

static CUmemAllocationProp on_device(void)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};
}

CUresult take_linear(struct piece *p)
{
	return g.cuMemAlloc_v2(&p->address, p->bytes);
}

void give_linear(struct piece *p)
{
	ok(g.cuMemFree_v2(p->address));
}

static CUresult take_pitch(struct piece *p)
{
	size_t pitch;

	return g.cuMemAllocPitch_v2(&p->address, &pitch, p->bytes / 7 + 1, 7, 4);
}

CUresult take_managed(struct piece *p)
{
	return g.cuMemAllocManaged(&p->address, p->bytes, CU_MEM_ATTACH_GLOBAL);
}

CUresult take_async(struct piece *p)
{
	return g.cuMemAllocAsync(&p->address, p->bytes, NULL);
}

void give_async(struct piece *p)
{
	ok(g.cuMemFreeAsync(p->address, NULL));
}

/* Memory that is ordered by a stream must be there before it can be freed without one. */
static void give_at_once(struct piece *p)
{
	ok(g.cuCtxSynchronize());
	ok(g.cuMemFree_v2(p->address));
}

static CUresult take_pool(struct piece *p)
{
	return g.cuMemAllocFromPoolAsync(&p->address, p->bytes, g.pool, NULL);
}

/* Synchronous memory, freed in a stream's order, and the other way round. */
static void give_the_other_way(struct piece *p)
{
	ok(g.cuMemFreeAsync(p->address, NULL));
}

static CUresult take_virtual(struct piece *p)
{
	CUmemAllocationProp prop = on_device();
	CUmemGenericAllocationHandle again;
	CUresult r;

	p->bytes = (p->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	r = g.cuMemCreate(&p->handle, p->bytes, &prop, 0);
	if (r != CUDA_SUCCESS)
		return r;
	ok(g.cuMemAddressReserve(&p->address, p->bytes, 0, 0, 0));
	ok(g.cuMemMap(p->address, p->bytes, 0, p->handle, 0));
	/* As programs do: the mapping keeps the memory. */
	ok(g.cuMemRelease(p->handle));
	ok(g.cuMemRetainAllocationHandle(&again, (char *)(uintptr_t)p->address + p->bytes - 1));
	ok(g.cuMemRelease(again));
	return r;
}

static void give_virtual(struct piece *p)
{
	ok(g.cuMemUnmap(p->address, p->bytes));
	ok(g.cuMemAddressFree(p->address, p->bytes));
}

/* Not mapped at all: the handle alone holds the memory. */
static CUresult take_handle(struct piece *p)
{
	CUmemAllocationProp prop = on_device();

	p->bytes = (p->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	return g.cuMemCreate(&p->handle, p->bytes, &prop, 0);
}

static void give_handle(struct piece *p)
{
	ok(g.cuMemRelease(p->handle));
}

CUresult take_array(struct piece *p)
{
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1024,
				       .Height = p->bytes / 4096 + 1,
				       .Format = CU_AD_FORMAT_FLOAT,
				       .NumChannels = 1};

	return g.cuArrayCreate_v2(&p->array, &shape);
}

static CUresult take_array3d(struct piece *p)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 64,
					 .Height = 16,
					 .Depth = p->bytes / 4096 + 1,
					 .Format = CU_AD_FORMAT_UNSIGNED_INT32,
					 .NumChannels = 1};

	return g.cuArray3DCreate_v2(&p->array, &shape);
}

static void give_array(struct piece *p)
{
	ok(g.cuArrayDestroy(p->array));
}

/* Two levels, a quarter more than the first one. */
static CUresult take_mipmap(struct piece *p)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024,
					 .Height = p->bytes / 4096 * 4 / 5 + 1,
					 .Format = CU_AD_FORMAT_FLOAT,
					 .NumChannels = 1};

	return g.cuMipmappedArrayCreate(&p->mipmap, &shape, 2);
}

static void give_mipmap(struct piece *p)
{
	ok(g.cuMipmappedArrayDestroy(p->mipmap));
}

static CUresult take_graph(struct piece *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}},
		.bytesize = p->bytes};
	CUgraphNode node;
	CUresult r;

	ok(g.cuGraphCreate(&p->graph, 0));
	r = g.cuGraphAddMemAllocNode(&node, p->graph, NULL, 0, &alloc);
	if (r == CUDA_SUCCESS)
		r = g.cuGraphAddMemFreeNode(&node, p->graph, &node, 1, alloc.dptr);
	if (r == CUDA_SUCCESS)
		r = g.cuGraphInstantiateWithFlags(&p->exec, p->graph, 0);
	if (r == CUDA_SUCCESS) {
		r = g.cuGraphLaunch(p->exec, NULL);
		ok(g.cuCtxSynchronize());
		if (r != CUDA_SUCCESS)
			ok(g.cuGraphExecDestroy(p->exec));
	}
	if (r != CUDA_SUCCESS)
		ok(g.cuGraphDestroy(p->graph));
	return r;
}

static void give_graph(struct piece *p)
{
	ok(g.cuGraphExecDestroy(p->exec));
	ok(g.cuGraphDestroy(p->graph));
}

const struct way ways[] = {
	{"linear", take_linear, give_linear, false, FILL},
	{"pitch", take_pitch, give_linear, false, FILL},
	{"managed", take_managed, give_linear, true, FILL},
	{"async", take_async, give_async, false, FILL},
	{"pool", take_pool, give_async, false, FILL},
	{"async-freed-at-once", take_async, give_at_once, false, FILL},
	{"linear-freed-in-order", take_linear, give_the_other_way, false, FILL},
	{"virtual", take_virtual, give_virtual, false, FILL},
	{"handle", take_handle, give_handle, false, FILL},
	{"array", take_array, give_array, true, FILL},
	{"array3d", take_array3d, give_array, true, FILL},
	{"mipmap", take_mipmap, give_mipmap, true, FILL},
	{"graph", take_graph, give_graph, true, FILL_GRAPHS},
};

const size_t ways_count = ARRAY_SIZE(ways);

size_t held(void)
{
	size_t available, total;

	ok(g.truth(&available, &total));
	return total - available - g.before;
}

void check_limit(const char *when)
{
	size_t truth = held();

	if (truth > g.limit)
		fail("%s the device holds %zu bytes, and the limit is %zu", when, truth, g.limit);
}

void settle(void)
{
	ok(g.cuCtxSynchronize());
	if (g.pool)
		ok(g.cuMemPoolTrimTo(g.pool, 0));
	best_effort(g.cuDeviceGraphMemTrim(g.device));
}

void all_free(const char *after)
{
	size_t available = 0, total;

	/* Four minutes, which only a failure takes. */
	for (int i = 0; i < 48000; i++) {
		ok(g.cuMemGetInfo_v2(&available, &total));
		if (available == g.free_at_start)
			return;
		usleep(5000);
	}
	fail("after %s %zu bytes are free, and before %zu were", after, available, g.free_at_start);
}
