/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for work. After them memory that was freed in a stream's order may have left its
 * pool, and the charge follows.
 */
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/pools.h"

static noinline_ CUresult waited(CUresult r)
{
	pools_waited();
	return r;
}

/* If nothing was freed in stream order before the wait began, only the driver is called: the next
 * wait settles what another thread frees meanwhile. */
#define WAIT(call) (likely(!pools_await()) ? (call) : waited(call))

CUresult hook_cuCtxSynchronize(void)
{
	return WAIT(real(cuCtxSynchronize)());
}

CUresult hook_cuCtxSynchronize_v2(CUcontext ctx)
{
	return WAIT(real(cuCtxSynchronize_v2)(ctx));
}

CUresult hook_cuStreamSynchronize(CUstream hStream)
{
	return WAIT(real(cuStreamSynchronize)(hStream));
}

CUresult hook_cuStreamSynchronize_ptsz(CUstream hStream)
{
	return WAIT(real(cuStreamSynchronize_ptsz)(hStream));
}

CUresult hook_cuEventSynchronize(CUevent hEvent)
{
	return WAIT(real(cuEventSynchronize)(hEvent));
}
