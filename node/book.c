/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "node/daemon.h"

enum { MEASURE_TRIES = 5 };

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

	d->processes = calloc((size_t)d->devices * DAEMON_GUESTS + 1, sizeof(*d->processes));
	if (!memory || !d->processes) {
		free(memory);
		return fault_set(why, -ENOMEM, "out of memory");
	}
	d->ledger = ledger_init(memory, &limits);
	for (uint32_t i = 0; i < d->devices; i++)
		ledger_set_device(d->ledger, i, d->device[i].info->total_bytes,
				  d->device[i].reserve_bytes);
	r = loop_timer_init(&d->loop, &d->ledger_timer, on_ledger_timer);
	return r < 0 ? fault_set(why, r, "no timer: %s", uv_strerror(r)) : 0;
}

void book_close(struct daemon *d)
{
	loop_timer_close(&d->ledger_timer, NULL);
	free(d->ledger);
	free(d->processes);
	d->ledger = NULL;
	d->processes = NULL;
}

static uint64_t says_allocated(const struct guest_device *at)
{
	uint32_t i = (uint32_t)(at - at->guest->device);

	return __atomic_load_n(&at->guest->own->device[i].allocated_bytes, __ATOMIC_ACQUIRE);
}

/* How often what the guest holds has changed; UINT64_MAX while it changes. */
static uint64_t says_moved(const struct guest *g)
{
	uint64_t moved = __atomic_load_n(&g->own->moved, __ATOMIC_SEQ_CST);

	return __atomic_load_n(&g->own->moving, __ATOMIC_SEQ_CST) ? UINT64_MAX : moved;
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
			ledger_report(l, at->holder, peak);
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

	/* An answer that cannot be delivered makes its guest leave, which changes the book. */
	if (d->pumping) {
		d->pump_again = true;
		return;
	}
	d->pumping = true;
	do {
		d->pump_again = false;
		if (anybody_asks(d))
			book_refresh_all(d);
		while (ledger_next(d->ledger, now, &action)) {
			struct guest_device *at = ledger_owner(action.holder);

			/* Who is answered finds the figures that go with the answer. */
			show_all(d);
			guest_answer(at->guest, &action);
		}
	} while (d->pump_again);
	d->pumping = false;
	show_all(d);
	now = loop_now_ns();
	deadline = ledger_deadline(d->ledger, now);
	if (deadline)
		loop_arm(&d->ledger_timer, deadline - now);
	else
		loop_disarm(&d->ledger_timer);
}

/* On the worker: it reads what the driver says, and nothing else. */
static void ask_driver(struct loop_work *work)
{
	struct daemon *d = container_of(work, struct daemon, measure);

	for (uint32_t i = 0; i < d->devices; i++) {
		if (d->measured[i])
			d->measured[i] =
				nvml_processes(d->nvml, i, &d->processes[(size_t)i * DAEMON_GUESTS],
					       DAEMON_GUESTS, &d->process_count[i]) == 0;
	}
}

static uint64_t used_by(const struct daemon *d, uint32_t device, pid_t pid)
{
	const struct nvml_process *rows = &d->processes[(size_t)device * DAEMON_GUESTS];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < d->process_count[device]; i++) {
		if (rows[i].pid == (uint32_t)pid)
			sum += rows[i].used_bytes;
	}
	return sum;
}

/* What the driver says beyond what the guest tracks. Only where the guest stood still meanwhile:
 * otherwise an allocation that came in between would be taken for a context, or hide one. */
static void settle(struct daemon *d, struct guest_device *at)
{
	struct guest *g = at->guest;
	uint32_t device = g->tenant->device[at - g->device].index;
	uint64_t allocated = says_allocated(at), used = used_by(d, device, g->pid), residual;
	struct ledger_sums has;

	if (!at->measuring)
		return;
	at->measuring = false;
	if (!d->measured[device])
		return; /* the estimate stays */
	if (allocated != at->seen_allocated || at->seen_moved == UINT64_MAX ||
	    says_moved(g) != at->seen_moved) {
		if (++at->tries < MEASURE_TRIES) {
			at->measure = true;
			d->measure_again = true;
			return;
		}
		/* It never stands still: at least what is beyond all that it was granted. */
		at->tries = 0;
		ledger_holder_sums(at->holder, &has);
		residual = used > has.granted ? used - has.granted : 0;
		if (residual > has.residual) {
			ledger_measured(d->ledger, at->holder, residual, at->measuring_bytes);
			at->settling_bytes -= at->measuring_bytes;
		}
		return;
	}
	at->tries = 0;
	/* The page is the guest's: a claim beyond what it was granted hides nothing. */
	ledger_report(d->ledger, at->holder, allocated);
	ledger_holder_sums(at->holder, &has);
	residual = used > has.allocated ? used - has.allocated : 0;
	ledger_measured(d->ledger, at->holder, residual, at->measuring_bytes);
	at->settling_bytes -= at->measuring_bytes;
	/* The least: others have modules beside their contexts. */
	if (at->contexts && residual &&
	    (!d->device[device].context_bytes ||
	     residual / at->contexts < d->device[device].context_bytes))
		d->device[device].context_bytes = residual / at->contexts;
}

static void on_measured(struct loop_work *work)
{
	struct daemon *d = container_of(work, struct daemon, measure);

	if (d->stopping)
		return;
	list_for_each(at, &d->tenants)
	{
		struct tenant *t = list_entry(at, struct tenant, link);

		list_for_each(link, &t->guests)
		{
			struct guest *g = list_entry(link, struct guest, link);

			for (uint32_t i = 0; g->joined && i < t->devices; i++)
				settle(d, &g->device[i]);
		}
	}
	book_pump(d);
	if (d->measure_again)
		book_measure(d);
}

void book_measure(struct daemon *d)
{
	bool any = false;

	if (d->measure.busy) {
		d->measure_again = true;
		return;
	}
	d->measure_again = false;
	memset(d->measured, 0, sizeof(d->measured));
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			for (uint32_t i = 0; g->joined && i < t->devices; i++) {
				struct guest_device *at = &g->device[i];

				if (!at->measure)
					continue;
				at->measure = false;
				at->measuring = any = true;
				at->measuring_bytes = at->settling_bytes;
				at->seen_moved = says_moved(g);
				at->seen_allocated = says_allocated(at);
				d->measured[t->device[i].index] = true;
			}
		}
	}
	if (any)
		best_effort(loop_work(&d->loop, &d->measure, ask_driver, on_measured));
}

void book_remeasure(struct daemon *d)
{
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			for (uint32_t i = 0; g->joined && i < t->devices; i++)
				g->device[i].measure |= g->device[i].contexts != 0;
		}
	}
	book_measure(d);
}
