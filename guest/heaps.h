/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap that kernels call malloc() on, and the buffer of their printf(): the driver takes them
 * when a kernel first needs them, and asks nobody then. So what cuCtxSetLimit() makes them larger
 * than they were is charged when it is set, and until the context ends: a smaller limit gives no
 * memory back. Whether the driver has taken it already nobody knows (credit_adrift).
 *
 * What they have without being asked for, 8 MiB or so, is found by measuring.
 */
#pragma once

#include <stdint.h>

/* As with arrays (guest/arrays.h): a context leaves, and is gone. */
void heaps_rename(uint64_t owner, uint64_t now);
void heaps_context_gone(uint64_t owner);

/* In a child of fork(). */
void heaps_forget(void);
