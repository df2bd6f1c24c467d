/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/pointers.h"

#include <errno.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/credit/pointers_quick.h"

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
			larger.places[pointers_index(&larger, entry->address,
						     pointers_hash(entry->address))] = *entry;
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
	uint64_t address = entry->address, mixed = pointers_hash(address);
	struct pointers_shard *shard = pointers_shard_of(table, mixed);
	struct pointer *place;
	int r = 0;

	if (unlikely(address == 0))
		return -EINVAL;
	futex_lock_take(&shard->lock);
	if (unlikely(shard->count >= shard->most))
		r = grow(shard);
	if (likely(r == 0)) {
		place = &shard->places[pointers_index(shard, address, mixed)];
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

int pointers_take(struct pointers *table, uint64_t address, struct pointer *ret_entry)
{
	return pointers_take_known(table, address, ret_entry) ? 0 : POINTERS_UNKNOWN;
}

int pointers_find(struct pointers *table, uint64_t address, struct pointer *ret_entry)
{
	uint64_t mixed = pointers_hash(address);
	struct pointers_shard *shard = pointers_shard_of(table, mixed);
	const struct pointer *place;
	int r = POINTERS_UNKNOWN;

	futex_lock_take(&shard->lock);
	if (likely(shard->places && address != 0)) {
		place = &shard->places[pointers_index(shard, address, mixed)];
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
			/* The entry that takes the place is checked next. An entry that wraps
			 * around from the beginning was checked before; checking it again does no
			 * harm. */
			if (shard->places[i].address && gone(&shard->places[i], context))
				pointers_remove(shard, i);
			else
				i++;
		}
		futex_lock_give(&shard->lock);
	}
}

void pointers_rename(struct pointers *table, uint64_t owner, uint64_t now)
{
	for (int s = 0; s < POINTERS_SHARDS; s++) {
		struct pointers_shard *shard = &table->shard[s];

		futex_lock_take(&shard->lock);
		for (uint32_t i = 0; shard->places && i <= shard->mask; i++) {
			if (shard->places[i].address && shard->places[i].owner == owner)
				shard->places[i].owner = now;
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
