/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose work waits for something outside of the device, beside two greedy neighbours: they
 * keep nobody waiting, and are not called hanging.
 */
#include "tests/unit/turns_sliced.h"

/* Of which the first neighbour is returned. */
static struct program *given_one(uint64_t wait_ns, uint64_t kernel_ns, uint32_t cap_milli)
{
	struct program *p, *neighbour;

	given(false);
	p = add(OUTSIDE, 100, kernel_ns);
	p->wait_ns = wait_ns;
	p->cap_milli = cap_milli;
	neighbour = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	return neighbour;
}

/* Its neighbours waited for up to 0.9 s. */
TEST(a_tenant_that_waits_for_something_outside_keeps_nobody_waiting)
{
	struct program *n = given_one(900 * MS, 1 * MS, 1000);

	run(20000 * MS);
	expect(n->gap_ns <= 100 * MS);
	expect_eq(m.hung, 0);
	expect_eq(m.beside, 0);
	/* 40 bare: it loses a turn or two of its neighbours in each round. */
	expect(m.program[0].done >= 32);
}

TEST(a_tenant_that_waits_for_long_is_neither_reported_nor_charged)
{
	const struct turns_seat *s;
	uint64_t charged_ns;

	given_one(20000 * MS, 1 * MS, 1000);
	s = &m.program[0].seat;
	run(60000 * MS);
	charged_ns = s->charged_ns;
	expect_eq(m.hung, 0);
	expect(m.program[0].done >= 3);
	expect(charged_ns <= 3000 * MS);
	/* Nobody looks at it all the time. */
	expect(s->turns <= 3 * (m.program[0].done + 1));
}

/* Its work begins as its gate has closed, beside others' turns. */
TEST(a_tenant_is_charged_for_what_it_runs_once_it_is_held_no_more)
{
	static const uint64_t kernels[] = {10 * MS, 50 * MS, 300 * MS};

	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		given_one(160 * MS, kernels[i], 1000);
		run(5000 * MS);
		forget_what_they_had();
		run(60000 * MS);
		expect(had(&m.program[0], 60000 * MS) <= 100.0 / 3 + 5);
		expect_eq(m.hung, 0);
		given_one(160 * MS, kernels[i], 100);
		run(5000 * MS);
		forget_what_they_had();
		run(60000 * MS);
		expect(had(&m.program[0], 60000 * MS) <= 15);
	}
}

/* What comes from outside is a kernel that never ends. */
TEST(a_tenant_that_was_held_and_then_hangs_is_reported)
{
	given_one(500 * MS, UINT64_MAX / 2, 1000);
	run(5000 * MS);
	expect_eq(m.hung, 1);
}

/* It has another thread, which comes to its gate while its work is still held. */
TEST(a_tenant_whose_thread_comes_to_the_gate_meanwhile_has_its_turn)
{
	struct program *p;
	uint64_t turns;

	given_one(60000 * MS, 1 * MS, 1000);
	p = &m.program[0];
	run(1000 * MS);
	expect(p->seat.held && !p->open);
	turns = p->seat.turns;
	p->stands = true; /* without a word */
	for (unsigned i = 0; i < 20000 && p->seat.turns == turns; i++)
		run(STEP_NS);
	expect(p->seat.turns == turns + 1);
	expect_eq(m.hung, 0);
}

/* Its thread stands at the gate whenever that is closed. It was let in for moments until its drain
 * was given up, for 0.2 s in each round, in which its neighbours waited. */
TEST(a_tenant_with_a_thread_at_the_gate_keeps_nobody_waiting_for_what_comes_from_outside)
{
	struct program *p, *n;

	given(false);
	p = add(HALF, 100, 300 * US);
	p->wait_ns = 300 * MS;
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(1000 * MS); /* it is found out */
	forget_what_they_had();
	run(20000 * MS);
	expect(n->gap_ns <= 50 * MS);
	expect_eq(m.beside + m.hung, 0);
	expect(had(p, 20000 * MS) >= 100.0 / 3 - 5 && had(p, 20000 * MS) <= 100.0 / 3 + 5);
}

/* It gave its turn up with each value, and had 0.3 of its part. */
TEST(a_tenant_whose_thread_writes_what_its_stream_waits_for_has_half_of_its_part)
{
	uint64_t alone = 0;

	for (int bare = 1; bare >= 0; bare--) {
		struct program *p;

		given(bare);
		p = add(WRITES, 100, 100 * US);
		p->wait_ns = 5 * MS;
		for (int i = 0; i < 2 && !bare; i++)
			add(GREEDY, 100, 1 * MS);
		begin();
		run(5000 * MS);
		if (bare)
			alone = p->done;
		else
			expect(p->done * 6 >= alone);
	}
}

/* Its thread, in whose turn that comes which its other work waits for, keeps it in its part. */
TEST(a_tenant_with_a_thread_at_the_gate_pays_for_what_is_held_no_more)
{
	struct program *p;

	for (uint64_t wait_ns = 10 * MS; wait_ns <= 160 * MS; wait_ns *= 2) {
		given(false);
		p = add(HALF, 10, 20 * MS);
		p->wait_ns = wait_ns;
		add(GREEDY, 100, 1 * MS);
		add(GREEDY, 100, 1 * MS);
		begin();
		run(5000 * MS);
		forget_what_they_had();
		run(20000 * MS);
		expect(had(p, 20000 * MS) <= 1000.0 / 210 + 5);
	}
}

/* It was charged for what it has beside others, and looked at every millisecond, like work that
 * waits for something outside, for ever. */
TEST(a_tenant_whose_thread_is_waited_for_later_is_no_longer_one_that_was_held)
{
	struct program *p;

	given_one(60000 * MS, 1 * MS, 1000);
	p = &m.program[0];
	run(1000 * MS);
	expect(p->seat.held && p->seat.tenant->holds);
	p->kind = HOLDS;
	p->stands = true;
	for (unsigned i = 0; i < 100000 && !m.beside; i++)
		run(STEP_NS);
	expect(m.beside > 0);
	expect(!p->seat.tenant->holds);
}

/* What it is charged for the time in which nobody looked whether it was held kept it from its turn,
 * again and again. */
TEST(a_tenant_with_a_cap_whose_thread_writes_what_its_stream_waits_for_has_half_of_its_part)
{
	for (uint32_t cap = 100; cap <= 400; cap *= 2) {
		uint64_t alone = 0;

		for (int bare = 1; bare >= 0; bare--) {
			struct program *p;

			given(bare != 0);
			p = add(WRITES, 100, 1 * MS);
			p->wait_ns = 1 * MS;
			p->cap_milli = bare ? 1000 : cap;
			for (int i = 0; i < 2 && !bare; i++)
				add(GREEDY, 100, 1 * MS);
			begin();
			run(2000 * MS);
			forget_what_they_had();
			run(20000 * MS);
			if (bare) {
				alone = p->done;
				continue;
			}
			expect(had(p, 20000 * MS) <= (cap + 50) / 10.0);
			expect(2 * p->done * 1000 >= alone * least(cap, 333));
		}
	}
}
