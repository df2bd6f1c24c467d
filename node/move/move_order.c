/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders. The bytes that a tenant must still move are compared with those that its guests were told
 * to move and have not. The guests are told the rest, one after the other, so that at most one of
 * them ends with a block that is larger than the rest of its order. If something was freed
 * meanwhile, the guests were told too much: then their generation ends, or they would move more
 * than was ordered.
 */
#include "node/move/move_order.h"

#include "node/daemon.h"
#include "node/move/move_ask.h"
#include "node/move/move_inside.h"
#include "node/move/move_kept.h"
#include "node/move/move_sync.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"
#include "node/time/gate.h"
#include "node/time/schedule_now.h"

static struct guest_device *of_guest(struct list *link, uint32_t device)
{
	return &list_entry(link, struct guest, link)->device[device];
}

static uint64_t open_drop(const struct move_guest *m)
{
	return beyond(m->drop, m->dropped);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct guest_device *at)
{
	struct guest *g = at->guest;
	struct move_guest *m = &at->move;
	struct wire_message message;

	m->telling = false;
	/* The guest asks again. */
	if (list_empty(&m->waits))
		m->lacks_bytes = 0;
	/* Before the inventory of a connection has come, the guest would take orders of the former
	 * one for the new one's, whose orders begin then. */
	if (!g->caller || !at->stated)
		return;
	wire_begin(&message, WIRE_move, peer_new_id(&g->caller->peer));
	message.move.device = (uint32_t)(at - g->device);
	message.move.generation = m->generation + m->stopping;
	message.move.prepare = m->prepare;
	if (!m->stopping) {
		message.move.leave = m->leave;
		message.move.enter = m->enter;
		message.move.drop = m->drop;
	}
	guest_send(g, &message);
}

static void stop(struct guest_device *at)
{
	struct move_guest *m = &at->move;

	if (m->stopping)
		return;
	m->stopping = m->telling = true;
}

/* Unused credit cannot move out: recall it. What has left by the page, and not yet by a report, is
 * no credit. */
static void recall(struct guest_device *at)
{
	const struct guest *g = at->guest;
	const struct wire_own_movable *own = &g->own->movable[at - g->device];
	const struct move_guest *m = &at->move;
	uint64_t here = __atomic_load_n(&own->resident_bytes, __ATOMIC_RELAXED);
	uint64_t all = here + __atomic_load_n(&own->out_bytes, __ATOMIC_RELAXED);
	uint64_t bytes = least(beyond(m->here, here), beyond(m->here + m->out, all));

	if (bytes > m->recalled_bytes)
		move_recall(at, bytes);
}

/* Of what was to leave something may have been freed since. */
static void recall_freed(const struct tenant_device *of, uint32_t device)
{
	list_for_each(link, (struct list *)&of->tenant->guests)
	{
		struct guest_device *at = of_guest(link, device);

		if (move_open_order(&at->move))
			recall(at);
	}
}

/* ---- splitting ------------------------------------------------------------------------------- */

struct sums {
	uint64_t order, credit, drop;
	bool stopping;
};

static struct sums sum_up(const struct tenant_device *of, uint32_t device)
{
	struct sums sums = {0};

	list_for_each(link, (struct list *)&of->tenant->guests)
	{
		const struct move_guest *m = &of_guest(link, device)->move;

		sums.order += move_open_order(m);
		sums.credit += move_open_credit(m);
		sums.drop += move_told_drop(m);
		sums.stopping |= m->stopping;
	}
	return sums;
}

static bool is_told(const struct move_guest *m)
{
	return move_open_order(m) || move_open_credit(m);
}

/* Stops all guests that have something to do; false: none is stopping. */
static bool stop_all(const struct tenant_device *of, uint32_t device)
{
	bool any = false;

	list_for_each(link, (struct list *)&of->tenant->guests)
	{
		struct guest_device *at = of_guest(link, device);

		if (is_told(&at->move))
			stop(at);
		any |= at->move.stopping;
	}
	return any;
}

/* A later order asks for this many bytes more than it has done, even if it has done too much. A
 * guest that joined behind a closed gate may have work in progress until it reports that it has
 * drained. */
static uint64_t order(struct guest_device *at, uint64_t bytes)
{
	struct move_guest *m = &at->move;
	uint64_t more = least(bytes, beyond(m->here, move_open_order(m)));

	if (!more || m->stopping || at->owes_drain)
		return 0;
	recall(at);
	m->host_hinders &= move_open_order(m) > 0;
	m->leave = (m->leave > m->left ? m->leave : m->left) + more;
	m->telling = true;
	return more;
}

static uint64_t credit(struct guest_device *at, uint64_t bytes)
{
	struct move_guest *m = &at->move;
	uint64_t more = least(bytes, beyond(m->out, move_open_credit(m)));

	if (!more || m->stopping)
		return 0;
	m->enter += more;
	if (move_match(at) != 0) {
		m->enter -= more;
		return 0;
	}
	m->telling = true;
	return more;
}

static uint64_t drop(struct guest_device *at, uint64_t bytes)
{
	struct move_guest *m = &at->move;
	uint64_t more = least(bytes, beyond(move_surplus(m), open_drop(m)));

	if (!more || m->stopping)
		return 0;
	m->drop += more;
	m->telling = true;
	move_owes(at);
	return more;
}

/* Returns the rest, which no guest could be told. */
static uint64_t split(struct tenant_device *of, uint32_t device, uint64_t bytes,
		      uint64_t (*one)(struct guest_device *at, uint64_t bytes))
{
	list_for_each(link, &of->tenant->guests)
	{
		if (!bytes)
			break;
		bytes -= one(of_guest(link, device), bytes);
	}
	return bytes;
}

static void give(struct tenant_device *of, uint32_t device, const struct sums *told, uint64_t now)
{
	struct residency_member *m = &of->member;
	uint64_t rest;

	split(of, device, beyond(m->ordered_bytes, told->order), order);
	rest = split(of, device, beyond(m->credit_bytes, told->credit), credit);
	/* Somebody else took the room. A stopping guest is told when it has answered. */
	if (rest && !told->stopping)
		residency_unused(m, rest, now);
	rest = split(of, device, beyond(m->dropping_bytes, told->drop), drop);
	/* There is nothing left to drop. */
	if (rest && !told->stopping)
		residency_dropped(m, rest, now);
}

/* Has parts of the store prepared before they are needed: as much as each guest would need, as far
 * as the budget allows. */
static void prepare(struct tenant_device *of, uint32_t device)
{
	const struct residency *r = of->member.residency;
	uint64_t all = 0, chunk = r->tuning.chunk_bytes;
	uint64_t budget = beyond(r->budget_bytes, residency_spare(&r->tuning));

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m =
			list_entry(link, struct residency_member, of_device);

		all += m->resident_bytes + m->out_bytes;
	}
	list_for_each(link, &of->tenant->guests)
	{
		struct move_guest *m = &of_guest(link, device)->move;
		uint64_t has = m->here + m->out, wanted = 0;

		if (m->can && has && (all > r->capacity_bytes / 4 * 3 || of->tenant->suspended))
			wanted = all <= budget
					 ? has
					 : (uint64_t)((double)has * (double)budget / (double)all);
		if (wanted / chunk == m->prepare / chunk && !wanted == !m->prepare)
			continue;
		m->prepare = wanted;
		m->telling = true;
	}
}

/* Its part of the store is full, and it was given no more. */
static bool is_starved(const struct move_guest *m)
{
	uint64_t room = beyond(m->segment_bytes + m->foreign_bytes, m->out);

	return m->lacks_bytes && room < m->lacks_bytes;
}

/* Tells the machine whether no guest with an open order can move memory out, for want of room in
 * the store. True: that has changed. */
static bool see_starved(struct tenant_device *of, uint32_t device, uint64_t now)
{
	bool leaves = false, can = false, was = of->member.starved;
	uint64_t stored = 0;

	list_for_each(link, &of->tenant->guests)
	{
		const struct move_guest *m = &of_guest(link, device)->move;

		stored += m->segment_bytes + m->foreign_bytes;
		leaves |= move_open_order(m) > 0;
		can |= move_open_order(m) && !is_starved(m);
	}
	residency_starves(&of->member, leaves && !can, stored, now);
	return of->member.starved != was;
}

static bool tell_all(struct tenant_device *of, uint32_t device)
{
	bool any = false;

	list_for_each(link, &of->tenant->guests)
	{
		struct guest_device *at = of_guest(link, device);

		any |= at->move.telling;
		if (at->move.telling)
			tell(at);
	}
	return any;
}

static void check(struct tenant_device *of, uint64_t now)
{
	uint32_t device = tenant_index(of);
	struct residency_member *m = &of->member;
	struct sums told;

	list_for_each(link, &of->tenant->guests) move_sync(of_guest(link, device), false);
	told = sum_up(of, device);
	if (m->stopping) {
		if (!stop_all(of, device))
			residency_stopped(m, now);
	} else {
		if (told.order > m->ordered_bytes || told.credit > m->credit_bytes)
			stop_all(of, device);
		told = sum_up(of, device);
		give(of, device, &told, now);
		recall_freed(of, device);
	}
	prepare(of, device);
	tenant_gate_open_late(of->tenant, device);
}

bool move_orders(struct daemon *d, uint64_t now)
{
	bool done = false;

	while (!list_empty(&d->move.due)) {
		struct tenant_device *of =
			list_entry(d->move.due.next, struct tenant_device, move_due);

		list_remove(&of->move_due);
		if (d->restore.waiting && of->tenant->expected_count)
			continue;
		check(of, now);
		done |= tell_all(of, tenant_index(of));
		done |= see_starved(of, tenant_index(of), now);
		done |= move_line(of, now);
	}
	return done;
}
