/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/turns/alike.h against a modelled device, in steps of 1 ms. While it is open, its
 * busy tenants run one after the other, each for as long as its kernels last (a slice at least).
 * With turns, each runs for 8 ms. The driver samples who ran; the machine sees samples only, late.
 * METE_SEED repeats a history.
 */
#include "tests/unit/alike_device.h"

/* ---- laws ------------------------------------------------------------------------------------ */

TEST(law_1_nearly_alike_tenants_never_take_turns)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		begin(some_tenants(), test_random_below(4) ? 166 : 1000);
		for (unsigned t = 0; t < m.count; t++)
			m.tenants[t].round_ms = 20 + (unsigned)test_random_below(4);
		pass(60000);
		expect(shortage() < 40);
		expect_eq(m.governed_ms, 0);
	}
}

TEST(law_1_a_tenant_that_rests_is_not_short_of_time)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		begin(some_tenants(), test_random_below(4) ? 166 : 1000);
		for (unsigned t = 0; t < m.count; t++) {
			m.tenants[t].work_ms = 1 + (unsigned)test_random_below(400);
			m.tenants[t].rest_ms = (unsigned)test_random_below(2000);
			m.tenants[t].phase_ms = (unsigned)test_random_below(2000);
		}
		pass(60000);
		expect_eq(m.governed_ms, 0);
	}
}

TEST(law_1_a_tenant_that_is_slow_by_itself_is_not_short_of_time)
{
	for (unsigned i = 0; i < HISTORIES / 4; i++) {
		begin(some_tenants(), 166);
		for (unsigned t = 0; t < m.count; t++)
			m.tenants[t].hollow_ms = 7;
		m.tenants[0].hollow_ms = 3 + (unsigned)test_random_below(3);
		pass(20000);
		expect_eq(m.governed_ms, 0);
	}
}

TEST(law_2_tenants_of_which_one_is_short_soon_take_turns)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		begin(some_tenants(), 166);
		do
			for (unsigned t = 0; t < m.count; t++)
				m.tenants[t].round_ms = 2 + (unsigned)test_random_below(15);
		while (shortage() < 100);
		pass(shortage() > 250 ? 2000 : 5000);
		expect(m.governed_first != 0);
	}
}

TEST(law_2_tenants_of_which_one_is_a_little_short_take_turns_later)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		begin(some_tenants(), 166);
		do
			for (unsigned t = 0; t < m.count; t++)
				m.tenants[t].round_ms = 2 + (unsigned)test_random_below(15);
		while (shortage() < 70 || shortage() >= 100);
		pass(10000);
		expect(m.governed_first != 0);
	}
}

TEST(law_2_even_if_samples_are_of_a_second)
{
	begin(2, 1000);
	m.tenants[0].round_ms = 40;
	pass(6000);
	expect(m.governed_first != 0);
}

TEST(law_2_a_tenant_that_wakes_up_beside_a_greedy_one_soon_has_turns)
{
	begin(2, 166);
	m.tenants[0].round_ms = 10;
	m.tenants[1].work_ms = 0;
	m.tenants[1].rest_ms = 1;
	/* Nobody else wants what it has. */
	pass(100000);
	expect_eq(m.governed_ms, 0);
	expect(m.looks < 300);
	m.tenants[1].rest_ms = 0;
	pass(2500);
	expect(m.governed_first != 0);
}

TEST(law_2_kernels_that_become_long_beside_an_idle_tenant_are_compared_at_once)
{
	for (unsigned i = 0; i < HISTORIES / 10; i++) {
		begin(3, 166);
		m.tenants[2].work_ms = 0;
		m.tenants[2].rest_ms = 1;
		/* It is always suspect, and always fair: some noise makes no difference. */
		m.tenants[0].round_ms = 20 + (unsigned)test_random_below(4);
		m.tenants[1].round_ms = 20;
		pass(100000);
		expect_eq(m.governed_ms, 0);
		expect(m.looks < 300);
		m.tenants[0].round_ms = 100;
		pass(2500);
		expect(m.governed_first != 0);
	}
}

TEST(law_2_a_tenant_that_had_as_little_while_it_rested_waits_20_s_at_most)
{
	for (unsigned i = 0; i < HISTORIES / 10; i++) {
		begin(2, 166);
		m.tenants[0].round_ms = 30;
		m.tenants[1].work_ms = 2;
		m.tenants[1].rest_ms = 20 + (unsigned)test_random_below(20);
		pass(60000);
		expect_eq(m.governed_ms, 0);
		m.tenants[1].rest_ms = 0;
		pass(20000);
		expect(m.governed_first != 0);
	}
}

static void all_rest(void)
{
	for (unsigned t = 0; t < m.count; t++) {
		m.tenants[t].work_ms = 0;
		m.tenants[t].rest_ms = 1;
	}
}

TEST(law_3_an_open_device_is_sampled_once_a_second_and_an_unused_one_never)
{
	begin(3, 166);
	pass(60000);
	expect(m.looks <= 60);
	expect(m.looks >= 55);
	expect_eq(m.heard_ms, 0);
	all_rest();
	pass(10000);
	expect(alike_sleeps(&m.alike));
	m.looks = 0;
	pass(600000);
	expect_eq(m.looks, 0);
	expect(alike_sleeps(&m.alike));
}

TEST(law_3_the_first_tenant_that_wants_an_unused_device_has_it_sampled)
{
	for (unsigned i = 0; i < HISTORIES / 10; i++) {
		begin(some_tenants(), 166);
		all_rest();
		pass(10000 + test_random_below(10000));
		expect(alike_sleeps(&m.alike));
		m.tenants[0].round_ms = 20;
		for (unsigned t = 0; t < m.count; t++)
			m.tenants[t].rest_ms = 0;
		pass(3000);
		expect(m.governed_first != 0);
	}
}

TEST(law_3_a_tenant_that_never_reports_that_it_is_idle_is_seldom_asked)
{
	begin(2, 166);
	m.tenants[1].mute = true;
	all_rest();
	pass(10000);
	m.looks = m.heard_ms = 0;
	pass(600000);
	expect(m.looks >= 600 / 5);
	expect(m.looks <= 600 / 4);
	expect(m.heard_ms <= 10 * 500);
	m.tenants[1].mute = false;
	pass(70000);
	expect(alike_sleeps(&m.alike));
}

TEST(law_3_a_tenant_that_comes_to_an_unused_device_has_it_sampled)
{
	begin(3, 166);
	all_rest();
	alike_leave(&m.tenants[2].seat, m.now);
	pass(10000);
	expect(alike_sleeps(&m.alike));
	alike_join(&m.alike, &m.tenants[2].seat, m.now);
	expect(!alike_sleeps(&m.alike));
	m.looks = 0;
	pass(1100);
	expect_eq(m.looks, 1);
	pass(10000);
	expect(alike_sleeps(&m.alike));
	alike_leave(&m.tenants[2].seat, m.now);
	expect(alike_sleeps(&m.alike));
	alike_leave(&m.tenants[1].seat, m.now);
	expect_eq(m.alike.state, ALIKE_OPEN);
	expect(alike_deadline(&m.alike) == UINT64_MAX);
}

TEST(law_4_a_device_that_stays_unfair_is_open_for_moments)
{
	uint64_t before;

	for (unsigned i = 0; i < HISTORIES / 10; i++) {
		begin(some_tenants(), 166);
		m.tenants[0].round_ms = 20 + (unsigned)test_random_below(20);
		pass(3000);
		expect(m.governed_first != 0);
		before = m.open_ms;
		pass(600000);
		/* Spans of 10, 20, 40, ... s. */
		expect(m.open_longest_ms <= ALIKE_MOMENT_NS / MS + 1);
		expect(m.open_ms > before);
		expect(m.open_ms - before <= 6 * (ALIKE_MOMENT_NS / MS + 1));
		expect(m.looks < 100);
	}
}

TEST(law_4_a_span_has_an_end)
{
	begin(2, 166);
	m.tenants[0].round_ms = 30;
	pass(4000 * 1000);
	expect_eq(m.alike.span_ns, ALIKE_SPAN_MOST_NS);
}

static void change_something(void)
{
	struct tenant *t = &m.tenants[test_random_below(m.count)];

	switch (test_random_below(4)) {
	case 0:
		t->round_ms = 2 + (unsigned)test_random_below(60);
		break;
	case 1:
		t->work_ms = 1 + (unsigned)test_random_below(1000);
		t->rest_ms = (unsigned)test_random_below(1000);
		break;
	case 2:
		t->rest_ms = 0;
		break;
	default:
		/* Its program has ended, and the next one begins. */
		alike_leave(&t->seat, m.now);
		pass(test_random_below(50));
		alike_join(&m.alike, &t->seat, m.now);
		alike_apply(&m.alike, true, m.now);
		t->busy = true;
	}
}

TEST(law_6_whatever_they_do_their_mode_changes_twice_in_ten_seconds_at_most)
{
	uint64_t changes = 0;

	for (unsigned i = 0; i < HISTORIES / 2; i++) {
		begin(3 + (unsigned)test_random_below(TENANTS - 2), 166);
		for (unsigned k = 0; k < 60; k++) {
			pass(test_random_below(test_random_below(4) ? 300 : 10000));
			change_something();
		}
		expect(m.changes <= 2 * (1 + (m.open_ms + m.governed_ms) / 10000));
		changes += m.changes;
	}
	expect(changes > 0);
}

TEST(tenants_that_have_become_alike_take_no_turns_any_more)
{
	for (unsigned i = 0; i < HISTORIES / 10; i++) {
		begin(some_tenants(), 166);
		m.tenants[0].round_ms = 20;
		pass(3000);
		expect(m.governed_first != 0);
		m.tenants[0].round_ms = 2;
		pass(15000);
		expect(!alike_governs(&m.alike));
		m.governed_ms = 0;
		pass(60000);
		expect_eq(m.governed_ms, 0);
	}
}

TEST(law_5_nothing_is_decided_without_samples)
{
	begin(2, 166);
	m.tenants[0].round_ms = 30;
	m.blind = true;
	pass(600000);
	expect_eq(m.governed_ms, 0);
	expect(m.looks <= 11);
}

TEST(law_5_a_driver_that_tells_no_more_leaves_the_device_open)
{
	begin(2, 166);
	m.tenants[0].round_ms = 30;
	pass(3000);
	expect(alike_governs(&m.alike));
	m.blind = true;
	pass(15000);
	expect(!alike_governs(&m.alike));
}

TEST(law_5_a_device_with_one_tenant_left_is_not_sampled)
{
	begin(2, 166);
	m.tenants[0].round_ms = 30;
	pass(3000);
	expect(alike_governs(&m.alike));
	alike_leave(&m.tenants[1].seat, m.now);
	expect(!alike_governs(&m.alike));
	expect(alike_deadline(&m.alike) == UINT64_MAX);
}

TEST(a_finding_is_kept_while_the_shares_decide)
{
	begin(2, 166);
	m.tenants[0].round_ms = 30;
	pass(3000);
	alike_apply(&m.alike, false, m.now);
	expect(alike_deadline(&m.alike) == UINT64_MAX);
	alike_apply(&m.alike, true, m.now);
	expect(alike_governs(&m.alike));
	expect(alike_deadline(&m.alike) != UINT64_MAX);
}

/* ---- any order of calls ---------------------------------------------------------------------- */

static void expect_sound(void)
{
	uint64_t entitled = 0;
	uint32_t wanting = 0;

	for (unsigned i = 0; i < TENANTS; i++) {
		if (!m.tenants[i].there)
			continue;
		entitled += m.tenants[i].seat.entitled_ns;
		wanting += m.tenants[i].seat.counted;
	}
	expect_eq(m.alike.wanting, wanting);
	expect(!alike_governs(&m.alike) || m.alike.seats > 1);
	expect(m.alike.event_count <= ALIKE_EVENTS);
	if (alike_listens(&m.alike) && m.alike.first_ns)
		expect(entitled <= m.alike.clock_ns - m.alike.first_ns);
	expect(m.alike.applies || alike_deadline(&m.alike) == UINT64_MAX);
	expect(!m.alike.applies || m.alike.asks || alike_deadline(&m.alike) != UINT64_MAX ||
	       alike_sleeps(&m.alike));
	for (unsigned i = 0; i < TENANTS; i++)
		expect(!alike_sleeps(&m.alike) || !m.tenants[i].there || !m.tenants[i].seat.wants);
}

static void call_something(void)
{
	struct tenant *t = &m.tenants[test_random_below(TENANTS)];

	switch (test_random_below(12)) {
	case 0:
		if (t->there)
			alike_leave(&t->seat, m.now);
		else
			alike_join(&m.alike, &t->seat, m.now);
		t->there = !t->there;
		break;
	case 1:
		alike_apply(&m.alike, m.alike.seats > 1 && test_random_below(8), m.now);
		break;
	case 2:
	case 3:
	case 4:
		for (unsigned i = 0; i < TENANTS; i++)
			if (m.tenants[i].there)
				alike_saw(&m.tenants[i].seat,
					  test_random_below(3) ? (uint32_t)test_random_below(1001)
							       : 0);
		m.sample_ns =
			test_random_below(2)
				? m.now - test_random_below(m.now < 200 * MS ? m.now : 200 * MS)
				: m.sample_ns;
		alike_looked(&m.alike, m.sample_ns, m.now);
		break;
	case 5:
		if (!test_random_below(20))
			alike_blind(&m.alike, m.now);
		break;
	default:
		alike_wants(&t->seat, test_random_below(2), m.now);
	}
}

TEST(any_order_of_calls_is_survived)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		memset(&m, 0, sizeof(m));
		m.now = 1000 * MS;
		alike_init(&m.alike);
		for (unsigned k = 0; k < CALLS; k++) {
			m.now += test_random_below(8) ? test_random_below(5 * MS)
						      : test_random_below(2000 * MS);
			if (alike_deadline(&m.alike) <= m.now)
				alike_tick(&m.alike, m.now);
			call_something();
			if (m.alike.seats < 2)
				alike_apply(&m.alike, false, m.now);
			expect_sound();
		}
	}
}
