/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that launch kernels. */
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream.h"

static CUresult launch(CUfunction named, const struct kernel_work *shape, CUstream handle,
		       void **params, void **extra)
{
	struct op op = {.kind = OP_KERNEL};
	struct CUstream_st *stream;
	CUresult r = stream_find(handle, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	r = kernel_prepare(named, shape, params, extra, &op.kernel);
	if (r != CUDA_SUCCESS)
		return r;
	if (op.kernel.function->module->context != stream_context(stream)) {
		kernel_done(&op.kernel);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return stream_submit(stream, &op);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
			CUstream stream, void **params, void **extra)
{
	struct kernel_work shape = {
		.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared_bytes = shared_bytes,
	};

	return launch(function, &shape, stream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
				   unsigned grid_z, unsigned block_x, unsigned block_y,
				   unsigned block_z, unsigned shared_bytes, CUstream stream,
				   void **params)
{
	struct kernel_work shape = {
		.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared_bytes = shared_bytes,
		.cooperative = true,
	};

	return launch(function, &shape, stream, params, NULL);
}

static CUresult attribute_apply(const CUlaunchAttribute *attribute, struct kernel_work *shape)
{
	switch ((int)attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		shape->cooperative = attribute->value.cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		if (attribute->value.clusterDim.x > 1 || attribute->value.clusterDim.y > 1 ||
		    attribute->value.clusterDim.z > 1) {
			driver_lacks("clusters of more than one block are not simulated");
			return CUDA_ERROR_NOT_SUPPORTED;
		}
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		driver_lacks("launch attribute %d is not simulated", (int)attribute->id);
		return CUDA_ERROR_NOT_SUPPORTED;
	default: /* hints about caches, priority, order: a kernel that ignores them is correct */
		return (unsigned)attribute->id < CU_LAUNCH_ATTRIBUTE_MAX ? CUDA_SUCCESS
									 : CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
			  void **extra)
{
	struct kernel_work shape;

	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	shape = (struct kernel_work){
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
	};
	for (unsigned i = 0; i < config->numAttrs; i++) {
		CUresult r = attribute_apply(&config->attrs[i], &shape);

		if (r != CUDA_SUCCESS)
			return r;
	}
	return launch(function, &shape, config->hStream, params, extra);
}

/* ---- of before CUDA 4.0 ---------------------------------------------------------------------- */

#define PARAMETERS_MOST 4096

static CUresult legacy_function(CUfunction function)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	return handle_is(HANDLE_FUNCTION, function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult parameter_write(CUfunction function, int offset, const void *value, size_t bytes)
{
	CUresult r = legacy_function(function);

	if (r != CUDA_SUCCESS)
		return r;
	if (offset < 0 || !value || bytes > PARAMETERS_MOST ||
	    (size_t)offset > PARAMETERS_MOST - bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function->parameters)
		function->parameters = calloc(1, PARAMETERS_MOST);
	if (!function->parameters)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(function->parameters + offset, value, bytes);
	return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned value)
{
	return parameter_write(function, offset, &value, sizeof(value));
}

CUresult cuParamSetf(CUfunction function, int offset, float value)
{
	return parameter_write(function, offset, &value, sizeof(value));
}

CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned bytes)
{
	return parameter_write(function, offset, value, bytes);
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes)
{
	CUresult r = legacy_function(function);

	if (r != CUDA_SUCCESS)
		return r;
	if (bytes > PARAMETERS_MOST)
		return CUDA_ERROR_INVALID_VALUE;
	function->parameters_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	CUresult r = legacy_function(function);

	if (r != CUDA_SUCCESS)
		return r;
	if (x <= 0 || y <= 0 || z <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	function->block[0] = (uint32_t)x;
	function->block[1] = (uint32_t)y;
	function->block[2] = (uint32_t)z;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes)
{
	CUresult r = legacy_function(function);

	if (r == CUDA_SUCCESS)
		function->shared_bytes = bytes;
	return r;
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	struct kernel_work shape = {0};
	CUresult r = legacy_function(function);
	size_t bytes;
	void *extra[5];

	if (r != CUDA_SUCCESS)
		return r;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	shape.grid[0] = (uint32_t)width;
	shape.grid[1] = (uint32_t)height;
	shape.grid[2] = 1;
	memcpy(shape.block, function->block, sizeof(shape.block));
	shape.shared_bytes = function->shared_bytes;
	bytes = function->parameters ? function->parameters_bytes : 0;
	extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	extra[1] = function->parameters;
	extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	extra[3] = &bytes;
	extra[4] = CU_LAUNCH_PARAM_END;
	return launch(function, &shape, stream, NULL, extra);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
	return cuLaunchGridAsync(function, width, height, NULL);
}

CUresult cuLaunch(CUfunction function)
{
	return cuLaunchGridAsync(function, 1, 1, NULL);
}
