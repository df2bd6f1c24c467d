/* SPDX-License-Identifier: Apache-2.0 */
/* Law 13 of core/turns/turns.h: tenants whose work waits for other tenants' work. */
#include "tests/unit/turns_sliced.h"

/* Rounds of `members` programs within the time given. */
static uint64_t rounds(bool bare, unsigned members, unsigned ahead, uint64_t length_ns)
{
	struct program *neighbours[2];

	given(bare);
	for (unsigned i = 0; i < members; i++)
		add(MEETS, 100, 100 * US)->ahead = ahead;
	for (unsigned i = 0; i < 2 && !bare; i++)
		neighbours[i] = add(GREEDY, 100, 1 * MS);
	begin();
	run(length_ns);
	for (unsigned i = 0; i < 2 && !bare; i++)
		expect(neighbours[i]->gap_ns <= 500 * MS);
	return m.program[0].done;
}

/* `part_milli`: of its part, which is one of as many as there are tenants. */
static void expect_progress(unsigned members, unsigned ahead, uint64_t part_milli)
{
	uint64_t bare = rounds(true, members, ahead, 5000 * MS);
	uint64_t shared = rounds(false, members, ahead, 5000 * MS);

	expect(shared * (members + 2) * 1000 >= bare * part_milli);
	expect_eq(m.hung, 0);
}

TEST(two_that_wait_for_each_other_get_on)
{
	expect_progress(2, 1, 1000);
}

TEST(three_that_wait_for_each_other_get_on)
{
	expect_progress(3, 1, 500);
}

TEST(two_that_wait_for_each_other_and_launch_ahead_get_on)
{
	expect_progress(2, 4, 500);
}

/* Drains end as the one is let in or the other: each proof had put off the next trial. */
TEST(two_that_wait_for_each_other_and_launch_one_ahead_get_on)
{
	expect_progress(2, 2, 600);
}

TEST(tenants_that_await_each_other_have_their_parts_in_sum)
{
	struct program *a, *b, *n;
	uint64_t charged = 0;

	given(false);
	a = add(MEETS, 10, 100 * US);
	b = add(MEETS, 100, 100 * US);
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(2000 * MS);
	forget_what_they_had();
	run(10000 * MS);
	expect(had(a, 10000 * MS) + had(b, 10000 * MS) <= 11000 / 310.0 + 5);
	expect(had(n, 10000 * MS) >= 10000 / 310.0 - 5);
	/* Their time together is charged once. */
	for (unsigned i = 0; i < m.programs; i++) {
		turns_settle(&m.program[i].seat, m.now);
		charged += m.program[i].seat.charged_ns;
	}
	expect(charged <= 12000 * MS + 200 * MS);
}

/* One is awaited by a tenant that may have more than it. */
TEST(a_tenant_that_comes_along_keeps_its_cap)
{
	struct program *a;

	given(false);
	a = add(MEETS, 100, 100 * US);
	a->cap_milli = 50;
	add(MEETS, 1000, 100 * US);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(2000 * MS);
	forget_what_they_had();
	run(10000 * MS);
	expect(had(a, 10000 * MS) <= 5 + 5);
}

/* If neither was let in for the drain of the other one before it had paid for its own, both would
 * poll beside others: with caps of 5 % they had 47. */
TEST(tenants_that_await_each_other_keep_their_caps)
{
	static const uint32_t caps[] = {100, 50, 20};

	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		struct program *a, *b;

		given(false);
		a = add(MEETS, 100, 100 * US);
		b = add(MEETS, 100, 100 * US);
		a->cap_milli = b->cap_milli = caps[i];
		add(GREEDY, 100, 1 * MS);
		begin();
		run(2000 * MS);
		forget_what_they_had();
		run(30000 * MS);
		expect(had(a, 30000 * MS) <= caps[i] / 10.0 + 5);
		expect(had(b, 30000 * MS) <= caps[i] / 10.0 + 5);
		expect(a->done > 10);
	}
}

/* The pair has threads that launch, and what is in flight never ends. */
TEST(a_group_that_never_drains_takes_nothing_of_its_neighbours)
{
	struct program *n;

	given(false);
	add(HOLDS, 10, 0)->ahead = 1000000;
	add(HOLDS, 10, 0);
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(5000 * MS);
	forget_what_they_had();
	run(20000 * MS);
	expect(had(n, 20000 * MS) >= 10000 / 220.0 - 5);
	expect(n->gap_ns <= 1200 * MS);
}

/* Somebody is let in while its kernels end, by chance. */
TEST(a_tenant_with_long_kernels_has_its_part)
{
	struct program *l, *n;

	given(false);
	l = add(LONG, 100, 400 * MS);
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(5000 * MS);
	forget_what_they_had();
	run(60000 * MS);
	expect(had(l, 60000 * MS) <= 100 / 3.0 + 5 && had(l, 60000 * MS) >= 100 / 3.0 - 5);
	expect(had(n, 60000 * MS) >= 100 / 3.0 - 5);
	expect_eq(m.hung, 0);
}

TEST(a_tenant_with_kernels_of_one_length_is_not_taken_for_one_that_awaits_another)
{
	for (uint64_t length = 40 * MS; length <= 400 * MS; length += 30 * MS) {
		given(false);
		add(EVEN, 100, length);
		add(GREEDY, 100, 1 * MS);
		add(GREEDY, 100, 1 * MS);
		begin();
		run(10000 * MS);
		expect(!m.program[0].tenant.awaits[0]);
	}
}

/* One has a hundredth of the weight, and kernels that take long. */
TEST(an_awaited_tenant_takes_no_time_of_tenants_that_await_nobody)
{
	struct program *l;

	given(false);
	l = add(LONG, 100, 300 * MS);
	add(GREEDY, 1, 1 * MS);
	begin();
	run(60000 * MS);
	expect(had(l, 60000 * MS) >= 10000 / 101.0 - 5);
}

/* Two that wait for each other, beside a greedy one, have been found. */
static void find_pair(struct program **ret_a, struct program **ret_b)
{
	given(false);
	*ret_a = add(MEETS, 100, 100 * US);
	*ret_b = add(MEETS, 100, 100 * US);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(3000 * MS);
	expect((*ret_a)->tenant.awaits[0] == &(*ret_b)->tenant);
	expect((*ret_b)->tenant.awaits[0] == &(*ret_a)->tenant);
}

TEST(a_tenant_that_awaits_nobody_any_more_has_its_turns_alone)
{
	struct program *a, *b;

	find_pair(&a, &b);
	a->kind = b->kind = GREEDY;
	a->ahead = b->ahead = 4;
	run(100000 * MS);
	expect(!a->tenant.awaits[0] && !b->tenant.awaits[0]);
}

static void set_live(struct program *p, bool weighted, uint32_t cap_milli)
{
	struct turns_share share = {.weight = p->weight,
				    .weighted = weighted,
				    .cap_milli = cap_milli,
				    .class = SHARE_STANDARD};

	turns_set(&p->tenant, &share, m.now);
	pump();
}

static void use_nothing(struct program *p)
{
	p->queued = 0;
	p->done = p->begun;
	p->busy = false;
	p->free_at = UINT64_MAX;
}

static void join_second(struct program *p, bool is_open)
{
	turns_join(&p->second, &p->tenant, &m.second, p, is_open, m.now);
	p->at = &p->second;
	p->open = is_open;
	p->drained = !is_open;
	p->free_at = m.now;
	pump();
}

/* The tenant that was awaited there is on no governed device while the one that awaited it is on
 * another. */
TEST(nobody_is_awaited_on_an_open_device)
{
	struct program *a, *b, *n = &m.program[2];

	find_pair(&a, &b);
	set_live(a, false, 1000);
	set_live(b, false, 1000);
	expect(m.device.governed);
	use_nothing(n);
	turns_leave(&n->seat, m.now);
	pump();
	expect(!m.device.governed);
	expect(!a->tenant.awaits[0] && !b->tenant.awaits[0]);
	use_nothing(b);
	use_nothing(a);
	a->kind = LONG;
	a->kernel_ns = 150 * MS;
	join_second(a, true);
	n = add(GREEDY, 100, 1 * MS);
	turns_tenant_init(&m.turns, &n->tenant,
			  &(struct turns_share){.weight = 100,
						.weighted = true,
						.cap_milli = 1000,
						.class = SHARE_STANDARD});
	join_second(n, false);
	expect(m.second.governed);
	run(100000 * MS);
	expect(a->done && n->done);
}

static void expect_no_company_with_long_kernels(void)
{
	struct program *a, *b;

	find_pair(&a, &b);
	a->kind = b->kind = EVEN;
	a->kernel_ns = b->kernel_ns = 20 * MS;
	run(100000 * MS);
	expect(!a->tenant.awaits[0] && !b->tenant.awaits[0]);
}

/* Their drains take longer than the check of one that waits. */
TEST(a_tenant_that_awaits_nobody_any_more_may_have_long_kernels)
{
	expect_no_company_with_long_kernels();
}

/* With these seeds a check was hundreds of turns away, as one of them had still waited three times,
 * and their drains, in which the other one was let in, left them a turn every now and then. */
TEST(a_tenant_that_awaits_nobody_any_more_is_found_though_it_has_few_turns)
{
	static const uint64_t seeds[] = {18, 77, 143};

	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		test_random_restart(seeds[i]);
		expect_no_company_with_long_kernels();
	}
}

/* It has lowered its own cap, and so would hold up the tenant that awaits it. */
TEST(an_awaited_tenant_does_not_starve_others_by_its_cap)
{
	struct program *a, *b;

	given(false);
	a = add(MEETS, 100, 100 * US);
	b = add(MEETS, 100, 100 * US);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(3000 * MS);
	expect(a->tenant.awaits[0] == &b->tenant);
	set_live(b, true, 10);
	a->kind = b->kind = GREEDY;
	a->ahead = b->ahead = 4;
	forget_what_they_had();
	run(1000 * MS);
	expect(had(a, 1000 * MS) >= 100 / 3.0);
}

/* In a turn, and not for a moment in which another one is to drain. */
static bool comes_along(const struct program *p)
{
	return p->seat.leader && p->seat.gate == TURNS_OPENED &&
	       p->seat.leader->tenant->state == TURNS_RUNNING;
}

/* The turn in which it came along would never end: nobody stands in line. */
TEST(a_tenant_barred_in_a_turn_without_end_is_waited_for_no_longer_than_others)
{
	struct program *a, *b;

	given(false);
	add(MEETS, 100, 100 * US);
	add(MEETS, 100, 100 * US);
	begin();
	run(3000 * MS);
	a = &m.program[0];
	b = &m.program[1];
	for (unsigned ms = 0; ms < 1000 && !comes_along(a) && !comes_along(b); ms++)
		run(1 * MS);
	if (comes_along(a)) {
		a = &m.program[1];
		b = &m.program[0];
	}
	expect(comes_along(b) && a->tenant.state == TURNS_RUNNING);
	a->kind = GREEDY;
	b->kind = HOLDS;
	b->queued = 1;
	turns_wants(&b->seat, m.now);
	turns_bar(&b->seat, true, m.now);
	run(5000 * MS);
	expect(b->seat.gate != TURNS_CLOSING);
}
