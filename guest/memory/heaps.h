/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of kernels' malloc() and the buffer of their printf(). The driver allocates them when a
 * kernel first needs them, without any call that we see. Therefore an increase by cuCtxSetLimit()
 * is charged when it is set, until the context ends; a smaller limit returns no memory. It is
 * unknown whether the driver has already allocated it (credit_adrift).
 *
 * Their default size, about 8 MiB, is found by measuring.
 */
#pragma once

#include <stdint.h>

/* As with arrays (guest/memory/arrays.h): a context leaves, and is gone. */
void heaps_rename(uint64_t owner, uint64_t now);
void heaps_context_gone(uint64_t owner);
