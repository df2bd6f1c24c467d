/* SPDX-License-Identifier: Apache-2.0 */
/*                                                          sim/cuda/device_heap.h
 * The heap of kernels' malloc(): one piece of device memory per context, of the size that
 * CU_LIMIT_MALLOC_HEAP_SIZE had when a kernel first asked. It lives as long as the context.
 *
 * Thread-safe; waits for nobody.
 */
#pragma once

#include <stdint.h>

#include "sim/cuda/context.h"

/* An address aligned to 16, or 0 if it is full. */
uint64_t device_heap_alloc(struct CUctx_st *context, uint64_t bytes);

/* False for an address that is not allocated. */
bool device_heap_free(struct CUctx_st *context, uint64_t address);

void device_heap_ended(struct CUctx_st *context);
