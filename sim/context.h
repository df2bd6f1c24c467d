/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/context.h
 * Contexts: the primary one of each device, and those that a program makes. Each thread has a
 * stack of them. A context owns its streams, modules, allocations and its sticky error.
 *
 * A context costs device memory (the settings' context bytes) from its creation to its end.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "base/list.h"
#include "base/macros.h"

struct stream_set;

struct CUctx_st {
	CUdevice device;
	uint64_t id;
	bool primary;
	unsigned flags; /* CU_CTX_* */
	unsigned api_version;
	_Atomic CUresult error;	    /* sticky; CUDA_SUCCESS while all is well */
	_Atomic uint64_t peers;	    /* bit per device that may be reached; its own is set */
	_Atomic uint32_t cancel;    /* not 0: kernels of this context end now (sim/engine.h) */
	struct stream_set *streams; /* sim/stream.c's; made and ended with the context */
	struct list modules;	    /* module.c's, under the driver's lock */
	struct list link;
	size_t limits[16];
	CUfunc_cache cache;
	CUsharedconfig shared_config;
};

/* The calling thread's context, alive and without an error. SUCCESS, NOT_INITIALIZED,
 * NOT_PERMITTED, INVALID_CONTEXT (none is current), CONTEXT_IS_DESTROYED, or its sticky error. */
must_check CUresult context_current(struct CUctx_st **ret_context);

/* A handle that a program gave: NULL means the current one. INVALID_CONTEXT for garbage. */
must_check CUresult context_named(CUcontext named, struct CUctx_st **ret_context);

/* From now on every call in this context answers `error`. The first error stays. */
void context_fail(struct CUctx_st *context, CUresult error);

static inline CUresult context_error(const struct CUctx_st *context)
{
	return atomic_load_explicit(&context->error, memory_order_acquire);
}
