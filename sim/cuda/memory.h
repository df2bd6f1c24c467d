/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/memory.h
 * Allocations that belong to a context: linear device memory, pinned and registered host memory,
 * managed memory. For other modules they are ranges of sim/cuda/space.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/context.h"
#include "sim/cuda/space.h"

/* Device memory of a context, in the table as `kind`. SUCCESS or OUT_OF_MEMORY. For cuMemAlloc,
 * arrays, module variables and heaps. */
must_check CUresult memory_take(struct CUctx_st *context, size_t bytes, enum space_kind kind,
				struct space_range *ret_range);

/* Gives a range of either kind back; waits for its users, not for streams. */
void memory_give(const struct space_range *range);

/* The context's host and managed ranges go; its device memory goes with its heap. */
void memory_context_ended(struct CUctx_st *context);

/* Is the range within pinned, registered or managed memory, so that copies need not be staged? */
bool memory_is_pinned(uint64_t address, size_t bytes);
