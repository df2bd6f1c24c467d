/* SPDX-License-Identifier: Apache-2.0 */
/* Asking: granted, refused, recalled, waiting. */
#include "tests/unit/ledger_fixture.h"

TEST(credit_is_granted_up_to_the_limit_and_not_a_byte_more)
{
	given(100, 900, 0);
	granted(a, 60);
	ledger_report(l, a, 60);
	ask(b, 7, 41, 0);
	expect_action(0, LEDGER_REFUSE, b, 41);
	expect_eq(action.reason, LEDGER_OVER);
	expect_eq(action.id, 7);
	granted(b, 40);
}

TEST(a_full_device_is_not_the_tenants_fault)
{
	given(900, 900, 0);
	granted(a, 600);
	ledger_report(l, a, 600);
	ask(c, 7, 301, 0);
	expect_action(0, LEDGER_REFUSE, c, 301);
	expect_eq(action.reason, LEDGER_FULL);
	granted(c, 300);
}

TEST(a_siblings_unused_credit_is_recalled_before_a_refusal)
{
	given(100, 900, 0);
	granted(a, 100);
	ledger_report(l, a, 30);
	ask(b, 7, 50, 0);
	expect_action(0, LEDGER_RECALL, a, 50);
	expect_quiet(0);
	expect_eq(ledger_deadline(l, 0), 200 * ms);
	expect_eq(ledger_return(l, a, 50, 1), 0);
	expect_action(1, LEDGER_GRANT, b, 50);
	expect_eq(ledger_deadline(l, 1), 0);
}

TEST(a_sibling_that_does_not_answer_delays_a_refusal_only_so_long)
{
	given(100, 900, 0);
	granted(a, 100);
	ledger_report(l, a, 30);
	ask(b, 7, 50, 0);
	expect_action(0, LEDGER_RECALL, a, 50);
	expect_quiet(200 * ms - 1);
	expect_action(200 * ms, LEDGER_REFUSE, b, 50);
	expect_quiet(200 * ms);
	/* It is not waited for again ... */
	ask(b, 8, 50, 300 * ms);
	expect_action(300 * ms, LEDGER_REFUSE, b, 50);
	/* ... until its late answer, which is a return like any other. */
	expect_eq(ledger_return(l, a, 20, 1), 0);
	ask(b, 9, 50, 300 * ms);
	expect_action(300 * ms, LEDGER_RECALL, a, 30);
	expect_eq(ledger_return(l, a, 30, 1), 0);
	expect_action(300 * ms, LEDGER_GRANT, b, 50);
}

TEST(nobody_is_asked_in_vain_when_all_credit_would_not_do)
{
	given(100, 900, 0);
	granted(a, 100);
	ledger_report(l, a, 90);
	ask(b, 7, 11, 0);
	expect_action(0, LEDGER_REFUSE, b, 11);
	expect_quiet(0);
}

TEST(where_the_device_is_full_strangers_are_asked_too)
{
	given(900, 900, 0);
	granted(a, 900);
	ledger_report(l, a, 500);
	ask(c, 7, 400, 0);
	expect_action(0, LEDGER_RECALL, a, 400);
	expect_eq(ledger_return(l, a, 400, 1), 0);
	expect_action(0, LEDGER_GRANT, c, 400);
}

TEST(waiting_for_room_ends_when_room_is_there)
{
	given(900, 900, 1000 * ms);
	granted(a, 900);
	ledger_report(l, a, 900);
	ask(c, 7, 100, 0);
	expect_quiet(0);
	expect_eq(ledger_deadline(l, 0), 20 * ms);
	expect_eq(ledger_return(l, a, 100, 0), 0);
	expect_action(500 * ms, LEDGER_GRANT, c, 100);
}

TEST(waiting_for_room_is_bounded)
{
	given(900, 900, 1000 * ms);
	granted(a, 900);
	ledger_report(l, a, 900);
	ask(c, 7, 100, 0);
	expect_quiet(990 * ms);
	expect_eq(ledger_deadline(l, 990 * ms), 1000 * ms);
	expect_quiet(1000 * ms - 1);
	expect_action(1000 * ms, LEDGER_REFUSE, c, 100);
	expect_eq(action.reason, LEDGER_DEADLINE);
	expect_eq(ledger_deadline(l, 1000 * ms), 0);
}

TEST(memory_that_was_freed_into_credit_is_found_while_somebody_waits)
{
	given(900, 900, 1000 * ms);
	granted(a, 900);
	ledger_report(l, a, 900);
	ask(c, 7, 100, 0);
	expect_quiet(0);
	ledger_report(l, a, 700);
	expect_action(20 * ms, LEDGER_RECALL, a, 100);
	expect_eq(ledger_return(l, a, 0, 1), 0); /* it used it again meanwhile */
	expect_quiet(20 * ms);
	expect_action(40 * ms, LEDGER_RECALL, a, 100);
	expect_eq(ledger_return(l, a, 100, 1), 0);
	expect_action(40 * ms, LEDGER_GRANT, c, 100);
}

TEST(a_lowered_limit_takes_the_credit_that_is_not_used)
{
	given(900, 900, 0);
	granted(a, 600);
	ledger_report(l, a, 200);
	ledger_set_limit(l, one, 300, 0);
	expect_action(0, LEDGER_RECALL, a, 300);
	expect_eq(ledger_return(l, a, 300, 1), 0);
	expect_quiet(0);
}

TEST(the_first_ask_is_served_first_though_the_second_would_fit)
{
	given(900, 900, 1000 * ms);
	granted(a, 900);
	ledger_report(l, a, 900);
	ask(c, 1, 200, 0);
	ask(b, 2, 0 + 1, 0); /* its own limit is reached: told at once */
	expect_action(0, LEDGER_REFUSE, b, 1);
	ledger_set_limit(l, one, 1000, 1000 * ms);
	ask(b, 2, 100, 0);
	expect_eq(ledger_return(l, a, 100, 0), 0);
	expect_quiet(1);
	expect_eq(ledger_return(l, a, 100, 0), 0);
	expect_action(2, LEDGER_GRANT, c, 200);
	ledger_report(l, c, 200);
	expect_quiet(2);
	expect_eq(ledger_return(l, a, 100, 0), 0);
	expect_action(3, LEDGER_GRANT, b, 100);
}

TEST(an_ask_behind_others_is_not_refused_at_its_deadline_while_there_is_room)
{
	given(900, 900, 1000 * ms);
	granted(a, 700);
	ledger_report(l, a, 700);
	ledger_set_limit(l, two, 900, 5000 * ms);
	ask(c, 1, 600, 0); /* no room, for as long as five seconds */
	ledger_set_limit(l, one, 900, 1000 * ms);
	ask(b, 2, 100, 0); /* there is room, but another came first */
	expect_quiet(1000 * ms - 1);
	expect_action(1000 * ms, LEDGER_GRANT, b, 100);
}

TEST(an_ask_that_may_not_wait_is_answered_at_once_and_is_not_refused_for_order)
{
	struct ledger_request urgent = {.id = 9, .bytes = 100, .want = 100, .may_wait = 0};

	given(1000, 900, 1000 * ms);
	granted(a, 800);
	ledger_report(l, a, 800);
	ask(c, 1, 200, 0);
	expect_quiet(0);
	expect_eq(ledger_ask(l, b, &urgent, 0), 0);
	expect_action(0, LEDGER_GRANT, b, 100);
	ledger_report(l, b, 100);
	expect_eq(ledger_ask(l, b, &urgent, 0), 0);
	expect_action(0, LEDGER_REFUSE, b, 100);
	expect_eq(action.reason, LEDGER_FULL);
}

TEST(an_ask_that_can_never_fit_does_not_wait)
{
	given(2000, 900, 1000 * ms);
	ask(a, 1, 901, 0);
	expect_action(0, LEDGER_REFUSE, a, 901);
	expect_eq(action.reason, LEDGER_FULL);
}

TEST(a_killed_waiter_leaves_nothing)
{
	struct ledger_sums s;

	given(900, 900, 1000 * ms);
	granted(a, 900);
	ledger_report(l, a, 900);
	ask(c, 1, 100, 0);
	ask(c, 2, 100, 0);
	expect_quiet(0);
	ledger_leave(l, c);
	ledger_leave(l, c);
	expect_eq(ledger_deadline(l, 0), 0);
	ledger_device_sums(l, 0, &s);
	expect_eq(s.waiting, 0);
	expect_eq(s.granted, 900);
	ledger_leave(l, a);
	ledger_device_sums(l, 0, &s);
	expect_eq(s.granted, 0);
	expect_quiet(0);
}
