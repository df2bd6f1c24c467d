/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/admin_events.h"

#include "node/events.h"
#include "node/peers/admin_types.h"
#include "node/peers/peer.h"

/* Nothing is measured for it: it is answered at once. */
void admin_events(struct admin *a, uint32_t id, const struct wire_events_ask *said)
{
	struct wire_message row, end = {.code = WIRE_end, .id = id};
	uint64_t after = said->after;
	const struct event *event;

	for (; (event = events_after(a->daemon, after)) != NULL; after = event->number) {
		wire_begin(&row, WIRE_event_row, id);
		events_row(event, &row.event_row);
		peer_send(&a->peer, &row);
		end.end.rows++;
	}
	peer_send(&a->peer, &end);
}
