/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/ledger/residual.h and core/ledger/residual_price.h against random histories: a
 * guest whose truth is known here, that does things at any moment of a measurement, and reports
 * them as real guests do; or lies. METE_SEED repeats a history.
 */
#include "tests/unit/residual_model.h"

/* ---- what the guest does --------------------------------------------------------------------- */

static void change(void)
{
	m.changed = 1;
	if (below(2))
		m.used = driver_says(); /* it was asked just then */
}

static void move_memory(void)
{
	uint64_t room = m.granted - m.allocated;

	m.changed = 1;
	if (m.in_driver) {
		m.allocated += m.in_driver;
		m.in_driver = 0;
		m.changes++;
	} else if (below(2) && room) {
		m.in_driver = 1 + below(room);
	} else {
		m.allocated -= below(m.allocated - m.evicted + 1);
		m.changes++;
	}
	change();
}

static void move_context(struct context *c)
{
	switch (c->stage) {
	case NONE:
		c->stage = WAITS;
		c->reserved = PRICE + below(40);
		tell(RESIDUAL_RESERVED, c->reserved);
		break;
	case WAITS:
		c->stage = THERE;
		c->bytes = below(4) ? PRICE + below(20) : 0; /* or it failed */
		change();
		break;
	case THERE:
		c->stage = TOLD;
		m.changes++;
		m.changed = 1;
		tell(RESIDUAL_SETTLED, c->reserved);
		break;
	case TOLD:
		if (c->reserved)
			break;
		*c = (struct context){0};
		m.changes++;
		change();
		tell(RESIDUAL_SETTLED, 0);
		break;
	}
}

static void evict(void)
{
	uint64_t resident = m.allocated - m.evicted;

	if (below(2))
		m.evicted += below(resident + 1);
	else
		m.evicted -= below(m.evicted + 1);
	m.changes++;
	change();
}

static void be_granted(void)
{
	m.granted += below(100);
	if (m.granted > m.most_granted)
		m.most_granted = m.granted;
	tell(RESIDUAL_GRANTED, m.granted);
}

/* A module; and memory that bypasses the guest, without a report. */
static void take_other(void)
{
	m.others++;
	m.others_bytes = below(300);
	change();
	if (below(2))
		tell(RESIDUAL_SETTLED, 0);
}

static void ask_for_it(void)
{
	switch (below(4)) {
	case 0:
		tell(RESIDUAL_ASKED, 0);
		break;
	case 1:
		tell(RESIDUAL_WATCHED, 0);
		break;
	case 2:
		tell(RESIDUAL_RETRIED, 0);
		break;
	default:
		if (m.check)
			break;
		m.check = 1;
		tell(RESIDUAL_CHECKED, 0);
		break;
	}
}

/* Rarely: another connection, or a driver that does not answer. */
static void go_wrong(void)
{
	switch (below(4)) {
	case 0:
		for (int i = 0; i < CONTEXTS; i++)
			m.contexts[i].reserved = 0;
		m.under_way = m.telling = 0;
		tell(below(2) ? RESIDUAL_GUESSED : RESIDUAL_ADOPTED, below(200));
		break;
	case 1:
		m.check = 0;
		tell(RESIDUAL_HUNG_UP, 0);
		break;
	case 2:
		tell(RESIDUAL_LATE, 0);
		expect(!m.check);
		break;
	default:
		if (!m.under_way)
			break;
		m.under_way = m.telling = 0;
		tell(RESIDUAL_FAILS, 0);
		break;
	}
}

static void step(void)
{
	uint64_t dice = below(100);

	if (dice < 22)
		begin_measuring();
	else if (dice < 44)
		end_measuring();
	else if (dice < 60)
		move_memory();
	else if (dice < 74)
		move_context(&m.contexts[below(CONTEXTS)]);
	else if (dice < 78)
		evict();
	else if (dice < 84)
		be_granted();
	else if (dice < 86)
		take_other();
	else if (dice < 98)
		ask_for_it();
	else
		go_wrong();
}

/* ---- how it ends ----------------------------------------------------------------------------- */

/* Law 5: although it never stands still. */
static void expect_an_end(void)
{
	int rounds = 0;

	end_measuring();
	m.in_a_row = 0;
	for (; m.wanted; rounds++) {
		expect(rounds <= RESIDUAL_ROUNDS);
		begin_measuring();
		m.changes++;
		m.changed = 1;
		end_measuring();
	}
	expect(!m.check);
	expect(!residual_in_flux(&m.r));
}

/* Law 1, in the end: it rests, and what was left open is tried again. */
static void expect_the_truth(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		while (m.contexts[i].stage == WAITS || m.contexts[i].stage == THERE)
			move_context(&m.contexts[i]);
	}
	if (m.in_driver)
		move_memory();
	tell(RESIDUAL_ASKED, 0);
	for (int i = 0; i < RESIDUAL_ROUNDS && m.wanted; i++) {
		begin_measuring();
		end_measuring();
	}
	expect(!m.wanted);
	if (!m.honest)
		return;
	expect_eq(residual_charge(&m.r), beside());
	expect_eq(reserved(), 0);
}

TEST(the_laws_hold_after_every_step_of_any_history)
{
	unsigned rounds = test_rounds(4000);
	uint64_t exact = 0, guesses = 0;

	for (unsigned round = 0; round < rounds; round++) {
		memset(&m, 0, sizeof(m));
		m.honest = below(4) != 0;
		for (int i = 0; i < STEPS; i++)
			step();
		expect_an_end();
		expect_the_truth();
		exact += m.exact;
		guesses += m.guesses;
	}
	expect(exact > rounds && guesses); /* these were no empty words */
}

/* Memory that pools may release is in doubt: the truth is within the bounds, and the former
 * estimate stays where it is possible. */
TEST(a_doubt_never_moves_the_charge_further_than_it_must)
{
	for (unsigned round = 0; round < test_rounds(4000); round++) {
		uint64_t held = below(200), doubt = below(held + 1), used = below(400);
		struct residual_moment now = {.allocated = held, .granted = held, .adrift = doubt};
		struct residual_event begins = {.verb = RESIDUAL_BEGINS, .moment = &now};
		struct residual_event ends = {.verb = RESIDUAL_ENDS, .moment = &now, .bytes = used};
		struct residual r = {.known = below(400), .wanted = RESIDUAL_LOUDLY};
		uint64_t before = r.known, lowest = beyond(used, held);
		uint64_t highest = beyond(used, held - doubt);

		best_effort((int)residual_step(&r, &begins));
		best_effort((int)residual_step(&r, &ends));
		expect(r.known >= lowest && r.known <= highest);
		if (before >= lowest && before <= highest)
			expect_eq(r.known, before);
		expect_eq(r.between, doubt > 0 && held > 0);
	}
}

/* ---- prices ---------------------------------------------------------------------------------- */

enum { TENANTS = 24, LIAR = TENANTS };

TEST(no_single_tenant_raises_what_a_neighbour_pays)
{
	for (unsigned round = 0; round < test_rounds(500); round++) {
		struct residual_price p = {0};
		uint64_t highest = PRICE, price;

		for (int i = 0; i < 60; i++) {
			uint64_t tenant = 1 + below(TENANTS), bytes = below(600);

			if (tenant == LIAR)
				bytes = UINT64_MAX >> below(40);
			else if (bytes > highest)
				highest = bytes;
			residual_price_learn(&p, tenant, bytes);
			expect_eq(residual_price_of(&p, tenant, PRICE),
				  bytes > PRICE ? bytes : PRICE);
			for (uint64_t other = 1; other <= TENANTS + 1; other++) {
				price = residual_price_of(&p, other, PRICE);
				expect(price >= PRICE);
				expect(other == LIAR || price <= highest);
			}
		}
		/* All report less now: it falls. */
		for (uint64_t tenant = 1; tenant <= RESIDUAL_PRICE_TENANTS; tenant++)
			residual_price_learn(&p, tenant, 100);
		expect_eq(residual_price_of(&p, TENANTS + 1, PRICE), 100);
		expect_eq(least(residual_price_of(&p, 1, PRICE), 100), 100);
	}
}
