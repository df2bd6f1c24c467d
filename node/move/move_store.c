/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests' parts of their tenant's store. An ask that does not fit the budget waits if others have
 * more in the store than they need: they are told to return it.
 */
#include "node/move/move_store.h"

#include <inttypes.h>
#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/move/move_kept.h"
#include "node/move/move_sync.h"
#include "node/move/store.h"
#include "node/move/store_divide.h"
#include "node/move/store_file.h"
#include "node/options.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

static const uint64_t ms = 1000000;

/* An ask for a segment that waits. */
struct wait {
	struct list link; /* of the device */
	struct list own;  /* of the guest's device */
	struct guest_device *at;
	uint64_t bytes, since_ns;
	uint32_t id;
};

/* Memory that could move when it was allocated still can, whatever the share says since: others
 * count on it. */
static bool has_moved(const struct tenant_device *at)
{
	return at->joined && at->member.resident_bytes + at->member.out_bytes;
}

static const char *why_nothing(const struct tenant_device *at)
{
	if (!at->tenant->share.swap && !has_moved(at))
		return "the share has swap=off: its memory does not move";
	if (!at->tenant->daemon->move.stores.budget_bytes)
		return "this meted has no store (--store 0)";
	return at->joined ? NULL : "nothing moves on this device";
}

/* NULL: the guest was told why not. */
static struct guest_device *mover(struct guest *g, uint32_t id, uint32_t device)
{
	const char *reason;

	if (device >= g->tenant->devices) {
		guest_refuse(g, id, WIRE_REFUSED_UNKNOWN, "device %u: this tenant has %u", device,
			     g->tenant->devices);
		return NULL;
	}
	reason = why_nothing(&g->tenant->device[device]);
	if (!reason)
		return &g->device[device];
	guest_refuse(g, id, WIRE_REFUSED_BAD, "%s", reason);
	return NULL;
}

void move_store_ask(struct guest *g, uint32_t id, uint32_t device)
{
	struct wire_message answer = {.code = WIRE_store, .id = id};
	struct guest_device *at = mover(g, id, device);
	struct tenant *t = g->tenant;
	const struct store_owner owner = {t->id, t->owner};
	int r = 0, fd;

	if (!at)
		return;
	if (!t->store)
		r = store_open(&t->daemon->move.stores, t->daemon->move.quota_bytes, &owner,
			       &t->store);
	if (r < 0) {
		guest_refuse(g, id, WIRE_REFUSED_BAD, "there is no store: %s",
			     r == -EBUSY ? "processes of other tenants hold the locks of too many "
					   "tenants' files"
					 : strerror(-r));
		return;
	}
	at->move.can = true;
	answer.store.device = device;
	answer.store.chunk = of_tenant(at)->member.residency->tuning.chunk_bytes;
	fd = store_fd(t->store);
	peer_send_with(&g->caller->peer, &answer, &fd, 1);
	move_due(of_tenant(at));
	schedule_pump(t->daemon);
}

/* ---- segments -------------------------------------------------------------------------------- */

enum { BEYOND_NEED = STORE_BUDGET + 1 };

static void release(struct store_segment *segment)
{
	struct guest_device *at = segment->owner;

	at->move.segment_bytes -= segment->bytes;
	at->move.segment_count--;
	store_give_back(segment);
}

/* A guest stops asking when it is refused, until it hears of MOVE. It is told at the next check, so
 * that many guests that ask in vain do not multiply the cost of each event. */
static void tell_later(struct daemon *d)
{
	if (!list_empty(&d->move.in_want))
		move_check_later(d);
}

static void tell_wanting(struct daemon *d)
{
	list_for_each(link, &d->move.in_want)
	{
		struct guest_device *at = list_entry(link, struct guest_device, move.in_want);

		list_remove(&at->move.in_want);
		at->move.telling = true;
		move_due(of_tenant(at));
	}
}

/* The bytes of the store that a guest can fill, which are its movable bytes, in segments' grain. */
static uint64_t most_segments(const struct move_guest *m)
{
	return (m->here + m->out + STORE_GRAIN - 1) / STORE_GRAIN * STORE_GRAIN;
}

/* Until it has a segment of this size, or asks for another one, it cannot move memory that has no
 * place in the store. */
static void lacks(struct guest_device *at, uint64_t bytes)
{
	at->move.lacks_bytes = bytes;
	move_due(of_tenant(at));
}

static void refuse(struct guest_device *at, uint32_t id, uint64_t bytes, int r)
{
	const struct daemon *d = at->guest->tenant->daemon;
	const struct store_part *part = &part_under(at)->store;

	lacks(at, r == STORE_BUDGET ? bytes : 0);
	at->move.host_error = r < 0 && r != -EBUSY ? r : 0;
	at->move.host_hinders = at->move.host_error && move_open_order(&at->move);
	if (!list_linked(&at->move.in_want))
		list_append(&at->guest->tenant->daemon->move.in_want, &at->move.in_want);
	if (r == BEYOND_NEED)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "this process has %s that can move, %s for it in the store, and asked "
			     "for %s more",
			     text_size(at->move.here + at->move.out, TEXT_DOWN).text,
			     text_size(at->move.segment_bytes, TEXT_UP).text,
			     text_size(bytes, TEXT_UP).text);
	else if (r == STORE_QUOTA)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "this tenant's part of the store, %s, has no place for %s more",
			     text_size(store_quota(at->guest->tenant->store), TEXT_DOWN).text,
			     text_size(bytes, TEXT_UP).text);
	else if (r == STORE_BUDGET)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "the store is full: of %s%s, %s are in use, and %s were asked for",
			     text_size(part->budget_bytes, TEXT_DOWN).text,
			     d->devices > 1 ? " for this device" : "",
			     text_size(part->used_bytes, TEXT_UP).text,
			     text_size(bytes, TEXT_UP).text);
	else if (r == -EBUSY)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "a process of this tenant holds the lock of its file in the store: "
			     "the segment was not prepared within %d s",
			     STORE_LATE_MS / 1000);
	else
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "the host has no memory for %s in the store: %s",
			     text_size(bytes, TEXT_UP).text, strerror(-r));
}

static void on_ready(struct store_segment *segment, int error)
{
	struct guest_device *at = segment->owner;
	struct wire_message answer = {.code = WIRE_segment, .id = segment->id};

	if (error < 0) {
		at->move.segment_bytes -= segment->bytes;
		at->move.segment_count--;
		refuse(at, segment->id, segment->bytes, error);
		return;
	}
	at->move.host_error = 0;
	/* A guest that asked on an earlier connection does not know about it. */
	if (!at->move.can || !at->guest->caller) {
		release(segment);
		return;
	}
	if (of_tenant(at)->joined)
		residency_prepared(&of_tenant(at)->member, segment->bytes,
				   schedule_now(at->guest->tenant->daemon));
	answer.segment.device = index_of(at);
	answer.segment.offset = segment->offset;
	answer.segment.bytes = segment->bytes;
	guest_send(at->guest, &answer);
}

static int take_segment(struct guest_device *at, uint32_t id, uint64_t bytes)
{
	struct store_segment *segment;
	int r;

	/* Its page may say more than it was granted as movable. */
	move_sync(at, false);
	if (bytes > beyond(most_segments(&at->move), at->move.segment_bytes))
		return BEYOND_NEED;
	r = store_take(at->guest->tenant->store, &part_under(at)->store, bytes, on_ready, &segment);
	if (r != 0)
		return r;
	lacks(at, 0);
	segment->owner = at;
	segment->id = id;
	list_append(&at->move.segments, &segment->owned);
	at->move.segment_bytes += segment->bytes;
	at->move.segment_count++;
	return 0;
}

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

static void drop_wait(struct wait *w)
{
	w->at->move.wait_count--;
	list_remove(&w->link);
	list_remove(&w->own);
	free(w);
}

/* False: there is nothing to wait for. */
static bool wait_for(struct guest_device *at, uint32_t id, uint64_t bytes)
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
	lacks(at, bytes);
	move_check_later(d);
	return true;
}

void move_segment_ask(struct guest *g, uint32_t id, const struct wire_segment_ask *said)
{
	struct guest_device *at = mover(g, id, said->device);
	int r;

	if (!at)
		return;
	if (!at->move.can || !g->tenant->store) {
		guest_refuse(g, id, WIRE_REFUSED_BAD, "STORE_ASK comes first");
		return;
	}
	if (!said->bytes || said->bytes > of_tenant(at)->member.residency->tuning.chunk_bytes) {
		guest_refuse(g, id, WIRE_REFUSED_BAD, "%" PRIu64 " bytes are no segment",
			     said->bytes);
		return;
	}
	r = at->move.segment_count < MOVE_SEGMENTS ? take_segment(at, id, said->bytes)
						   : STORE_QUOTA;
	if (r != 0 && !(r == STORE_BUDGET && wait_for(at, id, said->bytes)))
		refuse(at, id, said->bytes, r);
	schedule_pump(g->tenant->daemon);
}

/* The first in a device's line gets the cleared room. The work that begins then may clear more, and
 * call this again meanwhile. */
static void serve(struct move_part *part)
{
	if (part->serving)
		return;
	part->serving = true;
	while (!list_empty(&part->waits)) {
		struct wait *w = list_entry(part->waits.next, struct wait, link);
		int r = take_segment(w->at, w->id, w->bytes);

		if (r == STORE_BUDGET)
			break;
		if (r != 0)
			refuse(w->at, w->id, w->bytes, r);
		drop_wait(w);
	}
	part->serving = false;
}

/* ---- devices' parts -------------------------------------------------------------------------- */

static void set_part(struct daemon *d, uint32_t index, uint64_t bytes)
{
	struct store_part *part = &d->move.part[index].store;

	if (part->budget_bytes == bytes)
		return;
	part->budget_bytes = bytes;
	if (!d->device[index].members)
		return;
	list_for_each(link, &d->device[index].tenants)
	{
		struct tenant_device *at = list_entry(link, struct tenant_device, link);

		if (at->joined)
			residency_quota(&at->member, move_quota(d, index), schedule_now(d));
	}
}

void move_divided(struct daemon *d)
{
	struct store_use uses[DAEMON_DEVICES] = {{0}};
	uint64_t each;

	for (uint32_t i = 0; i < d->devices; i++)
		uses[i] = (struct store_use){.bytes = d->move.part[i].store.used_bytes,
					     .here = !d->device[i].info->gone};
	each = store_divide(d->move.stores.budget_bytes, uses, d->devices);
	for (uint32_t i = 0; i < d->devices; i++)
		set_part(d, i, uses[i].here ? each : 0);
}

/* A device that used more than its part may use less now. */
static void on_cleared(struct stores *stores)
{
	struct daemon *d = container_of(stores, struct daemon, move.stores);

	move_divided(d);
	for (uint32_t i = 0; i < d->devices; i++)
		serve(&d->move.part[i]);
	tell_later(d);
	schedule_pump(d);
}

/* Refuses asks that have waited for long enough, or in vain. True: others still wait. */
static bool end_waits(struct move_part *part, uint64_t now_ns)
{
	list_for_each(link, &part->waits)
	{
		struct wait *w = list_entry(link, struct wait, link);

		if (beyond(now_ns, w->since_ns) >= MOVE_SEGMENT_MS * ms ||
		    !reclaim(w->at, w->bytes)) {
			refuse(w->at, w->id, w->bytes, STORE_BUDGET);
			drop_wait(w);
		}
	}
	return !list_empty(&part->waits);
}

void move_segments_lost(struct daemon *d, uint64_t ns)
{
	for (uint32_t i = 0; i < d->devices; i++)
		list_for_each(link, &d->move.part[i].waits) list_entry(link, struct wait, link)
			->since_ns += ns;
}

void move_segments_late(struct daemon *d, uint64_t now_ns)
{
	bool any = false;

	for (uint32_t i = 0; i < d->devices; i++)
		any |= end_waits(&d->move.part[i], now_ns);
	tell_wanting(d);
	move_count_kept(d, now_ns);
	if (any)
		move_check_later(d);
}

void move_segment_return(struct guest *g, uint32_t id, const struct wire_segment_return *said)
{
	struct guest_device *at = mover(g, id, said->device);

	if (!at)
		return;
	list_for_each(link, &at->move.segments)
	{
		struct store_segment *segment = list_entry(link, struct store_segment, owned);

		if (segment->offset != said->offset || said->bytes > segment->bytes ||
		    !segment->prepared)
			continue;
		at->move.given_bytes += segment->bytes;
		release(segment);
		move_gave(at, said->bytes);
		move_sync(at, false);
		guest_done(g, id, 0);
		tell_later(g->tenant->daemon);
		schedule_pump(g->tenant->daemon);
		return;
	}
	guest_refuse(g, id, WIRE_REFUSED_UNKNOWN, "this process has no such segment");
}

void move_segments_forget(struct guest_device *at)
{
	lacks(at, 0);
	at->move.host_error = 0;
	list_remove(&at->move.in_want);
	move_segments_away(at);
	while (!list_empty(&at->move.segments))
		release(list_entry(at->move.segments.next, struct store_segment, owned));
}

static struct store_segment *first_unprepared(const struct move_guest *m)
{
	list_for_each(link, (struct list *)&m->segments)
	{
		struct store_segment *segment = list_entry(link, struct store_segment, owned);

		if (!segment->prepared)
			return segment;
	}
	return NULL;
}

void move_segments_away(struct guest_device *at)
{
	struct store_segment *segment;

	while (!list_empty(&at->move.waits))
		drop_wait(list_entry(at->move.waits.next, struct wait, own));
	while ((segment = first_unprepared(&at->move)))
		release(segment);
}

int move_store_open(struct daemon *d)
{
	uint64_t budget = d->options.store_bytes;
	int r;

	if (budget == OPTIONS_UNSAID)
		budget = store_file_available() / 2;
	for (uint32_t i = 0; i < d->places; i++)
		list_init(&d->move.part[i].waits);
	list_init(&d->move.in_want);
	r = stores_init(&d->move.stores, &d->loop, budget, STORE_LATE_MS * ms, on_cleared);
	if (r < 0)
		return r;
	move_divided(d);
	d->move.quota_bytes = d->options.quota_bytes < budget ? d->options.quota_bytes : budget;
	log_info("store.budget", "budget_bytes=%" PRIu64 " quota_bytes=%" PRIu64, budget,
		 d->move.quota_bytes);
	return 0;
}
