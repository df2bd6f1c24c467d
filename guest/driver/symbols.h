/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up the exported functions of a loaded library in its own hash table. The result is that of
 * dlsym(), for a tenth of the instructions, and without a lock: it may be asked in a signal handler
 * and in a child of fork().
 *
 * It searches only this object, not its dependencies. It refuses (SYMBOLS_UNUSUAL) an object
 * without DT_GNU_HASH, and finds only plain functions of the object itself; the caller uses dlsym()
 * for the rest.
 */
#pragma once

#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct symbols {
	uintptr_t begin, end; /* of the object in memory */
	uintptr_t base;	      /* what its addresses are relative to */
	const ElfW(Sym) * table;
	const char *strings;
	const uint16_t *versions; /* NULL: it has none */
	const uint32_t *hash;	  /* DT_GNU_HASH; NULL: none */
	const uint32_t *bucket;	  /* in it */
	const uint32_t *chain; /* hashes of the symbols from `first` on, without the lowest bit */
	uint32_t first, last;  /* symbols that it has; `last` is the one after them */
};

enum {
	SYMBOLS_UNUSUAL = 1,
	SYMBOLS_HIDDEN = 0x8000, /* a version that is found only if it is asked for */
};

/* The object that has `inside` in one of its segments. 0 or SYMBOLS_UNUSUAL; begin and end are set
 * in either case, as far as it was found. */
must_check int symbols_open(struct symbols *ret_symbols, const void *inside);

/* `hash`: table_hash[] of the name. The address, or NULL. */
void *symbols_find(const struct symbols *symbols, const char *name, uint32_t hash);

/* Of symbol `index`, from `first` up to `last`: if it is a function that dlsym() would find, its
 * address, otherwise NULL. */
static inline void *symbols_address(const struct symbols *s, uint32_t index)
{
	const ElfW(Sym) *symbol = &s->table[index];
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    (type != STT_FUNC && type != STT_NOTYPE) ||
	    (s->versions && (s->versions[index] & SYMBOLS_HIDDEN)))
		return NULL;
	return (void *)(s->base + symbol->st_value);
}

/* The row of cuda/api.def that has the name of symbol `index`, or -1. */
int symbols_row(const struct symbols *symbols, uint32_t index);
