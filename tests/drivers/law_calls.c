/* SPDX-License-Identifier: Apache-2.0 */
/* The law driver's answers about its streams and about captures. */
#include "tests/drivers/law_inside.h"

SPECIAL(cuStreamGetCtx);
SPECIAL(cuStreamGetFlags);
SPECIAL(cuStreamSynchronize);
SPECIAL(cuStreamIsCapturing);
SPECIAL(cuStreamBeginCapture_v2);
SPECIAL(cuStreamEndCapture);
SPECIAL(cuStreamQuery);
SPECIAL(cuCtxSynchronize);
SPECIAL(cuThreadExchangeStreamCaptureMode);

CUresult special_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	*pctx = (CUcontext)(law_device_of(law_stream_of(hStream)) ? 0x2000UL : 0x1000UL);
	return CUDA_SUCCESS;
}

CUresult special_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	*flags = __atomic_load_n(&law_stream_of(hStream)->blocking, __ATOMIC_SEQ_CST)
			 ? CU_STREAM_DEFAULT
			 : CU_STREAM_NON_BLOCKING;
	return CUDA_SUCCESS;
}

static int blocking_busy(const struct law_stream *legacy)
{
	for (int i = 0; i < LAW_STREAMS; i++)
		if (__atomic_load_n(&law_streams[i].used, __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&law_streams[i].blocking, __ATOMIC_SEQ_CST) &&
		    law_device_of(&law_streams[i]) == law_device_of(legacy) &&
		    law_is_busy(&law_streams[i], 0))
			return 1;
	return 0;
}

CUresult special_cuStreamSynchronize(CUstream hStream)
{
	return law_wait_for(law_stream_of(hStream));
}

CUresult special_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct law_stream *s = law_stream_of(hStream);

	if (law_is_legacy(s) && law_anybody_captures(1))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*captureStatus = __atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST)
				 ? CU_STREAM_CAPTURE_STATUS_ACTIVE
				 : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

CUresult special_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	(void)mode;
	return __atomic_exchange_n(&law_stream_of(hStream)->capturing, 1, __ATOMIC_SEQ_CST)
		       ? CUDA_ERROR_ILLEGAL_STATE
		       : CUDA_SUCCESS;
}

CUresult special_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct law_stream *s = law_stream_of(hStream);

	if (!__atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST))
		return CUDA_ERROR_ILLEGAL_STATE;
	__atomic_store_n(&s->capturing, 0, __ATOMIC_SEQ_CST);
	law_reach();
	*phGraph = (CUgraph)0x2000;
	return CUDA_SUCCESS;
}

CUresult special_cuStreamQuery(CUstream hStream)
{
	struct law_stream *s = law_stream_of(hStream);
	void (*look)(void) = __atomic_load_n(&law_state->look, __ATOMIC_ACQUIRE);

	if (look)
		look();
	if (__atomic_load_n(&s->capturing, __ATOMIC_SEQ_CST) ||
	    (law_is_legacy(s) && law_anybody_captures(1))) {
		law_add(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return (law_is_legacy(s) ? blocking_busy(s) : law_is_busy(s, 0)) ? law_unready()
									 : CUDA_SUCCESS;
}

CUresult special_cuCtxSynchronize(void)
{
	if (law_anybody_captures(0)) {
		law_add(&law_state->bad_calls);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	for (int i = 0; i < LAW_STREAMS; i++)
		if (__atomic_load_n(&law_streams[i].used, __ATOMIC_ACQUIRE))
			law_wait_for(&law_streams[i]);
	return CUDA_SUCCESS;
}

CUresult special_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static __thread CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode was = now;

	now = *mode;
	*mode = was;
	return CUDA_SUCCESS;
}
