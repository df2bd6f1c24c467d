/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/cuda/context.h
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

struct coredump_wishes;
struct stream_set;

enum context_state {
	CONTEXT_ALIVE = 1,
	CONTEXT_INACTIVE, /* a primary context that is not retained */
	CONTEXT_DESTROYED,
};

/* The struct itself is never freed: a handle that was one stays recognisable. */
struct CUctx_st {
	CUdevice device;
	uint64_t id; /* of this life: a primary context gets a new one when it is retained again */
	bool primary;
	unsigned retained; /* primary: how often; under the driver's lock */
	_Atomic int state; /* enum context_state */
	unsigned flags;	   /* CU_CTX_*; under the driver's lock */
	unsigned api_version;
	_Atomic CUresult error; /* sticky; CUDA_SUCCESS while all is well */
	_Atomic uint64_t peers; /* bit per device that may be reached; its own is set */
	_Atomic uint32_t
		cancel; /* not 0: a kernel that hangs on demand ends (sim/machine/engine.h) */
	struct stream_set *streams; /* sim/cuda/stream.c's; made and ended with the context */
	struct heap *heap;	    /* its device memory */
	struct list modules;	    /* module.c's, under the driver's lock */
	struct list link;
	_Atomic uint64_t device_heap; /* the heap of kernels' malloc(): 0 until one needs it */
	_Atomic size_t limits[16];
	_Atomic int cache;	       /* CUfunc_cache */
	struct coredump_wishes *dumps; /* coredump.c's; made and ended with the context */
	/* Not NULL: this is how a thread names a green context (green_types.h). Everything but its
	 * streams is the primary context's, and so are the functions' answers about it. */
	struct CUgreenCtx_st *green;
};

/* The calling thread's context, alive and without an error. SUCCESS, NOT_INITIALIZED,
 * NOT_PERMITTED, INVALID_CONTEXT (none is current), CONTEXT_IS_DESTROYED, or its sticky error. */
must_check CUresult context_current(struct CUctx_st **ret_context);

/* A handle that a program gave: NULL means the current one. INVALID_CONTEXT for garbage. */
must_check CUresult context_named(CUcontext named, struct CUctx_st **ret_context);

/* The green context that a handle names, or for NULL the calling thread's; NULL: none. The handle
 * was accepted by context_named(), or context_current() has answered SUCCESS. */
struct CUgreenCtx_st *context_green(CUcontext named);

/* The primary context of a green one; NULL: it has ended, and the green one with it. */
struct CUctx_st *context_primary(const struct CUgreenCtx_st *green);

/* The streams of the context, or of the green one that context_green() answers. */
struct stream_set *context_streams(const struct CUctx_st *context, CUcontext named);

/* From now on every call in this context answers `error`. The first error stays. */
void context_fail(struct CUctx_st *context, CUresult error);

/* Calls `each` for every living context, under the contexts' lock. */
void context_visit(void (*each)(struct CUctx_st *context, void *data), void *data);

/* ---- for sim/cuda/context_life.c ---- */

void context_list(struct CUctx_st *context);	   /* from now on context_visit() may meet it */
void context_begin_life(struct CUctx_st *context); /* gives it a new id */

/* The calling thread's stack. OUT_OF_MEMORY: it is full. */
must_check CUresult context_push(struct CUctx_st *context);
void context_pop(const struct CUctx_st *context); /* if it is the topmost */
struct CUctx_st *context_top(void);		  /* NULL: none */

/* Whether it is a context that has not been destroyed. */
bool context_exists(CUcontext context);

static inline CUresult context_error(const struct CUctx_st *context)
{
	return atomic_load_explicit(&context->error, memory_order_acquire);
}
