/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/linked.h"

#include <stdlib.h>
#include <string.h>

#include "base/least.h"

/* Devices are numbered anew, without gaps, as far as all divisions are looked at. A set of
 * devices is a number of so many bits. */
enum { EXACT = 16 };

struct division {
	unsigned count, size;
	uint32_t worth[EXACT][EXACT];
	uint32_t *best; /* of each set of devices that is left: the worth of its division, plus 1;
			   0: not known yet */
};

static void division_owned(struct division *d)
{
	free(d->best);
}

static uint32_t worth_of(const struct division *d, uint32_t set)
{
	uint32_t worth = 0;

	for (uint32_t a = set; a; a &= a - 1)
		for (uint32_t b = a & (a - 1); b; b &= b - 1)
			worth += d->worth[__builtin_ctz(a)][__builtin_ctz(b)];
	return worth;
}

/* The next larger number with as many bits (Gosper's). */
static uint32_t next_of_size(uint32_t set)
{
	uint32_t lowest = set & -set, up = set + lowest;

	return up | (((set ^ up) >> 2) / lowest);
}

/* Puts the lowest bits of `chosen`, one by one, to the places of `among`. */
static uint32_t spread(uint32_t chosen, uint32_t among)
{
	uint32_t set = 0;

	for (; among; among &= among - 1, chosen >>= 1)
		set |= chosen & 1 ? among & -among : 0;
	return set;
}

static uint32_t best_of(const struct division *d, uint32_t left);

/* The first device of `left` is in a set of `size` of them: which is best, with the rest divided?
 */
static uint32_t best_with(const struct division *d, uint32_t left, unsigned size)
{
	uint32_t first = left & -left, others = left & ~first, best = 0;
	unsigned count = (unsigned)__builtin_popcount(others);

	if (size <= 1)
		return best_of(d, others);
	for (uint32_t pick = (1u << (size - 1)) - 1; pick < 1u << count;
	     pick = next_of_size(pick)) {
		uint32_t set = first | spread(pick, others);

		best = most(best, worth_of(d, set) + best_of(d, left & ~set));
	}
	return best;
}

/* The worth of the best division of these devices into sets of that size. If their number is no
 * multiple of it, one set is smaller. */
static uint32_t best_of(const struct division *d, uint32_t left)
{
	unsigned count = (unsigned)__builtin_popcount(left), rest = count % d->size;
	uint32_t best;

	if (count <= d->size)
		return worth_of(d, left);
	if (d->best[left])
		return d->best[left] - 1;
	best = best_with(d, left, d->size);
	if (rest)
		best = most(best, best_with(d, left, rest));
	d->best[left] = best + 1;
	return best;
}

/* The best of the sets that contain `must`. Of equal divisions, that with the better set; of equal
 * sets, that with the lower numbers. */
static uint32_t choose_set(const struct division *d, uint32_t must)
{
	uint32_t all = (1u << d->count) - 1, others = all & ~must, chosen = 0;
	unsigned more = d->size - (unsigned)__builtin_popcount(must);
	uint32_t most_all = 0, most_own = 0;

	if (!more)
		return must;
	for (uint32_t pick = (1u << more) - 1; pick < 1u << __builtin_popcount(others);
	     pick = next_of_size(pick)) {
		uint32_t set = must | spread(pick, others), own = worth_of(d, set);
		uint32_t whole = own + best_of(d, all & ~set);

		if (chosen && (whole < most_all || (whole == most_all && own <= most_own)))
			continue;
		chosen = set;
		most_all = whole;
		most_own = own;
	}
	return chosen;
}

static uint64_t choose_exactly(const struct linked *l, unsigned size)
{
	owned(division) struct division d = {.size = size};
	uint32_t place[EXACT], must = 0, set;
	uint64_t chosen = 0;

	for (uint64_t free = l->free; free; free &= free - 1) {
		place[d.count] = (uint32_t)__builtin_ctzll(free);
		must |= (l->must >> place[d.count] & 1) << d.count;
		d.count++;
	}
	for (unsigned a = 0; a < d.count; a++)
		for (unsigned b = 0; b < d.count; b++)
			d.worth[a][b] = a == b ? 0 : l->worth(l->owner, place[a], place[b]);
	d.best = calloc(1u << d.count, sizeof(*d.best));
	set = d.best ? choose_set(&d, must) : 0;
	for (; set; set &= set - 1)
		chosen |= 1ull << place[__builtin_ctz(set)];
	return chosen;
}

static uint32_t worth_to(const struct linked *l, uint64_t set, uint32_t device)
{
	uint32_t worth = 0;

	for (; set; set &= set - 1)
		worth += l->worth(l->owner, (uint32_t)__builtin_ctzll(set), device);
	return worth;
}

/* One after the other, the device that is linked best with those before it. */
static uint64_t choose_one_by_one(const struct linked *l, uint64_t chosen, unsigned size)
{
	while ((unsigned)__builtin_popcountll(chosen) < size) {
		uint64_t left = l->free & ~chosen;
		uint32_t best = (uint32_t)__builtin_ctzll(left);

		for (; left; left &= left - 1) {
			uint32_t device = (uint32_t)__builtin_ctzll(left);

			if (worth_to(l, chosen, device) > worth_to(l, chosen, best))
				best = device;
		}
		chosen |= 1ull << best;
	}
	return chosen;
}

static uint32_t worth_of_set(const struct linked *l, uint64_t set)
{
	uint32_t worth = 0;

	for (; set; set &= set - 1)
		worth += worth_to(l, set & (set - 1), (uint32_t)__builtin_ctzll(set));
	return worth;
}

static uint64_t choose_roughly(const struct linked *l, unsigned size)
{
	uint64_t best = 0;

	if (l->must)
		return choose_one_by_one(l, l->must, size);
	for (uint64_t first = l->free; first; first &= first - 1) {
		uint64_t set = choose_one_by_one(l, first & -first, size);

		if (!best || worth_of_set(l, set) > worth_of_set(l, best))
			best = set;
	}
	return best;
}

uint64_t linked_choose(const struct linked *l, unsigned size)
{
	unsigned count = (unsigned)__builtin_popcountll(l->free);

	if (!size || count < size || (unsigned)__builtin_popcountll(l->must) > size ||
	    (l->must & ~l->free))
		return 0;
	return count <= EXACT ? choose_exactly(l, size) : choose_roughly(l, size);
}
