/* SPDX-License-Identifier: Apache-2.0 */
/*                                                         sim/cuda/green_types.h
 * Green contexts: streams of a device's primary context that have some of its multiprocessors. A
 * green context keeps the primary one alive, and shares its memory, modules, events and errors.
 *
 * A thread makes it current by another handle (cuCtxFromGreenCtx): a struct CUctx_st that only
 * names it. context_current() and context_named() answer the primary context for that.
 */
#pragma once

#include <stdint.h>

#include "cuda/types.h"

struct CUctx_st;
struct stream_set;

/* Multiprocessors `first` to `first + count - 1` of the device. */
struct resource {
	CUdevice device;
	uint32_t first, count;
};

/* Never freed: a handle that was one stays recognisable. */
struct CUgreenCtx_st {
	struct CUgreenCtx_st *before; /* the one made before it */
	struct CUctx_st *named;	      /* what cuCtxFromGreenCtx answers */
	struct CUctx_st *primary;     /* retained once for this */
	uint64_t life;		      /* the primary context's id: after a reset it is another */
	uint64_t id;
	struct resource has;
	struct stream_set *streams; /* while the primary context lives */
};
