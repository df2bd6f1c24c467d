/* SPDX-License-Identifier: Apache-2.0 */
/* The laws that hold of the tenants of test_turns_always.c. */
#pragma once

#include "core/turns/turns_machine.h"
#include "tests/unit/turns_caps.h"

/* ---- what is to be done ---------------------------------------------------------------------- */

/* Law 13: one is the other's company, or both are the same one's. */
static inline int are_together(const struct seat *a, const struct seat *b)
{
	return a->at.leader == &b->at || b->at.leader == &a->at ||
	       (a->at.leader && a->at.leader == b->at.leader);
}

/* Law 1. */
static inline void expect_alone(const struct seat *opened)
{
	if (tenant_of(opened)->looked)
		return; /* it is opened again, as a thread stands at it */
	FOR_SEATS(s)
	{
		if (s == opened || s->device != opened->device || !is_governed(s) ||
		    are_together(s, opened))
			continue;
		expect(!s->open);
		expect(s->drained || s->excused);
	}
}

static inline void submit(struct seat *s)
{
	uint64_t length = below(4) ? below(3 * MS) : below(20) ? below(12 * MS) : below(100 * MS);

	if (s->busy_until < m.now)
		s->busy_until = m.now;
	if (tenant_of(s)->nature == OUTSIDE && m.now >= s->held_until && below(2)) {
		s->held_from = s->busy_until;
		s->busy_until += below(4) * below(100 * MS);
		s->held_until = s->busy_until;
	}
	s->busy_until += 1 + length;
	if (tenant_of(s)->nature == STOPS && below(4) == 0)
		tenant_of(s)->stopped_until = m.now + 1 + below(150 * MS);
	arrive(tenant_of(s));
	s->idle = 0;
}

static inline void on_open(struct seat *s)
{
	int was_held;

	expect(!s->open);
	if (is_governed(s)) {
		/* Law 11. Who was coupled, or given up, may not drain without this. */
		expect(!s->drained || !tenant_of(s)->at.barred || tenant_of(s)->seen);
		/* Law 8: it could do nothing with a turn. */
		expect(!tenant_of(s)->suspended);
		expect_alone(s);
		/* A drain that was given up may be followed by this at once. */
		if (s->at.leader)
			end_grant(s);
		else
			s->granted = s->granted ? s->granted : m.now;
		m.along += s->at.leader != NULL;
		m.governed++;
	}
	s->open = 1;
	s->began = m.now;
	s->brief = is_governed(s) && tenant_of(s)->at.moment;
	s->moment = s->at.leader && s->at.leader->tenant->state != TURNS_RUNNING;
	m.briefs += s->brief;
	s->excused = s->reported = s->let_in = 0;
	if (tenant_of(s)->at.lasts || s->held)
		close_owed(s);
	was_held = s->held;
	s->owing = s->held = s->stopped = 0;
	if (s->drained || !s->opened) {
		expect_paid(s, was_held);
		s->opened = m.now;
	} else {
		m.reopened++;
	}
	s->idle = !s->stands && s->drained;
	s->drained = 0;
	if (s->stands && !is_stopped(s)) {
		submit(s);
		s->stands = 0;
	}
	m.opened++;
}

static inline int all_idle(const struct tenant *t)
{
	for (unsigned d = 0; d < DEVICES; d++) {
		if (t->seats[d].there && is_governed(&t->seats[d]) && !t->seats[d].at.stray &&
		    t->seats[d].busy_until > m.now)
			return 0;
	}
	return 1;
}

static inline void on_close(struct seat *s)
{
	expect(s->open);
	expect(is_governed(s));
	/* Law 7: a tenant that is let in to be able to drain has time for it. */
	if (tenant_of(s)->at.stepping && !tenant_of(s)->at.moment && !s->at.stray &&
	    !all_idle(tenant_of(s)))
		expect(m.now - s->began >= tuning.step_ns);
	/* Law 15. */
	expect(!s->brief || m.now - s->began <= tuning.step_ns);
	s->open = 0;
	if (!tenant_of(s)->at.stepping || s->at.stray)
		s->ending = m.now;
}

/* Another tenant is let in for its drain. The machine forgets which one when a device becomes open
 * that both are on. */
static inline int has_open_company(const struct seat *s)
{
	FOR_SEATS(other)
	{
		if (other->at.leader == &s->at && other->open)
			return 1;
	}
	return 0;
}

/* Others run beside its work on the device, and beside the work of those that came along. Its cap
 * is of the time that it had until then, and of a part of the rest. */
static inline void excuse(void)
{
	FOR_SEATS(s)
	{
		uint64_t drain = overrun(s);

		if (s->at.gate != TURNS_OWING || s->owing)
			continue;
		if (s->opened && drain > s->longest_drain)
			s->longest_drain = drain;
		close_span(s);
		s->owing = m.now;
		s->excused = 1;
		end_grant(s);
	}
}

/* Law 16: whoever is said to be held is given up, and is let in by no drain. */
static inline void on_held(struct seat *s)
{
	int was_held = s->at.gate == TURNS_OWING && s->at.held;
	int closing = s->at.gate == TURNS_CLOSING;
	int was_hung = tenant_of(s)->at.bond == TURNS_HUNG;

	turns_held(&s->at, stands(tenant_of(s)), m.now);
	if (was_held) {
		/* Or it was reported on another device, wants to run, and this one is free. */
		expect((s->at.gate == TURNS_OWING && s->at.held) ||
		       (was_hung && s->at.gate == TURNS_OPENED));
		m.held_long++;
	}
	if (closing && s->at.gate == TURNS_OWING && s->at.held) {
		expect(!is_multi(tenant_of(s)));
		excuse();
		tenant_of(s)->looked = s->let_in = 0;
		m.held++;
		m.held_standing += (uint64_t)stands(tenant_of(s));
	}
	s->held = s->at.gate == TURNS_OWING && s->at.held;
	if (s->at.gate == TURNS_OWING && s->at.held && s->owing)
		s->owing = m.now;
	/* If it hangs after that, it is reported again. */
	for (unsigned d = 0; s->at.held && d < DEVICES; d++)
		tenant_of(s)->seats[d].reported = 0;
}

/* Law 16: likewise whoever is stopped. */
static inline void on_stopped(struct seat *s)
{
	int closing = s->at.gate == TURNS_CLOSING;

	turns_stopped(&s->at, stands(tenant_of(s)), m.now);
	if (!closing || s->at.gate != TURNS_OWING || !s->at.stopped)
		return;
	expect(!is_multi(tenant_of(s)));
	excuse();
	tenant_of(s)->looked = s->let_in = 0;
	s->stopped = 1;
	m.stopped++;
}

static inline void on_late(struct seat *s)
{
	struct tenant *t = tenant_of(s);
	int at_gate = stands(t), stray = s->at.stray, company = has_open_company(s);
	int brief = s->brief && s->at.gate == TURNS_CLOSING && !stray;
	int in_ring = turns_ring_is_known(&t->at);
	uint64_t closing = s->at.closing_ns;

	expect(!s->open && !s->drained);
	t->looked = at_gate && !stray && !brief;
	s->let_in =
		t->looked && s->at.gate == TURNS_CLOSING && m.now - s->ending < tuning.beside_ns;
	if (is_stopped(s))
		on_stopped(s);
	else if (is_held(s))
		on_held(s);
	else
		turns_late(&s->at, at_gate, m.now);
	if (at_gate && stray && s->at.gate == TURNS_OWING)
		s->excused = 1;
	if (brief)
		excuse();
	/* Or another tenant was, for which it may wait; or it is seen whether it waits for any; or
	 * its work usually lasts longer. */
	s->let_in &= !company && !t->at.let_in && !t->at.alone && !t->at.lasting_ns;
	/* Or its drains are short, as it is in a ring (law 18). */
	s->let_in &= !in_ring;
	/* Or it was only looked at so early as it may be held or stopped. */
	s->let_in &= t->at.bond != TURNS_FREE ||
		     (!t->at.holds && !t->at.stops && m.now - closing >= tuning.drain_ns);
}

/* Law 8: somebody there does not run before his cap has paid. The test's own books begin anew when
 * a share is set. */
static inline int somebody_pays(const struct seat *s)
{
	FOR_SEATS(other)
	{
		if (other->device == s->device && tenant_of(other)->at.state == TURNS_CAPPED)
			return 1;
	}
	return 0;
}

/* Law 8: the work of another one goes on behind a closed gate, too. */
static inline int somebody_is_late(const struct seat *s)
{
	FOR_SEATS(other)
	{
		if (other != s && other->device == s->device && !other->open && !other->drained)
			return 1;
	}
	return 0;
}

/* Law 8. */
static inline void expect_seen_to_wait(const struct seat *s)
{
	struct tenant *t = tenant_of(s);

	expect(t->seen || t->at.proved_ns || somebody_pays(s) || somebody_is_late(s));
	expect(m.now - s->ending >= tuning.beside_ns);
	expect(++t->vain <= VAIN);
	m.vain++;
}

/* Law 7: not before its time, and only if a thread stands there; or law 13. */
static inline void on_beside(struct seat *s)
{
	expect(!s->open && !s->drained);
	if (!stands(tenant_of(s)) && !tenant_of(s)->at.awaits[0])
		expect_seen_to_wait(s);
	excuse();
	tenant_of(s)->looked = 0;
	tenant_of(s)->seen = 1;
	m.given_up++;
}

/* Law 8. */
static inline void on_report(struct seat *s)
{
	expect(!s->open && !s->drained && !s->reported);
	expect(!stands(tenant_of(s)));
	expect(m.now - s->ending >= tuning.hang_ns);
	for (unsigned d = 0; d < DEVICES; d++) {
		struct seat *other = &tenant_of(s)->seats[d];

		if (other->there && !other->drained && !other->open)
			other->excused = other->reported = 1;
		if (other->there && other->reported)
			end_grant(other);
	}
	excuse();
	tenant_of(s)->stepped = tenant_of(s)->seen = s->held = s->stopped = 0;
	m.reports++;
}

static inline void on_step(struct seat *s, int kill)
{
	struct tenant *t = tenant_of(s);

	expect(s->reported && !t->stepped);
	expect(!stands(t));
	expect_eq(t->share.escalate, kill ? TURNS_MAY_KILL : TURNS_MAY_SUSPEND);
	t->stepped = 1;
	t->suspended = !kill;
}

/* Law 17: the second history does what the first one did. */
static inline void note(const struct turns_action *action)
{
	const struct seat *s = seat_of(action->seat);
	struct deed now = {m.now, action->verb, s->tenant, s->device, 0}, *then;

	if (looks.deeds == DEEDS)
		return;
	then = &looks.deed[looks.deeds++];
	if (!looks.on)
		*then = now;
	else if (memcmp(then, &now, sizeof(now)) != 0)
		test_fail(__FILE__, __LINE__,
			  "a look changed decision %u: verb %u of %u on %u after %llu ns, not %u "
			  "of %u on %u after %llu ns",
			  looks.deeds, now.verb, now.tenant, now.device,
			  (unsigned long long)(m.now - m.start), then->verb, then->tenant,
			  then->device, (unsigned long long)(then->at - m.start));
}

static inline void do_action(const struct turns_action *action)
{
	struct seat *s = seat_of(action->seat);

	note(action);
	expect(s->there);
	switch (action->verb) {
	case TURNS_OPEN:
		on_open(s);
		break;
	case TURNS_CLOSE:
		on_close(s);
		break;
	case TURNS_LATE:
		on_late(s);
		break;
	case TURNS_COUPLED:
		expect(stands(tenant_of(s)));
		tenant_of(s)->coupled = tenant_of(s)->seen = 1;
		break;
	case TURNS_BESIDE:
		on_beside(s);
		break;
	case TURNS_UNCOUPLED:
		tenant_of(s)->coupled = tenant_of(s)->seen = 0;
		forget_spans(s);
		break;
	case TURNS_AWAITS:
		m.awaited++;
		break;
	case TURNS_REPORT:
		on_report(s);
		break;
	case TURNS_SUSPEND:
	case TURNS_KILL:
		on_step(s, action->verb == TURNS_KILL);
		break;
	}
}
