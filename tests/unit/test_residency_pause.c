/* SPDX-License-Identifier: Apache-2.0 */
/* Suspended, parked, and pauses that are waited for. */
#include "tests/unit/residency_fixture.h"

TEST(suspended_it_leaves_and_stays_out_until_it_is_resumed)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	expect_eq(residency_suspend(&w.m[0], true, NULL, w.now), 0);
	pump();
	move_all();
	expect_eq(w.m[0].out_bytes, 5 * GIB);
	pass(100000 * MS);
	expect_eq(w.m[0].place, RESIDENCY_OUT);
	expect_eq(residency_suspend(&w.m[0], false, NULL, w.now), 0);
	pump();
	move_all();
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.m[0].resident_bytes, 5 * GIB);
}

/* The time to which the first of two is entitled, when the second has run until now. */
static uint64_t entitled(void)
{
	turns_settle(w.m[1].seat, w.now);
	turns_settle(w.m[0].seat, w.now);
	return w.m[0].seat->entitled_ns;
}

TEST(suspended_it_is_entitled_to_no_time)
{
	uint64_t before;

	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 1 * GIB), 0);
	turns_govern(&w.device, true, w.now);
	wants(0);
	wants(1);
	pass(1000 * MS);
	expect_eq(residency_suspend(&w.m[0], true, NULL, w.now), 0);
	pump();
	move_all();
	before = entitled();
	pass(1000 * MS);
	expect_eq(entitled(), before);
	expect_eq(residency_suspend(&w.m[0], false, NULL, w.now), 0);
	/* Its memory is still to come back. */
	pump();
	pass(1000 * MS);
	expect(entitled() > before);
}

TEST(parked_it_leaves_when_it_was_idle_and_comes_back_when_it_wants)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	residency_park(&w.m[0], 60000 * MS, w.now);
	pump();
	pass(59999 * MS);
	expect_eq(w.m[0].place, RESIDENCY_IN);
	pass(MS);
	move_all();
	expect_eq(w.m[0].out_bytes, 5 * GIB);
	wants(0);
	move_all();
	expect_eq(w.m[0].place, RESIDENCY_IN);
}

TEST(an_idle_tenant_is_parked_only_where_the_store_has_room_for_all_of_it)
{
	given(8 * GIB, 2 * GIB);
	expect_eq(given_member(0, 3 * GIB), 0);
	wants(0);
	idles(0);
	residency_park(&w.m[0], 1000 * MS, w.now);
	pass(2000 * MS);
	move_all();
	expect_eq(w.m[0].resident_bytes, 3 * GIB);
	residency_budget(&w.r, 4 * GIB, w.now);
	pass(MS);
	move_all();
	expect_eq(w.m[0].resident_bytes, 0);
}

/* Two are idle since the same moment, or one after the other. */
TEST(an_idle_tenant_is_not_parked_into_room_that_another_one_needs)
{
	for (int apart = 0; apart < 2; apart++) {
		given(8 * GIB, 3 * GIB);
		for (int i = 0; i < 2; i++) {
			expect_eq(given_member(i, 2 * GIB), 0);
			residency_park(&w.m[i], (1000 + 4000 * i * apart) * MS, w.now);
		}
		pump();
		pass(1000 * MS);
		move_all();
		pass(5000 * MS);
		expect_eq(w.m[0].out_bytes, 2 * GIB);
		expect(!w.m[1].parked);
	}
}

TEST(suspended_before_it_joined_it_stays_so_and_leaves_once_the_store_has_room)
{
	uint64_t spare = residency_spare(&residency_usual);

	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 2 * GIB), 0);
	residency_budget(&w.r, 1 * GIB, w.now);
	residency_still_suspended(&w.m[0], w.now);
	wants(0);
	expect(!residency_is_housed(&w.m[0]));
	pump();
	move_all();
	pass(100000 * MS);
	expect(w.m[0].suspended && w.m[0].place == RESIDENCY_OUT && !w.m[0].stuck);
	expect(w.m[0].resident_bytes >= 1 * GIB);
	residency_budget(&w.r, 2 * GIB + spare, w.now);
	pump();
	move_all();
	expect(residency_is_housed(&w.m[0]));
	expect_eq(w.m[0].resident_bytes, 0);
	expect_eq(residency_suspend(&w.m[0], false, NULL, w.now), 0);
	pump();
	move_all();
	expect_eq(w.m[0].place, RESIDENCY_IN);
}

TEST(all_that_are_suspended_fit_in_the_store_together)
{
	uint64_t spare = residency_spare(&residency_usual);

	given(8 * GIB, 4 * GIB + spare);
	expect_eq(given_member(0, 2 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB + 1), 0);
	expect_eq(given_member(2, 2 * GIB), 0);
	expect_eq(residency_suspend(&w.m[0], true, NULL, w.now), 0);
	expect_eq(residency_suspend(&w.m[1], true, NULL, w.now), RESIDENCY_STORE);
	expect_eq(residency_suspend(&w.m[2], true, NULL, w.now), 0);
}

TEST(unused_credit_of_all_that_are_suspended_needs_no_room_in_the_store)
{
	uint64_t spare = residency_spare(&residency_usual);
	struct residency_unused own = {.own_bytes = 1}, others = {.others_bytes = 1};

	given(8 * GIB, 4 * GIB + spare);
	expect_eq(given_member(0, 2 * GIB + 1), 0);
	expect_eq(given_member(1, 2 * GIB + 1), 0);
	expect_eq(residency_suspend(&w.m[0], true, NULL, w.now), 0);
	expect_eq(residency_suspend(&w.m[1], true, &own, w.now), RESIDENCY_STORE);
	expect_eq(residency_suspend(&w.m[1], true, &others, w.now), RESIDENCY_STORE);
	own.others_bytes = 1;
	expect_eq(residency_suspend(&w.m[1], true, &own, w.now), 0);
}

TEST(a_tenant_whose_quota_is_smaller_than_its_memory_is_not_suspended)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 3 * GIB), 0);
	residency_quota(&w.m[0], 2 * GIB, w.now);
	expect_eq(residency_suspend(&w.m[0], true, NULL, w.now), RESIDENCY_STORE);
	residency_quota(&w.m[0], 3 * GIB, w.now);
	expect_eq(residency_suspend(&w.m[0], true, NULL, w.now), 0);
}

TEST(suspended_while_it_was_parked_it_leaves_at_each_suspend)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	residency_park(&w.m[0], 60000 * MS, w.now);
	pump();
	pass(60000 * MS);
	move_all();
	for (int i = 0; i < 2; i++) {
		expect_eq(residency_suspend(&w.m[0], true, NULL, w.now), 0);
		wants(0);
		move_all();
		expect_eq(w.m[0].out_bytes, 5 * GIB);
		expect_eq(residency_suspend(&w.m[0], false, NULL, w.now), 0);
		pump();
		move_all();
		expect_eq(w.m[0].place, RESIDENCY_IN);
	}
}

/* Two tenants of which only one fits; [1] is in and usually pauses for 5 ms. Now it does, when [0]
 * wants the device, too. */
static void given_short_pauses(uint64_t cost_ns)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	wants(0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	pass(100 * MS);
	move_all();
	wants(1);
	for (int i = 0; i < 8; i++) {
		idles(1);
		pass(5 * MS);
		expect_eq(w.m[1].place, RESIDENCY_IN);
		wants(1);
		pass(5 * MS);
	}
	w.r.cost_ns = cost_ns;
	wants(0);
	idles(1);
	expect_eq(w.m[1].place, RESIDENCY_IN);
}

TEST(short_pauses_are_waited_for_and_long_ones_are_not)
{
	given_short_pauses(40 * MS);
	pass(10 * MS + w.m[1].gap_ns);
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

TEST(an_eighth_of_the_movement_is_waited_for_however_short_pauses_are)
{
	given_short_pauses(1600 * MS);
	pass(199 * MS);
	expect_eq(w.m[1].place, RESIDENCY_IN);
	pass(2 * MS);
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

/* Idle, and wants again after so long. */
static void pauses(uint64_t ns)
{
	idles(1);
	pass(ns);
	wants(1);
}

/* The first member waits; the second one makes pauses that are worth leaving in, and hiccups. */
static void given_pauses_and_hiccups(void)
{
	given_short_pauses(400 * MS);
	wants(1);
	w.m[1].gap_ns = 3000 * MS;
	for (int i = 0; i < 4; i++)
		pauses(MS);
	expect_eq(w.m[1].place, RESIDENCY_IN);
}

TEST(hiccups_do_not_pass_long_pauses_off_as_short)
{
	given_pauses_and_hiccups();
	idles(1);
	pass(51 * MS); /* an eighth of what moving takes */
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

TEST(a_tenant_with_long_pauses_does_not_leave_at_a_hiccup)
{
	given_pauses_and_hiccups();
	pauses(4 * MS);
	expect_eq(w.m[1].place, RESIDENCY_IN);
}
