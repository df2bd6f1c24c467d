/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts within accounts, and memory outside: laws 12 and 13 of core/ledger/ledger.h. */
#include "core/ledger/ledger.h"

#include <stdlib.h>

#include "tests/test.h"

enum { LEAVES = 6, HOLDERS = 12, STEPS = 400 };

static const uint64_t ms = 1000000;
static struct ledger *l;
static struct ledger_account *user, *alice[2], *bob;
static struct ledger_action action;

static struct ledger *make(uint32_t accounts, uint32_t holders)
{
	struct ledger_limits limits = {.devices = 1,
				       .accounts = accounts,
				       .holders = holders,
				       .asks = 64,
				       .asks_per_holder = 4,
				       .recall_ns = 200 * ms,
				       .refresh_ns = 20 * ms,
				       .guess_ns = 500 * ms};
	void *memory = calloc(1, ledger_size(&limits));

	expect(memory != NULL);
	return ledger_init(memory, &limits);
}

/* A device of 1000; alice's two tenants may have 500 together, and 400 each; bob has one of 1000.
 */
static struct ledger_holder *a, *b, *c;

static void given(uint64_t wait_ns)
{
	free(l);
	l = make(4, 4);
	ledger_set_device(l, 0, 1000, 0);
	user = ledger_open(l, 0, 500, 0);
	for (int i = 0; i < 2; i++) {
		alice[i] = ledger_open(l, 0, 400, wait_ns);
		ledger_put_within(alice[i], user);
	}
	bob = ledger_open(l, 0, 1000, wait_ns);
	a = ledger_join(l, alice[0], NULL);
	b = ledger_join(l, alice[1], NULL);
	c = ledger_join(l, bob, NULL);
}

static void ask(struct ledger_holder *who, uint64_t id, uint64_t bytes, uint64_t now)
{
	struct ledger_request request = {.id = id, .bytes = bytes, .want = bytes, .may_wait = 1};

	expect_eq(ledger_ask(l, who, &request, now), 0);
}

static int next_action(uint64_t now)
{
	int any;

	do
		any = ledger_next(l, now, &action);
	while (any && action.verb == LEDGER_REFRESH);
	return any;
}

static void expect_action(uint64_t now, enum ledger_verb verb, const struct ledger_holder *who,
			  uint64_t what)
{
	expect_eq(next_action(now), 1);
	expect_eq(action.verb, verb);
	expect(action.holder == who);
	expect_eq(verb == LEDGER_REFUSE ? action.reason : action.bytes, what);
}

static void hold(struct ledger_holder *who, uint64_t bytes)
{
	ask(who, 99, bytes, 1);
	expect_action(1, LEDGER_GRANT, who, bytes);
	ledger_report(l, who, bytes);
}

TEST(the_sum_of_two_accounts_is_within_the_one_around_both)
{
	struct ledger_sums sums;

	given(0);
	hold(a, 400);
	ledger_account_sums(alice[1], &sums);
	expect_eq(sums.room, 100);
	ask(b, 1, 101, 1);
	expect_action(1, LEDGER_REFUSE, b, LEDGER_PART);
	hold(b, 100);
	/* Nobody else is bound by it. */
	hold(c, 500);
	ask(c, 2, 1, 1);
	expect_action(1, LEDGER_REFUSE, c, LEDGER_FULL);
	/* Its own limit comes first. */
	ask(a, 3, 1, 1);
	expect_action(1, LEDGER_REFUSE, a, LEDGER_OVER);
}

TEST(a_tenant_that_understates_its_memory_takes_no_room_of_other_owners)
{
	struct ledger_account *all, *others;
	struct ledger_holder *liar, *honest;

	for (int several = 0; several < 2; several++) {
		free(l);
		l = make(5, 4);
		ledger_set_device(l, 0, 1000, 0);
		all = ledger_open(l, 0, 900, 0);
		if (several)
			ledger_several(all);
		user = ledger_open(l, 0, UINT64_MAX, 0);
		others = ledger_open(l, 0, UINT64_MAX, 0);
		alice[0] = ledger_open(l, 0, 500, 0);
		bob = ledger_open(l, 0, 500, 0);
		ledger_put_within(user, all);
		ledger_put_within(others, all);
		ledger_put_within(alice[0], user);
		ledger_put_within(bob, others);
		liar = ledger_join(l, alice[0], NULL);
		honest = ledger_join(l, bob, NULL);
		hold(liar, 500);
		/* It claims to have nothing, while the driver reports otherwise: twice the 500,
		 * towards itself.
		 */
		ledger_report(l, liar, 0);
		ledger_residual(l, liar, 500, 500);
		expect_eq(ledger_account_room(all), several ? 400 : 0);
		expect_eq(ledger_account_room(alice[0]), 0);
		ledger_leave(l, liar);
		expect_eq(ledger_account_room(all), 900);
		ask(honest, 1, 500, 2);
		expect_action(2, LEDGER_GRANT, honest, 500);
		expect_eq(ledger_account_room(all), 400);
	}
}

TEST(unused_credit_of_a_sibling_is_recalled)
{
	given(0);
	ask(a, 1, 400, 1);
	expect_action(1, LEDGER_GRANT, a, 400);
	ledger_report(l, a, 100);
	ask(b, 2, 300, 1);
	expect_action(1, LEDGER_RECALL, a, 200);
	expect_eq(next_action(1), 0);
	expect_eq(ledger_return(l, a, 250, 1), 0);
	expect_action(1, LEDGER_GRANT, b, 300);
}

/* After a restart: all of alice's 500 may be held by whoever has not come yet. */
TEST(memory_that_expected_guests_may_hold_is_given_to_nobody_within_or_around_it)
{
	struct ledger_holder *around;

	given(0);
	ledger_expect(l, user, 1, 300);
	ask(a, 1, 201, 1);
	expect_eq(next_action(1), 0);
	ask(c, 2, 400, 1);
	expect_action(1, LEDGER_GRANT, c, 400);
	ledger_expect(l, user, 0, 0);
	expect_action(1, LEDGER_GRANT, a, 201);

	given(0);
	around = ledger_join(l, user, NULL);
	ledger_expect(l, alice[0], 1, 300);
	ask(b, 1, 201, 1);
	ask(around, 2, 201, 1);
	expect_eq(next_action(1), 0);
	expect_eq(ledger_adopt(l, a, 250, 0, 0), 0);
	expect_eq(next_action(1), 0);
	ledger_expect(l, alice[0], 0, 0);
	expect_action(1, LEDGER_GRANT, b, 201);
	expect_action(1, LEDGER_REFUSE, around, LEDGER_OVER);
}

TEST(credit_from_before_finds_no_room_within_that_expected_guests_may_hold)
{
	given(0);
	ledger_expect(l, alice[1], 1, 300);
	expect_eq(ledger_adopt(l, a, 0, 201, 0), LEDGER_FULL);
	expect_eq(ledger_adopt(l, a, 0, 200, 0), 0);
}

TEST(memory_that_an_account_may_hold_is_reserved_in_none_that_is_no_longer_around_it)
{
	given(0);
	ledger_expect(l, alice[0], 1, 300);
	ask(b, 1, 201, 1);
	expect_eq(next_action(1), 0);
	ledger_lift(alice[0]);
	expect_action(2, LEDGER_GRANT, b, 201);
}

TEST(nothing_is_recalled_for_an_ask_that_no_account_around_could_ever_grant)
{
	given(0);
	ask(a, 1, 400, 1);
	expect_action(1, LEDGER_GRANT, a, 400);
	ledger_report(l, a, 100);
	ledger_set_limit(l, alice[1], 1000, 0);
	ask(b, 2, 501, 1);
	expect_action(1, LEDGER_REFUSE, b, LEDGER_PART);
}

TEST(room_within_is_waited_for_and_holds_up_nobody_else)
{
	given(1000 * ms);
	hold(a, 400);
	ask(b, 1, 200, 10 * ms);
	expect_eq(next_action(10 * ms), 0);
	ask(c, 2, 500, 11 * ms);
	expect_action(11 * ms, LEDGER_GRANT, c, 500);
	expect_eq(ledger_return(l, a, 100, 0), 0);
	expect_action(12 * ms, LEDGER_GRANT, b, 200);
}

TEST(a_tenant_that_waited_in_vain_for_room_within_is_told_so)
{
	given(1000 * ms);
	hold(a, 400);
	ask(b, 1, 200, 10 * ms);
	expect_eq(next_action(10 * ms), 0);
	expect_action(1010 * ms, LEDGER_REFUSE, b, LEDGER_DEADLINE);
}

TEST(a_guess_within_the_enclosing_account_is_awaited)
{
	struct ledger_request context = {.id = 1, .bytes = 300, .residual = LEDGER_RESIDUAL};

	given(0);
	expect_eq(ledger_ask(l, b, &context, 0), 0);
	expect_action(0, LEDGER_GRANT, b, 300);
	ask(a, 2, 300, 0);
	expect_eq(next_action(0), 0);
	expect_action(500 * ms, LEDGER_REFUSE, a, LEDGER_PART);
}

TEST(memory_outside_is_no_room_and_is_waited_for)
{
	struct ledger_sums sums;

	given(1000 * ms);
	ledger_outside(l, 0, 700);
	ledger_device_sums(l, 0, &sums);
	expect_eq(sums.room, 300);
	expect_eq(sums.outside, 700);
	ask(c, 1, 400, 10 * ms);
	expect_eq(next_action(10 * ms), 0);
	ledger_outside(l, 0, 600);
	expect_action(11 * ms, LEDGER_GRANT, c, 400);
	ledger_report(l, c, 400);
	ledger_outside(l, 0, 2000);
	ledger_device_sums(l, 0, &sums);
	expect_eq(sums.room, 0);
}

TEST(nobody_is_refused_by_an_old_figure_of_the_memory_outside)
{
	given(0);
	ledger_outside(l, 0, 900);
	ledger_outside_unsure(l, 0, 1);
	ask(c, 1, 400, 1);
	expect_eq(next_action(1), 0);
	ledger_outside(l, 0, 100);
	ledger_outside_unsure(l, 0, 0);
	expect_action(1, LEDGER_GRANT, c, 400);
	ledger_report(l, c, 400);
	ledger_outside_unsure(l, 0, 1);
	ask(c, 2, 600, 1);
	expect_eq(next_action(1), 0);
	ledger_outside_unsure(l, 0, 0);
	expect_action(1, LEDGER_REFUSE, c, LEDGER_FULL);
}

/* A tree of accounts: a root, two below it, and leaves below those. */
static struct ledger_account *root, *inner[2], *leaf[LEAVES];
static struct ledger_holder *holder[HOLDERS];
static uint64_t granted[HOLDERS], limit_of_inner[2], limit_of_root, outside;

static int inner_of(int of)
{
	return of % LEAVES % 2;
}

/* When `who` has just been granted something. */
static void laws(int who)
{
	uint64_t all = 0, part = 0;

	for (int i = 0; i < HOLDERS; i++) {
		all += granted[i];
		part += inner_of(i) == inner_of(who) ? granted[i] : 0;
	}
	expect(part <= limit_of_inner[inner_of(who)]);
	expect(all <= limit_of_root);
	expect(all + outside <= 1000);
}

static void settle(uint64_t now)
{
	while (next_action(now)) {
		int who = 0;

		while (holder[who] != action.holder)
			who++;
		if (action.verb == LEDGER_GRANT) {
			granted[who] += action.bytes;
			laws(who);
			ledger_report(l, holder[who], test_random_below(granted[who] + 1));
		} else if (action.verb == LEDGER_RECALL) {
			uint64_t back = test_random_below(action.bytes + 1);

			expect_eq(ledger_return(l, holder[who], back, 1), 0);
			granted[who] -= back;
		}
	}
}

static void step(uint64_t now)
{
	int who = (int)test_random_below(HOLDERS);
	uint64_t some = test_random_below(300), back;
	struct ledger_request request = {.id = 1, .bytes = some + 1, .want = some + 20};

	switch (test_random_below(6)) {
	case 0:
	case 1:
		request.may_wait = (uint32_t)test_random_below(2);
		best_effort(ledger_ask(l, holder[who], &request, now));
		break;
	case 2:
		back = test_random_below(granted[who] + 1);
		expect_eq(ledger_return(l, holder[who], back, 0), 0);
		granted[who] -= back;
		break;
	case 3:
		limit_of_inner[who % 2] = test_random_below(800);
		ledger_set_limit(l, inner[who % 2], limit_of_inner[who % 2], 0);
		break;
	case 4:
		outside = test_random_below(400);
		ledger_outside(l, 0, outside);
		break;
	default:
		ledger_leave(l, holder[who]);
		granted[who] = 0;
		holder[who] = ledger_join(l, leaf[who % LEAVES], NULL);
		expect(holder[who] != NULL);
	}
}

TEST(no_history_grants_more_than_any_account_around_may_have)
{
	for (int history = 0; history < 40; history++) {
		uint64_t now = ms;

		free(l);
		l = make(3 + LEAVES, HOLDERS + 1);
		ledger_set_device(l, 0, 1000, 0);
		limit_of_root = 900;
		outside = 0;
		root = ledger_open(l, 0, limit_of_root, 0);
		for (int i = 0; i < 2; i++) {
			limit_of_inner[i] = 500;
			inner[i] = ledger_open(l, 0, limit_of_inner[i], 0);
			ledger_put_within(inner[i], root);
		}
		for (int i = 0; i < LEAVES; i++) {
			leaf[i] = ledger_open(l, 0, 400, test_random_below(2) * 50 * ms);
			ledger_put_within(leaf[i], inner[inner_of(i)]);
		}
		for (int i = 0; i < HOLDERS; i++) {
			holder[i] = ledger_join(l, leaf[i % LEAVES], NULL);
			granted[i] = 0;
		}
		for (int i = 0; i < STEPS; i++) {
			step(now);
			settle(now);
			now += test_random_below(30) * ms;
		}
	}
}
