/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose kernels last long and whose threads stand at the gate meanwhile, as those do whose
 * work waits for them: core/turns/turns_last.c tells the two apart.
 */
#include "tests/unit/turns_sliced.h"

enum { USUAL_SHARE = 10000 / 3 }; /* in hundredths of a per cent: of three that are alike */

/* Beside two greedy neighbours, of which the first is returned. */
static struct program *given_one(enum kind kind, uint64_t kernel_ns, unsigned ahead)
{
	struct program *neighbour;

	given(false);
	add(kind, 100, kernel_ns)->ahead = ahead;
	neighbour = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	return neighbour;
}

static void expect_part(const struct program *p, uint64_t of_ns)
{
	double part = had(p, of_ns);

	expect(part >= USUAL_SHARE / 100.0 - 2 && part <= USUAL_SHARE / 100.0 + 2);
}

static void expect_its_part(uint64_t kernel_ns, unsigned ahead)
{
	struct program *n = given_one(AHEAD, kernel_ns, ahead);

	run(5000 * MS);
	forget_what_they_had();
	m.beside = 0;
	run(60000 * MS);
	expect_part(&m.program[0], 60000 * MS);
	expect_part(n, 60000 * MS);
	expect(n->gap_ns <= ahead * kernel_ns + 50 * MS);
	expect_eq(m.beside, 0);
	expect_eq(m.hung, 0);
	expect(!m.program[0].tenant.awaits[0]);
}

/* Each drain of it was given up after 200 ms, and what it then had beside others was not charged as
 * it had not ended before the next turn: 52 % at 500 ms. */
TEST(who_has_long_kernels_and_launches_ahead_has_its_part)
{
	for (uint64_t length = 50 * MS; length <= 900 * MS; length += 50 * MS)
		expect_its_part(length, 1);
}

TEST(who_has_several_long_kernels_under_way_has_its_part)
{
	for (uint64_t length = 50 * MS; length <= 250 * MS; length += 50 * MS)
		expect_its_part(length, 3);
}

/* It never drains, however long others run beside it: it is watched, but less and less often. */
TEST(whose_work_waits_for_its_thread_is_not_kept_from_its_turns)
{
	struct program *n = given_one(LEANS, 1 * MS, 4);
	const struct turns_seat *s = &m.program[0].seat;
	uint64_t turns;

	run(10000 * MS);
	expect(m.program[0].tenant.lasting_ns == 0);
	turns = s->turns;
	expect(turns >= 5);
	run(10000 * MS);
	expect(s->turns - turns >= 5);
	/* 780 rounds within 5 s where it has its third part of the time, and 870 if never watched.
	 */
	expect(m.program[0].done >= 4 * 600);
	expect(n->gap_ns <= 500 * MS);
	expect_eq(m.hung, 0);
}

/* What was learnt of it holds no longer: its neighbours wait for that once. */
TEST(who_had_long_kernels_may_wait_for_its_thread_later)
{
	struct program *n = given_one(AHEAD, 600 * MS, 1);
	uint64_t done;

	run(20000 * MS);
	expect(m.program[0].tenant.lasting_ns >= 500 * MS);
	m.program[0].kind = LEANS;
	m.program[0].kernel_ns = 1 * MS;
	m.program[0].ahead = 4;
	run(2000 * MS);
	forget_what_they_had();
	done = m.program[0].done;
	run(20000 * MS);
	expect(m.program[0].done - done >= 4 * 600);
	expect(n->gap_ns <= 500 * MS);
	expect_eq(m.hung, 0);
}

/* It was given up, and leaves while it is watched: it comes back as if that had not been. */
TEST(who_is_watched_may_leave_the_device)
{
	struct program *p;

	given_one(AHEAD, 900 * MS, 1);
	p = &m.program[0];
	for (unsigned i = 0; i < 5000 && !p->tenant.watched_until_ns; i++)
		run(1 * MS);
	expect(p->tenant.watched_until_ns != 0);
	p->queued = 0;
	p->done = p->begun;
	turns_leave(&p->seat, m.now);
	pump();
	expect_eq(p->tenant.watched_until_ns, 0);
	turns_join(&p->seat, &p->tenant, &m.device, p, false, m.now);
	p->open = p->busy = p->stands = false;
	p->drained = true;
	run(10000 * MS);
	expect(p->seat.turns > 1);
}
