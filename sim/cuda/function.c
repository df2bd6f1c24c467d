/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions about kernels' attributes and occupancy. */
#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/function.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/library.h"
#include "sim/cuda/module.h"

#define REGISTERS_PER_SM 65536u
#define BLOCKS_PER_SM	 32u

CUresult function_find(CUfunction named, struct CUfunc_st **ret_function)
{
	if (handle_is(HANDLE_FUNCTION, named)) {
		*ret_function = named;
		return CUDA_SUCCESS;
	}
	if (handle_is(HANDLE_KERNEL, named))
		return library_function((CUkernel)named, ret_function);
	return CUDA_ERROR_INVALID_HANDLE;
}

/* A function, in a context that works. */
static CUresult function_named(CUfunction named, struct CUfunc_st **ret_function)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	return r == CUDA_SUCCESS ? function_find(named, ret_function) : r;
}

static int compute_capability(const struct CUfunc_st *function)
{
	const struct settings_device *shape = device_shape(function->module->context->device);

	return (int)(shape->capability_major * 10 + shape->capability_minor);
}

/* The value that the program has set, or the rest of 48 KiB. */
static int dynamic_shared_most(const struct CUfunc_st *function)
{
	int set = atomic_load(&function->max_dynamic_shared);

	return set ? set : (int)(48u << 10) - (int)function->kernel->shared_bytes;
}

CUresult function_attribute(const struct CUfunc_st *function, CUfunction_attribute attribute,
			    int *ret_value)
{
	const struct ptx_kernel *kernel = function->kernel;

	switch ((int)attribute) {
#define ATTRIBUTE(name, value)                                                                     \
	case CU_FUNC_ATTRIBUTE_##name:                                                             \
		*ret_value = (int)(value);                                                         \
		return CUDA_SUCCESS;
#include "sim/cuda/function_attributes.def"
#undef ATTRIBUTE
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult function_set_attribute(struct CUfunc_st *function, CUfunction_attribute attribute,
				int value)
{
	const struct settings_device *shape = device_shape(function->module->context->device);

	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || (uint64_t)value + function->kernel->shared_bytes >
					 shape->shared_per_block_bytes)
			return CUDA_ERROR_INVALID_VALUE;
		atomic_store(&function->max_dynamic_shared, value);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		atomic_store(&function->carveout, value);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return CUDA_SUCCESS; /* there are no clusters to apply it to */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult function_parameter(const struct ptx_kernel *kernel, size_t index, size_t *ret_offset,
			    size_t *ret_bytes)
{
	if (!ret_offset || index >= kernel->n_params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_offset = kernel->params[index].offset;
	if (ret_bytes)
		*ret_bytes = kernel->params[index].size_bytes;
	return CUDA_SUCCESS;
}

/* ---- what programs call ---------------------------------------------------------------------- */

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction named)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	return value ? function_attribute(function, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction named, CUfunction_attribute attribute, int value)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	return r == CUDA_SUCCESS ? function_set_attribute(function, attribute, value) : r;
}

CUresult cuFuncSetCacheConfig(CUfunction named, CUfunc_cache config)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
							     : CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction named, CUsharedconfig config)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction named)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	*module = function->module;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction named)
{
	struct CUfunc_st *function;
	CUresult r = driver_ready();

	if (r == CUDA_SUCCESS && (!name || !named))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = function_named(named, &function);
	if (r != CUDA_SUCCESS)
		return r;
	*name = function->kernel->name;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction named, size_t index, size_t *offset, size_t *bytes)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	return r == CUDA_SUCCESS ? function_parameter(function->kernel, index, offset, bytes) : r;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction named)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction named)
{
	struct CUfunc_st *function;

	return function_named(named, &function);
}

uint32_t function_registers(const struct CUfunc_st *function)
{
	unsigned most = function->module->max_registers;

	return most && most < function->kernel->registers ? most : function->kernel->registers;
}

/* ---- occupancy ------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint64_t b)
{
	return b < a ? (uint32_t)b : a;
}

uint32_t function_blocks_per_sm(const struct CUfunc_st *function, uint32_t threads,
				uint64_t dynamic_shared_bytes)
{
	const struct settings_device *shape = device_shape(function->module->context->device);
	uint64_t shared = function->kernel->shared_bytes + dynamic_shared_bytes;
	uint32_t warps = (threads + 31) / 32;
	uint32_t blocks = BLOCKS_PER_SM;
	int threads_per_sm = 2048;

	best_effort(device_attribute(function->module->context->device,
				     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
				     &threads_per_sm));
	if (!warps)
		return 0;
	if (shape->capability_major >= 8)
		shared += SETTINGS_RESERVED_SHARED;
	blocks = least(blocks, (uint32_t)threads_per_sm / (warps * 32));
	/* Registers are given out by the warp, in units of 256. */
	blocks = least(blocks,
		       REGISTERS_PER_SM /
			       (warps * ((function_registers(function) * 32 + 255) & ~255u)));
	if (shared)
		blocks = least(blocks, shape->shared_per_sm_bytes / shared);
	return blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction named,
							      int threads, size_t shared_bytes,
							      unsigned flags)
{
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!blocks || threads <= 0 || flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = (uint32_t)threads > function->kernel->max_threads
			  ? 0
			  : (int)function_blocks_per_sm(function, (uint32_t)threads, shared_bytes);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction named, int threads,
						     size_t shared_bytes)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, named, threads,
								    shared_bytes, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction named,
						   CUoccupancyB2DSize shared_of, size_t shared,
						   int limit, unsigned flags)
{
	struct CUfunc_st *function;
	uint32_t best_threads = 0, best_blocks = 0, most;
	CUresult r = function_named(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!grid || !block || flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	most = function->kernel->max_threads;
	if (limit > 0 && (uint32_t)limit < most)
		most = (uint32_t)limit;
	for (uint32_t threads = most; threads > 0;
	     threads = threads % 32 ? threads - threads % 32 : threads - 32) {
		size_t dynamic = shared_of ? shared_of((int)threads) : shared;
		uint32_t blocks = function_blocks_per_sm(function, threads, dynamic);

		if (blocks * threads > best_blocks * best_threads) {
			best_threads = threads;
			best_blocks = blocks;
		}
	}
	*block = (int)best_threads;
	*grid = (int)(best_blocks * device_shape(function->module->context->device)->sms);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction named,
					  CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, named, shared_of, shared,
							 limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction named, int blocks,
						 int threads)
{
	const struct settings_device *shape;
	struct CUfunc_st *function;
	CUresult r = function_named(named, &function);
	uint64_t each, fixed;
	int most = 0;

	if (r != CUDA_SUCCESS)
		return r;
	if (!bytes || blocks <= 0 || threads <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	shape = device_shape(function->module->context->device);
	fixed = function->kernel->shared_bytes +
		(shape->capability_major >= 8 ? SETTINGS_RESERVED_SHARED : 0);
	each = shape->shared_per_sm_bytes / (uint32_t)blocks;
	each = each > fixed ? each - fixed : 0;
	/* A launch of the function may have no more, until it opts in. */
	r = function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &most);
	*bytes = each > (uint64_t)most ? (uint64_t)most : each;
	return r;
}
