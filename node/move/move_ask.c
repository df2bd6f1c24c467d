/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for movable memory; node/move/move_plain.c handles unmovable memory. A tenant's asks go to
 * the machine one at a time. When the machine has granted one, the ledger is asked. It has room,
 * unless somebody else was faster; then the ask goes to the machine again. An ask that the machine
 * would refuse only because of figures that may be about to change (a reserved context that is not
 * measured yet, unused credit) waits for that change.
 */
#include "node/move/move_ask.h"

#include "base/text.h"
#include "node/daemon.h"
#include "node/memory/ask.h"
#include "node/memory/measure.h"
#include "node/move/ask_types.h"
#include "node/move/move_inside.h"
#include "node/move/move_plain.h"
#include "node/move/move_refuse.h"
#include "node/move/move_sync.h"
#include "node/move/move_unsettled.h"
#include "node/tenants/guest_send.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

enum { TRIES = 4 };

static const uint64_t ms = 1000000;

/* ---- their places ---------------------------------------------------------------------------- */

void move_ask_drop(struct ask *ask)
{
	ask->at->move.ask_count--;
	if (of_tenant(ask->at)->wait.kind)
		waits_look(of_tenant(ask->at));
	if (ask_keeps_room(ask))
		device_under(ask->at)->plain_bytes -= ask->request.bytes;
	else if (ask->state != ASK_DOUBTED)
		of_tenant(ask->at)->ask_count--;
	list_remove(&ask->link);
	list_remove(&ask->own);
	free(ask);
}

static bool are_too_many(const struct guest_device *at)
{
	return at->move.ask_count == MOVE_ASKS_OF_GUEST ||
	       of_tenant(at)->ask_count >= MOVE_ASKS_OF_TENANT;
}

struct ask *move_ask_make(struct guest_device *at, const struct ledger_request *request)
{
	struct ask *ask = are_too_many(at) ? NULL : calloc(1, sizeof(*ask));

	if (!ask) {
		guest_refuse(
			at->guest, (uint32_t)request->id, WIRE_REFUSED_FULL,
			"more than %d requests of this process are waiting, or %d of its tenant",
			MOVE_ASKS_OF_GUEST, MOVE_ASKS_OF_TENANT);
		return NULL;
	}
	ask->at = at;
	ask->request = *request;
	ask->since_ns = schedule_now(at->guest->tenant->daemon);
	at->move.ask_count++;
	list_append(&at->move.asks, &ask->own);
	return ask;
}

/* ---- the machine and the ledger -------------------------------------------------------------- */

static void take_back(struct ask *ask)
{
	struct tenant_device *of = of_tenant(ask->at);
	uint64_t bytes = take_bytes(&ask->granted_bytes);

	device_under(ask->at)->passed_bytes -= bytes;
	if (of->joined)
		residency_free(&of->member, bytes, 0, schedule_now(of->tenant->daemon));
}

/* The machine has granted it. */
static void pass(struct ask *ask, uint64_t bytes)
{
	struct guest_device *at = ask->at;
	struct ledger_request request = ask->request;

	request.want = bytes;
	request.may_wait = 0;
	ask->granted_bytes = bytes;
	ask->state = ASK_LEDGER;
	device_under(at)->passed_bytes += bytes;
	/* The ask may be answered and freed when this returns. */
	if (ask_ledger(at, &request))
		return;
	take_back(ask);
	move_ask_drop(ask);
}

static struct ask *head(const struct tenant_device *of)
{
	list_for_each(link, (struct list *)&of->asks)
	{
		struct ask *ask = list_entry(link, struct ask, link);

		if (ask->state != ASK_LEDGER)
			return ask;
	}
	return NULL;
}

/* ---- what may be about to change ------------------------------------------------------------- */

/* Would the ask be served with that capacity for movable memory, and without unused credit? The
 * asker's own unused credit makes its tenant smaller. That of others only reduces the sum that the
 * device and the store have to hold. */
static bool would_fit(const struct ask *ask, uint64_t capacity)
{
	const struct tenant_device *of = of_tenant(ask->at);
	uint64_t own = move_idle_credit_of(of),
		 others = move_idle_credit_on(device_under(ask->at)) - own;
	uint64_t bytes = beyond(ask->request.bytes, own);

	return residency_refusal(&of->member, bytes, capacity) != RESIDENCY_LARGE &&
	       residency_refusal(&of->member, bytes, capacity + others) == 0;
}

/* Is waiting worthwhile? */
static bool may_settle(struct ask *ask)
{
	struct tenant_device *of = of_tenant(ask->at);
	const struct device *device = device_under(ask->at);
	bool first = ask->state != ASK_SETTLES;
	/* This reads all guests' pages, which alone may increase the capacity. What they free while
	 * the ask waits is credit, of which they do not report. */
	uint64_t capacity = move_unsettled(device);

	capacity += move_capacity(of->tenant->daemon, of->index);
	if (!ask->request.may_wait ||
	    ask_age(ask, schedule_now(of->tenant->daemon)) >= MOVE_PLAIN_MS * ms ||
	    !would_fit(ask, capacity))
		return false;
	if (first)
		measure_asker(ask->at, ask->request.bytes);
	move_check_later(of->tenant->daemon);
	ask->state = ASK_SETTLES;
	return true;
}

static bool settles(const struct tenant_device *of)
{
	const struct ask *ask = head(of);

	return ask && ask->state == ASK_SETTLES;
}

/* Asks for more in advance if nobody would have to move for it. */
static uint64_t amount(const struct tenant_device *of, const struct ledger_request *request)
{
	uint64_t room = residency_room(of->member.residency);

	if (request->want <= request->bytes || of->member.place != RESIDENCY_IN ||
	    request->want > room / 4)
		return request->bytes;
	return request->want;
}

bool move_line(struct tenant_device *of, uint64_t now)
{
	struct ask *ask;
	bool done = false;

	while (of->joined && !move_device(of)->expecting && (ask = head(of)) &&
	       ask->state <= ASK_SETTLES) {
		uint64_t bytes;
		int r;

		/* The ledger may have looked at the device since the machine's last step. */
		best_effort(move_show_capacity(of->tenant->daemon, of->index, now));
		bytes = amount(of, &ask->request);
		r = residency_ask(&of->member, bytes, now);
		if (r > RESIDENCY_WAITS && may_settle(ask))
			break;
		done = true;
		if (r == 0) {
			pass(ask, bytes);
			continue;
		}
		if (r == RESIDENCY_WAITS && ask->request.may_wait) {
			ask->state = ASK_MACHINE;
			waits_look(of);
			move_check_later(of->tenant->daemon);
			break;
		}
		if (r == RESIDENCY_WAITS)
			residency_cancel(&of->member, now);
		move_refuse(ask, r);
		move_ask_drop(ask);
	}
	return done;
}

void move_granted(struct tenant_device *of)
{
	struct ask *ask = head(of);

	move_due(of);
	if (ask && ask->state == ASK_MACHINE)
		pass(ask, ask->request.bytes);
}

static struct ask *find(const struct guest_device *at, uint64_t id)
{
	list_for_each(link, (struct list *)&at->move.asks)
	{
		struct ask *ask = list_entry(link, struct ask, own);

		if ((ask->state == ASK_LEDGER || ask->state == ASK_LIMIT ||
		     ask->state == ASK_PASSED) &&
		    ask->request.id == id)
			return ask;
	}
	return NULL;
}

/* Its tenant's limit has room after all: if the device has none, others' memory moves for it. */
static bool answered_limit(struct ask *ask, const struct ledger_action *action)
{
	struct tenant_device *of = of_tenant(ask->at);

	if (action->verb == LEDGER_GRANT ||
	    (action->reason != LEDGER_FULL && action->reason != LEDGER_DEADLINE)) {
		move_ask_drop(ask);
		return false;
	}
	if (ask->plain)
		return move_plain_again(ask);
	ask->state = ASK_LINE;
	list_append(&of->asks, &ask->link);
	move_due(of);
	return true;
}

bool move_answered(struct guest_device *at, const struct ledger_action *action)
{
	struct tenant_device *of = of_tenant(at);
	struct ask *ask = find(at, action->id);

	if (!ask)
		return false;
	if (ask->state == ASK_PASSED)
		return move_plain_answered(ask, action);
	if (ask->state == ASK_LIMIT)
		return answered_limit(ask, action);
	move_due(of);
	if (action->verb == LEDGER_GRANT) {
		uint64_t bytes = action->bytes;

		device_under(at)->passed_bytes -= ask->granted_bytes;
		at->move.here += bytes;
		residency_free(&of->member, ask->granted_bytes - bytes, 0,
			       schedule_now(of->tenant->daemon));
		move_ask_drop(ask);
		return false;
	}
	take_back(ask);
	if (action->reason == LEDGER_FULL && ask->request.may_wait && ++ask->tries < TRIES) {
		ask->state = ASK_LINE;
		list_remove(&ask->link);
		list_prepend(&of->asks, &ask->link);
		return true;
	}
	move_ask_drop(ask);
	return false;
}

void move_settled(struct device *device)
{
	list_for_each(link, &device->tenants)
	{
		struct tenant_device *of = list_entry(link, struct tenant_device, link);

		if (of->joined && settles(of))
			move_due(of);
	}
}

/* Refuses asks that have waited for long enough for a tenant that does not make room. True: another
 * ask waits. */
static bool end_hindered(struct tenant_device *of, uint64_t now_ns)
{
	const struct residency_member *by;
	struct ask *ask;

	while (of->joined && (ask = head(of)) && ask->state == ASK_MACHINE) {
		if (ask_age(ask, now_ns) < MOVE_HINDERED_MS * ms ||
		    !(by = residency_hindrance(&of->member)))
			return true;
		residency_cancel(&of->member, schedule_now(of->tenant->daemon));
		move_refuse_hindered(ask, by);
		move_ask_drop(ask);
		/* The next one is judged at once, by its own bytes. */
		best_effort(move_line(of, schedule_now(of->tenant->daemon)));
	}
	return false;
}

/* The device has less for movable memory than when the ask began to wait: if some tenant could
 * never come back whole, the ask is judged again, like a new one. */
static void judge_again(struct tenant_device *of)
{
	const struct residency *r = of->joined ? of->member.residency : NULL;
	struct ask *ask = head(of);

	if (!r || !ask || ask->state != ASK_MACHINE ||
	    residency_bears(r, r->capacity_bytes, r->above_bytes))
		return;
	residency_cancel(&of->member, schedule_now(of->tenant->daemon));
	ask->state = ASK_LINE;
	best_effort(move_line(of, schedule_now(of->tenant->daemon)));
}

void move_ask_late(struct daemon *d, uint64_t now_ns)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		move_settled(&d->device[i]);
		move_recall_if_short(d, i);
		list_for_each(link, &d->device[i].tenants)
		{
			struct tenant_device *of = list_entry(link, struct tenant_device, link);

			judge_again(of);
			if (end_hindered(of, now_ns))
				move_check_later(d);
		}
		/* An answer may change the list. */
		while (move_end_plain(&d->device[i], now_ns))
			;
		if (!list_empty(&d->device[i].plain))
			move_check_later(d);
	}
}

/* ---- asks ------------------------------------------------------------------------------------ */

static struct guest_device *place_of(const struct list *guest, const struct tenant_device *of)
{
	return &list_entry(guest, struct guest, link)->device[of - of->tenant->device];
}

uint32_t move_asks(const struct tenant_device *of)
{
	uint32_t count = 0;

	list_for_each(guest, (struct list *)&of->tenant->guests) count +=
		place_of(guest, of)->move.ask_count;
	return count;
}

bool move_first_ask(const struct tenant_device *of, uint64_t *ret_bytes, uint64_t *ret_since_ns)
{
	const struct ask *first = NULL;

	list_for_each(guest, (struct list *)&of->tenant->guests)
	{
		/* A guest's own are in order. */
		const struct list *asks = &place_of(guest, of)->move.asks;
		const struct ask *ask =
			list_empty(asks) ? NULL : list_entry(asks->next, struct ask, own);

		if (ask && (!first || ask->since_ns < first->since_ns))
			first = ask;
	}
	if (!first)
		return false;
	*ret_bytes = first->request.bytes;
	*ret_since_ns = first->since_ns;
	return true;
}

/* If not, the ledger refuses it whatever moves, with its own sentence; unless the tenant's charge
 * falls, as when a context has been measured that was only guessed. */
static bool is_within(const struct guest_device *at, uint64_t bytes)
{
	const struct ledger_account *account = of_tenant(at)->account;
	struct ledger_sums sums;

	ledger_account_sums(account, &sums);
	return bytes <= ledger_account_room(account) + (sums.granted - sums.allocated);
}

bool move_ask_limit(struct guest_device *at, const struct ledger_request *request, bool movable,
		    bool expects)
{
	struct ask *ask = request->may_wait ? move_ask_make(at, request) : NULL;

	if (!ask)
		return request->may_wait;
	ask->state = ASK_LIMIT;
	ask->plain = !movable;
	ask->expects = expects;
	of_tenant(at)->ask_count++;
	/* The ask may be answered and freed when this returns. */
	if (!ask_ledger(at, request))
		move_ask_drop(ask);
	return true;
}

/* A guest that calls memory movable has asked for the store, perhaps on an earlier connection. It
 * will ask again on this one. */
static bool can_move(const struct guest_device *at)
{
	const struct tenant_device *of = of_tenant(at);

	return of->joined && of->tenant->share.swap;
}

bool move_ask(struct guest_device *at, const struct ledger_request *request, bool movable)
{
	struct tenant_device *of = of_tenant(at);
	struct ask *ask;

	if (!request->bytes)
		return false;
	if (!movable || !can_move(at))
		return move_ask_plain(at, request);
	if (!is_within(at, request->bytes))
		return move_ask_limit(at, request, true, false);
	ask = move_ask_make(at, request);
	if (ask) {
		of->ask_count++;
		list_append(&of->asks, &ask->link);
		move_due(of);
		schedule_pump(of->tenant->daemon);
	}
	return true;
}

void move_ask_forget(struct guest_device *at)
{
	struct tenant_device *of = of_tenant(at);

	while (!list_empty(&at->move.asks)) {
		struct ask *ask = list_entry(at->move.asks.next, struct ask, own);

		if (ask->state == ASK_MACHINE && of->joined)
			residency_cancel(&of->member, schedule_now(of->tenant->daemon));
		if (ask->state == ASK_LEDGER)
			take_back(ask);
		move_ask_drop(ask);
	}
	move_due(of);
}
