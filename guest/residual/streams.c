/* SPDX-License-Identifier: Apache-2.0 */
/* Streams are noted, for drains. */
#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/pools.h"
#include "guest/time/capture.h"
#include "guest/time/held.h"

static CUresult stream_made(CUresult r, CUstream *stream, unsigned flags)
{
	if (r != CUDA_SUCCESS || !stream)
		return r;
	if (!(flags & CU_STREAM_NON_BLOCKING)) {
		held_stream_made(*stream);
		return r;
	}
	if (contexts_stream_add(*stream))
		return r;
	best_effort(real(cuStreamDestroy_v2)(*stream));
	*stream = NULL;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hook_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return stream_made(real(cuStreamCreate)(phStream, Flags), phStream, Flags);
}

CUresult hook_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	return stream_made(real(cuStreamCreateWithPriority)(phStream, flags, priority), phStream,
			   flags);
}

CUresult hook_cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
				     int priority)
{
	return stream_made(real(cuGreenCtxStreamCreate)(phStream, greenCtx, flags, priority),
			   phStream, CU_STREAM_NON_BLOCKING);
}

/* Its handle may become that of a stream in another context. */
static CUresult stream_ends(CUstream stream, CUresult (*driver)(CUstream stream))
{
	CUresult r;

	held_stream_ends(stream);
	contexts_stream_remove(stream);
	capture_forget_stream(stream);
	pools_changed();
	r = driver(stream);
	pools_changed();
	return r;
}

CUresult hook_cuStreamDestroy(CUstream hStream)
{
	return stream_ends(hStream, real(cuStreamDestroy));
}

CUresult hook_cuStreamDestroy_v2(CUstream hStream)
{
	return stream_ends(hStream, real(cuStreamDestroy_v2));
}
