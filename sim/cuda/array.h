/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/cuda/array.h
 * CUDA arrays as plain rows of device memory: what copies need. Kernels do not see them (there are
 * no textures).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/context.h"

struct CUarray_st {
	struct CUctx_st *context;
	CUDA_ARRAY3D_DESCRIPTOR shape;
	size_t element_bytes;
	size_t pitch_bytes, slice_bytes;
	size_t rows, slices;
	uint64_t base;
	uint64_t origin; /* its context's id */
	bool level;	 /* of a mipmapped array, which holds the memory */
};

/* SUCCESS, INVALID_VALUE, NOT_SUPPORTED. */
must_check CUresult array_shape_check(const CUDA_ARRAY3D_DESCRIPTOR *shape);

/* All but the address. Returns how many bytes it needs. */
size_t array_lay_out(struct CUarray_st *array, const CUDA_ARRAY3D_DESCRIPTOR *shape,
		     struct CUctx_st *context);

/* Gives memory of arrays back, which a context that has ended took with it. */
void array_give(struct CUctx_st *context, uint64_t origin, uint64_t base);
