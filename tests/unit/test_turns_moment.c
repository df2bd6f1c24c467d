/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caps of tenants that wait for each other and launch ahead. What of their work is left on the
 * device polls in others' turns until all have launched equally often: so whoever owes for its cap
 * is let in for moments.
 */
#include "tests/unit/turns_sliced.h"

enum { SECONDS = 10, SEEDS = 3 };

static void given_group(unsigned members, unsigned ahead, uint32_t cap_milli, unsigned neighbours)
{
	given(false);
	for (unsigned i = 0; i < members; i++) {
		struct program *p = add(MEETS, 100, 100 * US);

		p->ahead = ahead;
		p->cap_milli = cap_milli;
	}
	for (unsigned i = 0; i < neighbours; i++)
		add(GREEDY, 100, 1 * MS);
	begin();
}

/* In points, of the member that exceeds it most; 0: none does. */
static double exceeded(unsigned members)
{
	double most_of_all = 0;

	for (unsigned i = 0; i < members; i++) {
		const struct program *p = &m.program[i];
		double beyond = had(p, SECONDS * 1000 * MS) - p->cap_milli / 10.0;

		most_of_all = beyond > most_of_all ? beyond : most_of_all;
	}
	return most_of_all;
}

static void expect_caps_kept(unsigned members, unsigned ahead, uint32_t cap_milli,
			     unsigned neighbours)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		test_random_restart(seed);
		given_group(members, ahead, cap_milli, neighbours);
		run(SECONDS * 1000 * MS);
		expect(exceeded(members) <= 5);
		expect_eq(m.hung, 0);
	}
}

/* They exceeded caps of 2 and 10 % by up to 46 points. Of three, one was reported as hanging with
 * some seeds: who could have ended its drain owed for its cap. Or they had used up their moments by
 * what polled after each of them. */
TEST(a_group_of_two_or_three_that_launches_ahead_keeps_its_caps)
{
	for (unsigned neighbours = 1; neighbours <= 2; neighbours++) {
		for (unsigned members = 2; members <= 3; members++) {
			for (unsigned ahead = 4; ahead <= 16; ahead *= 4) {
				for (uint32_t cap = 20; cap <= 100; cap += 80)
					expect_caps_kept(members, ahead, cap, neighbours);
			}
		}
	}
}

/* They exceeded caps of 2 % by 21 points beside one neighbour, and of 10 % by 13: most moments let
 * in so many launches that four members hardly ever came to equally many. */
TEST(a_group_of_four_that_launches_ahead_keeps_its_caps)
{
	for (unsigned neighbours = 1; neighbours <= 2; neighbours++) {
		for (unsigned ahead = 4; ahead <= 16; ahead *= 4) {
			for (uint32_t cap = 20; cap <= 100; cap += 80)
				expect_caps_kept(4, ahead, cap, neighbours);
		}
	}
}

/* Threads that stand at a gate need up to 0.15 ms until they are through: most moments were over
 * before. */
TEST(a_group_whose_threads_are_slow_at_the_gate_keeps_its_caps)
{
	for (uint64_t wakes = 60 * US; wakes <= 110 * US; wakes += 50 * US) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			test_random_restart(seed);
			given_group(4, 16, 20, 1);
			for (unsigned i = 0; i < 4; i++)
				m.program[i].wakes_ns = wakes;
			run(SECONDS * 1000 * MS);
			expect(exceeded(4) <= 5);
		}
	}
}

/* With these seeds the neighbour was let in for its own drain when a moment was due, as a thread of
 * it stood at its gate. That became a turn without end, as nobody stood in line, and the pair's
 * work polled beside it for seconds. */
TEST(a_moment_that_is_due_is_not_forgotten_in_the_drain_of_another_tenant)
{
	static const struct {
		unsigned members;
		uint32_t cap_milli;
		uint64_t seed;
	} groups[] = {{2, 100, 17}, {2, 100, 185}, {3, 100, 186}};

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		test_random_restart(groups[i].seed);
		given_group(groups[i].members, 4, groups[i].cap_milli, 1);
		run(SECONDS * 1000 * MS);
		expect(exceeded(groups[i].members) <= 5);
	}
}

/* With these seeds a neighbour waited for 0.8 and 0.9 s, as one was waited for until it was
 * reported as hanging, or for 0.5 s, as its work had ended by another one's moment, and was taken
 * to last that long by itself. */
TEST(a_neighbour_of_a_group_with_caps_is_not_kept_waiting)
{
	static const struct {
		unsigned members, ahead, neighbours;
		uint32_t cap_milli;
		uint64_t seed;
	} groups[] = {{3, 4, 1, 20, 2}, {3, 16, 2, 100, 3}, {4, 4, 2, 100, 10}, {3, 4, 1, 100, 12}};

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		test_random_restart(groups[i].seed);
		given_group(groups[i].members, groups[i].ahead, groups[i].cap_milli,
			    groups[i].neighbours);
		run(SECONDS * 1000 * MS);
		for (unsigned n = groups[i].members; n < m.programs; n++)
			expect(m.program[n].gap_ns <= 500 * MS);
		expect_eq(m.hung, 0);
	}
}

/* It gets on meanwhile, and none of it is said to hang for ever. */
TEST(a_pair_that_launches_ahead_keeps_its_caps_and_gets_on)
{
	for (uint32_t cap = 20; cap <= 100; cap += 80) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			test_random_restart(seed);
			given_group(2, 4, cap, 2);
			run(SECONDS * 1000 * MS);
			expect(exceeded(2) <= 5);
			expect(m.program[0].done >= 20);
		}
	}
}

/* Its neighbour's work never ends, and waits for nobody: long kernels were had beside others, one
 * for each moment. */
TEST(a_tenant_with_long_kernels_keeps_its_cap_beside_work_that_never_ends)
{
	static const enum kind kinds[] = {HOLDS, FED};

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (uint64_t kernel = 10; kernel <= 90; kernel *= 3) {
			struct program *p;

			given(false);
			add(kinds[k], 100, 0);
			p = add(EVEN, 100, kernel * MS);
			p->cap_milli = 100;
			add(GREEDY, 100, 1 * MS);
			begin();
			run(5000 * MS);
			forget_what_they_had();
			run(SECONDS * 1000 * MS);
			expect(had(p, SECONDS * 1000 * MS) <= 10 + 2);
		}
	}
}

/* Returns what it owes of a turn that began as its cap owed something, if somebody looks as often
 * as given in each millisecond. */
static int64_t unpaid_if_settled(unsigned times)
{
	struct program *p;

	given(false);
	p = add(EVEN, 100, 1 * MS);
	p->cap_milli = 500;
	begin();
	p->stands = true;
	turns_wants(p->at, m.now);
	pump();
	expect(p->open);
	p->seat.opened_owing = true;
	for (unsigned i = 1; i <= 4 * times; i++)
		turns_settle(&p->seat, m.now + i * MS / times);
	return p->seat.unpaid;
}

/* What the cap paid was taken from what was unpaid before the charge of the same time was added. So
 * more was unpaid if nobody had looked meanwhile. */
TEST(what_a_cap_has_not_paid_is_the_same_however_often_it_is_settled)
{
	int64_t once = unpaid_if_settled(1);

	/* Of 4 ms it had, a cap of 500 thousandths has paid half. */
	expect_eq(once, 4 * MS * 500);
	expect_eq(unpaid_if_settled(2), once);
	expect_eq(unpaid_if_settled(5), once);
}
