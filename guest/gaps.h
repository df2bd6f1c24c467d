/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there room between allocations? For a pool at the tenant's limit, where what fits costs
 * nothing and what does not must be refused. Takes time in proportion to what is allocated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gaps_piece {
	uint64_t address, bytes;
};

/* Whether `bytes` (a small allocation, see guest/blocks.h) fit into one of the blocks in which
 * there is one of these pieces. Sorts them. */
bool gaps_fit(struct gaps_piece *pieces, size_t count, uint64_t bytes);
