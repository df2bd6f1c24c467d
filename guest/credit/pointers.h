/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records about addresses and handles: an exact-match hash table, in shards with one lock each. It
 * uses open addressing without tombstones, so that a table that was once large stays fast. Its
 * memory comes from mmap(), because hooks must not call malloc. Valid when zero. Thread-safe; keeps
 * errno.
 *
 * Address 0 stands for an empty place and is never in a table.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/futex.h"

enum {
	POINTERS_SHARD_BITS = 6,
	POINTERS_SHARDS = 1 << POINTERS_SHARD_BITS,
	POINTERS_FIRST = 128, /* places of a shard to begin with: one page */
};

struct pointer {
	uint64_t address;
	uint64_t bytes; /* as charged */
	uint64_t owner; /* the object with which it ends: a context, a pool's index */
	union {
		struct {
			uint32_t detail; /* the kind's own */
			uint16_t kind;	 /* the table owner's enum */
			int16_t device;	 /* as in guest/process/state.h */
		};
		uint64_t about; /* all three, as POINTER_ABOUT() has them */
	};
};

#define POINTER_ABOUT(detail, kind, device)                                                        \
	((uint64_t)(uint32_t)(detail) | (uint64_t)(uint16_t)(kind) << 32 |                         \
	 (uint64_t)(uint16_t)(device) << 48)

struct pointers_shard {
	struct futex_lock lock;
	uint32_t count, most;	/* entries, and how many there may be before it grows */
	uint32_t mask;		/* places - 1 */
	uint32_t shift;		/* 64 - log2 of the places */
	struct pointer *places; /* NULL: none yet */
} __attribute__((aligned(64)));

struct pointers {
	struct pointers_shard shard[POINTERS_SHARDS];
};

/* Outcomes. */
enum {
	POINTERS_UNKNOWN = 1, /* not in the table */
	POINTERS_REPLACED,    /* it existed; *ret_old is the former entry */
};

/* 0, POINTERS_REPLACED, -ENOMEM. */
must_check int pointers_put(struct pointers *table, const struct pointer *entry,
			    struct pointer *ret_old);

/* Removes the entry. 0, POINTERS_UNKNOWN. If two threads try, one gets it. */
must_check int pointers_take(struct pointers *table, uint64_t address, struct pointer *ret_entry);

/* 0, POINTERS_UNKNOWN. */
must_check int pointers_find(struct pointers *table, uint64_t address, struct pointer *ret_entry);

/* Removes every entry for which gone() returns non-zero. gone() is called with a shard's lock
 * held: it must not come back here. */
void pointers_sweep(struct pointers *table, int (*gone)(const struct pointer *entry, void *context),
		    void *context);

/* Gives all entries of `owner` to `now`. */
void pointers_rename(struct pointers *table, uint64_t owner, uint64_t now);

size_t pointers_count(struct pointers *table);

/* Empties the table, regardless of its locks: in a child of fork(), and in tests. */
void pointers_forget(struct pointers *table);
