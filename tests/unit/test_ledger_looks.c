/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that wait for a measurement, full tables, and the accounts that are named. */
#include "tests/unit/ledger_fixture.h"

TEST(an_ask_beyond_the_limit_waits_for_a_measurement_under_way)
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

TEST(another_tenants_measurement_is_no_hope_for_an_ask_beyond_its_own_limit)
{
	given(100, 900, 0);
	ledger_unsettled(l, two, LEDGER_IN_FLUX);
	ask(a, 1, 101, 0);
	expect_action(0, LEDGER_REFUSE, a, 101);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(an_ask_without_room_waits_for_anybodys_measurement)
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

TEST(an_ask_that_fits_is_granted_though_somebody_is_being_measured)
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

TEST(a_guest_that_gave_back_all_it_was_asked_for_is_asked_for_more)
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

TEST(a_guest_that_gave_back_less_than_it_was_asked_for_has_no_more)
{
	given(100, 900, 0);
	granted(a, 90);
	ask(b, 1, 30, 0);
	expect_action(0, LEDGER_RECALL, a, 20);
	expect_eq(ledger_return(l, a, 19, 1), 0);
	expect_action(0, LEDGER_REFUSE, b, 30);
}

TEST(a_guest_that_has_no_more_for_one_ask_is_asked_for_another_and_not_for_that_one_again)
{
	given(1000, 1000, 1000 * ms);
	granted(a, 500);
	granted(c, 300);
	ledger_report(l, c, 300);
	ask(b, 1, 300, 0);
	expect_action(0, LEDGER_RECALL, a, 200);
	expect_eq(ledger_return(l, a, 90, 1), 0);
	expect_quiet(0);
	ask(c, 2, 250, 0);
	expect_action(0, LEDGER_RECALL, a, 60);
	expect_eq(ledger_return(l, a, 60, 1), 0);
	expect_quiet(0);
}

TEST(a_guest_that_gave_back_too_late_is_asked_for_more_all_the_same)
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

TEST(three_looks_after_the_question_all_earlier_memory_was_measured)
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
	/* An account that asks then has its own three. */
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

TEST(the_tables_are_as_large_as_was_asked_for)
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
				       .refresh_ns = 20 * ms};

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
	/* A place that is given back can be taken again by its account. */
	ledger_leave(l, holder[0]);
	expect_eq(ledger_ask(l, holder[2], &request, 0), 0);
	expect_eq(ledger_ask(l, holder[2], &request, 0), 0);
	expect_eq(ledger_ask(l, holder[2], &request, 0), LEDGER_TABLE);
	expect_eq(ledger_ask(l, holder[3], &request, 0), LEDGER_TABLE);
}

TEST(an_account_that_has_changed_is_named_once_and_no_other)
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

TEST(reports_are_asked_for_only_before_a_recall_or_a_refusal)
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
	expect_eq(action.verb, LEDGER_REFRESH);
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
	expect_eq(action.verb, LEDGER_REFRESH);
	ledger_report(l, a, 0);
	expect_eq(ledger_next(l, 1, &action), 1);
	expect_eq(action.verb, LEDGER_REFUSE);
	expect_eq(action.reason, LEDGER_FULL);
	/* Over its own limit: of its own account alone. */
	request.bytes = 901;
	expect_eq(ledger_ask(l, c, &request, 2), 0);
	expect_eq(ledger_next(l, 2, &action), 1);
	expect_eq(action.verb, LEDGER_REFRESH);
	expect(action.account == two);
	expect_eq(ledger_next(l, 2, &action), 1);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(a_look_is_worthwhile_for_each_account_that_has_not_had_one)
{
	given(100, 900, 0);
	ledger_residual(l, a, 60, 60);
	expect(!ledger_awaits_look(l));
	ledger_unsettled(l, one, LEDGER_IN_FLUX);
	ask(b, 1, 50, 0);
	expect_quiet(0);
	for (int i = 0; i < LEDGER_LOOKS; i++) {
		expect(ledger_awaits_look(l));
		ledger_looked(l);
	}
	expect(!ledger_awaits_look(l));
}

static void ask_for_context(struct ledger_holder *who, uint64_t bytes, uint64_t now)
{
	struct ledger_request request = {.id = 7, .bytes = bytes, .residual = LEDGER_RESIDUAL};

	expect_eq(ledger_ask(l, who, &request, now), 0);
}

static void measured(struct ledger_holder *who, uint64_t bytes)
{
	ledger_guessed(l, who, 0);
	ledger_residual(l, who, bytes, bytes);
}

TEST(a_context_that_fits_once_others_are_measured_waits_for_that)
{
	given(900, 900, 0);
	ask_for_context(a, 400, 0);
	expect_action(0, LEDGER_GRANT, a, 400);
	ask_for_context(b, 400, 0);
	expect_action(0, LEDGER_GRANT, b, 400);
	ask_for_context(c, 400, 0);
	expect_quiet(0);
	measured(a, 200);
	expect_quiet(1 * ms);
	for (unsigned i = 0; i < 2 * LEDGER_LOOKS; i++)
		ledger_looked(l);
	expect_quiet(2 * ms); /* measurements that say nothing of the guess decide nothing */
	measured(b, 200);
	expect_action(3 * ms, LEDGER_GRANT, c, 400);
}

TEST(an_ask_that_would_not_fit_without_the_guesses_is_refused_at_once)
{
	given(900, 900, 0);
	ask_for_context(a, 100, 0);
	expect_action(0, LEDGER_GRANT, a, 100);
	measured(b, 300);
	ask(c, 1, 601, 0);
	expect_action(0, LEDGER_REFUSE, c, 601);
	expect_eq(action.reason, LEDGER_FULL);
	ask(a, 1, 601, 0);
	expect_action(0, LEDGER_REFUSE, a, 601);
	expect_eq(action.reason, LEDGER_OVER);
}

TEST(a_guess_that_nobody_measures_is_awaited_until_a_time)
{
	given(900, 900, 0);
	ask_for_context(a, 600, 0);
	expect_action(0, LEDGER_GRANT, a, 600);
	ask(c, 1, 400, 0);
	expect_quiet(0);
	expect_eq(ledger_deadline(l, 0), 500 * ms);
	expect_quiet(499 * ms);
	expect_action(500 * ms, LEDGER_REFUSE, c, 400);
	expect_eq(action.reason, LEDGER_FULL);
}

TEST(time_in_which_the_daemon_did_not_run_is_no_time_for_a_guess)
{
	given(900, 900, 0);
	ask_for_context(a, 600, 0);
	expect_action(0, LEDGER_GRANT, a, 600);
	ask(c, 1, 400, 0);
	expect_quiet(0);
	ledger_lost(l, 300 * ms);
	expect_quiet(799 * ms);
	expect_action(800 * ms, LEDGER_REFUSE, c, 400);
}

/* Two contexts are being created, and each needs more first: the first that asked goes on without,
 * and the other one has its room. */
TEST(asks_that_wait_for_each_others_contexts_are_answered_one_at_a_time)
{
	given(900, 900, 0);
	ask_for_context(a, 400, 0);
	expect_action(0, LEDGER_GRANT, a, 400);
	ask_for_context(c, 400, 0);
	expect_action(0, LEDGER_GRANT, c, 400);
	ask(a, 1, 200, 0);
	ask(c, 1, 200, 10 * ms);
	expect_quiet(10 * ms);
	expect_action(500 * ms, LEDGER_REFUSE, a, 200);
	expect_quiet(500 * ms);
	measured(a, 0);
	expect_action(501 * ms, LEDGER_GRANT, c, 200);
}

TEST(an_ask_over_its_limit_by_a_guess_alone_waits_for_the_measurement)
{
	given(300, 900, 0);
	ask_for_context(a, 200, 0);
	expect_action(0, LEDGER_GRANT, a, 200);
	ask(b, 1, 200, 0);
	expect_quiet(0);
	measured(a, 50);
	expect_action(1 * ms, LEDGER_GRANT, b, 200);
}

TEST(the_residual_of_a_former_daemons_guest_is_a_guess)
{
	given(900, 900, 0);
	expect_eq(ledger_adopt(l, a, 100, 0, 600), 0);
	ask(c, 1, 400, 0);
	expect_quiet(0);
	measured(a, 100);
	expect_action(1 * ms, LEDGER_GRANT, c, 400);
}

TEST(a_caller_that_did_not_run_lets_asks_and_recalls_wait_for_longer)
{
	given(900, 900, 100 * ms);
	granted(a, 800);
	ledger_report(l, a, 0);
	ask(c, 1, 400, 0);
	expect_action(0, LEDGER_RECALL, a, 300);
	ledger_lost(l, 1000 * ms);
	expect_quiet(1050 * ms);
	expect_eq(ledger_return(l, a, 300, 1), 0);
	expect_action(1050 * ms, LEDGER_GRANT, c, 400);
}

TEST(a_recall_is_waited_for_longer_by_the_time_in_which_the_daemon_did_not_run)
{
	given(900, 900, 0);
	granted(a, 800);
	ledger_report(l, a, 0);
	ask(c, 1, 400, 0);
	expect_action(0, LEDGER_RECALL, a, 300);
	ledger_lost(l, 1000 * ms);
	expect_quiet(1199 * ms);
	expect_action(1200 * ms, LEDGER_REFUSE, c, 400);
}

TEST(the_first_ask_of_an_account_is_its_own)
{
	uint64_t bytes = 0, since_ns = 0;

	given(900, 900, 1000 * ms);
	granted(a, 500);
	ledger_report(l, a, 500);
	granted(c, 300);
	ledger_report(l, c, 300);
	expect_eq(ledger_first_ask(two, &bytes, &since_ns), 0);
	ask(b, 1, 200, 5 * ms);
	ask(c, 2, 150, 7 * ms);
	expect_eq(ledger_first_ask(one, &bytes, &since_ns), 1);
	expect_eq(bytes, 200);
	expect_eq(since_ns, 5 * ms);
	expect_eq(ledger_first_ask(two, &bytes, &since_ns), 1);
	expect_eq(bytes, 150);
	expect_eq(since_ns, 7 * ms);
}
