/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up the exported functions of a loaded library in its own hash table. The result is that of
 * dlsym(), for a tenth of the instructions; this matters because each CUDA process looks up a
 * thousand names.
 *
 * It searches only this object, not its dependencies. It refuses (SYMBOLS_UNUSUAL) an object
 * without DT_GNU_HASH, and finds only plain functions of the object itself; the caller uses dlsym()
 * for the rest.
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
