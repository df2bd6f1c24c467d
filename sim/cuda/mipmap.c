/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mipmapped arrays: an array and its halves, each of which is an array that copies know, in one
 * piece of memory.
 */
#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/cuda/array.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream.h"

struct CUmipmappedArray_st {
	struct CUctx_st *context;
	uint64_t origin; /* its context's id */
	uint64_t base;
	unsigned n;
	struct CUarray_st level[];
};

static bool is_layered(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

static size_t half(size_t extent)
{
	return extent > 1 ? extent / 2 : extent;
}

/* The number of layers is the same in each level. */
static CUDA_ARRAY3D_DESCRIPTOR next_level(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR next = *shape;

	next.Width = half(shape->Width);
	next.Height = half(shape->Height);
	if (!is_layered(shape))
		next.Depth = half(shape->Depth);
	return next;
}

/* Down to a single element: as many as there can be. */
static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	size_t largest = shape->Width > shape->Height ? shape->Width : shape->Height;
	unsigned n = 1;

	if (!is_layered(shape) && shape->Depth > largest)
		largest = shape->Depth;
	for (; largest > 1; largest /= 2)
		n++;
	return n;
}

static size_t lay_out(struct CUmipmappedArray_st *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR level = *shape;
	size_t bytes = 0;

	for (unsigned i = 0; i < mipmap->n; i++) {
		mipmap->level[i].base = bytes; /* relative to the first level, for now */
		mipmap->level[i].level = true;
		bytes += array_lay_out(&mipmap->level[i], &level, mipmap->context);
		level = next_level(&level);
	}
	return bytes;
}

static void forget(struct CUmipmappedArray_st *mipmap, unsigned n)
{
	handle_remove(HANDLE_MIPMAP, mipmap);
	for (unsigned i = 0; i < n; i++)
		handle_remove(HANDLE_ARRAY, &mipmap->level[i]);
}

static CUresult publish(struct CUmipmappedArray_st *mipmap)
{
	if (handle_add(HANDLE_MIPMAP, mipmap) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < mipmap->n; i++) {
		mipmap->level[i].base += mipmap->base;
		if (handle_add(HANDLE_ARRAY, &mipmap->level[i]) < 0) {
			forget(mipmap, i);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult mipmap_new(CUmipmappedArray *ret_mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape,
			   struct CUctx_st *context, unsigned n)
{
	struct CUmipmappedArray_st *mipmap =
		calloc(1, sizeof(*mipmap) + n * sizeof(mipmap->level[0]));
	struct space_range range;
	CUresult r;

	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mipmap->context = context;
	mipmap->origin = context->id;
	mipmap->n = n;
	r = memory_take(context, lay_out(mipmap, shape), SPACE_MODULE, &range);
	if (r != CUDA_SUCCESS) {
		free(mipmap);
		return r;
	}
	mipmap->base = range.base;
	r = publish(mipmap);
	if (r != CUDA_SUCCESS) {
		memory_give(&range);
		free(mipmap);
		return r;
	}
	*ret_mipmap = mipmap;
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *ret_mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape,
				unsigned int levels)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_mipmap || !shape)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_capture_check();
	if (r == CUDA_SUCCESS)
		r = array_shape_check(shape);
	if (r != CUDA_SUCCESS)
		return r;
	if (!levels)
		levels = 1;
	if (levels > most_levels(shape))
		levels = most_levels(shape);
	return mipmap_new(ret_mipmap, shape, context, levels);
}

static CUresult mipmap_named(CUmipmappedArray mipmap)
{
	return driver_knows(HANDLE_MIPMAP, mipmap);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
	CUresult r = mipmap_named(mipmap);

	if (r != CUDA_SUCCESS)
		return r;
	forget(mipmap, mipmap->n);
	array_give(mipmap->context, mipmap->origin, mipmap->base);
	free(mipmap);
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *ret_level, CUmipmappedArray mipmap, unsigned int level)
{
	CUresult r = mipmap_named(mipmap);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_level || level >= mipmap->n)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_level = &mipmap->level[level];
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties,
					     CUmipmappedArray mipmap)
{
	CUresult r = mipmap_named(mipmap);

	(void)properties;
	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements,
					       CUmipmappedArray mipmap, CUdevice device)
{
	CUresult r = mipmap_named(mipmap);

	(void)requirements, (void)device;
	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}
