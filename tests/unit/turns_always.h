/* SPDX-License-Identifier: Apache-2.0 */
/* What always holds of the tenants of test_turns_always.c, whatever is done: turns_laws.h has what
 * is done. */
#pragma once

#include "tests/unit/turns_laws.h"

/* Whether anything would be gained by turns, told without the machine's sums. */
static inline int differs(unsigned d)
{
	const struct turns_share *one = NULL;
	int difference = 0, tenants = 0;

	FOR_SEATS(s)
	{
		const struct turns_share *share = &tenant_of(s)->share;

		if (s->device != d)
			continue;
		tenants++;
		one = one ? one : share;
		if (share->cap_milli < 1000 || s->at.barred)
			return 1;
		difference |= share->weight != one->weight || share->class != one->class ||
			      share->guarantee_milli || share->equal || share->weighted ||
			      s->at.uneven;
	}
	return tenants > 1 && (difference || m.unfair[d]);
}

static inline void expect_open_device(unsigned d)
{
	FOR_SEATS(s)
	{
		if (s->device == d)
			expect(s->open);
	}
}

/* Law 3: it could run, and nothing does. */
static inline void expect_busy(const struct seat *s)
{
	const struct turns_device *d = &m.devices[s->device];
	int used = d->claimed && d->claimed->tenant->state == TURNS_READY;

	used |= d->holder && d->holder->tenant->undrained > 0;

	FOR_SEATS(other)
	{
		if (other->device == s->device)
			used |= other->open || (!other->drained && !other->excused);
	}
	expect(used);
}

static inline int could_run(const struct seat *s)
{
	const struct tenant *t = tenant_of(s);

	return is_governed(s) && s->stands && s->drained && !s->open && !is_multi(t) &&
	       t->at.state != TURNS_CAPPED && !t->at.barred && t->at.bond == TURNS_FREE &&
	       !t->suspended && !s->at.stray;
}

/* Law 7: nobody's drain is waited for longer. */
static inline void expect_bounded_drains(void)
{
	uint64_t step = 256 * tuning.step_ns;

	for (unsigned i = 0; i < TENANTS; i++) {
		const struct turns_tenant *t = &m.tenants[i].at;

		if (m.tenants[i].there && (t->stepping || t->undrained))
			expect(m.now - t->ending_ns <= tuning.hang_ns + step);
	}
}

/* Somebody could run, or is let in for a moment only. */
static inline int waits_beside(const struct turns_seat *holder)
{
	FOR_SEATS(s)
	{
		if (m.devices[s->device].holder != holder || &s->at == holder)
			continue;
		if (s->at.leader || (could_run(s) && s->at.lined))
			return 1;
	}
	return 0;
}

/* Law 14: however many have come along and drain one after the other, and whichever was let in; and
 * no drain becomes a turn meanwhile. */
static inline void expect_no_chain_of_drains(unsigned d)
{
	const struct turns_seat *holder = m.devices[d].holder;
	int runs = holder && holder->tenant->state == TURNS_RUNNING && !holder->tenant->stepping;

	if (m.multi)
		return;
	if (!holder || !waits_beside(holder)) {
		m.kept[d] = 0;
	} else if (runs) {
		expect(!m.kept[d] || m.kept_from[d] != holder || m.kept_turns[d] != holder->turns);
		m.kept[d] = 0;
	} else if (!m.kept[d]) {
		m.kept[d] = m.now;
		m.chains++;
	}
	m.kept_from[d] = holder;
	m.kept_turns[d] = holder ? holder->turns : 0;
	expect(!m.kept[d] || m.now - m.kept[d] <= 2 * tuning.hang_ns + tuning.beside_ns);
}

/* Law 14. */
static inline void expect_company_ends(const struct seat *s)
{
	if (s->at.leader && s->open)
		expect(m.now - s->began <= COMPANY_TURNS * tuning.turn_ns);
}

/* It runs on all of its devices or is about to end; and a tenant with work in flight is not idle.
 */
static inline void expect_together(const struct tenant *t)
{
	for (unsigned d = 0; d < DEVICES; d++) {
		const struct seat *s = &t->seats[d];

		if (!s->there || !is_governed(s))
			continue;
		if (t->at.state == TURNS_RUNNING && !t->at.forced)
			expect(m.devices[d].holder == &s->at);
		if (s->open)
			expect(!s->at.idle || s->idle);
		expect(!s->let_in);
	}
}

static inline void expect_laws(void)
{
	int timers = 0;

	expect_bounded_drains();
	for (unsigned i = 0; i < TENANTS; i++)
		expect_together(&m.tenants[i]);
	for (unsigned d = 0; d < DEVICES; d++) {
		unsigned open = 0;

		expect_eq(m.devices[d].governed, differs(d));
		timers |= m.devices[d].governed;
		if (m.devices[d].governed != m.was_governed[d])
			forget_device(d);
		m.was_governed[d] = m.devices[d].governed;
		if (!m.devices[d].governed) {
			expect_open_device(d);
			continue;
		}
		FOR_SEATS(s)
		{
			open += s->device == d && s->open && !s->at.leader;
			expect_company_ends(s);
			if (s->device == d && could_run(s))
				expect_busy(s);
		}
		expect(open <= 1);
		expect_no_chain_of_drains(d);
	}
	if (!timers)
		expect(turns_deadline(&m.turns) == UINT64_MAX); /* law 10 */
}

static inline void pump(void)
{
	struct turns_action action;

	while (turns_next(&m.turns, &action))
		do_action(&action);
	expect_laws();
}
