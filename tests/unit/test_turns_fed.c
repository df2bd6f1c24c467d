/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of which some work never leaves the device: one kernel for the program's life, which
 * copies feed. None of their drains ends.
 */
#include "tests/unit/turns_sliced.h"

enum { NEIGHBOURS = 2 };

static struct program *given_fed(uint64_t pause_ns, enum kind neighbour, unsigned neighbours,
				 uint64_t kernel_ns)
{
	given(false);
	add(FED, 100, pause_ns);
	for (unsigned i = 0; i < neighbours; i++)
		add(neighbour, 100, kernel_ns);
	begin();
	return &m.program[1];
}

static uint64_t done_alone(uint64_t pause_ns, uint64_t length_ns)
{
	given(true);
	add(FED, 100, pause_ns);
	begin();
	run(length_ns);
	return m.program[0].done;
}

/* It had 0.35 to 0.40: of each drain its gate was closed for two thirds. */
TEST(a_tenant_with_a_kernel_for_ever_has_half_of_its_part)
{
	for (uint64_t pause = 0; pause <= 5; pause += 5) {
		for (uint64_t length = 5; length <= 40; length *= 2) {
			uint64_t alone = done_alone(pause * MS, length * 1000 * MS);
			struct program *n = given_fed(pause * MS, GREEDY, NEIGHBOURS, 1 * MS);

			run(length * 1000 * MS);
			/* It is watched twice in the first ten seconds. */
			expect(m.program[0].done * (NEIGHBOURS + 1) * 100 >=
			       alone * (length >= 40 ? 65 : 50));
			expect(n->gap_ns <= 350 * MS);
			expect_eq(m.hung, 0);
		}
	}
}

/* They had not drained yet when its drain was given up, twice: so it was taken to wait for them,
 * and that was never found to be wrong, as no drain of it ends. It had 0.2 to 0.4. */
TEST(a_tenant_with_a_kernel_for_ever_is_not_said_to_await_its_neighbours)
{
	static const enum kind kinds[] = {GREEDY, AHEAD, EVEN};

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (uint64_t kernel = 1; kernel <= 10; kernel += 3) {
			uint64_t alone = done_alone(0, 20000 * MS);

			given_fed(0, kinds[k], NEIGHBOURS, kernel * MS);
			run(20000 * MS);
			expect(m.program[0].done * (NEIGHBOURS + 1) * 2 >= alone);
			expect_eq(m.hung, 0);
		}
	}
}

/* It was watched for 1.6 s, in which its only neighbour's turn was not settled. What it had not
 * had then was owed to it, and it kept the device for 1.4 s. */
TEST(the_only_neighbour_of_a_kernel_for_ever_is_not_kept_waiting)
{
	struct program *n = given_fed(0, GREEDY, 1, 1 * MS);

	run(20000 * MS);
	expect(n->gap_ns <= 350 * MS);
}

/* What is learnt of work that stays does not outlive it. */
TEST(drains_are_short_again_once_a_kernel_for_ever_has_ended)
{
	struct program *p, *n = given_fed(0, GREEDY, NEIGHBOURS, 1 * MS);

	p = &m.program[0];
	run(10000 * MS);
	expect(p->tenant.stuck > 0);
	*p = (struct program){.kind = GREEDY,
			      .weight = p->weight,
			      .cap_milli = p->cap_milli,
			      .kernel_ns = 1 * MS,
			      .ahead = 4,
			      .tenant = p->tenant,
			      .seat = p->seat,
			      .at = p->at,
			      .open = p->open,
			      .stands = p->stands};
	run(2000 * MS);
	expect_eq(p->tenant.stuck, 0);
	forget_what_they_had();
	run(2000 * MS);
	expect(n->gap_ns <= 100 * MS);
	expect(had(p, 2000 * MS) >= 30);
}

/* Each polled in the others' turns: two had 0.34 of their parts, four 0.17. */
TEST(tenants_with_kernels_for_ever_have_half_of_their_parts)
{
	for (uint64_t pause = 0; pause <= 5; pause += 5) {
		uint64_t alone = done_alone(pause * MS, 10000 * MS);

		for (unsigned some = 2; some <= 4; some++) {
			given(false);
			for (unsigned i = 0; i < some; i++)
				add(FED, 100, pause * MS);
			for (unsigned i = 0; i < NEIGHBOURS; i++)
				add(GREEDY, 100, 1 * MS);
			begin();
			run(10000 * MS);
			for (unsigned i = 0; i < some; i++)
				expect(m.program[i].done * m.programs * 2 >= alone);
			for (unsigned i = some; i < m.programs; i++)
				expect(m.program[i].gap_ns <= 500 * MS);
			expect_eq(m.hung, 0);
		}
	}
}

/* Two of them: a neighbour that another one awaited was let in for the second one's drain, four
 * times as long each time, up to a second. A third one waited for 1.7 s. */
TEST(neighbours_of_several_kernels_for_ever_are_not_kept_waiting)
{
	for (unsigned some = 2; some <= 4; some++) {
		given(false);
		for (unsigned i = 0; i < some; i++)
			add(FED, 100, 0);
		for (unsigned i = 0; i < 3; i++)
			add(GREEDY, 100, 1 * MS);
		begin();
		run(20000 * MS);
		for (unsigned i = some; i < m.programs; i++)
			expect(m.program[i].gap_ns <= 600 * MS);
	}
}
