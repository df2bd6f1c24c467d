/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant owes for long kernels is paid for, whatever is done to its share meanwhile, and
 * whether it is one process or many short ones.
 */
#include "tests/unit/turns_sliced.h"

enum { WEIGHT = 10, OTHERS = 100, SECONDS = 60 };

/* What it has by its weight beside two others, in hundredths of the device. */
static const double by_weight = 100.0 * WEIGHT / (WEIGHT + 2 * OTHERS);

static struct turns_share share;

static void given_one(enum kind kind, uint64_t kernel_ns, uint32_t guarantee_milli)
{
	struct program *p;

	given(false);
	p = add(kind, WEIGHT, kernel_ns);
	add(GREEDY, OTHERS, 1 * MS);
	add(GREEDY, OTHERS, 1 * MS);
	begin();
	share = p->tenant.share;
	share.guarantee_milli = guarantee_milli;
	turns_set(&p->tenant, &share, m.now);
	pump();
}

/* ---- what is done to it ---------------------------------------------------------------------- */

static void set_the_same(void)
{
	turns_set(&m.program[0].tenant, &share, m.now);
}

static void set_another_weight(void)
{
	share.weight = share.weight == WEIGHT ? WEIGHT / 2 : WEIGHT;
	set_the_same();
}

static void set_another_guarantee(void)
{
	share.guarantee_milli = share.guarantee_milli == 100 ? 90 : 100;
	set_the_same();
}

/* Its process ends, and the next one begins. */
static void begin_anew(void)
{
	struct program *p = &m.program[0];

	turns_leave(&p->seat, m.now);
	pump();
	set_the_same();
	p->queued = 0;
	p->begun = p->done;
	p->stands = p->busy = p->open = false;
	p->drained = true;
	p->free_at = m.now;
	turns_join(&p->seat, &p->tenant, &m.device, p, false, m.now);
}

/* In hundredths of the device, after what it owes from its start is paid. */
static double part_if(void (*done)(void), uint64_t every_ns)
{
	run(20000 * MS);
	forget_what_they_had();
	for (uint64_t end = m.now + SECONDS * 1000 * MS; m.now < end;) {
		run(every_ns / 2 + test_random_below(every_ns));
		done();
		pump();
	}
	return had(&m.program[0], SECONDS * 1000 * MS);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Its debt was forgiven each time but for one turn: 16 % with kernels of up to 100 ms, 52 % with
 * 300 ms. */
TEST(a_tenant_whose_share_is_set_again_and_again_has_no_more_than_its_part)
{
	given_one(LONG, 100 * MS, 0);
	expect(part_if(set_the_same, 16 * MS) <= by_weight + 1);
	given_one(AHEAD, 300 * MS, 0);
	expect(part_if(set_the_same, 16 * MS) <= by_weight + 1);
}

TEST(a_tenant_whose_weight_is_changed_again_and_again_has_no_more_than_its_part)
{
	given_one(LONG, 100 * MS, 0);
	expect(part_if(set_another_weight, 16 * MS) <= by_weight + 1);
	given_one(GREEDY, 10 * MS, 0);
	expect(part_if(set_another_weight, 16 * MS) <= by_weight + 1);
}

/* It was owed by weight: 300 ms were 30 s with a hundred times the weight, and it had nothing for a
 * second. */
TEST(a_debt_is_as_long_though_the_next_process_has_another_weight)
{
	struct program *p;
	uint64_t done;

	given_one(AHEAD, 300 * MS, 0);
	p = &m.program[0];
	run(20000 * MS);
	for (done = p->done; p->done == done;)
		run(1 * MS);
	share.weight = 100 * WEIGHT;
	begin_anew();
	p->kind = GREEDY;
	p->kernel_ns = 1 * MS;
	forget_what_they_had();
	run(1000 * MS);
	expect(had(p, 1000 * MS) >= 50);
}

/* ---- guarantees ------------------------------------------------------------------------------ */

/* Whatever it had used in advance was forgotten, and it was next: 75 to 95 %. */
TEST(a_tenant_whose_guarantee_is_changed_again_and_again_has_no_more_than_that)
{
	given_one(LONG, 100 * MS, 100);
	expect(part_if(set_another_guarantee, 16 * MS) <= 10 + 1);
	given_one(AHEAD, 300 * MS, 100);
	expect(part_if(set_another_guarantee, 16 * MS) <= 10 + 1);
}

/* 75 %. */
TEST(a_tenant_of_short_processes_has_no_more_than_its_guarantee)
{
	given_one(AHEAD, 150 * MS, 100);
	expect(part_if(begin_anew, 300 * MS) <= 10 + 1);
}

/* Of each kernel no more than 200 ms were paid for: 28 %. */
TEST(a_tenant_with_long_kernels_has_no_more_than_its_guarantee)
{
	for (uint64_t length = 300 * MS; length <= 900 * MS; length += 300 * MS) {
		given_one(AHEAD, length, 100);
		expect(part_if(pump, 1000 * MS) <= 10 + 2);
	}
}
