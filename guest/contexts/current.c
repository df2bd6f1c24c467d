/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/current.h"

#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/process/state.h"

_Atomic uint32_t current_era;
static _Atomic uint32_t never;

/* NULL also if the device's memory moves: then the quick way to the driver must not be taken. */
static struct state_device *home_of(int device)
{
	return device < 0 || atomic_load(&state.device[device].moves) ? NULL
								      : &state.device[device];
}

/* Does the answer stay true until something changes? If the program has private tables, only if
 * there is a single context and a single device: then the tables can make no other context current.
 */
static bool lasts(CUcontext context)
{
	return !atomic_load(&never) || (atomic_load(&state.devices) == 1 && contexts_only(context));
}

int current_ask(CUcontext *ret_context)
{
	/* Read first: if a context ends meanwhile, the answer is outdated at once. */
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
	/* A signal handler that asks in between finds nothing, and stores its own answer. */
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

/* Forgets before the call, in case it is left by longjmp(), and after it, in case a handler asked
 * meanwhile. */
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
