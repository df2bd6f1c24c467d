/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pointers.h"

#include <errno.h>
#include <string.h>

#include <sys/mman.h>

/* Multiplying by 2^64 / golden ratio spreads addresses that differ in a few middle bits, as those
 * of allocations do, over the high bits: the highest choose the shard, the next ones the place. */
static uint64_t hash(uint64_t address)
{
	return address * 0x9e3779b97f4a7c15u;
}

static struct pointers_shard *shard_of(struct pointers *table, uint64_t mixed)
{
	return &table->shard[mixed >> (64 - POINTERS_SHARD_BITS)];
}

static uint32_t home(const struct pointers_shard *shard, uint64_t mixed)
{
	return (uint32_t)((mixed << POINTERS_SHARD_BITS) >> shard->shift);
}

/* The place of `address`, or the empty one where it would stand. */
static inline struct pointer *place_of(const struct pointers_shard *shard, uint64_t address,
				       uint64_t mixed)
{
	struct pointer *places = shard->places;
	uint32_t i = home(shard, mixed);

	while (places[i].address != address && places[i].address != 0)
		i = (i + 1) & shard->mask;
	return &places[i];
}

static size_t mapped_bytes(const struct pointers_shard *shard)
{
	return shard->places ? ((size_t)shard->mask + 1) * sizeof(struct pointer) : 0;
}

/* At most half of the places are taken: probes stay short, and one is always empty. */
static int noinline_ grow(struct pointers_shard *shard)
{
	size_t old = mapped_bytes(shard);
	uint32_t places = old ? (shard->mask + 1) * 2 : POINTERS_FIRST;
	struct pointers_shard larger = {.mask = places - 1,
					.shift = (uint32_t)__builtin_clzll(places) + 1};
	int saved = errno;

	larger.places = mmap(NULL, places * sizeof(struct pointer), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved;
	if (larger.places == MAP_FAILED)
		return -ENOMEM;
	for (size_t i = 0; i < old / sizeof(struct pointer); i++) {
		const struct pointer *entry = &shard->places[i];

		if (entry->address)
			*place_of(&larger, entry->address, hash(entry->address)) = *entry;
	}
	if (old)
		munmap(shard->places, old);
	errno = saved;
	shard->places = larger.places;
	shard->mask = larger.mask;
	shard->shift = larger.shift;
	shard->most = places / 2;
	return 0;
}

int pointers_put(struct pointers *table, const struct pointer *entry, struct pointer *ret_old)
{
	uint64_t address = entry->address, mixed = hash(address);
	struct pointers_shard *shard = shard_of(table, mixed);
	struct pointer *place;
	int r = 0;

	if (unlikely(address == 0))
		return -EINVAL;
	futex_lock_take(&shard->lock);
	if (unlikely(shard->count >= shard->most))
		r = grow(shard);
	if (likely(r == 0)) {
		place = place_of(shard, address, mixed);
		if (unlikely(place->address != 0)) {
			*ret_old = *place;
			r = POINTERS_REPLACED;
		} else {
			shard->count++;
		}
		*place = *entry;
	}
	futex_lock_give(&shard->lock);
	return r;
}

/* Empties a place and moves back what stands behind it only because the place was taken. */
static inline void remove_at(struct pointers_shard *shard, uint32_t hole)
{
	uint32_t mask = shard->mask, i = hole;
	struct pointer *places = shard->places;

	for (;;) {
		i = (i + 1) & mask;
		if (likely(places[i].address == 0))
			break;
		/* As far from its home as from the hole, or farther: it may move there. */
		if (((i - home(shard, hash(places[i].address))) & mask) >= ((i - hole) & mask)) {
			places[hole] = places[i];
			hole = i;
		}
	}
	places[hole].address = 0;
	shard->count--;
}

int pointers_take(struct pointers *table, uint64_t address, struct pointer *ret_entry)
{
	uint64_t mixed = hash(address);
	struct pointers_shard *shard = shard_of(table, mixed);
	struct pointer *place;
	int r = POINTERS_UNKNOWN;

	futex_lock_take(&shard->lock);
	if (likely(shard->places && address != 0)) {
		place = place_of(shard, address, mixed);
		if (likely(place->address != 0)) {
			*ret_entry = *place;
			remove_at(shard, (uint32_t)(place - shard->places));
			r = 0;
		}
	}
	futex_lock_give(&shard->lock);
	return r;
}

int pointers_find(struct pointers *table, uint64_t address, struct pointer *ret_entry)
{
	uint64_t mixed = hash(address);
	struct pointers_shard *shard = shard_of(table, mixed);
	const struct pointer *place;
	int r = POINTERS_UNKNOWN;

	futex_lock_take(&shard->lock);
	if (likely(shard->places && address != 0)) {
		place = place_of(shard, address, mixed);
		if (place->address != 0) {
			*ret_entry = *place;
			r = 0;
		}
	}
	futex_lock_give(&shard->lock);
	return r;
}

void pointers_sweep(struct pointers *table, int (*gone)(const struct pointer *entry, void *context),
		    void *context)
{
	for (int s = 0; s < POINTERS_SHARDS; s++) {
		struct pointers_shard *shard = &table->shard[s];
		uint32_t i = 0;

		futex_lock_take(&shard->lock);
		while (shard->places && i <= shard->mask) {
			/* What moves into the place is looked at next; what wraps around from the
			 * beginning was looked at already, and once more does no harm, as it stays.
			 */
			if (shard->places[i].address && gone(&shard->places[i], context))
				remove_at(shard, i);
			else
				i++;
		}
		futex_lock_give(&shard->lock);
	}
}

size_t pointers_count(struct pointers *table)
{
	size_t count = 0;

	for (int s = 0; s < POINTERS_SHARDS; s++) {
		futex_lock_take(&table->shard[s].lock);
		count += table->shard[s].count;
		futex_lock_give(&table->shard[s].lock);
	}
	return count;
}

void pointers_forget(struct pointers *table)
{
	int saved = errno;

	for (int s = 0; s < POINTERS_SHARDS; s++)
		if (table->shard[s].places)
			munmap(table->shard[s].places, mapped_bytes(&table->shard[s]));
	memset(table, 0, sizeof(*table));
	errno = saved;
}
