/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_heard.h"

#include "core/residency/residency_report.h"
#include "node/daemon.h"
#include "node/memory/book.h"
#include "node/move/move_guest.h"
#include "node/move/move_inside.h"
#include "node/move/move_kept.h"
#include "node/move/move_sync.h"
#include "node/tenants/guest_send.h"
#include "node/upcalls.h"

/* Why the report is not believed; NULL: it is. */
static const char *why_not(enum residency_doubt doubt)
{
	switch (doubt) {
	case RESIDENCY_BELIEVED:
		break;
	case RESIDENCY_TOOK_BACK:
		return "took back its report of moved bytes";
	case RESIDENCY_LEFT_MORE:
		return "moved out more than it was told to";
	case RESIDENCY_CAME_MORE:
		return "moved in more than it was told to";
	case RESIDENCY_GAVE_MORE:
		return "gave back more than it was told to";
	case RESIDENCY_GAVE_LESS:
		return "gave back less than it said";
	}
	return NULL;
}

static const char *doubt(const struct guest_device *at, const struct wire_moved *wire)
{
	const struct move_guest *m = &at->move;
	const struct residency_order told = {m->leave, m->enter, m->drop};
	const struct residency_report before = {m->left,     m->copied,	 m->entered,
						m->returned, m->dropped, m->failed};
	const struct residency_report said = {wire->left,     wire->copied,  wire->entered,
					      wire->returned, wire->dropped, wire->failed};
	struct residency_has has = {.out_bytes = m->out,
				    .given_bytes = m->given_bytes,
				    .foreign = at->guest->restored,
				    .chunk_bytes =
					    of_tenant(at)->member.residency->tuning.chunk_bytes};
	struct ledger_sums sums;

	ledger_holder_sums(at->holder, &sums);
	has.here_bytes = sums.granted - sums.evicted;
	return why_not(residency_doubt(&told, &before, &said, &has));
}

static void hear_dropped(struct guest_device *at, uint64_t bytes, uint64_t now)
{
	struct residency_member *of = &of_tenant(at)->member;
	struct move_guest *m = &at->move;
	uint64_t own = least(bytes, m->given_bytes);

	m->given_bytes -= own;
	move_forget_foreign(at, bytes - own);
	move_gave(at, bytes);
	residency_dropped(of, least(bytes, of->dropping_bytes), now);
}

/* The device had no room for these bytes after all; or the program has freed the memory that was to
 * come, and nothing is lacking. */
static void hear_returned(struct guest_device *at, uint64_t bytes, uint64_t now)
{
	uint64_t out = at->move.out;

	/* The ledger takes it for memory that is out again, and then for memory that is gone. */
	best_effort(move_match(at));
	move_sync(at, false);
	bytes = beyond(bytes, out - at->move.out);
	if (bytes)
		residency_unused(&of_tenant(at)->member, bytes, now);
}

static void believe(struct guest_device *at, const struct wire_moved *said)
{
	struct residency_member *of = &of_tenant(at)->member;
	struct move_guest *m = &at->move;
	uint64_t left = said->left - m->left, copied = said->copied - m->copied;
	uint64_t entered = said->entered - m->entered, returned = said->returned - m->returned;
	uint64_t dropped = said->dropped - m->dropped, failed = said->failed - m->failed;
	uint64_t now = move_now(at);

	if (left > m->here)
		move_grow(at, left - m->here);
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
		hear_returned(at, returned, now);
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
		move_forget_orders(&at->move);
		/* Its tenant's other orders go on, in the new generation. */
		at->move.telling = true;
	}
	best_effort(move_match(at));
	move_due(&t->device[said->device]);
	book_pump(t->daemon);
	schedule_pump(t->daemon);
}
