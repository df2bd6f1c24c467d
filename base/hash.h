/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash of 64 bits for tables and for comparing lists: FNV-1a, of Fowler, Noll and Vo. Two texts
 * of one hash are easily made: where a stranger chooses the texts, compare them, too.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The hash of nothing, to which hash_add() adds. */
#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* One more byte, or a number as if it were one. */
static inline uint64_t hash_add(uint64_t hash, uint64_t byte)
{
	return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = hash_add(hash, ((const uint8_t *)bytes)[i]);
	return hash;
}

static inline uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = hash_add(hash, (uint8_t)*text);
	return hash;
}
