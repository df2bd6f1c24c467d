/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for work. After them memory that was freed in a stream's order may have left its
 * pool, and the charge follows.
 */
#include "guest/hooks.h"
#include "guest/pools.h"
#include "guest/real.h"

CUresult hook_cuCtxSynchronize(void)
{
	CUresult r = real(cuCtxSynchronize)();

	pools_waited();
	return r;
}

CUresult hook_cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult r = real(cuCtxSynchronize_v2)(ctx);

	pools_waited();
	return r;
}

CUresult hook_cuStreamSynchronize(CUstream hStream)
{
	CUresult r = real(cuStreamSynchronize)(hStream);

	pools_waited();
	return r;
}

CUresult hook_cuStreamSynchronize_ptsz(CUstream hStream)
{
	CUresult r = real(cuStreamSynchronize_ptsz)(hStream);

	pools_waited();
	return r;
}

CUresult hook_cuEventSynchronize(CUevent hEvent)
{
	CUresult r = real(cuEventSynchronize)(hEvent);

	pools_waited();
	return r;
}
