/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the mapping that contains an address: ranges that do not overlap, sorted by address. Only a
 * few answers need interior addresses. A lookup is a binary search; an insertion moves the ranges
 * after it. Memory comes from mmap(). Valid when zero. It has no lock; the owner must hold its own.
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

/* 0; -EEXIST: overlaps an existing range; -EINVAL: empty, or beyond the end; -ENOMEM. */
must_check int ranges_add(struct ranges *ranges, uint64_t base, uint64_t bytes, uint64_t value);

/* The range that contains the address, or NULL. Valid until the next change. */
const struct range *ranges_find(const struct ranges *ranges, uint64_t address);

/* The index of the first range that ends behind the address; `count`: none. */
size_t ranges_first(const struct ranges *ranges, uint64_t address);

/* Removes the first range that is entirely within [base, base + bytes). 0; -ENOENT: none. */
must_check int ranges_take(struct ranges *ranges, uint64_t base, uint64_t bytes,
			   struct range *ret_range);

void ranges_forget(struct ranges *ranges);
