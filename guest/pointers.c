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

static uint32_t home(uint64_t mixed, uint32_t bits)
{
	return (uint32_t)((mixed << POINTERS_SHARD_BITS) >> (64 - bits));
}

/* The place of `address`, or the empty one where it would stand. */
static struct pointer *place_of(const struct pointers_shard *shard, uint64_t address,
				uint64_t mixed)
{
	uint32_t mask = (1u << shard->bits) - 1, i = home(mixed, shard->bits);

	while (shard->places[i].address != address && shard->places[i].address != 0)
		i = (i + 1) & mask;
	return &shard->places[i];
}

static int noinline_ grow(struct pointers_shard *shard)
{
	struct pointers_shard larger = {.bits = shard->bits ? shard->bits + 1 : 7};
	size_t old = shard->bits ? sizeof(struct pointer) << shard->bits : 0;
	int saved = errno;

	larger.places = mmap(NULL, sizeof(struct pointer) << larger.bits, PROT_READ | PROT_WRITE,
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
	shard->bits = larger.bits;
	return 0;
}

/* At most half of the places are taken: probes stay short, and one is always empty. */
static int full(const struct pointers_shard *shard)
{
	return shard->bits == 0 || shard->count >= (1u << shard->bits) / 2;
}

int pointers_put(struct pointers *table, const struct pointer *entry, struct pointer *ret_old)
{
	uint64_t mixed = hash(entry->address);
	struct pointers_shard *shard = shard_of(table, mixed);
	struct pointer *place;
	int r = 0;

	if (entry->address == 0)
		return -EINVAL;
	futex_lock_take(&shard->lock);
	if (unlikely(full(shard)))
		r = grow(shard);
	if (likely(r == 0)) {
		place = place_of(shard, entry->address, mixed);
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
static void remove_at(struct pointers_shard *shard, uint32_t hole)
{
	uint32_t mask = (1u << shard->bits) - 1, i = hole;
	struct pointer *places = shard->places;

	for (;;) {
		i = (i + 1) & mask;
		if (places[i].address == 0)
			break;
		/* As far from its home as from the hole, or farther: it may move there. */
		if (((i - home(hash(places[i].address), shard->bits)) & mask) >=
		    ((i - hole) & mask)) {
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
	if (likely(shard->bits != 0 && address != 0)) {
		place = place_of(shard, address, mixed);
		if (place->address != 0) {
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
	if (likely(shard->bits != 0 && address != 0)) {
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
		while (shard->bits && i < 1u << shard->bits) {
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
		if (table->shard[s].bits)
			munmap(table->shard[s].places, sizeof(struct pointer)
							       << table->shard[s].bits);
	memset(table, 0, sizeof(*table));
	errno = saved;
}
