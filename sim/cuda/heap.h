/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                 sim/cuda/heap.h
 * Device memory of one context or pool: a device hands out blocks of 2 MiB, and several small
 * allocations share one, as on a GPU. The device's book is charged by the block.
 *
 * A heap hands out address ranges that are in the space's table; the caller orders their use by
 * streams. Not for managed or host memory. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/space.h"

struct heap;

/* NULL: no memory. Blocks are charged to the device's book for this process. */
struct heap *heap_new(int device);

/* Everything that is still allocated goes too. NULL is fine. */
void heap_free(struct heap *heap);

/* Fills in base, bytes, delta, device, heap and block of the range and adds it to the table; the
 * other members are the caller's. SUCCESS, OUT_OF_MEMORY. */
must_check CUresult heap_take(struct heap *heap, size_t bytes, struct space_range *range);

/* Takes the range out of the table, waiting until no thread uses it, and gives its memory back. */
void heap_give(struct heap *heap, uint64_t base);

/* Keeps empty blocks up to this many bytes in all; more go back to the device at once. */
void heap_keep(struct heap *heap, uint64_t bytes);

/* Gives back empty blocks until at most `bytes` are reserved, or none is empty. */
void heap_trim(struct heap *heap, uint64_t bytes);

struct heap_sizes {
	uint64_t reserved, reserved_high; /* in the device's book */
	uint64_t used, used_high;	  /* handed out */
};

/* Turns the block around a range into a file that other processes can map, without changing its
 * bytes: for IPC handles. Nothing may be running on it. The descriptor stays the heap's. */
must_check CUresult heap_share(struct heap *heap, const struct space_range *range, int *ret_fd,
			       uint64_t *ret_offset);

void heap_sizes(struct heap *heap, struct heap_sizes *ret_sizes);
void heap_reset_high(struct heap *heap, bool reserved, bool used);
