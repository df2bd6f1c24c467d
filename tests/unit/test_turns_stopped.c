/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that somebody stops now and then, as a debugger does, beside two greedy neighbours: they
 * get on, they keep nobody waiting, and they have no more than their part by it.
 */
#include "tests/unit/turns_sliced.h"

/* The first neighbour is returned. */
static struct program *given_stopped(struct program stopped)
{
	struct program *p, *neighbour;

	given(false);
	p = add(stopped.kind, stopped.weight, stopped.kernel_ns);
	p->stops_ns = stopped.stops_ns;
	p->sibling = stopped.sibling;
	if (stopped.ahead)
		p->ahead = stopped.ahead;
	p->cap_milli = stopped.cap_milli;
	neighbour = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	return neighbour;
}

static struct program even(uint64_t kernel_ns, uint64_t stops_ns)
{
	return (struct program){.kind = EVEN,
				.weight = 100,
				.cap_milli = 1000,
				.kernel_ns = kernel_ns,
				.stops_ns = stops_ns};
}

static uint64_t done_alone(uint64_t kernel_ns, uint64_t stops_ns)
{
	struct program *p;

	given(true);
	p = add(EVEN, 100, kernel_ns);
	p->stops_ns = stops_ns;
	begin();
	run(20000 * MS);
	return p->done;
}

/* With stops of 30 ms it had 0.22 of its part, as each drain took as long as a stop. */
TEST(a_tenant_that_is_stopped_now_and_then_has_half_of_its_part)
{
	static const uint64_t kernels[] = {500 * US, 2 * MS};

	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		for (uint64_t stops_ns = 10 * MS; stops_ns <= 50 * MS; stops_ns += 20 * MS) {
			uint64_t alone = done_alone(kernels[i], stops_ns);

			given_stopped(even(kernels[i], stops_ns));
			run(20000 * MS);
			expect(m.program[0].done * 6 >= alone);
			expect_eq(m.hung + m.beside, 0);
		}
	}
}

/* They waited for up to 86 ms. */
TEST(neighbours_of_a_tenant_that_is_stopped_wait_for_their_turns_alone)
{
	for (uint64_t stops_ns = 10 * MS; stops_ns <= 70 * MS; stops_ns += 20 * MS) {
		struct program *n = given_stopped(even(500 * US, stops_ns));

		run(1000 * MS);
		forget_what_they_had();
		run(20000 * MS);
		expect(n->gap_ns <= 40 * MS);
	}
}

static double had_later(struct program stopped)
{
	given_stopped(stopped);
	run(5000 * MS);
	forget_what_they_had();
	run(20000 * MS);
	return had(&m.program[0], 20000 * MS);
}

/* It queues as much as it may, is stopped, and what it has queued goes on. */
TEST(a_tenant_has_no_more_than_its_part_by_being_stopped)
{
	static const uint64_t kernels[] = {1 * MS, 20 * MS};

	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		for (uint64_t stops_ns = 30 * MS; stops_ns <= 70 * MS; stops_ns += 40 * MS) {
			struct program p = even(kernels[i], stops_ns);

			p.kind = GREEDY;
			p.weight = 10;
			expect(had_later(p) <= 1000.0 / 210 + 5);
			p.weight = 100;
			p.cap_milli = 100;
			expect(had_later(p) <= 10 + 5);
		}
	}
}

/* The turns of its other process forgave what the stopped one had beside others: it had 65 % of the
 * device instead of a third, and 65 with a cap of 40. Of what it has beside others half is charged,
 * but for a cap. */
TEST(nor_has_one_whose_other_process_has_turns_meanwhile)
{
	for (uint64_t stops_ns = 30 * MS; stops_ns <= 70 * MS; stops_ns += 40 * MS) {
		struct program p = even(20 * MS, stops_ns);

		p.kind = GREEDY;
		p.ahead = 32;
		p.sibling = true;
		expect(had_later(p) <= 100.0 / 3 + 10);
		p.cap_milli = 400;
		expect(had_later(p) <= 40 + 5);
	}
}

/* Two processes that wait for each other's kernels, of which the second is stopped. The first
 * neighbour is returned. */
static struct program *given_pair(bool bare, struct program shared)
{
	struct program *asks, *answers, *neighbour;

	given(bare);
	asks = add(ASKS, shared.weight, 50 * US);
	answers = add(ANSWERS, shared.weight, 100 * US);
	asks->mate = answers;
	answers->mate = asks;
	asks->cap_milli = shared.cap_milli;
	answers->stops_ns = shared.stops_ns;
	neighbour = bare ? NULL : add(GREEDY, 100, 1 * MS);
	if (!bare)
		add(GREEDY, 100, 1 * MS);
	begin();
	return neighbour;
}

/* A drain ended again and again as the process was stopped, before it was found that it waits for
 * the other one, which stood at the gate: each took up to 50 ms, and it had 0.2 of its part, but by
 * chance. */
TEST(a_tenant_of_which_one_process_is_stopped_now_and_then_has_half_of_its_part)
{
	for (uint64_t stops_ns = 15 * MS; stops_ns <= 55 * MS; stops_ns += 5 * MS) {
		struct program *n;
		uint64_t alone;

		(void)given_pair(true, even(0, stops_ns));
		run(20000 * MS);
		alone = m.program[0].done;
		n = given_pair(false, even(0, stops_ns));
		run(1000 * MS);
		forget_what_they_had();
		run(19000 * MS);
		expect(m.program[0].done * 6 >= alone);
		expect(n->gap_ns <= 100 * MS);
		expect_eq(m.hung + m.beside, 0);
	}
}

/* What polls beside others is charged by half. */
TEST(nor_has_such_a_tenant_more_than_its_part)
{
	for (uint64_t stops_ns = 0; stops_ns <= 50 * MS; stops_ns += 10 * MS) {
		(void)given_pair(false, even(0, stops_ns));
		run(5000 * MS);
		forget_what_they_had();
		run(20000 * MS);
		expect(had(&m.program[0], 20000 * MS) + had(&m.program[1], 20000 * MS) <=
		       100.0 / 3 + 10);
	}
}

/* Law 8: one with a thread at the gate is not, and nobody waits for either. */
TEST(a_tenant_that_stays_stopped_is_reported_unless_a_thread_waits_for_its_turn)
{
	for (unsigned stands = 0; stands < 2; stands++) {
		struct program greedy = even(500 * US, 0), *n, *p = &m.program[0];

		greedy.kind = GREEDY;
		n = given_stopped(greedy);
		run(1000 * MS);
		for (unsigned i = 0; i < 20000 && (p->open || p->drained || p->stands); i++)
			run(STEP_NS);
		expect(p->queued && !p->open);
		p->stands = stands;
		p->stops_ns = STOP_PERIOD;
		run(200 * MS);
		forget_what_they_had();
		run(5000 * MS);
		expect_eq(m.hung, !stands);
		expect(n->gap_ns <= 40 * MS);
		p->stops_ns = 0;
		run(10000 * MS); /* it pays for half of the time */
		forget_what_they_had();
		run(10000 * MS);
		expect(had(p, 10000 * MS) >= 100.0 / 3 - 5);
	}
}
