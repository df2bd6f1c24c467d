/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds room between allocations, for a pool at the tenant's limit: an allocation that fits costs
 * nothing, and one that does not must be refused. Takes time proportional to the number of
 * allocations.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gaps_piece {
	uint64_t address, bytes;
};

/* Whether `bytes` (a small allocation, see guest/credit/blocks.h) fit into a block that contains
 * one of these pieces. Sorts the pieces. */
bool gaps_fit(struct gaps_piece *pieces, size_t count, uint64_t bytes);
