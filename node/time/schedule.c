/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out what core/turns/turns.h decides: tells it which tenants want which device, opens and
 * closes gates, and shows guests how they take part. Its clock is the guests' clock: monotonic time
 * divided by the simulator's dilation.
 */
#include "node/time/schedule.h"
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/gate.h"
#include "node/daemon.h"
#include "node/guest.h"
#include "node/memory/measure.h"
#include "node/nested.h"
#include "node/time/samples.h"

static const uint64_t us = 1000, ms = 1000000;

enum {
	FLIGHT_MS = 20,		 /* work that may be under way while no other tenant waits, */
	FLIGHT_CONTENDED_MS = 4, /* ... while one waits, */
	FLIGHT_BATCH_MS = 1,	 /* ... and while a tenant takes part that always comes first */
	GRACE_US = 300,		 /* how long a guest is silent before it reports IDLE, */
	GRACE_CONTENDED_US = 50, /* ... while another tenant waits */
};

uint64_t schedule_now(const struct daemon *d)
{
	return loop_now_ns() / d->clock_dilation;
}

static struct tenant_device *owner_of(const struct turns_seat *seat)
{
	return seat->owner;
}

static void apply(struct tenant_device *at)
{
	tenant_gate_apply(at->tenant, tenant_index(at));
}

bool schedule_is_busy(const struct tenant_device *at)
{
	uint32_t device = tenant_index(at);

	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		if (!list_entry(link, struct guest, link)->device[device].idle)
			return true;
	}
	return false;
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

/* Guests may read while this writes: they act on each word by itself. */
static bool show(struct wire_tenant_turns *shown, const struct wire_tenant_turns *pace)
{
	bool changed = shown->say != pace->say || shown->contended != pace->contended ||
		       shown->flight_ns != pace->flight_ns || shown->grace_ns != pace->grace_ns;

	__atomic_store_n(&shown->grace_ns, pace->grace_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->flight_ns, pace->flight_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->contended, pace->contended, __ATOMIC_RELAXED);
	/* A guest may not have seen that turns ended in between. */
	if (pace->say && !shown->say)
		__atomic_fetch_add(&shown->began, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->say, pace->say, __ATOMIC_SEQ_CST);
	return changed;
}

static void tell_pace(struct guest *g, uint32_t device)
{
	struct wire_message message;

	if (!g->caller)
		return;
	wire_begin(&message, WIRE_pace, peer_new_id(&g->caller->peer));
	message.pace.device = device;
	guest_send(g, &message);
}

static void tell_pace_to_all(struct tenant *t, uint32_t device)
{
	list_for_each(link, &t->guests) tell_pace(list_entry(link, struct guest, link), device);
}

/* How much work may be under way that others would have to wait for. */
static uint64_t flight_ns(const struct turns_seat *seat, bool contended)
{
	/* Each of its processes is told its part. */
	uint64_t processes = owner_of(seat)->tenant->guest_count;

	if (!processes)
		processes = 1;
	if (seat->tenant->share.class != SHARE_INTERACTIVE &&
	    seat->device->classes[SHARE_INTERACTIVE])
		return FLIGHT_BATCH_MS * ms / processes;
	return (contended ? FLIGHT_CONTENDED_MS : FLIGHT_MS) * ms / processes;
}

static uint32_t contended_bits(const struct tenant_device *at)
{
	if (!at->seat.device->waiting)
		return 0;
	return WIRE_CONTENDED | (schedule_is_coupled(at) ? (uint32_t)WIRE_COUPLED : 0);
}

/* Its guests must say when they are idle, although there are no turns. */
static bool listens(const struct tenant_device *at)
{
	return move_listens(at) || samples_listens(at);
}

/* Shows the seat's guests how they take part. `tell`: also sends PACE, as no GATE follows that
 * would tell them. */
static void pace(struct tenant_device *at, bool tell)
{
	uint32_t device = tenant_index(at);
	const struct turns_seat *seat = &at->seat;
	struct wire_tenant_turns now = {0};

	if (at->seated && !seat->device->governed && listens(at)) {
		now.say = 1;
		now.grace_ns = GRACE_US * us;
		now.flight_ns = samples_bounds(at) ? flight_ns(seat, true) : 0;
	}
	if (at->seated && seat->device->governed) {
		now.say = 1;
		now.contended = contended_bits(at);
		now.flight_ns = flight_ns(seat, now.contended);
		now.grace_ns = (now.contended ? GRACE_CONTENDED_US : GRACE_US) * us;
	}
	if (show(&at->tenant->shown->turns[device], &now) && tell)
		tell_pace_to_all(at->tenant, device);
}

static void assume_busy(struct tenant_device *at)
{
	uint32_t index = tenant_index(at);

	list_for_each(one, &at->tenant->guests) list_entry(one, struct guest, link)
		->device[index]
		.idle = false;
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
		/* Guests that have reported it already do not repeat it. */
		if (!at->tenant->shown->turns[index].say || !listens(at))
			assume_busy(at);
		turns_wants(&at->seat, now);
		if (!schedule_is_busy(at))
			turns_idle(&at->seat, now);
		alike_wants(&at->alike, schedule_is_busy(at), now);
		pace(at, true);
	}
}

/* Tells those who ask whether it wants the device, turns or not. */
static void tell_wants(struct tenant_device *at, bool wants, uint64_t now)
{
	move_wants(at, wants, now);
	alike_wants(&at->alike, wants, now);
}

/* Uses the pidfds, so that no other process can be hit. */
static void kill_guests(struct tenant *t)
{
	list_for_each(link, &t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);

		syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0);
	}
}

static void log_of(const struct tenant_device *at, const char *event)
{
	log_warning(event, "tenant=%u name=%s device=%u", at->tenant->id,
		    log_text(at->tenant->name).text, at->index);
}

static void escalate(struct tenant_device *at, enum turns_verb verb)
{
	if (verb == TURNS_KILL) {
		log_of(at, "tenant.killed");
		kill_guests(at->tenant);
		return;
	}
	log_of(at, "tenant.suspended");
	for (uint32_t i = 0; i < at->tenant->devices; i++)
		tenant_gate_apply(at->tenant, i);
}

/* Once, for a tenant that is so again and again. */
static void say_beside(struct tenant_device *at)
{
	if (!at->said_beside)
		log_of(at, "tenant.beside");
	at->said_beside = true;
}

static void act(const struct turns_action *action, uint64_t now)
{
	struct tenant_device *at = owner_of(action->seat);

	switch (action->verb) {
	case TURNS_OPEN:
		pace(at, false);
		apply(at);
		/* Its guests may have sent IDLE while the gate was closed, and do not repeat it. */
		if (!schedule_is_busy(at))
			turns_idle(&at->seat, now);
		tell_wants(at, schedule_is_busy(at), now);
		break;
	case TURNS_CLOSE:
		apply(at);
		break;
	case TURNS_LATE:
		turns_late(&at->seat, stands(at), now);
		break;
	case TURNS_COUPLED:
		log_of(at, "tenant.coupled");
		break;
	case TURNS_BESIDE:
		say_beside(at);
		break;
	case TURNS_UNCOUPLED:
		at->said_beside = false;
		break;
	case TURNS_REPORT:
		log_of(at, "tenant.hangs");
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

	while (turns_next(&d->turns, &action))
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

	if (d->scheduling)
		return;
	d->scheduling = true;
	do
		act_all(d, now);
	while (samples_step(d, now) || change_modes(d, now) || move_step(d, now));
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->device[i].turns.holder)
			pace(owner_of(d->device[i].turns.holder), true);
	d->scheduling = false;
	deadline = turns_deadline(&d->turns);
	if (move_deadline(d) < deadline)
		deadline = move_deadline(d);
	if (samples_deadline(d) < deadline)
		deadline = samples_deadline(d);
	loop_alarm_set(&d->turns_alarm, deadline > UINT64_MAX / d->clock_dilation
						? UINT64_MAX
						: deadline * d->clock_dilation);
}

static void on_alarm(struct loop_alarm *alarm)
{
	struct daemon *d = container_of(alarm, struct daemon, turns_alarm);
	uint64_t now = schedule_now(d);

	turns_tick(&d->turns, now);
	move_tick(d, now);
	samples_tick(d, now);
	pump(d, now);
}

void schedule_pump(struct daemon *d)
{
	pump(d, schedule_now(d));
}

void schedule_listen(struct tenant_device *at, uint64_t now)
{
	const struct wire_tenant_turns *shown = &at->tenant->shown->turns[tenant_index(at)];
	bool said = shown->say;

	pace(at, true);
	if (shown->say && !said) {
		assume_busy(at);
		tell_wants(at, true, now);
	}
}

void schedule_stuck(struct tenant_device *at)
{
	if (at->tenant->share.escalate != SHARE_KILL)
		return;
	log_of(at, "tenant.killed");
	kill_guests(at->tenant);
}

int schedule_open(struct daemon *d)
{
	turns_init(&d->turns, &turns_usual);
	for (uint32_t i = 0; i < d->devices; i++) {
		uint32_t order = 0;

		for (uint32_t k = 0; k < d->devices; k++)
			order += memcmp(d->device[k].info->uuid, d->device[i].info->uuid,
					sizeof(d->device[i].info->uuid)) < 0;
		turns_device_init(&d->turns, &d->device[i].turns, order);
	}
	samples_open(d);
	return loop_alarm_init(&d->loop, &d->turns_alarm, on_alarm);
}

void schedule_close(struct daemon *d)
{
	loop_alarm_close(&d->turns_alarm);
}

void schedule_tenant(struct tenant *t)
{
	struct turns_share share;
	struct share own;

	nested_share(t, &own);
	turns_share_of(&own, &share);
	turns_tenant_init(&t->daemon->turns, &t->turns, &share);
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
	/* Whose memory moves from now on has said before whether it wants to run. */
	for (uint32_t i = 0; i < t->devices; i++)
		tell_wants(&t->device[i], schedule_is_busy(&t->device[i]), now);
	/* Who changes the share knows why it was suspended. */
	for (uint32_t i = 0; i < t->devices; i++)
		tenant_gate_apply(t, i);
	pump(t->daemon, now);
}

/* A tenant takes part as soon as it has a process. */
static void sit(struct tenant *t, uint64_t now)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct tenant_device *at = &t->device[i];
		bool is_open = t->shown->device[i].gate != WIRE_GATE_CLOSED;

		at->seated = true;
		turns_join(&at->seat, &t->turns, &t->daemon->device[at->index].turns, at, is_open,
			   now);
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
		at->seated = at->said_beside = false;
		if (at->test == GATE_TEST_FAILED)
			at->test = GATE_UNTESTED;
		move_stand_up(at, now);
		turns_leave(&at->seat, now);
		samples_stand_up(at, now);
		pace(at, false);
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
	/* A thread sent this while the gate was open. Its agent sleeps until a message arrives. */
	if (was_open && t->shown->device[device].gate == WIRE_GATE_OPEN &&
	    t->shown->turns[device].say)
		tell_pace(g, device);
}

void schedule_idle(struct guest *g, uint32_t device)
{
	struct tenant *t = g->tenant;
	uint64_t now = schedule_now(t->daemon);

	/* Sent before turns began or ended: the guest may be busy again. */
	if (!t->device[device].seated || !t->shown->turns[device].say)
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
	tell_wants(at, schedule_is_busy(at), now);
	pump(d, now);
}

bool schedule_is_coupled(const struct tenant_device *at)
{
	enum turns_bond bond = at->tenant->turns.bond;

	return at->seated && (bond == TURNS_STEPPED || bond == TURNS_STAYED);
}

/* Of why its gate is not open, what concerns turns. */
static enum wire_turn turn_of(const struct tenant_device *at, uint32_t reasons)
{
	static const struct {
		enum gate_reason reason;
		enum wire_turn turn;
	} turns[] = {
		{GATE_HUNG, WIRE_TURN_HANGS},	 {GATE_CAPPED, WIRE_TURN_CAPPED},
		{GATE_TURN, WIRE_TURN_WAITS},	 {GATE_ENDS, WIRE_TURN_ENDS},
		{GATE_SILENT, WIRE_TURN_SILENT}, {GATE_MEMORY, WIRE_TURN_SILENT},
		{GATE_AWAY, WIRE_TURN_SILENT},	 {GATE_PARKED, WIRE_TURN_SILENT},
	};

	if (gate_has(reasons, GATE_HALTED))
		return WIRE_TURN_SUSPENDED;
	if (!at->seated || !at->seat.device->governed)
		return WIRE_TURN_NONE;
	for (size_t i = 0; i < ARRAY_SIZE(turns); i++)
		if (gate_has(reasons, turns[i].reason))
			return turns[i].turn;
	return WIRE_TURN_RUNS;
}

/* The fields of the share that were set, as they were written. */
static void write_share(const struct tenant *t, wire_text *ret_text)
{
	size_t used = 0;

	for (uint32_t i = 0; i < SHARE_FIELDS && used < sizeof(ret_text->text); i++)
		if (t->texts[i])
			used += (size_t)snprintf(ret_text->text + used,
						 sizeof(ret_text->text) - used, "%s%s=%s",
						 used ? " " : "", share_key(i), t->texts[i]);
}

static uint64_t sum_flight(const struct tenant_device *at)
{
	uint32_t device = tenant_index(at);
	uint64_t sum = 0;

	list_for_each(link, (struct list *)&at->tenant->guests) sum += __atomic_load_n(
		&list_entry(link, struct guest, link)->own->flight_ns[device], __ATOMIC_RELAXED);
	return sum;
}

void schedule_row(struct tenant_device *at, struct wire_tenant_row *ret_row)
{
	struct turns_seat *seat = &at->seat;
	uint64_t now = schedule_now(at->tenant->daemon);

	ret_row->reasons = tenant_gate_reasons(at);
	ret_row->turn = turn_of(at, ret_row->reasons);
	write_share(at->tenant, &ret_row->share);
	if (!at->seated)
		return;
	turns_settle(seat, now);
	ret_row->governed = seat->device->governed;
	ret_row->turns = seat->turns;
	ret_row->waits = seat->waits;
	ret_row->waited = seat->waited_ns;
	ret_row->longest_wait = seat->longest_ns;
	ret_row->charged = seat->charged_ns;
	ret_row->entitled = seat->entitled_ns;
	ret_row->charged_1s = turns_rate_1s(&seat->charged, now);
	ret_row->entitled_1s = turns_rate_1s(&seat->entitled, now);
	ret_row->charged_60s = turns_rate_60s(&seat->charged, now);
	ret_row->entitled_60s = turns_rate_60s(&seat->entitled, now);
	ret_row->flight = sum_flight(at);
	drift_row(at, ret_row);
}
