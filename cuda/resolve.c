/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/resolve.h"

#include <stddef.h>
#include <string.h>

#include "cuda/resolve_table.h"

/* Both halves of the product: the upper one has what the last letters do. */
static uint64_t mix(uint64_t value, uint64_t word)
{
	unsigned __int128 product = (unsigned __int128)(value ^ word) * RESOLVE_PRIME;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes at a time, the last eight overlapping: a program looks up some 450 names before its
 * first call. cuda/gen.py computes the same when it lays out the table. */
static uint32_t hash_name(const char *name, size_t length)
{
	uint64_t value = length, word;

	for (size_t i = 0; i + 8 < length; i += 8) {
		memcpy(&word, name + i, 8);
		value = mix(value, word);
	}
	if (length >= 8) {
		memcpy(&word, name + length - 8, 8);
		value = mix(value, word);
	} else {
		for (size_t i = 0; i < length; i++)
			value = mix(value, (unsigned char)name[i]);
	}
	return (uint32_t)value;
}

int resolve_symbol(const char *name, int version, uint64_t flags, int driver_version,
		   enum api_index *ret_index)
{
	size_t length = strnlen(name, RESOLVE_LONGEST + 1);
	uint32_t hash = hash_name(name, length);
	uint32_t shift = resolve_shifts[hash % RESOLVE_BUCKETS];
	uint32_t slot = ((hash >> 8) + shift * ((hash >> 18) | 1)) % RESOLVE_SLOTS;
	unsigned first = resolve_first[slot];
	const struct api_row *row, *plain = NULL, *own = NULL;
	int known = 0, any_own = 0;

	/* The hash is perfect for the table's names only: any other name lands somewhere too. */
	if (length != resolve_length[slot] || memcmp(name, api_base(&api_rows[first]), length) != 0)
		return RESOLVE_UNKNOWN;
	for (row = &api_rows[first]; row < &api_rows[first + resolve_count[slot]]; row++) {
		if (row->version > driver_version)
			continue;
		known = 1;
		any_own |= row->stream != API_PLAIN;
		if (row->version > (unsigned)version)
			continue;
		/* Ascending versions within each kind: the last one that fits is the newest. */
		if (row->stream == API_PLAIN)
			plain = row;
		else
			own = row;
	}
	row = (flags & RESOLVE_PER_THREAD) && any_own ? own : plain;
	if (!row)
		return known ? RESOLVE_TOO_OLD : RESOLVE_UNKNOWN;
	*ret_index = (enum api_index)(row - api_rows);
	return 0;
}
