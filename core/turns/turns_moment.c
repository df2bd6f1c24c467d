/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of a moment. Work whose drain was given up may wait for a tenant that may not run, as that
 * one owes for its cap. Until it has paid, the work polls, and takes slices of the device. So the
 * tenant is let in for a moment, and for the next one once its cap has paid for that, whatever else
 * it owes. Once that was a second, drains included, it has to pay for all. See decisions/0176.
 */
#include "core/turns/turns_machine.h"

enum {
	OWED_TURNS = 2,	 /* who owes less has its turn soon */
	PARTS = 7,	 /* of `step_ns` */
	SHORTENS = 8,	 /* one of so many moments makes the next ones of its tenant shorter */
	FRUITLESS = 3,	 /* drains of one tenant in a row that were given up */
	LONG_DRAINS = 2, /* times `drain_ns`: what lasts for longer than that counts as a whole */
};

static const uint32_t spread = 2654435761; /* a multiplicative hash */

/* Nothing but its cap keeps it from running, and will for a while. */
static bool is_capped(struct turns_seat *s, uint64_t now_ns)
{
	if (s->tenant->state != TURNS_CAPPED || s->gate != TURNS_CLOSED ||
	    turns_tenant_governed(s->tenant) != 1)
		return false;
	turns_seat_allow(s, now_ns);
	return s->allowance < -(int64_t)(OWED_TURNS * s->device->turn_ns * MILLI);
}

static bool may_have_one(struct turns_seat *s, uint64_t now_ns)
{
	return s->moments_ns < s->device->turns->tuning.hang_ns && is_capped(s, now_ns);
}

/* Work that does not end however often others are let in waits for nobody, nor does work that waits
 * for something outside of the device. */
static bool is_needed(const struct turns_device *d)
{
	if (!d->beside)
		return false;
	list_for_each(link, (struct list *)&d->seats)
	{
		const struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (s->gate == TURNS_OWING && !s->held && s->tenant->bond != TURNS_HUNG &&
		    s->tenant->stuck < FRUITLESS)
			return true;
	}
	return false;
}

/* Others' work may wait for it. */
static bool is_concerned(struct turns_seat *s, uint64_t now_ns)
{
	return may_have_one(s, now_ns) && is_needed(s->device);
}

static uint64_t due_ns(const struct turns_seat *s)
{
	return most(s->moment_ns, s->device->moment_ns);
}

/* With `is_needed`. */
static void await(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_node *timer = &s->tenant->timer;
	uint64_t at = most(now_ns, due_ns(s));

	if (!may_have_one(s, now_ns) || s->moment_due ||
	    (turns_node_linked(timer) && timer->key <= at))
		return;
	turns_timer_set(&s->device->turns->timers, timer, at);
}

void turns_moment_await(struct turns_seat *s, uint64_t now_ns)
{
	if (is_concerned(s, now_ns))
		await(s, now_ns);
}

/* Whether moments are needed is asked once, as it may go through all seats. */
void turns_moment_await_all(struct turns_device *d, uint64_t now_ns)
{
	bool needed = is_needed(d);

	d->moment_due = false;
	list_for_each(link, &d->seats)
	{
		SEAT_OF_DEVICE(link)->moment_due = false;
		if (needed)
			await(SEAT_OF_DEVICE(link), now_ns);
	}
}

void turns_moment_come(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_seat *holder = s->device->holder;

	if (!is_concerned(s, now_ns) || now_ns < due_ns(s))
		return;
	s->moment_due = s->device->moment_due = true;
	if (!holder) {
		turns_device_serve(s->device, now_ns);
		return;
	}
	holder->tenant->forced = true;
	turns_tenant_judge(holder->tenant, now_ns);
}

bool turns_moment_helps(const struct turns_seat *s, uint64_t now_ns)
{
	list_for_each(link, &s->device->seats)
	{
		if (is_capped(SEAT_OF_DEVICE(link), now_ns))
			return true;
	}
	return false;
}

/* The one that has waited longest. */
static struct turns_seat *next(struct turns_device *d, uint64_t now_ns)
{
	struct turns_seat *first = NULL;

	list_for_each(link, &d->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (s->moment_due && may_have_one(s, now_ns) &&
		    (!first || s->moment_ns < first->moment_ns))
			first = s;
	}
	return first;
}

bool turns_moment_begin(struct turns_device *d, uint64_t now_ns)
{
	struct turns_seat *s;
	struct turns_tenant *t;

	if (!d->moment_due || now_ns < d->moment_ns)
		return false;
	s = is_needed(d) ? next(d, now_ns) : NULL;
	if (!s) {
		turns_moment_await_all(d, now_ns);
		return false;
	}
	t = s->tenant;
	t->idle = t->paused = t->forced = t->laden = t->alone = false;
	t->steps = t->trials = 0;
	t->let_in = NULL;
	t->ending_ns = t->company_ns = now_ns;
	t->moment = true;
	s->moment_due = d->moment_due = false;
	d->moments++;
	d->holder = s;
	turns_seat_open(s, now_ns);
	s->moment = true;
	turns_tenant_step(t, now_ns);
	return true;
}

/* Most let in as few launches as can be: members of a group that launches ahead differ in how many
 * they have launched by no more than one moment lets in, and the fewer that is, the sooner they
 * have all launched equally many, and drain. Others are longer, in no order that a group could fall
 * into step with. */
uint64_t turns_moment_ns(const struct turns_tenant *t)
{
	static const uint8_t parts[] = {1, 1, 1, 1, 2, 3, 5, 7};
	const struct turns_seat *s = turns_tenant_seat(t);
	uint32_t n = s ? s->device->moments * spread >> 16 : 0;
	uint32_t all = s ? parts[n % ARRAY_SIZE(parts)] + s->moment_longer : 1;

	return t->turns->tuning.step_ns * least(all, PARTS) / PARTS;
}

/* Others' work takes slices of the device before its own can end. So if it has drained at once, its
 * thread was not through the gate yet when that closed, and gets longer. */
static void learn_length(struct turns_seat *s)
{
	if (s->gate == TURNS_CLOSED)
		s->moment_longer += s->moment_longer < PARTS - 1;
	else if (s->device->moments % SHORTENS == 0)
		s->moment_longer -= s->moment_longer > 0;
}

/* The hardware divides the device among all that have work on it. What lasts for long may have more
 * than that: not all that is left on the device takes of it. */
void turns_moment_drained(struct turns_seat *s, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - s->opened_ns;
	uint64_t long_ns = LONG_DRAINS * s->device->turns->tuning.drain_ns;

	s->moments_ns +=
		most(took_ns / (s->device->beside + 1), took_ns > long_ns ? took_ns - long_ns : 0);
}

void turns_moment_end(struct turns_tenant *t, uint64_t now_ns)
{
	struct turns_seat *s = turns_tenant_seat(t);

	t->moment = false;
	if (!s)
		return;
	learn_length(s);
	s->moment_ns = now_ns + (now_ns - s->opened_ns) * MILLI / turns_cap_milli(s);
	s->device->moment_ns = now_ns + s->device->turn_ns;
	turns_moment_await_all(s->device, now_ns);
}
