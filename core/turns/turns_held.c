/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that waits for something outside of the device: a value that another process writes, a host
 * function that reads a socket. Nothing of it runs, so its drain is given up as soon as that is
 * known. See decisions/0177. Likewise the drain of processes that are stopped, which nobody can
 * hear of: see decisions/0213.
 */
#include "core/turns/turns_machine.h"

enum {
	FIRST_STEPS = 4,  /* after as many a tenant is looked at that was stopped lately */
	CHECK_STEPS = 8,  /* for as many steps' time nobody looks, ... */
	CHECK_PART = 8,	  /* or for this part of the time that it has been held */
	CHECKS_LEAST = 4, /* but as often in `hang_ns` */
	SEEN_TURNS = 1,	  /* its turn may begin so many turns after it was found held */
	EARLY_TURNS = 2,  /* of a turn's length: the first look at a drain that is late */
	STOPS = 16	  /* for so many closes it is known that it was stopped */
};

/* It was held or stopped lately, or its drain takes longer than usual. */
uint64_t turns_held_first_check_ns(const struct turns_tenant *t)
{
	const struct turns_tuning *tuning = &t->turns->tuning;
	uint64_t usual_ns = turns_tenant_check_ns(t);

	if (t->moment || t->bond != TURNS_FREE || turns_tenant_awaits(t))
		return usual_ns;
	if (t->stops)
		return tuning->step_ns * FIRST_STEPS;
	return least(usual_ns, most(2 * t->overrun_ns, tuning->turn_ns / EARLY_TURNS));
}

/* Where a process is stopped again and again, that is found before a drain has taken so long that a
 * thread at the gate counts. So one does after a turn's length: other processes may wait for it. */
static uint64_t stays_free_ns(const struct turns_tenant *t, bool stands)
{
	const struct turns_tuning *tuning = &t->turns->tuning;
	uint64_t usual_ns = turns_tenant_free_check_ns(t);

	if (!t->stops || !stands)
		return usual_ns;
	return least(usual_ns, most(2 * t->overrun_ns, tuning->turn_ns));
}

bool turns_held_not_yet(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;
	uint64_t usual_ns = s->closing_ns + stays_free_ns(t, stands);
	uint64_t again_ns = now_ns + most(now_ns - s->closing_ns, turns_tenant_check_ns(t));

	if (t->stops)
		again_ns = now_ns + (now_ns - s->closing_ns);
	else if (!t->holds)
		again_ns = usual_ns;
	if (t->bond != TURNS_FREE || turns_tenant_awaits(t) || now_ns >= usual_ns)
		return false;
	turns_timer_set(&t->turns->drains, &s->timer, least(again_ns, usual_ns));
	return true;
}

/* Just before its cap has paid: what it may have had since nobody looked would put its turn off. */
static uint64_t paid_soon(const struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t at = beyond(t->timer.key, t->turns->tuning.step_ns);

	return t->state == TURNS_CAPPED && at > now_ns ? at : UINT64_MAX;
}

/* A thread may come to the gate without a word of it, and what it waits for may come. */
static void check_again(struct turns_seat *s, uint64_t now_ns)
{
	const struct turns_tuning *tuning = &s->tenant->turns->tuning;
	uint64_t after_ns =
		most((now_ns - s->closing_ns) / CHECK_PART, CHECK_STEPS * tuning->step_ns);
	uint64_t at = now_ns + least(after_ns, tuning->hang_ns / CHECKS_LEAST);

	turns_timer_set(&s->tenant->turns->drains, &s->timer,
			least(at, paid_soon(s->tenant, now_ns)));
}

/* Each turn of a capped tenant would be put off for what it may have had since nobody looked. So it
 * is looked at just before it has paid, and what may be had until its turn is paid for after it. */
void turns_held_pays(struct turns_seat *s, uint64_t until_ns, uint64_t now_ns)
{
	const struct turns_tuning *tuning = &s->tenant->turns->tuning;
	uint64_t at = beyond(until_ns, tuning->step_ns);

	if (s->held && s->gate == TURNS_OWING)
		turns_timer_set(&s->tenant->turns->drains, &s->timer, most(at, now_ns));
}

bool turns_held_was_seen(const struct turns_seat *s, uint64_t now_ns)
{
	return s->held && !s->stopped && s->gate == TURNS_OWING &&
	       now_ns - s->owing_ns <= SEEN_TURNS * s->device->turn_ns;
}

static void want(struct turns_seat *s, uint64_t now_ns)
{
	s->asks = s->tenant->wants = true;
	turns_tenant_enter(s->tenant, now_ns);
}

/* If a thread of it stands at the gate, the tenant stands in line like everyone: what it waits for
 * may be that thread, which goes on in its next turn. To let it in at once would only keep others
 * waiting, as nothing of it runs. */
static void give_up(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_tenant_let_owe(t, now_ns);
	s->held = t->holds = true;
	s->asks |= stands;
	t->wants |= s->asks;
	check_again(s, now_ns);
	turns_tenant_ended(t, now_ns);
}

/* It was given up before: none of its work has run until now. */
static void still_held(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	if (s->tenant->bond == TURNS_HUNG)
		turns_tenant_unhang(s->tenant);
	turns_seat_pay_stopped(s, now_ns); /* it may have run until then */
	s->held = s->tenant->holds = true;
	s->stopped = false;
	turns_seat_forgive(s, now_ns);
	check_again(s, now_ns);
	if (stands)
		want(s, now_ns);
}

static bool is_alone(const struct turns_seat *s)
{
	return !s->leader && !s->stray && list_empty(&s->along) &&
	       turns_tenant_governed(s->tenant) == 1;
}

/* It stands in line again once it goes on, or another process of it has a thread at the gate. Until
 * then its work may run beside others, and that is charged like all such work. */
static void give_up_stopped(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_tenant_let_owe(t, now_ns);
	turns_last_stopped(t, now_ns);
	s->held = s->stopped = true;
	s->asks = t->wants = t->holds = false;
	t->stops = STOPS;
	check_again(s, now_ns);
	turns_tenant_ended(t, now_ns);
}

bool turns_may_be_stopped(const struct turns_seat *s)
{
	if (s->gate == TURNS_CLOSING)
		return is_alone(s) && !s->tenant->moment;
	return s->gate == TURNS_OWING && s->stopped;
}

void turns_stopped(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	if (is_free(s) || turns_node_linked(&s->timer))
		return;
	if (s->gate == TURNS_CLOSING && turns_may_be_stopped(s))
		give_up_stopped(s, now_ns);
	else if (s->gate == TURNS_OWING && s->stopped && stands)
		check_again(s, now_ns); /* the thread is stopped, too: nobody waits for it */
	else
		turns_late(s, stands, now_ns);
}

/* Its kernels may run beside others' until all of its streams wait for something outside, and never
 * drain: only who looks then knows what its cap has to pay for. */
void turns_held_await(struct turns_seat *s, uint64_t now_ns)
{
	if (s->gate == TURNS_OWING && is_alone(s) && turns_cap_milli(s) < MILLI)
		check_again(s, now_ns);
}

/* What went on since its drain was given up has ended: it is charged as if it had drained. */
static void held_at_last(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_seat_pay(s, now_ns);
	turns_last_computed(t);
	s->held = t->holds = true;
	check_again(s, now_ns);
	if (stands)
		s->asks = t->wants = true;
	turns_tenant_keep_cap(t, now_ns);
	turns_tenant_enter(t, now_ns);
}

void turns_held(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	if (is_free(s) || turns_node_linked(&s->timer))
		return;
	if (s->gate == TURNS_OWING && (s->held || s->tenant->bond == TURNS_HUNG))
		still_held(s, stands, now_ns);
	else if (s->gate == TURNS_OWING && is_alone(s))
		held_at_last(s, stands, now_ns);
	else if (s->gate == TURNS_CLOSING && is_alone(s))
		give_up(s, stands, now_ns);
	else
		turns_late(s, stands, now_ns);
}

void turns_held_late(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (stands) {
		want(s, now_ns);
	} else if (t->state == TURNS_IDLE && now_ns - s->owing_ns >= t->turns->tuning.hang_ns) {
		turns_seat_pay_stopped(s, now_ns);
		s->held = s->stopped = false;
		turns_seat_hang(s, now_ns);
	} else {
		check_again(s, now_ns);
	}
}
