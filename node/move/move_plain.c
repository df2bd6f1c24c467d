/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for unmovable memory: contexts, arrays, tenants that do not swap. The ledger handles them,
 * with two exceptions. If it has no room, but movable memory is in the way, the ask waits here, and
 * the machine's capacity is reduced by as much meanwhile. An ask is refused if afterwards a tenant
 * that moves could never come back whole. If that is only due to figures that may be about to
 * change (as in node/move/move_ask.c), it waits for that change.
 */
#include "node/move/move_plain.h"

#include "base/text.h"
#include "node/daemon.h"
#include "node/memory/ask.h"
#include "node/memory/measure.h"
#include "node/move/ask_types.h"
#include "node/move/move_ask.h"
#include "node/move/move_inside.h"
#include "node/move/move_unsettled.h"
#include "node/tenants/guest_send.h"
#include "node/upcalls.h"

static const uint64_t ms = 1000000;

/* With `bytes` less room for movable memory, and `more` added: could each tenant still come back
 * whole? A tenant of class batch may have to wait until the asker ends, if the asker is of a higher
 * class. */
static bool is_bearable(const struct guest_device *at, uint64_t bytes, uint64_t more)
{
	const struct daemon *d = at->guest->tenant->daemon;
	uint32_t index = of_tenant(at)->index;
	uint64_t capacity = move_capacity(d, index) + more, above = move_above(d, index);

	if (at->guest->tenant->share.class < SHARE_BATCH)
		above += bytes;
	return residency_bears(&device_under(at)->residency, beyond(capacity, bytes), above);
}

static void refuse_plain(const struct guest_device *at, const struct ledger_request *request)
{
	uint64_t capacity = move_capacity(at->guest->tenant->daemon, of_tenant(at)->index);
	uint64_t largest = 0;
	char asked[32], left[32];

	list_for_each(link, &device_under(at)->residency.members)
	{
		const struct residency_member *m =
			list_entry(link, struct residency_member, of_device);

		largest = most(largest, m->resident_bytes + m->out_bytes + m->asked_bytes);
	}
	of_tenant(at)->move_refused++;
	snprintf(asked, sizeof(asked), "%s", text_size(request->bytes, TEXT_UP).text);
	snprintf(left, sizeof(left), "%s",
		 text_size(beyond(capacity, request->bytes), TEXT_DOWN).text);
	guest_refuse_memory(
		at->guest, tenant_index(of_tenant(at)), (uint32_t)request->id, WIRE_REFUSED_FULL,
		"cannot allocate %s of unmovable memory: %s would be left for movable memory, of "
		"which a tenant has %s, and it could not come back",
		asked, left, text_size(largest, TEXT_UP).text);
}

uint64_t move_plain_above(const struct device *device)
{
	uint64_t bytes = 0;

	list_for_each(link, (struct list *)&device->plain)
	{
		const struct ask *ask = list_entry(link, struct ask, link);

		if (ask_keeps_room(ask) && ask->at->guest->tenant->share.class < SHARE_BATCH)
			bytes += ask->request.bytes;
	}
	return bytes;
}

static void make_room(struct ask *ask)
{
	ask->state = ASK_PLAIN;
	device_under(ask->at)->plain_bytes += ask->request.bytes;
}

static void doubt(struct ask *ask)
{
	if (ask->state == ASK_PLAIN)
		device_under(ask->at)->plain_bytes -= ask->request.bytes;
	ask->state = ASK_DOUBTED;
}

/* The first that room is made for. */
static struct ask *first_plain(struct device *device)
{
	list_for_each(link, &device->plain)
	{
		struct ask *ask = list_entry(link, struct ask, link);

		if (ask->state == ASK_PLAIN)
			return ask;
	}
	return NULL;
}

/* The ledger may not answer at once: a measurement may be owed to the tenant. Until it does the
 * room stays reserved, or memory that has just left would come back into it. */
static void pass(struct ask *ask)
{
	struct ledger_request request = ask->request;

	request.may_wait = 0;
	ask->state = ASK_PASSED;
	/* The ask may be answered and freed when this returns. */
	if (!ask_ledger(ask->at, &request))
		move_ask_drop(ask);
}

bool move_plain(struct daemon *d, uint32_t device)
{
	struct ask *ask;
	bool done = false;

	while ((ask = first_plain(&d->device[device]))) {
		const struct guest_device *at = ask->at;

		if (!is_bearable(at, 0, 0)) {
			doubt(ask);
			continue;
		}
		if (!ledger_fits(d->book.ledger, at->holder, ask->request.bytes))
			break;
		done = true;
		pass(ask);
	}
	return done;
}

bool move_plain_answered(struct ask *ask, const struct ledger_action *action)
{
	if (action->verb == LEDGER_REFUSE && action->reason != LEDGER_OVER) {
		/* Somebody else was faster. */
		ask->state = ASK_PLAIN;
		move_check_later(ask->at->guest->tenant->daemon);
		return true;
	}
	move_ask_drop(ask);
	return false;
}

/* Answers the ask if that is due. */
static bool end_wait(struct ask *ask, uint64_t now_ns)
{
	struct guest_device *at = ask->at;
	struct ledger_request request = ask->request;
	bool late = ask_age(ask, now_ns) >= MOVE_PLAIN_MS * ms;
	bool doubted = ask->state == ASK_DOUBTED;

	if (ask->state == ASK_PASSED)
		return false;
	if (doubted && is_bearable(at, request.bytes, 0)) {
		make_room(ask);
		doubted = false;
	}
	if (!late && (!doubted || is_bearable(at, request.bytes, move_unsettled(device_under(at)))))
		return false;
	move_ask_drop(ask);
	if (doubted)
		refuse_plain(at, &request);
	else
		best_effort(ask_ledger(at, &request));
	return true;
}

bool move_end_plain(struct device *device, uint64_t now_ns)
{
	list_for_each(link, &device->plain)
	{
		if (end_wait(list_entry(link, struct ask, link), now_ns))
			return true;
	}
	return false;
}

static void line_up(struct ask *ask)
{
	struct guest_device *at = ask->at;

	ask->request.want = ask->request.bytes;
	list_append(&device_under(at)->plain, &ask->link);
	if (is_bearable(at, ask->request.bytes, 0))
		make_room(ask);
	else
		doubt(ask);
}

bool move_plain_again(struct ask *ask)
{
	const struct device *device = device_under(ask->at);

	if (!residency_could_leave(&device->residency, device->plain_bytes + ask->request.bytes)) {
		move_ask_drop(ask);
		return false;
	}
	of_tenant(ask->at)->ask_count--; /* of those for movable memory */
	line_up(ask);
	move_check_later(ask->at->guest->tenant->daemon);
	return true;
}

static void wait_for_room(struct guest_device *at, const struct ledger_request *request)
{
	struct ask *ask = move_ask_make(at, request);

	if (!ask)
		return;
	line_up(ask);
	waits_look(of_tenant(at));
	move_check_later(at->guest->tenant->daemon);
	schedule_pump(at->guest->tenant->daemon);
}

bool move_ask_plain(struct guest_device *at, const struct ledger_request *request)
{
	struct device *device = device_under(at);
	struct ledger_request exact = *request;
	uint64_t bytes = request->bytes;
	bool fits = ledger_fits(at->guest->tenant->daemon->book.ledger, at->holder, bytes);
	bool expects;

	if (!device->members)
		return false;
	/* Until all have stated what they hold, the ledger has it; then room may be made for it. */
	expects = !fits && move_is_expecting(at->guest->tenant->daemon, of_tenant(at)->index);
	if (bytes > ledger_account_room(of_tenant(at)->account) || expects)
		return move_ask_limit(at, request, false, expects);
	if (!fits && !(request->may_wait &&
		       residency_could_leave(&device->residency, device->plain_bytes + bytes)))
		return false;
	if (!is_bearable(at, bytes, 0)) {
		if (!request->may_wait || !is_bearable(at, bytes, move_unsettled(device))) {
			refuse_plain(at, request);
			return true;
		}
		measure_asker(at, bytes);
		fits = false;
	}
	if (!fits) {
		wait_for_room(at, request);
		return true;
	}
	if (is_bearable(at, most(bytes, request->want), 0))
		return false;
	exact.want = bytes;
	best_effort(ask_ledger(at, &exact));
	return true;
}

static struct ask *first_that_expects(struct device *device)
{
	list_for_each(seats, &device->tenants)
	{
		struct tenant_device *of = list_entry(seats, struct tenant_device, link);
		uint32_t i = tenant_index(of);

		list_for_each(guest, &of->tenant->guests)
		{
			struct guest *g = list_entry(guest, struct guest, link);

			list_for_each(link, &g->device[i].move.asks)
			{
				struct ask *ask = list_entry(link, struct ask, own);

				if (ask->state == ASK_LIMIT && ask->expects)
					return ask;
			}
		}
	}
	return NULL;
}

void move_plain_all_stated(struct device *device)
{
	struct ask *ask;

	while ((ask = first_that_expects(device))) {
		struct guest_device *at = ask->at;
		struct ledger_request request = ask->request;

		ledger_cancel(at->guest->tenant->daemon->book.ledger, at->holder, request.id);
		move_ask_drop(ask);
		if (!move_ask_plain(at, &request))
			best_effort(ask_ledger(at, &request));
	}
}
