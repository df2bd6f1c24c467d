/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger/ledger.h"

#include <stdlib.h>

#include "tests/test.h"

static const uint64_t ms = 1000000;
static uint64_t room[8192];
static struct ledger *l;
static struct ledger_account *one, *two;
static struct ledger_holder *a, *b, *c;
static struct ledger_action action;

/* A device of 1000 with 100 reserved; two tenants; a and b belong to the first, c to the second. */
static void given(uint64_t limit_one, uint64_t limit_two, uint64_t wait_ns)
{
	struct ledger_limits limits = {.devices = 1,
				       .accounts = 2,
				       .holders = 4,
				       .asks = 8,
				       .asks_per_holder = 3,
				       .recall_ns = 200 * ms,
				       .look_ns = 20 * ms};

	expect(ledger_size(&limits) <= sizeof(room));
	l = ledger_init(room, &limits);
	ledger_set_device(l, 0, 1000, 100);
	one = ledger_open(l, 0, limit_one, wait_ns);
	two = ledger_open(l, 0, limit_two, wait_ns);
	a = ledger_join(l, one, NULL);
	b = ledger_join(l, one, NULL);
	c = ledger_join(l, two, NULL);
}

static void ask(struct ledger_holder *who, uint64_t id, uint64_t bytes, uint64_t now)
{
	struct ledger_request request = {.id = id, .bytes = bytes, .want = bytes, .may_wait = 1};

	expect_eq(ledger_ask(l, who, &request, now), 0);
}

/* What holders say is always up to date here. */
static int next_action(uint64_t now)
{
	int any;

	do
		any = ledger_next(l, now, &action);
	while (any && action.verb == LEDGER_LOOK);
	return any;
}

static void expect_action(uint64_t now, enum ledger_verb verb, struct ledger_holder *who,
			  uint64_t bytes)
{
	expect_eq(next_action(now), 1);
	expect_eq(action.verb, verb);
	expect(action.holder == who);
	expect_eq(action.bytes, bytes);
}

static void expect_quiet(uint64_t now)
{
	expect_eq(next_action(now), 0);
}

static void granted(struct ledger_holder *who, uint64_t bytes)
{
	ask(who, 1, bytes, 0);
	expect_action(0, LEDGER_GRANT, who, bytes);
}

static struct ledger_sums sums(struct ledger_holder *who)
{
	struct ledger_sums s;

	ledger_holder_sums(who, &s);
	return s;
}

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

TEST(who_came_first_is_served_first_though_the_second_would_fit)
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

TEST(who_waited_behind_others_is_not_refused_at_its_deadline_while_there_is_room)
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

TEST(what_can_never_fit_is_not_waited_for)
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

TEST(a_context_is_reserved_before_it_is_measured)
{
	struct ledger_request context = {.id = 3, .bytes = 80, .want = 80, .residual = 1};

	given(100, 900, 0);
	expect_eq(ledger_ask(l, a, &context, 0), 0);
	expect_action(0, LEDGER_GRANT, a, 80);
	expect_eq(action.residual, 1);
	ask(a, 4, 21, 0);
	expect_action(0, LEDGER_REFUSE, a, 21);
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

TEST(who_has_more_than_it_may_is_asked_for_its_credit_each_time_that_this_is_found)
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

TEST(what_only_room_is_asked_for_is_not_reserved)
{
	struct ledger_request probe = {.id = 3, .bytes = 80, .want = 80, .residual = LEDGER_ROOM};

	given(100, 900, 0);
	expect_eq(ledger_ask(l, a, &probe, 0), 0);
	expect_action(0, LEDGER_GRANT, a, 80);
	expect_eq(action.residual, LEDGER_ROOM);
	expect_eq(sums(a).residual, 0);
}

/* What a page claims not to have allocated is credit and residual at the same time. */
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

TEST(what_passed_a_guest_by_is_not_followed_by_what_it_was_promised)
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

TEST(what_the_driver_itself_says_takes_room_whatever_the_limit)
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

TEST(a_lowered_limit_leaves_what_is_held_in_the_way_until_it_is_given_back)
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

TEST(what_was_there_before_the_daemon_is_charged_even_over_the_limit_that_is_lower_now)
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

TEST(what_expected_guests_may_hold_is_not_granted_to_others)
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
	/* 280 of the 300 have been said: the same 10 are left for others. */
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

TEST(who_would_be_refused_for_its_limit_waits_for_what_is_being_measured)
{
	given(100, 900, 0);
	ledger_residual(l, a, 60, 60);
	ledger_unsettled(l, one, LEDGER_IN_FLUX);
	ask(b, 1, 50, 0);
	expect_quiet(0);
	ledger_residual(l, a, 50, 50);
	expect_action(0, LEDGER_GRANT, b, 50);
	ledger_report(l, b, 50);
	ask(b, 2, 1, 0);
	expect_quiet(0);
	ledger_unsettled(l, one, LEDGER_SETTLED);
	expect_action(0, LEDGER_REFUSE, b, 1);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(another_tenants_measurement_is_no_hope_for_who_is_over_its_own_limit)
{
	given(100, 900, 0);
	ledger_unsettled(l, two, LEDGER_IN_FLUX);
	ask(a, 1, 101, 0);
	expect_action(0, LEDGER_REFUSE, a, 101);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(who_would_be_refused_for_room_waits_for_anybodys_measurement)
{
	given(900, 900, 0);
	ledger_residual(l, a, 600, 600);
	ledger_unsettled(l, one, LEDGER_IN_FLUX);
	ask(c, 1, 400, 0);
	expect_quiet(0);
	expect_eq(ledger_deadline(l, 0), 0); /* the measurement's end is the event */
	ledger_residual(l, a, 500, 500);
	expect_action(0, LEDGER_GRANT, c, 400);
}

TEST(what_fits_is_granted_though_somebody_is_being_measured)
{
	given(900, 900, 1000 * ms);
	ledger_residual(l, a, 600, 600);
	ledger_unsettled(l, one, LEDGER_IN_FLUX);
	ledger_unsettled(l, two, LEDGER_IN_FLUX);
	granted(c, 300);
}

TEST(nothing_is_granted_while_a_measurement_is_owed)
{
	given(100, 900, 0);
	ledger_unsettled(l, one, LEDGER_OWED);
	ask(a, 1, 50, 0);
	expect_quiet(0);
	granted(c, 900); /* a neighbour does not wait */
	ledger_residual(l, b, 60, 60);
	ledger_looked(l);
	expect_quiet(0);
	ledger_unsettled(l, one, LEDGER_SETTLED);
	expect_action(0, LEDGER_REFUSE, a, 50);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(who_gave_back_what_it_was_asked_for_is_asked_for_more)
{
	given(100, 900, 0);
	granted(a, 90);
	ledger_unsettled(l, one, LEDGER_OWED);
	ask(b, 1, 30, 0);
	expect_quiet(0);
	ledger_residual(l, b, 20, 20);
	ledger_looked(l);
	ledger_unsettled(l, one, LEDGER_SETTLED);
	/* For the limit's sake (law 11); that is not enough for b. */
	expect_action(0, LEDGER_RECALL, a, 10);
	expect_quiet(0);
	expect_eq(ledger_return(l, a, 10, 1), 0);
	expect_action(0, LEDGER_RECALL, a, 30);
	expect_eq(ledger_return(l, a, 30, 1), 0);
	expect_action(0, LEDGER_GRANT, b, 30);
}

TEST(who_gave_back_less_than_it_was_asked_for_has_no_more)
{
	given(100, 900, 0);
	granted(a, 90);
	ask(b, 1, 30, 0);
	expect_action(0, LEDGER_RECALL, a, 20);
	expect_eq(ledger_return(l, a, 19, 1), 0);
	expect_action(0, LEDGER_REFUSE, b, 30);
}

TEST(who_gave_back_what_it_was_asked_for_too_late_is_asked_for_more_all_the_same)
{
	given(100, 900, 0);
	granted(a, 90);
	ledger_unsettled(l, one, LEDGER_IN_FLUX);
	ask(b, 1, 30, 0);
	expect_action(0, LEDGER_RECALL, a, 20);
	expect_quiet(200 * ms);
	/* It is not deaf: it can be recalled again, though not on behalf of the same ask. */
	ask(a, 2, 5, 200 * ms);
	expect_action(200 * ms, LEDGER_GRANT, a, 5);
	expect_quiet(200 * ms);
	expect_eq(ledger_return(l, a, 20, 1), 0);
	expect_action(201 * ms, LEDGER_RECALL, a, 5);
	expect_eq(ledger_return(l, a, 5, 1), 0);
	expect_action(201 * ms, LEDGER_GRANT, b, 30);
}

TEST(three_looks_after_the_question_what_came_before_it_was_measured)
{
	given(100, 900, 0);
	ledger_unsettled(l, one, LEDGER_OWED);
	ask(a, 1, 50, 0);
	for (int i = 0; i < LEDGER_LOOKS; i++) {
		expect_quiet(0);
		ledger_looked(l);
	}
	expect_action(0, LEDGER_GRANT, a, 50);
}

TEST(three_looks_after_the_question_the_answer_is_no)
{
	given(100, 900, 0);
	ledger_looked(l);
	ledger_unsettled(l, one, LEDGER_IN_FLUX);
	ask(a, 1, 101, 0);
	for (int i = 0; i < LEDGER_LOOKS; i++) {
		expect_quiet(0);
		ledger_looked(l);
	}
	expect_action(0, LEDGER_REFUSE, a, 101);
	expect_eq(action.reason, LEDGER_OVER);
	/* Who asks then has its own three. */
	ask(a, 2, 101, 0);
	expect_quiet(0);
}

TEST(a_measurement_does_not_prolong_the_time_that_may_be_waited)
{
	given(900, 900, 1000 * ms);
	granted(a, 900);
	ledger_report(l, a, 900);
	ledger_unsettled(l, one, LEDGER_IN_FLUX);
	ask(c, 1, 100, 0);
	expect_quiet(1000 * ms - 1);
	expect_action(1000 * ms, LEDGER_REFUSE, c, 100);
	expect_eq(action.reason, LEDGER_DEADLINE);
}

TEST(a_peak_is_believed_up_to_what_was_ever_granted)
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
	/* What one holder had and what another has need not have been there at once. */
	granted(b, 60);
	ledger_report(l, b, 100);
	ledger_report_peak(l, a, UINT64_MAX);
	ledger_account_sums(one, &seen);
	expect_eq(seen.peak, 100);
}

TEST(one_holder_cannot_fill_the_table_of_asks)
{
	struct ledger_request request = {.id = 1, .bytes = 100, .want = 100, .may_wait = 1};

	given(900, 900, 1000 * ms);
	granted(a, 900);
	ledger_report(l, a, 900);
	for (int i = 0; i < 3; i++)
		expect_eq(ledger_ask(l, c, &request, 0), 0);
	expect_eq(ledger_ask(l, c, &request, 0), LEDGER_TABLE);
	ledger_cancel(l, c, 1);
	expect_eq(ledger_ask(l, c, &request, 0), 0);
}

TEST(the_tables_are_as_large_as_was_said)
{
	given(1, 1, 0);
	expect(ledger_open(l, 0, 1, 0) == NULL);
	expect(ledger_join(l, one, NULL) != NULL);
	expect(ledger_join(l, one, NULL) == NULL);
	ledger_leave(l, c);
	ledger_close(l, two);
	ledger_close(l, two);
	ledger_leave(l, c);
	expect(ledger_open(l, 0, 1, 0) != NULL);
	expect(ledger_join(l, one, &given) != NULL);
}

/* Four accounts on a device of 1000, with one holder each; two asks are sure for each of them, four
 * of one may wait, and three are common. */
static void given_quota(struct ledger_account *account[4], struct ledger_holder *holder[4])
{
	struct ledger_limits limits = {.devices = 1,
				       .accounts = 4,
				       .holders = 4,
				       .asks = 3,
				       .asks_sure = 2,
				       .asks_per_account = 4,
				       .asks_per_holder = 100,
				       .recall_ns = 200 * ms,
				       .look_ns = 20 * ms};

	expect(ledger_size(&limits) <= sizeof(room));
	l = ledger_init(room, &limits);
	ledger_set_device(l, 0, 1000, 0);
	for (int i = 0; i < 4; i++) {
		account[i] = ledger_open(l, 0, 1000, 1000 * ms);
		holder[i] = ledger_join(l, account[i], NULL);
	}
}

TEST(an_account_that_waits_a_thousand_times_leaves_the_others_their_places)
{
	struct ledger_request request = {.id = 1, .bytes = 10, .may_wait = 1};
	struct ledger_account *account[4];
	struct ledger_holder *holder[4];

	given_quota(account, holder);
	for (int i = 0; i < 1000; i++)
		expect_eq(ledger_ask(l, holder[0], &request, 0), i < 4 ? 0 : LEDGER_TABLE);
	/* Two of those were common: one is left. */
	for (int i = 0; i < 1000; i++)
		expect_eq(ledger_ask(l, holder[1], &request, 0), i < 3 ? 0 : LEDGER_TABLE);
	for (int i = 2; i < 4; i++) {
		expect_eq(ledger_ask(l, holder[i], &request, 0), 0);
		expect_eq(ledger_ask(l, holder[i], &request, 0), 0);
		expect_eq(ledger_ask(l, holder[i], &request, 0), LEDGER_TABLE);
	}
	/* What is given back can be taken again, by whom it belongs to. */
	ledger_leave(l, holder[0]);
	expect_eq(ledger_ask(l, holder[2], &request, 0), 0);
	expect_eq(ledger_ask(l, holder[2], &request, 0), 0);
	expect_eq(ledger_ask(l, holder[2], &request, 0), LEDGER_TABLE);
	expect_eq(ledger_ask(l, holder[3], &request, 0), LEDGER_TABLE);
}

TEST(who_has_changed_is_named_once_and_nobody_else)
{
	int of_one, of_two;

	given(500, 500, 0);
	expect(ledger_changed(l) == NULL);
	ledger_watch(one, &of_one);
	ledger_watch(two, &of_two);
	expect(ledger_changed(l) == &of_one);
	expect(ledger_changed(l) == &of_two);
	expect(ledger_changed(l) == NULL);
	granted(a, 10);
	granted(b, 10);
	expect(ledger_changed(l) == &of_one);
	expect(ledger_changed(l) == NULL);
	ledger_report(l, a, 0); /* as before */
	expect(ledger_changed(l) == NULL);
	ledger_report(l, a, 5);
	ledger_set_limit(l, two, 400, 0);
	expect(ledger_changed(l) == &of_one);
	expect(ledger_changed(l) == &of_two);
	granted(c, 10);
	ledger_leave(l, c);
	ledger_close(l, two);
	expect(ledger_changed(l) == NULL);
}

TEST(what_everybody_says_is_asked_for_only_where_somebody_would_be_recalled_or_refused)
{
	struct ledger_request request = {.id = 1, .bytes = 500};

	given(900, 900, 0);
	expect_eq(ledger_ask(l, a, &request, 0), 0);
	expect_eq(ledger_next(l, 0, &action), 1);
	expect_eq(action.verb, LEDGER_GRANT);
	expect_eq(ledger_next(l, 0, &action), 0);
	/* The device is full: of everybody, before a is recalled. */
	expect_eq(ledger_ask(l, c, &request, 0), 0);
	expect_eq(ledger_next(l, 0, &action), 1);
	expect_eq(action.verb, LEDGER_LOOK);
	expect(action.account == NULL);
	expect_eq(action.device, 0);
	ledger_report(l, a, 400);
	expect_eq(ledger_next(l, 0, &action), 1);
	expect_eq(action.verb, LEDGER_RECALL);
	expect_eq(action.bytes, 100);
	expect_eq(ledger_next(l, 0, &action), 0);
	/* It frees while the recall is under way, and somebody sees that before c is refused. */
	expect_eq(ledger_return(l, a, 0, 1), 0);
	expect_eq(ledger_next(l, 1, &action), 1);
	expect_eq(action.verb, LEDGER_LOOK);
	ledger_report(l, a, 0);
	expect_eq(ledger_next(l, 1, &action), 1);
	expect_eq(action.verb, LEDGER_REFUSE);
	expect_eq(action.reason, LEDGER_FULL);
	/* Over its own limit: of its own account alone. */
	request.bytes = 901;
	expect_eq(ledger_ask(l, c, &request, 2), 0);
	expect_eq(ledger_next(l, 2, &action), 1);
	expect_eq(action.verb, LEDGER_LOOK);
	expect(action.account == two);
	expect_eq(ledger_next(l, 2, &action), 1);
	expect_eq(action.reason, LEDGER_OVER);
}
