/* SPDX-License-Identifier: Apache-2.0 */
/* Connects core/ledger/residual.h to the rest: reads guests' pages and the ledger, asks the driver
 * on the worker, and decides when. */
#include "node/memory/measure.h"

#include "base/least.h"
#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/devices/nvml_rows.h"
#include "node/memory/book.h"
#include "node/memory/prices.h"
#include "node/state/recorder.h"
#include "node/memory/watch.h"
#include "node/time/drift.h"
#include "node/upcalls.h"

enum {
	LATE_MS = 2000,
	/* How soon guests that changed during the measurement are measured again. */
	AGAIN_FIRST_MS = 10,
	AGAIN_LAST_MS = 1000,
};

static const uint64_t ms = 1000000;

static struct daemon *daemon_of(const struct guest_device *at)
{
	return at->guest->tenant->daemon;
}

static struct tenant_device *account_of(const struct guest_device *at)
{
	return &at->guest->tenant->device[at - at->guest->device];
}

static uint32_t device_of(const struct guest_device *at)
{
	return account_of(at)->index;
}

/* ---- what a machine wants done --------------------------------------------------------------- */

void measure_show_flux(struct tenant_device *of)
{
	struct daemon *d = of->tenant->daemon;

	ledger_unsettled(d->book.ledger, of->account,
			 d->measure.late ? LEDGER_SETTLED
			 : of->owed	 ? LEDGER_OWED
			 : of->in_flux	 ? LEDGER_IN_FLUX
					 : LEDGER_SETTLED);
}

static void count(bool *counted, uint32_t *sum, bool now)
{
	*sum += (uint32_t)now - (uint32_t)*counted;
	*counted = now;
}

static void count_flux(struct guest_device *at, bool in_flux, bool owed)
{
	struct tenant_device *of = account_of(at);

	if (at->in_flux == in_flux && at->owed == owed)
		return;
	count(&at->in_flux, &of->in_flux, in_flux);
	count(&at->owed, &of->owed, owed);
	measure_show_flux(of);
}

void measure_unsettled(struct tenant_device *of, bool *counted, bool now)
{
	if (*counted == now)
		return;
	count(counted, &of->in_flux, now);
	measure_show_flux(of);
}

static void keep_on(struct list *list, struct list *link, bool wanted)
{
	if (!wanted)
		list_remove(link);
	else if (!list_linked(link))
		list_append(list, link);
}

/* The next meted does not guess what they take. */
static void learn(struct guest_device *at, uint64_t context_bytes)
{
	prices_learn(daemon_of(at), at, context_bytes);
	if (at->context_bytes == context_bytes)
		return;
	at->context_bytes = context_bytes;
	recorder_context(at);
}

static void act(struct guest_device *at, unsigned todo)
{
	struct daemon *d = daemon_of(at);
	const struct residual *r = &at->residual;

	ledger_guessed(d->book.ledger, at->holder, residual_guessed(r));
	if (todo & RESIDUAL_REPORT)
		ledger_residual(d->book.ledger, at->holder, residual_charge(r), r->used);
	if (todo & RESIDUAL_SAMPLE)
		learn(at, r->sample);
	if (todo & (RESIDUAL_ANSWER | RESIDUAL_EXCUSE)) {
		at->excused = (todo & RESIDUAL_EXCUSE) != 0;
		keep_on(&d->measure.answers, &at->answer, true);
	}
	if (r->wanted && !list_linked(&at->measure))
		list_append(&d->measure.wanted, &at->measure);
	keep_on(&d->measure.between, &at->between, r->between);
	keep_on(&d->measure.open, &at->open, residual_open(r));
	count_flux(at, residual_in_flux(r), residual_owed(r));
}

static void step(struct guest_device *at, enum residual_verb verb, uint64_t bytes,
		 const struct residual_moment *moment)
{
	struct residual_event event = {.verb = verb, .bytes = bytes, .moment = moment};

	act(at, residual_step(&at->residual, &event));
}

void measure_tell(struct guest_device *at, enum residual_verb verb, uint64_t bytes)
{
	step(at, verb, bytes, NULL);
	if (verb == RESIDUAL_HUNG_UP)
		list_remove(&at->answer);
}

void measure_forget(struct guest_device *at)
{
	list_remove(&at->measure);
	list_remove(&at->between);
	list_remove(&at->open);
	list_remove(&at->answer);
	count_flux(at, false, false);
}

/* ---- a moment -------------------------------------------------------------------------------- */

static uint64_t load(const uint64_t *place)
{
	return __atomic_load_n(place, __ATOMIC_RELAXED);
}

/* How often what the guest holds has changed; RESIDUAL_CHANGING while it is changing, and while its
 * messages about created or destroyed contexts have not been read yet. */
static uint64_t changes_of(const struct guest *g)
{
	uint64_t settles = __atomic_load_n(&g->own->settles, __ATOMIC_SEQ_CST);
	uint64_t ended = __atomic_load_n(&g->own->changes_ended, __ATOMIC_SEQ_CST);
	uint64_t begun = __atomic_load_n(&g->own->changes_begun, __ATOMIC_SEQ_CST);

	/* It has not stated what it holds yet, and its page does not cover that until then. */
	if (!g->stated && g->caller)
		return RESIDUAL_CHANGING;
	return begun != ended || settles > g->settles ? RESIDUAL_CHANGING : begun;
}

static uint64_t says_mapped(const struct wire_own_page *own, size_t i)
{
	uint64_t stocked = load(&own->stocked_bytes[i]);
	uint64_t allocated = __atomic_load_n(&own->device[i].allocated_bytes, __ATOMIC_ACQUIRE);

	return stocked > UINT64_MAX - allocated ? UINT64_MAX : allocated + stocked;
}

/* `changes_first`: the changes are read before everything else at the beginning of a measurement,
 * and after everything else at its end, so that no change in between is missed. */
static struct residual_moment moment_of(const struct guest_device *at, bool changes_first)
{
	const struct guest *g = at->guest;
	const struct wire_own_page *own = g->own;
	size_t i = (size_t)(at - g->device);
	uint64_t changes = changes_of(g), others = load(&own->others[i]);
	struct ledger_sums has;
	struct residual_moment now;

	ledger_holder_sums(at->holder, &has);
	now = (struct residual_moment){
		/* Whether the program uses it or not. */
		.allocated = says_mapped(own, i),
		.adrift = load(&own->adrift_bytes[i]),
		.loose = load(&own->loose_bytes[i]),
		.contexts = load(&own->device[i].contexts),
		.others = others ? others - 1 : RESIDUAL_UNSAID,
		/* The allocated amount in its page covers only what is on the device. */
		.granted = has.granted - has.evicted};
	now.changes = changes_first ? changes : changes_of(g);
	return now;
}

/* ---- what the driver says -------------------------------------------------------------------- */

/* In use, and listed for no process: the larger of two figures, from before and after the list. */
static uint64_t nobodys(const struct daemon *d, uint32_t device, uint64_t before, uint64_t after)
{
	const struct nvml_process *rows = &d->measure.rows[(size_t)device * DAEMON_GUESTS];
	uint64_t listed = 0;

	for (uint32_t i = 0; i < d->measure.row_count[device]; i++)
		listed += rows[i].used_bytes;
	return beyond(most(before, after), listed);
}

/* Runs on the worker. It only asks the driver. */
static void ask_driver(struct loop_work *work)
{
	struct daemon *d = container_of(work, struct daemon, measure.work);

	for (uint32_t i = 0; i < d->places; i++) {
		struct nvml_process *rows = &d->measure.rows[(size_t)i * DAEMON_GUESTS];

		uint64_t before;

		if (!d->measure.measured[i])
			continue;
		before = nvml_used(d->nvml, i);
		d->measure.measured[i] = nvml_processes(d->nvml, i, rows, DAEMON_GUESTS,
							&d->measure.row_count[i]) == 0;
		if (!d->measure.measured[i])
			continue;
		d->measure.answered[i] = true;
		d->measure.nobody[i] = nobodys(d, i, before, nvml_used(d->nvml, i));
		nvml_rows_sort(rows, d->measure.row_count[i], sizeof(*rows));
	}
	drift_ask(d);
}

struct nvml_process *measure_row(struct daemon *d, uint32_t device, uint32_t row)
{
	return &d->measure.rows[(size_t)device * DAEMON_GUESTS + row];
}

/* The first row of a process, or of the next process. */
static uint32_t first_row(const struct daemon *d, uint32_t device, pid_t pid)
{
	const struct nvml_process *rows = &d->measure.rows[(size_t)device * DAEMON_GUESTS];

	return nvml_rows_first(rows, d->measure.row_count[device], sizeof(*rows), (uint32_t)pid);
}

void measure_mark(struct daemon *d, uint32_t device, pid_t pid)
{
	uint32_t row = first_row(d, device, pid);

	if (row < d->measure.row_count[device] && measure_row(d, device, row)->pid == (uint32_t)pid)
		measure_row(d, device, row)->guest = true;
}

/* A process may have several rows. */
static uint64_t used_by(const struct daemon *d, uint32_t device, pid_t pid)
{
	const struct nvml_process *rows = &d->measure.rows[(size_t)device * DAEMON_GUESTS];
	uint32_t low = first_row(d, device, pid);
	uint64_t sum = 0;

	for (; low < d->measure.row_count[device] && rows[low].pid == (uint32_t)pid; low++)
		sum += rows[low].used_bytes;
	return sum;
}

static void end_measuring(struct daemon *d, struct guest_device *at)
{
	uint32_t device = device_of(at);
	bool looks = at->residual.measuring == RESIDUAL_QUIETLY;
	uint64_t charge = residual_charge(&at->residual), used;
	struct residual_moment now;

	list_remove(&at->measure);
	/* The peak belongs to the former residual, not to the new one. */
	book_refresh_guest(at->guest);
	if (!d->measure.measured[device]) {
		step(at, RESIDUAL_FAILS, 0, NULL);
		watch_measured(at, false, false);
		return;
	}
	used = used_by(d, device, at->guest->pid);
	now = moment_of(at, false);
	if (used != at->residual.used || now.changes != at->seen_changes)
		watch_stirred(at->guest->tenant);
	at->seen_changes = now.changes;
	step(at, RESIDUAL_ENDS, used, &now);
	watch_measured(at,
		       looks && now.changes != RESIDUAL_CHANGING &&
			       now.changes == at->residual.first.changes,
		       looks && residual_charge(&at->residual) != charge);
}

void measure_each(struct daemon *d, void (*what)(struct guest_device *at))
{
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			for (uint32_t i = 0; i < t->devices; i++)
				what(&g->device[i]);
		}
	}
}

/* ---- when ------------------------------------------------------------------------------------ */

void measure_arm_again(struct daemon *d)
{
	if (list_empty(&d->measure.between)) {
		loop_disarm(&d->measure.again_timer);
		d->measure.again_ms = AGAIN_FIRST_MS;
		return;
	}
	loop_arm(&d->measure.again_timer, d->measure.again_ms * ms);
}

static void on_again(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, measure.again_timer);

	d->measure.again_ms =
		d->measure.again_ms * 2 > AGAIN_LAST_MS ? AGAIN_LAST_MS : d->measure.again_ms * 2;
	list_for_each(link, &d->measure.between)
		step(list_entry(link, struct guest_device, between), RESIDUAL_RETRIED, 0, NULL);
	measure_start(d);
}

void measure_reopen(struct daemon *d)
{
	list_for_each(link, &d->measure.open)
		step(list_entry(link, struct guest_device, open), RESIDUAL_RETRIED, 0, NULL);
}

void measure_asker(struct guest_device *at, uint64_t bytes)
{
	struct daemon *d = daemon_of(at);

	if (list_empty(&d->measure.open) || ledger_fits(d->book.ledger, at->holder, bytes))
		return;
	measure_reopen(d);
	measure_start(d);
}

static void on_late(struct loop_timer *timer)
{
	measure_is_late(container_of(timer, struct daemon, measure.timer));
}

static void on_measured(struct loop_work *work)
{
	measure_has_ended(container_of(work, struct daemon, measure.work));
}

void measure_end_running(struct daemon *d)
{
	while (!list_empty(&d->measure.running))
		end_measuring(d, list_entry(d->measure.running.next, struct guest_device, measure));
}

static bool samples_are_wanted(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->device[i].alike.asks)
			return true;
	return false;
}

bool measure_under_way(const struct daemon *d)
{
	return d->measure.work.busy && !d->measure.late;
}

void measure_start(struct daemon *d)
{
	if (d->stopping || d->measure.work.busy ||
	    (list_empty(&d->measure.wanted) && !d->outside.wanted && !samples_are_wanted(d)))
		return;
	d->measure.begun++;
	/* A question for samples alone says nothing about memory: no ask has waited for it. */
	d->measure.of_memory = !list_empty(&d->measure.wanted) || d->outside.wanted;
	d->measure.began_ns = loop_now_ns();
	for (uint32_t i = 0; i < ARRAY_SIZE(d->measure.measured); i++)
		d->measure.measured[i] = i < d->devices && d->outside.wanted;
	d->outside.wanted = false;
	while (!list_empty(&d->measure.wanted)) {
		struct guest_device *at =
			list_entry(d->measure.wanted.next, struct guest_device, measure);
		struct residual_moment now = moment_of(at, true);

		list_remove(&at->measure);
		list_append(&d->measure.running, &at->measure);
		step(at, RESIDUAL_BEGINS, 0, &now);
		d->measure.measured[device_of(at)] = true;
	}
	drift_want(d);
	loop_arm(&d->measure.timer, LATE_MS * ms);
	best_effort(loop_work(&d->loop, &d->measure.work, ask_driver, on_measured));
}

static void ask_stated(struct guest_device *at)
{
	if (at->stated)
		step(at, RESIDUAL_ASKED, 0, NULL);
}

void measure_all(struct daemon *d)
{
	measure_each(d, ask_stated);
	measure_start(d);
}

int measure_open(struct daemon *d)
{
	int r;

	d->measure.again_ms = AGAIN_FIRST_MS;
	list_init(&d->measure.wanted);
	list_init(&d->measure.running);
	list_init(&d->measure.between);
	list_init(&d->measure.open);
	list_init(&d->measure.answers);
	/* Not cleared, so that unused rows take no memory. */
	d->measure.rows =
		reallocarray(NULL, (size_t)d->places * DAEMON_GUESTS + 1, sizeof(*d->measure.rows));
	if (!d->measure.rows)
		return -ENOMEM;
	r = loop_timer_init(&d->loop, &d->measure.timer, on_late);
	if (r == 0)
		r = loop_timer_init(&d->loop, &d->measure.again_timer, on_again);
	return r;
}

void measure_close(struct daemon *d)
{
	loop_timer_close(&d->measure.timer, NULL);
	loop_timer_close(&d->measure.again_timer, NULL);
	free(d->measure.rows);
	d->measure.rows = NULL;
}
