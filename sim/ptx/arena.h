/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed all at once, and tables of names in it. A parser of hostile text makes
 * thousands of small objects and may give up at any of them: nothing can leak from here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_chunk;

struct arena {
	struct arena_chunk *chunks;
};

/* Zeroed, aligned to 64; NULL when there is no memory. */
void *arena_alloc(struct arena *arena, size_t bytes);
/* A NUL-terminated copy. */
char *arena_text(struct arena *arena, const char *text, size_t bytes);
void arena_free(struct arena *arena);

/* A growing array in an arena: the old copies stay behind. Returns false without memory. */
bool arena_grow(struct arena *arena, void **array, uint32_t *capacity, size_t element_bytes,
		uint32_t needed);

/* name -> value; the newest of equal names is found. */
struct names {
	struct arena *arena;
	struct names_entry **buckets;
	uint32_t n_buckets, n_entries;
};

struct names_entry {
	struct names_entry *next;
	const char *name; /* the arena's */
	uint32_t length, hash;
	void *value;
};

void *names_find(const struct names *names, const char *name, size_t length);
/* NULL when there is no memory. */
struct names_entry *names_add(struct names *names, const char *name, size_t length, void *value);
void names_remove(struct names *names, struct names_entry *entry);
