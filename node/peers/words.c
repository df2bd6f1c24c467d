/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a guest after HELLO, and the answers to them. */
#include "node/peers/words.h"

#include <inttypes.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/memory/ask.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/measured.h"
#include "node/memory/prices.h"
#include "node/memory/watch.h"
#include "node/move/move_ask.h"
#include "node/move/move_guest.h"
#include "node/move/move_heard.h"
#include "node/move/move_store.h"
#include "node/move/move_sync.h"
#include "node/peers/peer.h"
#include "node/peers/words_refuse.h"
#include "node/tenants/guest.h"
#include "node/tenants/guest_send.h"
#include "node/tenants/lend.h"
#include "node/tenants/tenant_show.h"
#include "node/time/gate.h"
#include "node/time/schedule.h"
#include "node/upcalls.h"

/* The entry for a device that the guest named. NULL: there is none, and the guest was told. */
static struct guest_device *device_of(struct guest *g, uint32_t id, uint32_t device)
{
	if (device < g->tenant->devices)
		return &g->device[device];
	guest_refuse(g, id, WIRE_REFUSED_UNKNOWN, "device %u: this tenant has %u", device,
		     g->tenant->devices);
	return NULL;
}

/* The bytes to adopt of a guest: those that it states, unless this daemon knows better. A guest
 * that was connected before holds at most what it was granted, and has the residual that was
 * measured. One that no daemon has granted anything holds nothing. */
struct claim {
	uint64_t allocated, credit, residual;
};

static bool holds_nothing(const struct guest *g)
{
	return !g->known && !g->restored;
}

static struct claim claim_of(const struct guest_device *at, const struct wire_inventory *said)
{
	const struct guest *g = at->guest;
	struct daemon *d = g->tenant->daemon;
	uint64_t contexts = said->contexts < 1024 ? said->contexts : 1024;
	uint64_t all =
		said->out > UINT64_MAX - said->allocated ? UINT64_MAX : said->allocated + said->out;
	struct claim claim = {all, said->credit, 0};
	struct ledger_sums has;

	if (holds_nothing(g))
		return (struct claim){0};
	if (!g->known) {
		claim.residual =
			contexts * (at->context_bytes ? at->context_bytes : prices_context(d, at));
		return claim;
	}
	ledger_holder_sums(at->holder, &has);
	claim.residual = has.residual;
	if (claim.allocated > has.granted)
		claim.allocated = has.granted;
	if (claim.credit > has.granted - claim.allocated)
		claim.credit = has.granted - claim.allocated;
	return claim;
}

/* Adopts at most what the guest was granted. */
static void adopt_movable(struct guest_device *at, const struct wire_inventory *said,
			  uint64_t granted)
{
	uint64_t out = said->out < granted ? said->out : granted;
	uint64_t here = said->movable < granted - out ? said->movable : granted - out;

	move_adopt(at, here, out);
}

static void complain_of(const struct guest_device *at, const struct wire_inventory *said)
{
	const struct guest *g = at->guest;

	if ((said->allocated || said->credit || said->out) &&
	    daemon_may_complain(g->tenant->daemon))
		log_warning("guest.overstated",
			    "guest=%u pid=%d device=%u allocated_bytes=%" PRIu64
			    " credit_bytes=%" PRIu64 " out_bytes=%" PRIu64,
			    g->id, (int)g->pid, said->device, said->allocated, said->credit,
			    said->out);
}

static enum residual_verb how_adopted(const struct guest_device *at)
{
	if (at->guest->known)
		return RESIDUAL_ADOPTED;
	return at->context_bytes ? RESIDUAL_RECALLED : RESIDUAL_GUESSED;
}

static void on_inventory(struct guest *g, uint32_t id, const struct wire_inventory *said)
{
	struct daemon *d = g->tenant->daemon;
	struct guest_device *at = device_of(g, id, said->device);
	struct ledger_sums has;
	struct claim claim;
	int r;

	if (!at)
		return;
	if (at->stated) {
		guest_refuse(
			g, id, WIRE_REFUSED_BAD,
			"the inventory of device %u was stated before or is no longer expected",
			said->device);
		return;
	}
	at->stated = true;
	claim = claim_of(at, said);
	if (holds_nothing(g))
		complain_of(at, said);
	r = ledger_adopt(d->book.ledger, at->holder, claim.allocated, claim.credit, claim.residual);
	ledger_holder_sums(at->holder, &has);
	adopt_movable(at, said, has.granted);
	if (said->contexts || said->allocated || g->known)
		measure_tell(at, how_adopted(at), has.residual);
	log_debug("guest.inventory",
		  "guest=%u device=%u allocated_bytes=%" PRIu64 " credit_bytes=%" PRIu64
		  " contexts=%u void=%d",
		  g->id, said->device, said->allocated, said->credit, said->contexts, r);
	if (holds_nothing(g) && said->credit)
		guest_refuse(g, id, WIRE_REFUSED_LIMIT,
			     "nobody has granted this process a credit of %s: it is void",
			     text_bytes(said->credit).text);
	else if (r == 0)
		guest_done(g, id, 0);
	else
		guest_refuse(g, id, r == LEDGER_OVER ? WIRE_REFUSED_LIMIT : WIRE_REFUSED_FULL,
			     "there is no longer room for the credit of %s: it is void",
			     text_bytes(said->credit).text);
}

/* `movable`: the memory can move. */
static void ask(struct guest_device *at, const struct ledger_request *request, bool movable)
{
	if (!move_ask(at, request, movable))
		best_effort(ask_ledger(at, request));
}

static void on_credit_ask(struct guest *g, uint32_t id, const struct wire_credit_ask *said)
{
	struct guest_device *at = device_of(g, id, said->device);
	struct ledger_request request = {
		.id = id, .bytes = said->bytes, .want = said->want, .may_wait = said->wait != 0};

	if (at)
		ask(at, &request, said->movable != 0);
}

static void on_credit_return(struct guest *g, uint32_t id, const struct wire_credit_return *said)
{
	struct guest_device *at = device_of(g, id, said->device);
	struct daemon *d = g->tenant->daemon;

	if (!at)
		return;
	book_refresh_guest(g);
	if (ledger_return(d->book.ledger, at->holder, said->bytes, said->recall != 0) ==
		    LEDGER_HELD &&
	    daemon_may_complain(d))
		log_warning("guest.overreturn", "guest=%u device=%u bytes=%" PRIu64, g->id,
			    said->device, said->bytes);
	if (said->recall)
		at->move.recalled_bytes = 0;
	/* A guest that answers a recall has no unused credit left. */
	move_sync(at, said->recall != 0);
	book_pump(d);
}

static void on_residual_ask(struct guest *g, uint32_t id, const struct wire_residual_ask *said)
{
	struct guest_device *at = device_of(g, id, said->device);
	struct daemon *d = g->tenant->daemon;
	struct ledger_request request = {
		.id = id, .bytes = said->bytes, .may_wait = 1, .residual = LEDGER_RESIDUAL};

	if (!at)
		return;
	if (!request.bytes) {
		request.bytes = prices_context(d, at);
	}
	ask(at, &request, false);
}

static void on_residual_settle(struct guest *g, uint32_t id,
			       const struct wire_residual_settle *said)
{
	struct guest_device *at = device_of(g, id, said->device);

	g->settles++;
	if (!at)
		return;
	if (said->keep)
		measure_tell(at, RESIDUAL_SETTLED, 0);
	else
		measure_tell(at, RESIDUAL_SETTLED, said->bytes ? said->bytes : RESIDUAL_ALL);
	measure_start(g->tenant->daemon);
}

static void on_residual_check(struct guest *g, uint32_t id, const struct wire_residual_check *said)
{
	struct guest_device *at = device_of(g, id, said->device);

	if (!at)
		return;
	if (at->residual.check || list_linked(&at->answer))
		guest_refuse(g, id, WIRE_REFUSED_BAD, "device %u: a check is under way",
			     said->device);
	else
		measure_check(at, id);
}

static void on_drained(struct guest *g, const struct wire_drained *said)
{
	struct tenant *t = g->tenant;

	if (said->device >= t->devices || said->epoch != t->shown->device[said->device].epoch)
		return; /* of an earlier close */
	g->device[said->device].owes_drain = false;
	tenant_gate_apply(t, said->device);
	/* The guest can now be told what to move. */
	move_due(&t->device[said->device]);
	schedule_pump(t->daemon);
}

static void on_wants(struct guest *g, const struct wire_wants *said)
{
	if (said->device < g->tenant->devices)
		schedule_wants(g, said->device);
}

static void on_idle(struct guest *g, const struct wire_idle *said)
{
	if (said->device < g->tenant->devices)
		schedule_idle(g, said->device);
}

static void on_processes_ask(struct guest *g, uint32_t id, const struct wire_processes_ask *said)
{
	struct wire_message row = {.code = WIRE_process_row, .id = id};
	struct wire_message end = {.code = WIRE_end, .id = id};
	struct tenant *t = g->tenant;

	if (!device_of(g, id, said->device))
		return;
	list_for_each(link, &t->guests)
	{
		struct guest *other = list_entry(link, struct guest, link);
		struct ledger_sums sums;

		book_refresh_guest(other);
		ledger_holder_sums(other->device[said->device].holder, &sums);
		row.process_row.pid = (uint32_t)other->pid;
		row.process_row.used = sums.allocated + sums.residual;
		if (!row.process_row.used)
			continue;
		end.end.rows++;
		guest_send(g, &row);
	}
	/* A guest may ask in order to read the page: the page then shows the same figures. */
	book_glance(t->daemon, t->device[said->device].index);
	tenant_show(t, said->device);
	guest_send(g, &end);
}

void words_answer(struct guest *g, const struct ledger_action *action)
{
	struct guest_device *at = ledger_owner(action->holder);
	uint32_t device = (uint32_t)(at - g->device);
	struct wire_message message;
	struct ledger_sums has;

	if ((action->verb == LEDGER_GRANT || action->verb == LEDGER_REFUSE) &&
	    move_answered(at, action))
		return;
	if (g->tenant->device[device].wait.kind)
		waits_look(&g->tenant->device[device]);
	switch (action->verb) {
	case LEDGER_GRANT:
		if (action->residual == LEDGER_RESIDUAL)
			measure_tell(at, RESIDUAL_RESERVED, action->bytes);
		if (action->residual) {
			guest_done(g, (uint32_t)action->id, action->bytes);
			return;
		}
		ledger_holder_sums(at->holder, &has);
		measure_tell(at, RESIDUAL_GRANTED, has.granted);
		wire_begin(&message, WIRE_credit_grant, (uint32_t)action->id);
		message.credit_grant.device = device;
		message.credit_grant.bytes = action->bytes;
		break;
	case LEDGER_REFUSE:
		words_refuse(g, device, action);
		return;
	case LEDGER_RECALL:
		if (!g->caller) {
			/* A guest that is not connected cannot give back anything now. */
			best_effort(
				ledger_return(g->tenant->daemon->book.ledger, at->holder, 0, 1));
			return;
		}
		wire_begin(&message, WIRE_credit_recall, peer_new_id(&g->caller->peer));
		message.credit_recall.device = device;
		message.credit_recall.bytes = action->bytes;
		break;
	case LEDGER_REFRESH:
		return; /* book.c's */
	}
	guest_send(g, &message);
}

/* About memory that it holds or asks for. False: the message is about something else. */
static bool hear_of_memory(struct guest *g, const struct wire_message *m)
{
	switch (m->code) {
	case WIRE_inventory:
		on_inventory(g, m->id, &m->inventory);
		return true;
	case WIRE_inventory_end:
		guest_done(g, m->id, move_out_of(g));
		return true;
	case WIRE_credit_ask:
		on_credit_ask(g, m->id, &m->credit_ask);
		return true;
	case WIRE_credit_return:
		on_credit_return(g, m->id, &m->credit_return);
		return true;
	case WIRE_residual_ask:
		on_residual_ask(g, m->id, &m->residual_ask);
		return true;
	case WIRE_residual_settle:
		on_residual_settle(g, m->id, &m->residual_settle);
		return true;
	case WIRE_residual_check:
		on_residual_check(g, m->id, &m->residual_check);
		return true;
	case WIRE_processes_ask:
		on_processes_ask(g, m->id, &m->processes_ask);
		return true;
	default:
		return false;
	}
}

/* About its gate, and whether it wants the device. False: likewise. */
static bool hear_of_time(struct guest *g, const struct wire_message *m)
{
	switch (m->code) {
	case WIRE_drained:
		on_drained(g, &m->drained);
		return true;
	case WIRE_wants:
		on_wants(g, &m->wants);
		return true;
	case WIRE_idle:
		on_idle(g, &m->idle);
		return true;
	default:
		return false;
	}
}

/* About memory that moves, and memory that others open. False: likewise. */
static bool hear_of_movement(struct guest *g, const struct wire_message *m)
{
	switch (m->code) {
	case WIRE_store_ask:
		move_store_ask(g, m->id, m->store_ask.device);
		return true;
	case WIRE_segment_ask:
		move_segment_ask(g, m->id, &m->segment_ask);
		return true;
	case WIRE_segment_return:
		move_segment_return(g, m->id, &m->segment_return);
		return true;
	case WIRE_moved:
		move_heard(g, m->id, &m->moved);
		return true;
	case WIRE_lend:
		lend_heard(g, m->id, &m->lend);
		return true;
	case WIRE_borrow:
		lend_borrow(g, m->id, &m->borrow);
		return true;
	default:
		return false;
	}
}

void words_heard(struct guest *g, const struct wire_message *m)
{
	/* The inventory comes first, as one statement. */
	if (m->code != WIRE_inventory)
		guest_stated(g);
	watch_stirred(g->tenant);
	/* Only another side sends other messages: no accident. */
	if (!hear_of_memory(g, m) && !hear_of_time(g, m) && !hear_of_movement(g, m))
		caller_dismiss(g->caller, m->id, WIRE_REFUSED_BAD,
			       "sent a message that no guest sends");
}
