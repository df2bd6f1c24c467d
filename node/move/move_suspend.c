/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_suspend.h"

#include <errno.h>

#include "base/text.h"
#include "node/events.h"
#include "node/memory/book.h"
#include "node/move/move.h"
#include "node/move/move_inside.h"
#include "node/move/move_unsettled.h"
#include "node/peers/peer.h"
#include "node/state/recorder.h"
#include "node/tenants/tenant_show.h"
#include "node/time/schedule.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

static void bring_back(struct tenant *t, uint32_t devices, uint64_t now)
{
	for (uint32_t i = 0; i < devices; i++)
		if (t->device[i].joined)
			best_effort(residency_suspend(&t->device[i].member, false, NULL, now));
}

/* Memory that stays was most often allocated while the share had swap=off. */
static struct move_sent sum_sent(struct tenant *t)
{
	struct move_sent sum = {0};

	list_for_each(link, &t->guests) book_refresh_guest(list_entry(link, struct guest, link));
	for (uint32_t i = 0; i < t->devices; i++) {
		const struct tenant_device *at = &t->device[i];
		uint64_t here = at->joined ? at->member.resident_bytes : 0;
		struct ledger_sums has;

		ledger_account_sums(at->account, &has);
		sum.stays_bytes += beyond(has.allocated, has.evicted + here);
		sum.moves_bytes += least(has.allocated, has.evicted + here);
		sum.leaving_bytes += least(beyond(has.allocated, has.evicted), here);
	}
	return sum;
}

/* This memory may come back from now on, once its programs want it: in the store, or on its way
 * there when it was called back. */
static struct move_sent sum_stored(struct tenant *t)
{
	struct move_sent sum = {0};

	for (uint32_t i = 0; i < t->devices; i++) {
		const struct tenant_device *at = &t->device[i];
		struct ledger_sums has;

		ledger_account_sums(at->account, &has);
		sum.leaving_bytes += at->joined ? at->member.ordered_bytes : 0;
		sum.moves_bytes += has.evicted;
	}
	sum.moves_bytes += sum.leaving_bytes;
	return sum;
}

/* What is held unused is recalled as memory leaves. */
static int suspend_at(struct tenant_device *at, uint64_t now)
{
	struct residency_unused credit = {.own_bytes = move_unused_credit_of(at)};

	list_for_each(link, &move_device(at)->tenants)
	{
		const struct tenant_device *other = list_entry(link, struct tenant_device, link);

		if (other != at && other->joined && other->member.suspended)
			credit.others_bytes += move_unused_credit_of(other);
	}
	return residency_suspend(&at->member, true, &credit, now);
}

/* Has all memory of the tenant leave its devices, or none of it. */
static int suspend(struct tenant *t, uint64_t now, struct fault *why)
{
	if (!t->share.swap)
		return fault_set(
			why, -EINVAL,
			"tenant %u (%.60s) has swap=off: its memory cannot leave the device; start "
			"it with `mete run --swap auto`: `mete set %u swap=auto` is only for "
			"memory that it allocates from then on",
			t->id, t->name, t->id);
	if (!t->daemon->move.stores.budget_bytes)
		return fault_set(why, -EINVAL, "this meted has no store (--store 0)");
	for (uint32_t i = 0; i < t->devices; i++) {
		struct tenant_device *at = &t->device[i];

		if (!at->joined || suspend_at(at, now) == 0)
			continue;
		bring_back(t, i, now);
		return fault_set(why, -ENOSPC,
				 "the store has no room for the memory of tenant %u (%.60s): %s",
				 t->id, t->name,
				 text_size(t->device[i].member.resident_bytes, TEXT_UP).text);
	}
	return 0;
}

int move_suspend(struct tenant *t, bool suspends, struct move_sent *ret_sent, bool *ret_was,
		 struct fault *why)
{
	uint64_t now = schedule_now(t->daemon);
	int r = suspends ? suspend(t, now, why) : 0;

	if (r < 0)
		return r;
	*ret_was = t->suspended || (!suspends && t->turns.suspended);
	if (!suspends) {
		move_suspend_void(t, "it was resumed before all of its memory had left");
		*ret_sent = sum_stored(t);
		bring_back(t, t->devices, now);
	}
	if (*ret_was != suspends) {
		t->suspended_ns = suspends ? now : 0;
		events_tenant(t, suspends ? HAPPENED_SUSPENDED : HAPPENED_RESUMED, "%s",
			      suspends ? "its memory leaves, and its programs stand still"
				       : "its programs go on");
	}
	t->suspended = suspends;
	/* Whoever lets it go on knows that its work did not end: as with `mete set`. */
	if (!suspends && t->turns.suspended)
		schedule_set(t);
	tenant_show_stands(t);
	log_info(suspends ? "tenant.suspended" : "tenant.resumed", "tenant=%u name=%s", t->id,
		 log_text(t->name).text);
	recorder_tenant(t);
	if (suspends)
		*ret_sent = sum_sent(t);
	schedule_pump(t->daemon);
	return 0;
}

/* ---- who waits for it ------------------------------------------------------------------------ */

/* Credit that it was given before may bring something back until it has answered the order to
 * stop. */
static bool is_out(const struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		const struct residency_member *m = &t->device[i].member;

		if (t->device[i].joined &&
		    (m->resident_bytes || m->ordered_bytes || m->credit_bytes || m->stopping))
			return false;
	}
	return true;
}

static void forget(struct tenant *t)
{
	list_remove(&t->suspending->link);
	free(take(t->suspending));
}

static void answer(struct tenant *t, struct peer *peer, uint32_t id)
{
	struct wire_message done = {.code = WIRE_done, .id = id};
	struct move_sent sent = sum_sent(t);

	done.done = (struct wire_done){.value = sent.stays_bytes,
				       .moves = sent.moves_bytes,
				       .leaving = sent.leaving_bytes};
	peer_send(peer, &done);
}

static void end_wait(struct tenant *t)
{
	struct move_wait wait = *t->suspending;

	forget(t);
	answer(t, wait.peer, wait.id);
}

static bool is_over(const struct tenant *t, uint64_t now)
{
	return now >= t->suspending->until_ns || is_out(t);
}

void move_suspend_wait(struct tenant *t, struct peer *peer, uint32_t id, uint64_t wait_ns)
{
	uint64_t now = loop_now_ns();

	if (t->suspending)
		end_wait(t);
	t->suspending = malloc(sizeof(*t->suspending));
	/* Without memory for the wait it ends at once. */
	if (!t->suspending) {
		answer(t, peer, id);
		return;
	}
	*t->suspending = (struct move_wait){.tenant = t,
					    .peer = peer,
					    .id = id,
					    .until_ns = now + least(wait_ns, UINT64_MAX - now)};
	list_append(&t->daemon->move.suspending, &t->suspending->link);
	best_effort(move_suspend_look(t->daemon));
}

bool move_suspend_look(struct daemon *d)
{
	uint64_t now = list_empty(&d->move.suspending) ? 0 : loop_now_ns();
	bool any = false;

	list_for_each(link, &d->move.suspending)
	{
		struct tenant *t = list_entry(link, struct move_wait, link)->tenant;

		if (is_over(t, now)) {
			end_wait(t);
			any = true;
		} else {
			move_check_later(d);
		}
	}
	return any;
}

void move_suspend_void(struct tenant *t, const char *why)
{
	struct move_wait wait;

	if (!t->suspending)
		return;
	wait = *t->suspending;
	forget(t);
	peer_refuse(wait.peer, wait.id, WIRE_REFUSED_UNKNOWN, "tenant %u (%.60s): %s", t->id,
		    t->name, why);
}

void move_suspend_forget(struct daemon *d, const struct peer *peer)
{
	list_for_each(link, &d->move.suspending)
	{
		struct move_wait *wait = list_entry(link, struct move_wait, link);

		if (wait->peer == peer)
			forget(wait->tenant);
	}
}
