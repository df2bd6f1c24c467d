/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/cuda/managed.h
 * Managed memory: host memory that devices reach at the same address, in pages of 2 MiB. A page is
 * in a device's book once a kernel there has touched it, which costs a fault. A full device pushes
 * out the pages that were used longest ago, also those of other processes, so that managed memory
 * never fails for want of room. Prefetches move pages at the link's rate.
 *
 * Only the pages that a kernel asks for are seen (sim/ptx/ptx.h remembers some): a page that leaves
 * and returns within one kernel costs only one fault. Accesses by the host are not seen.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/context.h"
#include "sim/cuda/managed_hints.h"
#include "sim/cuda/space.h"

must_check CUresult managed_take(struct CUctx_st *context, size_t bytes, unsigned flags,
				 struct space_range *ret_range);
void managed_give(uint64_t base);

/* A kernel touches the range at `address` on the device: narrows the range to that page. Returns
 * what it costs the kernel, 0 where the page was there. The space is in use. */
uint64_t managed_fault(struct space_range *range, uint64_t address, int device);

/* A kernel of the process starts on the device: managed memory counts as used now. */
void managed_touch(int device);

/* ---- hints (sim/cuda/managed_advice.c)
 * ------------------------------------------------------------ */

/* A location in CUDA 8's form: a device, or CU_DEVICE_CPU; checked as below. */
must_check CUresult managed_location(int device, CUmemLocation *ret_location);

/* INVALID_VALUE, INVALID_DEVICE. The current NUMA node is replaced by that node. */
must_check CUresult managed_location_check(CUmemLocation *location);

/* Is all of it managed memory of one allocation, and is there a context to ask in? */
must_check CUresult managed_check(uint64_t address, size_t bytes);

/* Calls change() with `what` for the hints of these bytes. INVALID_VALUE, OUT_OF_MEMORY: none was
 * changed. */
must_check CUresult managed_hints_change(uint64_t address, size_t bytes,
					 void (*change)(struct managed_hint *hint,
							const void *what),
					 const void *what);

/* The hints that all of these bytes have in common. INVALID_VALUE. */
must_check CUresult managed_hint_common(uint64_t address, size_t bytes,
					struct managed_hint *ret_hint);
