/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a seat owes outlives its caller: law 19, see decisions/0216. Work that went on beside
 * others' still does, and more may have come meanwhile, as nobody closed a gate.
 */
#include "core/turns/turns_kept.h"

#include "core/turns/turns_machine.h"

/* In thousandths: a week or so. What is read may be another version's. */
static const uint64_t most_owed = 1000000000000000000;

static bool is_there(const struct turns_seat *s)
{
	return list_linked(&s->of_device);
}

/* It is at the gate or behind it. */
static bool wants_to_run(const struct turns_seat *s)
{
	return s->tenant->wants || s->asks || s->gate == TURNS_CLOSING ||
	       (s->gate == TURNS_OPENED && !s->idle);
}

/* It may wait for its own thread: it is charged once it has drained. */
static bool goes_on(const struct turns_seat *s)
{
	return s->gate == TURNS_OWING && !s->held && s->tenant->bond != TURNS_HUNG;
}

static uint64_t below_zero(int64_t left)
{
	return left < 0 ? (uint64_t)-left : 0;
}

static void keep_present(struct turns_seat *s, struct turns_kept *kept, uint64_t now_ns)
{
	const struct turns_tenant *t = s->tenant;
	int64_t ahead;

	turns_device_settle(s->device, now_ns);
	turns_seat_allow(s, now_ns);
	turns_seat_floor(s, true, now_ns);
	ahead = s->device->governed ? (int64_t)(s->virtual_ns - s->device->clock) : 0;
	kept->at_ns = now_ns;
	kept->owed_ns = ahead > 0 ? turns_seat_real(s, (uint64_t)ahead) : 0;
	kept->cap_owed = below_zero(s->allowance);
	kept->unpaid = s->unpaid > 0 ? (uint64_t)s->unpaid : 0;
	kept->floor_owed = below_zero(s->floor);
	kept->ran = s->device->governed && wants_to_run(s);
	kept->owing_ns = goes_on(s) ? s->owing_ns : 0;
	kept->watched_until_ns = kept->owing_ns ? t->watched_until_ns : 0;
	kept->left = t->left;
	kept->computes = t->computes;
}

static void keep_former(const struct turns_seat *s, struct turns_kept *kept)
{
	kept->at_ns = s->left_ns;
	kept->owed_ns = s->owed_ns;
	kept->cap_owed = below_zero(s->left_allowance);
	kept->unpaid = s->unpaid > 0 ? (uint64_t)s->unpaid : 0;
	kept->floor_owed = below_zero(s->floor);
}

void turns_keep(struct turns_seat *s, struct turns_kept *ret_kept, uint64_t now_ns)
{
	*ret_kept = (struct turns_kept){0};
	if (is_there(s))
		keep_present(s, ret_kept, now_ns);
	else
		keep_former(s, ret_kept);
}

/* No gate was closed since then: its cap pays for that, as long as a debt lasts at most. */
static uint64_t meanwhile(const struct turns_tenant *t, const struct turns_kept *kept,
			  uint64_t now_ns)
{
	return least(beyond(now_ns, kept->at_ns), t->turns->tuning.debt_ns);
}

void turns_kept(struct turns_seat *s, struct turns_tenant *t, const struct turns_kept *kept,
		uint64_t now_ns)
{
	uint64_t had_ns = meanwhile(t, kept, now_ns), cap_owed = least(kept->cap_owed, most_owed);

	if (is_there(s) || !kept->at_ns)
		return;
	if (kept->ran && !kept->owing_ns)
		cap_owed += had_ns * MILLI;
	/* The machine may have started anew since then. */
	s->left_ns = least(kept->at_ns, now_ns);
	s->left_allowance = -(int64_t)cap_owed;
	s->unpaid = (int64_t)least(kept->unpaid, most_owed);
	s->floor = -(int64_t)least(kept->floor_owed, most_owed);
	s->kept_owing_ns = 0;
	if (kept->owing_ns && kept->at_ns <= now_ns)
		s->kept_owing_ns = now_ns - had_ns - beyond(kept->at_ns, kept->owing_ns);
	s->kept_watched_ns = kept->watched_until_ns;
	t->left = (uint32_t)most(t->left, kept->left);
	t->computes |= kept->computes;
}

/* Its processes have ended, and their work with them: its cap pays for that, and processes that
 * come later have nothing to do with it. */
static void end_with_processes(struct turns_seat *s, uint64_t now_ns)
{
	if (s->kept_owing_ns)
		s->left_allowance -= (int64_t)((now_ns - s->kept_owing_ns) * MILLI);
	s->kept_owing_ns = 0;
}

/* The clock is the mean of those that want to run: what one of them owes is told when all are
 * there.
 */
void turns_kept_all(struct turns_seat *s, const struct turns_kept *kept, uint64_t now_ns)
{
	bool lined = s->lined, active = s->active;
	uint64_t debt_ns;

	if (!is_there(s)) {
		end_with_processes(s, now_ns);
		return;
	}
	if (!kept->owed_ns)
		return;
	debt_ns = s->device->turns->tuning.debt_ns;
	turns_line_remove(s);
	turns_seat_deactivate(s, false, now_ns);
	s->virtual_ns += turns_seat_virtual(s, least(kept->owed_ns, debt_ns));
	if (active)
		turns_seat_activate(s, now_ns);
	if (lined)
		turns_line_add(s, now_ns);
}

/* Nobody knows what others had of the device meanwhile: for its weight it had half. */
void turns_kept_join(struct turns_seat *s, const struct turns_seat *before, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (!before->kept_owing_ns)
		return;
	s->gate = TURNS_OWING;
	s->owing_ns = before->kept_owing_ns;
	s->owing_used_ns = s->device->used_ns - (now_ns - s->owing_ns);
	s->device->beside++;
	t->bond = TURNS_STAYED;
	turns_seat_todo(s, 0);
	/* A turn that it has elsewhere is about to end. */
	if (before->kept_watched_ns > now_ns &&
	    (t->state == TURNS_IDLE || t->state == TURNS_RUNNING))
		t->watched_until_ns = most(t->watched_until_ns, before->kept_watched_ns);
}

/* Where its turn has not ended, the timer is that one's. */
void turns_kept_joined(struct turns_tenant *t)
{
	if (!turns_last_is_watched(t))
		return;
	if (t->state == TURNS_IDLE || t->state == TURNS_ENDING)
		turns_timer_set(&t->turns->timers, &t->timer, t->watched_until_ns);
	else
		t->watched_until_ns = 0;
}

uint64_t turns_cap_owed(struct turns_seat *s, uint64_t now_ns)
{
	if (is_there(s)) {
		turns_seat_allow(s, now_ns);
		return below_zero(s->allowance);
	}
	return beyond(below_zero(s->left_allowance), (now_ns - s->left_ns) * turns_cap_milli(s));
}

/* Its cap owes more, or less. */
static void owe_cap(struct turns_seat *s, int64_t more, uint64_t now_ns)
{
	int64_t owed = (int64_t)turns_cap_owed(s, now_ns) + more;

	if (is_there(s)) {
		s->allowance -= more;
		turns_tenant_timer(s->tenant, now_ns);
		return;
	}
	s->left_ns = now_ns;
	s->left_allowance = -owed;
}

void turns_pass_cap(struct turns_seat *from, struct turns_seat *to, uint32_t parts, uint64_t now_ns)
{
	int64_t part = (int64_t)(turns_cap_owed(from, now_ns) / parts);

	if (part)
		owe_cap(from, -part, now_ns);
	/* Also if that is nothing: one that is new would otherwise begin with a burst that nobody
	 * has saved up. */
	if (part || !to->left_ns)
		owe_cap(to, part, now_ns);
}
