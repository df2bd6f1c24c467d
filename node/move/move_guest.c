/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_guest.h"

#include "node/daemon.h"
#include "node/move/move.h"
#include "node/move/move_ask.h"
#include "node/move/move_inside.h"
#include "node/move/move_store.h"
#include "node/move/move_sync.h"
#include "node/upcalls.h"

/* The state of both sides at the beginning of a connection. */
static void begin_anew(struct move_guest *m)
{
	move_forget_orders(m);
	m->generation = 0;
	m->prepare = 0;
	m->telling = m->can = false;
	m->behind = 0;
}

void move_forget_foreign(struct guest_device *at, uint64_t bytes)
{
	bytes = least(bytes, at->move.foreign_bytes);
	at->move.foreign_bytes -= bytes;
	if (!bytes)
		return;
	stores_uncount(&at->guest->tenant->daemon->move.stores, &part_under(at)->store, bytes);
	move_divided(at->guest->tenant->daemon);
}

static uint64_t foreign_of(const struct tenant *t)
{
	uint64_t all = 0;

	list_for_each(link, (struct list *)&t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		for (uint32_t i = 0; i < t->devices; i++)
			all += g->device[i].move.foreign_bytes;
	}
	return all;
}

/* These bytes are in a former daemon's store, which lives as long as its guests. They count here as
 * far as the tenant's quota and the device's part go, since only the guest knows how many they are,
 * and once, however often it states them. */
static void count_foreign(struct guest_device *at, uint64_t bytes)
{
	struct daemon *d = at->guest->tenant->daemon;
	struct store_part *part = &part_under(at)->store;

	move_forget_foreign(at, at->move.foreign_bytes);
	bytes = least(bytes, beyond(d->move.quota_bytes, foreign_of(at->guest->tenant)));
	bytes = least(bytes, beyond(part->budget_bytes, part->used_bytes));
	at->move.foreign_bytes = bytes;
	stores_count(&d->move.stores, part, bytes);
}

void move_adopt(struct guest_device *at, uint64_t movable, uint64_t out)
{
	struct tenant_device *of = of_tenant(at);
	struct move_guest *m = &at->move;

	/* What could move before a restart still can, whatever the share says since: others count
	 * on its room. */
	if (out || movable)
		move_takes_part(of, move_now(at));
	if (!of->joined && !movable)
		return;
	move_freed(at, m->here, m->out);
	begin_anew(m);
	if (!of->joined)
		return;
	m->here = movable;
	m->out = out;
	if (!at->guest->known)
		count_foreign(at, out);
	residency_adopt(&of->member, movable, out, move_now(at));
	/* The ledger has just adopted everything as being on the device. */
	best_effort(move_match(at));
	move_due(of);
}

uint64_t move_out_of(const struct guest *g)
{
	uint64_t out = 0;

	for (uint32_t i = 0; i < g->tenant->devices; i++)
		out += g->device[i].move.out;
	return out;
}

void move_begin(struct move_guest *m)
{
	list_init(&m->asks);
	list_init(&m->segments);
	list_init(&m->waits);
}

void move_away(struct guest *g)
{
	for (uint32_t i = 0; i < g->tenant->devices; i++) {
		move_ask_forget(&g->device[i]);
		move_segments_away(&g->device[i]);
		g->device[i].move.recalled_bytes = 0;
	}
}

void move_left(struct guest *g)
{
	for (uint32_t i = 0; i < g->tenant->devices; i++) {
		struct guest_device *at = &g->device[i];

		move_ask_forget(at);
		move_freed(at, at->move.here, at->move.out);
		begin_anew(&at->move);
		move_segments_forget(at);
		move_forget_foreign(at, at->move.foreign_bytes);
	}
}
