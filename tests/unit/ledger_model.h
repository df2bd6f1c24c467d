/* SPDX-License-Identifier: Apache-2.0 */
/* The guests of test_ledger_always.c, the ledger's right figures for them, and the laws. */
#pragma once

#include "core/ledger/ledger.h"

#include <stdlib.h>

#include "tests/test.h"

enum {
	DEVICES = 2,
	ACCOUNTS = 4,
	GUESTS = 10,
	ASKS = 4, /* per guest */
	STEPS = 250,
	RECALL_NS = 200,
	LOOK_NS = 20,
	GUESS_NS = 150,
	SURE = 1, /* asks of an account */
	MOST = 9, /* likewise */
	COMMON = 6,
};

struct model_ask {
	int open, waits, residual;
	uint64_t id, bytes, order, deadline, looks, guess_until;
	unsigned asked_at; /* step */
};

struct guest {
	struct ledger_holder *holder; /* NULL: not there */
	unsigned account;
	uint64_t granted, allocated, evicted, residual;
	uint64_t guessed; /* of residual */
	uint64_t used;	  /* by the driver */
	struct model_ask asks[ASKS];
	int recalled; /* a recall to answer */
	uint64_t recall_until;
	uint64_t recalled_order; /* the order number at its latest recall that it could not meet */
	uint64_t recall_bytes, former_order;
};

struct account {
	struct ledger_account *book;
	unsigned device;
	uint64_t limit, wait_ns;
	uint64_t most; /* charged */
	uint64_t highest_limit, bound;
	uint64_t hidden; /* held by a guest from before the daemon that has not come back yet */
	int expected, held;
	enum ledger_unsettled unsettled;
};

static struct {
	struct ledger *l;
	uint64_t capacity[DEVICES];
	struct account accounts[ACCOUNTS];
	struct guest guests[GUESTS];
	uint64_t now, order, ids, looks;
	int scarce; /* there are as many places for asks as the names above say */
} m;

static inline uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static inline struct account *account_of(const struct guest *g)
{
	return &m.accounts[g->account];
}

/* The model's own sums: scope is an account, or, where that is NULL, a device. */
static inline struct ledger_sums model_sums(const struct account *account, unsigned device)
{
	struct ledger_sums s = {0};

	for (int i = 0; i < GUESTS; i++) {
		const struct guest *g = &m.guests[i];

		if (!g->holder ||
		    (account ? account_of(g) != account : account_of(g)->device != device))
			continue;
		s.granted += g->granted;
		s.allocated += g->allocated;
		s.evicted += g->evicted;
		s.residual += g->residual;
		s.holders++;
		for (int k = 0; k < ASKS; k++)
			s.waiting += (uint32_t)g->asks[k].open;
	}
	return s;
}

static inline uint64_t used_of(const struct account *a)
{
	uint64_t sum = 0;

	for (int i = 0; i < GUESTS; i++)
		sum += m.guests[i].holder && account_of(&m.guests[i]) == a ? m.guests[i].used : 0;
	return sum;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Law 10, for one account. */
static inline uint64_t booked_of(const struct account *a)
{
	struct ledger_sums s = model_sums(a, 0);
	uint64_t cap = most(a->bound, used_of(a) + s.evicted);

	return least(s.granted + s.residual, cap) - s.evicted;
}

static inline uint64_t booked_on(unsigned device)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += m.accounts[i].device == device ? booked_of(&m.accounts[i]) : 0;
	return sum;
}

/* Memory beyond its limit that it has given back does not count for it again. */
static inline void track(void)
{
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		struct account *a = &m.accounts[i];
		struct ledger_sums s = model_sums(a, 0);

		a->bound = most(a->limit, least(a->bound, s.granted + s.residual));
	}
}

static inline void expect_same(const struct ledger_sums *got, const struct ledger_sums *wanted)
{
	expect_eq(got->granted, wanted->granted);
	expect_eq(got->allocated, wanted->allocated);
	expect_eq(got->evicted, wanted->evicted);
	expect_eq(got->residual, wanted->residual);
	expect_eq(got->waiting, wanted->waiting);
	expect_eq(got->holders, wanted->holders);
}

/* Law 3. */
static inline void expect_books_equal(void)
{
	struct ledger_sums got, wanted;

	for (unsigned i = 0; i < DEVICES; i++) {
		wanted = model_sums(NULL, i);
		ledger_device_sums(m.l, i, &got);
		expect_same(&got, &wanted);
		expect_eq(got.booked, booked_on(i));
	}
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		wanted = model_sums(&m.accounts[i], 0);
		ledger_account_sums(m.accounts[i].book, &got);
		expect_same(&got, &wanted);
		expect_eq(got.booked, booked_of(&m.accounts[i]));
		expect(got.peak >= got.allocated + got.residual);
		expect(got.peak <= m.accounts[i].most);
	}
}

static inline void note_most(void)
{
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		struct ledger_sums s = model_sums(&m.accounts[i], 0);

		if (s.granted + s.residual > m.accounts[i].most)
			m.accounts[i].most = s.granted + s.residual;
	}
}

static inline struct guest *guest_of(const struct ledger_action *action)
{
	struct guest *g = ledger_owner(action->holder);

	expect(g->holder == action->holder);
	return g;
}

static inline struct model_ask *answered(struct guest *g, const struct ledger_action *action)
{
	for (int i = 0; i < ASKS; i++) {
		struct model_ask *ask = &g->asks[i];

		if (ask->open && ask->id == action->id) {
			ask->open = 0;
			expect_eq(action->residual, ask->residual);
			return ask;
		}
	}
	test_fail(__FILE__, __LINE__, "an answer to ask %" PRIu64 ", which is not open",
		  action->id);
}

static inline uint64_t account_room(const struct account *a)
{
	struct ledger_sums s = model_sums(a, 0);
	uint64_t used = s.granted + s.residual;

	return used < a->limit ? a->limit - used : 0;
}

/* Law 14: its answer is only known after a measurement that is owed. */
static inline int awaits_owed(const struct guest *g, const struct model_ask *ask)
{
	return account_of(g)->unsettled == LEDGER_OWED && m.looks < ask->looks + LEDGER_LOOKS;
}

/* Law 5: an earlier one that lacks nothing but room on the same device goes first, until the time
 * of the later one is over. */
static inline void expect_no_one_overtaken(const struct guest *g, const struct model_ask *served)
{
	for (int i = 0; i < GUESTS && served->waits && m.now < served->deadline; i++) {
		const struct guest *other = &m.guests[i];

		if (!other->holder || account_of(other)->device != account_of(g)->device ||
		    account_of(other)->expected || account_of(other)->held)
			continue;
		for (int k = 0; k < ASKS; k++) {
			const struct model_ask *ask = &other->asks[k];

			expect(!ask->open || !ask->waits || ask->order > served->order ||
			       awaits_owed(other, ask) ||
			       ask->bytes > account_room(account_of(other)));
		}
	}
}

static inline uint64_t hidden_on(unsigned device)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += m.accounts[i].device == device ? m.accounts[i].hidden : 0;
	return sum;
}

static inline int any_expected(void)
{
	int any = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		any |= m.accounts[i].expected || m.accounts[i].held;
	return any;
}

/* Somebody's measurement may still help this ask: its own account's, or anybody's on its device. */
static inline int awaits_look(const struct model_ask *ask, const struct account *own,
			      unsigned device)
{
	int any = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		any |= m.accounts[i].unsettled &&
		       (own ? own == &m.accounts[i] : m.accounts[i].device == device);
	return any && m.looks < ask->looks + LEDGER_LOOKS;
}

/* Laws 1, 2, 6 and 14. */
static inline void on_grant(const struct ledger_action *action)
{
	struct guest *g = guest_of(action);
	struct model_ask *ask = answered(g, action);
	struct ledger_sums s;

	expect_no_one_overtaken(g, ask);
	expect(!awaits_owed(g, ask));
	expect(action->bytes >= ask->bytes);
	if (ask->residual == LEDGER_RESIDUAL) {
		g->residual += action->bytes;
		g->guessed += action->bytes;
	} else if (!ask->residual) {
		g->granted += action->bytes;
	}
	track();
	s = model_sums(account_of(g), 0);
	expect(s.granted + s.residual <= account_of(g)->limit);
	expect(!account_of(g)->expected && !account_of(g)->held);
	expect(booked_on(account_of(g)->device) + hidden_on(account_of(g)->device) <=
	       m.capacity[account_of(g)->device]);
}

/* Of an account's guests, or of a device's. */
static inline uint64_t guessed_of(const struct account *own, unsigned device)
{
	uint64_t sum = 0;

	for (int i = 0; i < GUESTS; i++) {
		const struct guest *g = &m.guests[i];

		if (g->holder && (own ? account_of(g) == own : account_of(g)->device == device))
			sum += g->guessed;
	}
	return sum;
}

/* Laws 4 and 8. */
static inline void on_refuse(const struct ledger_action *action)
{
	struct guest *g = guest_of(action);
	struct model_ask *ask = answered(g, action);
	int over = action->reason == LEDGER_OVER;
	struct account *scope = over ? account_of(g) : NULL;
	struct ledger_sums s = model_sums(scope, account_of(g)->device);
	uint64_t limit = over ? scope->limit : m.capacity[account_of(g)->device];
	uint64_t unused_bytes = s.granted - s.allocated;
	uint64_t used = over ? s.granted + s.residual : booked_on(account_of(g)->device);
	uint64_t fixed = used - least(used, unused_bytes);
	uint64_t guessed = guessed_of(scope, account_of(g)->device);

	/* Nothing that fits is refused, not even who waited behind others until its deadline. */
	if (action->reason == LEDGER_DEADLINE)
		expect(ask->waits && m.now >= ask->deadline);
	expect(used + ask->bytes > limit);
	if (over || !ask->waits)
		expect(action->reason != LEDGER_DEADLINE);
	if (action->reason != LEDGER_DEADLINE)
		expect(!awaits_look(ask, scope, account_of(g)->device));
	if (action->reason != LEDGER_DEADLINE && guessed && m.now < ask->guess_until)
		expect(used - least(used, guessed) + ask->bytes > limit);
	if (fixed + ask->bytes > limit || used + ask->bytes <= limit)
		return;
	for (int i = 0; i < GUESTS; i++) {
		const struct guest *other = &m.guests[i];

		if (!other->holder || (scope ? account_of(other) != scope
					     : account_of(other)->device != account_of(g)->device))
			continue;
		if (other->granted == other->allocated)
			continue;
		expect(other->recall_until <= m.now);
		expect(other->recall_until || other->recalled_order >= ask->order);
	}
}

static inline void on_recall(const struct ledger_action *action)
{
	struct guest *g = guest_of(action);

	expect(!g->recall_until); /* it has answered the one before, or asked */
	/* It may have used its credit since that was counted. */
	expect(action->bytes > 0 && action->bytes <= g->granted);
	g->recalled = 1;
	g->recall_until = m.now + RECALL_NS;
	g->former_order = g->recalled_order;
	g->recalled_order = m.order;
	g->recall_bytes = action->bytes;
}

static inline void report(struct guest *g)
{
	ledger_report(m.l, g->holder, g->allocated);
	ledger_report_peak(m.l, g->holder, UINT64_MAX >> below(64));
}

static inline void report_all(void)
{
	for (int i = 0; i < GUESTS; i++) {
		if (m.guests[i].holder)
			report(&m.guests[i]);
	}
}

/* Only the accounts that are asked for. */
static inline void on_refresh(const struct ledger_action *action)
{
	for (int i = 0; i < GUESTS; i++) {
		struct guest *g = &m.guests[i];

		if (g->holder && (action->account ? account_of(g)->book == action->account
						  : account_of(g)->device == action->device))
			report(g);
	}
}

/* Is any ask open, or, of those, any for which a measurement is awaited? */
static inline int any_ask(int awaiting_look)
{
	int any = 0;

	for (const struct guest *g = m.guests; g < m.guests + GUESTS; g++)
		for (int k = 0; g->holder && k < ASKS; k++)
			any |= g->asks[k].open &&
			       (!awaiting_look ||
				awaits_look(&g->asks[k], NULL, account_of(g)->device));
	return any;
}

static inline void pump(void)
{
	struct ledger_action action;
	uint64_t deadline;

	m.now++; /* what was seen at another time is not believed to be so still */
	for (int bound = 0; ledger_next(m.l, m.now, &action); bound++) {
		expect(bound < 1000);
		switch (action.verb) {
		case LEDGER_GRANT:
			on_grant(&action);
			break;
		case LEDGER_REFUSE:
			on_refuse(&action);
			break;
		case LEDGER_RECALL:
			on_recall(&action);
			break;
		case LEDGER_REFRESH:
			on_refresh(&action);
			break;
		}
	}
	deadline = ledger_deadline(m.l, m.now);
	/* Each ask that still waits has a time at which it is decided again; else no timer runs. */
	if (any_ask(0) && (any_expected() || any_ask(1)))
		expect(!deadline || deadline > m.now);
	else if (any_ask(0))
		expect(deadline > m.now && deadline <= m.now + RECALL_NS);
	else
		expect_eq(deadline, 0);
	note_most();
	if (below(2)) {
		report_all();
		expect_books_equal();
	}
}
