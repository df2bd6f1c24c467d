/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/admin_events.h"

#include "node/events.h"
#include "node/peers/admin_types.h"
#include "node/peers/peer.h"
#include "node/upcalls.h"

/* A number that we have not given out is of a meted whose events are lost. */
static const struct event *next(const struct admin *a, uint64_t after)
{
	return events_after(a->daemon, after <= a->daemon->events.last ? after : 0);
}

/* Nothing is measured for it: it is answered at once. */
static void tell(struct admin *a, uint32_t id, uint64_t after)
{
	struct wire_message row, end = {.code = WIRE_end, .id = id};
	const struct event *event;

	for (; (event = next(a, after)) != NULL; after = event->number) {
		wire_begin(&row, WIRE_event_row, id);
		events_row(event, &row.event_row);
		peer_send(&a->peer, &row);
		end.end.rows++;
	}
	peer_send(&a->peer, &end);
}

void admin_stop_awaiting(struct admin *a)
{
	a->daemon->events.awaited -= a->awaiting;
	a->awaiting = false;
}

static void answer(struct admin *a)
{
	admin_stop_awaiting(a);
	tell(a, a->await_id, a->await_after);
}

/* Who asks again while he waits lets go of the first request, so that one connection waits for one
 * thing: it is how the CLI tests a long connection. */
static void await(struct admin *a, uint32_t id, uint64_t after)
{
	if (a->awaiting)
		answer(a);
	a->awaiting = true;
	a->await_id = id;
	a->await_after = after;
	a->daemon->events.awaited++;
	if (next(a, after))
		answer(a);
}

bool admin_events_asked(struct admin *a, const struct wire_message *m)
{
	if (m->code == WIRE_events_ask)
		tell(a, m->id, m->events_ask.after);
	else if (m->code == WIRE_events_await)
		await(a, m->id, m->events_await.after);
	else
		return false;
	return true;
}

void admin_events_happened(struct daemon *d)
{
	list_for_each(link, &d->admins.all)
	{
		struct admin *a = list_entry(link, struct admin, link);

		if (a->awaiting)
			answer(a);
	}
}
