/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs with a cap that queue more than their neighbours can wait for: their drains are given
 * up, and what they have beside others is charged. See decisions/0198.
 */
#include "tests/unit/turns_sliced.h"

enum { FIRST_MS = 20000, THEN_MS = 60000, POINTS = 5 };

/* What it has once its first turns are over, in percent. */
static double had_later(const struct program *p)
{
	run(FIRST_MS * MS);
	forget_what_they_had();
	run(THEN_MS * MS);
	return had(p, THEN_MS * MS);
}

/* Of kernels that are always queued so deep. */
static void expect_cap_kept(uint64_t kernel_ns, unsigned ahead, uint32_t cap_milli,
			    enum kind neighbour)
{
	struct program *p = given_capped(AHEAD, kernel_ns, ahead, cap_milli, neighbour);

	expect(had_later(p) <= cap_milli / 10.0 + POINTS);
	expect_eq(m.hung, 0);
}

static void expect_caps_kept(enum kind neighbour)
{
	for (uint32_t cap = 200; cap <= 500; cap += 300) {
		for (unsigned ahead = 1; ahead <= 4; ahead++)
			expect_cap_kept(1000 * MS, ahead, cap, neighbour);
		expect_cap_kept(500 * MS, 8, cap, neighbour);
		expect_cap_kept(3000 * MS, 1, cap, neighbour);
	}
}

/* Each turn added to the queue before it had ended, so nothing of it was charged: 54 to 73 % with
 * caps of 10 to 50 %. */
TEST(a_cap_holds_for_work_that_is_queued_ahead)
{
	expect_caps_kept(GREEDY);
}

/* Half of the time was charged, also of that in which nobody else had a turn: 42 % with a cap of
 * 30 %, and 80 to 88 % with those queues. */
TEST(a_cap_holds_beside_a_neighbour_that_leaves_the_device_alone)
{
	expect_caps_kept(MEETS);
}

/* Its neighbour's turns counted as half of the device each, of which that computes nothing: 30 %
 * with a cap of 20. */
TEST(a_cap_holds_beside_a_neighbour_that_only_copies)
{
	expect_cap_kept(1000 * MS, 1, 200, COPIES);
	expect_cap_kept(2000 * MS, 1, 200, COPIES);
}

/* Its threads wait for their own work, so it was reported before one of them stood at the gate.
 * What it had then was never charged, as its next turn added to it: 61 % with caps of 30 and 50. */
TEST(a_cap_holds_for_work_in_many_streams)
{
	static const struct {
		uint32_t cap_milli;
		uint64_t kernel_ns;
		unsigned streams;
	} row[] = {{300, 2700 * MS, 2}, {500, 2700 * MS, 2}, {500, 2700 * MS, 4}};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct program *p = given_capped(GREEDY, row[i].kernel_ns, row[i].streams,
						 row[i].cap_milli, GREEDY);

		expect(had_later(p) <= row[i].cap_milli / 10.0 + POINTS);
	}
}

/* Each kernel begins once its thread launches the next one, and nobody looked whether all of them
 * had ended, so what they had once the drain was given up was not charged: 38 to 64 % with kernels
 * of a second. */
TEST(a_cap_holds_for_kernels_behind_host_functions_that_wait_for_a_launch)
{
	for (uint32_t cap = 100; cap <= 400; cap *= 2) {
		for (uint64_t length = 125 * MS; length <= 1000 * MS; length *= 2) {
			struct program *p = given_capped(TRAILS, length, 2, cap, GREEDY);
			double part = had_later(p);

			expect(part <= cap / 10.0 + POINTS);
			expect(part >= cap / 20.0);
			expect_eq(m.hung, 0);
		}
	}
}

/* It is watched for long, but less and less often. (4,300 rounds within 20 s if it is not.) */
TEST(a_tenant_with_a_cap_whose_work_waits_for_its_thread_has_turns)
{
	struct program *p = given_capped(LEANS, 1 * MS, 4, 300, GREEDY);
	uint64_t done;

	run(11000 * MS);
	done = p->done;
	run(5000 * MS);
	expect(p->done - done >= 600);
	run(84000 * MS);
	expect(p->done - done >= 6000);
	expect(m.program[1].gap_ns <= 500 * MS);
	expect_eq(m.hung, 0);
}

/* What it has is charged to it, beside whom it is: it has no less than its cap either. */
TEST(a_queue_with_a_cap_has_its_part)
{
	struct program *p = given_capped(AHEAD, 1000 * MS, 1, 300, MEETS);

	expect(had_later(p) >= 25);
}
