/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that do not go below zero, and bounds. */
#pragma once

#include <stdint.h>

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* By how much a exceeds b; 0: it does not. */
static inline uint64_t beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}
