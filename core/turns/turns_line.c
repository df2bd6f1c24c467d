/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the next seat on a device: first a seat that is due (behind its guarantee, or waiting for
 * too long), then by class, and within a class by the earliest eligible virtual deadline. A seat
 * passes from `later` to `soon` at most once each time that it stands in line.
 */
#include "core/turns/turns_machine.h"

#define SEAT_OF_LINE(node) container_of(node, struct turns_seat, line_node)

enum {
	CROWD = 4
}; /* more seats than this get shorter turns (5/8), so that none waits for long and a second is
      divided as evenly as among a few */

/* A seat with a small weight gets shorter turns, so that its turns are about as frequent as
 * those of others. */
uint64_t turns_line_slice(const struct turns_seat *s)
{
	const struct turns_device *d = s->device;
	uint64_t there = d->waiting + (d->holder != NULL);
	uint64_t longest = there > CROWD ? d->turn_ns / 8 * 5 : d->turn_ns, slice = longest;

	if (d->clock_weight)
		slice = slice * s->tenant->share.weight * there / d->clock_weight;
	return least(most(slice, d->turns->tuning.shortest_ns), longest);
}

/* The expected length of its turn, including the drain: too low an estimate would give it turns
 * too often. An unknown length is overestimated, which makes its turn a little later. */
static uint64_t expected(const struct turns_seat *s)
{
	const struct turns_tenant *t = s->tenant;

	if (!t->overrun_ns)
		return most(turns_line_slice(s), s->device->turn_ns);
	return most(turns_line_slice(s), t->overrun_ns + s->device->turns->tuning.shortest_ns);
}

static uint64_t eligible_from(const struct turns_seat *s)
{
	if (s->tenant->share.class != SHARE_INTERACTIVE)
		return s->virtual_ns;
	return s->virtual_ns - turns_seat_virtual(s, s->device->turns->tuning.lead_ns);
}

void turns_line_add(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_device *d = s->device;
	uint64_t due = least(s->wanted_ns + d->turns->tuning.starve_ns, turns_seat_due(s, now_ns));

	s->lined = true;
	d->waiting++;
	turns_heap_add(&d->due, &s->due_node, due);
	turns_heap_add(&d->later[s->tenant->share.class], &s->line_node, eligible_from(s));
}

void turns_line_remove(struct turns_seat *s)
{
	struct turns_device *d = s->device;
	unsigned class = s->tenant->share.class;

	if (!s->lined)
		return;
	s->lined = false;
	d->waiting--;
	turns_heap_remove(&d->due, &s->due_node);
	turns_heap_remove(s->soon ? &d->soon[class] : &d->later[class], &s->line_node);
	s->soon = false;
}

static void promote(struct turns_device *d, unsigned class)
{
	struct turns_node *first;

	while ((first = d->later[class].first) && (int64_t)(first->key - d->clock) <= 0) {
		struct turns_seat *s = SEAT_OF_LINE(first);

		turns_heap_remove(&d->later[class], first);
		s->soon = true;
		turns_heap_add(&d->soon[class], first,
			       s->virtual_ns + turns_seat_virtual(s, expected(s)));
	}
}

struct turns_seat *turns_line_best(struct turns_device *d, uint64_t now_ns)
{
	struct turns_node *first = d->due.first;

	if (first && first->key <= now_ns) {
		turns_seat_excuse(container_of(first, struct turns_seat, due_node), now_ns);
		return container_of(first, struct turns_seat, due_node);
	}
	for (unsigned class = 0; class < ARRAY_SIZE(d->soon); class ++) {
		promote(d, class);
		if (d->soon[class].first)
			return SEAT_OF_LINE(d->soon[class].first);
	}
	/* All seats in line had more than they are entitled to; the time is owed to a seat that
	 * is not in line. */
	first = NULL;
	for (unsigned class = 0; class < ARRAY_SIZE(d->later); class ++) {
		struct turns_node *other = d->later[class].first;

		if (other && (!first || (int64_t)(other->key - first->key) < 0))
			first = other;
	}
	return first ? SEAT_OF_LINE(first) : NULL;
}

/* Its next turn may be long in draining, as former ones were. */
static bool is_slow(const struct turns_seat *s)
{
	const struct turns_tenant *t = s->tenant;

	return (s->gate == TURNS_OWING && !s->held) || t->bond != TURNS_FREE ||
	       turns_tenant_awaits(t) || t->overrun_ns >= s->device->turns->tuning.drain_ns;
}

/* It has stood in line since a turn that was long in draining. It may not have more than its part
 * by this, or by one turn. */
static bool has_waited(const struct turns_seat *s)
{
	int64_t ahead = (int64_t)(s->virtual_ns - s->device->clock);

	return s->lined && s->wanted_ns <= s->device->slow_ns && !is_slow(s) &&
	       ahead <= (int64_t)turns_seat_virtual(s, turns_line_slice(s));
}

struct turns_seat *turns_line_before(struct turns_seat *best, uint64_t now_ns)
{
	struct turns_device *d = best->device;
	struct turns_seat *first = NULL;

	if (!d->slow_ns || !is_slow(best) || d->due.first->key <= now_ns)
		return best;
	list_for_each(link, &d->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (has_waited(s) && s->tenant->share.class <= best->tenant->share.class &&
		    (!first || s->wanted_ns < first->wanted_ns))
			first = s;
	}
	if (!first)
		d->slow_ns = 0;
	return first ? first : best;
}

static bool may_fill_in(const struct turns_seat *s)
{
	return s->tenant->bond == TURNS_FREE && turns_tenant_governed(s->tenant) == 1;
}

struct turns_seat *turns_line_best_single(struct turns_device *d, uint64_t now_ns)
{
	struct turns_seat *best, *skipped = NULL;

	while ((best = turns_line_best(d, now_ns)) && !may_fill_in(best)) {
		turns_line_remove(best);
		best->skipped = skipped;
		skipped = best;
	}
	for (; skipped; skipped = skipped->skipped)
		turns_line_add(skipped, now_ns);
	return best;
}
