/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported functions of a library that is loaded, by its own hash table: what dlsym() answers,
 * for a tenth of its instructions, which counts where a thousand names are looked up in each
 * process that calls CUDA.
 *
 * Looks at the one object only, not at what it depends on. Refuses (SYMBOLS_UNUSUAL) an object
 * without DT_GNU_HASH, and knows no symbol that is not plainly a function of its own: the caller
 * has dlsym() for those.
 */
#pragma once

#include <link.h>
#include <stdint.h>

#include "base/macros.h"

struct symbols {
	uintptr_t begin, end; /* of the object in memory */
	uintptr_t base;	      /* what its addresses are relative to */
	const ElfW(Sym) * table;
	const char *strings;
	const uint16_t *versions; /* NULL: it has none */
	const uint32_t *hash;	  /* DT_GNU_HASH; NULL: none */
};

enum {
	SYMBOLS_UNUSUAL = 1,
};

/* The object that has `inside` in one of its segments. 0 or SYMBOLS_UNUSUAL; begin and end are set
 * in either case, as far as it was found. */
must_check int symbols_open(struct symbols *ret_symbols, const void *inside);

/* `hash`: table_hash[] of the name. The address, or NULL. */
void *symbols_find(const struct symbols *symbols, const char *name, uint32_t hash);
