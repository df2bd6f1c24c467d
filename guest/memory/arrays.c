/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory an array takes follows from its shape and the driver's padding. Its rows are
 * charged as padded; if that is more than half a block, in whole blocks, as with linear memory.
 * Smaller arrays share blocks: the device's free memory before and after shows whether an existing
 * block had room. Since others may allocate and free meanwhile, this only decides between the
 * padded rows and one block: the rest is found by measuring.
 *
 * A sparse array, and one whose mapping is deferred, has no memory: the memory that is mapped into
 * it was created, and is charged, elsewhere.
 */
#include "guest/memory/arrays.h"

#include <stdbool.h>
#include <string.h>

#include "guest/contexts/memory_place.h"
#include "guest/credit/blocks.h"
#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/driver_lock.h"
#include "guest/hooks.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"

static struct {
	struct pointers table;	 /* arrays and mipmapped arrays: handles are addresses */
	struct driver_lock lock; /* around the two readings of free memory */
} arrays;

/* One array as it was asked for. `call` calls the driver. */
struct request {
	CUresult (*call)(const struct request *q);
	const void *shape; /* the caller's */
	void *handle;	   /* the caller's */
	bool nested;
	unsigned levels;
	uint64_t bytes; /* of the rows as padded */
};

/* Formats that are not listed count as 32 bits, which is enough for block compression and video. */
static unsigned element_bytes(CUarray_format format)
{
	static const struct {
		unsigned char format, bytes;
	} sizes[] = {
		{CU_AD_FORMAT_UNSIGNED_INT8, 1}, {CU_AD_FORMAT_SIGNED_INT8, 1},
		{CU_AD_FORMAT_NV12, 1},		 {CU_AD_FORMAT_UNORM_INT8X1, 1},
		{CU_AD_FORMAT_SNORM_INT8X1, 1},	 {CU_AD_FORMAT_UNSIGNED_INT16, 2},
		{CU_AD_FORMAT_SIGNED_INT16, 2},	 {CU_AD_FORMAT_HALF, 2},
		{CU_AD_FORMAT_UNORM_INT16X1, 2}, {CU_AD_FORMAT_SNORM_INT16X1, 2},
		{CU_AD_FORMAT_P010, 2},		 {CU_AD_FORMAT_P016, 2},
		{CU_AD_FORMAT_UNORM_INT8X2, 2},	 {CU_AD_FORMAT_SNORM_INT8X2, 2},
		{CU_AD_FORMAT_UNORM_INT16X4, 8}, {CU_AD_FORMAT_SNORM_INT16X4, 8},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (sizes[i].format == (unsigned)format)
			return sizes[i].bytes;
	return 4;
}

/* The formats that name all their channels. */
static unsigned channels(CUarray_format format, unsigned channels_)
{
	return (unsigned)format >= CU_AD_FORMAT_UNORM_INT8X1 &&
			       (unsigned)format <= CU_AD_FORMAT_SNORM_INT16X4
		       ? 1
		       : channels_;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* A saturating sum. */
static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Adds one array, or one level of it. */
static void add_shape(struct request *q, const CUDA_ARRAY3D_DESCRIPTOR *s)
{
	uint64_t row =
		multiply(s->Width, element_bytes(s->Format) * channels(s->Format, s->NumChannels));
	uint64_t rows = multiply(s->Height ? s->Height : 1, s->Depth ? s->Depth : 1);
	uint64_t padded = add(row, BLOCKS_UNIT - 1) & ~(BLOCKS_UNIT - 1);

	if (s->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return;
	q->bytes = add(q->bytes, multiply(rows > 1 ? padded : row, rows));
}

static uint64_t free_bytes(void)
{
	size_t available = 0, total = 0;

	if (driver_call(real(cuMemGetInfo_v2)(&available, &total)) != CUDA_SUCCESS)
		return 0;
	return available;
}

static CUresult allocate_in(const struct memory_place *place, const struct request *q)
{
	uint64_t most = memory_round(q->bytes), before = 0, after = 0;
	struct pointer entry = {.kind = MEMORY_ARRAY}, old;
	CUresult r = memory_charge(place->device, most, CREDIT_WAIT);
	bool mine;

	if (r != CUDA_SUCCESS)
		return r;
	movable_why(WIRE_UNMOVABLE_ARRAY);
	if (q->bytes > BLOCKS_SMALL) {
		r = driver_call(q->call(q));
		entry.bytes = most;
	} else {
		mine = driver_lock_take(&arrays.lock);
		before = free_bytes();
		r = driver_call(q->call(q));
		after = free_bytes();
		driver_lock_give(&arrays.lock, mine);
		entry.bytes = before > after ? most : q->bytes;
	}
	entry.address = *(uint64_t *)q->handle;
	entry.owner = (uint64_t)(uintptr_t)place->context;
	entry.device = (int16_t)place->device;
	if (r != CUDA_SUCCESS || entry.address == 0) {
		credit_give(place->device, most);
		return r;
	}
	credit_give(place->device, most - entry.bytes);
	if (pointers_put(&arrays.table, &entry, &old) == POINTERS_REPLACED)
		credit_give(old.device, old.bytes);
	return r;
}

static CUresult allocate(const struct request *q)
{
	struct memory_place place;
	CUresult r = memory_begin(&place, q->nested);

	if (r != CUDA_SUCCESS)
		return r;
	if (!place.tracked || !q->handle || q->bytes == 0)
		return driver_call(q->call(q));
	changes_begin();
	r = allocate_in(&place, q);
	changes_end();
	return r;
}

static CUresult freed(const struct pointer *entry, CUresult r)
{
	struct pointer newer;

	if (r == CUDA_SUCCESS)
		credit_give(entry->device, entry->bytes);
	else
		best_effort(pointers_put(&arrays.table, entry, &newer));
	return r;
}

static CUresult call_2d_v1(const struct request *q)
{
	return real(cuArrayCreate)(q->handle, q->shape);
}

static CUresult call_2d(const struct request *q)
{
	return real(cuArrayCreate_v2)(q->handle, q->shape);
}

static CUresult call_3d_v1(const struct request *q)
{
	return real(cuArray3DCreate)(q->handle, q->shape);
}

static CUresult call_3d(const struct request *q)
{
	return real(cuArray3DCreate_v2)(q->handle, q->shape);
}

static CUresult call_mipmapped(const struct request *q)
{
	return real(cuMipmappedArrayCreate)(q->handle, q->shape, q->levels);
}

CUresult hook_cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
	const CUDA_ARRAY_DESCRIPTOR_v1 *s = pAllocateArray;
	struct request q = {
		.call = call_2d_v1, .shape = s, .handle = pHandle, .nested = driver_nested()};

	if (s)
		add_shape(&q, &(CUDA_ARRAY3D_DESCRIPTOR){s->Width, s->Height, 1, s->Format,
							 s->NumChannels, 0});
	return allocate(&q);
}

CUresult hook_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v2 *pAllocateArray)
{
	const CUDA_ARRAY_DESCRIPTOR_v2 *s = pAllocateArray;
	struct request q = {
		.call = call_2d, .shape = s, .handle = pHandle, .nested = driver_nested()};

	if (s)
		add_shape(&q, &(CUDA_ARRAY3D_DESCRIPTOR){s->Width, s->Height, 1, s->Format,
							 s->NumChannels, 0});
	return allocate(&q);
}

CUresult hook_cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
	const CUDA_ARRAY3D_DESCRIPTOR_v1 *s = pAllocateArray;
	struct request q = {
		.call = call_3d_v1, .shape = s, .handle = pHandle, .nested = driver_nested()};

	if (s)
		add_shape(&q, &(CUDA_ARRAY3D_DESCRIPTOR){s->Width, s->Height, s->Depth, s->Format,
							 s->NumChannels, s->Flags});
	return allocate(&q);
}

CUresult hook_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v2 *pAllocateArray)
{
	struct request q = {.call = call_3d,
			    .shape = pAllocateArray,
			    .handle = pHandle,
			    .nested = driver_nested()};

	if (pAllocateArray)
		add_shape(&q, pAllocateArray);
	return allocate(&q);
}

/* Each level halves every extent. */
CUresult hook_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
				     const CUDA_ARRAY3D_DESCRIPTOR_v2 *pMipmappedArrayDesc,
				     unsigned int numMipmapLevels)
{
	struct request q = {.call = call_mipmapped,
			    .shape = pMipmappedArrayDesc,
			    .handle = pHandle,
			    .nested = driver_nested(),
			    .levels = numMipmapLevels};
	CUDA_ARRAY3D_DESCRIPTOR level;

	if (pMipmappedArrayDesc)
		level = *pMipmappedArrayDesc;
	for (unsigned i = 0; pMipmappedArrayDesc && i < numMipmapLevels && i < 32; i++) {
		add_shape(&q, &level);
		level.Width = level.Width > 1 ? level.Width / 2 : 1;
		level.Height = level.Height > 1 ? level.Height / 2 : level.Height;
		if (!(level.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
			level.Depth = level.Depth > 1 ? level.Depth / 2 : level.Depth;
	}
	return allocate(&q);
}

CUresult hook_cuArrayDestroy(CUarray hArray)
{
	struct pointer entry;
	CUresult r;

	if (driver_nested() || pointers_take(&arrays.table, (uintptr_t)hArray, &entry) != 0)
		return driver_call(real(cuArrayDestroy)(hArray));
	changes_begin();
	r = freed(&entry, driver_call(real(cuArrayDestroy)(hArray)));
	changes_end();
	return r;
}

CUresult hook_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct pointer entry;
	CUresult r;

	if (driver_nested() ||
	    pointers_take(&arrays.table, (uintptr_t)hMipmappedArray, &entry) != 0)
		return driver_call(real(cuMipmappedArrayDestroy)(hMipmappedArray));
	changes_begin();
	r = freed(&entry, driver_call(real(cuMipmappedArrayDestroy)(hMipmappedArray)));
	changes_end();
	return r;
}

static int in_context(const struct pointer *entry, void *context)
{
	if (entry->owner != *(const uint64_t *)context)
		return 0;
	credit_give(entry->device, entry->bytes);
	return 1;
}

void arrays_context_gone(uint64_t owner)
{
	pointers_sweep(&arrays.table, in_context, &owner);
}

void arrays_rename(uint64_t owner, uint64_t now)
{
	pointers_rename(&arrays.table, owner, now);
}

void arrays_forget(void)
{
	pointers_forget(&arrays.table);
	memset(&arrays.lock, 0, sizeof(arrays.lock));
}
