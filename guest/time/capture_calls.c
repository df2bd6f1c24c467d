/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions that begin and end captures. */
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/time/capture_inside.h"

/* For the functions whose default stream is the thread's own. */
static CUstream own_stream(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

CUresult hook_cuStreamBeginCapture(CUstream hStream)
{
	CUevent before = NULL;
	CUresult r = capture_begin(hStream, &before);

	return r ? r
		 : capture_begun(hStream, before, real(cuStreamBeginCapture)(hStream),
				 CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream hStream)
{
	CUevent before = NULL;
	CUresult r = capture_begin(own_stream(hStream), &before);

	return r ? r
		 : capture_begun(own_stream(hStream), before,
				 real(cuStreamBeginCapture_ptsz)(hStream),
				 CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult hook_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	CUevent before = NULL;
	CUresult r = capture_begin(hStream, &before);

	return r ? r
		 : capture_begun(hStream, before, real(cuStreamBeginCapture_v2)(hStream, mode),
				 mode);
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	CUevent before = NULL;
	CUresult r = capture_begin(own_stream(hStream), &before);

	return r ? r
		 : capture_begun(own_stream(hStream), before,
				 real(cuStreamBeginCapture_v2_ptsz)(hStream, mode), mode);
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData,
					  size_t numDependencies, CUstreamCaptureMode mode)
{
	CUevent before = NULL;
	CUresult r = capture_begin(hStream, &before);

	return r ? r
		 : capture_begun(hStream, before,
				 real(cuStreamBeginCaptureToGraph)(hStream, hGraph, dependencies,
								   dependencyData, numDependencies,
								   mode),
				 mode);
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
					       const CUgraphNode *dependencies,
					       const CUgraphEdgeData *dependencyData,
					       size_t numDependencies, CUstreamCaptureMode mode)
{
	CUevent before = NULL;
	CUresult r = capture_begin(own_stream(hStream), &before);

	return r ? r
		 : capture_begun(own_stream(hStream), before,
				 real(cuStreamBeginCaptureToGraph_ptsz)(
					 hStream, hGraph, dependencies, dependencyData,
					 numDependencies, mode),
				 mode);
}

CUresult hook_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct capture_ending which = capture_end(hStream);

	return capture_ended(hStream, which, real(cuStreamEndCapture)(hStream, phGraph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	CUstream stream = own_stream(hStream);
	struct capture_ending which = capture_end(stream);

	return capture_ended(stream, which, real(cuStreamEndCapture_ptsz)(hStream, phGraph));
}
