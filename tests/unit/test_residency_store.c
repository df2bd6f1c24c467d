/* SPDX-License-Identifier: Apache-2.0 */
/* A store that is full, and copies and credit that take room. */
#include "core/residency/residency_machine.h"
#include "tests/unit/residency_fixture.h"

/* Member 3, which has nothing on the device, keeps all of the store but 512 MiB, and member 0 has
 * so much of it. */
static void given_a_full_store(void)
{
	given_a_tenant_that_must_leave();
	expect_eq(given_member(3, 0), 0);
	residency_left(&w.m[0], 512 * MIB, 512 * MIB, w.now);
	w.evict[0] -= 512 * MIB;
	residency_starves(&w.m[0], true, 512 * MIB, w.now);
	pump();
}

static void is_kept(void)
{
	residency_keeps(&w.m[3], 32 * GIB - 512 * MIB);
	residency_budget(&w.r, 512 * MIB, w.now);
	pump();
}

TEST(a_tenant_that_finds_the_store_full_is_excused_and_one_that_keeps_it_full_is_not)
{
	given_a_full_store();
	pass(2 * w.r.tuning.patience_ns);
	expect(!w.stuck[0] && !w.m[0].strikes && !w.stop[0]);
	expect(!residency_hindrance(&w.m[2]));
	is_kept();
	expect(w.stop[0] && !w.stuck[0]);
	expect(residency_hindrance(&w.m[2]) == &w.m[3]);
	residency_stopped(&w.m[0], w.now);
	pump();
	/* Store that it has not got is not reserved for it, and it is ordered nothing that it
	 * cannot do.
	 */
	expect_eq(w.m[0].store_bytes, 512 * MIB);
	expect_eq(w.r.used_bytes, 512 * MIB);
	expect_eq(w.m[0].ordered_bytes, 0);
	/* The room is back. */
	residency_starves(&w.m[0], false, 512 * MIB, w.now);
	residency_keeps(&w.m[3], 0);
	residency_budget(&w.r, 32 * GIB, w.now);
	pump();
	w.evict[0] = w.m[0].ordered_bytes;
	move_all();
	expect_eq(w.granted[2], 3 * GIB);
	expect(!w.stuck[0]);
}

TEST(a_quota_that_is_lowered_keeps_the_rest_where_it_is_until_it_is_raised)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 1 * GIB), 0);
	expect_eq(residency_ask(&w.m[1], 5 * GIB, w.now), RESIDENCY_WAITS);
	residency_quota(&w.m[0], 2 * GIB, w.now);
	pump();
	move_all();
	expect_eq(w.granted[1], 0);
	expect(w.m[0].store_bytes <= 2 * GIB);
	residency_quota(&w.m[0], 16 * GIB, w.now);
	pump();
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
	expect_eq(w.m[0].out_bytes, 4 * GIB);
	/* Memory that is out stays there, and returns. */
	residency_quota(&w.m[0], 1 * GIB, w.now);
	idles(1);
	wants(0);
	move_all();
	expect_eq(w.m[0].out_bytes, 0);
}

TEST(where_nobody_keeps_the_store_full_the_excuse_ends_and_others_go_on)
{
	given_a_full_store();
	for (int i = 0; i < 4; i++) {
		expect(!w.stuck[0]);
		pass(w.r.tuning.patience_ns * 3 / 4);
		/* As long as it may move again for a moment does not count. */
		residency_starves(&w.m[0], false, 512 * MIB, w.now);
		residency_starves(&w.m[0], true, 512 * MIB, w.now);
		pump();
	}
	expect(w.stuck[0]);
	w.evict[0] = 0;
	move_all();
	expect_eq(w.granted[2], 3 * GIB);
}

TEST(only_time_in_which_the_store_has_no_room_is_excused)
{
	given_a_tenant_that_must_leave();
	for (int i = 0; i < 9; i++) {
		pass(1000 * MS);
		residency_starves(&w.m[0], true, 0, w.now);
		pass(3000 * MS);
		residency_starves(&w.m[0], false, 0, w.now);
		pump();
		expect(!w.stuck[0]);
	}
	pass(1000 * MS);
	expect(w.stuck[0]);
}

TEST(work_that_is_possible_while_the_store_is_full_is_not_excused)
{
	given_a_full_store();
	is_kept();
	expect(w.stop[0]);
	pass(w.r.tuning.patience_ns);
	expect(w.stuck[0]);
}

TEST(a_tenant_that_does_not_drain_is_reported_and_goes_on)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	w.lazy[0] = true;
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	pass(w.r.tuning.shortest_ns);
	expect_eq(w.m[0].place, RESIDENCY_STOPPING);
	pass(w.r.tuning.patience_ns);
	expect(w.stuck[0]);
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.evict[0], 0);
}

/* Two take turns with the device, and 64 MiB of it have just gone from the second to the first. */
static void given_first_credit(void)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_WAITS);
	move_all();
	pass(10000 * MS);
	wants(0);
	residency_left(&w.m[1], 64 * MIB, 64 * MIB, w.now);
	w.evict[1] -= 64 * MIB;
	pump();
}

TEST(credit_that_the_device_refused_is_room_it_has_not_got)
{
	given_first_credit();
	expect_eq(w.credit[0], 64 * MIB);
	residency_unused(&w.m[0], 64 * MIB, w.now);
	w.credit[0] -= 64 * MIB;
	pump();
	if (w.stop[0]) {
		w.credit[0] = w.evict[0] = 0;
		residency_stopped(&w.m[0], w.now);
		pump();
	}
	move_all();
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.r.missing_bytes, 64 * MIB);
	expect(w.r.resident_bytes <= 8 * GIB - 64 * MIB);
}

TEST(credit_that_came_back_because_its_memory_was_freed_lacks_no_room)
{
	given_first_credit();
	residency_unused(&w.m[0], w.credit[0], w.now);
	expect(w.r.missing_bytes > 0);
	residency_free(&w.m[0], 0, w.m[0].out_bytes, w.now);
	expect_eq(w.r.missing_bytes, 0);
}

TEST(a_tenant_that_refuses_credit_shrinks_the_device_by_no_more_than_its_evicted_memory)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_WAITS);
	move_all();
	for (int i = 0; i < 200; i++) {
		idles(1);
		wants(0);
		pass(1000 * MS);
		for (int n = 0; n < 4 && w.evict[1]; n++) {
			residency_left(&w.m[1], 64 * MIB, 0, w.now);
			w.evict[1] -= 64 * MIB;
			pump();
		}
		if (w.credit[0]) {
			residency_unused(&w.m[0], w.credit[0], w.now);
			w.credit[0] = 0;
		}
		if (w.stop[0])
			residency_stopped(&w.m[0], w.now);
		w.stop[0] = false;
		pump();
		expect(w.r.missing_bytes <= w.m[0].out_bytes);
	}
	expect(w.r.missing_bytes >= 64 * MIB);
	/* It leaves, and with it the missing bytes that only it has reported. */
	residency_leave(&w.m[0], w.now);
	expect_eq(w.r.missing_bytes, 0);
}

TEST(copies_of_memory_that_came_back_make_room_in_the_store)
{
	given(8 * GIB, 6 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_WAITS);
	move_all();
	wants(0);
	for (int i = 0; i < 1000 && w.m[0].place != RESIDENCY_IN; i++) {
		move_all();
		for (int k = 0; k < 2; k++) {
			residency_dropped(&w.m[k], w.drop[k], w.now);
			w.drop[k] = 0;
		}
		pass(MS);
	}
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect(w.r.used_bytes <= 6 * GIB);
}

/* Two have copies in the store: a third one's memory has its room only once they drop some. */
TEST(a_tenant_that_is_stuck_is_not_waited_for_to_drop_its_copies)
{
	given(8 * GIB, 8 * GIB);
	for (int i = 0; i < 3; i++)
		expect_eq(given_member(i, 2 * GIB), 0);
	for (int i = 0; i < 2; i++) {
		w.m[i].store_bytes = 2 * GIB;
		w.r.used_bytes += 2 * GIB;
	}
	w.m[0].stuck = true;
	residency_budget(&w.r, 4 * GIB + 64 * MIB, w.now);
	wants(0);
	wants(1);
	w.m[0].stuck = true;
	expect_eq(given_member(3, 3 * GIB), RESIDENCY_WAITS);
	expect_eq(w.drop[0], 0);
	expect(w.drop[1] > 0);
}

TEST(copies_that_were_dropped_unasked_are_not_ordered_to_be_dropped)
{
	given(8 * GIB, 8 * GIB);
	expect_eq(given_member(0, 2 * GIB), 0);
	w.m[0].store_bytes = w.m[0].dropping_bytes = w.m[0].drop_todo = 64 * MIB;
	w.r.used_bytes = 64 * MIB;
	residency_todo(&w.m[0], 0);
	residency_dropped(&w.m[0], 64 * MIB, w.now);
	pump();
	expect_eq(w.drop[0], 0);
	expect_eq(w.r.used_bytes, 0);
}
