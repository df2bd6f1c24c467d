/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants whose gates are open in another tenant's turn: it waits for their work, or may wait for
 * it, as core/turns/turns_await.c finds; or the work of both never leaves the device. See
 * decisions/0116 and 0186.
 */
#include "core/turns/turns_machine.h"

enum {
	ALONE_AFTER = 8, /* turns with those it awaits, after which one is had alone, and after four
			   times as many each time that it still waited, */
	ALONE_HANGS = 10, /* ... or after as many times `hang_ns` */
	STAYS = 2 /* drains in a row that were given up: its work does not leave the device */
};

/* ---- coming along ---------------------------------------------------------------------------- */

/* A tenant with several devices would leave one of them idle. */
bool turns_company_may_come(const struct turns_seat *s)
{
	return s->lined && s->gate == TURNS_CLOSED && !s->device->strays &&
	       turns_tenant_governed(s->tenant) == 1;
}

bool turns_company_any(const struct turns_seat *leader, enum turns_gate gate)
{
	list_for_each(link, (struct list *)&leader->along)
	{
		if (SEAT_ALONG(link)->gate == gate)
			return true;
	}
	return false;
}

/* Its leader waits for it, or a tenant that has come along does. */
bool turns_company_awaits(const struct turns_seat *leader, const struct turns_seat *s)
{
	if (turns_awaits(leader->tenant, s->tenant))
		return true;
	list_for_each(link, (struct list *)&leader->along)
	{
		if (turns_awaits(SEAT_ALONG(link)->tenant, s->tenant))
			return true;
	}
	return false;
}

void turns_company_take(struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns)
{
	turns_line_remove(s);
	turns_timer_set(&s->device->turns->timers, &s->tenant->timer, UINT64_MAX);
	s->tenant->state = TURNS_ALONG;
	s->leader = leader;
	if (list_empty(&leader->along))
		leader->tenant->along_ns = now_ns;
	list_append(&leader->along, &s->along_link);
	turns_seat_open(s, now_ns);
}

static bool comes(const struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns)
{
	return turns_company_awaits(leader, s) &&
	       (turns_company_may_come(s) || turns_ring_may_come(leader, s, now_ns));
}

static bool take_one(struct turns_seat *leader, uint64_t now_ns)
{
	list_for_each(link, &leader->device->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (!comes(leader, s, now_ns))
			continue;
		turns_company_take(leader, s, now_ns);
		return true;
	}
	return false;
}

/* Where most of the time goes into drains, in which others are let in, there are few turns. */
static bool is_looked_at(struct turns_tenant *t, uint64_t now_ns)
{
	if (!t->looked_ns)
		t->looked_ns = now_ns;
	return t->together >= (uint32_t)ALONE_AFTER << 2 * t->confirmed ||
	       now_ns - t->looked_ns >= ALONE_HANGS * t->turns->tuning.hang_ns;
}

/* Its work is on the device in others' turns, too, and takes as much of it as with an open gate.
 * (`held` is over once its gate was opened.) */
static bool stays(const struct turns_seat *s)
{
	return s->tenant->stuck >= STAYS && !s->tenant->holds;
}

/* Its cap may have been used up while it stood in line. */
static bool may_come_staying(struct turns_seat *s, uint64_t now_ns)
{
	if (s->gate != TURNS_OWING || !stays(s) || !s->lined || s->device->strays ||
	    turns_tenant_governed(s->tenant) != 1)
		return false;
	turns_seat_pay_before(s, now_ns);
	return turns_tenant_released(s->tenant, now_ns) <= now_ns;
}

static void take_staying(struct turns_seat *leader, uint64_t now_ns)
{
	list_for_each(link, &leader->device->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (may_come_staying(s, now_ns))
			turns_company_take(leader, s, now_ns);
	}
}

void turns_company_reopen(struct turns_seat *leader, uint64_t now_ns)
{
	if (leader->device->strays)
		return;
	list_for_each(link, &leader->along)
	{
		struct turns_seat *s = SEAT_ALONG(link);

		if (s->gate != TURNS_CLOSING ||
		    !(stays(s) || turns_ring_may_come_again(leader, s, now_ns)))
			continue;
		turns_settle(s, now_ns);
		turns_timer_set(&s->device->turns->drains, &s->timer, UINT64_MAX);
		s->gate = TURNS_OPENED;
		s->idle = false;
		turns_seat_todo(s, 0);
	}
}

void turns_company_begin(struct turns_tenant *t, uint64_t now_ns)
{
	struct turns_seat *leader = turns_tenant_seat(t);

	t->alone = false;
	if (turns_tenant_governed(t) != 1)
		return;
	if (t->laden && stays(leader))
		take_staying(leader, now_ns);
	if (!turns_tenant_awaits(t))
		return;
	t->alone = is_looked_at(t, now_ns);
	if (t->alone)
		return;
	t->together++;
	/* A tenant that comes may itself await one that was passed over. */
	while (take_one(leader, now_ns))
		;
}

void turns_company_count(struct turns_tenant *t, uint64_t now_ns)
{
	const struct turns_seat *leader = turns_tenant_seat(t);
	uint64_t usual_ns = most(t->turns->tuning.turn_ns, turns_ring_turn_ns(t));

	if (leader && !list_empty(&leader->along))
		t->together += (uint32_t)((now_ns - t->along_ns) / usual_ns);
}

bool turns_company_arrive(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_seat *leader = s->device->holder;
	struct turns_tenant *t = leader->tenant;

	if (t->state != TURNS_RUNNING || t->stepping || t->alone || t->idle ||
	    turns_tenant_governed(t) != 1 || !turns_company_awaits(leader, s) ||
	    !turns_company_may_come(s))
		return false;
	turns_company_take(leader, s, now_ns);
	turns_tenant_judge(t, now_ns);
	return true;
}

/* ---- parting --------------------------------------------------------------------------------- */

/* On any of its devices: it may have got a second one since it came along. */
static bool asks(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		if (!is_free(SEAT_OF_TENANT(link)) && SEAT_OF_TENANT(link)->asks)
			return true;
	}
	return false;
}

/* Its gate is closed, or not waited for. */
static void part(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	list_remove(&s->along_link);
	s->leader = NULL;
	t->state = TURNS_IDLE;
	t->idle = false;
	t->wants = asks(t);
	if (!t->wants) {
		turns_seat_entitle(s, false, now_ns);
		turns_seat_floor(s, true, now_ns);
		turns_seat_deactivate(s, true, now_ns);
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

void turns_company_close(struct turns_seat *leader, uint64_t now_ns)
{
	list_for_each(link, &leader->along) close_gate(SEAT_ALONG(link), now_ns);
	part_closed(leader, now_ns);
}

/* Its leader's turn goes on, and may never end: so this drain has a timer of its own. */
static void close_early(struct turns_seat *s, uint64_t now_ns)
{
	if (s->gate != TURNS_OPENED)
		return;
	close_gate(s, now_ns);
	if (s->gate == TURNS_CLOSING)
		turns_timer_set(&s->device->turns->drains, &s->timer,
				now_ns + s->device->turns->tuning.hang_ns);
}

void turns_company_late(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->leader->tenant;

	if (t->state != TURNS_RUNNING || t->stepping)
		return;
	t->forced = true;
	turns_tenant_judge(t, now_ns);
}

void turns_company_expel(struct turns_tenant *t, uint64_t now_ns)
{
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!s->leader)
			continue;
		close_early(s, now_ns);
		part_closed(s->leader, now_ns);
		return;
	}
}

uint64_t turns_company_keep_caps(struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t first = UINT64_MAX;

	list_for_each(link, &t->seats)
	{
		struct turns_seat *leader = SEAT_OF_TENANT(link);

		list_for_each(along, &leader->along)
		{
			uint64_t at = turns_seat_exhausted(SEAT_ALONG(along), now_ns);

			if (SEAT_ALONG(along)->gate != TURNS_OPENED)
				continue;
			if (at <= now_ns)
				close_early(SEAT_ALONG(along), now_ns);
			else
				first = least(first, at);
		}
		part_closed(leader, now_ns);
	}
	return first;
}

void turns_company_drained(struct turns_seat *s, uint64_t now_ns)
{
	part(s, now_ns);
}

void turns_company_let_owe(struct turns_seat *leader, uint64_t now_ns)
{
	turns_company_close(leader, now_ns);
	list_for_each(link, &leader->along)
	{
		struct turns_seat *s = SEAT_ALONG(link);

		turns_seat_let_owe(s, now_ns);
		s->asks = true;
		part(s, now_ns);
	}
}

/* ---- the end of the leader's turn ------------------------------------------------------------ */

/* It may run no more, and holds the device until its work in flight has ended. */
static void inherit(struct turns_seat *s, uint64_t company_ns, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_settle(s, now_ns);
	list_remove(&s->along_link);
	s->leader = NULL;
	s->device->holder = s;
	t->state = TURNS_ENDING;
	t->wants = asks(t);
	t->idle = t->forced = t->stepping = t->moment = t->laden = t->alone = false;
	t->undrained = 1;
	t->steps = t->trials = 0;
	t->let_in = NULL;
	t->ending_ns = s->closing_ns;
	t->closed_ns = now_ns;
	t->company_ns = company_ns;
	turns_seat_activate(s, now_ns);
	turns_timer_set(&t->turns->drains, &s->timer, now_ns + turns_tenant_check_ns(t));
}

void turns_company_pass_on(struct turns_seat *leader, uint64_t now_ns)
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
		s->tenant->state = TURNS_IDLE;
	}
}

void turns_company_detach(struct turns_seat *s, uint64_t now_ns)
{
	if (s->leader) {
		list_remove(&s->along_link);
		s->leader = NULL;
		s->tenant->state = TURNS_IDLE;
	}
	if (is_free(s))
		drop_company(s);
	if (s->device->holder == s)
		turns_company_pass_on(s, now_ns);
}
