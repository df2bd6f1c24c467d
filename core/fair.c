/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fair.h"

#include <stddef.h>

enum { SLOTS = 2 * FAIR_MOST }; /* a power of two; at least one is free */

struct tally {
	struct {
		uint64_t key;
		uint32_t count; /* 0: the place is free */
	} slot[SLOTS];
	uint32_t most;
};

static uint32_t *count_of(struct tally *tally, uint64_t key)
{
	uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) % SLOTS;

	while (tally->slot[at].count && tally->slot[at].key != key)
		at = (at + 1) % SLOTS;
	tally->slot[at].key = key;
	return &tally->slot[at].count;
}

static void add(struct tally *tally, uint64_t key)
{
	uint32_t *count = count_of(tally, key);

	if (++*count > tally->most)
		tally->most = *count;
}

/* Of the thing that comes, or of one that is here. */
static const struct fair_part *part_at(const struct fair_part *part, uint32_t i, uint32_t count,
				       const struct fair_part *comes)
{
	return i < count ? &part[i] : comes;
}

uint32_t fair_goes(const struct fair_part *part, uint32_t count, const struct fair_part *comes)
{
	struct tally users = {.most = 0}, tenants = {.most = 0};
	uint64_t user;
	uint32_t at = 0;

	for (uint32_t i = 0; i <= count; i++)
		add(&users, part_at(part, i, count, comes)->user);
	while (*count_of(&users, part[at].user) < users.most)
		at++;
	user = part[at].user;
	for (uint32_t i = at; i <= count; i++)
		if (part_at(part, i, count, comes)->user == user)
			add(&tenants, part_at(part, i, count, comes)->tenant);
	while (part[at].user != user || *count_of(&tenants, part[at].tenant) < tenants.most)
		at++;
	return at;
}
