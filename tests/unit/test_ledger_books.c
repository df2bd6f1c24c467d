/* SPDX-License-Identifier: Apache-2.0 */
/* Whose account memory counts for: reserved, claimed, evicted, adopted. */
#include "tests/unit/ledger_fixture.h"

TEST(a_context_is_reserved_before_it_is_measured)
{
	struct ledger_request context = {.id = 3, .bytes = 80, .want = 80, .residual = 1};

	given(100, 900, 0);
	expect_eq(ledger_ask(l, a, &context, 0), 0);
	expect_action(0, LEDGER_GRANT, a, 80);
	expect_eq(action.residual, 1);
	ask(a, 4, 21, 0);
	expect_action(500 * ms, LEDGER_REFUSE, a, 21);
	ledger_guessed(l, a, 0);
	ledger_residual(l, a, 50, 50);
	expect_eq(sums(a).residual, 50);
	granted(a, 50);
	/* More than was thought: nothing breaks, nothing more is granted. */
	ledger_residual(l, a, 70, 70);
	expect_eq(sums(a).granted, 50);
	ledger_report(l, a, 50);
	ask(a, 5, 1, 0);
	expect_action(0, LEDGER_REFUSE, a, 1);
}

TEST(a_guest_over_its_limit_is_asked_for_its_credit_each_time_this_is_found)
{
	given(100, 900, 0);
	granted(a, 60);
	ledger_report(l, a, 60);
	ledger_residual(l, a, 50, 110);
	expect_quiet(0);
	ledger_report(l, a, 40);
	expect_quiet(0);
	ledger_residual(l, a, 50, 110);
	expect_action(0, LEDGER_RECALL, a, 10);
	expect_eq(ledger_return(l, a, 0, 1), 0); /* it was in use just then */
	expect_quiet(0);
	ledger_residual(l, a, 50, 110);
	expect_action(0, LEDGER_RECALL, a, 10);
	expect_eq(ledger_return(l, a, 10, 1), 0);
	ledger_residual(l, a, 40, 100);
	expect_quiet(0);
}

TEST(memory_for_which_only_room_is_asked_is_not_reserved)
{
	struct ledger_request probe = {.id = 3, .bytes = 80, .want = 80, .residual = LEDGER_ROOM};

	given(100, 900, 0);
	expect_eq(ledger_ask(l, a, &probe, 0), 0);
	expect_action(0, LEDGER_GRANT, a, 80);
	expect_eq(action.residual, LEDGER_ROOM);
	expect_eq(sums(a).residual, 0);
}

/* Memory that a page claims not to have allocated is credit and residual at the same time. */
TEST(a_claim_takes_no_room_from_the_neighbours_beyond_the_limit)
{
	struct ledger_sums s;

	given(450, 900, 0);
	granted(a, 400);
	ledger_report(l, a, 0);
	ledger_residual(l, a, 450, 450);
	expect(!ledger_within(l, a));
	ledger_account_sums(one, &s);
	expect_eq(s.granted + s.residual, 850);
	expect_eq(s.booked, 450);
	ledger_device_sums(l, 0, &s);
	expect_eq(s.booked, 450);
	expect_action(0, LEDGER_RECALL, a, 400);
	granted(c, 450);
	/* Its own limit is its own harm. */
	ask(b, 2, 1, 0);
	expect_action(0, LEDGER_REFUSE, b, 1);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(for_memory_that_passed_a_guest_by_its_credit_is_recalled)
{
	given(500, 900, 0);
	granted(a, 200);
	granted(b, 100);
	ledger_report(l, a, 100);
	ledger_report(l, b, 0);
	ledger_residual(l, a, 200, 300);
	expect_quiet(0);
	ledger_residual(l, a, 260, 360);
	expect_action(0, LEDGER_RECALL, a, 60);
	expect_action(0, LEDGER_RECALL, b, 60);
	expect_quiet(0);
	expect_eq(ledger_return(l, a, 60, 1), 0);
	expect_eq(ledger_return(l, b, 60, 1), 0);
	ledger_residual(l, a, 250, 350);
	expect_quiet(0);
}

TEST(memory_that_the_driver_reports_takes_room_whatever_the_limit)
{
	struct ledger_sums s;

	given(450, 900, 0);
	granted(a, 400);
	ledger_report(l, a, 400);
	ledger_residual(l, a, 200, 600);
	ledger_device_sums(l, 0, &s);
	expect_eq(s.booked, 600);
	ledger_residual(l, a, 0, 400);
	ledger_device_sums(l, 0, &s);
	expect_eq(s.booked, 400);
}

TEST(under_a_lowered_limit_held_memory_is_in_the_way_until_it_is_given_back)
{
	struct ledger_sums s;

	given(500, 900, 0);
	granted(a, 400);
	ledger_residual(l, a, 100, 0);
	ledger_set_limit(l, one, 100, 0);
	ledger_account_sums(one, &s);
	expect_eq(s.booked, 500);
	ledger_residual(l, a, 300, 0);
	ledger_account_sums(one, &s);
	expect_eq(s.booked, 500);
	expect_eq(ledger_return(l, a, 350, 0), 0);
	ledger_account_sums(one, &s);
	expect_eq(s.booked, 350);
	ledger_residual(l, a, 600, 0);
	ledger_account_sums(one, &s);
	expect_eq(s.booked, 350);
}

TEST(a_lower_limit_breaks_nothing_and_refuses_new_memory)
{
	given(500, 900, 1000 * ms);
	granted(a, 400);
	ledger_report(l, a, 400);
	ledger_set_limit(l, one, 300, 0);
	expect_quiet(0);
	expect_eq(sums(a).granted, 400);
	ask(a, 1, 1, 0);
	expect_action(0, LEDGER_REFUSE, a, 1);
	expect_eq(action.reason, LEDGER_OVER);
	expect_eq(ledger_return(l, a, 150, 0), 0);
	granted(a, 50);
}

TEST(more_than_needed_is_granted_only_where_there_is_plenty)
{
	struct ledger_request generous = {.id = 1, .bytes = 4, .want = 100};

	given(900, 900, 0);
	expect_eq(ledger_ask(l, a, &generous, 0), 0);
	expect_action(0, LEDGER_GRANT, a, 4 + 896 / 16);
	granted(c, 900 - 60);
	ledger_report(l, c, 840);
	ledger_report(l, a, 60);
	ask(c, 2, 1, 0);
	expect_action(0, LEDGER_REFUSE, c, 1);
}

TEST(no_more_than_needed_is_granted_while_another_ask_waits)
{
	struct ledger_request generous = {.id = 2, .bytes = 4, .want = 100};

	given(900, 900, 1000 * ms);
	granted(c, 500);
	ledger_report(l, c, 500);
	ask(a, 1, 450, 0);
	expect_quiet(0);
	expect_eq(ledger_ask(l, c, &generous, 0), 0);
	expect_action(0, LEDGER_GRANT, c, 4);
}

TEST(credit_is_not_recalled_for_an_ask_that_memory_outside_refuses_anyway)
{
	given(900, 900, 0);
	ledger_outside(l, 0, 300);
	granted(c, 500);
	ask(a, 1, 700, 0);
	expect_action(0, LEDGER_REFUSE, a, 700);
	expect_eq(action.reason, LEDGER_FULL);
}

TEST(a_holder_is_within_its_limit_and_its_device_up_to_the_last_byte)
{
	given(500, 900, 0);
	granted(a, 500);
	granted(c, 400);
	expect_eq(ledger_within(l, a), 1);
	ledger_set_limit(l, one, 499, 0);
	expect_eq(ledger_within(l, a), 0);
	expect_eq(ledger_within(l, c), 1);
	ledger_set_device(l, 0, 999, 100);
	expect_eq(ledger_within(l, c), 0);
}

TEST(evicted_memory_counts_for_the_tenant_and_not_for_the_device)
{
	given(900, 900, 0);
	granted(a, 900);
	ledger_report(l, a, 900);
	expect_eq(ledger_evict(l, a, 901), LEDGER_HELD);
	expect_eq(ledger_evict(l, a, 300), 0);
	ask(b, 1, 1, 0);
	expect_action(0, LEDGER_REFUSE, b, 1);
	expect_eq(action.reason, LEDGER_OVER);
	granted(c, 300);
	expect_eq(ledger_restore(l, a, 1), LEDGER_FULL);
	expect_eq(ledger_free_evicted(l, a, 100), 0);
	expect_eq(sums(a).granted, 800);
	ledger_report(l, a, 0); /* not less than what is evicted */
	expect_eq(sums(a).allocated, 200);
	ledger_leave(l, c);
	expect_eq(ledger_restore(l, a, 200), 0);
	expect_eq(ledger_restore(l, a, 1), LEDGER_HELD);
}

TEST(nobody_gives_back_more_than_it_has)
{
	given(900, 900, 0);
	granted(a, 10);
	expect_eq(ledger_return(l, a, UINT64_MAX, 0), LEDGER_HELD);
	expect_eq(sums(a).granted, 0);
	expect_eq(sums(a).allocated, 0);
	granted(a, 10);
	ledger_report(l, a, 10);
	expect_eq(ledger_evict(l, a, 4), 0);
	expect_eq(ledger_return(l, a, 7, 0),
		  LEDGER_HELD); /* what is in the swap store is not credit */
	expect_eq(sums(a).granted, 4);
}

TEST(memory_from_before_the_daemon_is_charged_even_over_a_limit_that_is_lower_now)
{
	given(500, 900, 0);
	ledger_set_limit(l, one, 300, 0);
	expect_eq(ledger_adopt(l, a, 400, 10, 20), LEDGER_OVER);
	expect_eq(sums(a).allocated, 400);
	expect_eq(sums(a).granted, 400);
	expect_eq(sums(a).residual, 20);
	expect_eq(ledger_adopt(l, a, 200, 50, 20), 0);
	expect_eq(sums(a).granted, 250);
}

TEST(a_claim_beyond_every_limit_there_ever_was_is_cut)
{
	struct ledger_sums s;

	given(500, 900, 0);
	expect_eq(ledger_adopt(l, a, UINT64_MAX - 5, UINT64_MAX, UINT64_MAX), LEDGER_OVER);
	expect_eq(ledger_adopt(l, b, 100, 0, 100), 0);
	ledger_device_sums(l, 0, &s);
	expect_eq(s.granted + s.residual, 500);
	granted(c, 400);
}

TEST(memory_that_expected_guests_may_hold_is_not_granted_to_others)
{
	given(500, 900, 0);
	ledger_expect(l, one, 1, 300);
	ask(a, 1, 10, 0); /* its sibling may hold all of the limit */
	ask(c, 1, 590, 0);
	expect_action(0, LEDGER_GRANT, c, 590);
	ask(c, 2, 11, 0);  /* may fit, may not */
	ask(c, 3, 311, 0); /* does not fit whatever is said */
	ledger_report(l, c, 590);
	expect_action(0, LEDGER_REFUSE, c, 311);
	expect_quiet(1000 * ms);
	expect_eq(ledger_deadline(l, 0), 0);
	/* 280 of the 300 have been stated: the same 10 are left for others. */
	expect_eq(ledger_adopt(l, b, 250, 20, 10), 0);
	expect_quiet(1000 * ms);
	ask(c, 4, 10, 0);
	expect_action(1000 * ms, LEDGER_GRANT, c, 10);
	ledger_expect(l, one, 0, 0);
	expect_action(1000 * ms, LEDGER_GRANT, a, 10);
}

TEST(credit_from_before_and_evicted_memory_find_no_room_that_others_may_hold)
{
	given(900, 900, 0);
	granted(c, 300);
	ledger_report(l, c, 300);
	expect_eq(ledger_evict(l, c, 200), 0);
	ledger_expect(l, one, 1, 700);
	expect_eq(ledger_restore(l, c, 101), LEDGER_FULL);
	expect_eq(ledger_restore(l, c, 100), 0);
	ledger_expect(l, one, 0, 0);
	ledger_expect(l, two, 1, 300);
	expect_eq(ledger_adopt(l, a, 300, 101, 0), LEDGER_FULL);
	expect_eq(ledger_adopt(l, a, 300, 100, 0), 0);
}

TEST(a_peak_is_believed_up_to_the_most_that_was_ever_granted)
{
	struct ledger_sums seen;

	given(100, 900, 0);
	granted(a, 60);
	granted(b, 40);
	ledger_report(l, b, 10);
	expect_eq(ledger_return(l, a, 60, 0), 0);
	ledger_report_peak(l, a, 50);
	ledger_account_sums(one, &seen);
	expect_eq(seen.peak, 60);
	expect_eq(seen.allocated, 10);
	ledger_report_peak(l, a, UINT64_MAX);
	ledger_account_sums(one, &seen);
	expect_eq(seen.peak, 70);
	/* One holder's former memory and another's present memory need not have been there at once.
	 */
	granted(b, 60);
	ledger_report(l, b, 100);
	ledger_report_peak(l, a, UINT64_MAX);
	ledger_account_sums(one, &seen);
	expect_eq(seen.peak, 100);
}

TEST(a_device_that_comes_later_is_served_like_the_others)
{
	const struct ledger_limits limits = {
		.devices = 2, .accounts = 2, .holders = 4, .asks = 8, .asks_per_holder = 3};

	l = ledger_init(room, &limits);
	ledger_set_count(l, 1);
	ledger_set_device(l, 0, 1000, 100);
	ledger_set_count(l, 2);
	ledger_set_device(l, 1, 500, 0);
	one = ledger_open(l, 1, 400, 0);
	a = ledger_join(l, one, NULL);
	granted(a, 400);
	ledger_report(l, a, 400);
	ask(a, 2, 1, 0);
	expect_action(0, LEDGER_REFUSE, a, 1);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(an_ask_that_waits_on_one_device_holds_up_none_on_another)
{
	const struct ledger_limits limits = {
		.devices = 2, .accounts = 2, .holders = 4, .asks = 8, .asks_per_holder = 3};

	l = ledger_init(room, &limits);
	ledger_set_device(l, 0, 1000, 0);
	ledger_set_device(l, 1, 1000, 0);
	one = ledger_open(l, 0, 1000, 1000 * ms);
	two = ledger_open(l, 1, 1000, 1000 * ms);
	ledger_outside(l, 0, 900);
	a = ledger_join(l, one, NULL);
	c = ledger_join(l, two, NULL);
	ask(a, 1, 500, 0);
	ask(c, 2, 500, 0);
	expect_action(0, LEDGER_GRANT, c, 500);
	expect_quiet(0);
}

TEST(an_account_that_is_closed_over_its_limit_is_forgotten)
{
	given(500, 900, 0);
	granted(a, 400);
	ledger_set_limit(l, one, 100, 0);
	ledger_leave(l, a);
	ledger_leave(l, b);
	ledger_close(l, one);
	one = ledger_open(l, 0, 500, 0);
	a = ledger_join(l, one, NULL);
	granted(a, 400);
	expect_quiet(0);
}

TEST(nothing_fits_while_guests_are_expected)
{
	given(500, 900, 0);
	expect(ledger_fits(l, a, 100));
	ledger_expect(l, one, 1, 0);
	expect(!ledger_fits(l, a, 100));
	ledger_expect(l, one, 0, 0);
	expect(ledger_fits(l, a, 100));
}

/* Its own unused credit would not be in the way once others have left. */
TEST(an_ask_waits_where_all_but_unused_credit_is_others)
{
	given(1100, 900, 1000 * ms);
	granted(a, 400);
	granted(c, 450);
	ledger_report(l, c, 450);
	ask(b, 1, 600, 0);
	expect_quiet(0);
	expect_eq(ledger_return(l, c, 450, 0), 0);
	expect_action(0, LEDGER_RECALL, a, 100);
	expect_eq(ledger_return(l, a, 100, 1), 0);
	expect_action(0, LEDGER_GRANT, b, 600);
}
