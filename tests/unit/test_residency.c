/* SPDX-License-Identifier: Apache-2.0 */
/* Which members are on the device, in which order, and what a device can bear. */
#include "tests/unit/residency_fixture.h"

TEST(nothing_is_barred_and_nothing_moves_while_all_fits)
{
	given(8 * GIB, 8 * GIB);
	for (int i = 0; i < MEMBERS; i++)
		expect_eq(given_member(i, 2 * GIB), 0);
	for (int i = 0; i < MEMBERS; i++)
		wants(i);
	pass(60000 * MS);
	for (int i = 0; i < MEMBERS; i++)
		expect(w.open[i] && w.m[i].place == RESIDENCY_IN);
	expect(!w.device.governed);
	expect_eq(w.r.left_bytes, 0);
}

TEST(a_hoarder_keeps_its_memory_until_somebody_needs_the_room)
{
	given(8 * GIB, 8 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	pass(3600000 * MS);
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(given_member(1, 4 * GIB), RESIDENCY_WAITS);
	expect_eq(w.m[0].place, RESIDENCY_OUT);
	move_all();
	expect_eq(w.granted[1], 4 * GIB);
	expect_eq(w.r.left_bytes, 2 * GIB);
	expect_eq(w.m[0].resident_bytes, 4 * GIB);
}

TEST(the_tenant_that_is_idle_the_longest_leaves_first)
{
	given(8 * GIB, 8 * GIB);
	for (int i = 0; i < 3; i++) {
		expect_eq(given_member(i, 2 * GIB), 0);
		wants(i);
	}
	idles(1);
	pass(1000 * MS);
	idles(0);
	pass(100000 * MS);
	expect_eq(given_member(3, 4 * GIB), RESIDENCY_WAITS);
	/* And nobody else is stopped for that. */
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.m[2].place, RESIDENCY_IN);
	move_all();
	expect_eq(w.m[1].out_bytes, 2 * GIB);
	expect_eq(w.m[0].out_bytes, 0);
	expect_eq(w.m[2].out_bytes, 0);
}

TEST(memory_that_has_left_is_credit_for_the_tenant_that_comes)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	move_all();
	pass(1000 * MS);
	wants(0);
	expect_eq(w.credit[0], 0);
	expect_eq(w.evict[1], 6 * GIB);
	residency_left(&w.m[1], 64 * MIB, 64 * MIB, w.now);
	pump();
	expect_eq(w.credit[0], 64 * MIB);
}

TEST(a_set_stays_twenty_times_as_long_as_its_movement_took)
{
	uint64_t end;

	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	wants(0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	pass(100 * MS);
	move_all();
	wants(1);
	expect_eq(w.m[1].place, RESIDENCY_IN);
	expect_eq(w.m[0].place, RESIDENCY_OUT);
	expect(w.r.cost_ns > 0);
	end = w.r.began_ns + 20 * w.r.cost_ns;
	pass(end - w.now - 1);
	expect_eq(w.m[1].place, RESIDENCY_IN);
	pass(1);
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

TEST(nobody_waits_for_longer_than_the_longest_wait_with_both_movements)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	wants(0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	wants(1);
	/* Each movement takes a while, by whose cost a set would stay for longer. */
	for (unsigned ms = 0; ms < 200000; ms += 20) {
		pass(20 * MS);
		for (int i = 0; i < 2; i++)
			best_effort(move_chunk(i));
		pump();
	}
	expect(w.m[0].waits > 1 && w.m[1].waits > 1);
	expect(w.r.cost_ns * (1000 / w.r.tuning.cost_milli) > w.r.tuning.longest_ns);
	for (int i = 0; i < 2; i++)
		expect(w.m[i].longest_ns <= w.r.tuning.longest_ns + 100 * MS);
}

TEST(the_time_of_the_movement_is_charged_to_the_tenant_that_comes)
{
	uint64_t out, before;

	given_a_tenant_that_must_leave();
	move_all();
	out = w.m[0].out_bytes;
	before = w.m[0].virtual_ns;
	wants(0);
	move_all();
	expect_eq(w.m[0].out_bytes, 0);
	/* Each chunk takes 1 ms at least; the weight is 100 of 10,000. */
	expect(w.m[0].virtual_ns - before >= out / (64 * MIB) * MS * 100);
}

TEST(credit_is_of_whole_chunks_until_the_rest)
{
	given(8 * GIB + 10 * MIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	move_all();
	expect(w.m[0].out_bytes > 0);
	wants(0);
	for (int i = 0; i < 1000 && w.m[0].out_bytes; i++) {
		expect(w.credit[0] % (64 * MIB) == 0 || w.credit[0] == w.m[0].out_bytes);
		for (int each = 0; each < MEMBERS; each++)
			move_chunk(each);
		pass(MS);
	}
	expect_eq(w.m[0].out_bytes, 0);
}

TEST(rest_is_not_saved_up)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(2, GIB), 0);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	wants(1);
	for (int i = 0; i < 1000 && !w.r.clock; i++) {
		move_all();
		pass(100 * MS);
	}
	expect(w.r.clock > 0);
	expect(w.m[2].virtual_ns < w.r.clock);
	wants(2);
	expect(w.m[2].virtual_ns >= w.r.clock);
	best_effort(given_member(3, GIB));
	expect(w.m[3].virtual_ns >= w.r.clock);
}

TEST(tenants_that_fit_together_are_in_together)
{
	int all = 0;

	given(8 * GIB, 32 * GIB);
	for (int i = 0; i < MEMBERS; i++) {
		int r = given_member(i, 3 * GIB);

		wants(i);
		for (int k = 0; r == RESIDENCY_WAITS && !w.granted[i] && k < 1000; k++) {
			pass(100 * MS);
			move_all();
		}
	}
	for (int k = 0; k < 100; k++) {
		pass(1000 * MS);
		move_all();
		for (int i = 0; i < MEMBERS; i++)
			all += w.m[i].place == RESIDENCY_IN;
	}
	/* But where one has just begun to leave. */
	expect(all >= 180 && all <= 200);
	for (int i = 0; i < MEMBERS; i++)
		expect(w.m[i].waits > 1);
}

TEST(of_tenants_that_wait_one_of_a_better_class_comes_first)
{
	static const enum share_class class[] = {SHARE_STANDARD, SHARE_INTERACTIVE, SHARE_STANDARD};

	given(8 * GIB, 32 * GIB);
	for (int i = 0; i < 3; i++) {
		expect_eq(given_member_of(class[i], i, 7 * GIB), i ? RESIDENCY_WAITS : 0);
		pass(10000 * MS);
		move_all();
	}
	wants(2);
	/* The two have had the same of it, and want it in the same moment. */
	w.m[0].virtual_ns = w.m[1].virtual_ns = w.r.clock;
	residency_wants(&w.m[0], w.now);
	wants(1);
	pass(w.r.cost_ns);
	expect_eq(w.m[1].place, RESIDENCY_COMING);
	expect_eq(w.m[0].place, RESIDENCY_OUT);
}

/* Each wants the device all the time, and fills it. */
TEST(a_tenant_of_a_better_class_comes_first_only_until_it_has_had_its_part)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member_of(SHARE_INTERACTIVE, 0, 7 * GIB), 0);
	wants(0);
	for (int i = 1; i < 3; i++) {
		expect_eq(given_member(i, 7 * GIB), RESIDENCY_WAITS);
		wants(i);
	}
	for (int k = 0; k < 10000; k++) {
		pass(20 * MS);
		for (int i = 0; i < 3; i++)
			best_effort(move_chunk(i));
		pump();
	}
	for (int i = 1; i < 3; i++) {
		expect(w.m[i].waits + 2 >= w.m[0].waits);
		expect(w.m[i].longest_ns < w.r.tuning.longest_ns);
	}
}

/* Two are in together, whose turns are longer than a set whose movement took no time. */
TEST(a_set_stays_until_each_of_its_tenants_has_had_a_turn)
{
	uint64_t sets = 0, turns[2] = {0};

	given(8 * GIB, 32 * GIB);
	turns_govern(&w.device, true, w.now);
	w.device.turn_ns = 100 * MS;
	for (int i = 0; i < 2; i++) {
		expect_eq(given_member(i, 3 * GIB), 0);
		wants(i);
	}
	expect_eq(given_member(2, 7 * GIB), RESIDENCY_WAITS);
	wants(2);
	for (int k = 0; k < 20000; k++) {
		bool were_in = w.m[0].place == RESIDENCY_IN && w.m[1].place == RESIDENCY_IN;

		pass(5 * MS);
		if (were_in && w.m[0].place != RESIDENCY_IN) {
			for (int i = 0; i < 2; i++) {
				expect(!sets || w.seats[i].turns > turns[i]);
				turns[i] = w.seats[i].turns;
			}
			sets++;
		}
		while ((int)move_chunk(0) + (int)move_chunk(1) + (int)move_chunk(2) > 0)
			pump();
	}
	expect(sets > 3);
}

/* The first one's memory comes so slowly that two others wait for too long meanwhile. */
TEST(of_tenants_that_have_waited_for_too_long_the_first_comes_first)
{
	given(8 * GIB, 32 * GIB);
	for (int i = 0; i < MEMBERS; i++)
		expect_eq(given_member(i, 0), 0);
	expect_eq(residency_ask(&w.m[0], 7 * GIB, w.now), 0);
	wants(0);
	for (int i = 1; i < MEMBERS; i++) {
		int late = i == 1 ? 1 : MEMBERS + 1 - i;

		expect_eq(residency_ask(&w.m[late], 7 * GIB, w.now), RESIDENCY_WAITS);
		pump();
		pass(1000 * MS);
	}
	idles(0);
	while (!w.granted[1]) {
		pass(500 * MS);
		expect(move_chunk(0));
		pump();
	}
	expect(w.now - w.m[2].wanted_ns > w.r.tuning.longest_ns);
	while (!w.granted[2] && !w.granted[3]) {
		pass(500 * MS);
		best_effort(move_chunk(1));
		pump();
	}
	expect_eq(w.granted[3], 7 * GIB);
	expect_eq(w.granted[2], 0);
}

/* Both want it, and neither fits beside the one that comes. */
TEST(of_tenants_that_want_the_device_the_one_that_had_most_of_it_leaves_first)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 3 * GIB), 0);
	expect_eq(given_member(1, 3 * GIB), 0);
	wants(0);
	wants(1);
	w.m[1].virtual_ns += 1000 * MS;
	expect_eq(given_member(2, 5 * GIB + 512 * MIB), RESIDENCY_WAITS);
	pass(100 * MS);
	expect_eq(w.evict[1], 3 * GIB);
	expect_eq(w.evict[0], 512 * MIB);
}

TEST(a_tenant_larger_than_the_device_is_told_so)
{
	given(8 * GIB, 64 * GIB);
	expect_eq(given_member(0, 9 * GIB), RESIDENCY_LARGE);
	expect_eq(residency_ask(&w.m[0], 8 * GIB, w.now), 0);
	expect_eq(residency_ask(&w.m[0], 1, w.now), RESIDENCY_LARGE);
}

TEST(the_store_is_refused_and_not_exceeded)
{
	given(8 * GIB, 4 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_STORE);
	expect_eq(residency_ask(&w.m[1], 5 * GIB, w.now), RESIDENCY_WAITS);
	pump();
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
	expect(w.r.used_bytes <= 4 * GIB);
	expect_eq(residency_suspend(&w.m[1], true, NULL, w.now), RESIDENCY_STORE);
}

TEST(tenants_that_are_stuck_or_find_no_store_do_not_make_room)
{
	uint64_t spare = residency_spare(&residency_usual);

	given(8 * GIB, 4 * GIB + spare);
	expect_eq(given_member(0, 3 * GIB), 0);
	expect_eq(given_member(1, 3 * GIB), 0);
	expect(residency_could_leave(&w.r, 6 * GIB));
	expect(!residency_could_leave(&w.r, 6 * GIB + 1)); /* nothing else is there */
	w.m[1].stuck = true;
	expect(residency_could_leave(&w.r, 3 * GIB));
	expect(!residency_could_leave(&w.r, 3 * GIB + 1));
	/* Device and store hold it together with what is asked for, and a spare. */
	given(8 * GIB, 1 * GIB + spare);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect(residency_could_leave(&w.r, 3 * GIB));
	expect(!residency_could_leave(&w.r, 3 * GIB + 1));
}

TEST(a_smaller_device_is_borne_while_each_can_still_come_back_whole)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	expect(residency_bears(&w.r, 6 * GIB, 0));
	expect(!residency_bears(&w.r, 6 * GIB - 1, 0));
	/* Its ask counts as well. */
	residency_cancel(&w.m[1], w.now);
	expect_eq(residency_ask(&w.m[1], 7 * GIB, w.now), RESIDENCY_WAITS);
	expect(!residency_bears(&w.r, 7 * GIB - 1, 0));
	/* Without a store all of them are there, or nobody. */
	given(8 * GIB, 0);
	expect_eq(given_member(0, 3 * GIB), 0);
	expect_eq(given_member(1, 3 * GIB), 0);
	expect(residency_bears(&w.r, 6 * GIB, 0));
	expect(!residency_bears(&w.r, 6 * GIB - 1, 0));
}

TEST(a_tenant_that_comes_gives_way_when_the_device_has_become_too_small_for_it)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	expect_eq(given_member(1, 4 * GIB), RESIDENCY_WAITS);
	move_all();
	pass(1000 * MS);
	wants(0);
	residency_left(&w.m[1], 64 * MIB, 64 * MIB, w.now);
	pump();
	expect_eq(w.credit[0], 64 * MIB);
	wants(1);
	/* It has credit that it will not use: its next block is larger. */
	residency_capacity(&w.r, 6 * GIB, w.now);
	pump();
	expect(w.stop[0]);
	w.credit[0] = w.evict[0] = w.evict[1] = 0;
	residency_stopped(&w.m[0], w.now);
	residency_stopped(&w.m[1], w.now);
	pump();
	move_all();
	pass(60000 * MS);
	move_all();
	expect(w.open[1]);
	expect_eq(w.m[1].out_bytes, 0);
	expect(!w.open[0]);
	/* And it comes when there is room. */
	residency_capacity(&w.r, 8 * GIB, w.now);
	pump();
	idles(1);
	move_all();
	pass(1000 * MS);
	move_all();
	expect_eq(w.m[0].out_bytes, 0);
}

TEST(a_full_quota_keeps_the_rest_where_it_is)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	residency_quota(&w.m[0], 2 * GIB, w.now);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_STORE);
	expect_eq(residency_ask(&w.m[1], 3 * GIB, w.now), RESIDENCY_WAITS);
	pump();
	move_all();
	expect_eq(w.granted[1], 3 * GIB);
	expect(w.m[0].store_bytes <= 2 * GIB);
}
