/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/gaps.h"

#include "guest/credit/blocks.h"

static void sink(struct gaps_piece *pieces, size_t from, size_t count)
{
	struct gaps_piece moved = pieces[from];
	size_t child;

	while ((child = from * 2 + 1) < count) {
		if (child + 1 < count && pieces[child + 1].address > pieces[child].address)
			child++;
		if (pieces[child].address <= moved.address)
			break;
		pieces[from] = pieces[child];
		from = child;
	}
	pieces[from] = moved;
}

/* Heapsort, as qsort() may allocate. */
static void sort(struct gaps_piece *pieces, size_t count)
{
	for (size_t i = count / 2; i-- > 0;)
		sink(pieces, i, count);
	for (size_t end = count; end > 1; end--) {
		struct gaps_piece largest = pieces[0];

		pieces[0] = pieces[end - 1];
		pieces[end - 1] = largest;
		sink(pieces, 0, end - 1);
	}
}

/* Large allocations have their blocks to themselves, to the last byte of the last one. */
static uint64_t end_of(const struct gaps_piece *piece)
{
	uint64_t unit = piece->bytes > BLOCKS_SMALL ? BLOCKS_BYTES : BLOCKS_UNIT;

	return piece->address + (piece->bytes + unit - 1) / unit * unit;
}

bool gaps_fit(struct gaps_piece *pieces, size_t count, uint64_t bytes)
{
	uint64_t units = (bytes + BLOCKS_UNIT - 1) / BLOCKS_UNIT * BLOCKS_UNIT;
	uint64_t end = 0; /* of the taken part of this block so far */

	sort(pieces, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t block = pieces[i].address & ~(BLOCKS_BYTES - 1);

		if (pieces[i].bytes > BLOCKS_SMALL) {
			end = end_of(&pieces[i]);
			continue;
		}
		if (end < block)
			end = block;
		if (pieces[i].address >= end + units)
			return true;
		end = end_of(&pieces[i]);
		/* The rest of the block, if this is the last one in it. */
		if ((i + 1 == count || pieces[i + 1].address >= block + BLOCKS_BYTES) &&
		    block + BLOCKS_BYTES >= end + units)
			return true;
	}
	return false;
}
