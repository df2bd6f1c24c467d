/* SPDX-License-Identifier: Apache-2.0 */
/* The device and the tenants of test_alike_always.c. */
#pragma once

#include "core/turns/alike.h"

#include <stdlib.h>

#include "tests/test.h"

#define MS UINT64_C(1000000)

enum { TENANTS = 4, HISTORIES = 100, TURN_MS = 8, LATE_MOST = 12, CALLS = 4000 };

struct tenant {
	struct alike_seat seat;
	bool there, busy;
	bool mute;			     /* its guests never report that they are idle */
	unsigned round_ms;		     /* for which it runs while the device is open */
	unsigned work_ms, rest_ms, phase_ms; /* rest_ms 0: it always wants the device */
	unsigned hollow_ms; /* of 10, in which its host does not get ready what it wants to run */
	unsigned ran_ms, shown_milli; /* in the sample that goes on; in the last one */
};

static struct {
	struct alike alike;
	struct tenant tenants[TENANTS];
	unsigned count, period_ms, running, left_ms;
	uint64_t now, sample_ns, answer_ns;
	bool blind, heard; /* heard: its guests were asked to report when they are idle */
	/* What happened. */
	uint64_t heard_ms, looks, open_ms, governed_ms, governed_first, opened_since,
		open_longest_ms, changes;
} m;

static inline void begin(unsigned count, unsigned period_ms)
{
	memset(&m, 0, sizeof(m));
	m.period_ms = period_ms;
	m.count = count;
	m.now = (1 + test_random_below(100000)) * MS;
	alike_init(&m.alike);
	for (unsigned i = 0; i < count; i++) {
		m.tenants[i] = (struct tenant){.there = true, .busy = true, .round_ms = 2};
		alike_join(&m.alike, &m.tenants[i].seat, m.now);
	}
	alike_apply(&m.alike, true, m.now);
}

/* ---- the device ------------------------------------------------------------------------------ */

static inline bool wants(const struct tenant *t)
{
	uint64_t at = m.now / MS + t->phase_ms;

	return !t->rest_ms || at % (t->work_ms + t->rest_ms) < t->work_ms;
}

/* They report it while they are asked to. They begin as if they wanted the device. */
static inline void set_busy(void)
{
	bool listens = alike_listens(&m.alike), begins = listens && !m.heard;

	for (unsigned i = 0; i < m.count; i++) {
		struct tenant *t = &m.tenants[i];

		t->busy = wants(t);
		if (listens)
			alike_wants(&t->seat, t->busy || t->mute || begins, m.now);
	}
	m.heard = listens;
	m.heard_ms += listens;
}

static inline bool can_run(const struct tenant *t)
{
	return t->busy && m.now / MS % 10 >= t->hollow_ms;
}

static inline void run(void)
{
	for (unsigned i = 0; i < m.count && (!m.left_ms || !can_run(&m.tenants[m.running])); i++) {
		m.running = (m.running + 1) % m.count;
		m.left_ms = alike_governs(&m.alike) ? TURN_MS : m.tenants[m.running].round_ms;
	}
	if (!can_run(&m.tenants[m.running]))
		return;
	m.tenants[m.running].ran_ms++;
	m.left_ms--;
}

static inline void end_sample(void)
{
	bool any = false;

	for (unsigned i = 0; i < m.count; i++) {
		struct tenant *t = &m.tenants[i];

		/* In hundredths, as the driver has them. */
		t->shown_milli = (t->ran_ms * 100 + m.period_ms / 2) / m.period_ms * 10;
		any |= t->shown_milli > 0;
		t->ran_ms = 0;
	}
	if (any)
		m.sample_ns = m.now;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static inline void answer(void)
{
	m.answer_ns = 0;
	if (m.blind) {
		alike_blind(&m.alike, m.now);
		return;
	}
	for (unsigned i = 0; i < m.count; i++)
		alike_saw(&m.tenants[i].seat, m.sample_ns ? m.tenants[i].shown_milli : 0);
	alike_looked(&m.alike, m.sample_ns, m.now);
}

static inline void drive(void)
{
	if (alike_deadline(&m.alike) <= m.now) {
		alike_tick(&m.alike, m.now);
		expect(m.alike.asks || alike_deadline(&m.alike) > m.now);
		if (m.alike.asks) {
			m.looks++;
			m.answer_ns = m.now + test_random_below(LATE_MOST) * MS;
		}
	}
	if (m.answer_ns && m.answer_ns <= m.now)
		answer();
	/* Something always follows, as long as it applies and somebody wants to run. */
	expect(m.alike.asks || alike_deadline(&m.alike) != UINT64_MAX || alike_sleeps(&m.alike));
}

static inline void account(void)
{
	if (alike_governs(&m.alike)) {
		m.governed_first = m.governed_first ? m.governed_first : m.now;
		m.changes += m.opened_since != 0;
		m.governed_ms++;
		m.opened_since = 0;
		return;
	}
	m.opened_since = m.opened_since ? m.opened_since : m.now;
	m.open_ms++;
	if (m.governed_first && m.now - m.opened_since > m.open_longest_ms * MS)
		m.open_longest_ms = (m.now - m.opened_since) / MS;
}

static inline void pass(uint64_t ms)
{
	for (; ms; ms--) {
		m.now += MS;
		set_busy();
		run();
		if (m.now / MS % m.period_ms == 0)
			end_sample();
		drive();
		account();
	}
}

/* By how many thousandths the worst off is short, if all always want to run. */
static inline unsigned shortage(void)
{
	unsigned sum = 0, low = UINT32_MAX;

	for (unsigned i = 0; i < m.count; i++) {
		sum += m.tenants[i].round_ms;
		low = m.tenants[i].round_ms < low ? m.tenants[i].round_ms : low;
	}
	return 1000 / m.count - low * 1000 / sum;
}

static inline unsigned some_tenants(void)
{
	return 2 + (unsigned)test_random_below(TENANTS - 1);
}
