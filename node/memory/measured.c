/* SPDX-License-Identifier: Apache-2.0 */

/* Requests wait for a measurement, unless that takes too long. */
#include "node/memory/measured.h"

#include "node/daemon.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/outside.h"
#include "node/memory/remains.h"
#include "node/memory/watch.h"
#include "node/tenants/guest_send.h"
#include "node/time/drift.h"
#include "node/time/samples.h"
#include "node/upcalls.h"

static void set_late(struct daemon *d, bool late)
{
	if (d->measure.late == late)
		return;
	d->measure.late = late;
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		for (uint32_t i = 0; i < t->devices; i++)
			measure_show_flux(&t->device[i]);
	}
	remains_late(d);
}

/* If only unused credit is in the way, it is recalled: the ledger does so for a request of one
 * byte, which it does not grant. book_pump() follows. */
static void answer_check(struct daemon *d, struct guest_device *at)
{
	struct ledger_request request = {.id = at->check_id, .bytes = 1, .residual = LEDGER_ROOM};
	struct guest *g = at->guest;

	if (at->excused || ledger_within(d->book.ledger, at->holder)) {
		guest_done(g, at->check_id, 0);
		return;
	}
	if (ledger_ask(d->book.ledger, at->holder, &request, loop_now_ns()) != 0)
		guest_refuse(
			g, at->check_id, WIRE_REFUSED_FULL,
			"more than %d requests of this process are waiting, or %d of its tenant",
			DAEMON_ASKS_OF_GUEST, DAEMON_ASKS_OF_TENANT);
}

static void answer_checks(struct daemon *d)
{
	while (!list_empty(&d->measure.answers)) {
		struct guest_device *at =
			list_entry(d->measure.answers.next, struct guest_device, answer);

		list_remove(&at->answer);
		answer_check(d, at);
	}
}

static void excuse(struct guest_device *at)
{
	measure_tell(at, RESIDUAL_LATE, 0);
}

void measure_check(struct guest_device *at, uint32_t id)
{
	struct daemon *d = at->guest->tenant->daemon;

	at->check_id = id;
	measure_tell(at, RESIDUAL_CHECKED, 0);
	measure_start(d);
	if (d->measure.late)
		excuse(at);
	answer_checks(d);
}

void measure_is_late(struct daemon *d)
{
	log_warning("measure.late", "the management library does not answer");
	set_late(d, true);
	outside_late(d);
	watch_looked(d, UINT64_MAX);
	measure_each(d, excuse);
	answer_checks(d);
	book_pump(d);
	admin_measured(d);
}

void measure_has_ended(struct daemon *d)
{
	loop_disarm(&d->measure.timer);
	set_late(d, false);
	if (d->stopping)
		return;
	measure_end_running(d);
	drift_seen(d);
	samples_seen(d);
	d->measure.ended = d->measure.begun;
	for (uint32_t i = 0; i < d->devices; i++) {
		if (d->measure.measured[i])
			outside_seen(d, i);
		remains_seen(d, i);
	}
	outside_looked(d);
	if (d->measure.of_memory)
		ledger_looked(d->book.ledger);
	/* An ask that came during the last attempt is not refused for what that left open. */
	if (ledger_awaits_look(d->book.ledger))
		measure_reopen(d);
	watch_looked(d, d->measure.begun);
	book_pump(d); /* a guest that is answered must find the figures in its page */
	answer_checks(d);
	book_pump(d);
	measure_start(d);
	if (!d->measure.work.busy)
		measure_arm_again(d);
	admin_measured(d);
}
