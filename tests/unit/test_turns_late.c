/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants that begin to compute when another one has had the device for long. Nothing looks at a
 * turn that nobody contests: what it was charged is not known until somebody asks.
 */
#include "tests/unit/turns_sliced.h"

enum { LONG_MS = 5000 };

static void given_two(uint64_t late_ns)
{
	given(false);
	for (unsigned i = 0; i < 2; i++)
		add(GREEDY, 100, 1 * MS);
	begin();
	m.program[1].free_at = m.now + late_ns;
}

/* It had the device alone for as long as the other one had had it before. */
TEST(a_tenant_that_comes_late_has_no_more_than_its_part)
{
	given_two(LONG_MS * MS);
	run(LONG_MS * MS);
	expect_eq(m.program[1].done, 0);
	forget_what_they_had();
	run(1000 * MS);
	for (unsigned i = 0; i < 2; i++)
		expect(had(&m.program[i], 1000 * MS) >= 45);
	expect(m.program[0].gap_ns <= 100 * MS);
}

/* It computes no more once what it has launched has ended. */
static void rest(struct program *p, uint64_t length_ns)
{
	do {
		p->free_at = UINT64_MAX;
		run(STEP_NS);
	} while (p->queued);
	p->free_at = m.now + length_ns;
	run(length_ns);
}

TEST(a_tenant_that_rests_for_long_has_no_more_than_its_part_then)
{
	given_two(0);
	run(1000 * MS);
	for (unsigned i = 0; i < 10; i++) {
		rest(&m.program[1], LONG_MS * MS);
		forget_what_they_had();
		run(1000 * MS);
		expect(had(&m.program[0], 1000 * MS) >= 45);
		expect(m.program[0].gap_ns <= 100 * MS);
	}
}

/* The other one has had far more since then. */
TEST(a_tenant_that_leaves_and_comes_back_does_not_owe_what_is_paid)
{
	struct program *p;

	given_two(0);
	p = &m.program[1];
	p->kernel_ns = 500 * MS;
	p->ahead = 1;
	while (!p->done)
		run(STEP_NS);
	p->kernel_ns = 1 * MS;
	p->ahead = 4;
	rest(p, LONG_MS * MS);
	p->free_at = m.now;
	turns_leave(&p->seat, m.now);
	pump();
	p->open = p->busy = p->stands = false;
	p->drained = true;
	turns_join(&p->seat, &p->tenant, &m.device, p, false, m.now);
	pump();
	forget_what_they_had();
	run(200 * MS);
	expect(had(p, 200 * MS) >= 40);
	expect(had(p, 200 * MS) <= 60);
}
