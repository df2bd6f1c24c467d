/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/context.h"

#include <stdatomic.h>

#include "guest/capture.h"
#include "guest/contexts.h"
#include "guest/credit.h"
#include "guest/hooks.h"
#include "guest/link.h"
#include "guest/memory.h"
#include "guest/query.h"
#include "guest/real.h"
#include "guest/say.h"
#include "guest/state.h"

enum {
	AWAY_WAIT_MS = 10000,
};

/* While the driver makes a context for this thread: what it calls of ours meanwhile is part of that
 * context and is neither reserved nor counted again. */
static __thread unsigned making __attribute__((tls_model("initial-exec")));

/* What it was answered when it reserved for that. */
static __thread uint64_t reserved __attribute__((tls_model("initial-exec")));

enum {
	INDEX_NONE = -1,   /* an ordinal that is no device */
	INDEX_NESTED = -2, /* a call from inside another one */
};

CUresult hook_cuInit(unsigned int Flags)
{
	CUresult r;

	state_retry();
	r = state_ready();
	return r ? r : real(cuInit)(Flags);
}

/* `bytes`: what RESIDUAL_ASK was answered for what is there now; 0: nothing. Others may be about
 * to make contexts that they reserved for. */
static void settle(int device, uint64_t bytes)
{
	struct wire_message message = {.code = WIRE_residual_settle};

	if (device < 0 || !state_joined())
		return;
	message.residual_settle.bytes = bytes;
	message.residual_settle.keep = bytes == 0;
	message.residual_settle.device = atomic_load(&state.device[device].wire_index);
	message.residual_settle.contexts = (uint32_t)atomic_load(&state.device[device].contexts);
	best_effort(link_send(&message));
}

void context_settle(int device)
{
	settle(device, 0);
}

/* Before a context is made on `device`. While the daemon is away nothing can be reserved; the
 * context is made, and charged when the daemon is back. From here to made() it is a move: what is
 * measured meanwhile may have it or not, and what was reserved for it stands beside that. */
static CUresult reserve(CUdevice device, int *ret_index)
{
	struct wire_message message = {.code = WIRE_residual_ask}, answer;
	static _Atomic uint32_t said;
	CUresult r = state_ready();
	uint32_t number;
	int index, sent;

	if (r != CUDA_SUCCESS)
		return r;
	if (making++) {
		*ret_index = INDEX_NESTED;
		return CUDA_SUCCESS;
	}
	index = state_device(device);
	if (index < 0) {
		CUuuid uuid;

		/* An ordinal that is none is the driver's to refuse. */
		*ret_index = INDEX_NONE;
		if (real(cuDeviceGetUuid)(&uuid, device) != CUDA_SUCCESS)
			return CUDA_SUCCESS;
		making--;
		say("device %d is not the tenant's: no context is made on it", device);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	message.residual_ask.device = atomic_load(&state.device[index].wire_index);
	number = link_number();
	sent = link_ask(&message, 1, &answer);
	if (sent == -ENOTCONN && link_wait_back(number, AWAY_WAIT_MS))
		sent = link_ask(&message, 1, &answer);
	if (sent == 0 && answer.code == WIRE_refused) {
		if (atomic_exchange(&said, 1) == 0)
			say("no room for a context: %s", answer.refused.reason.text);
		making--;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	reserved = sent == 0 && answer.code == WIRE_done ? answer.done.value : 0;
	moves_begin();
	*ret_index = index;
	return CUDA_SUCCESS;
}

/* After reserve() said CUDA_SUCCESS and the driver was called. */
static CUresult made(int index, CUresult r, CUcontext *context)
{
	making--;
	if (index == INDEX_NESTED)
		return r;
	if (r == CUDA_SUCCESS && context) {
		if (index >= 0)
			atomic_fetch_add(&state.device[index].contexts, 1);
		contexts_add(*context, index);
	}
	if (index >= 0) {
		credit_publish(index);
		settle(index, reserved);
		moves_end();
	}
	return r;
}

CUresult hook_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	int index;
	CUresult r = reserve(dev, &index);

	return r ? r : made(index, real(cuCtxCreate)(pctx, flags, dev), pctx);
}

CUresult hook_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	int index;
	CUresult r = reserve(dev, &index);

	return r ? r : made(index, real(cuCtxCreate_v2)(pctx, flags, dev), pctx);
}

CUresult hook_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			     unsigned int flags, CUdevice_v1 dev)
{
	int index;
	CUresult r = reserve(dev, &index);

	return r ? r
		 : made(index, real(cuCtxCreate_v3)(pctx, paramsArray, numParams, flags, dev),
			pctx);
}

CUresult hook_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
			     unsigned int flags, CUdevice dev)
{
	int index;
	CUresult r = reserve(dev, &index);

	return r ? r : made(index, real(cuCtxCreate_v4)(pctx, ctxCreateParams, flags, dev), pctx);
}

CUresult hook_cuGLCtxCreate(CUcontext *pCtx, unsigned int Flags, CUdevice_v1 device)
{
	int index;
	CUresult r = reserve(device, &index);

	return r ? r : made(index, real(cuGLCtxCreate)(pCtx, Flags, device), pCtx);
}

CUresult hook_cuGLCtxCreate_v2(CUcontext *pCtx, unsigned int Flags, CUdevice_v1 device)
{
	int index;
	CUresult r = reserve(device, &index);

	return r ? r : made(index, real(cuGLCtxCreate_v2)(pCtx, Flags, device), pCtx);
}

CUresult hook_cuVDPAUCtxCreate(CUcontext *pCtx, unsigned int flags, CUdevice_v1 device,
			       VdpDevice vdpDevice, VdpGetProcAddress *vdpGetProcAddress)
{
	int index;
	CUresult r = reserve(device, &index);

	return r ? r
		 : made(index,
			real(cuVDPAUCtxCreate)(pCtx, flags, device, vdpDevice, vdpGetProcAddress),
			pCtx);
}

CUresult hook_cuVDPAUCtxCreate_v2(CUcontext *pCtx, unsigned int flags, CUdevice_v1 device,
				  VdpDevice vdpDevice, VdpGetProcAddress *vdpGetProcAddress)
{
	int index;
	CUresult r = reserve(device, &index);

	return r ? r
		 : made(index,
			real(cuVDPAUCtxCreate_v2)(pCtx, flags, device, vdpDevice,
						  vdpGetProcAddress),
			pCtx);
}

static int primary_active(CUdevice device)
{
	unsigned flags = 0;
	int active = 0;

	return real(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active;
}

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice_v1 dev)
{
	int index = -1;
	CUresult r = state_ready();

	if (r == CUDA_SUCCESS && primary_active(dev)) {
		r = real(cuDevicePrimaryCtxRetain)(pctx, dev);
		if (r == CUDA_SUCCESS && pctx)
			contexts_add(*pctx, state_device(dev));
		return r;
	}
	if (r == CUDA_SUCCESS)
		r = reserve(dev, &index);
	return r ? r : made(index, real(cuDevicePrimaryCtxRetain)(pctx, dev), pctx);
}

/* After the context is gone. */
static void gone(CUcontext context, int index)
{
	uint64_t have;

	memory_context_gone(context);
	if (index < 0)
		return;
	have = atomic_load(&state.device[index].contexts);
	while (have > 0 &&
	       !atomic_compare_exchange_weak(&state.device[index].contexts, &have, have - 1))
		;
	credit_publish(index);
	context_settle(index);
}

/* Destroys by `call`; the agent looks away meanwhile. */
#define DESTROY(context, call)                                                                     \
	({                                                                                         \
		CUcontext destroyed_ = (context);                                                  \
		int index_ = destroyed_ ? contexts_device(destroyed_) : -1;                        \
		CUresult result_;                                                                  \
		contexts_leave(destroyed_);                                                        \
		moves_begin();                                                                     \
		result_ = (call);                                                                  \
		if (result_ != CUDA_SUCCESS && index_ > -2)                                        \
			contexts_add(destroyed_, index_);                                          \
		contexts_gone();                                                                   \
		if (result_ == CUDA_SUCCESS)                                                       \
			gone(destroyed_, index_);                                                  \
		moves_end();                                                                       \
		result_;                                                                           \
	})

CUresult hook_cuCtxDestroy(CUcontext ctx)
{
	return DESTROY(ctx, real(cuCtxDestroy)(ctx));
}

CUresult hook_cuCtxDestroy_v2(CUcontext ctx)
{
	return DESTROY(ctx, real(cuCtxDestroy_v2)(ctx));
}

/* The primary context of a device that is active; NULL otherwise. */
static CUcontext primary_of(CUdevice device)
{
	CUcontext context = NULL;

	if (!primary_active(device) ||
	    real(cuDevicePrimaryCtxRetain)(&context, device) != CUDA_SUCCESS)
		return NULL;
	best_effort(real(cuDevicePrimaryCtxRelease)(device));
	return context;
}

static CUresult release(CUdevice device, CUresult (*driver)(CUdevice_v1 device))
{
	CUcontext context = primary_of(device);
	int index = context ? contexts_device(context) : -1;
	CUresult r;

	moves_begin();
	r = driver(device);
	if (r == CUDA_SUCCESS && context && !primary_active(device)) {
		contexts_leave(context);
		contexts_gone();
		gone(context, index);
	}
	moves_end();
	return r;
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice_v1 dev)
{
	return release(dev, real(cuDevicePrimaryCtxRelease));
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice_v1 dev)
{
	return release(dev, real(cuDevicePrimaryCtxRelease_v2));
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice_v1 dev)
{
	return DESTROY(primary_of(dev), real(cuDevicePrimaryCtxReset)(dev));
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice_v1 dev)
{
	return DESTROY(primary_of(dev), real(cuDevicePrimaryCtxReset_v2)(dev));
}

CUresult hook_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	CUresult r = state_ready();

	if (r == CUDA_SUCCESS)
		r = real(cuCtxAttach)(pctx, flags);
	if (r == CUDA_SUCCESS && pctx)
		best_effort(state_context_device(*pctx));
	return r;
}

/* Ends the context with its last user; whether it did shows when it can no longer be used. */
CUresult hook_cuCtxDetach(CUcontext ctx)
{
	int index = contexts_device(ctx);
	CUcontext popped;
	CUresult r;

	moves_begin();
	r = real(cuCtxDetach)(ctx);
	if (r == CUDA_SUCCESS && real(cuCtxPushCurrent_v2)(ctx) == CUDA_SUCCESS) {
		best_effort(real(cuCtxPopCurrent_v2)(&popped));
	} else if (r == CUDA_SUCCESS) {
		contexts_leave(ctx);
		contexts_gone();
		gone(ctx, index);
	}
	moves_end();
	return r;
}

CUresult hook_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	CUresult r = state_ready();

	if (r == CUDA_SUCCESS)
		r = real(cuCtxFromGreenCtx)(pContext, hCtx);
	if (r == CUDA_SUCCESS && pContext)
		best_effort(state_context_device(*pContext));
	return r;
}

CUresult hook_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
			       unsigned int flags)
{
	int index;
	CUresult r = reserve(dev, &index);

	return r ? r : made(index, real(cuGreenCtxCreate)(phCtx, desc, dev, flags), NULL);
}

CUresult hook_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	CUcontext context = NULL;

	if (hCtx && real(cuCtxFromGreenCtx)(&context, hCtx) != CUDA_SUCCESS)
		context = NULL;
	return DESTROY(context, real(cuGreenCtxDestroy)(hCtx));
}

/* What moves memory inside the current context: the daemon measures afterwards. */
static CUresult settled(CUresult r)
{
	context_settle(state_joined() ? state_current_device() : -1);
	return r;
}

/* The driver takes a heap or a buffer for printf() when a kernel first needs it, and nobody is
 * asked then: more than the tenant has left is refused here. Less than there was is always fine. */
static CUresult limit_fits(CUlimit limit, size_t value)
{
	int device = state_joined() ? state_current_device() : -1;
	static _Atomic uint32_t said;
	struct query_memory seen;
	size_t before = 0;

	if (device < 0 ||
	    (limit != CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE) ||
	    real(cuCtxGetLimit)(&before, limit) != CUDA_SUCCESS || value <= before)
		return CUDA_SUCCESS;
	query_memory(device, state_page(device, total_bytes), &seen);
	if (value - before <= seen.free)
		return CUDA_SUCCESS;
	if (atomic_exchange(&said, 1) == 0)
		say("no room for a heap of %lu bytes: the tenant has %lu bytes left",
		    (unsigned long)value, (unsigned long)seen.free);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hook_cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUresult r = state_ready();

	if (r == CUDA_SUCCESS)
		r = limit_fits(limit, value);

	return r ? r : settled(real(cuCtxSetLimit)(limit, value));
}

/* Peer access opens memory that is all the driver's own; the mapping may take page tables. */
CUresult hook_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	CUresult r = state_ready();

	return r ? r : settled(real(cuCtxEnablePeerAccess)(peerContext, Flags));
}

CUresult hook_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	CUresult r = state_ready();

	return r ? r : settled(real(cuCtxDisablePeerAccess)(peerContext));
}

static CUresult stream_made(CUresult r, CUstream *stream, unsigned flags)
{
	if (r == CUDA_SUCCESS && stream && (flags & CU_STREAM_NON_BLOCKING))
		contexts_stream_add(*stream);
	return r;
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

CUresult hook_cuStreamDestroy(CUstream hStream)
{
	contexts_stream_remove(hStream);
	capture_forget_stream(hStream);
	return real(cuStreamDestroy)(hStream);
}

CUresult hook_cuStreamDestroy_v2(CUstream hStream)
{
	contexts_stream_remove(hStream);
	capture_forget_stream(hStream);
	return real(cuStreamDestroy_v2)(hStream);
}
