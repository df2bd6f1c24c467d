/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pool serves an allocation: that of the device on which the stream's work runs, unless the
 * program names one. Asking the driver for both costs more than everything else about a small
 * allocation, so each thread remembers its last answer until something may have changed it.
 */
#include <stdatomic.h>

#include "guest/contexts/current.h"
#include "guest/contexts/devices.h"
#include "guest/contexts/memory_place.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/pools_book.h"
#include "guest/process/state.h"
#include "guest/thread.h"

_Atomic uint32_t pools_era;
static _Atomic uint32_t changing; /* calls under way that may change it */

void pools_changed(void)
{
	atomic_fetch_add(&pools_era, 1);
}

/* Where the stream's work runs; the current context for the streams that every context has. */
static void stream_place(CUstream stream, struct memory_place *place)
{
	CUcontext context = NULL;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return;
	if (driver_call(real(cuStreamGetCtx)(stream, &context)) == CUDA_SUCCESS && context) {
		place->context = context;
		place->device = devices_of_context(context);
	}
}

static CUresult pool_of(const struct pools_request *q, int device, struct pool **ret_pool,
			CUmemoryPool *ret_handle)
{
	CUmemoryPool handle = q->pool, other;
	int ordinal = devices_ordinal(device);

	*ret_pool = NULL;
	if (!handle && (ordinal < 0 ||
			driver_call(real(cuDeviceGetMemPool)(&handle, ordinal)) != CUDA_SUCCESS))
		return CUDA_SUCCESS;
	*ret_handle = handle;
	*ret_pool = handle ? pools_find(handle) : NULL;
	if (*ret_pool && (*ret_pool)->ended)
		return CUDA_ERROR_INVALID_VALUE;
	if (*ret_pool || !handle)
		return CUDA_SUCCESS;
	for (int i = 0; q->pool && i < (int)atomic_load(&state.devices); i++)
		if (devices_ordinal(i) >= 0 &&
		    driver_call(real(cuDeviceGetDefaultMemPool)(&other, devices_ordinal(i))) ==
			    CUDA_SUCCESS &&
		    other == handle)
			device = i;
	*ret_pool = pools_add(handle, device);
	return *ret_pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool pools_foreign(CUmemoryPool handle)
{
	CUmemoryPool other;
	int count = 0;

	if (!handle || pools_find(handle) ||
	    driver_call(real(cuDeviceGetCount)(&count)) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < count; i++)
		if (devices_index(i) < 0 &&
		    driver_call(real(cuDeviceGetDefaultMemPool)(&other, i)) == CUDA_SUCCESS &&
		    other == handle)
			return true;
	return false;
}

/* An answer is not remembered if it may be changing meanwhile. */
static void remember(const struct pools_request *q, struct pool *pool, CUmemoryPool handle,
		     uint32_t era)
{
	struct pools_own *own = &guest_thread.pools;
	const struct current *now = &guest_thread.current;
	uint32_t turn = ++own->turn;

	if (atomic_load(&changing) != 0 || era == 0 || pool->device < 0 || now->known == 0)
		return;
	own->context = now->context;
	own->current_era = now->known;
	own->stream = q->stream;
	own->asked = q->pool;
	own->handle = handle;
	own->pool = pool;
	/* A signal handler that asks in between finds nothing, and stores its own answer. */
	atomic_signal_fence(memory_order_seq_cst);
	if (own->turn == turn)
		own->era = era;
}

CUresult pools_find_place(const struct pools_request *q, struct memory_place *place,
			  struct pool **ret_pool)
{
	/* Read first: a change meanwhile makes the answer outdated at once. */
	uint32_t era = atomic_load(&pools_era) + 1;
	CUcontext context = place->context;
	CUmemoryPool handle = NULL;
	CUresult r;

	guest_thread.pools.era = 0;
	stream_place(q->stream, place);
	r = pool_of(q, place->device, ret_pool, &handle);
	if (r == CUDA_SUCCESS && *ret_pool && context == guest_thread.current.context)
		remember(q, *ret_pool, handle, era);
	return r;
}

/* ---- what changes it ------------------------------------------------------------------------- */

/* Called before and after a call that changes the pool: in between it is not known. */
#define CHANGE(call)                                                                               \
	({                                                                                         \
		CUresult changed_;                                                                 \
		atomic_fetch_add(&changing, 1);                                                    \
		pools_changed();                                                                   \
		changed_ = driver_call(call);                                                      \
		pools_changed();                                                                   \
		atomic_fetch_sub(&changing, 1);                                                    \
		changed_;                                                                          \
	})

CUresult hook_cuDeviceSetMemPool(CUdevice_v1 dev, CUmemoryPool pool)
{
	return CHANGE(real(cuDeviceSetMemPool)(dev, pool));
}

CUresult hook_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	return CHANGE(real(cuMemSetMemPool)(location, type, pool));
}
