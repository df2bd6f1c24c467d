/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a turn continues: whenever something changes on the tenant's devices, when the
 * tenant reports that it is idle or wants to run again, and when its time is over.
 */
#include "core/turns/turns_machine.h"

enum {
	GRACE_USUAL =
		500, /* thousandths of the pauses that must be short for a pause to be waited for */
	STEPS_DOUBLED = 8, /* each of these steps is twice as long as the one before */
	COMPANY_TURNS = 16 /* the longest turn with company, in turns' lengths: a tenant that comes
			      along stands in no line, and so is no rival */
};

static bool is_contested(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		const struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!is_free(s) &&
		    (s->device->waiting || s->device->claimed || s->device->moment_due))
			return true;
	}
	return t->forced;
}

static bool has_company(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		if (!list_empty(&SEAT_OF_TENANT(link)->along))
			return true;
	}
	return false;
}

/* The minimum over its devices. */
static uint64_t slice(const struct turns_tenant *t)
{
	uint64_t shortest = UINT64_MAX, ring = turns_ring_turn_ns(t);

	if (ring)
		return ring;

	list_for_each(link, (struct list *)&t->seats)
	{
		const struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!is_free(s))
			shortest = least(shortest, turns_line_slice(s));
	}
	return shortest;
}

/* The drain is part of the turn. */
static uint64_t planned(const struct turns_tenant *t)
{
	uint64_t whole = slice(t), shortest = t->turns->tuning.shortest_ns;

	if (turns_ring_is_open(t))
		return whole;
	return whole > t->overrun_ns + shortest ? whole - t->overrun_ns : shortest;
}

void turns_tenant_begin(struct turns_tenant *t, uint64_t now_ns)
{
	t->state = TURNS_RUNNING;
	t->turn_ns = now_ns;
	t->end_ns = is_contested(t) ? now_ns + planned(t) : UINT64_MAX;
	turns_tenant_judge(t, now_ns);
}

/* ---- judging --------------------------------------------------------------------------------- */

/* The seat that would run if the holder stood in line as well; possibly the holder itself. */
static struct turns_seat *challenger(struct turns_seat *holder, uint64_t now_ns)
{
	struct turns_seat *best;

	if (!holder->device->waiting)
		return holder;
	/* It joins the line only now: it has not waited. */
	holder->wanted_ns = now_ns;
	turns_line_add(holder, now_ns);
	best = turns_line_best(holder->device, now_ns);
	turns_line_remove(holder);
	return best;
}

static bool is_beaten(struct turns_tenant *t, uint64_t now_ns)
{
	if (t->forced)
		return true;
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!is_free(s) && challenger(s, now_ns) != s)
			return true;
	}
	return false;
}

/* What had not drained when turns began is charged beside the holder. */
static void settle_strays(struct turns_device *d, uint64_t now_ns)
{
	if (!d->strays)
		return;
	list_for_each(link, &d->seats)
	{
		if (SEAT_OF_DEVICE(link)->stray)
			turns_settle(SEAT_OF_DEVICE(link), now_ns);
	}
}

void turns_tenant_settle(struct turns_tenant *t, uint64_t now_ns)
{
	list_for_each(link, &t->seats)
	{
		settle_strays(SEAT_OF_TENANT(link)->device, now_ns);
		turns_settle(SEAT_OF_TENANT(link), now_ns);
		list_for_each(other, &SEAT_OF_TENANT(link)->along)
			turns_settle(SEAT_ALONG(other), now_ns);
	}
}

void turns_device_settle(struct turns_device *d, uint64_t now_ns)
{
	if (d->holder)
		turns_tenant_settle(d->holder->tenant, now_ns);
	else
		settle_strays(d, now_ns);
}

static void pause_turn(struct turns_tenant *t, uint64_t now_ns)
{
	t->paused = true;
	turns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (is_free(s))
			continue;
		turns_seat_entitle(s, false, now_ns);
		turns_seat_floor(s, true, now_ns);
		turns_seat_deactivate(s, true, now_ns);
	}
}

static void resume_turn(struct turns_tenant *t, uint64_t now_ns)
{
	if (!t->paused)
		return;
	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (is_free(s))
			continue;
		turns_settle(s, now_ns);
		turns_seat_floor(s, false, now_ns);
		turns_seat_entitle(s, true, now_ns);
		turns_seat_activate(s, now_ns);
	}
	t->paused = false;
}

static uint64_t grace(const struct turns_tenant *t)
{
	if (t->bond != TURNS_FREE || t->gap_milli < GRACE_USUAL)
		return 0;
	return least(2 * t->gap_ns, t->turns->tuning.grace_ns);
}

/* A turn of held work may begin with a debt (turns_held_was_seen()), and is not over at once. */
static uint64_t seat_exhausted(struct turns_seat *s, uint64_t now_ns)
{
	uint64_t at = turns_seat_exhausted(s, now_ns);

	return most(at, s->opened_ns + s->device->turns->tuning.shortest_ns);
}

/* When its cap is used up on one of its devices; UINT64_MAX: there is none. */
static uint64_t exhausted(struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t first = UINT64_MAX;

	list_for_each(link, &t->seats)
	{
		struct turns_seat *s = SEAT_OF_TENANT(link);

		if (!is_free(s))
			first = least(first, seat_exhausted(s, now_ns));
	}
	return first;
}

/* The turn is extended, unless it must end; returns when to check again. */
static uint64_t extend(struct turns_tenant *t, bool *ret_over, uint64_t now_ns)
{
	if (t->forced || (now_ns >= t->end_ns && is_beaten(t, now_ns)))
		*ret_over = true;
	if (!*ret_over && now_ns >= t->end_ns) {
		t->turn_ns = now_ns;
		t->end_ns = now_ns + slice(t);
	}
	return t->end_ns;
}

/* When a turn with company ends. */
static uint64_t company_end(const struct turns_tenant *t)
{
	if (!has_company(t))
		return UINT64_MAX;
	return t->along_ns + COMPANY_TURNS * t->turns->tuning.turn_ns;
}

/* Whether the turn ends because the tenant is idle; if not, when to check again. */
static bool ends_idle(struct turns_tenant *t, uint64_t now_ns, uint64_t *ret_at)
{
	uint64_t end = t->idle_ns + (t->forced ? 0 : grace(t));

	if (now_ns >= end)
		return true;
	*ret_at = least(*ret_at, end);
	return false;
}

uint64_t turns_tenant_step_ns(const struct turns_tenant *t)
{
	const struct turns_tuning *tuning = &t->turns->tuning;

	if (!t->steps)
		return 0;
	if (t->moment)
		return turns_moment_ns(t);
	if (turns_tenant_is_stuck(t))
		return tuning->beside_ns;
	return tuning->step_ns << least(t->steps - 1, STEPS_DOUBLED);
}

void turns_tenant_step(struct turns_tenant *t, uint64_t now_ns)
{
	t->state = TURNS_RUNNING;
	t->stepping = true;
	t->steps++;
	t->turn_ns = now_ns;
	t->end_ns = now_ns + turns_tenant_step_ns(t);
	turns_tenant_judge(t, now_ns);
}

/* It was let in to be able to drain. Without rivals this is a turn like any other. */
static void judge_step(struct turns_tenant *t, uint64_t now_ns)
{
	turns_tenant_settle(t, now_ns);
	if (!t->barred && !t->moment && !is_contested(t) && !has_company(t) &&
	    exhausted(t, now_ns) > now_ns) {
		t->stepping = false;
		turns_tenant_begin(t, now_ns);
	} else if (t->idle || now_ns >= t->end_ns || (t->moment && t->barred)) {
		/* It needs no moment in order to drain. */
		turns_tenant_end_turn(t, now_ns);
	} else {
		turns_timer_set(&t->turns->timers, &t->timer, t->end_ns);
	}
}

void turns_tenant_judge(struct turns_tenant *t, uint64_t now_ns)
{
	bool contested = is_contested(t), over = false;
	uint64_t at = UINT64_MAX;

	if (t->state != TURNS_RUNNING)
		return;
	if (t->stepping) {
		judge_step(t, now_ns);
		return;
	}
	if (contested)
		resume_turn(t, now_ns);
	turns_tenant_settle(t, now_ns);
	at = least(exhausted(t, now_ns), company_end(t));
	over = at <= now_ns;
	at = least(at, turns_company_keep_caps(t, now_ns));
	if (t->idle && !contested && at == UINT64_MAX && !has_company(t)) {
		if (!t->paused)
			pause_turn(t, now_ns);
		return;
	}
	if (t->idle && ends_idle(t, now_ns, &at)) {
		turns_tenant_end_turn(t, now_ns);
		return;
	}
	if (contested)
		at = least(at, extend(t, &over, now_ns));
	else
		t->end_ns = UINT64_MAX;
	if (over)
		turns_tenant_end_turn(t, now_ns);
	else
		turns_timer_set(&t->turns->timers, &t->timer, at);
}

/* A tenant has joined the line. It does not cut the holder's turn short if it has had its own
 * part. */
void turns_arrive(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_seat *holder = s->device->holder, *best;
	struct turns_tenant *t;
	uint64_t soonest;

	if (!holder) {
		turns_device_serve(s->device, now_ns);
		return;
	}
	if (turns_company_arrive(s, now_ns))
		return;
	t = holder->tenant;
	if (t->state != TURNS_RUNNING || t->stepping)
		return;
	resume_turn(t, now_ns);
	turns_tenant_settle(t, now_ns);
	best = challenger(holder, now_ns);
	soonest = most(now_ns, t->turn_ns + t->turns->tuning.shortest_ns);
	/* A turn that begins only now, with work on the device, would end with a drain of it. */
	if (best == s && s->tenant->share.class < t->share.class &&
	    (holder->told_open || holder->clear))
		soonest = now_ns;
	if (best != s)
		soonest = most(soonest, t->turn_ns + slice(t));
	t->end_ns = least(t->end_ns, soonest);
	turns_tenant_judge(t, now_ns);
}

/* ---- the tenant's reports -------------------------------------------------------------------- */

static void learn_gap(struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t gap = now_ns - t->idle_ns;
	bool is_short = gap <= t->turns->tuning.grace_ns;

	if (!t->idle_ns)
		return;
	t->idle_ns = 0;
	t->gap_milli = t->gap_milli * 3 / 4 + (is_short ? MILLI / 4 : 0);
	if (is_short)
		t->gap_ns = t->gap_ns ? (3 * t->gap_ns + gap) / 4 : gap;
}

void turns_wants(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	s->asks = true;
	s->idle = false;
	if (is_free(s))
		return;
	learn_gap(t, now_ns);
	t->wants = true;
	if (t->state == TURNS_RUNNING && t->idle) {
		t->idle = false;
		resume_turn(t, now_ns);
		turns_tenant_judge(t, now_ns);
	} else if (t->bond == TURNS_HUNG && s->gate == TURNS_OWING) {
		turns_tenant_check(s);
	}
	turns_tenant_enter(t, now_ns);
}

void turns_idle(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (is_free(s) || s->gate != TURNS_OPENED || s->idle)
		return;
	s->idle = true;
	s->asks = false;
	list_for_each(link, &t->seats)
	{
		if (!is_free(SEAT_OF_TENANT(link)) && !SEAT_OF_TENANT(link)->idle)
			return;
	}
	t->idle = true;
	t->idle_ns = now_ns;
	turns_tenant_judge(t, now_ns);
}
