/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/green.h
 * Green contexts: streams of a device's primary context that have some of its multiprocessors. A
 * green context keeps the primary one alive, and shares its memory, modules, events and errors.
 *
 * A thread makes it current by another handle (cuCtxFromGreenCtx): a struct CUctx_st that only
 * names it. context_current() and context_named() answer the primary context for that.
 */
#pragma once

#include <stdint.h>

#include "cuda/types.h"
#include "sim/cuda/resource.h"

struct CUctx_st;
struct stream_set;

/* Never freed: a handle that was one stays recognisable. */
struct CUgreenCtx_st {
	struct CUctx_st *named;	  /* what cuCtxFromGreenCtx answers */
	struct CUctx_st *primary; /* retained once for this */
	uint64_t life;		  /* the primary context's id: after a reset it is another */
	uint64_t id;
	struct resource has;
	struct stream_set *streams; /* while the primary context lives */
};

/* NULL: it has ended, and this with it. */
struct CUctx_st *green_primary(const struct CUgreenCtx_st *green);

/* Where the calling thread's default streams and new ones belong, in its current context. */
struct stream_set *green_streams(const struct CUctx_st *context);
