/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/current.h"

#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/process/state.h"

_Atomic uint32_t current_era;
static _Atomic uint32_t never;

/* Where memory moves the quick way to the driver is not for it. */
static struct state_device *home_of(int device)
{
	return device < 0 || atomic_load(&state.device[device].moves) ? NULL
								      : &state.device[device];
}

/* Need the driver not be asked again before something changes? Where private tables were asked for,
 * only if there is but one context, of the only device: whatever they make current, it is this one.
 */
static bool lasts(CUcontext context)
{
	return !atomic_load(&never) || (atomic_load(&state.devices) == 1 && contexts_only(context));
}

int current_ask(CUcontext *ret_context)
{
	/* First: what ends meanwhile makes it a thing of the past. */
	uint32_t era = atomic_load(&current_era) + 1;
	CUcontext context = NULL;
	uint32_t turn = ++current_.turn;
	int device;

	current_forget();
	*ret_context = NULL;
	if (real(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
		return -1;
	*ret_context = context;
	device = contexts_device(context);
	if (device < 0 || era == 0)
		return device;
	current_.context = context;
	current_.device = device;
	current_.home = home_of(device);
	/* A handler of signals that asks in between finds nothing, and leaves its own answer. */
	atomic_signal_fence(memory_order_seq_cst);
	if (current_.turn == turn) {
		current_.known = era;
		current_.era = lasts(context) ? era : 0;
	}
	return device;
}

bool current_confirm(void)
{
	uint32_t turn = current_.turn;
	CUcontext context = NULL;

	return real(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context == current_.context &&
	       current_.turn == turn;
}

struct state_device *current_ask_home(CUcontext *ret_context)
{
	return home_of(current_ask(ret_context));
}

void current_changed(void)
{
	atomic_fetch_add(&current_era, 1);
}

void current_never(void)
{
	if (atomic_exchange(&never, 1) == 0)
		current_changed();
}

/* Forgotten before the call, in case that it is left by longjmp(), and after it, in case that a
 * handler asked meanwhile. */
#define SWITCH(call)                                                                               \
	({                                                                                         \
		CUresult switched_;                                                                \
		current_forget();                                                                  \
		switched_ = (call);                                                                \
		current_forget();                                                                  \
		switched_;                                                                         \
	})

CUresult hook_cuCtxPushCurrent(CUcontext ctx)
{
	return SWITCH(real(cuCtxPushCurrent)(ctx));
}

CUresult hook_cuCtxPushCurrent_v2(CUcontext ctx)
{
	return SWITCH(real(cuCtxPushCurrent_v2)(ctx));
}

CUresult hook_cuCtxPopCurrent(CUcontext *pctx)
{
	return SWITCH(real(cuCtxPopCurrent)(pctx));
}

CUresult hook_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	return SWITCH(real(cuCtxPopCurrent_v2)(pctx));
}

CUresult hook_cuCtxSetCurrent(CUcontext ctx)
{
	return SWITCH(real(cuCtxSetCurrent)(ctx));
}
