/* SPDX-License-Identifier: Apache-2.0 */
/* What the tenants of test_turns_always.c had and were granted, by the test's own books: laws 2
 * and 5. */
#pragma once

#include "tests/unit/turns_tenants.h"

static inline void forget_spans(struct seat *s)
{
	s->left = (int64_t)(tuning.burst_ns * 1000);
	s->left_at = m.now;
	s->unpaid = 0;
	s->opened_unpaid = 0;
	s->brief_from = 0;
	s->first_span = s->span;
	s->longest_drain = s->longest_owed = s->held_ns = 0;
	if (s->opened)
		s->opened = m.now;
	if (s->owing)
		s->owing = m.now;
}

static inline void forget_device(unsigned d)
{
	FOR_SEATS(s)
	{
		if (s->device != d)
			continue;
		forget_spans(s);
		if (m.devices[d].governed != m.was_governed[d])
			s->granted = 0; /* it was open before */
	}
}

/* Law 5: what its cap pays until now. What it had by gates that were opened before it had paid is
 * paid first. */
static inline void pay(struct seat *s, uint64_t charge_ns, uint64_t until)
{
	int64_t most = (int64_t)(tuning.burst_ns * 1000), charge = (int64_t)(charge_ns * 1000);
	uint64_t span = until > s->left_at ? until - s->left_at : 0;
	int64_t paid = (int64_t)(span * turns_cap_milli(&s->at));

	s->left_at += span;
	s->left += paid - charge;
	s->left = s->left < most ? s->left : most;
	s->unpaid += (s->opened_unpaid ? charge : 0) - paid;
	s->unpaid = s->unpaid > 0 ? s->unpaid : 0;
}

/* Law 5, as its gate is opened: it has paid for what it had, but for what it may have had since it
 * was found to be held not long ago; or is let in for another one's drain. */
static inline void expect_paid(struct seat *s, int was_held)
{
	int64_t most = (int64_t)((UNPAID_TURNS * tuning.turn_ns + US) * 1000);

	if (turns_cap_milli(&s->at) >= 1000 || !is_governed(s) || is_multi(tenant_of(s)))
		return;
	pay(s, 0, m.now);
	s->opened_unpaid = s->left < -(int64_t)(US * 1000);
	if (!s->opened_unpaid)
		return;
	if (was_held && s->left >= -(int64_t)((HELD_TURNS * tuning.turn_ns + US) * 1000)) {
		s->opened_unpaid = 0;
		s->held_ns = tuning.turn_ns;
		return;
	}
	if (s->brief) {
		expect(m.now >= s->brief_from); /* law 15 */
		return;
	}
	expect(s->moment);
	expect(s->unpaid <= most);
	m.unpaid++;
}

/* Law 5, of the second that ends now. */
static inline void expect_cap(struct seat *s)
{
	uint64_t cap = turns_cap_milli(&s->at), sum = 0, second = 1000 * MS;
	uint64_t from = m.now > second ? m.now - second : 0;

	/* Who is coupled is closed when it is idle, however long that takes. */
	if (cap >= 1000 || s->span - s->first_span >= SPANS || tenant_of(s)->coupled)
		return;
	for (unsigned i = s->first_span; i < s->span; i++) {
		const struct span *p = &s->spans[i % SPANS];

		if (p->to > from)
			sum += (p->to - (p->from > from ? p->from : from)) / p->part;
	}
	expect(sum <= cap * MS + tuning.burst_ns + s->longest_drain + s->longest_owed + s->held_ns +
			      (uint64_t)s->unpaid / 1000 + US);
	m.checks++;
}

/* Law 2: until it has drained, or was reported. */
static inline void end_grant(struct seat *s)
{
	if (s->granted)
		m.granted[s->device] += m.now - s->granted;
	s->granted = 0;
	expect(m.granted[s->device] <= m.now - m.start);
}

static inline void add_span(struct seat *s, uint64_t from, uint64_t part)
{
	if (from) {
		pay(s, 0, from);
		pay(s, (m.now - from) / part, m.now);
	}
	if (from && s->span - s->first_span < SPANS)
		s->spans[s->span++ % SPANS] = (struct span){from, m.now, part};
}

/* A moment in which somebody else is to drain is one as a whole: it is not cut by a cap. */
static inline uint64_t overrun(const struct seat *s)
{
	return m.now - (s->moment ? s->began : s->ending);
}

/* Law 12: what has ended by itself is charged in part; law 16: or as a whole, if it was held. */
static inline void close_owed(struct seat *s)
{
	uint64_t part = tenant_of(s)->at.holds ? 1 : BESIDE;

	add_span(s, s->owing, part);
	if (s->owing && (m.now - s->owing) / part > s->longest_owed)
		s->longest_owed = (m.now - s->owing) / part;
	s->owing = 0;
}

static inline void close_span(struct seat *s)
{
	if (s->brief && s->opened)
		s->brief_from = m.now + (m.now - s->opened) * 1000 / turns_cap_milli(&s->at);
	s->brief = 0;
	add_span(s, s->opened, 1);
	s->opened = 0;
	end_grant(s);
	expect_cap(s);
}
