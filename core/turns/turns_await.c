/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants whose work waits for other tenants' work (a barrier in memory that both see, a
 * collective): they are found, and have their turns together. See decisions/0116.
 */
#include <string.h>

#include "core/turns/turns_machine.h"

enum {
	PROOFS = 2,	     /* drains that ended when the same tenant was let in */
	TRIALS = 12,	     /* in one drain; the next one goes on with others */
	TRIES = 3,	     /* of one tenant in one drain, each four times as long */
	MOMENT_STEPS = 4,    /* for as many steps' time a tenant is let in, or longer */
	TRIAL_STEPS = 16,    /* from a trial's end to the next: guests may say late that they have
				drained */
	VAIN_STEPS = 5,	     /* after as many its own threads are not all that it waits for */
	LONE_TURNS = 3,	     /* as many that drain by themselves, and it waits for nobody; */
	ALONE_AFTER = 8,     /* turns with those it awaits, after which one is had alone, ... */
	ALONE_QUADRUPLED = 5 /* ... and after four times as many each time that it still waited */
};

static bool awaits(const struct turns_tenant *t, const struct turns_tenant *other)
{
	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->awaits[i] == other)
			return true;
	}
	return false;
}

bool turns_tenant_awaits(const struct turns_tenant *t)
{
	return t->awaits[0] != NULL;
}

static struct turns_seat *governed_seat(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		if (!is_free(SEAT_OF_TENANT(link)))
			return SEAT_OF_TENANT(link);
	}
	return NULL;
}

/* ---- coming along ---------------------------------------------------------------------------- */

/* Who has several devices would leave one of them idle. */
static bool may_come(const struct turns_seat *s)
{
	return s->lined && s->gate == TURNS_CLOSED && !s->device->strays &&
	       turns_tenant_governed(s->tenant) == 1;
}

/* For a moment; what it has then it pays for with its cap, later. Who is known to be awaited is
 * waited for until it has paid; others must have paid soon. */
static bool may_come_capped(const struct turns_seat *s, bool known, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (t->state != TURNS_CAPPED || s->gate != TURNS_CLOSED || s->device->strays ||
	    turns_tenant_governed(t) != 1)
		return false;
	return known || turns_tenant_released(t, now_ns) <= now_ns + t->turns->tuning.hang_ns;
}

/* Without them it could do nothing with a turn. */
uint64_t turns_await_released(const struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->awaits[i] && t->awaits[i]->state == TURNS_CAPPED)
			latest = most(latest, turns_tenant_released(t->awaits[i], now_ns));
	}
	return latest;
}

/* Its leader waits for it, or somebody who has come along does. */
static bool is_awaited(const struct turns_seat *leader, const struct turns_seat *s)
{
	if (awaits(leader->tenant, s->tenant))
		return true;
	list_for_each(link, (struct list *)&leader->along)
	{
		if (awaits(SEAT_ALONG(link)->tenant, s->tenant))
			return true;
	}
	return false;
}

static void take_along(struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns)
{
	turns_line_remove(s);
	turns_timer_set(&s->device->turns->timers, &s->tenant->timer, UINT64_MAX);
	turns_seat_deactivate(s, false);
	s->tenant->state = TURNS_ALONG;
	s->leader = leader;
	list_append(&leader->along, &s->along_link);
	turns_seat_open(s, now_ns);
}

/* Its gate is closed, or not waited for. */
static void part(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	list_remove(&s->along_link);
	s->leader = NULL;
	t->state = TURNS_AWAY;
	t->idle = false;
	t->wants = s->asks;
	if (!t->wants) {
		turns_seat_entitle(s, false, now_ns);
		turns_seat_floor(s, true, now_ns);
		s->rested = true;
	}
	turns_tenant_enter(t, now_ns);
}

static void close_gate(struct turns_seat *s, uint64_t now_ns)
{
	if (s->gate != TURNS_OPENED)
		return;
	turns_settle(s, now_ns);
	if (turns_seat_start_closing(s, false, now_ns))
		s->asks = false;
	turns_timer_set(&s->device->turns->drains, &s->timer, UINT64_MAX); /* its leader has one */
}

static void part_closed(struct turns_seat *leader, uint64_t now_ns)
{
	list_for_each(link, &leader->along)
	{
		if (SEAT_ALONG(link)->gate == TURNS_CLOSED)
			part(SEAT_ALONG(link), now_ns);
	}
}

void turns_await_close(struct turns_seat *leader, uint64_t now_ns)
{
	list_for_each(link, &leader->along) close_gate(SEAT_ALONG(link), now_ns);
	part_closed(leader, now_ns);
}

void turns_await_expel(struct turns_tenant *t, uint64_t now_ns)
{
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!s->leader)
			continue;
		close_gate(s, now_ns);
		part_closed(s->leader, now_ns);
		return;
	}
}

void turns_await_drained(struct turns_seat *s, uint64_t now_ns)
{
	part(s, now_ns);
}

void turns_await_let_owe(struct turns_seat *leader, uint64_t now_ns)
{
	turns_await_close(leader, now_ns);
	list_for_each(link, &leader->along)
	{
		struct turns_seat *s = SEAT_ALONG(link);

		turns_seat_let_owe(s, now_ns);
		s->asks = true;
		part(s, now_ns);
	}
}

static bool take_one(struct turns_seat *leader, uint64_t now_ns)
{
	list_for_each(link, &leader->device->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (!is_awaited(leader, s) || !may_come(s))
			continue;
		take_along(leader, s, now_ns);
		return true;
	}
	return false;
}

void turns_await_begin(struct turns_tenant *t, uint64_t now_ns)
{
	struct turns_seat *leader = governed_seat(t);

	t->alone = false;
	if (!turns_tenant_awaits(t) || turns_tenant_governed(t) != 1)
		return;
	t->alone = t->together >= (uint32_t)ALONE_AFTER << 2 * t->confirmed;
	if (t->alone)
		return;
	t->together++;
	/* Who comes may itself await one that was passed over. */
	while (take_one(leader, now_ns))
		;
}

bool turns_await_arrive(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_seat *leader = s->device->holder;
	struct turns_tenant *t = leader->tenant;

	if (t->state != TURNS_RUNNING || t->stepping || t->alone || t->idle ||
	    turns_tenant_governed(t) != 1 || !is_awaited(leader, s) || !may_come(s))
		return false;
	take_along(leader, s, now_ns);
	turns_tenant_judge(t, now_ns);
	return true;
}

static bool is_suspected(const struct turns_tenant *t, const struct turns_tenant *other)
{
	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->suspect[i].tenant == other)
			return true;
	}
	return false;
}

/* ---- the leader has not drained -------------------------------------------------------------- */

static uint32_t tries(const struct turns_tenant *t, const struct turns_seat *s)
{
	return s->tried_ns == t->ending_ns ? s->tries : 0;
}

/* The less, the sooner it is let in; 0: not at all. */
static unsigned rank(const struct turns_seat *leader, const struct turns_seat *s, bool stands,
		     uint64_t now_ns)
{
	const struct turns_tenant *t = leader->tenant;
	bool known = is_awaited(leader, s);

	if (!may_come(s) && !may_come_capped(s, known, now_ns))
		return 0;
	if (known)
		return tries(t, s) ? 3 * TRIES + 1 : 1;
	if (tries(t, s) == TRIES || t->trials == TRIALS ||
	    (stands ? t->steps < VAIN_STEPS : now_ns - t->ending_ns < t->turns->tuning.drain_ns))
		return 0;
	return 2 + 2 * tries(t, s) + !(is_suspected(t, s->tenant) || awaits(s->tenant, t));
}

/* Whose work may be what the leader's waits for. */
static struct turns_seat *candidate(struct turns_seat *leader, bool stands, uint64_t now_ns)
{
	struct turns_seat *best = NULL;
	unsigned least_rank = UINT32_MAX;

	list_for_each(link, &leader->device->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);
		unsigned own = rank(leader, s, stands, now_ns);

		if (!own || own > least_rank ||
		    (own == least_rank && s->tried_ns >= best->tried_ns))
			continue;
		best = s;
		least_rank = own;
	}
	return best;
}

/* For a moment, while the leader's gate stays closed. Who is awaited is let in for longer each
 * time. */
static void let_in(struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = leader->tenant;
	uint64_t moment = MOMENT_STEPS * t->turns->tuning.step_ns;

	s->tries = tries(t, s) + 1;
	s->tried_ns = t->ending_ns;
	if (awaits(t, s->tenant)) {
		t->steps++;
		moment = most(moment, turns_tenant_step_ns(t));
	} else {
		t->trials++;
		moment <<= 2 * (s->tries - 1);
	}
	t->let_in = s->tenant;
	t->closed_ns = now_ns;
	take_along(leader, s, now_ns);
	turns_timer_set(&t->turns->drains, &leader->timer, now_ns + moment);
}

static uint64_t next_look(const struct turns_tenant *t)
{
	if (turns_tenant_awaits(t))
		return turns_tenant_look_ns(t);
	return TRIAL_STEPS * t->turns->tuning.step_ns;
}

/* Who was let in has had its moment, and gets the time that it usually needs to drain. If it does
 * not, it may wait for another one, too. */
static bool closes_company(struct turns_seat *leader, uint64_t now_ns)
{
	bool was_open = false;

	list_for_each(link, &leader->along) was_open |= SEAT_ALONG(link)->gate == TURNS_OPENED;
	if (!was_open)
		return false;
	turns_await_close(leader, now_ns);
	turns_timer_set(&leader->device->turns->drains, &leader->timer,
			now_ns + next_look(leader->tenant));
	return true;
}

bool turns_await_late(struct turns_seat *leader, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = leader->tenant;
	bool known = turns_tenant_awaits(t);
	uint64_t longest = known ? t->turns->tuning.beside_ns : t->turns->tuning.hang_ns;
	struct turns_seat *s;

	if (leader->leader)
		return true; /* its leader is asked */
	if (leader->stray || turns_tenant_governed(t) != 1)
		return false;
	if (closes_company(leader, now_ns))
		return true;
	if (known && now_ns - t->ending_ns >= longest) {
		turns_tenant_give_up(leader, now_ns);
		return true;
	}
	/* Who was let in may let in others when it has to drain itself: not for ever. */
	s = now_ns - t->company_ns < longest ? candidate(leader, stands, now_ns) : NULL;
	t->let_in = NULL; /* its drain did not end by that */
	if (s)
		let_in(leader, s, now_ns);
	return s != NULL;
}

/* ---- what is learned ------------------------------------------------------------------------- */

static void prove(struct turns_tenant *t)
{
	struct turns_suspect *it = &t->suspect[0];

	if (awaits(t, t->let_in))
		return;
	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->suspect[i].tenant == t->let_in)
			it = &t->suspect[i];
		else if (it->tenant != t->let_in && t->suspect[i].proofs < it->proofs)
			it = &t->suspect[i];
	}
	if (it->tenant != t->let_in)
		*it = (struct turns_suspect){t->let_in, 0};
	if (++it->proofs < PROOFS)
		return;
	*it = (struct turns_suspect){0};
	memmove(&t->awaits[1], &t->awaits[0], sizeof(t->awaits) - sizeof(t->awaits[0]));
	t->awaits[0] = t->let_in;
	t->together = 0;
	turns_seat_todo(governed_seat(t), TODO_AWAITS);
}

static void await_nobody(struct turns_tenant *t)
{
	memset(t->awaits, 0, sizeof(t->awaits));
	memset(t->suspect, 0, sizeof(t->suspect));
	t->together = t->lone = t->confirmed = 0;
}

static void still_awaits(struct turns_tenant *t)
{
	t->confirmed += t->confirmed < ALONE_QUADRUPLED;
	t->lone = t->together = 0;
}

void turns_await_learn(struct turns_tenant *t, uint64_t now_ns)
{
	bool was_late = now_ns - t->ending_ns >= t->turns->tuning.drain_ns;

	if (t->let_in) {
		prove(t);
		if (t->alone)
			still_awaits(t);
	} else if (t->alone && !t->idle) {
		if (++t->lone == LONE_TURNS)
			await_nobody(t);
	} else if (was_late) {
		memset(t->suspect, 0, sizeof(t->suspect));
	}
	t->alone = false;
	t->let_in = NULL;
}

/* ---- who leaves ------------------------------------------------------------------------------ */

/* It may run no more; what is in flight of it is its own affair. */
static void inherit(struct turns_seat *s, uint64_t company_ns, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_settle(s, now_ns);
	list_remove(&s->along_link);
	s->leader = NULL;
	s->device->holder = s;
	t->state = TURNS_ENDING;
	t->wants = s->asks;
	t->idle = t->forced = t->stepping = t->laden = t->alone = false;
	t->undrained = 1;
	t->steps = t->trials = 0;
	t->let_in = NULL;
	t->ending_ns = t->closed_ns = now_ns;
	t->company_ns = company_ns;
	turns_seat_activate(s);
	turns_timer_set(&t->turns->drains, &s->timer, now_ns + turns_tenant_look_ns(t));
}

void turns_await_pass_on(struct turns_seat *leader, uint64_t now_ns)
{
	struct turns_seat *next = NULL;
	struct list closed;

	list_init(&closed);
	list_for_each(link, &leader->along)
	{
		struct turns_seat *s = SEAT_ALONG(link);

		close_gate(s, now_ns);
		list_remove(link);
		if (s->gate == TURNS_CLOSED) {
			list_append(&closed, link);
		} else if (!next) {
			next = s;
			inherit(next, leader->tenant->company_ns, now_ns);
		} else {
			s->leader = next;
			list_append(&next->along, link);
		}
	}
	if (!next)
		leader->device->holder = NULL;
	list_for_each(link, &closed) part(SEAT_ALONG(link), now_ns);
}

/* The device is open, and so is every gate on it. */
static void drop_company(struct turns_seat *leader)
{
	list_for_each(link, &leader->along)
	{
		struct turns_seat *s = SEAT_ALONG(link);

		list_remove(link);
		s->leader = NULL;
		s->gate = TURNS_OPENED;
		s->tenant->state = TURNS_AWAY;
	}
}

void turns_await_detach(struct turns_seat *s, uint64_t now_ns)
{
	if (s->leader) {
		list_remove(&s->along_link);
		s->leader = NULL;
		s->tenant->state = TURNS_AWAY;
	}
	if (is_free(s))
		drop_company(s);
	if (s->device->holder == s)
		turns_await_pass_on(s, now_ns);
}

static void forget(struct turns_tenant *t, const struct turns_tenant *other)
{
	size_t kept = 0;

	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->awaits[i] != other)
			t->awaits[kept++] = t->awaits[i];
	}
	while (kept < TURNS_AWAITED)
		t->awaits[kept++] = NULL;
	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->suspect[i].tenant == other)
			t->suspect[i] = (struct turns_suspect){0};
	}
	if (t->let_in == other)
		t->let_in = NULL;
}

void turns_await_forget(struct turns_seat *s)
{
	await_nobody(s->tenant);
	s->tenant->let_in = NULL;
	list_for_each(link, &s->device->seats) forget(SEAT_OF_DEVICE(link)->tenant, s->tenant);
}
