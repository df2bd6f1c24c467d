/* SPDX-License-Identifier: Apache-2.0 */
/*                                                        sim/cuda/managed_hints.h
 * A program's hints about a managed area: cuMemAdvise() and the last prefetch, by pages of the
 * host. cuMemRangeGetAttribute() returns them. They do not influence where pages are
 * (sim/cuda/managed.h).
 *
 * Not locked: the area's lock is the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"

#define MANAGED_HINT_PAGE 4096ull

/* The hints of consecutive pages. A location of type INVALID: none. */
struct managed_hint {
	uint64_t end; /* an offset in the area */
	bool read_mostly;
	CUmemLocation preferred, prefetched;
	uint64_t accessed_by; /* a bit for each device, MANAGED_HINT_HOST for the host */
};

#define MANAGED_HINT_HOST (1ull << 63)

/* One after the other, from the area's beginning to its end. All zero: there are no hints. */
struct managed_hints {
	struct managed_hint *at; /* owned */
	size_t n;
};

/* The hints of all pages of [begin, end), to be changed: *ret_n from *ret_first on. -ENOMEM. */
must_check int managed_hints_span(struct managed_hints *hints, uint64_t area_bytes, uint64_t begin,
				  uint64_t end, struct managed_hint **ret_first, size_t *ret_n);

/* The hints that every page of [begin, end) has: a location only if it is the same for all. */
struct managed_hint managed_hints_common(const struct managed_hints *hints, uint64_t begin,
					 uint64_t end);

void managed_hints_free(struct managed_hints *hints);
