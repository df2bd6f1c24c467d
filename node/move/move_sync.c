/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_sync.h"

#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"

void move_due(struct tenant_device *at)
{
	if (at->joined && !list_linked(&at->move_due))
		list_append(&at->tenant->daemon->move.due, &at->move_due);
}

uint64_t move_open_credit(const struct move_guest *m)
{
	return beyond(m->enter, m->entered + m->returned);
}

uint64_t move_open_order(const struct move_guest *m)
{
	return beyond(m->leave, m->left);
}

int move_match(struct guest_device *at)
{
	struct ledger *l = at->guest->tenant->daemon->book.ledger;
	struct ledger_sums has;
	uint64_t target = beyond(at->move.out, move_open_credit(&at->move));

	ledger_holder_sums(at->holder, &has);
	target = least(target, has.granted);
	if (target < has.evicted)
		return ledger_restore(l, at->holder, has.evicted - target);
	if (target == has.evicted)
		return 0;
	/* It has this memory, whatever its page says at the moment, and not on the device. */
	if (has.allocated < target)
		ledger_report(l, at->holder, target);
	return ledger_evict(l, at->holder, target - has.evicted);
}

void move_recall(struct guest_device *at, uint64_t bytes)
{
	struct guest *g = at->guest;
	struct wire_message message;

	if (!g->caller)
		return;
	wire_begin(&message, WIRE_credit_recall, peer_new_id(&g->caller->peer));
	message.credit_recall.device = (uint32_t)(at - g->device);
	message.credit_recall.bytes = bytes;
	at->move.recalled_bytes = bytes;
	guest_send(g, &message);
}

void move_freed(struct guest_device *at, uint64_t here, uint64_t out)
{
	struct tenant_device *of = of_tenant(at);

	here = least(here, at->move.here);
	out = least(out, at->move.out);
	at->move.here -= here;
	at->move.out -= out;
	if (of->joined)
		residency_free(&of->member, here, out, move_now(at));
	move_due(of);
}

void move_grow(struct guest_device *at, uint64_t bytes)
{
	at->move.here += bytes;
	residency_adopt(&of_tenant(at)->member, bytes, 0, move_now(at));
}

/* None of its memory is about to move. */
static bool is_settled(const struct move_guest *m)
{
	return !move_open_order(m) && !move_open_credit(m) && !m->stopping;
}

void move_sync(struct guest_device *at, bool exact)
{
	struct guest *g = at->guest;
	const struct wire_own_movable *own = &g->own->movable[at - g->device];
	uint64_t here = __atomic_load_n(&own->resident_bytes, __ATOMIC_SEQ_CST);
	uint64_t out = __atomic_load_n(&own->out_bytes, __ATOMIC_SEQ_CST);
	struct move_guest *m = &at->move;
	struct ledger_sums has;
	uint64_t granted;

	if (!g->caller || !g->stated || !m->can || !of_tenant(at)->joined)
		return;
	ledger_holder_sums(at->holder, &has);
	/* No message reports what was freed in the store. */
	if (is_settled(m) && out < m->out) {
		best_effort(ledger_free_evicted(g->tenant->daemon->book.ledger, at->holder,
						least(m->out - out, has.evicted)));
		move_freed(at, 0, m->out - out);
		ledger_holder_sums(at->holder, &has);
	}
	/* What it was granted has to hold both. */
	granted = beyond(has.granted - has.evicted, move_open_credit(m));
	if (m->here > granted)
		move_freed(at, m->here - granted, 0);
	here = least(here, has.granted - has.evicted);
	/* What has come by the page may not have been reported yet: it is no growth. */
	if (here > m->here + move_open_credit(m))
		move_grow(at, here - m->here - move_open_credit(m));
	else if (exact && here < m->here)
		move_freed(at, m->here - here, 0);
}

void move_forget_orders(struct move_guest *m)
{
	m->saved += m->left - m->copied;
	m->leave = m->enter = m->drop = 0;
	m->left = m->copied = m->entered = m->returned = m->dropped = m->failed = 0;
	m->stopping = m->host_hinders = false;
	m->generation++;
}
