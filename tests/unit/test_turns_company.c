/* SPDX-License-Identifier: Apache-2.0 */
/* Gates that are open in another tenant's turn: the time that this takes of the others, and for how
 * long. */
#include "tests/unit/turns_sliced.h"

enum { LOOK_NS = 250000 };

/* Since when none of the neighbours, which follow the group, has had a turn of its own. */
struct waiting {
	uint64_t since, longest_ns;
};

static void look(struct waiting *w, unsigned group)
{
	for (unsigned i = group; i < m.programs; i++) {
		const struct turns_seat *s = &m.program[i].seat;

		if (s->gate == TURNS_OPENED && !s->leader)
			w->since = m.now;
	}
	w->longest_ns = most(w->longest_ns, m.now - w->since);
}

/* Work that has never ended ends at last, so long after its gate was closed in its own right. */
static void end_what_is_held(uint64_t after_ns)
{
	for (unsigned i = 0; i < m.programs; i++) {
		struct program *p = &m.program[i];

		if (p->kind == HOLDS && m.device.holder == &p->seat &&
		    p->seat.gate == TURNS_CLOSING && m.now - p->tenant.ending_ns >= after_ns)
			p->queued = 0;
	}
}

/* A group beside two greedy neighbours. */
static struct program *given_group(enum kind kind, unsigned members, unsigned ahead,
				   uint32_t weight)
{
	struct program *neighbour;

	given(false);
	for (unsigned i = 0; i < members; i++)
		add(kind, weight, 100 * US)->ahead = ahead;
	neighbour = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	return neighbour;
}

/* Returns the longest time in which no neighbour had a turn. */
static uint64_t run_group(unsigned members, uint64_t held_ns, uint64_t length_ns)
{
	struct waiting waiting = {.since = m.now};

	for (uint64_t end = m.now + length_ns; m.now < end;) {
		run(LOOK_NS);
		end_what_is_held(held_ns);
		look(&waiting, members);
	}
	return waiting.longest_ns;
}

/* A tenant that was let in for a moment had waited for long, and that was forgotten. */
TEST(a_tenant_that_is_let_in_is_owed_as_much_as_before)
{
	for (unsigned members = 1; members <= 6; members++) {
		struct program *n = given_group(HOLDS, members, 1000000, 10);

		run(5000 * MS);
		forget_what_they_had();
		run(20000 * MS);
		expect(had(n, 20000 * MS) >= 10000.0 / (200 + 10 * members) - 5);
		expect(n->gap_ns <= 500 * MS);
	}
}

/* All neighbours were let in during its drain. Nobody stood in line then, and its next step was
 * taken for a turn without rivals, for ever. (A second is what it takes to report one that hangs.)
 */
TEST(a_group_that_launches_ahead_does_not_keep_the_device)
{
	for (unsigned members = 2; members <= 6; members++) {
		given_group(MEETS, members, 4, 100);
		expect(run_group(members, UINT64_MAX, 20000 * MS) <= 5000 * MS);
	}
}

/* A tenant that had let in all others, or could let in none any more, was waited for until it was
 * reported as hanging. */
TEST(a_group_that_launches_ahead_is_never_reported_as_hanging)
{
	for (unsigned members = 4; members <= 6; members++) {
		for (unsigned ahead = 2; ahead <= 16; ahead *= 2) {
			struct program *n = given_group(MEETS, members, ahead, 100);

			run(10000 * MS);
			expect(n->gap_ns <= 700 * MS);
			expect_eq(m.hung, 0);
		}
	}
}

/* Two members had their turns one after the other, each with a drain that was given up: a neighbour
 * waited for 0.53 s. */
TEST(a_neighbour_of_a_group_waits_for_one_of_its_drains_at_a_time)
{
	static const struct {
		unsigned members, ahead;
		uint64_t seed;
	} groups[] = {{6, 1, 39}, {6, 4, 35}, {5, 4, 18}};

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		struct program *n;

		test_random_restart(groups[i].seed);
		n = given_group(MEETS, groups[i].members, groups[i].ahead, 100);
		run(10000 * MS);
		expect(most(n[0].gap_ns, n[1].gap_ns) <= 450 * MS);
	}
}

/* It waited for both, though each of the four had its part. */
TEST(a_neighbour_of_two_with_long_kernels_waits_for_one_kernel_at_a_time)
{
	struct program *n;

	given(false);
	add(EVEN, 100, 120 * MS);
	add(EVEN, 100, 120 * MS);
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(20000 * MS);
	forget_what_they_had();
	run(20000 * MS);
	expect(n[0].gap_ns <= 150 * MS && n[1].gap_ns <= 150 * MS);
	for (unsigned i = 0; i < m.programs; i++)
		expect(had(&m.program[i], 20000 * MS) >= 25 - 2);
}

static uint64_t rounds_alone(unsigned members, unsigned ahead)
{
	given(true);
	for (unsigned i = 0; i < members; i++)
		add(MEETS, 100, 100 * US)->ahead = ahead;
	begin();
	run(10000 * MS);
	return m.program[0].done;
}

/* Nobody was found by the end of a drain, as hardly one ended in time. With these seeds they had
 * 0.26 to 0.45 of their part: that of a pair that launches sixteen ahead was given up while a
 * thread stood at the gate. */
TEST(a_group_that_launches_ahead_has_half_of_its_part_at_least)
{
	static const struct {
		unsigned members, ahead;
		uint64_t seed;
	} groups[] = {{4, 4, 39595}, {5, 4, 55433}, {6, 2, 39595}, {2, 16, 1},
		      {2, 16, 2},    {2, 16, 3},    {2, 16, 4}};

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		unsigned members = groups[i].members, ahead = groups[i].ahead;
		uint64_t alone = rounds_alone(members, ahead);
		struct program *n;

		test_random_restart(groups[i].seed);
		n = given_group(MEETS, members, ahead, 100);
		run(10000 * MS);
		expect(m.program[0].done * (members + 2) * 2 >= alone);
		expect(n->gap_ns <= 500 * MS);
	}
}

/* Its thread waited at the gate once, so that its first drains are given up. */
TEST(a_tenant_that_waited_and_then_hangs_is_reported)
{
	struct program *n = given_group(HOLDS, 1, 1000000, 100);
	struct program *p = &m.program[0];

	run(1000 * MS);
	expect(p->tenant.bond != TURNS_FREE);
	p->ahead = p->queued;
	p->stands = false;
	run(10000 * MS);
	expect_eq(m.hung, 1);
	expect_eq(p->tenant.bond, TURNS_HUNG);
	expect(n->gap_ns <= 1200 * MS);
}

/* Each holds the device after the other one as it drains, and each drains just in time. */
TEST(the_drains_of_a_group_do_not_add_up)
{
	for (unsigned members = 2; members <= 6; members++) {
		given_group(HOLDS, members, 1, 100);
		expect(run_group(members, 900 * MS, 25000 * MS) <= 2000 * MS);
		expect_eq(m.hung, 0);
	}
}

/* The second program stands in no line while it comes along, so that the turn had no end. */
static void expect_its_part(struct program *b)
{
	forget_what_they_had();
	run(10000 * MS);
	expect(had(b, 10000 * MS) >= 10000.0 / 110 - 5);
}

TEST(a_tenant_that_awaits_another_takes_no_time_of_it_though_nobody_stands_in_line)
{
	struct program *a, *b;

	given(false);
	a = add(FOLLOWS, 10, 100 * US);
	b = add(GREEDY, 100, 1 * MS);
	begin();
	run(3000 * MS);
	expect(a->tenant.awaits[0] == &b->tenant);
	expect_its_part(b);
	expect(a->done > 10);
}

TEST(two_that_wait_no_more_have_turns_alone_though_nobody_stands_in_line)
{
	struct program *a, *b;

	given(false);
	a = add(MEETS, 10, 100 * US);
	b = add(MEETS, 100, 100 * US);
	begin();
	run(3000 * MS);
	expect(a->tenant.awaits[0] == &b->tenant && b->tenant.awaits[0] == &a->tenant);
	a->kind = b->kind = GREEDY;
	a->ahead = b->ahead = 4;
	run(20000 * MS);
	expect(!b->tenant.awaits[0]);
	expect_its_part(b);
}

/* No thread stands at any gate. */
static void answer(struct turns_seat *leader)
{
	struct turns_action action;

	turns_tick(&m.turns, m.now);
	while (turns_next(&m.turns, &action)) {
		if (action.verb == TURNS_LATE && action.seat == leader)
			turns_late(leader, false, m.now);
	}
}

/* Its leader's drain does not end: it is let in for a moment, and has used up its cap by that. */
static void expect_paid_moment(struct turns_seat *leader, struct program *capped)
{
	m.turns.tuning.step_ns = 10 * MS; /* a moment is four steps */
	for (; capped->seat.gate != TURNS_OPENED; m.now += STEP_NS)
		answer(leader);
	expect_eq(capped->tenant.state, TURNS_ALONG);
	for (; capped->seat.gate == TURNS_OPENED; m.now += STEP_NS)
		answer(leader);
	turns_drained(capped->at, true, m.now);
	expect_eq(capped->tenant.state, TURNS_CAPPED);
}

/* It waited for longer than its cap takes to pay for that moment. */
TEST(a_tenant_that_is_let_in_has_saved_up_no_more_than_a_burst_in_the_line)
{
	struct program *leader, *capped;

	given(false);
	leader = add(HOLDS, 100, 0);
	capped = add(EVEN, 100, 1 * MS);
	capped->cap_milli = 500;
	begin();
	turns_drained(leader->at, false, m.now); /* the device was open before the other one came */
	turns_wants(leader->at, m.now);
	answer(leader->at);
	turns_wants(capped->at, m.now);
	expect_paid_moment(leader->at, capped);
}

/* Nothing is charged while it pauses and nobody else wants the device. Its turn ends in such a
 * pause, as it is given a cap. */
TEST(a_tenant_that_is_let_in_after_a_pause_pays_for_it)
{
	const struct turns_share share = {.weight = 100, .cap_milli = 500, .class = SHARE_STANDARD};
	struct program *leader, *capped;

	given(false);
	leader = add(HOLDS, 100, 0);
	capped = add(EVEN, 100, 1 * MS);
	begin();
	turns_drained(leader->at, false, m.now); /* the device was open before the other one came */
	turns_wants(capped->at, m.now);
	answer(leader->at);
	turns_idle(capped->at, m.now);
	expect(capped->tenant.paused);
	m.now += MS;
	turns_set(&capped->tenant, &share, m.now);
	answer(leader->at);
	turns_drained(capped->at, false, m.now);
	turns_wants(leader->at, m.now);
	answer(leader->at);
	turns_wants(capped->at, m.now);
	expect_paid_moment(leader->at, capped);
}
