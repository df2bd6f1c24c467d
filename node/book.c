/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "node/daemon.h"

static const uint64_t ms = 1000000;

static void on_ledger_timer(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, ledger_timer);

	book_pump(d);
}

int book_open(struct daemon *d, struct fault *why)
{
	struct ledger_limits limits = {.devices = d->devices,
				       .accounts = DAEMON_TENANTS,
				       .holders = DAEMON_HOLDERS,
				       .asks = DAEMON_ASKS,
				       .asks_per_holder = DAEMON_ASKS_OF_GUEST,
				       .recall_ns = 1000 * ms,
				       .look_ns = 20 * ms};
	void *memory = calloc(1, ledger_size(&limits));
	int r;

	if (!memory)
		return fault_set(why, -ENOMEM, "out of memory");
	d->ledger = ledger_init(memory, &limits);
	for (uint32_t i = 0; i < d->devices; i++)
		ledger_set_device(d->ledger, i, d->device[i].info->total_bytes,
				  d->device[i].reserve_bytes);
	r = loop_timer_init(&d->loop, &d->ledger_timer, on_ledger_timer);
	if (r == 0)
		r = measure_open(d);
	return r < 0 ? fault_set(why, r, "no timer for the book: %s", uv_strerror(r)) : 0;
}

void book_close(struct daemon *d)
{
	loop_timer_close(&d->ledger_timer, NULL);
	measure_close(d);
	free(d->ledger);
	d->ledger = NULL;
}

static uint64_t says_allocated(const struct guest_device *at)
{
	uint32_t i = (uint32_t)(at - at->guest->device);

	return __atomic_load_n(&at->guest->own->device[i].allocated_bytes, __ATOMIC_ACQUIRE);
}

void book_refresh_guest(struct guest *g)
{
	struct ledger *l = g->tenant->daemon->ledger;

	for (uint32_t i = 0; g->joined && i < g->tenant->devices; i++) {
		struct guest_device *at = &g->device[i];
		uint64_t peak = __atomic_load_n(&g->own->device[i].peak_bytes, __ATOMIC_RELAXED);

		/* It was there for a moment, between two looks of ours. */
		if (peak > at->seen_peak) {
			at->seen_peak = peak;
			ledger_report_peak(l, at->holder, peak);
		}
		ledger_report(l, at->holder, says_allocated(at));
	}
}

void book_refresh_all(struct daemon *d)
{
	list_for_each(at, &d->tenants)
	{
		struct tenant *t = list_entry(at, struct tenant, link);

		list_for_each(link, &t->guests)
			book_refresh_guest(list_entry(link, struct guest, link));
	}
}

static bool anybody_asks(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		struct ledger_sums sums;

		ledger_device_sums(d->ledger, i, &sums);
		if (sums.waiting)
			return true;
	}
	return false;
}

static void show_all(struct daemon *d)
{
	list_for_each(link, &d->tenants) tenant_show(list_entry(link, struct tenant, link));
}

void book_pump(struct daemon *d)
{
	struct ledger_action action;
	uint64_t now = loop_now_ns(), deadline;

	if (anybody_asks(d))
		book_refresh_all(d);
	while (ledger_next(d->ledger, now, &action)) {
		struct guest_device *at = ledger_owner(action.holder);

		/* Who is answered finds the figures that go with the answer. */
		show_all(d);
		guest_answer(at->guest, &action);
	}
	show_all(d);
	now = loop_now_ns();
	deadline = ledger_deadline(d->ledger, now);
	if (deadline)
		loop_arm(&d->ledger_timer, deadline - now);
	else
		loop_disarm(&d->ledger_timer);
}
