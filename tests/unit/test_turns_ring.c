/* SPDX-License-Identifier: Apache-2.0 */
/* Law 13 of core/turns/turns.h: tenants in a ring, whose kernels wait for another one's thread. */
#include "tests/unit/turns_sliced.h"

enum { CHUNKS = 8, SEEDS = 6 };

static void given_ring(bool bare, unsigned members, uint64_t wait_ns)
{
	given(bare);
	for (unsigned i = 0; i < members; i++) {
		struct program *p = add(RINGS, 100, 100 * US);

		p->ahead = CHUNKS;
		p->wait_ns = wait_ns;
	}
	for (unsigned i = 0; i < 2 && !bare; i++)
		add(GREEDY, 100, 1 * MS);
	begin();
}

/* `part_milli`: of its part, which is one of as many as there are tenants. */
static void expect_ring_gets_on(unsigned members, uint64_t wait_ns, uint64_t part_milli)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t bare;

		test_random_restart(seed);
		given_ring(true, members, wait_ns);
		run(10000 * MS);
		bare = m.program[0].done;
		given_ring(false, members, wait_ns);
		run(10000 * MS);
		expect_eq(m.hung, 0);
		for (unsigned i = members; i < m.programs; i++)
			expect(m.program[i].gap_ns <= 500 * MS);
		expect(m.program[0].done * (members + 2) * 1000 >= bare * part_milli);
	}
}

/* A tenant that was let in, and did not drain either, was not let in again in that drain, although
 * the other one's work waited for just its thread. Each had a hundredth of its part, a neighbour
 * waited for 0.84 s, and it was said to hang. */
TEST(a_ring_of_two_gets_on)
{
	expect_ring_gets_on(2, 300 * US, 250);
	expect_ring_gets_on(2, 1000 * US, 40);
}

TEST(a_ring_of_three_gets_on)
{
	expect_ring_gets_on(3, 300 * US, 100);
}
