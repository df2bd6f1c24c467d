/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns how long a tenant's work lasts by itself, so that one whose kernels are long is not taken
 * for one whose work waits for a thread: threads of both stand at the gate. After a drain that was
 * given up the tenant is watched before its next turn. See decisions/0150.
 */
#include "core/turns/turns_machine.h"

enum {
	SLACK_PART = 4,	   /* a kernel may take longer than the last one, by this part of it */
	FADES = 16,	   /* how slowly shorter ones lower what is known */
	CAPPED_WATCH = 10, /* times `hang_ns`, twice as long each time: how long a tenant with a cap
			      is watched at most */
	WATCH_OCTUPLED = 6 /* watched after 1, 8, 64, ... drains that were given up in a row */
};

uint64_t turns_last_ns(const struct turns_tenant *t)
{
	const struct turns_tuning *tuning = &t->turns->tuning;

	if (!t->lasting_ns)
		return 0;
	return least(t->lasting_ns + t->lasting_ns / SLACK_PART + tuning->drain_ns,
		     tuning->hang_ns);
}

/* Work that waits for another tenant's may be ended by what others do: such an end proves nothing
 * about it. Of a group that waits for each other, one at least was seen to wait, or others cannot
 * drain either. */
bool turns_last_may_wait(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		list_for_each(other, &SEAT_OF_TENANT(link)->device->seats)
		{
			const struct turns_tenant *o = SEAT_OF_DEVICE(other)->tenant;

			if (o->proved_ns || turns_tenant_awaits(o) ||
			    (o != t && o->bond != TURNS_FREE))
				return true;
		}
	}
	return false;
}

void turns_last_learn(struct turns_tenant *t, uint64_t took_ns)
{
	if (!t->lasting_ns || t->steps || turns_last_may_wait(t))
		return;
	t->left = 0;
	if (took_ns > t->lasting_ns)
		t->lasting_ns = took_ns;
	else
		t->lasting_ns -= (t->lasting_ns - took_ns) / FADES;
}

/* ---- watching -------------------------------------------------------------------------------- */

bool turns_last_is_watched(const struct turns_tenant *t)
{
	return t->watched_until_ns != 0;
}

static bool has_cap(const struct turns_tenant *t)
{
	return turns_tenant_seat(t) && turns_cap_milli(turns_tenant_seat(t)) < MILLI;
}

/* To watch one whose work waits for its thread costs it turns: not again and again. */
static bool is_to_be_watched(const struct turns_tenant *t)
{
	if (t->seen_ns || (t->computes && has_cap(t)))
		return true;
	for (unsigned i = 0; i < WATCH_OCTUPLED; i++) {
		if (t->left == 1u << 3 * i)
			return true;
	}
	return false;
}

/* Work that would have ended within `hang_ns` with nobody beside it ends until then. If there is a
 * cap, more than that may be queued, and would never be charged: each turn adds to it before it has
 * ended. See decisions/0198. */
static uint64_t watch_ns(const struct turns_tenant *t)
{
	const struct turns_tuning *tuning = &t->turns->tuning;
	unsigned times = 0;

	if (!has_cap(t))
		return TURNS_BESIDE_PART * (tuning->hang_ns - tuning->beside_ns);
	while (times < WATCH_OCTUPLED - 1 && t->left >= 1u << 3 * (times + 1))
		times++;
	return CAPPED_WATCH * tuning->hang_ns << times;
}

void turns_last_given_up(struct turns_tenant *t, uint64_t now_ns)
{
	/* Its drains are not what they were. */
	if (t->lasting_ns)
		t->overrun_ns = 0;
	t->lasting_ns = 0;
	/* A neighbour whose drain takes long beside such work is taken for one that awaits it. */
	if (!t->ends_held && turns_last_may_wait(t))
		return;
	t->left += t->left < UINT32_MAX;
	t->left_ns = now_ns;
	if (!is_to_be_watched(t))
		return;
	t->watched_until_ns = now_ns + watch_ns(t);
	turns_timer_set(&t->turns->timers, &t->timer, t->watched_until_ns);
	/* It does not save up what it does not get meanwhile. */
	list_for_each(link, &t->seats) turns_seat_deactivate(SEAT_OF_TENANT(link), false, now_ns);
}

/* It was reported, as no thread of it stood at a gate, and now one does. With a cap it is watched
 * nevertheless: what was queued would never be charged. */
void turns_last_queued(struct turns_tenant *t, uint64_t now_ns)
{
	if (has_cap(t))
		turns_last_given_up(t, now_ns);
}

/* With a cap, another process of it has no turn before this one goes on, or what was queued has
 * ended: what that has beside others would never be charged, as in watch_ns(). It is not known how
 * long work lasts that nobody can tell the end of. */
void turns_last_stopped(struct turns_tenant *t, uint64_t now_ns)
{
	t->left_ns = 0;
	if (!has_cap(t) || (t->stops && !t->computes))
		return;
	t->watched_until_ns = now_ns + CAPPED_WATCH * t->turns->tuning.hang_ns;
	turns_timer_set(&t->turns->timers, &t->timer, t->watched_until_ns);
}

void turns_last_unwatch(struct turns_tenant *t)
{
	if (!t->watched_until_ns)
		return;
	t->watched_until_ns = 0;
	turns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);
}

void turns_last_is_over(struct turns_tenant *t)
{
	turns_last_unwatch(t);
	t->seen_ns = 0;
	t->computes = t->ends_held = false;
	t->lasts = false; /* and is charged no more for what it has beside others */
}

void turns_last_runs(struct turns_tenant *t)
{
	t->left_ns = 0;
}

static bool has_run_before(const struct turns_seat *s, uint64_t since_ns)
{
	return s->gate == TURNS_CLOSED || s->gate == TURNS_OWING || s->opened_before_ns >= since_ns;
}

/* The tenant that runs now has run before since the drain was given up, and that did not end it: so
 * it is not what was waited for. */
static bool ended_by_itself(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		const struct turns_seat *holder = SEAT_OF_TENANT(link)->device->holder;

		if (!holder)
			continue;
		if (!has_run_before(holder, t->left_ns))
			return false;
		list_for_each(along, (struct list *)&holder->along)
		{
			if (!has_run_before(SEAT_ALONG(along), t->left_ns))
				return false;
		}
	}
	return true;
}

/* Others had turns of a moment since its drain was given up: it may have waited for one of them. */
static bool had_moments(const struct turns_tenant *t)
{
	const struct turns_seat *s = turns_tenant_seat(t);

	return s && s->device->moment_ns > t->left_ns;
}

void turns_last_computed(struct turns_tenant *t)
{
	turns_last_unwatch(t);
	t->computes = t->ends_held = true;
}

void turns_last_drained(struct turns_tenant *t, uint64_t now_ns)
{
	const struct turns_tuning *tuning = &t->turns->tuning;
	uint64_t alone_ns;
	bool agrees;

	turns_last_unwatch(t);
	t->computes = true;
	t->ends_held = false;
	if (!t->left_ns || turns_last_may_wait(t) || had_moments(t))
		return;
	alone_ns = t->left_ns - t->ending_ns + (now_ns - t->left_ns) / TURNS_BESIDE_PART;
	if (alone_ns > tuning->hang_ns ||
	    (alone_ns > tuning->beside_ns + tuning->drain_ns && !ended_by_itself(t)))
		return;
	t->left_ns = 0;
	agrees = alone_ns <= t->seen_ns + t->seen_ns / SLACK_PART;
	t->seen_ns = most(t->seen_ns, alone_ns);
	/* Its neighbours will wait for so long: more than a little is to be seen twice. */
	if (alone_ns > tuning->hang_ns / 2 && !agrees)
		return;
	t->lasting_ns = t->seen_ns;
	if (t->bond == TURNS_FREE)
		return;
	t->bond = TURNS_FREE;
	turns_seat_todo(turns_tenant_seat(t), TODO_UNCOUPLED);
}
