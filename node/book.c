/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "node/daemon.h"

enum { MEASURE_TRIES = 5, MEASURE_MS = 2000 };

static const uint64_t ms = 1000000;

static void on_measure_late(struct loop_timer *timer);

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
	if (r == 0)
		r = loop_timer_init(&d->loop, &d->measure_timer, on_measure_late);
	return r < 0 ? fault_set(why, r, "no timer: %s", uv_strerror(r)) : 0;
}

void book_close(struct daemon *d)
{
	loop_timer_close(&d->ledger_timer, NULL);
	loop_timer_close(&d->measure_timer, NULL);
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
	if (!d->measured[device]) {
		at->checked = at->checking; /* the estimate stays */
		return;
	}
	if (allocated != at->seen_allocated || at->seen_moved == UINT64_MAX ||
	    says_moved(g) != at->seen_moved) {
		if (++at->tries < MEASURE_TRIES) {
			at->measure = true;
			d->measure_again = true;
			return;
		}
		/* It never stands still: at least what is beyond all that it ever was granted
		 * meanwhile. */
		at->tries = 0;
		at->checked = at->checking;
		ledger_between(d->ledger, at->holder,
			       used > at->most_granted ? used - at->most_granted : 0, used);
		return;
	}
	at->tries = 0;
	at->checked = at->checking;
	/* The page is the guest's: a claim beyond what it was granted hides nothing. */
	ledger_report(d->ledger, at->holder, allocated);
	ledger_holder_sums(at->holder, &has);
	residual = used > has.allocated ? used - has.allocated : 0;
	ledger_measured(d->ledger, at->holder, residual, at->measuring_bytes);
	at->settling_bytes -= at->measuring_bytes;
	/* The least: others have modules beside their contexts. */
	if (at->contexts && at->contexts == at->seen_contexts && residual &&
	    (!d->device[device].context_bytes ||
	     residual / at->contexts < d->device[device].context_bytes))
		d->device[device].context_bytes = residual / at->contexts;
}

static struct guest_device *find_checked(struct daemon *d, bool late)
{
	list_for_each(at, &d->tenants)
	{
		struct tenant *t = list_entry(at, struct tenant, link);

		list_for_each(link, &t->guests)
		{
			struct guest *g = list_entry(link, struct guest, link);

			for (uint32_t i = 0; g->joined && i < t->devices; i++) {
				if (g->device[i].checked || (late && g->device[i].check))
					return &g->device[i];
			}
		}
	}
	return NULL;
}

/* Where only unused credit is in the way that is recalled: the ledger does so for one byte more,
 * which the next measurement takes off again. book_pump() follows. */
static void answer_check(struct guest_device *at, bool measured)
{
	struct guest *g = at->guest;
	struct tenant_device *of = &g->tenant->device[at - g->device];
	struct ledger *l = g->tenant->daemon->ledger;
	struct ledger_request request = {.id = at->check_id, .bytes = 1, .residual = 1};
	struct ledger_sums own, all;

	ledger_account_sums(of->account, &own);
	ledger_device_sums(l, of->index, &all);
	if (!measured || (own.granted + own.residual <= own.limit &&
			  all.granted - all.evicted + all.residual <= all.limit)) {
		peer_done(&g->peer, at->check_id, 0);
		return;
	}
	if (at->settling_bytes < UINT64_MAX / 2)
		at->settling_bytes++;
	if (ledger_ask(l, at->holder, &request, loop_now_ns()) != 0)
		peer_refuse(&g->peer, at->check_id, WIRE_REFUSED_FULL,
			    "more than %d requests of this process are waiting",
			    DAEMON_ASKS_OF_GUEST);
}

/* From the start after each: an answer that cannot be delivered makes its guest leave. */
static void answer_checks(struct daemon *d, bool late)
{
	struct guest_device *at;

	while ((at = find_checked(d, late)) != NULL) {
		bool measured = at->checked;

		at->check = at->checking = at->checked = false;
		answer_check(at, measured);
	}
}

static bool is_unsettled(const struct tenant *t, uint32_t device)
{
	list_for_each(link, (struct list *)&t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		if (g->joined && (g->device[device].measure || g->device[device].measuring))
			return true;
	}
	return false;
}

/* Who would be refused waits for what is being measured, unless that takes too long. */
static void show_unsettled(struct daemon *d)
{
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		for (uint32_t i = 0; i < t->devices; i++)
			ledger_unsettled(d->ledger, t->device[i].account,
					 !d->measure_late && is_unsettled(t, i));
	}
}

static void on_measure_late(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, measure_timer);

	d->measure_late = true;
	log_warning("measure.late", "the management library does not answer");
	show_unsettled(d);
	answer_checks(d, true);
	book_pump(d);
}

static void on_measured(struct loop_work *work)
{
	struct daemon *d = container_of(work, struct daemon, measure);

	loop_disarm(&d->measure_timer);
	d->measure_late = false;
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
	ledger_looked(d->ledger);
	show_unsettled(d);
	answer_checks(d, false);
	book_pump(d);
	if (d->measure_again)
		book_measure(d);
}

void book_measure(struct daemon *d)
{
	bool any = false;

	show_unsettled(d);
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
				struct ledger_sums has;

				if (!at->measure)
					continue;
				at->measure = false;
				at->measuring = any = true;
				at->measuring_bytes = at->settling_bytes;
				at->seen_moved = says_moved(g);
				at->seen_allocated = says_allocated(at);
				at->seen_contexts = at->contexts;
				at->checking = at->check;
				ledger_holder_sums(at->holder, &has);
				at->most_granted = has.granted;
				d->measured[t->device[i].index] = true;
			}
		}
	}
	if (!any)
		return;
	loop_arm(&d->measure_timer, MEASURE_MS * ms);
	best_effort(loop_work(&d->loop, &d->measure, ask_driver, on_measured));
}

void book_check(struct guest_device *at, uint32_t id)
{
	struct daemon *d = at->guest->tenant->daemon;

	at->check = true;
	at->check_id = id;
	at->measure = true;
	book_measure(d);
	if (d->measure_late)
		answer_checks(d, true);
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
