/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of rows and boxes, between linear memory and arrays. */
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/array.h"
#include "sim/cuda/copy_api.h"
#include "sim/cuda/handle.h"

/* One side as the driver's structures have it. */
struct side {
	CUmemorytype type;
	uint64_t host, device;
	CUarray array;
	size_t x_bytes, y, z, pitch, height;
};

static CUresult side_linear(const struct side *side, size_t width, size_t height, size_t depth,
			    struct copy_place *ret_place)
{
	size_t pitch = side->pitch, rows = side->height;
	uint64_t address = side->type == CU_MEMORYTYPE_HOST ? side->host : side->device;

	/* Pitch and height count only where there is more than one row or slice. */
	if (pitch == 0 && height <= 1 && side->y == 0 && depth <= 1 && side->z == 0)
		pitch = side->x_bytes + width;
	if (pitch == 0)
		pitch = side->x_bytes + width; /* packed, as the driver takes 0 */
	if (pitch < side->x_bytes + width)
		return CUDA_ERROR_INVALID_VALUE;
	if (rows == 0)
		rows = side->y + height;
	if ((depth > 1 || side->z) && rows < side->y + height)
		return CUDA_ERROR_INVALID_VALUE;
	ret_place->host = side->type != CU_MEMORYTYPE_DEVICE;
	ret_place->pitch_bytes = pitch;
	ret_place->slice_bytes = pitch * rows;
	ret_place->address =
		address + side->x_bytes + side->y * pitch + side->z * ret_place->slice_bytes;
	return CUDA_SUCCESS;
}

static CUresult side_array(const struct side *side, size_t width, size_t height, size_t depth,
			   struct copy_place *ret_place)
{
	const struct CUarray_st *array = side->array;
	size_t row_bytes;

	if (!handle_is(HANDLE_ARRAY, array))
		return CUDA_ERROR_INVALID_HANDLE;
	row_bytes = array->shape.Width * array->element_bytes;
	if (side->x_bytes > row_bytes || width > row_bytes - side->x_bytes ||
	    side->y > array->rows || height > array->rows - side->y || side->z > array->slices ||
	    depth > array->slices - side->z)
		return CUDA_ERROR_INVALID_VALUE;
	ret_place->host = false;
	ret_place->pitch_bytes = array->pitch_bytes;
	ret_place->slice_bytes = array->slice_bytes;
	ret_place->address = array->base + side->x_bytes + side->y * array->pitch_bytes +
			     side->z * array->slice_bytes;
	return CUDA_SUCCESS;
}

static CUresult side_place(const struct side *side, size_t width, size_t height, size_t depth,
			   struct copy_place *ret_place)
{
	switch (side->type) {
	case CU_MEMORYTYPE_HOST:
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		return side_linear(side, width, height, depth, ret_place);
	case CU_MEMORYTYPE_ARRAY:
		return side_array(side, width, height, depth, ret_place);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Far beyond any device: sums of products stay in 64 bits. */
#define SIDE_LARGEST ((size_t)1 << 40)

static CUresult shape_make(const struct side *to, const struct side *from, size_t width,
			   size_t height, size_t depth, struct copy_work *ret_copy)
{
	const size_t sizes[] = {width, to->x_bytes, to->pitch, from->x_bytes, from->pitch};
	const size_t counts[] = {height,     depth,   to->y,   to->z,
				 to->height, from->y, from->z, from->height};
	struct copy_work copy = {.width_bytes = width, .height = height, .depth = depth};
	CUresult r;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i] > SIDE_LARGEST)
			return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		if (counts[i] > 1u << 24)
			return CUDA_ERROR_INVALID_VALUE;
	r = side_place(to, width, height, depth, &copy.to);
	if (r == CUDA_SUCCESS)
		r = side_place(from, width, height, depth, &copy.from);
	if (r == CUDA_SUCCESS)
		*ret_copy = copy;
	return r;
}

static uint64_t host(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

/* The three structures have the same members as far as both have them. */
#define SIDE(c, s, z_, height_)                                                                    \
	{                                                                                          \
		.type = (c)->s##MemoryType, .host = host((c)->s##Host), .device = (c)->s##Device,  \
		.array = (c)->s##Array, .x_bytes = (c)->s##XInBytes, .y = (c)->s##Y, .z = (z_),    \
		.pitch = (c)->s##Pitch, .height = (height_)                                        \
	}

CUresult copy_from_3d(const CUDA_MEMCPY3D *asked, struct copy_work *ret_copy)
{
	if (!asked)
		return CUDA_ERROR_INVALID_VALUE;

	struct side to = SIDE(asked, dst, asked->dstZ, asked->dstHeight);
	struct side from = SIDE(asked, src, asked->srcZ, asked->srcHeight);

	return shape_make(&to, &from, asked->WidthInBytes, asked->Height, asked->Depth, ret_copy);
}

static CUresult copy_from_2d(const CUDA_MEMCPY2D *asked, struct copy_work *ret_copy)
{
	if (!asked)
		return CUDA_ERROR_INVALID_VALUE;

	struct side to = SIDE(asked, dst, 0, 0);
	struct side from = SIDE(asked, src, 0, 0);

	return shape_make(&to, &from, asked->WidthInBytes, asked->Height, 1, ret_copy);
}

static CUresult copy_from_peer(const CUDA_MEMCPY3D_PEER *asked, struct copy_work *ret_copy)
{
	if (!asked)
		return CUDA_ERROR_INVALID_VALUE;

	struct side to = SIDE(asked, dst, asked->dstZ, asked->dstHeight);
	struct side from = SIDE(asked, src, asked->srcZ, asked->srcHeight);

	return shape_make(&to, &from, asked->WidthInBytes, asked->Height, asked->Depth, ret_copy);
}

#define SHAPED(make, asked, stream, wait)                                                          \
	do {                                                                                       \
		struct copy_work copy_;                                                            \
		CUresult made_ = make(asked, &copy_);                                              \
		return made_ == CUDA_SUCCESS ? copy_submit(&copy_, stream, wait) : made_;          \
	} while (0)

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *asked)
{
	SHAPED(copy_from_2d, asked, NULL, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *asked)
{
	SHAPED(copy_from_2d, asked, NULL, true);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *asked, CUstream stream)
{
	SHAPED(copy_from_2d, asked, stream, false);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *asked)
{
	SHAPED(copy_from_3d, asked, NULL, true);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *asked, CUstream stream)
{
	SHAPED(copy_from_3d, asked, stream, false);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *asked)
{
	SHAPED(copy_from_peer, asked, NULL, true);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *asked, CUstream stream)
{
	SHAPED(copy_from_peer, asked, stream, false);
}

/* ---- one-dimensional arrays ------------------------------------------------------------------ */

static struct side array_side(CUarray array, size_t offset)
{
	return (struct side){.type = CU_MEMORYTYPE_ARRAY, .array = array, .x_bytes = offset};
}

static struct side linear_side(CUmemorytype type, uint64_t address)
{
	return (struct side){.type = type, .host = address, .device = address};
}

static CUresult row_submit(struct side to, struct side from, size_t bytes, CUstream stream,
			   bool wait)
{
	struct copy_work copy;
	CUresult r = shape_make(&to, &from, bytes, 1, 1, &copy);

	return r == CUDA_SUCCESS ? copy_submit(&copy, stream, wait) : r;
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes)
{
	return row_submit(array_side(to, offset), linear_side(CU_MEMORYTYPE_DEVICE, from), bytes,
			  NULL, false);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes)
{
	return row_submit(linear_side(CU_MEMORYTYPE_DEVICE, to), array_side(from, offset), bytes,
			  NULL, false);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
			 size_t bytes)
{
	return row_submit(array_side(to, to_offset), array_side(from, from_offset), bytes, NULL,
			  false);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes)
{
	return row_submit(array_side(to, offset), linear_side(CU_MEMORYTYPE_HOST, host(from)),
			  bytes, NULL, true);
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes)
{
	return row_submit(linear_side(CU_MEMORYTYPE_HOST, host(to)), array_side(from, offset),
			  bytes, NULL, true);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes,
			      CUstream stream)
{
	return row_submit(array_side(to, offset), linear_side(CU_MEMORYTYPE_HOST, host(from)),
			  bytes, stream, false);
}

CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream)
{
	return row_submit(linear_side(CU_MEMORYTYPE_HOST, host(to)), array_side(from, offset),
			  bytes, stream, false);
}
