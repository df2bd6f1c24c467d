/* SPDX-License-Identifier: Apache-2.0 */
/* The inline part of guest/credit/pointers.h, for the fast path of allocations. */
#pragma once

#include <stdbool.h>

#include "guest/credit/pointers.h"

/* Multiplying by 2^64 / golden ratio spreads addresses that differ in a few middle bits, as those
 * of allocations do, over the high bits: the highest choose the shard, the next ones the place. */
static inline uint64_t pointers_hash(uint64_t address)
{
	return address * 0x9e3779b97f4a7c15u;
}

static inline struct pointers_shard *pointers_shard_of(struct pointers *table, uint64_t mixed)
{
	struct pointers_shard *shard = &table->shard[mixed >> (64 - POINTERS_SHARD_BITS)];

	whole_address(shard);
	return shard;
}

static inline size_t pointers_home(const struct pointers_shard *shard, uint64_t mixed)
{
	return (mixed << POINTERS_SHARD_BITS) >> shard->shift;
}

/* The index of the place of `address`, or of the empty place for it. */
static inline size_t pointers_index(const struct pointers_shard *shard, uint64_t address,
				    uint64_t mixed)
{
	const struct pointer *places = shard->places;
	size_t i = pointers_home(shard, mixed);

	while (places[i].address != address && places[i].address != 0)
		i = (i + 1) & shard->mask;
	return i;
}

/* Empties a place, and shifts back the entries that were displaced because it was taken. */
static inline void pointers_remove(struct pointers_shard *shard, size_t hole)
{
	struct pointer *places = shard->places;
	size_t mask = shard->mask, i = hole;

	for (;;) {
		i = (i + 1) & mask;
		if (likely(places[i].address == 0))
			break;
		/* Its home is not behind the hole: it may take the hole. */
		if (((i - pointers_home(shard, pointers_hash(places[i].address))) & mask) >=
		    ((i - hole) & mask)) {
			places[hole] = places[i];
			hole = i;
		}
	}
	places[hole].address = 0;
	shard->count--;
}

/* pointers_put(), where the address is new and there is room. Otherwise nothing is done. */
static inline_ bool pointers_put_new(struct pointers *table, struct pointer entry)
{
	uint64_t mixed = pointers_hash(entry.address);
	struct pointers_shard *shard = pointers_shard_of(table, mixed);
	struct pointer *place;
	bool done = false;

	futex_lock_take(&shard->lock);
	if (likely(shard->count < shard->most)) {
		place = &shard->places[pointers_index(shard, entry.address, mixed)];
		if (likely(place->address == 0)) {
			place->address = entry.address;
			place->bytes = entry.bytes;
			place->owner = entry.owner;
			place->about = entry.about;
			shard->count++;
			done = true;
		}
	}
	futex_lock_give(&shard->lock);
	return done;
}

/* pointers_take(); no entry has address 0. */
static inline_ bool pointers_take_known(struct pointers *table, uint64_t address,
					struct pointer *ret_entry)
{
	uint64_t mixed = pointers_hash(address);
	struct pointers_shard *shard = pointers_shard_of(table, mixed);
	struct pointer *place;
	bool known = false;
	size_t i;

	futex_lock_take(&shard->lock);
	if (likely(shard->count != 0)) {
		i = pointers_index(shard, address, mixed);
		place = &shard->places[i];
		known = place->address != 0;
		if (likely(known)) {
			*ret_entry = (struct pointer){.address = address,
						      .bytes = place->bytes,
						      .owner = place->owner,
						      .about = place->about};
			pointers_remove(shard, i);
		}
	}
	futex_lock_give(&shard->lock);
	return known;
}
