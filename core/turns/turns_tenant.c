/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's path through its turn: it joins the line of one device after the other, claims them,
 * runs on all of them together, and ends. core/turns/turns_judge.c decides when.
 */
#include "core/turns/turns_machine.h"

uint32_t turns_tenant_governed(const struct turns_tenant *t)
{
	uint32_t count = 0;

	list_for_each(link, (struct list *)&t->seats) count += !is_free(SEAT_OF_TENANT(link));
	return count;
}

void turns_tenant_timer(struct turns_tenant *t, uint64_t now_ns)
{
	if (t->state == TURNS_RUNNING) {
		turns_tenant_judge(t, now_ns);
	} else if (t->state == TURNS_CAPPED) {
		turns_tenant_recap(t, now_ns);
		if (turns_tenant_seat(t))
			turns_moment_come(turns_tenant_seat(t), now_ns);
	} else if (turns_last_is_watched(t) && now_ns >= t->watched_until_ns) {
		turns_last_is_over(t);
		turns_tenant_enter(t, now_ns);
	}
}

/* ---- standing in line ------------------------------------------------------------------------ */

static bool must_claim(const struct turns_seat *s)
{
	return !is_free(s) && s->device->claimed != s;
}

static void gather(struct turns_tenant *t, uint64_t now_ns);

static void line_up(struct turns_tenant *t, uint64_t now_ns)
{
	t->state = TURNS_LINED;
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!must_claim(s))
			continue;
		turns_seat_activate(s, now_ns);
		turns_line_add(s, now_ns);
		turns_arrive(s, now_ns);
		return;
	}
	gather(t, now_ns);
}

uint64_t turns_tenant_released(struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t latest = 0;

	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!is_free(s))
			latest = most(latest, turns_seat_released(s, now_ns));
	}
	return latest;
}

void turns_tenant_recap(struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t at = most(turns_tenant_released(t, now_ns), turns_await_released(t, now_ns));

	if (at <= now_ns) {
		turns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);
		line_up(t, now_ns);
		return;
	}
	t->state = TURNS_CAPPED;
	turns_timer_set(&t->turns->timers, &t->timer, at);
	list_for_each(link, &t->seats)
	{
		turns_seat_deactivate(SEAT_OF_TENANT(link), false, now_ns);
		turns_moment_await(SEAT_OF_TENANT(link), now_ns);
	}
}

void turns_tenant_enter(struct turns_tenant *t, uint64_t now_ns)
{
	if (t->state != TURNS_IDLE || !t->wants || t->barred || t->suspended ||
	    t->bond == TURNS_HUNG || turns_last_is_watched(t) || !turns_tenant_governed(t))
		return;
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (is_free(s))
			continue;
		turns_device_settle(s->device, now_ns);
		turns_seat_floor(s, s->entitling, now_ns);
		s->wanted_ns = now_ns;
		turns_seat_entitle(s, true, now_ns);
	}
	turns_tenant_recap(t, now_ns);
}

void turns_tenant_withdraw(struct turns_tenant *t, uint64_t now_ns)
{
	if (t->state != TURNS_LINED && t->state != TURNS_READY)
		return;
	t->state = TURNS_IDLE;
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		turns_line_remove(s);
		if (s->device->claimed == s)
			s->device->claimed = NULL;
		turns_seat_deactivate(s, true, now_ns);
	}
	list_for_each(link, &t->seats) turns_device_serve(SEAT_OF_TENANT(link)->device, now_ns);
}

void turns_tenant_expel(struct turns_tenant *t, uint64_t now_ns)
{
	turns_tenant_withdraw(t, now_ns);
	if (t->state == TURNS_CAPPED) {
		t->state = TURNS_IDLE;
		turns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);
	} else if (t->state == TURNS_RUNNING) {
		t->forced = true;
		turns_tenant_judge(t, now_ns);
	} else if (t->state == TURNS_ALONG) {
		turns_company_expel(t, now_ns);
	}
}

/* ---- the beginning --------------------------------------------------------------------------- */

void turns_seat_open(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_device *d = s->device;
	uint64_t waited = now_ns - s->wanted_ns;

	turns_settle(s, now_ns);
	turns_seat_pay_before(s, now_ns);
	turns_timer_set(&d->turns->drains, &s->timer, UINT64_MAX);
	if (s->stray) {
		s->stray = false;
		d->strays--;
	}
	turns_seat_owes_no_more(s);
	s->gate = TURNS_OPENED;
	turns_seat_allow(s, now_ns); /* what it saved up while it stood in line is bounded, too */
	turns_seat_floor(s, true, now_ns);
	s->opened_owing = s->allowance < 0;
	s->moment = s->held = s->stopped = false;
	s->opened_before_ns = s->opened_ns;
	s->opened_ns = s->settled_ns = now_ns;
	s->idle = !s->asks && s->clear;
	s->turns++;
	s->waits += waited > 0;
	s->waited_ns += waited;
	s->longest_ns = most(s->longest_ns, waited);
	turns_seat_todo(s, 0);
}

static void open_seat(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_device *d = s->device;

	if (d->claimed == s)
		d->claimed = NULL;
	d->holder = s;
	s->moments_ns = 0;
	turns_seat_open(s, now_ns);
}

static void start(struct turns_tenant *t, uint64_t now_ns)
{
	t->idle = t->paused = t->forced = t->stepping = t->moment = false;
	t->laden = turns_tenant_owes(t);
	turns_tenant_unhang(t);
	turns_last_runs(t);
	list_for_each(link, &t->seats)
	{
		if (!is_free(SEAT_OF_TENANT(link)))
			open_seat(SEAT_OF_TENANT(link), now_ns);
	}
	turns_company_begin(t, now_ns);
	turns_tenant_begin(t, now_ns);
}

/* All devices are claimed: tenants that fill in on them must leave. */
static void gather(struct turns_tenant *t, uint64_t now_ns)
{
	bool clear = true;

	t->state = TURNS_READY;
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);
		struct turns_tenant *other;

		if (is_free(s))
			continue;
		if (s->device->strays > (s->stray ? 1u : 0u))
			clear = false;
		if (!s->device->holder)
			continue;
		clear = false;
		other = s->device->holder->tenant;
		other->forced = true;
		turns_tenant_judge(other, now_ns);
		if (t->state != TURNS_READY)
			return; /* the other had not begun, and all is done */
	}
	if (clear && turns_tenant_governed(t))
		start(t, now_ns);
}

/* What it was charged while it stood in line (a drain, work beside others) has used up its cap: its
 * turn comes once that is paid. Its work may wait for a thread of its own: so what it has beside
 * others until then is charged only if that ends by itself. Otherwise, where it has more than its
 * cap by that, it would owe more each time, and never have a turn again. */
static bool must_pay(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;
	bool free = turns_held_was_seen(s, now_ns) && turns_tenant_released(t, now_ns) <= now_ns;

	turns_seat_pay_before(s, now_ns);
	if (free || turns_tenant_released(t, now_ns) <= now_ns)
		return false;
	t->lasts = s->moment = false;
	turns_tenant_withdraw(t, now_ns);
	turns_tenant_enter(t, now_ns);
	turns_held_pays(s, turns_tenant_released(t, now_ns), now_ns);
	return true;
}

void turns_device_serve(struct turns_device *d, uint64_t now_ns)
{
	struct turns_seat *s;

	while (d->governed && !d->holder && !d->strays) {
		if (d->claimed && d->claimed->tenant->state == TURNS_READY) {
			gather(d->claimed->tenant, now_ns);
			return;
		}
		if (!d->claimed && turns_moment_begin(d, now_ns))
			return;
		s = d->claimed ? turns_line_best_single(d, now_ns) : turns_line_best(d, now_ns);
		if (!s)
			return;
		if (!d->claimed)
			s = turns_line_before(s, now_ns);
		if (must_pay(s, now_ns))
			continue;
		turns_line_remove(s);
		if (!d->claimed)
			d->claimed = s;
		else
			start(s->tenant, now_ns);
		if (d->claimed == s)
			line_up(s->tenant, now_ns);
	}
}

/* ---- the end --------------------------------------------------------------------------------- */

static void end_seat(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (is_free(s))
		return;
	if (s->gate == TURNS_OPENED && s->device->holder == s &&
	    turns_seat_start_closing(s, false, now_ns)) {
		s->asks = false;
		t->undrained++;
	}
	t->wants |= s->asks;
}

void turns_tenant_end_turn(struct turns_tenant *t, uint64_t now_ns)
{
	turns_tenant_settle(t, now_ns);
	t->state = TURNS_ENDING;
	t->wants = t->forced = t->paused = false;
	t->undrained = 0;
	t->closed_ns = now_ns;
	if (t->moment)
		t->ending_ns = t->company_ns = now_ns;
	if (!t->stepping) {
		turns_company_count(t, now_ns);
		t->ending_ns = t->company_ns = now_ns;
		t->steps = t->trials = 0;
		t->let_in = NULL;
	}
	turns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);
	list_for_each(link, &t->seats) end_seat(SEAT_OF_TENANT(link), now_ns);
	list_for_each(link, &t->seats) turns_company_close(SEAT_OF_TENANT(link), now_ns);
	if (!t->undrained)
		turns_tenant_ended(t, now_ns);
}

void turns_tenant_ended(struct turns_tenant *t, uint64_t now_ns)
{
	turns_tenant_learn(t, now_ns);
	t->state = TURNS_IDLE;
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (is_free(s))
			continue;
		if (now_ns - t->ending_ns >= t->turns->tuning.drain_ns)
			s->device->slow_ns = now_ns;
		if (s->device->holder == s)
			turns_company_pass_on(s, now_ns);
		if (t->wants)
			continue;
		turns_seat_entitle(s, false, now_ns);
		turns_seat_floor(s, true, now_ns);
		turns_seat_deactivate(s, true, now_ns);
	}
	turns_tenant_enter(t, now_ns);
	list_for_each(link, &t->seats) turns_device_serve(SEAT_OF_TENANT(link)->device, now_ns);
}

/* ---- a device less --------------------------------------------------------------------------- */

void turns_tenant_detach(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_device *d = s->device;
	struct turns_tenant *t = s->tenant;

	turns_line_remove(s);
	turns_seat_deactivate(s, true, now_ns);
	turns_timer_set(&d->turns->drains, &s->timer, UINT64_MAX);
	if (d->claimed == s)
		d->claimed = NULL;
	if (s->gate == TURNS_CLOSING && !s->stray && !s->leader)
		t->undrained--;
	if (s->stray)
		d->strays--;
	turns_seat_owes_no_more(s);
	s->stray = s->entitling = false;
	turns_company_detach(s, now_ns);
}

static bool is_lined(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		if (SEAT_OF_TENANT(link)->lined)
			return true;
	}
	return false;
}

static bool holds(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		if (SEAT_OF_TENANT(link)->device->holder == SEAT_OF_TENANT(link))
			return true;
	}
	return false;
}

/* Its debt was on the device that it has left, or that is open now. */
static void fix_debt(struct turns_tenant *t, uint64_t now_ns)
{
	if (turns_tenant_owes(t))
		return;
	t->stuck = 0;
	if (t->bond == TURNS_HUNG) {
		turns_tenant_unhang(t);
		turns_tenant_enter(t, now_ns);
	}
	if (turns_last_is_watched(t)) {
		turns_last_unwatch(t);
		turns_tenant_enter(t, now_ns);
	}
}

void turns_tenant_fix(struct turns_tenant *t, uint64_t now_ns)
{
	if (list_empty(&t->seats))
		t->suspended = false;
	if (!turns_tenant_governed(t)) {
		t->state = TURNS_IDLE;
		t->wants = t->idle = t->paused = t->forced = t->stepping = false;
		turns_tenant_unhang(t);
		turns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);
		turns_last_unwatch(t);
		return;
	}
	fix_debt(t, now_ns);
	if (t->state == TURNS_LINED && !is_lined(t)) {
		line_up(t, now_ns);
	} else if (t->state == TURNS_LINED) {
		/* With one device left it may fill in. */
		list_for_each(link, &t->seats)
			turns_device_serve(SEAT_OF_TENANT(link)->device, now_ns);
	} else if (t->state == TURNS_READY) {
		gather(t, now_ns);
	} else if (t->state == TURNS_ENDING && !t->undrained) {
		turns_tenant_ended(t, now_ns);
	} else if (t->state == TURNS_RUNNING && !holds(t)) {
		turns_tenant_end_turn(t, now_ns); /* what it ran on is not governed any more */
	} else if (t->state == TURNS_RUNNING) {
		turns_tenant_judge(t, now_ns);
	} else {
		turns_tenant_enter(t, now_ns); /* where it came along it is not any more */
	}
}
