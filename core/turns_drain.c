/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes a gate and handles the outcome: it drains; it cannot drain because its work waits for a
 * thread at the gate (then it is opened again, decisions/0071); or the work does not end.
 */
#include "core/turns_machine.h"

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
	turns_timer_set(&t->turns->drains, &s->timer, now_ns + t->deadline_ns);
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

static void drained_stray(struct turns_seat *s, uint64_t now_ns)
{
	s->stray = false;
	s->device->strays--;
	s->rested |= !s->tenant->wants;
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
	turns_timer_set(&t->turns->drains, &s->timer, UINT64_MAX);
	s->gate = TURNS_CLOSED;
	s->clear = true;
	s->asks |= wants;
	t->wants |= wants;
	if (owed) {
		t->hung = t->hung && turns_tenant_owes(t);
		t->escalated = t->escalated && t->hung;
		turns_tenant_enter(t, now_ns);
	} else if (s->stray) {
		drained_stray(s, now_ns);
	} else if (--t->undrained == 0) {
		turns_tenant_ended(t, now_ns);
	}
}

/* ---- coupled --------------------------------------------------------------------------------- */

static void couple(struct turns_seat *s)
{
	struct turns_tenant *t = s->tenant;

	t->attempt = false;
	t->deadline_ns = least(2 * t->deadline_ns,
			       most(t->turns->tuning.patience_ns, t->turns->tuning.drain_ns));
	if (!t->coupled)
		turns_seat_todo(s, TODO_COUPLED);
	t->coupled = true;
}

/* It still holds its devices: none is passed on before all have drained. The exception is a
 * device on which turns ended and began again meanwhile; it must claim that one again. */
static void reopen(struct turns_tenant *t, uint64_t now_ns)
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
		turns_settle(s, now_ns);
		turns_timer_set(&t->turns->drains, &s->timer, UINT64_MAX);
		s->gate = TURNS_OPENED;
		s->idle = false;
		turns_seat_todo(s, 0);
	}
	t->wants = true;
	t->idle = false;
	t->undrained = 0;
	turns_tenant_begin(t, now_ns);
	if (t->barred && t->state == TURNS_RUNNING) {
		t->forced = true;
		turns_tenant_judge(t, now_ns);
	}
}

void turns_tenant_recover(struct turns_seat *s)
{
	struct turns_tenant *t = s->tenant;

	couple(s);
	list_for_each(link, &t->seats)
	{
		if (SEAT_OF_TENANT(link)->gate == TURNS_OWING)
			turns_timer_set(&t->turns->drains, &SEAT_OF_TENANT(link)->timer,
					UINT64_MAX);
	}
}

/* ---- hung ------------------------------------------------------------------------------------ */

/* Closed, and nobody waits for it any more. */
static void let_owe(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;
	bool steps = t->share.escalate != TURNS_ONLY_REPORT;

	turns_settle(s, now_ns);
	if (s->stray)
		s->device->strays--;
	s->stray = false;
	s->gate = TURNS_OWING;
	turns_timer_set(&t->turns->drains, &s->timer,
			steps ? now_ns + t->turns->tuning.escalate_ns : UINT64_MAX);
}

/* All its closing gates: work that does not end on one device may be the cause on another. */
static void hang(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_seat_todo(s, TODO_REPORT);
	t->hung = true;
	t->undrained = 0;
	list_for_each(link, &t->seats)
	{
		if (SEAT_OF_TENANT(link)->gate == TURNS_CLOSING)
			let_owe(SEAT_OF_TENANT(link), now_ns);
	}
	if (t->state == TURNS_ENDING) {
		t->wants = t->attempt = false;
		turns_tenant_ended(t, now_ns);
		return;
	}
	list_for_each(link, &t->seats) turns_device_serve(SEAT_OF_TENANT(link)->device, now_ns);
}

static void escalate(struct turns_seat *s)
{
	struct turns_tenant *t = s->tenant;

	if (t->escalated || t->share.escalate == TURNS_ONLY_REPORT)
		return;
	t->escalated = true;
	turns_seat_todo(s, t->share.escalate == TURNS_MAY_KILL ? TODO_KILL : TODO_SUSPEND);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void late_stray(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	/* Others run first: no turn is interrupted for a tenant that had none. */
	couple(s);
	let_owe(s, now_ns);
	turns_timer_set(&t->turns->drains, &s->timer, UINT64_MAX);
	s->asks = t->wants = true;
	turns_tenant_enter(t, now_ns);
	turns_device_serve(s->device, now_ns);
}

void turns_late(struct turns_seat *s, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;
	/* What it wants meanwhile does not make it younger. */
	uint64_t began = s->stray ? s->closing_ns : t->ending_ns;

	if (is_free(s) || turns_node_linked(&s->timer))
		return;
	if (s->gate == TURNS_OWING && t->hung && stands) {
		turns_tenant_recover(s);
		s->asks = t->wants = true;
		turns_tenant_enter(t, now_ns);
	} else if (s->gate == TURNS_OWING && t->hung && !t->coupled) {
		escalate(s);
	} else if (s->gate == TURNS_CLOSING && stands && s->stray) {
		late_stray(s, now_ns);
	} else if (s->gate == TURNS_CLOSING && stands) {
		couple(s);
		reopen(t, now_ns);
	} else if (s->gate == TURNS_CLOSING &&
		   now_ns - began >= most(t->turns->tuning.hang_ns, t->deadline_ns)) {
		hang(s, now_ns);
	} else if (s->gate == TURNS_CLOSING) {
		turns_timer_set(&t->turns->drains, &s->timer,
				least(now_ns + t->turns->tuning.drain_ns,
				      most(now_ns, began + most(t->turns->tuning.hang_ns,
								t->deadline_ns))));
	}
}
