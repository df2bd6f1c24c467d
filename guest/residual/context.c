/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/devices.h"
#include "guest/process/join.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "guest/contexts/contexts.h"
#include "guest/contexts/current.h"
#include "guest/credit/credit.h"
#include "guest/credit/settle.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/driver_lock.h"
#include "guest/hooks.h"
#include "guest/link/link.h"
#include "guest/memory/memory.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "guest/time/capture.h"
#include "guest/time/flight.h"
#include "guest/time/held.h"

enum {
	AWAY_WAIT_MS = 10000,
};

/* A context that is being made. */
struct making {
	int index;	   /* of its device, or one of enum's values below */
	uint64_t reserved; /* what the daemon reserved for it */
};

enum {
	INDEX_NONE = -1,   /* an ordinal that is no device */
	INDEX_NESTED = -2, /* a call that the driver makes from inside another one */
};

CUresult hook_cuInit(unsigned int Flags)
{
	CUresult r;

	state_retry();
	r = state_ready();
	if (r != CUDA_SUCCESS)
		return r;
	state_driver_begins();
	return real(cuInit)(Flags);
}

struct device_word {
	struct link_word word;
	int device;
};

static int write_residual_ask(struct link_word *word, struct wire_message *message)
{
	const struct device_word *about = container_of(word, struct device_word, word);

	message->code = WIRE_residual_ask;
	message->residual_ask.bytes = 0;
	message->residual_ask.device = atomic_load(&state.device[about->device].wire_index);
	return 0;
}

/* Before a context is made on `device`. While the daemon is away nothing can be reserved; the
 * context is made, and charged when the daemon is back. From here to made() it is a change: a
 * measurement meanwhile may or may not include the context, whose reservation counts in addition.
 */
static CUresult reserve(CUdevice device, struct making *ret_making, bool nested)
{
	struct device_word about = {{write_residual_ask, NULL}, -1};
	struct wire_answer answer;
	static _Atomic uint32_t said;
	CUresult r = state_ready();
	int index, sent;

	if (r != CUDA_SUCCESS)
		return r;
	*ret_making = (struct making){.index = INDEX_NESTED};
	if (nested)
		return CUDA_SUCCESS;
	index = devices_index(device);
	if (index < 0) {
		CUuuid uuid;

		/* The driver refuses an ordinal that does not exist. */
		ret_making->index = INDEX_NONE;
		if (real(cuDeviceGetUuid)(&uuid, device) != CUDA_SUCCESS)
			return CUDA_SUCCESS;
		say("device %d does not belong to the tenant: no context is created on it", device);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	about.device = index;
	sent = link_ask(&about.word, LINK_FOR_ROOM, NULL, &answer);
	if (sent == 0 && answer.code == WIRE_refused) {
		if (atomic_exchange(&said, 1) == 0)
			say("no room for a context: %s", answer.refused.reason.text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ret_making->reserved = sent == 0 && answer.code == WIRE_done ? answer.done.value : 0;
	ret_making->index = index;
	changes_begin();
	return CUDA_SUCCESS;
}

/* After reserve() said CUDA_SUCCESS and the driver was called. */
static CUresult made(const struct making *making, CUresult r, CUcontext *context)
{
	int index = making->index;

	current_forget();
	if (index == INDEX_NESTED)
		return r;
	if (r == CUDA_SUCCESS && context) {
		if (index >= 0)
			atomic_fetch_add(&state.device[index].contexts, 1);
		contexts_add(*context, index);
	}
	if (index >= 0 && !context)
		changes_other(index); /* a green context is not counted */
	if (index >= 0) {
		credit_publish(index);
		settle_made(index, making->reserved);
		changes_end();
	}
	return r;
}

CUresult hook_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	struct making making;
	CUresult r = reserve(dev, &making, driver_nested());

	return r ? r : made(&making, driver_call(real(cuCtxCreate)(pctx, flags, dev)), pctx);
}

CUresult hook_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	struct making making;
	CUresult r = reserve(dev, &making, driver_nested());

	return r ? r : made(&making, driver_call(real(cuCtxCreate_v2)(pctx, flags, dev)), pctx);
}

CUresult hook_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			     unsigned int flags, CUdevice_v1 dev)
{
	struct making making;
	CUresult r = reserve(dev, &making, driver_nested());

	return r ? r
		 : made(&making,
			driver_call(real(cuCtxCreate_v3)(pctx, paramsArray, numParams, flags, dev)),
			pctx);
}

CUresult hook_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
			     unsigned int flags, CUdevice dev)
{
	struct making making;
	CUresult r = reserve(dev, &making, driver_nested());

	return r ? r
		 : made(&making,
			driver_call(real(cuCtxCreate_v4)(pctx, ctxCreateParams, flags, dev)), pctx);
}

CUresult hook_cuGLCtxCreate(CUcontext *pCtx, unsigned int Flags, CUdevice_v1 device)
{
	struct making making;
	CUresult r = reserve(device, &making, driver_nested());

	return r ? r : made(&making, driver_call(real(cuGLCtxCreate)(pCtx, Flags, device)), pCtx);
}

CUresult hook_cuGLCtxCreate_v2(CUcontext *pCtx, unsigned int Flags, CUdevice_v1 device)
{
	struct making making;
	CUresult r = reserve(device, &making, driver_nested());

	return r ? r
		 : made(&making, driver_call(real(cuGLCtxCreate_v2)(pCtx, Flags, device)), pCtx);
}

CUresult hook_cuVDPAUCtxCreate(CUcontext *pCtx, unsigned int flags, CUdevice_v1 device,
			       VdpDevice vdpDevice, VdpGetProcAddress *vdpGetProcAddress)
{
	struct making making;
	CUresult r = reserve(device, &making, driver_nested());

	return r ? r
		 : made(&making,
			driver_call(real(cuVDPAUCtxCreate)(pCtx, flags, device, vdpDevice,
							   vdpGetProcAddress)),
			pCtx);
}

CUresult hook_cuVDPAUCtxCreate_v2(CUcontext *pCtx, unsigned int flags, CUdevice_v1 device,
				  VdpDevice vdpDevice, VdpGetProcAddress *vdpGetProcAddress)
{
	struct making making;
	CUresult r = reserve(device, &making, driver_nested());

	return r ? r
		 : made(&making,
			driver_call(real(cuVDPAUCtxCreate_v2)(pCtx, flags, device, vdpDevice,
							      vdpGetProcAddress)),
			pCtx);
}

/* From the check for a primary context until one is made: of several threads one makes it, and the
 * others find it. */
static struct driver_lock primaries;

static int primary_active(CUdevice device)
{
	unsigned flags = 0;
	int active = 0;

	return real(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active;
}

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice_v1 dev)
{
	CUresult r = state_ready();
	struct making making;
	bool nested, mine;

	if (r != CUDA_SUCCESS)
		return r;
	nested = driver_nested();
	mine = !nested && driver_lock_take(&primaries);
	if (primary_active(dev)) {
		r = driver_call(real(cuDevicePrimaryCtxRetain)(pctx, dev));
		if (r == CUDA_SUCCESS && pctx)
			contexts_add(*pctx, devices_index(dev));
	} else {
		r = reserve(dev, &making, nested);
		if (r == CUDA_SUCCESS)
			r = made(&making, driver_call(real(cuDevicePrimaryCtxRetain)(pctx, dev)),
				 pctx);
	}
	driver_lock_give(&primaries, mine);
	return r;
}

/* After the context is gone, whose memory belongs to `owner`. */
static void gone(uint64_t owner, int index)
{
	uint64_t have;

	memory_context_gone(owner);
	if (index < 0)
		return;
	have = atomic_load(&state.device[index].contexts);
	while (have > 0 &&
	       !atomic_compare_exchange_weak(&state.device[index].contexts, &have, have - 1))
		;
	credit_publish(index);
	settle_device(index);
}

/* The context may end: until end_over() the mover and the agent do not work in it. */
static void begin_end(CUcontext context)
{
	contexts_still(context);
	movable_context_leaves(context);
}

/* Forgets a context that is about to end, or has ended. */
static void drop(CUcontext context)
{
	flight_context_leaves(context);
	held_context_leaves(context);
	contexts_drop(context);
}

static void end_over(void)
{
	contexts_gone();
	movable_context_over();
}

/* Destroys by `call`; the agent does not touch the context meanwhile. */
#define DESTROY(context, call)                                                                     \
	({                                                                                         \
		CUcontext destroyed_ = (context);                                                  \
		int index_ = destroyed_ ? contexts_device(destroyed_) : -1;                        \
		uint64_t leaving_;                                                                 \
		CUresult result_;                                                                  \
		begin_end(destroyed_);                                                             \
		drop(destroyed_);                                                                  \
		current_changed();                                                                 \
		changes_begin();                                                                   \
		leaving_ = memory_context_leaves(destroyed_);                                      \
		result_ = (call);                                                                  \
		if (result_ != CUDA_SUCCESS)                                                       \
			memory_context_stays(destroyed_, leaving_);                                \
		else                                                                               \
			capture_context_gone(destroyed_);                                          \
		if (result_ != CUDA_SUCCESS && index_ > -2)                                        \
			contexts_add(destroyed_, index_);                                          \
		end_over();                                                                        \
		current_changed();                                                                 \
		if (result_ == CUDA_SUCCESS)                                                       \
			gone(leaving_, index_);                                                    \
		changes_end();                                                                     \
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

	changes_begin();
	/* Only the driver knows whether this is the last release, with which the context ends. */
	if (context)
		begin_end(context);
	r = driver(device);
	current_changed();
	if (r == CUDA_SUCCESS && context && !primary_active(device)) {
		drop(context);
		capture_context_gone(context);
		gone((uint64_t)(uintptr_t)context, index);
	}
	if (context)
		end_over();
	changes_end();
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
		best_effort(devices_of_context(*pctx));
	return r;
}

/* Ends the context with its last user. A context that can no longer be made current has ended. */
CUresult hook_cuCtxDetach(CUcontext ctx)
{
	int index = contexts_device(ctx);
	CUcontext popped;
	CUresult r;

	changes_begin();
	r = real(cuCtxDetach)(ctx);
	current_changed();
	if (r == CUDA_SUCCESS && real(cuCtxPushCurrent_v2)(ctx) == CUDA_SUCCESS) {
		best_effort(real(cuCtxPopCurrent_v2)(&popped));
	} else if (r == CUDA_SUCCESS) {
		begin_end(ctx);
		drop(ctx);
		capture_context_gone(ctx);
		end_over();
		gone((uint64_t)(uintptr_t)ctx, index);
	}
	changes_end();
	return r;
}

CUresult hook_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	CUresult r = state_ready();

	if (r == CUDA_SUCCESS)
		r = real(cuCtxFromGreenCtx)(pContext, hCtx);
	if (r == CUDA_SUCCESS && pContext)
		best_effort(devices_of_context(*pContext));
	return r;
}

CUresult hook_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
			       unsigned int flags)
{
	struct making making;
	CUresult r = reserve(dev, &making, driver_nested());

	return r ? r
		 : made(&making, driver_call(real(cuGreenCtxCreate)(phCtx, desc, dev, flags)),
			NULL);
}

CUresult hook_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	CUcontext context = NULL;

	if (hCtx && real(cuCtxFromGreenCtx)(&context, hCtx) != CUDA_SUCCESS)
		context = NULL;
	return DESTROY(context, real(cuGreenCtxDestroy)(hCtx));
}

/* Calls that change how much memory the current context takes: the daemon measures afterwards. */
static CUresult settled(CUresult r)
{
	settle_device(state_joined() ? devices_current() : -1);
	return r;
}

/* Peer access concerns plain memory only; the mapping may take page tables. */
CUresult hook_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	CUresult r = state_ready();

	if (r == CUDA_SUCCESS && state_joined())
		changes_other(devices_current());
	return r ? r : settled(real(cuCtxEnablePeerAccess)(peerContext, Flags));
}

CUresult hook_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	CUresult r = state_ready();

	return r ? r : settled(real(cuCtxDisablePeerAccess)(peerContext));
}

void context_forget(void)
{
	memset(&primaries, 0, sizeof(primaries));
}
