/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/array.h"

#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/driver.h"
#include "sim/handle.h"
#include "sim/memory.h"
#include "sim/stream.h"

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

static CUresult shape_check(const CUDA_ARRAY3D_DESCRIPTOR *shape)
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

static CUresult array_new(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	struct CUctx_st *context;
	struct space_range range;
	struct CUarray_st *array;
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r == CUDA_SUCCESS)
		r = shape_check(shape);
	if (r != CUDA_SUCCESS)
		return r;
	array = calloc(1, sizeof(*array));
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->context = context;
	array->origin = context->id;
	array->shape = *shape;
	array->element_bytes = format_bytes(shape->Format) * shape->NumChannels;
	array->rows = shape->Height ? shape->Height : 1;
	array->slices = shape->Depth ? shape->Depth : 1;
	array->pitch_bytes = (shape->Width * array->element_bytes + ARRAY_PITCH - 1) &
			     ~(size_t)(ARRAY_PITCH - 1);
	array->slice_bytes = array->pitch_bytes * array->rows;
	r = memory_take(context, array->slice_bytes * array->slices, SPACE_MODULE, &range);
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
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return handle_is(HANDLE_ARRAY, array) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArrayDestroy(CUarray array)
{
	struct space_range range;
	CUresult r = array_named(array);

	if (r != CUDA_SUCCESS)
		return r;
	handle_remove(HANDLE_ARRAY, array);
	/* A context that has ended took the memory with it. */
	if (atomic_load(&array->context->state) == CONTEXT_ALIVE &&
	    array->context->id == array->origin) {
		best_effort(context_drain(array->context));
		if (space_find(array->base, &range) == 0)
			memory_give(&range);
	}
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
	if (!shape || array->shape.Depth) /* which the answer has no place for */
		return CUDA_ERROR_INVALID_VALUE;
	*shape = (CUDA_ARRAY_DESCRIPTOR){
		.Width = array->shape.Width,
		.Height = array->shape.Height,
		.Format = array->shape.Format,
		.NumChannels = array->shape.NumChannels,
	};
	return CUDA_SUCCESS;
}
