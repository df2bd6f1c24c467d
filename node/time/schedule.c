/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out what core/turns/turns.h decides: tells it which tenants want which device, opens and
 * closes gates, and shows guests how they take part. Its clock is the guests' clock: monotonic time
 * divided by the simulator's dilation.
 */
#include "node/time/schedule.h"

#include <string.h>

#include "base/least.h"
#include "core/gate.h"
#include "node/daemon.h"
#include "node/events.h"
#include "node/memory/native.h"
#include "node/move/move.h"
#include "node/process.h"
#include "node/tenants/guest_send.h"
#include "node/tenants/nested.h"
#include "node/time/gate.h"
#include "node/time/hang.h"
#include "node/time/late.h"
#include "node/time/owed.h"
#include "node/time/pace.h"
#include "node/time/samples.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

enum { STOPPED_LOOKS = 16 }; /* at processes of a tenant, each time */

static struct tenant_device *owner_of(const struct turns_seat *seat)
{
	return seat->owner;
}

static void apply(struct tenant_device *at)
{
	tenant_gate_apply(at->tenant, tenant_index(at));
}

/* May the tenant's work be waiting for one of its own threads, or for us? Then the tenant is not to
 * blame. Guests may claim anything: a false claim costs their own tenant its share. */
static bool stands(const struct tenant_device *at)
{
	uint32_t device = tenant_index(at);

	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);
		bool owes = g->device[device].owes_drain;

		if (__atomic_load_n(&g->own->waiting, __ATOMIC_RELAXED) ||
		    (owes && (g->expected || __atomic_load_n(&g->own->captures, __ATOMIC_RELAXED))))
			return true;
	}
	return false;
}

/* Does all that its processes have on the device wait for something outside of it? They may claim
 * that, as they may claim that they have drained. A claim counts once: a process that is stopped
 * does not repeat it, while its work goes on. One that has not come back yet has no page. */
static bool is_held(const struct tenant_device *at)
{
	uint32_t device = tenant_index(at);
	uint64_t epoch = at->tenant->shown->device[device].epoch;
	bool any = false;

	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);
		struct wire_own_page *own = g->page.memory;

		if (!g->device[device].owes_drain)
			continue;
		if (!own || __atomic_exchange_n(&own->held[device], 0, __ATOMIC_RELAXED) != epoch)
			return false;
		any = true;
	}
	return any;
}

/* Is a process of it that has not drained stopped (a debugger, Ctrl+Z, a control group that is
 * frozen)? Nothing is heard of it, and what it has on the device goes on. Once that drain is given
 * up another process may have a thread at the gate, which is let in as ever. */
static bool is_stopped(const struct tenant_device *at)
{
	uint32_t device = tenant_index(at);
	unsigned looks = STOPPED_LOOKS;
	bool any = false;

	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);
		bool waits = __atomic_load_n(&g->own->waiting, __ATOMIC_RELAXED);

		if (!g->device[device].owes_drain && !waits)
			continue;
		/* It has not come back after a restart: that is what is waited for. */
		if (g->expected)
			return false;
		/* One of the rest may have a thread at the gate. */
		if (!looks--)
			return any && at->seat.gate != TURNS_OWING;
		if (process_is_stopped(at->tenant->daemon->looks, g->pid))
			any |= g->device[device].owes_drain;
		else if (waits && at->seat.gate == TURNS_OWING)
			return false;
	}
	return any;
}

static void assume_busy(struct tenant_device *at)
{
	uint32_t index = tenant_index(at);

	list_for_each(one, &at->tenant->guests) list_entry(one, struct guest, link)
		->device[index]
		.idle = false;
}

/* While a device is open nobody is charged there, and most devices are always open. Without memory
 * for its rates they are shown as zero. */
static void keep_rates(struct tenant_device *at)
{
	if (!at->seat.rates)
		at->seat.rates = calloc(1, sizeof(*at->seat.rates));
}

/* Turns begin or end on a device. Its tenants have not reported yet whether they are busy. */
static void change_mode(struct device *device, uint64_t now)
{
	device->shown_governed = device->turns.governed;
	list_for_each(link, &device->tenants)
	{
		struct tenant_device *at = list_entry(link, struct tenant_device, link);
		uint32_t index = tenant_index(at);

		if (!at->seated)
			continue;
		if (device->shown_governed)
			keep_rates(at);
		/* Guests that have reported it already do not repeat it. */
		if (!at->tenant->shown->turns[index].reports || !pace_listens(at))
			assume_busy(at);
		turns_wants(&at->seat, now);
		if (!schedule_is_busy(at))
			turns_idle(&at->seat, now);
		alike_wants(&at->alike, schedule_is_busy(at), now);
		pace_show(at, true);
	}
}

/* Tells the machines that ask whether it wants the device, turns or not. */
static void tell_wants(struct tenant_device *at, bool wants, uint64_t now)
{
	move_wants(at, wants, now);
	alike_wants(&at->alike, wants, now);
}

static void escalate(struct tenant_device *at, enum turns_verb verb)
{
	if (verb == TURNS_KILL) {
		hang_log(at, "tenant.killed");
		events_at(at, HAPPENED_KILLED,
			  "its work did not end, and its processes were killed for that "
			  "(escalate=kill)");
		hang_kill(at->tenant);
		return;
	}
	hang_log(at, "tenant.suspended_by_share");
	events_at(at, HAPPENED_HALTED,
		  "its work did not end, and it is suspended for that (escalate=suspend)");
	for (uint32_t i = 0; i < at->tenant->devices; i++)
		tenant_gate_apply(at->tenant, i);
}

/* Once, for a tenant that is so again and again. */
static void log_beside(struct tenant_device *at)
{
	if (!at->logged_beside)
		hang_log(at, "tenant.beside");
	at->logged_beside = true;
}

static void judge_late(struct tenant_device *at, uint64_t now)
{
	if (late_is_excused(at, now))
		return;
	if (is_held(at))
		turns_held(&at->seat, stands(at), now);
	else if (turns_may_be_stopped(&at->seat) && is_stopped(at))
		turns_stopped(&at->seat, stands(at), now);
	else
		turns_late(&at->seat, stands(at), now);
	owed_note(at);
}

static void act(const struct turns_action *action, uint64_t now)
{
	struct tenant_device *at = owner_of(action->seat);

	switch (action->verb) {
	case TURNS_OPEN:
		pace_show(at, false);
		apply(at);
		/* Its guests may have sent IDLE while the gate was closed, and do not repeat it. */
		if (!schedule_is_busy(at))
			turns_idle(&at->seat, now);
		tell_wants(at, schedule_is_busy(at), now);
		break;
	case TURNS_CLOSE:
		apply(at);
		late_begins(at);
		break;
	case TURNS_LATE:
		judge_late(at, now);
		break;
	case TURNS_COUPLED:
		hang_log(at, "tenant.coupled");
		break;
	case TURNS_BESIDE:
		log_beside(at);
		break;
	case TURNS_UNCOUPLED:
		at->logged_beside = false;
		break;
	case TURNS_AWAITS:
		hang_log(at, "tenant.awaits");
		break;
	case TURNS_REPORT:
		hang_log(at, "tenant.hangs");
		waits_look(at);
		break;
	case TURNS_SUSPEND:
	case TURNS_KILL:
		escalate(at, action->verb);
		break;
	}
}

/* Performs all pending actions. A gate that closes at once has drained before the next action is
 * requested. */
static void act_all(struct daemon *d, uint64_t now)
{
	struct turns_action action;

	while (turns_next(&d->schedule.turns, &action))
		act(&action, now);
}

/* Returns true if turns have begun or ended on a device. They may then begin or end on another. */
static bool change_modes(struct daemon *d, uint64_t now)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		if (d->device[i].turns.governed == d->device[i].shown_governed)
			continue;
		change_mode(&d->device[i], now);
		return true;
	}
	return false;
}

/* Called after every event. */
static void pump(struct daemon *d, uint64_t now)
{
	uint64_t deadline;

	if (d->schedule.pumping)
		return;
	d->schedule.pumping = true;
	do
		act_all(d, now);
	while (samples_step(d, now) || change_modes(d, now) || move_step(d, now));
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->device[i].turns.holder)
			pace_show(owner_of(d->device[i].turns.holder), true);
	d->schedule.pumping = false;
	deadline = least(turns_deadline(&d->schedule.turns), d->schedule.again_ns);
	if (move_deadline(d) < deadline)
		deadline = move_deadline(d);
	if (samples_deadline(d) < deadline)
		deadline = samples_deadline(d);
	loop_alarm_set(&d->schedule.alarm, deadline > UINT64_MAX / d->clock_dilation
						   ? UINT64_MAX
						   : deadline * d->clock_dilation);
}

static void on_alarm(struct loop_alarm *alarm)
{
	struct daemon *d = container_of(alarm, struct daemon, schedule.alarm);
	uint64_t now;

	lost_look(d);
	now = schedule_now(d);
	turns_tick(&d->schedule.turns, now);
	late_tick(d, now, judge_late);
	move_tick(d, now);
	samples_tick(d, now);
	pump(d, now);
}

void schedule_pump(struct daemon *d)
{
	pump(d, schedule_now(d));
}

void schedule_at_once(struct daemon *d, uint32_t device, bool at_once)
{
	uint64_t now = schedule_now(d);

	turns_at_once(&d->device[device].turns, at_once, now);
	native_device(d, device);
	pump(d, now);
}

void schedule_listen(struct tenant_device *at, uint64_t now)
{
	const struct wire_tenant_turns *shown = &at->tenant->shown->turns[tenant_index(at)];
	bool said = shown->reports;

	pace_show(at, true);
	if (shown->reports && !said) {
		assume_busy(at);
		tell_wants(at, true, now);
	}
}

int schedule_open(struct daemon *d)
{
	turns_init(&d->schedule.turns, &turns_usual);
	d->schedule.again_ns = UINT64_MAX;
	for (uint32_t i = 0; i < d->places; i++) {
		uint32_t order = i < d->devices ? 0 : i; /* later devices are behind */

		for (uint32_t k = 0; i < d->devices && k < d->devices; k++)
			order += memcmp(d->device[k].info->uuid, d->device[i].info->uuid,
					sizeof(d->device[i].info->uuid)) < 0;
		turns_device_init(&d->schedule.turns, &d->device[i].turns, order);
	}
	samples_open(d);
	return loop_alarm_init(&d->loop, &d->schedule.alarm, on_alarm);
}

void schedule_close(struct daemon *d)
{
	loop_alarm_close(&d->schedule.alarm);
}

void schedule_tenant(struct tenant *t)
{
	struct turns_share share;
	struct share own;

	nested_share(t, &own);
	turns_share_of(&own, &share);
	turns_tenant_init(&t->daemon->schedule.turns, &t->turns, &share);
	for (uint32_t i = 0; i < t->devices; i++)
		turns_place(&t->device[i].seat, &t->turns,
			    &t->daemon->device[t->device[i].index].turns);
}

void schedule_set(struct tenant *t)
{
	uint64_t now = schedule_now(t->daemon);
	struct turns_share share;
	struct share own;

	nested_share(t, &own);
	turns_share_of(&own, &share);
	turns_set(&t->turns, &share, now);
	move_set(t);
	/* A tenant whose memory moves from now on has stated before whether it wants to run. */
	for (uint32_t i = 0; i < t->devices; i++)
		tell_wants(&t->device[i], schedule_is_busy(&t->device[i]), now);
	/* The person who changes the share knows why it was suspended. */
	for (uint32_t i = 0; i < t->devices; i++)
		tenant_gate_apply(t, i);
	pump(t->daemon, now);
}

/* A tenant takes part as soon as it has a process. */
static void sit(struct tenant *t, uint64_t now)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct tenant_device *at = &t->device[i];
		struct turns_device *turns = &t->daemon->device[at->index].turns;
		bool is_open = t->shown->device[i].gate != WIRE_GATE_CLOSED;

		at->seated = true;
		turns_join(&at->seat, &t->turns, turns, at, is_open, now);
		if (turns->governed)
			keep_rates(at);
		samples_sit(at, now);
		move_sit(at, now);
		/* If this gate is open, it closes before the join opens another one. */
		pump(t->daemon, now);
	}
}

static void stand_up(struct tenant *t, uint64_t now)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct tenant_device *at = &t->device[i];

		if (!at->seated)
			continue;
		at->seated = at->logged_beside = false;
		if (at->test == GATE_TEST_FAILED)
			at->test = GATE_UNTESTED;
		move_stand_up(at, now);
		turns_leave(&at->seat, now);
		free(take(at->seat.rates));
		samples_stand_up(at, now);
		pace_show(at, false);
		tenant_gate_apply(t, i);
	}
}

void schedule_guests(struct tenant *t)
{
	uint64_t now = schedule_now(t->daemon);

	if (!t->guest_count)
		stand_up(t, now);
	else if (!t->device[0].seated)
		sit(t, now);
	for (uint32_t i = 0; i < t->devices && t->guest_count; i++) {
		turns_uneven(&t->device[i].seat, t->guest_count > 1, now);
		if (schedule_is_busy(&t->device[i]))
			turns_wants(&t->device[i].seat, now);
		else
			turns_idle(&t->device[i].seat, now);
		tell_wants(&t->device[i], schedule_is_busy(&t->device[i]), now);
	}
	pump(t->daemon, now);
}

void schedule_joined(struct guest *g)
{
	for (uint32_t i = 0; i < g->tenant->devices; i++)
		g->device[i].idle = false;
	schedule_guests(g->tenant);
}

void schedule_wants(struct guest *g, uint32_t device)
{
	struct tenant *t = g->tenant;
	bool was_open = t->shown->device[device].gate == WIRE_GATE_OPEN;
	uint64_t now = schedule_now(t->daemon);

	g->device[device].idle = false;
	if (!t->device[device].seated)
		return;
	turns_wants(&t->device[device].seat, now);
	tell_wants(&t->device[device], true, now);
	pump(t->daemon, now);
	if (gate_has_memory(tenant_gate_reasons(&t->device[device])))
		waits_look(&t->device[device]);
	/* A thread sent this while the gate was open. Its agent sleeps until a message arrives. */
	if (was_open && t->shown->device[device].gate == WIRE_GATE_OPEN &&
	    t->shown->turns[device].reports)
		pace_tell(g, device);
}

void schedule_idle(struct guest *g, uint32_t device)
{
	struct tenant *t = g->tenant;
	uint64_t now = schedule_now(t->daemon);

	/* Sent before turns began or ended: the guest may be busy again. */
	if (!t->device[device].seated || !t->shown->turns[device].reports)
		return;
	g->device[device].idle = true;
	if (schedule_is_busy(&t->device[device]))
		return;
	turns_idle(&t->device[device].seat, now);
	tell_wants(&t->device[device], false, now);
	pump(t->daemon, now);
}

void schedule_drained(struct tenant_device *at)
{
	struct daemon *d = at->tenant->daemon;
	uint64_t now = schedule_now(d);

	if (!at->seated)
		return;
	turns_drained(&at->seat, schedule_is_busy(at), now);
	owed_note(at);
	tell_wants(at, schedule_is_busy(at), now);
	pump(d, now);
}
