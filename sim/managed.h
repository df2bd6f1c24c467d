/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/managed.h
 * Managed memory: host memory that devices reach at the same address, in pages of 2 MiB. A page
 * is in a device's book from the first time that a kernel there touches it; that costs a fault. A
 * full device pushes out the pages that were used longest ago, also those of other processes, so
 * that managed memory never fails for want of room. Prefetches move pages at the link's rate.
 *
 * Seen by a kernel are the pages that it asks for (sim/ptx/ptx.h remembers some): a page that goes
 * and comes within one kernel costs one fault only. What the host touches is not seen at all.
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

/* A kernel touches the range at `address` on the device: narrows the range to that page. Returns
 * what it costs the kernel, 0 where the page was there. The space is in use. */
uint64_t managed_fault(struct space_range *range, uint64_t address, int device);

/* A kernel of the process starts on the device: managed memory counts as used now. */
void managed_touch(int device);
