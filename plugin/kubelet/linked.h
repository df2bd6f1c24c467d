/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses whole GPUs for a container by how they are linked, for GetPreferredAllocation. Pure.
 *
 * Like NVIDIA's plugin (go-gpuallocator's best effort): the free devices are divided into sets of
 * the size that is asked for, so that the links within all sets are worth the most together; of
 * such a division the set that is worth the most is taken. So a container does not get the best
 * pair where that would leave only bad ones to the next.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"

enum { LINKED_DEVICES = 64 };

/* The worth of the link between two devices, in either order; 0: unknown. */
typedef uint32_t linked_worth(const void *owner, uint32_t a, uint32_t b);

struct linked {
	linked_worth *worth;
	const void *owner; /* of worth() */
	uint64_t free;	   /* bit N: device N may be chosen */
	uint64_t must;	   /* and has to be; a part of `free` */
};

/* `size` devices, as bits; 0: there are not so many, or more of them must be chosen. With more than
 * 16 free devices the sets that would be left are not looked at. */
uint64_t linked_choose(const struct linked *l, unsigned size);
