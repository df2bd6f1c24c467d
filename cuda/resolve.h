/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress's rule, over the rows of cuda/api.def.
 *
 * Of the rows with this base name that the driver has (version <= the driver's) it takes the one
 * with the highest version not above the version asked for. With RESOLVE_PER_THREAD only rows for
 * the calling thread's own stream count, if the driver has any of that name: a version from before
 * them is too old. Without it only plain rows count. A version asked for that is above the driver's
 * is as good as the driver's, and so is a negative one. NVIDIA's drivers do all of this
 * (tests/driver).
 *
 * Pure, constant time, no allocation: safe at any moment of a process's life. The answer is a row,
 * not an address: who has addresses keeps them in an array with API_ROWS places.
 */
#pragma once

#include <stdint.h>

#include "cuda/api.h"

/* Flags, as cuGetProcAddress takes them. */
enum {
	RESOLVE_LEGACY = 1, /* the same as none */
	RESOLVE_PER_THREAD = 2,
};

/* Outcomes, numbered as CUdriverProcAddressQueryResult. */
enum {
	RESOLVE_UNKNOWN = 1, /* the driver has no function of that name */
	RESOLVE_TOO_OLD = 2, /* it has, but not yet in the version asked for */
};

/* Versions as major * 1000 + minor * 10. Sets *ret_index when 0 is returned. */
__attribute__((warn_unused_result)) int resolve_symbol(const char *name, int version,
						       uint64_t flags, int driver_version,
						       enum api_index *ret_index);
