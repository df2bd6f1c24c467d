/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for work. After them memory that was freed in a stream's order may have left its
 * pool, and the charge follows.
 */
#include "guest/hooks.h"
#include "guest/pools.h"
#include "guest/real.h"

static CUresult waited(CUresult r)
{
	pools_waited();
	return r;
}

CUresult hook_cuCtxSynchronize(void)
{
	return waited(real(cuCtxSynchronize)());
}

CUresult hook_cuCtxSynchronize_v2(CUcontext ctx)
{
	return waited(real(cuCtxSynchronize_v2)(ctx));
}

CUresult hook_cuStreamSynchronize(CUstream hStream)
{
	return waited(real(cuStreamSynchronize)(hStream));
}

CUresult hook_cuStreamSynchronize_ptsz(CUstream hStream)
{
	return waited(real(cuStreamSynchronize_ptsz)(hStream));
}

CUresult hook_cuEventSynchronize(CUevent hEvent)
{
	return waited(real(cuEventSynchronize)(hEvent));
}
