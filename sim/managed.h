/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/managed.h
 * Managed memory: host memory that devices reach at the same address. It counts in the device's
 * book while it is resident, shares the capacity with everything else, and may be pushed out by
 * others' managed memory: it never fails for want of room.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/context.h"
#include "sim/space.h"

must_check CUresult managed_take(struct CUctx_st *context, size_t bytes, unsigned flags,
				 struct space_range *ret_range);
void managed_give(uint64_t base);

/* A kernel of the process starts on the device: managed memory counts as used now. */
void managed_touch(int device);
