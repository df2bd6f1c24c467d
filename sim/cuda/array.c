/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/array.h"

#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stream_set.h"

#define ARRAY_LARGEST ((size_t)1 << 20) /* elements in each direction */
#define ARRAY_PITCH   512
#define ARRAY_FLAGS                                                                                \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |                 \
	 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT)

/* 0: block-compressed and planar formats, which have no size per element. */
static size_t format_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

CUresult array_shape_check(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	if (!shape->Width || shape->Width > ARRAY_LARGEST || shape->Height > ARRAY_LARGEST ||
	    shape->Depth > ARRAY_LARGEST)
		return CUDA_ERROR_INVALID_VALUE;
	if (shape->NumChannels != 1 && shape->NumChannels != 2 && shape->NumChannels != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (shape->Flags & ~(unsigned)ARRAY_FLAGS)
		return driver_missing("a sparse or deferred CUDA array");
	if (!format_bytes(shape->Format))
		return driver_missing("a compressed or planar CUDA array");
	return CUDA_SUCCESS;
}

size_t array_lay_out(struct CUarray_st *array, const CUDA_ARRAY3D_DESCRIPTOR *shape,
		     struct CUctx_st *context)
{
	array->context = context;
	array->origin = context->id;
	array->shape = *shape;
	array->element_bytes = format_bytes(shape->Format) * shape->NumChannels;
	array->rows = shape->Height ? shape->Height : 1;
	array->slices = shape->Depth ? shape->Depth : 1;
	array->pitch_bytes = (shape->Width * array->element_bytes + ARRAY_PITCH - 1) &
			     ~(size_t)(ARRAY_PITCH - 1);
	array->slice_bytes = array->pitch_bytes * array->rows;
	return array->slice_bytes * array->slices;
}

static CUresult array_new(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	struct CUctx_st *context;
	struct space_range range;
	struct CUarray_st *array;
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r == CUDA_SUCCESS)
		r = array_shape_check(shape);
	if (r != CUDA_SUCCESS)
		return r;
	array = calloc(1, sizeof(*array));
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = memory_take(context, array_lay_out(array, shape, context), SPACE_MODULE, &range);
	array->base = range.base;
	if (r == CUDA_SUCCESS && handle_add(HANDLE_ARRAY, array) < 0) {
		memory_give(&range);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r != CUDA_SUCCESS) {
		free(array);
		return r;
	}
	*ret_array = array;
	return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray *ret_array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR full;

	if (!ret_array || !shape)
		return CUDA_ERROR_INVALID_VALUE;
	full = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = shape->Width,
		.Height = shape->Height,
		.Format = shape->Format,
		.NumChannels = shape->NumChannels,
	};
	return array_new(ret_array, &full);
}

CUresult cuArray3DCreate_v2(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	if (!ret_array || !shape)
		return CUDA_ERROR_INVALID_VALUE;
	return array_new(ret_array, shape);
}

static CUresult array_named(CUarray array)
{
	return driver_knows(HANDLE_ARRAY, array);
}

void array_give(struct CUctx_st *context, uint64_t origin, uint64_t base)
{
	struct space_range range;

	if (atomic_load(&context->state) != CONTEXT_ALIVE || context->id != origin)
		return;
	best_effort(stream_set_synchronize(context->streams));
	if (space_find(base, &range) == 0)
		memory_give(&range);
}

CUresult cuArrayDestroy(CUarray array)
{
	CUresult r = array_named(array);

	if (r != CUDA_SUCCESS)
		return r;
	if (array->level)
		return CUDA_ERROR_INVALID_HANDLE;
	handle_remove(HANDLE_ARRAY, array);
	array_give(array->context, array->origin, array->base);
	free(array);
	return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array)
{
	CUresult r = array_named(array);

	if (r != CUDA_SUCCESS)
		return r;
	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	*shape = array->shape;
	return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *shape, CUarray array)
{
	CUresult r = array_named(array);

	if (r != CUDA_SUCCESS)
		return r;
	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	*shape = (CUDA_ARRAY_DESCRIPTOR){
		.Width = array->shape.Width,
		.Height = array->shape.Height,
		.Format = array->shape.Format,
		.NumChannels = array->shape.NumChannels,
	};
	return CUDA_SUCCESS;
}

/* ---- what no array has, as none of them is sparse, planar or without its memory -------------- */

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUarray array)
{
	CUresult r = array_named(array);

	(void)properties;
	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array,
				      CUdevice device)
{
	CUresult r = array_named(array);

	(void)requirements, (void)device;
	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuArrayGetPlane(CUarray *ret_plane, CUarray array, unsigned int plane)
{
	CUresult r = array_named(array);

	(void)ret_plane, (void)plane;
	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}
