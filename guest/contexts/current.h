/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread's current context and its device, without asking the driver each time. The
 * result is cached until a call of this thread may have changed it, or a call of any thread has
 * destroyed a context. A process that obtained one of the driver's private tables
 * (cuGetExportTable) may change it unseen. From then on the driver is asked each time which context
 * is current, unless there is only one; only the context's device and the like are remembered
 * (decision 64).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/process/state.h"
#include "guest/thread.h"

#define current_ (guest_thread.current)
extern _Atomic uint32_t current_era; /* less one */

/* Asks the driver. Returns the device as in guest/process/state.h; -1: no context, or not the
 * tenant's; -2: the context is not known yet. */
must_check int current_ask(CUcontext *ret_context);

/* The same, as current_home(). */
must_check struct state_device *current_ask_home(CUcontext *ret_context);

/* After current_never(): asks the driver whether it is still the context that is remembered. */
must_check bool current_confirm(void);

/* Is the cached answer still true? */
must_check static inline_ bool current_holds(void)
{
	uint32_t era = atomic_load_explicit(&current_era, memory_order_relaxed) + 1;

	return likely(current_.era == era) || (current_.known == era && current_confirm());
}

/* The same as current_ask(), from the cache. */
static inline int current_find(CUcontext *ret_context)
{
	if (unlikely(!current_holds()))
		return current_ask(ret_context);
	*ret_context = current_.context;
	return current_.device;
}

/* The device as an object; NULL: it is not the tenant's, it is not known, or its memory moves, so
 * that the quick way to the driver must not be taken. */
static inline struct state_device *current_home(CUcontext *ret_context)
{
	if (unlikely(!current_holds()))
		return current_ask_home(ret_context);
	*ret_context = current_.context;
	return current_.home;
}

/* Before and after a call that makes another context current to this thread. */
static inline void current_forget(void)
{
	current_.era = current_.known = 0;
}

/* Call it after a context may have been destroyed, in whichever threads it was current, and in a
 * child of fork(). */
void current_changed(void);

/* From now on the driver is asked each time. */
void current_never(void);
