/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/resolve.h"

#include <stddef.h>
#include <string.h>

#include "cuda/resolve_table.h"

/* FNV-1a; cuda/gen.py computes the same when it lays out the table. */
static uint32_t hash_name(const char *name)
{
	uint32_t value = 2166136261U;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		value = (value ^ *c) * 16777619U;
	return value;
}

int resolve_symbol(const char *name, int version, uint64_t flags, int driver_version,
		   enum api_index *ret_index)
{
	uint32_t hash = hash_name(name);
	uint32_t shift = resolve_shifts[hash % RESOLVE_BUCKETS];
	uint32_t slot = ((hash >> 8) + shift * ((hash >> 18) | 1)) % RESOLVE_SLOTS;
	unsigned first = resolve_first[slot];
	const struct api_row *row, *plain = NULL, *own = NULL;
	int known = 0;

	/* The hash is perfect for the table's names only: any other name lands somewhere too. */
	if (resolve_count[slot] == 0 || strcmp(name, api_rows[first].base) != 0)
		return RESOLVE_UNKNOWN;
	for (row = &api_rows[first]; row < &api_rows[first + resolve_count[slot]]; row++) {
		if (row->version > driver_version)
			continue;
		known = 1;
		if (row->version > version)
			continue;
		/* Ascending versions within each kind: the last one that fits is the newest. */
		if (row->stream == API_PLAIN)
			plain = row;
		else
			own = row;
	}
	row = (flags & RESOLVE_PER_THREAD) && own ? own : plain;
	if (!row)
		return known ? RESOLVE_TOO_OLD : RESOLVE_UNKNOWN;
	*ret_index = (enum api_index)(row - api_rows);
	return 0;
}
