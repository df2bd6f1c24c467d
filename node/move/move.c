/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move.h"

#include <inttypes.h>
#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "node/daemon.h"
#include "node/events.h"
#include "node/memory/book.h"
#include "node/move/move_ask.h"
#include "node/move/move_behind.h"
#include "node/move/move_inside.h"
#include "node/move/move_order.h"
#include "node/move/move_plain.h"
#include "node/move/move_store.h"
#include "node/move/move_suspend.h"
#include "node/move/move_sync.h"
#include "node/move/move_unserved.h"
#include "node/move/move_unsettled.h"
#include "node/move/store.h"
#include "node/time/hang.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

/* ---- the machines ---------------------------------------------------------------------------- */

/* Something waits, and perhaps no event will end that. */
static void on_timer(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, move.timer);

	lost_look(d);
	d->move.check_ns = 0;
	move_count_unserved(d, schedule_now(d));
	move_ask_late(d, schedule_now(d));
	move_segments_late(d, loop_now_ns());
	move_check_behind(d);
	schedule_pump(d);
}

static struct residency_tuning tuning_of(const struct daemon *d)
{
	struct residency_tuning tuning = residency_usual;

	tuning.cost_milli = d->options.movement_milli;
	tuning.run_ns = d->options.park_after_ns;
	tuning.delay_ns = d->options.park_delay_ns;
	tuning.chunk_bytes = d->options.block_bytes;
	tuning.window_bytes =
		residency_usual.window_bytes / residency_usual.chunk_bytes * tuning.chunk_bytes;
	return tuning;
}

/* The part of the store that a device may have while it is here; it is the same for each. */
static uint64_t part_now(const struct daemon *d)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < d->devices; i++)
		bytes = most(bytes, d->move.part[i].store.budget_bytes);
	return bytes;
}

bool move_why_never(const struct daemon *d, struct fault *ret_why)
{
	uint64_t each = d->present ? d->move.stores.budget_bytes / d->present : 0;
	const struct residency_tuning tuning = tuning_of(d);
	uint64_t spare = residency_spare(&tuning), now = part_now(d);

	if (!d->move.stores.budget_bytes)
		best_effort(fault_set(ret_why, -ENOSPC,
				      "this meted has no store (--store 0): nothing moves"));
	else if (each <= spare)
		best_effort(fault_set(ret_why, -ENOSPC,
				      "meted's store is too small for anything to move: it has %s "
				      "for each device, and needs more than %s (--store)",
				      text_size(each, TEXT_DOWN).text,
				      text_size(spare, TEXT_UP).text));
	else if (now <= spare)
		best_effort(
			fault_set(ret_why, -ENOSPC,
				  "nothing moves for now: the store has %s for each device, "
				  "and needs more than %s, until memory that left before GPUs were "
				  "divided is back",
				  text_size(now, TEXT_DOWN).text, text_size(spare, TEXT_UP).text));
	return each <= spare || now <= spare;
}

int move_open(struct daemon *d)
{
	const struct residency_tuning tuning = tuning_of(d);
	struct fault never;
	int r = move_store_open(d);

	if (r < 0)
		return r;
	list_init(&d->move.due);
	list_init(&d->move.suspending);
	for (uint32_t i = 0; i < d->places; i++) {
		list_init(&d->device[i].plain);
		residency_init(&d->device[i].residency, &tuning, 0,
			       d->move.part[i].store.budget_bytes);
	}
	/* On a node whose parts are yet to be made there is nothing to divide the store among. */
	if (d->present && d->move.stores.budget_bytes && move_why_never(d, &never))
		log_warning("store.small", "reason=%s", log_text(never.text).text);
	return loop_timer_init(&d->loop, &d->move.timer, on_timer);
}

void move_parking(struct daemon *d, uint64_t run_ns, uint64_t delay_ns)
{
	for (uint32_t i = 0; i < d->places; i++)
		residency_yielding(&d->device[i].residency, run_ns, delay_ns);
}

void move_close(struct daemon *d)
{
	loop_timer_close(&d->move.timer, NULL);
}

/* Only class batch yields. */
static bool has_batch(const struct residency *r)
{
	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m =
			list_entry(link, struct residency_member, of_device);

		if (m->seat->tenant->share.class == SHARE_BATCH)
			return true;
	}
	return false;
}

/* A tenant within another one is a part of that one's account. */
uint64_t move_above(const struct daemon *d, uint32_t index)
{
	const struct device *device = &d->device[index];
	uint64_t bytes = move_plain_above(device);

	if (!has_batch(&device->residency))
		return 0;
	list_for_each(link, (struct list *)&device->tenants)
	{
		const struct tenant_device *at = list_entry(link, struct tenant_device, link);
		struct ledger_sums has;

		if (at->tenant->outer || at->tenant->share.class == SHARE_BATCH)
			continue;
		ledger_account_sums(at->account, &has);
		bytes += beyond(has.booked,
				at->joined ? at->member.resident_bytes + at->member.credit_bytes
					   : 0);
	}
	return bytes;
}

bool move_show_capacity(struct daemon *d, uint32_t index, uint64_t now)
{
	struct residency *r = &d->device[index].residency;
	uint64_t capacity = move_capacity(d, index);

	if (capacity == r->capacity_bytes)
		return false;
	residency_capacity(r, capacity, now);
	move_settled(&d->device[index]);
	move_recall_if_short(d, index);
	return true;
}

static void log_of(const struct tenant_device *at, const char *event, uint64_t bytes)
{
	log_warning(event, "tenant=%u name=%s device=%u bytes=%" PRIu64, at->tenant->id,
		    log_text(at->tenant->name).text, at->index, bytes);
}

/* Others do without its room, whoever is to blame. Nobody is killed for the host's want of memory.
 */
static void on_stuck(struct tenant_device *at, uint64_t bytes)
{
	int no_host;

	move_blame(at);
	no_host = move_host_error(at);
	if (no_host == 0) {
		log_of(at, "tenant.stuck", bytes);
		waits_look(at);
		hang_stuck(at);
	} else {
		log_warning("tenant.unhoused",
			    "tenant=%u name=%s device=%u bytes=%" PRIu64
			    " reason=\"the host has no memory for what is to leave: %s\"",
			    at->tenant->id, log_text(at->tenant->name).text, at->index, bytes,
			    strerror(-no_host));
	}
	move_check_later(at->tenant->daemon);
}

/* Where tenants take turns with their memory, it comes again and again. */
static const uint64_t returned_again_ns = 60ull * 1000000000;

static void tell_returned(struct tenant_device *at, uint64_t bytes)
{
	uint64_t now = loop_now_ns();

	if (!bytes || (at->returned_ns && now - at->returned_ns < returned_again_ns))
		return;
	at->returned_ns = now;
	events_at(at, HAPPENED_RETURNED, "%s of its memory came back to the device",
		  text_bytes(bytes).text);
}

static void act(const struct residency_action *action)
{
	struct tenant_device *at = action->member->owner;

	switch (action->verb) {
	case RESIDENCY_EVICT:
	case RESIDENCY_CREDIT:
	case RESIDENCY_DROP:
	case RESIDENCY_STOP:
		/* The machine knows what is outstanding. It is compared with what the guests were
		 * told, because a guest may have ended in between. */
		move_due(at);
		move_check_later(at->tenant->daemon);
		break;
	case RESIDENCY_GRANT:
		move_granted(at);
		break;
	case RESIDENCY_ADMITTED:
		log_debug("tenant.resident", "tenant=%u device=%u came_bytes=%" PRIu64,
			  at->tenant->id, at->index, action->bytes);
		tell_returned(at, action->bytes);
		break;
	case RESIDENCY_STUCK:
		on_stuck(at, action->bytes);
		break;
	}
}

/* A tenant that is alone need not report idleness, unless it is to be parked then. */
static void listen_anew(struct device *device, uint64_t now)
{
	device->relisten = false;
	list_for_each(link, &device->tenants)
	{
		struct tenant_device *at = list_entry(link, struct tenant_device, link);

		if (at->seated)
			schedule_listen(at, now);
	}
}

/* Cleared parts of the store may be reserved again. */
static void tell_cleared(struct daemon *d, uint32_t index, uint64_t now)
{
	struct device *device = &d->device[index];
	const struct store_part *part = &d->move.part[index].store;

	if (device->uncleared_bytes && part->leaving_bytes == part->lost_bytes)
		residency_cleared(&device->residency, take_bytes(&device->uncleared_bytes), now);
}

/* Who suspended it, so that others have the device, hears that its memory is there still. */
static void tell_unhoused(struct tenant_device *at)
{
	uint64_t bytes = at->joined ? at->member.resident_bytes : 0;

	if (!bytes || !at->tenant->suspended || residency_is_housed(&at->member))
		return;
	log_of(at, "tenant.suspended_here", bytes);
	events_at(at, HAPPENED_SUSPENDED,
		  "it is suspended still, and the store has no room for all of its memory: %s stay "
		  "on "
		  "the device until it has",
		  text_bytes(bytes).text);
}

/* The last guest that was expected has stated what it holds, or is not waited for any more: asks
 * that waited are judged. */
static void see_expected(struct daemon *d, uint32_t index)
{
	struct device *device = &d->device[index];
	const bool before = device->expecting;

	device->expecting = move_is_expecting(d, index);
	if (!before || device->expecting)
		return;
	list_for_each(link, &device->tenants)
	{
		struct tenant_device *at = list_entry(link, struct tenant_device, link);

		move_due(at);
		tell_unhoused(at);
	}
	move_plain_all_stated(device);
}

static bool step(struct daemon *d, uint32_t index, uint64_t now)
{
	struct device *device = &d->device[index];
	struct residency_action action;
	bool done = false;

	if (device->relisten)
		listen_anew(device, now);
	see_expected(d, index);
	if ((!device->members && !device->plain_bytes) || device->expecting)
		return false;
	tell_cleared(d, index, now);
	residency_budget(&device->residency, move_budget(d, index), now);
	residency_above(&device->residency, move_above(d, index));
	done = move_show_capacity(d, index, now);
	while (residency_next(&device->residency, now, &action)) {
		act(&action);
		done = true;
	}
	if (device->residency.yielding)
		move_check_later(d);
	return move_plain(d, index) || done;
}

bool move_step(struct daemon *d, uint64_t now)
{
	bool done = false;

	for (uint32_t i = 0; i < d->devices; i++)
		done |= step(d, i, now);
	done |= move_orders(d, now);
	return move_suspend_look(d) || done;
}

void move_book_changed(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		if (!d->device[i].members && !d->device[i].plain_bytes)
			continue;
		schedule_pump(d);
		return;
	}
}

void move_tick(struct daemon *d, uint64_t now)
{
	if (move_deadline(d) <= now)
		move_count_unserved(d, now);
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->device[i].members)
			residency_tick(&d->device[i].residency, now);
}

uint64_t move_deadline(const struct daemon *d)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < d->devices; i++) {
		uint64_t at = residency_deadline(&d->device[i].residency);

		if (d->device[i].members && at < first)
			first = at;
	}
	return first;
}

/* ---- members --------------------------------------------------------------------------------- */

static void join(struct tenant_device *at, uint64_t now)
{
	struct device *device = move_device(at);
	const struct daemon *d = at->tenant->daemon;

	/* While the device had no members, the machine was told of no change. */
	residency_budget(&device->residency, move_budget(d, at->index), now);
	residency_join(&device->residency, &at->member, &at->seat, at, move_quota(d, at->index),
		       now);
	at->joined = true;
	device->members++;
	device->relisten = true;
	residency_park(&at->member, at->tenant->share.park_ns, now);
	if (at->tenant->suspended)
		residency_still_suspended(&at->member, now);
	/* It may have said before that it wants to run. */
	move_wants(at, schedule_is_busy(at), now);
}

void move_sit(struct tenant_device *at, uint64_t now)
{
	/* What a person has suspended stays so, though its share or this meted's store is another
	 * one since. */
	if (at->tenant->suspended ||
	    (at->tenant->share.swap && at->tenant->daemon->move.stores.budget_bytes))
		join(at, now);
	move_device(at)->relisten = true;
}

void move_takes_part(struct tenant_device *at, uint64_t now)
{
	if (at->joined || !at->seated || !at->tenant->daemon->move.stores.budget_bytes)
		return;
	join(at, now);
}

void move_stand_up(struct tenant_device *at, uint64_t now)
{
	struct device *device = move_device(at);

	device->relisten = true;
	if (!at->joined)
		return;
	device->uncleared_bytes += residency_leave(&at->member, now);
	device->members--;
	at->joined = false;
	list_remove(&at->move_due);
	/* If it comes back, it begins with what the ledger has: nothing. */
	memset(&at->member, 0, sizeof(at->member));
}

void move_set(struct tenant *t)
{
	uint64_t now = schedule_now(t->daemon);

	for (uint32_t i = 0; i < t->devices; i++) {
		struct tenant_device *at = &t->device[i];

		if (!at->seated)
			continue;
		/* A tenant that no longer swaps stays a member while it has memory that moved. */
		if (!at->joined)
			move_sit(at, now);
		else
			residency_park(&at->member, t->share.park_ns, now);
		move_device(at)->relisten = true;
	}
}

void move_wants(struct tenant_device *at, bool wants, uint64_t now)
{
	if (!at->joined || at->member.wants == wants)
		return;
	if (wants)
		residency_wants(&at->member, now);
	else
		residency_idle(&at->member, now);
}

/* ---- figures ------------------------------------------------------------------------------ */

static void add_guest(const struct guest *g, uint32_t device, bool stuck,
		      struct wire_tenant_row *row)
{
	const struct wire_own_movable *own = &g->own->movable[device];
	const struct move_guest *m = &g->device[device].move;

	row->movable += m->here;
	row->out += m->out;
	row->stored += m->segment_bytes;
	row->saved += m->saved + m->left - m->copied;
	row->unmovable |= (uint32_t)__atomic_load_n(&own->why, __ATOMIC_RELAXED) &
			  ~(uint32_t)WIRE_UNMOVABLE_DAEMONS;
	if (m->host_error && (move_open_order(m) || stuck))
		row->unmovable |= WIRE_UNMOVABLE_HOST;
	row->oversize += __atomic_load_n(&g->own->oversize_bytes[device], __ATOMIC_RELAXED);
}

void move_row(const struct tenant_device *at, struct wire_tenant_row *ret_row)
{
	ret_row->suspended = at->tenant->suspended;
	list_for_each(link, (struct list *)&at->tenant->guests)
		add_guest(list_entry(link, struct guest, link), tenant_index(at),
			  at->joined && at->member.stuck, ret_row);
	/* With swap=off nobody expects memory to move. */
	if (!at->tenant->share.swap)
		ret_row->unmovable &= ~(uint32_t)WIRE_UNMOVABLE_ALL;
	else if (!at->tenant->daemon->move.stores.budget_bytes)
		ret_row->unmovable |= WIRE_UNMOVABLE_STORE;
	ret_row->refusals += at->move_refused;
	if (!at->joined)
		return;
	ret_row->moved_out = at->member.left_bytes;
	ret_row->moved_in = at->member.came_bytes;
	ret_row->stuck = at->member.stuck;
	ret_row->kept = at->member.kept_bytes;
	ret_row->behind = move_behind(at);
	ret_row->parked = at->member.parked;
	if (at->member.place != RESIDENCY_IN)
		ret_row->swapped = at->member.wants ? WIRE_SWAPPED_WAITS : WIRE_SWAPPED_IDLE;
}
