/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes a gate and handles the outcome: it drains; it cannot drain because its work waits for a
 * thread at the gate (then it is opened again for a moment, and given up in the end); or the work
 * does not end. See decisions/0095.
 */
#include "core/turns/turns_machine.h"

enum {
	CHECK_STEPS = 4,       /* a coupled tenant is checked after as many steps' time, or later */
	CHECKS = 4,	       /* ... while it may hang */
	LOOK_AGAIN = 8,	       /* drains of a stuck tenant: one of so many is like the first */
	SMOOTH_CLOSES = 8,     /* after as many a tenant is not coupled any more, ... */
	COUPLED_QUADRUPLED = 5 /* ... and after four times as many each time that it is so again */
};

uint64_t turns_tenant_free_check_ns(const struct turns_tenant *t)
{
	const struct turns_tuning *tuning = &t->turns->tuning;

	uint64_t usual = least(most(2 * t->overrun_ns, tuning->drain_ns), tuning->hang_ns / CHECKS);

	/* Tenants that it may wait for are let in in time, however long its work lasted before. */
	return most(usual, least(turns_last_ns(t), tuning->hang_ns / 2));
}

/* The work that a step lets in must be able to drain: each step lets in more, and if that never
 * drained, the drain would be given up in the end although none of it waits for anything. So it is
 * given twice as long as it usually takes, and at least as long as the step took. */
uint64_t turns_tenant_check_ns(const struct turns_tenant *t)
{
	const struct turns_tuning *tuning = &t->turns->tuning;

	if (t->moment)
		return tuning->step_ns;
	/* The steps of the tenants that it awaits let in no work of its own. */
	if (turns_tenant_awaits(t) && (!t->alone || t->steps))
		return most(least(turns_tenant_step_ns(t), tuning->drain_ns),
			    CHECK_STEPS * tuning->step_ns);
	if (t->bond != TURNS_FREE)
		return most(
			least(most(2 * t->overrun_ns, turns_tenant_step_ns(t)), tuning->drain_ns),
			CHECK_STEPS * tuning->step_ns);
	if (t->holds)
		return CHECK_STEPS * tuning->step_ns;
	return turns_tenant_free_check_ns(t);
}

/* Its last drain was given up, and none of its work has left since: short steps did not end it.
 * With them its threads would stand at the gate for two thirds of this drain, too. */
bool turns_tenant_is_stuck(const struct turns_tenant *t)
{
	return t->stuck % LOOK_AGAIN && !turns_tenant_awaits(t);
}

bool turns_seat_start_closing(struct turns_seat *s, bool stray, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (s->clear && !s->told_open) {
		s->gate = TURNS_CLOSED;
		return false;
	}
	s->gate = TURNS_CLOSING;
	s->stray = stray;
	s->closing_ns = now_ns;
	s->device->strays += stray;
	turns_timer_set(&t->turns->drains, &s->timer, now_ns + turns_held_first_check_ns(t));
	turns_seat_todo(s, 0);
	return true;
}

bool turns_tenant_owes(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		if (SEAT_OF_TENANT(link)->gate == TURNS_OWING)
			return true;
	}
	return false;
}

/* It stands in line, and its drain has just used up its cap. */
void turns_tenant_keep_cap(struct turns_tenant *t, uint64_t now_ns)
{
	if (turns_tenant_released(t, now_ns) > now_ns)
		turns_tenant_withdraw(t, now_ns);
}

static void drained_stray(struct turns_seat *s, uint64_t now_ns)
{
	s->stray = false;
	s->device->strays--;
	s->rested |= !s->tenant->wants;
	turns_tenant_keep_cap(s->tenant, now_ns);
	turns_tenant_enter(s->tenant, now_ns);
	turns_device_serve(s->device, now_ns);
}

void turns_drained(struct turns_seat *s, bool wants, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;
	bool owed = s->gate == TURNS_OWING;

	if (is_free(s) || (s->gate != TURNS_CLOSING && !owed))
		return;
	turns_settle(s, now_ns);
	turns_seat_pay(s, now_ns);
	if (s->moment)
		turns_moment_drained(s, now_ns);
	turns_timer_set(&t->turns->drains, &s->timer, UINT64_MAX);
	turns_seat_owes_no_more(s);
	s->gate = TURNS_CLOSED;
	s->clear = true;
	t->vain_drains = t->stuck = 0;
	s->asks |= wants;
	t->wants |= wants;
	if (owed) {
		t->lasts = true;
		if (!turns_tenant_owes(t)) {
			turns_tenant_unhang(t);
			turns_last_drained(t, now_ns);
		}
		turns_tenant_keep_cap(t, now_ns);
		turns_tenant_enter(t, now_ns);
		turns_moment_await(s, now_ns);
	} else if (s->leader) {
		turns_company_drained(s, now_ns);
	} else if (s->stray) {
		drained_stray(s, now_ns);
	} else if (--t->undrained == 0) {
		turns_await_learn(t, now_ns);
		turns_tenant_ended(t, now_ns);
	}
}

/* To find out that it is coupled costs its neighbours a long drain: not again and again. */
static uint32_t smooth_closes(const struct turns_tenant *t)
{
	return SMOOTH_CLOSES << 2 * t->couplings;
}

void turns_tenant_learn(struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t took = now_ns - t->closed_ns;

	t->stepping = t->breathes = false;
	t->stops -= t->stops > 0;
	if (t->moment) {
		turns_moment_end(t, now_ns);
		return;
	}
	if (turns_tenant_owes(t))
		return;
	/* It has drained once its threads were let in. */
	t->lasts &= !t->laden;
	t->overrun_ns = t->overrun_ns ? (3 * t->overrun_ns + took) / 4 : took;
	if (t->steps) {
		t->smooth = 0;
		return;
	}
	if (t->bond == TURNS_STEPPED && ++t->smooth >= smooth_closes(t)) {
		t->bond = TURNS_FREE;
		t->couplings += t->couplings < COUPLED_QUADRUPLED;
		if (!list_empty(&t->seats))
			turns_seat_todo(SEAT_OF_TENANT(t->seats.next), TODO_UNCOUPLED);
	}
}

/* ---- coupled --------------------------------------------------------------------------------- */

static void couple(struct turns_seat *s, enum turns_bond bond)
{
	struct turns_tenant *t = s->tenant;

	if (t->bond == TURNS_FREE || t->bond == TURNS_HUNG)
		turns_seat_todo(s, TODO_COUPLED);
	if (bond == TURNS_STAYED)
		turns_seat_todo(s, TODO_BESIDE);
	t->bond = bond;
	t->smooth = 0;
}

/* It still holds its devices: none is passed on before all have drained. The exception is a
 * device on which turns ended and began again meanwhile; it must claim that one again. */
void turns_tenant_reopen(struct turns_tenant *t, uint64_t now_ns)
{
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (is_free(s))
			continue;
		if (s->device->holder != s) {
			t->forced = true;
			continue;
		}
		/* It may have drained on this device: what it saved up since then is bounded. */
		turns_seat_allow(s, now_ns);
		turns_seat_floor(s, true, now_ns);
		turns_timer_set(&t->turns->drains, &s->timer, UINT64_MAX);
		s->gate = TURNS_OPENED;
		s->idle = false;
		turns_seat_todo(s, 0);
		turns_company_reopen(s, now_ns);
	}
	t->wants = true;
	t->idle = false;
	t->undrained = 0;
	turns_tenant_step(t, now_ns);
}

void turns_seat_owes_no_more(struct turns_seat *s)
{
	s->device->beside -= s->gate == TURNS_OWING;
}

void turns_seat_let_owe(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	/* What it has saved up until now is bounded; what it saves up while it owes is not. */
	turns_seat_allow(s, now_ns);
	turns_seat_floor(s, true, now_ns);
	if (s->stray)
		s->device->strays--;
	s->stray = s->held = s->stopped = false;
	s->device->beside += s->gate != TURNS_OWING;
	s->gate = TURNS_OWING;
	turns_seat_owe(s, now_ns);
	turns_timer_set(&t->turns->drains, &s->timer, UINT64_MAX);
	turns_moment_await_all(s->device, now_ns);
}

void turns_tenant_let_owe(struct turns_tenant *t, uint64_t now_ns)
{
	t->undrained = 0;
	list_for_each(link, &t->seats)
	{
		if (SEAT_OF_TENANT(link)->gate == TURNS_CLOSING)
			turns_seat_let_owe(SEAT_OF_TENANT(link), now_ns);
		turns_company_let_owe(SEAT_OF_TENANT(link), now_ns);
	}
}

void turns_tenant_give_up(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_seat_todo(s, TODO_BESIDE);
	t->bond = TURNS_STAYED;
	t->smooth = 0;
	turns_ring_given_up(t);
	turns_tenant_let_owe(t, now_ns);
	t->lasting_ns = 0;
	t->holds = false; /* it waits for its own threads, or for others */
	s->asks = t->wants = true;
	turns_held_await(s, now_ns);
	turns_tenant_ended(t, now_ns);
}

/* ---- hung ------------------------------------------------------------------------------------ */

/* A thread may come to the gate without a word of it. */
static void check_again(struct turns_seat *s, uint64_t now_ns)
{
	const struct turns *turns = s->tenant->turns;

	turns_timer_set(&s->tenant->turns->drains, &s->timer,
			now_ns + turns->tuning.hang_ns / CHECKS);
}

/* All its closing gates: work that does not end on one device may be the cause on another. */
void turns_seat_hang(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_seat_todo(s, TODO_REPORT);
	t->bond = TURNS_HUNG;
	t->hung_ns = now_ns;
	turns_tenant_let_owe(t, now_ns);
	list_for_each(link, &t->seats)
	{
		if (SEAT_OF_TENANT(link)->gate == TURNS_OWING)
			check_again(SEAT_OF_TENANT(link), now_ns);
	}
	if (t->state == TURNS_ENDING) {
		t->wants = false;
		turns_tenant_ended(t, now_ns);
		return;
	}
	list_for_each(link, &t->seats) turns_device_serve(SEAT_OF_TENANT(link)->device, now_ns);
}

void turns_tenant_unhang(struct turns_tenant *t)
{
	if (t->bond == TURNS_HUNG)
		t->bond = TURNS_FREE;
	if (t->bond == TURNS_STAYED)
		t->bond = TURNS_STEPPED;
	t->escalated = false;
}

void turns_tenant_check(struct turns_seat *s)
{
	turns_timer_set(&s->tenant->turns->drains, &s->timer, UINT64_MAX);
	turns_seat_todo(s, TODO_LATE);
}

static void escalate(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (t->escalated || t->share.escalate == TURNS_ONLY_REPORT ||
	    now_ns - t->hung_ns < t->turns->tuning.escalate_ns)
		return;
	t->escalated = true;
	if (t->share.escalate == TURNS_MAY_KILL) {
		turns_seat_todo(s, TODO_KILL);
		return;
	}
	turns_seat_todo(s, TODO_SUSPEND);
	t->suspended = true;
	turns_tenant_expel(t, now_ns);
}

/* Its work on another device may have been reported while it was held on this one. */
static void late_hung(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_seat_pay_stopped(s, now_ns);
	s->held = s->stopped = false;
	if (!stands) {
		escalate(s, now_ns);
		check_again(s, now_ns);
		return;
	}
	couple(s, TURNS_STAYED);
	turns_last_queued(t, now_ns);
	t->escalated = false;
	s->asks = t->wants = true;
	turns_held_await(s, now_ns);
	turns_tenant_enter(t, now_ns);
}

/* ---- a late drain ---------------------------------------------------------------------------- */

static void late_stray(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	/* Others run first: no turn is interrupted for a tenant that had none. */
	couple(s, TURNS_STAYED);
	turns_seat_let_owe(s, now_ns);
	s->asks = t->wants = true;
	turns_tenant_enter(t, now_ns);
	turns_device_serve(s->device, now_ns);
}

static void late_standing(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (s->stray) {
		late_stray(s, now_ns);
	} else if (now_ns - t->ending_ns < turns_last_ns(t)) {
		turns_timer_set(&t->turns->drains, &s->timer, t->ending_ns + turns_last_ns(t));
	} else if (now_ns - t->ending_ns >= t->turns->tuning.beside_ns) {
		couple(s, TURNS_STAYED);
		turns_await_stuck(t, now_ns);
		turns_last_given_up(t, now_ns);
		turns_tenant_give_up(s, now_ns);
	} else {
		couple(s, TURNS_STEPPED);
		turns_tenant_reopen(t, now_ns);
	}
}

/* Others run beside what it has let in: they did before. */
static void end_moment(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_tenant_let_owe(t, now_ns);
	s->asks = t->wants = true;
	turns_tenant_ended(t, now_ns);
}

static void late_closing(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;
	/* A wish to run meanwhile does not make the drain younger. */
	uint64_t until = (s->stray ? s->closing_ns : t->ending_ns) + t->turns->tuning.hang_ns;

	if (turns_held_not_yet(s, stands, now_ns) || turns_breath_goes_on(s, stands, now_ns) ||
	    turns_await_late(s, stands, now_ns))
		return;
	if (stands)
		late_standing(s, now_ns);
	else if (now_ns >= until)
		turns_seat_hang(s, now_ns);
	else if (!turns_breath_begin(s, now_ns))
		turns_timer_set(&t->turns->drains, &s->timer,
				least(now_ns + turns_tenant_check_ns(t), until));
}

void turns_late(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (is_free(s) || turns_node_linked(&s->timer))
		return;
	if (s->gate == TURNS_OWING && t->bond == TURNS_HUNG)
		late_hung(s, stands, now_ns);
	else if (s->gate == TURNS_OWING && s->held)
		turns_held_late(s, stands, now_ns);
	else if (s->gate == TURNS_OWING)
		turns_held_await(s, now_ns);
	if (s->gate == TURNS_CLOSING && t->moment)
		end_moment(s, now_ns);
	else if (s->gate == TURNS_CLOSING)
		late_closing(s, stands, now_ns);
}

void turns_lost(struct turns_device *d, uint64_t ns, uint64_t now_ns)
{
	list_for_each(link, &d->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);
		struct turns_tenant *t = s->tenant;

		if (!turns_node_linked(&s->timer))
			continue;
		/* The drains of its other devices may have been told of it before. */
		s->closing_ns = least(now_ns, s->closing_ns + ns);
		t->ending_ns = least(now_ns, t->ending_ns + ns);
		t->hung_ns = least(now_ns, t->hung_ns + ns);
		turns_timer_set(&t->turns->drains, &s->timer, s->timer.key + ns);
	}
}
