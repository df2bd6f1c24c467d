/* SPDX-License-Identifier: Apache-2.0 */
/* What guests say of their tenant's store, and devices' parts of it. An ask that does not fit the
 * budget waits if others have more in the store than they need (node/move/move_wait.h). */
#include "node/move/move_store.h"

#include <inttypes.h>
#include <string.h>

#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/move/move_kept.h"
#include "node/move/move_segment.h"
#include "node/move/move_sync.h"
#include "node/move/move_wait.h"
#include "node/move/store.h"
#include "node/move/store_divide.h"
#include "node/move/store_file.h"
#include "node/options.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

static const uint64_t ms = 1000000;

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
	r = at->move.segment_count < MOVE_SEGMENTS ? move_segment_take(at, id, said->bytes)
						   : STORE_QUOTA;
	if (r != 0 && !(r == STORE_BUDGET && move_wait_for(at, id, said->bytes)))
		move_segment_refuse(at, id, said->bytes, r);
	schedule_pump(g->tenant->daemon);
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
		move_waits_serve(&d->move.part[i]);
	tell_later(d);
	schedule_pump(d);
}

void move_segments_late(struct daemon *d, uint64_t now_ns)
{
	bool any = false;

	for (uint32_t i = 0; i < d->devices; i++)
		any |= move_waits_end(&d->move.part[i], now_ns);
	tell_wanting(d);
	move_count_kept(d, now_ns);
	if (any)
		move_check_later(d);
}

/* What is not prepared yet is the answer to an ask that comes later. */
static uint64_t release_within(struct move_guest *m, const struct wire_segment_return *said)
{
	uint64_t bytes = 0;

	list_for_each(link, &m->segments)
	{
		struct store_segment *segment = list_entry(link, struct store_segment, owned);

		if (segment->offset < said->offset ||
		    segment->offset - said->offset >= said->bytes || !segment->prepared)
			continue;
		bytes += segment->bytes;
		move_segment_release(segment);
	}
	return bytes;
}

void move_segment_return(struct guest *g, uint32_t id, const struct wire_segment_return *said)
{
	struct guest_device *at = mover(g, id, said->device);
	uint64_t bytes;

	if (!at)
		return;
	bytes = release_within(&at->move, said);
	if (!bytes) {
		guest_refuse(g, id, WIRE_REFUSED_UNKNOWN, "this process has no such segment");
		return;
	}
	at->move.given_bytes += bytes;
	move_gave(at, bytes);
	move_sync(at, false);
	guest_done(g, id, bytes);
	tell_later(g->tenant->daemon);
	schedule_pump(g->tenant->daemon);
}

void move_segments_forget(struct guest_device *at)
{
	move_segment_lacks(at, 0);
	at->move.host_error = 0;
	list_remove(&at->move.in_want);
	move_segments_away(at);
	while (!list_empty(&at->move.segments))
		move_segment_release(
			list_entry(at->move.segments.next, struct store_segment, owned));
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

	move_waits_away(at);
	while ((segment = first_unprepared(&at->move)))
		move_segment_release(segment);
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
