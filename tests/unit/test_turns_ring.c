/* SPDX-License-Identifier: Apache-2.0 */
/* Laws 13 and 18 of core/turns/turns.h: tenants in a ring, whose kernels wait for another one's
 * thread. */
#include "tests/unit/turns_sliced.h"

enum { CHUNKS = 8 };

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

static uint64_t longest_gap(unsigned members)
{
	uint64_t longest = 0;

	for (unsigned i = members; i < m.programs; i++)
		longest = most(longest, m.program[i].gap_ns);
	return longest;
}

/* Before anything was known of a ring, the one whose turn it was had let in the next one, which did
 * not drain either, as its thread had come late. Nobody could be let in any more, and the first one
 * was waited for until it was reported: a neighbour waited for 0.8 to 0.9 s. */
TEST(a_ring_whose_threads_come_late_is_not_waited_for_until_it_is_said_to_hang)
{
	for (unsigned members = 2; members <= 4; members++) {
		for (uint64_t wait = 300 * US; wait <= 1200 * US; wait *= 2) {
			given_ring(false, members, wait);
			run(10000 * MS);
			expect_eq(m.hung, 0);
			expect(longest_gap(members) <= 500 * MS);
		}
	}
}

static uint64_t done_alone(unsigned members, uint64_t wait_ns)
{
	given_ring(true, members, wait_ns);
	run(10000 * MS);
	return m.program[0].done;
}

/* Once a member's drain had been given up, it did not come along in the others' turns, and they
 * could do nothing with these; and each turn of 8 ms had a drain of 200 to 250. A pair had 0.01 to
 * 0.12 of its part, three 0.03 to 0.04. */
TEST(a_ring_whose_threads_come_late_gets_on)
{
	for (unsigned members = 2; members <= 3; members++) {
		for (uint64_t wait = 300 * US; wait <= 1200 * US; wait *= 2) {
			uint64_t alone = done_alone(members, wait);

			test_random_restart(1);
			given_ring(false, members, wait);
			run(10000 * MS);
			expect(m.program[0].done * m.programs * 2 >= alone);
			expect(longest_gap(members) <= 500 * MS);
			expect_eq(m.hung, 0);
		}
	}
}

/* Returns how often the first member was let in again for another one's drain. */
static unsigned let_in_again(uint32_t cap_milli)
{
	struct program *p = &m.program[0];
	struct turns_share share;
	unsigned again = 0;

	given_ring(false, 3, 300 * US);
	share = p->tenant.share;
	share.cap_milli = cap_milli;
	turns_set(&p->tenant, &share, m.now);
	for (uint64_t end = m.now + 10000 * MS; m.now < end;) {
		bool waits = !p->open && !p->drained && p->seat.leader;

		run(STEP_NS);
		if (!waits || !p->open || !p->seat.leader)
			continue;
		expect(p->seat.allowance > -(int64_t)(STEP_NS * 1000));
		again++;
	}
	return again;
}

/* Law 5: it was, whatever its cap had left. */
TEST(a_member_of_a_ring_whose_cap_is_used_up_is_not_let_in_again_for_a_drain)
{
	unsigned again = 0;

	for (uint32_t cap_milli = 300; cap_milli <= 900; cap_milli += 300) {
		test_random_restart(1);
		again += let_in_again(cap_milli);
	}
	expect(again > 0);
}
