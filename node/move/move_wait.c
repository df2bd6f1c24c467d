/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_wait.h"

#include <stdlib.h>

#include "base/least.h"
#include "node/move/move_inside.h"
#include "node/move/move_kept.h"
#include "node/move/move_segment.h"
#include "node/move/move_sync.h"

static const uint64_t ms = 1000000;

/* An ask for a segment that waits. */
struct wait {
	struct list link; /* of the device */
	struct list own;  /* of the guest's device */
	struct guest_device *at;
	uint64_t bytes, since_ns;
	uint32_t id;
};

/* Tells a guest to return what it does not need, up to *bytes. True: it has something to return. */
static bool reclaim_from(struct guest_device *at, uint64_t *bytes)
{
	struct move_guest *m = &at->move;
	uint64_t open = beyond(m->drop, m->dropped);
	uint64_t more = least(beyond(move_surplus(m), open), *bytes);

	if (!m->can || m->stopping || !more)
		return move_told_drop(m) > 0;
	*bytes -= more;
	m->drop += more;
	m->telling = true;
	move_owes(at);
	move_due(of_tenant(at));
	return true;
}

/* Tells others on the device to return what they do not need; false: there is nothing to return. */
static bool reclaim(const struct guest_device *asker, uint64_t bytes)
{
	const struct store_part *part = &part_under(asker)->store;
	bool any = part->leaving_bytes > part->lost_bytes;

	list_for_each(tenants, (struct list *)&device_under(asker)->tenants)
	{
		const struct tenant_device *of = list_entry(tenants, struct tenant_device, link);

		list_for_each(guests, &of->tenant->guests)
		{
			struct guest_device *at =
				&list_entry(guests, struct guest, link)->device[tenant_index(of)];
			uint64_t none = 0;

			any |= reclaim_from(at, at == asker ? &none : &bytes);
		}
	}
	return any;
}

static void drop(struct wait *w)
{
	w->at->move.wait_count--;
	list_remove(&w->link);
	list_remove(&w->own);
	free(w);
}

bool move_wait_for(struct guest_device *at, uint32_t id, uint64_t bytes)
{
	struct daemon *d = at->guest->tenant->daemon;
	struct wait *w;

	if (bytes > part_under(at)->store.budget_bytes ||
	    at->move.wait_count == MOVE_WAITS_OF_GUEST || !reclaim(at, bytes))
		return false;
	w = calloc(1, sizeof(*w));
	if (!w)
		return false;
	*w = (struct wait){.at = at, .id = id, .bytes = bytes, .since_ns = loop_now_ns()};
	at->move.wait_count++;
	list_append(&part_under(at)->waits, &w->link);
	list_append(&at->move.waits, &w->own);
	move_segment_lacks(at, bytes);
	move_check_later(d);
	return true;
}

/* The work that begins then may clear more, and call this again meanwhile. */
void move_waits_serve(struct move_part *part)
{
	if (part->serving)
		return;
	part->serving = true;
	while (!list_empty(&part->waits)) {
		struct wait *w = list_entry(part->waits.next, struct wait, link);
		int r = move_segment_take(w->at, w->id, w->bytes);

		if (r == STORE_BUDGET)
			break;
		if (r != 0)
			move_segment_refuse(w->at, w->id, w->bytes, r);
		drop(w);
	}
	part->serving = false;
}

bool move_waits_end(struct move_part *part, uint64_t now_ns)
{
	list_for_each(link, &part->waits)
	{
		struct wait *w = list_entry(link, struct wait, link);

		if (beyond(now_ns, w->since_ns) >= MOVE_SEGMENT_MS * ms ||
		    !reclaim(w->at, w->bytes)) {
			move_segment_refuse(w->at, w->id, w->bytes, STORE_BUDGET);
			drop(w);
		}
	}
	return !list_empty(&part->waits);
}

void move_waits_lost(struct daemon *d, uint64_t ns)
{
	for (uint32_t i = 0; i < d->devices; i++)
		list_for_each(link, &d->move.part[i].waits) list_entry(link, struct wait, link)
			->since_ns += ns;
}

void move_waits_away(struct guest_device *at)
{
	while (!list_empty(&at->move.waits))
		drop(list_entry(at->move.waits.next, struct wait, own));
}
