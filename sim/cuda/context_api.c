/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions that query and set attributes of contexts. */
#include <stdlib.h>

#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/green_types.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/stream_set.h"

CUresult cuCtxSynchronize(void)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	return r == CUDA_SUCCESS ? stream_set_synchronize(context_streams(context, NULL)) : r;
}

CUresult cuCtxSynchronize_v2(CUcontext named)
{
	struct CUctx_st *context;
	CUresult r = context_named(named, &context);

	return r == CUDA_SUCCESS ? stream_set_synchronize(context_streams(context, named)) : r;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	CUcontext context;
	CUresult r = cuCtxGetCurrent(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext named)
{
	struct CUctx_st *context;
	CUresult r = context_named(named, &context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *flags)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	context->flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext named, unsigned long long *id)
{
	const struct CUgreenCtx_st *green;
	struct CUctx_st *context;
	CUresult r = context_named(named, &context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	green = context_green(named);
	*id = green ? green->id : context->id;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext named, unsigned *version)
{
	struct CUctx_st *context;
	CUresult r = context_named(named, &context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = context->api_version;
	return CUDA_SUCCESS;
}

/* ---- limits and preferences ------------------------------------------------------------------ */

static bool limit_known(CUlimit limit)
{
	return (unsigned)limit <= CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!limit_known(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = atomic_load(&context->limits[limit]);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!limit_known(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	/* The heap is made by the first kernel that needs it, and keeps its size from then on. */
	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && atomic_load(&context->device_heap))
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_STACK_SIZE && value > (size_t)512 << 10)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&context->limits[limit], value);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = (CUfunc_cache)atomic_load(&context->cache);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&context->cache, (int)config);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS; /* newer devices have no choice and accept any */
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	struct CUctx_st *context;

	return context_current(&context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!affinity)
		return CUDA_ERROR_INVALID_VALUE;
	(void)type;
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* ---- peers ----------------------------------------------------------------------------------- */

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);
	uint64_t bit;

	if (r != CUDA_SUCCESS)
		return r;
	if (!peer || !handle_is(HANDLE_CONTEXT, peer) || peer == context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (peer->device == context->device)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device_peer(context->device, peer->device))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1ull << peer->device;
	if (atomic_fetch_or(&context->peers, bit) & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);
	uint64_t bit;

	if (r != CUDA_SUCCESS)
		return r;
	if (!peer || !handle_is(HANDLE_CONTEXT, peer) || peer->device == context->device)
		return CUDA_ERROR_INVALID_CONTEXT;
	bit = 1ull << peer->device;
	if (!(atomic_fetch_and(&context->peers, ~bit) & bit))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	return CUDA_SUCCESS;
}
