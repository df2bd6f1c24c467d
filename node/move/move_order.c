/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders. What a tenant must still do is compared with what its guests were told and have not done.
 * The guests are told the rest, one after the other, so that at most one of them ends with a block
 * that is larger than the rest of its order. If something was freed meanwhile, the guests were told
 * too much: then their generation ends, or they would move what nobody asked for.
 */
#include <inttypes.h>

#include "node/guest.h"
#include "node/move/move_inside.h"
#include "node/time/schedule.h"

static struct guest_device *of_guest(struct list *link, uint32_t device)
{
	return &list_entry(link, struct guest, link)->device[device];
}

static uint64_t now_of(const struct guest_device *at)
{
	return schedule_now(at->guest->tenant->daemon);
}

void move_due(struct tenant_device *at)
{
	if (at->joined && !list_linked(&at->move_due))
		list_append(&at->tenant->daemon->move_due, &at->move_due);
}

uint64_t move_open_credit(const struct move_guest *m)
{
	return beyond(m->enter, m->entered + m->returned);
}

static uint64_t open_order(const struct move_guest *m)
{
	return beyond(m->leave, m->left);
}

static uint64_t open_drop(const struct move_guest *m)
{
	return beyond(m->drop, m->dropped);
}

int move_match(struct guest_device *at)
{
	struct ledger *l = at->guest->tenant->daemon->ledger;
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

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct guest_device *at)
{
	struct guest *g = at->guest;
	struct move_guest *m = &at->move;
	struct wire_message message;

	m->telling = false;
	/* It asks again. */
	if (list_empty(&m->waits))
		m->lacks_bytes = 0;
	if (!g->caller)
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

static void forget_orders(struct move_guest *m)
{
	m->saved += m->left - m->copied;
	m->leave = m->enter = m->drop = 0;
	m->left = m->copied = m->entered = m->returned = m->dropped = m->failed = 0;
	m->stopping = false;
	m->generation++;
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
	guest_send(g, &message);
}

/* Unused credit cannot move out: recall it. */
static void recall(struct guest_device *at)
{
	const struct guest *g = at->guest;
	uint64_t resident =
		__atomic_load_n(&g->own->movable[at - g->device].resident_bytes, __ATOMIC_RELAXED);

	if (resident < at->move.here)
		move_recall(at, at->move.here - resident);
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

		sums.order += open_order(m);
		sums.credit += move_open_credit(m);
		sums.drop += open_drop(m);
		sums.stopping |= m->stopping;
	}
	return sums;
}

static bool is_told(const struct move_guest *m)
{
	return open_order(m) || move_open_credit(m);
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
	uint64_t more = least(bytes, beyond(m->here, open_order(m)));

	if (!more || m->stopping || at->owes_drain)
		return 0;
	recall(at);
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

/* Returns the rest that no guest could be told. */
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
	/* Somebody unknown took the room. A stopping guest is told when it has answered. */
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

		if (m->can && has && (all > r->capacity_bytes / 4 * 3 || of->tenant->away))
			wanted = all <= budget
					 ? has
					 : (uint64_t)((double)has * (double)budget / (double)all);
		if (wanted / chunk == m->prepare / chunk && !wanted == !m->prepare)
			continue;
		m->prepare = wanted;
		m->telling = true;
	}
}

/* What of the store it has is full, and it was given no more. */
static bool is_starved(const struct move_guest *m)
{
	uint64_t room = beyond(m->segment_bytes + m->foreign_bytes, m->out);

	return m->lacks_bytes && room < m->lacks_bytes;
}

/* Whether none of its guests that are to leave can, for want of room in the store. True: that has
 * changed. */
static bool see_starved(struct tenant_device *of, uint32_t device, uint64_t now)
{
	bool leaves = false, can = false, was = of->member.starved;
	uint64_t stored = 0;

	list_for_each(link, &of->tenant->guests)
	{
		const struct move_guest *m = &of_guest(link, device)->move;

		stored += m->segment_bytes + m->foreign_bytes;
		leaves |= open_order(m) > 0;
		can |= open_order(m) && !is_starved(m);
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

static void look_at(struct tenant_device *of, uint64_t now)
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
	}
	prepare(of, device);
	tenant_gate_open_late(of->tenant, device);
}

bool move_orders(struct daemon *d, uint64_t now)
{
	bool done = false;

	while (!list_empty(&d->move_due)) {
		struct tenant_device *of =
			list_entry(d->move_due.next, struct tenant_device, move_due);

		list_remove(&of->move_due);
		if (d->restoring && of->tenant->expected_count)
			continue;
		look_at(of, now);
		done |= tell_all(of, tenant_index(of));
		done |= see_starved(of, tenant_index(of), now);
		done |= move_line(of, now);
	}
	return done;
}

/* ---- freed memory ---------------------------------------------------------------------------- */

void move_freed(struct guest_device *at, uint64_t here, uint64_t out)
{
	struct tenant_device *of = of_tenant(at);

	here = least(here, at->move.here);
	out = least(out, at->move.out);
	at->move.here -= here;
	at->move.out -= out;
	if (of->joined)
		residency_free(&of->member, here, out, now_of(at));
	move_due(of);
}

/* The state of both sides at the beginning of a connection. */
static void begin_anew(struct move_guest *m)
{
	forget_orders(m);
	m->generation = 0;
	m->prepare = 0;
	m->telling = m->can = false;
	m->behind = 0;
}

/* More is movable than was asked for as movable: guests use any credit for it. */
static void grow(struct guest_device *at, uint64_t bytes)
{
	at->move.here += bytes;
	residency_adopt(&of_tenant(at)->member, bytes, 0, now_of(at));
}

/* None of its memory is about to move. */
static bool is_settled(const struct move_guest *m)
{
	return !open_order(m) && !move_open_credit(m) && !m->stopping;
}

void move_sync(struct guest_device *at, bool exact)
{
	struct guest *g = at->guest;
	const struct wire_own_movable *own = &g->own->movable[at - g->device];
	uint64_t here = __atomic_load_n(&own->resident_bytes, __ATOMIC_SEQ_CST);
	uint64_t out = __atomic_load_n(&own->out_bytes, __ATOMIC_SEQ_CST);
	struct move_guest *m = &at->move;
	struct ledger_sums has;

	if (!g->caller || !g->stated || !m->can || !of_tenant(at)->joined)
		return;
	ledger_holder_sums(at->holder, &has);
	/* No message reports what was freed in the store. */
	if (is_settled(m) && out < m->out) {
		best_effort(ledger_free_evicted(g->tenant->daemon->ledger, at->holder,
						least(m->out - out, has.evicted)));
		move_freed(at, 0, m->out - out);
		ledger_holder_sums(at->holder, &has);
	}
	here = least(here, has.granted - has.evicted);
	if (here > m->here)
		grow(at, here - m->here);
	else if (exact && here < m->here)
		move_freed(at, m->here - here, 0);
}

/* What is returned without SEGMENT_RETURN belonged to a former daemon's store. */
static void forget_foreign(struct guest_device *at, uint64_t bytes)
{
	bytes = least(bytes, at->move.foreign_bytes);
	at->move.foreign_bytes -= bytes;
	at->guest->tenant->daemon->stores.used_bytes -= bytes;
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

/* It is in a former daemon's store, which lives as long as its guests, and counts here: as far as
 * its tenant's quota goes, and once, however often it is said. */
static void count_foreign(struct guest_device *at, uint64_t bytes)
{
	struct daemon *d = at->guest->tenant->daemon;

	forget_foreign(at, at->move.foreign_bytes);
	bytes = least(bytes, beyond(d->quota_bytes, foreign_of(at->guest->tenant)));
	at->move.foreign_bytes = bytes;
	d->stores.used_bytes += bytes;
}

void move_adopt(struct guest_device *at, uint64_t movable, uint64_t out)
{
	struct tenant_device *of = of_tenant(at);
	struct move_guest *m = &at->move;

	if (out)
		move_takes_part(of, now_of(at));
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
	residency_adopt(&of->member, movable, out, now_of(at));
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
	for (uint32_t i = 0; i < g->tenant->devices; i++)
		move_ask_forget(&g->device[i]);
}

void move_left(struct guest *g)
{
	for (uint32_t i = 0; i < g->tenant->devices; i++) {
		struct guest_device *at = &g->device[i];

		move_ask_forget(at);
		move_freed(at, at->move.here, at->move.out);
		begin_anew(&at->move);
		move_segments_forget(at);
		forget_foreign(at, at->move.foreign_bytes);
	}
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Why the report is not believed; NULL: it is. */
static const char *doubt(const struct guest_device *at, const struct wire_moved *said)
{
	const struct move_guest *m = &at->move;
	uint64_t chunk = of_tenant(at)->member.residency->tuning.chunk_bytes;
	uint64_t leave = m->leave ? m->leave + chunk - 1 : 0;
	struct ledger_sums has;

	if (said->left < m->left || said->copied < m->copied || said->entered < m->entered ||
	    said->returned < m->returned || said->dropped < m->dropped || said->failed < m->failed)
		return "took back what it said that it had moved";
	ledger_holder_sums(at->holder, &has);
	if (said->left > leave || said->copied > said->left ||
	    said->left - m->left > has.granted - has.evicted)
		return "moved more out than it was told";
	if (said->entered > m->enter || said->returned > m->enter - said->entered ||
	    said->entered - m->entered > m->out + (said->left - m->left))
		return "moved more in than it was told";
	if (said->dropped > (m->drop ? m->drop + chunk - 1 : 0))
		return "gave more back than it was told";
	/* What is in a former daemon's store is given back without a word. */
	if (!at->guest->restored && said->dropped - m->dropped > m->given_bytes)
		return "gave back less than it said";
	return NULL;
}

static void hear_dropped(struct guest_device *at, uint64_t bytes, uint64_t now)
{
	struct residency_member *of = &of_tenant(at)->member;
	struct move_guest *m = &at->move;
	uint64_t own = least(bytes, m->given_bytes);

	m->given_bytes -= own;
	forget_foreign(at, bytes - own);
	move_gave(at, bytes);
	residency_dropped(of, least(bytes, of->dropping_bytes), now);
}

static void believe(struct guest_device *at, const struct wire_moved *said)
{
	struct residency_member *of = &of_tenant(at)->member;
	struct move_guest *m = &at->move;
	uint64_t left = said->left - m->left, copied = said->copied - m->copied;
	uint64_t entered = said->entered - m->entered, returned = said->returned - m->returned;
	uint64_t dropped = said->dropped - m->dropped, failed = said->failed - m->failed;
	uint64_t now = now_of(at);

	if (left > m->here)
		grow(at, left - m->here);
	m->left = said->left;
	m->copied = said->copied;
	m->entered = said->entered;
	m->returned = said->returned;
	m->dropped = said->dropped;
	m->failed = said->failed;
	m->here = m->here - left + entered;
	m->out = m->out + left - entered;
	if (left)
		residency_left(of, left, copied, now);
	if (entered)
		residency_came(of, entered, now);
	if (returned)
		residency_unused(of, returned, now);
	if (dropped)
		hear_dropped(at, dropped, now);
	/* Its page no longer counts these bytes as movable. */
	if (failed)
		move_sync(at, true);
}

void move_heard(struct guest *g, uint32_t id, const struct wire_moved *said)
{
	struct tenant *t = g->tenant;
	struct guest_device *at;
	const char *reason;

	if (said->device >= t->devices || !t->device[said->device].joined) {
		guest_refuse(g, id, WIRE_REFUSED_UNKNOWN, "nothing moves on device %u",
			     said->device);
		return;
	}
	at = &g->device[said->device];
	reason = said->generation != at->move.generation ? "moved for an order that is over"
							 : doubt(at, said);
	if (reason) {
		caller_dismiss(g->caller, id, WIRE_REFUSED_BAD, reason);
		return;
	}
	believe(at, said);
	if (said->stopped && at->move.stopping) {
		forget_orders(&at->move);
		/* Its tenant's other orders go on, in the new generation. */
		at->move.telling = true;
	}
	best_effort(move_match(at));
	move_due(&t->device[said->device]);
	book_pump(t->daemon);
	schedule_pump(t->daemon);
}
