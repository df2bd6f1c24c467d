/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
};

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 64 };

static size_t round_up(size_t bytes)
{
	return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Objects of a few bytes need no cache line of their own. */
static size_t align_of(size_t bytes)
{
	return bytes >= ALIGN ? ALIGN : 16;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
	struct arena_chunk *chunk = arena->chunks;
	size_t align = align_of(bytes), at;

	if (bytes > SIZE_MAX / 4)
		return NULL;
	if (chunk) {
		at = (chunk->used + align - 1) & ~(align - 1);
		if (at <= chunk->size && bytes <= chunk->size - at) {
			chunk->used = at + bytes;
			return (char *)chunk + at;
		}
	}
	size_t header = round_up(sizeof(struct arena_chunk));
	size_t size = round_up(header + bytes);

	if (size < CHUNK_BYTES)
		size = CHUNK_BYTES;
	chunk = aligned_alloc(ALIGN, size);
	if (!chunk)
		return NULL;
	memset(chunk, 0, size);
	chunk->size = size;
	chunk->used = header + bytes;
	/* A large object gets a chunk of its own behind the current one, which stays in use. */
	if (arena->chunks && bytes >= CHUNK_BYTES / 4) {
		chunk->next = arena->chunks->next;
		arena->chunks->next = chunk;
	} else {
		chunk->next = arena->chunks;
		arena->chunks = chunk;
	}
	return (char *)chunk + header;
}

char *arena_text(struct arena *arena, const char *text, size_t bytes)
{
	char *copy = arena_alloc(arena, bytes + 1);

	if (copy && bytes)
		memcpy(copy, text, bytes);
	return copy;
}

void arena_free(struct arena *arena)
{
	struct arena_chunk *chunk = arena->chunks;

	while (chunk) {
		struct arena_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
	arena->chunks = NULL;
}

bool arena_grow(struct arena *arena, void **array, uint32_t *capacity, size_t element_bytes,
		uint32_t needed)
{
	uint32_t wanted = *capacity ? *capacity : 16;
	void *grown;

	if (needed <= *capacity)
		return true;
	while (wanted < needed) {
		if (wanted > UINT32_MAX / 2)
			return false;
		wanted *= 2;
	}
	grown = arena_alloc(arena, wanted * element_bytes);
	if (!grown)
		return false;
	if (*capacity)
		memcpy(grown, *array, *capacity * element_bytes);
	*array = grown;
	*capacity = wanted;
	return true;
}

static uint32_t hash_of(const char *name, size_t length)
{
	uint64_t hash = hash_bytes(HASH_BEGIN, name, length);

	return (uint32_t)(hash ^ hash >> 32);
}

void *names_find(const struct names *names, const char *name, size_t length)
{
	uint32_t hash = hash_of(name, length);

	if (!names->n_buckets)
		return NULL;
	for (struct names_entry *e = names->buckets[hash & (names->n_buckets - 1)]; e; e = e->next)
		if (e->hash == hash && e->length == length && !memcmp(e->name, name, length))
			return e->value;
	return NULL;
}

/* Keeps the order within a bucket, so that the newest of equal names stays first. */
static bool rehash(struct names *names)
{
	uint32_t n = names->n_buckets ? names->n_buckets * 4 : 64;
	struct names_entry **buckets = arena_alloc(names->arena, n * sizeof(*buckets));

	if (!buckets)
		return false;
	for (uint32_t i = 0; i < names->n_buckets; i++) {
		struct names_entry *e = names->buckets[i], *reversed = NULL;

		while (e) {
			struct names_entry *next = e->next;

			e->next = reversed;
			reversed = e;
			e = next;
		}
		for (e = reversed; e;) {
			struct names_entry *next = e->next;

			e->next = buckets[e->hash & (n - 1)];
			buckets[e->hash & (n - 1)] = e;
			e = next;
		}
	}
	names->buckets = buckets;
	names->n_buckets = n;
	return true;
}

struct names_entry *names_add(struct names *names, const char *name, size_t length, void *value)
{
	struct names_entry *e;

	if (names->n_entries >= names->n_buckets && !rehash(names))
		return NULL;
	e = arena_alloc(names->arena, sizeof(*e));
	if (!e)
		return NULL;
	e->name = arena_text(names->arena, name, length);
	if (!e->name)
		return NULL;
	e->length = (uint32_t)length;
	e->hash = hash_of(name, length);
	e->value = value;
	e->next = names->buckets[e->hash & (names->n_buckets - 1)];
	names->buckets[e->hash & (names->n_buckets - 1)] = e;
	names->n_entries++;
	return e;
}

void names_remove(struct names *names, struct names_entry *entry)
{
	struct names_entry **at = &names->buckets[entry->hash & (names->n_buckets - 1)];

	while (*at && *at != entry)
		at = &(*at)->next;
	if (*at) {
		*at = entry->next;
		names->n_entries--;
	}
}
