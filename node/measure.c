/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "node/daemon.h"

enum {
	TRIES = MEASURE_ROUNDS - 1,
	LATE_MS = 2000,
	/* When it is tried again with guests that did not stand still. */
	AGAIN_FIRST_MS = 10,
	AGAIN_LAST_MS = 1000,
	DOUBTS = 8, /* times that this is done for one that stands still, but leaves doubts */
	STILL = 3, /* times that the same was measured, until a pool is believed to stay as it is */
};

static const uint64_t ms = 1000000;

/* `what` must not make a guest leave. */
static void each(struct daemon *d, void (*what)(struct daemon *d, struct guest_device *at))
{
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			for (uint32_t i = 0; g->joined && i < t->devices; i++)
				what(d, &g->device[i]);
		}
	}
}

static struct guest_device *find(struct daemon *d, bool (*is)(const struct guest_device *at))
{
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			for (uint32_t i = 0; g->joined && i < t->devices; i++) {
				if (is(&g->device[i]))
					return &g->device[i];
			}
		}
	}
	return NULL;
}

static uint32_t device_of(const struct guest_device *at)
{
	return at->guest->tenant->device[at - at->guest->device].index;
}

/* ---- what the guest says --------------------------------------------------------------------- */

static const struct wire_own_device *says(const struct guest_device *at)
{
	return &at->guest->own->device[at - at->guest->device];
}

static uint64_t says_allocated(const struct guest_device *at)
{
	return __atomic_load_n(&says(at)->allocated_bytes, __ATOMIC_ACQUIRE);
}

/* What is charged, and the driver may count as the guest's, or not. What a pool let go of while
 * somebody waited the guest finds at once after that. */
static uint64_t says_uncertain(struct guest_device *at, uint64_t used)
{
	const struct wire_own_page *own = at->guest->own;
	size_t i = (size_t)(at - at->guest->device);
	uint64_t adrift = __atomic_load_n(&own->adrift_bytes[i], __ATOMIC_RELAXED);

	if (at->still_moved != at->seen_moved || at->still_used != used)
		at->still = 0;
	at->still_moved = at->seen_moved;
	at->still_used = used;
	if (++at->still > STILL)
		return adrift;
	return adrift + __atomic_load_n(&own->loose_bytes[i], __ATOMIC_RELAXED);
}

/* How often what the guest holds has changed; UINT64_MAX while it changes, and while it has said
 * that contexts came or went, and we have not heard it yet. */
static uint64_t says_moved(const struct guest *g)
{
	uint64_t settles = __atomic_load_n(&g->own->settles, __ATOMIC_SEQ_CST);
	uint64_t ended = __atomic_load_n(&g->own->moves_ended, __ATOMIC_SEQ_CST);
	uint64_t begun = __atomic_load_n(&g->own->moves_begun, __ATOMIC_SEQ_CST);

	return begun != ended || settles > g->settles ? UINT64_MAX : begun;
}

/* ---- what the driver says -------------------------------------------------------------------- */

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

/* What to expect of the next context: the least so far, as others have modules beside theirs. A
 * guest that lies about its own cannot make it less than is expected where nothing is known. */
static void learn_context(struct daemon *d, const struct guest_device *at, uint64_t residual)
{
	uint64_t contexts = __atomic_load_n(&says(at)->contexts, __ATOMIC_RELAXED);
	uint64_t each_bytes = contexts ? residual / contexts : 0;
	struct device *device = &d->device[device_of(at)];

	if (!each_bytes)
		return;
	if (each_bytes < d->options.context_bytes)
		each_bytes = d->options.context_bytes;
	if (!device->context_bytes || each_bytes < device->context_bytes)
		device->context_bytes = each_bytes;
}

static uint64_t beyond(uint64_t bytes, uint64_t most)
{
	return bytes > most ? bytes - most : 0;
}

/* It did not stand still: once more, and after some tries what can be said is that there is at
 * least what is beyond all that it ever was granted meanwhile. */
static void settle_inexactly(struct daemon *d, struct guest_device *at, uint64_t used)
{
	if (++at->tries < TRIES) {
		at->measure = true;
		d->measure_again = true;
		return;
	}
	at->tries = 0;
	at->inexact = true;
	at->checked = at->checking;
	ledger_between(d->ledger, at->holder, beyond(used, at->most_granted), used);
}

/* What the driver says beyond what the guest tracks. Only where the guest stood still meanwhile:
 * otherwise an allocation that came in between would be taken for a context, or hide one. */
static void settle(struct daemon *d, struct guest_device *at)
{
	uint64_t allocated = says_allocated(at), used, held;
	struct ledger_sums has;

	if (!at->measuring)
		return;
	at->measuring = false;
	/* Its peak goes with the residual that there was, not with what is left of it. */
	book_refresh_guest(at->guest);
	if (!d->measured[device_of(at)]) {
		at->checked = at->checking; /* the estimate stays */
		return;
	}
	used = used_by(d, device_of(at), at->guest->pid);
	if (allocated != at->seen_allocated || at->seen_moved == UINT64_MAX ||
	    says_moved(at->guest) != at->seen_moved) {
		settle_inexactly(d, at, used);
		return;
	}
	at->tries = 0;
	at->checked = at->checking;
	/* The page is the guest's: a claim beyond what it was granted hides nothing. */
	ledger_report(d->ledger, at->holder, allocated);
	ledger_holder_sums(at->holder, &has);
	held = beyond(has.allocated, says_uncertain(at, used));
	ledger_measured(d->ledger, at->holder, beyond(used, has.allocated), beyond(used, held),
			at->measuring_bytes);
	at->settling_bytes -= at->measuring_bytes;
	at->doubts = held == has.allocated ? 0 : at->doubts + 1;
	at->inexact = at->doubts > 0 && at->doubts < DOUBTS;
	if (at->doubts == 0)
		learn_context(d, at, beyond(used, held));
}

/* ---- who waits for it ------------------------------------------------------------------------ */

static bool is_checked(const struct guest_device *at)
{
	return at->checked;
}

static bool is_checking(const struct guest_device *at)
{
	return at->checked || at->check;
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
	if (at->settling_bytes < UINT64_MAX)
		at->settling_bytes++;
	if (ledger_ask(l, at->holder, &request, loop_now_ns()) != 0)
		peer_refuse(&g->peer, at->check_id, WIRE_REFUSED_FULL,
			    "more than %d requests of this process are waiting",
			    DAEMON_ASKS_OF_GUEST);
}

static void answer_checks(struct daemon *d, bool late)
{
	struct guest_device *at;

	while ((at = find(d, late ? is_checking : is_checked)) != NULL) {
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

/* ---- when ------------------------------------------------------------------------------------ */

static bool is_inexact(const struct guest_device *at)
{
	return at->inexact;
}

/* Soon after a guest has moved, and less and less often while it goes on; not while all stand
 * still. */
static void arm_again(struct daemon *d)
{
	if (!find(d, is_inexact)) {
		loop_disarm(&d->again_timer);
		d->again_ms = AGAIN_FIRST_MS;
		return;
	}
	loop_arm(&d->again_timer, d->again_ms * ms);
}

static void mark_inexact(struct daemon *d, struct guest_device *at)
{
	(void)d;
	at->measure |= at->inexact;
}

static void on_again(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, again_timer);

	d->again_ms = d->again_ms * 2 > AGAIN_LAST_MS ? AGAIN_LAST_MS : d->again_ms * 2;
	each(d, mark_inexact);
	measure_start(d);
}

static bool is_open(const struct guest_device *at)
{
	return at->inexact || at->doubts > 0;
}

static void mark_open(struct daemon *d, struct guest_device *at)
{
	(void)d;
	at->measure |= is_open(at);
}

void measure_asker(struct guest_device *at, uint64_t bytes)
{
	struct daemon *d = at->guest->tenant->daemon;

	if (!find(d, is_open) || ledger_fits(d->ledger, at->holder, bytes))
		return;
	each(d, mark_open);
	measure_start(d);
}

static void on_late(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, measure_timer);

	d->measure_late = true;
	log_warning("measure.late", "the management library does not answer");
	show_unsettled(d);
	answer_checks(d, true);
	book_pump(d);
	admin_measured(d);
}

static void on_measured(struct loop_work *work)
{
	struct daemon *d = container_of(work, struct daemon, measure);

	loop_disarm(&d->measure_timer);
	d->measure_late = false;
	if (d->stopping)
		return;
	each(d, settle);
	ledger_looked(d->ledger);
	show_unsettled(d);
	book_pump(d); /* who is answered finds the figures in its page */
	answer_checks(d, false);
	book_pump(d);
	if (d->measure_again)
		measure_start(d);
	if (!d->measure.busy)
		arm_again(d);
	admin_measured(d);
}

bool measure_under_way(const struct daemon *d)
{
	return d->measure.busy && !d->measure_late;
}

static void look_first(struct daemon *d, struct guest_device *at)
{
	struct ledger_sums has;

	if (!at->measure)
		return;
	at->measure = false;
	at->measuring = true;
	at->measuring_bytes = at->settling_bytes;
	at->seen_moved = says_moved(at->guest);
	at->seen_allocated = says_allocated(at);
	at->checking = at->check;
	ledger_holder_sums(at->holder, &has);
	at->most_granted = has.granted;
	d->measured[device_of(at)] = true;
}

void measure_start(struct daemon *d)
{
	bool any = false;

	show_unsettled(d);
	if (d->measure.busy) {
		d->measure_again = true;
		return;
	}
	d->measure_again = false;
	memset(d->measured, 0, sizeof(d->measured));
	each(d, look_first);
	for (uint32_t i = 0; i < d->devices; i++)
		any |= d->measured[i];
	if (!any)
		return;
	loop_arm(&d->measure_timer, LATE_MS * ms);
	best_effort(loop_work(&d->loop, &d->measure, ask_driver, on_measured));
}

void measure_check(struct guest_device *at, uint32_t id)
{
	struct daemon *d = at->guest->tenant->daemon;

	at->check = true;
	at->check_id = id;
	at->measure = true;
	measure_start(d);
	if (d->measure_late)
		answer_checks(d, true);
}

static void mark_stated(struct daemon *d, struct guest_device *at)
{
	(void)d;
	at->measure |= at->stated;
	at->doubts = 0;
}

void measure_all(struct daemon *d)
{
	each(d, mark_stated);
	measure_start(d);
}

int measure_open(struct daemon *d)
{
	int r;

	d->again_ms = AGAIN_FIRST_MS;
	d->processes = calloc((size_t)d->devices * DAEMON_GUESTS + 1, sizeof(*d->processes));
	if (!d->processes)
		return -ENOMEM;
	r = loop_timer_init(&d->loop, &d->measure_timer, on_late);
	return r < 0 ? r : loop_timer_init(&d->loop, &d->again_timer, on_again);
}

void measure_close(struct daemon *d)
{
	loop_timer_close(&d->measure_timer, NULL);
	loop_timer_close(&d->again_timer, NULL);
	free(d->processes);
	d->processes = NULL;
}
