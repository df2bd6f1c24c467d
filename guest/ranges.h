/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which mapping an address lies in: ranges that do not overlap, sorted by address. For the few
 * answers that need interior addresses; a lookup is a binary search, an insertion moves what is
 * behind it. Memory by mmap(). Valid when zero. Not locked: the owner's lock is around it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct range {
	uint64_t base, bytes;
	uint64_t value; /* the owner's */
};

struct ranges {
	struct range *range;
	size_t count;
	size_t mapped_bytes;
};

/* 0; -EEXIST: overlaps one that is there; -EINVAL: no bytes, or beyond the end; -ENOMEM. */
must_check int ranges_add(struct ranges *ranges, uint64_t base, uint64_t bytes, uint64_t value);

/* The range that contains the address, or NULL. Valid until the next change. */
const struct range *ranges_find(const struct ranges *ranges, uint64_t address);

/* Takes out the first range that lies whole in [base, base + bytes). 0; -ENOENT: none. */
must_check int ranges_take(struct ranges *ranges, uint64_t base, uint64_t bytes,
			   struct range *ret_range);

void ranges_forget(struct ranges *ranges);
