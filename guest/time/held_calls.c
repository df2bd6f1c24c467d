/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that may wait for something outside of the device, between trampolines and driver. */
#include "guest/time/held.h"
#include "guest/time/held_inside.h"

#include <stdatomic.h>

#include "guest/driver/real.h"

/* The prototypes are cuda/api.def's; the stream is called `stream`. PTSZ: NULL is the thread's own.
 */
#define WAITS_32   (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
#define WAITS_64   (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
#define BATCHES	   (CUstream stream, unsigned count, CUstreamBatchMemOpParams *ops, unsigned flags)
#define CALLS_IN   (CUstream stream, CUhostFn function, void *data)
#define CALLS_BACK (CUstream stream, CUstreamCallback function, void *data, unsigned flags)
#define FOLLOWS	   (CUstream stream, CUevent event, unsigned flags)
#define SEMAPHORES                                                                                 \
	(const CUexternalSemaphore *semaphores,                                                    \
	 const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1 *each, unsigned count, CUstream stream)
#define HOLDING(X)                                                                                 \
	X(cuStreamWaitValue32, WAITS_32, (stream, address, value, flags))                          \
	X(cuStreamWaitValue32_v2, WAITS_32, (stream, address, value, flags))                       \
	X(cuStreamWaitValue32_ptsz, WAITS_32, (stream, address, value, flags))                     \
	X(cuStreamWaitValue32_v2_ptsz, WAITS_32, (stream, address, value, flags))                  \
	X(cuStreamWaitValue64, WAITS_64, (stream, address, value, flags))                          \
	X(cuStreamWaitValue64_v2, WAITS_64, (stream, address, value, flags))                       \
	X(cuStreamWaitValue64_ptsz, WAITS_64, (stream, address, value, flags))                     \
	X(cuStreamWaitValue64_v2_ptsz, WAITS_64, (stream, address, value, flags))                  \
	X(cuStreamBatchMemOp, BATCHES, (stream, count, ops, flags))                                \
	X(cuStreamBatchMemOp_v2, BATCHES, (stream, count, ops, flags))                             \
	X(cuStreamBatchMemOp_ptsz, BATCHES, (stream, count, ops, flags))                           \
	X(cuStreamBatchMemOp_v2_ptsz, BATCHES, (stream, count, ops, flags))                        \
	X(cuLaunchHostFunc, CALLS_IN, (stream, function, data))                                    \
	X(cuLaunchHostFunc_ptsz, CALLS_IN, (stream, function, data))                               \
	X(cuStreamAddCallback, CALLS_BACK, (stream, function, data, flags))                        \
	X(cuStreamAddCallback_ptsz, CALLS_BACK, (stream, function, data, flags))                   \
	X(cuWaitExternalSemaphoresAsync, SEMAPHORES, (semaphores, each, count, stream))            \
	X(cuWaitExternalSemaphoresAsync_ptsz, SEMAPHORES, (semaphores, each, count, stream))
/* They may wait for a stream that is held, but only while there is one. Programs with many streams
 * make such calls often. */
#define FOLLOWING(X)                                                                               \
	X(cuStreamWaitEvent, FOLLOWS, (stream, event, flags))                                      \
	X(cuStreamWaitEvent_ptsz, FOLLOWS, (stream, event, flags))

static struct {
#define MEMBER(symbol, parameters, arguments) api_fn_##symbol *symbol;
	HOLDING(MEMBER)
	FOLLOWING(MEMBER)
#undef MEMBER
} driver;

static CUstream named(CUstream stream, bool own)
{
	if (stream)
		return stream;
	return own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

#define BETWEEN(symbol, parameters, arguments, concerns)                                           \
	static CUresult between_##symbol parameters                                                \
	{                                                                                          \
		CUstream at = named(stream, api_rows[API_##symbol].stream != API_PLAIN);           \
		struct held_call *call =                                                           \
			concerns ? held_call_begin(at, __builtin_return_address(0)) : NULL;        \
		CUresult r = driver.symbol arguments;                                              \
		held_call_end(call, at);                                                           \
		return r;                                                                          \
	}
#define BETWEEN_HOLDING(symbol, parameters, arguments) BETWEEN(symbol, parameters, arguments, true)
#define BETWEEN_FOLLOWING(symbol, parameters, arguments)                                           \
	BETWEEN(symbol, parameters, arguments, held_any())
HOLDING(BETWEEN_HOLDING)
FOLLOWING(BETWEEN_FOLLOWING)
#undef BETWEEN_FOLLOWING
#undef BETWEEN_HOLDING
#undef BETWEEN

void held_begin(void)
{
	static _Atomic uint32_t inserted;

	held_calls_begin();
	if (atomic_exchange(&inserted, 1))
		return;
#define INSERT(symbol, parameters, arguments)                                                      \
	driver.symbol = real_function(symbol);                                                     \
	real_between(API_##symbol, (void *)between_##symbol);
	HOLDING(INSERT)
	FOLLOWING(INSERT)
#undef INSERT
}
