/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger/residual.h"

#include "core/ledger/residual_price.h"
#include "tests/test.h"

static struct residual r;
static struct residual_moment page;

static unsigned step(enum residual_verb verb, uint64_t bytes)
{
	struct residual_event event = {.verb = verb, .bytes = bytes, .moment = &page};

	return residual_step(&r, &event);
}

static void given(uint64_t granted, uint64_t allocated)
{
	r = (struct residual){0};
	page = (struct residual_moment){.granted = granted, .allocated = allocated, .changes = 1};
}

/* From its beginning to its end nothing happens. */
static unsigned measured(uint64_t used)
{
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	return step(RESIDUAL_ENDS, used);
}

static unsigned reserve_and_settle(uint64_t bytes)
{
	expect_eq(step(RESIDUAL_RESERVED, bytes), 0);
	return step(RESIDUAL_SETTLED, bytes);
}

TEST(a_context_is_reserved_and_then_measured)
{
	given(100, 100);
	expect_eq(reserve_and_settle(80), RESIDUAL_MEASURE);
	expect_eq(residual_charge(&r), 80);
	expect(residual_in_flux(&r));
	expect(measured(150) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 50);
	expect(!residual_in_flux(&r) && !residual_open(&r));
}

TEST(a_measurement_leaves_later_reservations)
{
	given(0, 0);
	expect_eq(step(RESIDUAL_RESERVED, 40), 0);
	expect_eq(reserve_and_settle(40), RESIDUAL_MEASURE);
	expect(measured(30) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 70);
	/* It is reported after the measurement began, which may have missed it. */
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_SETTLED, 40), RESIDUAL_MEASURE);
	expect(step(RESIDUAL_ENDS, 30) & RESIDUAL_MEASURE);
	expect_eq(residual_charge(&r), 70);
	expect(measured(60) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 60);
}

TEST(a_context_that_comes_during_a_measurement_has_no_price_yet)
{
	given(0, 0);
	page.contexts = 1;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.changes++;
	page.contexts++;
	expect(!(step(RESIDUAL_ENDS, 60) & RESIDUAL_SAMPLE));
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.changes++;
	expect(step(RESIDUAL_ENDS, 60) & RESIDUAL_SAMPLE);
	expect_eq(r.sample, 30);
}

TEST(all_that_is_reserved_is_no_more_than_that)
{
	given(0, 0);
	expect_eq(step(RESIDUAL_RESERVED, 40), 0);
	expect_eq(step(RESIDUAL_SETTLED, RESIDUAL_ALL), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_RESERVED, 40), 0);
	expect(measured(30) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 70);
}

TEST(bounds_keep_the_estimate_within_them)
{
	given(100, 100);
	page.adrift = 100;
	expect_eq(reserve_and_settle(40), RESIDUAL_MEASURE);
	expect(measured(100) & RESIDUAL_LATER);
	expect_eq(residual_charge(&r), 40);
	expect_eq(step(RESIDUAL_RETRIED, 0), RESIDUAL_MEASURE);
	expect(measured(150) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 50);
	expect_eq(step(RESIDUAL_RESERVED, 40), 0);
	expect_eq(step(RESIDUAL_RETRIED, 0), RESIDUAL_MEASURE);
	expect(measured(30) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 70);
}

TEST(doubts_that_stay_are_how_it_is)
{
	unsigned todo = RESIDUAL_LATER;

	given(100, 100);
	page.adrift = 10;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	for (int i = 1; i <= RESIDUAL_DOUBTS; i++) {
		expect(todo & RESIDUAL_LATER);
		todo = measured(150);
		expect(residual_open(&r));
		if (i < RESIDUAL_DOUBTS)
			expect_eq(step(RESIDUAL_RETRIED, 0), RESIDUAL_MEASURE);
	}
	expect(!(todo & RESIDUAL_LATER));
	/* Only where somebody would be refused. */
	expect_eq(step(RESIDUAL_RETRIED, 0), RESIDUAL_MEASURE);
	expect(!(measured(150) & RESIDUAL_LATER));
	/* News are worth as many attempts as the first time. */
	expect_eq(reserve_and_settle(10), RESIDUAL_MEASURE);
	expect(measured(160) & RESIDUAL_LATER);
	page.adrift = 0;
	expect_eq(step(RESIDUAL_RETRIED, 0), RESIDUAL_MEASURE);
	expect(!(measured(160) & RESIDUAL_LATER));
	expect(!residual_open(&r));
}

TEST(memory_that_a_pool_let_go_hides_no_context_however_often_it_is_measured)
{
	given(100, 100);
	page.contexts = 1;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(measured(164) & RESIDUAL_REPORT);
	/* It let go before anybody measured, and the guest has not noticed. */
	page.loose = 90;
	page.changes++;
	for (int i = 0; i < 2 * RESIDUAL_DOUBTS; i++) {
		expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
		expect(!(measured(84) & RESIDUAL_SAMPLE));
		expect_eq(residual_charge(&r), 64);
	}
	page.allocated = 20;
	page.loose = 0;
	page.changes++;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(!(measured(84) & RESIDUAL_LATER));
	expect_eq(residual_charge(&r), 64);
}

TEST(a_guest_in_flux_has_at_least_all_beyond_its_grants)
{
	unsigned todo = 0;

	given(100, 20);
	expect_eq(reserve_and_settle(10), RESIDUAL_MEASURE);
	for (int i = 1; i < RESIDUAL_ROUNDS; i++) {
		expect_eq(step(RESIDUAL_BEGINS, 0), 0);
		page.allocated++;
		page.changes++;
		expect_eq(step(RESIDUAL_GRANTED, 110), 0);
		todo = step(RESIDUAL_ENDS, 180);
		if (i < RESIDUAL_ROUNDS - 1)
			expect_eq(todo, RESIDUAL_REPORT | RESIDUAL_MEASURE);
		expect_eq(residual_charge(&r), 70); /* from the first attempt on */
	}
	expect_eq(todo, RESIDUAL_REPORT | RESIDUAL_LATER);
	expect_eq(r.reserved, 10); /* it is part of that */
	expect(residual_open(&r));
}

TEST(a_measurement_that_nobody_asked_for_is_tried_once_and_keeps_nobody_waiting)
{
	given(100, 100);
	expect_eq(step(RESIDUAL_WATCHED, 0), RESIDUAL_MEASURE);
	expect(!residual_in_flux(&r));
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.changes++;
	expect_eq(step(RESIDUAL_ENDS, 190), RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 90);
	expect(!residual_open(&r));
}

TEST(evicted_memory_hides_no_context)
{
	given(100, 100);
	page.evicted = 60;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(measured(90) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 50);
}

TEST(a_claim_beyond_the_grants_hides_nothing)
{
	given(100, 1000);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(measured(150) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 50);
}

TEST(a_claim_is_believed_within_the_least_that_was_granted)
{
	given(100, 1000);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.granted = 200;
	expect(step(RESIDUAL_ENDS, 150) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 50);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.granted = 90;
	expect(step(RESIDUAL_ENDS, 150) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 60);
}

TEST(a_check_is_answered_by_a_measurement_that_began_after_it)
{
	given(0, 0);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_CHECKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_ENDS, 10), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	expect_eq(measured(20), RESIDUAL_REPORT | RESIDUAL_ANSWER);
	expect_eq(residual_charge(&r), 20);
}

TEST(a_report_is_owed_until_a_measurement_that_began_later_has_ended)
{
	given(100, 100);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(!residual_owed(&r)); /* nothing was reported */
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_SETTLED, 0), RESIDUAL_MEASURE);
	expect(step(RESIDUAL_ENDS, 100) & RESIDUAL_MEASURE);
	expect(residual_owed(&r));
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect(residual_owed(&r));
	expect(step(RESIDUAL_ENDS, 200) & RESIDUAL_REPORT);
	expect(!residual_owed(&r));
	expect_eq(residual_charge(&r), 100);
}

TEST(a_guest_in_flux_owes_no_longer_than_others)
{
	given(100, 100);
	expect_eq(step(RESIDUAL_SETTLED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.changes++;
	expect_eq(step(RESIDUAL_ENDS, 200), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	expect(!residual_owed(&r) && residual_in_flux(&r));
	expect_eq(residual_charge(&r), 100);
	expect_eq(step(RESIDUAL_CHECKED, 0), RESIDUAL_MEASURE);
	expect(residual_owed(&r));
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect(step(RESIDUAL_FAILS, 0) & RESIDUAL_EXCUSE);
	expect(!residual_owed(&r));
}

TEST(a_check_is_excused_where_nobody_can_measure)
{
	given(0, 0);
	expect_eq(step(RESIDUAL_CHECKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_FAILS, 0), RESIDUAL_EXCUSE | RESIDUAL_LATER);
	expect_eq(step(RESIDUAL_CHECKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_LATE, 0), RESIDUAL_EXCUSE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_ENDS, 0), RESIDUAL_REPORT);
	expect_eq(step(RESIDUAL_CHECKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_HUNG_UP, 0), 0);
	expect_eq(measured(0), RESIDUAL_REPORT);
}

TEST(an_inventory_replaces_all_that_was_before)
{
	given(100, 100);
	expect_eq(step(RESIDUAL_RESERVED, 40), 0);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_ADOPTED, 64), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_ENDS, 1000), 0);
	expect_eq(residual_charge(&r), 64);
	expect(measured(170) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 70);
}

TEST(the_price_of_contexts_is_learnt_where_they_were_alone)
{
	given(100, 100);
	page.contexts = 2;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(measured(220) & RESIDUAL_SAMPLE);
	expect_eq(r.sample, 60);
	page.others = 1;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(!(measured(1120) & RESIDUAL_SAMPLE));
	page.others = RESIDUAL_UNSAID;
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(!(measured(220) & RESIDUAL_SAMPLE));
}

/* It began to ask, and waits: nothing is granted while a report is owed. */
static unsigned asks_meanwhile(uint64_t used)
{
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.changes++;
	return step(RESIDUAL_ENDS, used);
}

TEST(the_price_of_contexts_is_learnt_of_a_guest_that_soon_asks_for_memory)
{
	given(0, 0);
	page.contexts = 2;
	expect_eq(reserve_and_settle(80), RESIDUAL_MEASURE);
	expect(asks_meanwhile(120) & RESIDUAL_SAMPLE);
	expect_eq(r.sample, 60);
}

TEST(nothing_is_learnt_of_a_guest_in_flux_that_may_hold_more_than_contexts)
{
	given(0, 0);
	page.contexts = 1;
	expect_eq(reserve_and_settle(80), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_RESERVED, 80), 0); /* a second context is on its way */
	expect(!(asks_meanwhile(120) & RESIDUAL_SAMPLE));
	given(0, 0);
	page.contexts = 1;
	expect_eq(reserve_and_settle(80), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_GRANTED, 1000), 0);
	page.changes++;
	expect(!(step(RESIDUAL_ENDS, 1060) & RESIDUAL_SAMPLE));
	given(0, 0);
	page.contexts = 1;
	expect_eq(reserve_and_settle(80), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	page.changes = RESIDUAL_CHANGING; /* a context is ending, say */
	expect(!(step(RESIDUAL_ENDS, 60) & RESIDUAL_SAMPLE));
}

TEST(a_tenant_expects_its_own_price_and_a_neighbour_the_one_that_two_agree_upon)
{
	struct residual_price p = {0};

	expect_eq(residual_price_of(&p, 1, 64), 64);
	residual_price_learn(&p, 1, 900);
	expect_eq(residual_price_of(&p, 1, 64), 900);
	expect_eq(residual_price_of(&p, 2, 64), 64);
	residual_price_learn(&p, 3, 500);
	expect_eq(residual_price_of(&p, 2, 64), 500);
	residual_price_learn(&p, 4, 520);
	expect_eq(residual_price_of(&p, 2, 64), 520);
	residual_price_learn(&p, 1, 10);
	expect_eq(residual_price_of(&p, 1, 64), 64);
	expect_eq(residual_price_of(&p, 2, 64), 500);
}

static void measured_in_vain(uint64_t used)
{
	page.changes = RESIDUAL_CHANGING;
	expect(measured(used) & RESIDUAL_REPORT);
	page.changes = 2;
}

/* After a restart: a thread of it is within a call whenever it is measured. */
TEST(a_guess_does_not_count_what_is_allocated_twice)
{
	given(28, 28);
	page.contexts = 1;
	expect_eq(step(RESIDUAL_GUESSED, 64), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	for (int i = 1; i < RESIDUAL_ROUNDS; i++) {
		expect(residual_in_flux(&r));
		measured_in_vain(32);
		expect_eq(residual_charge(&r), 4);
	}
	expect(!residual_in_flux(&r) && residual_open(&r));
}

/* It has just freed all, which its page does not say yet. */
TEST(one_attempt_of_several_does_not_make_a_guess_too_small)
{
	given(28, 28);
	page.contexts = 1;
	expect_eq(step(RESIDUAL_GUESSED, 64), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	measured_in_vain(32);
	for (int i = 2; i < RESIDUAL_ROUNDS; i++)
		measured_in_vain(4);
	expect_eq(residual_charge(&r), 4);
}

TEST(what_was_measured_before_a_restart_is_not_lowered_as_a_guess_is)
{
	given(28, 28);
	page.contexts = 1;
	expect_eq(step(RESIDUAL_RECALLED, 6), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	measured_in_vain(8);
	expect_eq(residual_charge(&r), 6);
}

TEST(a_guess_remains_one_on_the_next_connection_until_it_was_measured)
{
	given(28, 28);
	page.contexts = 1;
	expect_eq(step(RESIDUAL_GUESSED, 64), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_ADOPTED, 64), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	for (int i = 1; i < RESIDUAL_ROUNDS; i++)
		measured_in_vain(32);
	expect_eq(residual_charge(&r), 4);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(measured(34) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 6);
	/* Now it is known, and restless measurements leave it as it is. */
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	for (int i = 1; i < RESIDUAL_ROUNDS; i++)
		measured_in_vain(30);
	expect_eq(residual_charge(&r), 6);
}

TEST(a_guess_is_one_until_it_was_measured_or_often_tried_in_vain)
{
	given(28, 28);
	page.contexts = 1;
	expect_eq(step(RESIDUAL_RESERVED, 40), 0);
	expect_eq(residual_guessed(&r), 40);
	expect_eq(step(RESIDUAL_SETTLED, 40), RESIDUAL_MEASURE);
	expect_eq(residual_guessed(&r), 40);
	expect(measured(34) & RESIDUAL_REPORT);
	expect_eq(residual_guessed(&r), 0);
	expect_eq(step(RESIDUAL_GUESSED, 64), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	expect_eq(residual_guessed(&r), 64);
	for (int round = 0; round < RESIDUAL_VAIN; round++) {
		expect(residual_guessed(&r) > 0);
		for (int i = 1; i < RESIDUAL_ROUNDS; i++)
			measured_in_vain(32);
		expect_eq(step(RESIDUAL_RETRIED, 0), RESIDUAL_MEASURE);
	}
	expect_eq(residual_charge(&r), 4);
	expect_eq(residual_guessed(&r), 0);
}

static void fails_so_often(int times)
{
	for (int i = 0; i < times; i++) {
		expect_eq(step(RESIDUAL_BEGINS, 0), 0);
		expect_eq(step(RESIDUAL_FAILS, 0), RESIDUAL_LATER);
		expect_eq(step(RESIDUAL_RETRIED, 0), RESIDUAL_MEASURE);
	}
}

TEST(a_guess_is_measured_once_the_driver_answers_again)
{
	given(0, 0);
	expect_eq(step(RESIDUAL_GUESSED, 4), RESIDUAL_REPORT | RESIDUAL_MEASURE);
	fails_so_often(RESIDUAL_FAILURES);
	expect(measured(6) & RESIDUAL_REPORT);
	expect_eq(residual_charge(&r), 6);
	expect(!residual_open(&r));
}

TEST(a_driver_that_does_not_answer_is_not_asked_for_ever)
{
	given(0, 0);
	for (int round = 0; round < 2; round++) {
		expect_eq(step(RESIDUAL_SETTLED, 0), RESIDUAL_MEASURE);
		fails_so_often(round == 0 ? RESIDUAL_FAILURES : 0);
		expect_eq(step(RESIDUAL_BEGINS, 0), 0);
		expect_eq(step(RESIDUAL_FAILS, 0), 0);
		expect_eq(step(RESIDUAL_RETRIED, 0), 0);
	}
	expect_eq(step(RESIDUAL_WATCHED, 0), RESIDUAL_MEASURE);
	expect(measured(0) & RESIDUAL_REPORT);
	expect_eq(step(RESIDUAL_SETTLED, 0), RESIDUAL_MEASURE);
	fails_so_often(1);
	/* A look that nobody asked for is not repeated. */
	expect(measured(0) & RESIDUAL_REPORT);
	expect_eq(step(RESIDUAL_WATCHED, 0), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_FAILS, 0), 0);
}

TEST(nothing_waits_for_a_driver_that_does_not_answer)
{
	given(0, 0);
	expect_eq(reserve_and_settle(40), RESIDUAL_MEASURE);
	expect_eq(step(RESIDUAL_BEGINS, 0), 0);
	expect_eq(step(RESIDUAL_FAILS, 0), RESIDUAL_LATER);
	expect_eq(residual_charge(&r), 40);
	expect_eq(residual_guessed(&r), 0);
	expect_eq(step(RESIDUAL_RESERVED, 40), 0);
	expect_eq(residual_guessed(&r), 0);
	expect_eq(step(RESIDUAL_ASKED, 0), RESIDUAL_MEASURE);
	expect(measured(30) & RESIDUAL_REPORT);
	expect_eq(residual_guessed(&r), 40);
	expect_eq(step(RESIDUAL_LATE, 0), 0);
	expect_eq(residual_guessed(&r), 0);
}
