/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of memory that a program allocates, and a request for some. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

enum memory_kind {
	MEMORY_LARGE = 1, /* blocks of its own */
	MEMORY_SMALL,	  /* in a shared block (guest/credit/blocks.h): not in the table */
	MEMORY_POOLED,	  /* charged by its pool: `owner` is the pool's index */
	MEMORY_IMPORTED,  /* the exporter pays */
	MEMORY_ARRAY,	  /* in the table of arrays */
	MEMORY_MOVABLE,	  /* guest/movable/movable.h, which has charged it */
	MEMORY_OVERSIZE,  /* guest/memory/oversize.h; `detail`: units that are not charged */
	MEMORY_KINDS,
};

enum {
	MEMORY_MANAGED =
		1, /* `detail` of a large allocation: how much of it is on the device is unknown */
};

/* One allocation. `call` calls the driver and sets `address` and `bytes`. */
struct memory_request {
	CUresult (*call)(struct memory_request *request);
	uint64_t bytes;	  /* the expected size, then the actual size */
	uint64_t address; /* 0: nothing to remember */
	bool shares;	  /* small allocations share blocks */
	bool movable;	  /* it may be served from guest/movable/movable.h */
	bool managed;
	bool nested; /* driver_nested() of the hook */
	void *place, *pitch;
	size_t width, height;
	unsigned element, flags;
};
