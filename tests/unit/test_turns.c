/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promises of core/turns/turns.h to tenants, on the virtual device of replay/time_world.h:
 * their shares, and how long they wait. The histories that try to break its laws are in
 * test_turns_always.c.
 */
#include "tests/unit/turns_fixture.h"

/* ---- shares ---------------------------------------------------------------------------------- */

TEST(contended_time_is_divided_by_weight)
{
	given(3, 20000 * MS);
	m.loads[0].share.weight = 100;
	m.loads[1].share.weight = 200;
	m.loads[2].share.weight = 400;
	m.loads[1].kernel_ns = 10 * MS;
	m.loads[2].processes = 3;
	run();
	expect_about(share_of(0, 2), 100 / 7.0, 0.3);
	expect_about(share_of(1, 2), 200 / 7.0, 0.3);
	expect_about(share_of(2, 2), 400 / 7.0, 0.3);
	done();
}

TEST(a_cap_holds_for_a_tenant_that_is_alone)
{
	given(1, 20000 * MS);
	m.loads[0].share.cap_milli = 250;
	run();
	expect_about((double)m.out.charged[m.out.samples - 1] / (double)m.setup.length_ns, 0.25,
		     0.002);
	done();
}

TEST(a_rest_saves_up_little_of_a_cap)
{
	struct time_window w = {10, 20, 1999};

	given(1, 20000 * MS);
	m.loads[0].share.cap_milli = 300;
	m.loads[0].kind = TIME_PULSE;
	m.loads[0].work_ns = 200 * MS;
	m.loads[0].pause_ns = 900 * MS;
	run();
	/* In a tenth of a second: the cap's, what is saved up, and one drain. */
	expect(time_measure_most(m.out.charged, 1, 0, &w, m.setup.sample_ns) <= 30 + 5 + 3);
	done();
}

TEST(equal_means_one_part_of_as_many_as_there_are)
{
	given(4, 30000 * MS);
	for (int i = 0; i < 4; i++)
		m.loads[i].share.equal = true;
	m.loads[3].leave_ns = 10000 * MS;
	run();
	/* One of three, although the others leave nothing unused. */
	expect_about((double)(m.out.charged[2900 * 4] - m.out.charged[1100 * 4]) / 18e9, 0.333,
		     0.004);
	done();
}

TEST(a_guarantee_is_had_against_any_number)
{
	given(8, 20000 * MS);
	m.loads[0].share.guarantee_milli = 300;
	for (int i = 1; i < 8; i++)
		m.loads[i].kernel_ns = 5 * MS;
	run();
	expect_about(share_of(0, 1), 30, 0.3);
	expect_about(share_of(7, 1), 10, 0.3);
	done();
}

/* In any second: a turn is expected to take a kernel more than its part, and is promised so. */
TEST(half_of_the_time_is_had_in_each_second_beside_many_whose_kernels_are_long)
{
	enum { MANY = 32 };
	static struct time_load loads[MANY];
	struct time_window w = {100, 200, 0};
	double shares[MANY];

	given(0, 20000 * MS);
	m.setup.loads = loads;
	m.setup.tenants = MANY;
	for (int i = 0; i < MANY; i++) {
		time_load_init(&loads[i]);
		loads[i].kernel_ns = 10 * MS;
		loads[i].share.weight = i ? 100 : 3100;
	}
	time_measure_ideal(loads, MANY, shares);
	run();
	w.last = m.out.samples - 1;
	expect(time_measure_share_error(m.out.charged, MANY, &w, shares) < 2);
	done();
}

/* Law 4. */
TEST(every_tenant_is_given_the_time_of_its_share)
{
	for (unsigned round = 0; round < test_rounds(60); round++) {
		uint32_t n = (uint32_t)(2 + below(TENANTS - 1)), guaranteed = 0;
		struct time_window w = {800, 200, 1199};
		double shares[TENANTS], all = 0, below_cap = 0;
		uint64_t longest = 0;

		given(n, 12000 * MS);
		for (uint32_t i = 0; i < n; i++) {
			struct turns_share *s = &m.loads[i].share;

			s->weight = (uint32_t)(20 + below(400));
			s->class = below(3) ? SHARE_STANDARD : SHARE_BATCH;
			if (below(4) == 0 && guaranteed < 600)
				s->guarantee_milli = (uint32_t)below(300);
			guaranteed += s->guarantee_milli;
			if (below(4) == 0)
				s->cap_milli = s->guarantee_milli + 30 + (uint32_t)below(100);
			/* A large cap is not always reached: while it waits for others' turns it
			 * saves up no more than `burst_ns` (decisions/0073: up to a tenth of it is
			 * lost). */
			if (s->cap_milli < 1000)
				s->class = SHARE_STANDARD;
			if (s->cap_milli < 1000)
				below_cap = fmax(below_cap, fmax(1, s->cap_milli / 100.0));
			m.loads[i].kernel_ns = below(3) ? 100 * US : 1 + below(10 * MS);
			longest = m.loads[i].kernel_ns > longest ? m.loads[i].kernel_ns : longest;
		}
		/* Where all are equal, the device slices its time by itself, and nothing is charged
		 * (law 10). */
		m.loads[0].share.weight += m.loads[0].share.weight == m.loads[1].share.weight;
		time_measure_ideal(m.loads, n, shares);
		run();
		for (uint32_t i = 0; i < n; i++)
			all += shares[i];
		/* Where caps leave something, time that nobody asks for is not shared out. */
		if (all > 0.999) {
			double error = time_measure_share_error(m.out.charged, n, &w, shares);
			double bound = 100.0 * (double)(3 * 8 * MS + 2 * longest) / 8e9 + 0.2;

			bound += below_cap;

			if (error > bound)
				test_fail(__FILE__, __LINE__, "%u tenants: %.3f of %.3f points", n,
					  error, bound);
		}
		done();
	}
}

/* ---- waiting --------------------------------------------------------------------------------- */

TEST(an_interactive_tenant_waits_for_one_drain_of_a_batch_tenant)
{
	given(2, 20000 * MS);
	m.loads[0].kind = TIME_POISSON;
	m.loads[0].work_ns = 2 * MS;
	m.loads[0].pause_ns = 50 * MS;
	m.loads[0].share.class = SHARE_INTERACTIVE;
	m.loads[1].share.class = SHARE_BATCH;
	m.loads[1].kernel_ns = 1 * MS;
	m.setup.flight_ns = 200 * US;
	run();
	expect(m.out.waits[0].size > 300);
	expect(m.out.longest_ns[0] <= 1 * MS + 4 * m.setup.delay_ns);
	done();
}

TEST(a_tenant_that_comes_back_waits_for_one_drain_and_no_turn)
{
	given(2, 20000 * MS);
	m.loads[0].kind = TIME_PULSE;
	m.loads[0].work_ns = 5 * MS;
	m.loads[0].pause_ns = 40 * MS;
	m.loads[1].share.weight = 200;
	run();
	/* The rival has run for longer than the shortest turn: what is in flight is all. */
	expect(m.out.longest_ns[0] <= m.setup.flight_ns + 4 * m.setup.delay_ns);
	done();
}

TEST(time_that_one_leaves_idle_another_has_at_once)
{
	given(2, 20000 * MS);
	m.loads[0].kind = TIME_PULSE;
	m.loads[0].work_ns = 20 * MS;
	m.loads[0].pause_ns = 30 * MS;
	m.loads[0].share.weight = 900;
	run();
	expect(m.out.handovers.size > 100);
	expect(time_series_part(&m.out.handovers, 990) <= 4 * m.setup.delay_ns);
	expect(m.out.harvested_ns >= m.out.gaps_ns / 100 * 99);
	done();
}

/* Law 6, the soft bound: as long as everybody's longest turn takes, or its share is worth one. */
TEST(nobody_starves)
{
	for (unsigned round = 0; round < test_rounds(40); round++) {
		uint32_t n = (uint32_t)(2 + below(TENANTS - 1));
		double shares[TENANTS];
		uint64_t turn = 8 * MS + 2 * m.setup.flight_ns;

		given(n, 10000 * MS);
		for (uint32_t i = 0; i < n; i++)
			m.loads[i].share.weight = (uint32_t)(10 + below(300));
		m.loads[0].share.weight = 5; /* so that there is a difference */
		time_measure_ideal(m.loads, n, shares);
		run();
		turn += m.setup.flight_ns + 4 * m.setup.delay_ns;
		for (uint32_t i = 0; i < n; i++) {
			double all = (double)(n * turn), own = (double)turn / shares[i];

			expect((double)m.out.longest_ns[i] <= 2 * (all > own ? all : own));
			expect(m.out.turns[i] > 0);
		}
		done();
	}
}
