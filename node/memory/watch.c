/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches guests that report nothing: a change that they do not see (by a driver call that no hook
 * covers) is found by measuring. Decision 0056 gives the reasons.
 *
 *  - While anything changes on a device that several tenants share, all of its guests are measured
 *    once a second. After WATCH_LOOKS measurements without a change the timer rests. A tenant that
 *    is alone on its devices is not watched, nor is a device on which nobody holds anything.
 *  - But a look may find more or less than there is for good: of small arrays the guest knows
 *    roughly what they take (guest/memory/arrays.c). A tenant whose charge a look has changed is
 *    watched likewise until WATCH_LOOKS in a row have not, also if it is alone: otherwise its
 *    program would be told of that room as free, or not, for as long as it asks for nothing.
 *  - An ask for memory is answered from figures of its tenant that are at most STALE_MS old,
 *    whether a timer runs or not: the ask is held until the tenant was measured, or the driver is
 *    late.
 */
#include "node/memory/watch.h"

#include "base/least.h"
#include "node/daemon.h"
#include "node/memory/measure.h"
#include "node/peers/flow.h"

enum {
	WATCH_MS = 1000,
	WATCH_LOOKS = 3,
	STALE_MS = 1000,
};

static const uint64_t ms = 1000000;

static bool is_shared(const struct daemon *d, uint32_t device)
{
	return d->device[device].inhabited > 1;
}

/* Requests a measurement of the tenant's guests on the device. */
static void look_at(struct tenant_device *of)
{
	struct tenant *t = of->tenant;

	of->looked_ns = loop_now_ns();
	list_for_each(link, &t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);

		/* A guest that is still expected is charged what it claims, and
		 * memory is kept for that. */
		if (!g->expected)
			measure_tell(&g->device[of - t->device], RESIDUAL_WATCHED, 0);
	}
}

/* As its least steady guest needs. */
static uint64_t looks_at(const struct tenant_device *of)
{
	uint32_t i = tenant_index(of);
	uint64_t looks = 0;

	list_for_each(link, (struct list *)&of->tenant->guests) looks =
		most(looks, list_entry(link, struct guest, link)->device[i].unsteady);
	return looks;
}

/* Returns whether it was looked at. `looks`: as its least steady guest needs with this one, or as
 * it was. */
static bool look_at_device(struct daemon *d, uint32_t device, uint64_t *looks)
{
	struct ledger_sums all;
	bool any = false;

	ledger_device_sums(d->book.ledger, device, &all);
	if (!all.booked)
		return false;
	list_for_each(link, &d->device[device].tenants)
	{
		struct tenant_device *of = list_entry(link, struct tenant_device, link);
		uint64_t its = looks_at(of);

		*looks = most(*looks, its);
		if (!its && !is_shared(d, device))
			continue;
		look_at(of);
		any = true;
	}
	return any;
}

static void on_watch(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, watch.timer);
	uint64_t looks = 0;
	bool any = false;

	for (uint32_t i = 0; i < d->devices; i++)
		any |= look_at_device(d, i, &looks);
	measure_start(d);
	d->watch.left -= d->watch.left > 0;
	/* If the last look changes anything, or fails, watch_measured() arms the timer. */
	if (!any || (!d->watch.left && looks <= 1)) {
		/* Measuring took memory for a moment. */
		flows_gave_back(&d->flows);
		return;
	}
	loop_arm(&d->watch.timer, WATCH_MS * ms);
}

void watch_stirred(struct tenant *t)
{
	struct daemon *d = t->daemon;
	bool shared = false;

	d->watch.left = WATCH_LOOKS;
	if (loop_is_armed(&d->watch.timer))
		return;
	for (uint32_t i = 0; i < t->devices && !shared; i++)
		shared = is_shared(d, t->device[i].index);
	if (shared)
		loop_arm(&d->watch.timer, WATCH_MS * ms);
}

void watch_measured(struct guest_device *at, bool exactly, bool changed)
{
	struct daemon *d = at->guest->tenant->daemon;

	if (changed)
		at->unsteady = WATCH_LOOKS;
	else if (exactly)
		at->unsteady -= at->unsteady > 0;
	if (at->unsteady && !loop_is_armed(&d->watch.timer))
		loop_arm(&d->watch.timer, WATCH_MS * ms);
}

void watch_asker(struct guest_device *at)
{
	struct tenant *t = at->guest->tenant;
	struct tenant_device *of = &t->device[at - at->guest->device];
	struct daemon *d = t->daemon;
	struct ledger_sums own;

	if (list_linked(&of->held) || d->measure.late ||
	    (of->looked_ns && loop_now_ns() - of->looked_ns < STALE_MS * ms))
		return;
	ledger_account_sums(of->account, &own);
	if (!own.booked)
		return; /* a tenant without memory has just arrived */
	look_at(of);
	ledger_hold(d->book.ledger, of->account, 1);
	/* Everything that is requested until now is part of the next measurement. */
	of->held_until = d->measure.begun + 1;
	list_append(&d->watch.held, &of->held);
	measure_start(d);
}

void watch_looked(struct daemon *d, uint64_t measurements)
{
	list_for_each(link, &d->watch.held)
	{
		struct tenant_device *of = list_entry(link, struct tenant_device, held);

		if (of->held_until > measurements)
			continue;
		list_remove(&of->held);
		ledger_hold(d->book.ledger, of->account, 0);
	}
}

int watch_open(struct daemon *d)
{
	list_init(&d->watch.held);
	return loop_timer_init(&d->loop, &d->watch.timer, on_watch);
}

void watch_close(struct daemon *d)
{
	loop_timer_close(&d->watch.timer, NULL);
}
