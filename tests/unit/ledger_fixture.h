/* SPDX-License-Identifier: Apache-2.0 */
/* For the examples of core/ledger: a device, two accounts, three holders. */
#pragma once

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
static inline void given(uint64_t limit_one, uint64_t limit_two, uint64_t wait_ns)
{
	struct ledger_limits limits = {.devices = 1,
				       .accounts = 2,
				       .holders = 4,
				       .asks = 8,
				       .asks_per_holder = 3,
				       .recall_ns = 200 * ms,
				       .refresh_ns = 20 * ms,
				       .guess_ns = 500 * ms};

	expect(ledger_size(&limits) <= sizeof(room));
	l = ledger_init(room, &limits);
	ledger_set_device(l, 0, 1000, 100);
	one = ledger_open(l, 0, limit_one, wait_ns);
	two = ledger_open(l, 0, limit_two, wait_ns);
	a = ledger_join(l, one, NULL);
	b = ledger_join(l, one, NULL);
	c = ledger_join(l, two, NULL);
}

static inline void ask(struct ledger_holder *who, uint64_t id, uint64_t bytes, uint64_t now)
{
	struct ledger_request request = {.id = id, .bytes = bytes, .want = bytes, .may_wait = 1};

	expect_eq(ledger_ask(l, who, &request, now), 0);
}

/* Holders' reports are always up to date here. */
static inline int next_action(uint64_t now)
{
	int any;

	do
		any = ledger_next(l, now, &action);
	while (any && action.verb == LEDGER_REFRESH);
	return any;
}

static inline void expect_action(uint64_t now, enum ledger_verb verb, struct ledger_holder *who,
				 uint64_t bytes)
{
	expect_eq(next_action(now), 1);
	expect_eq(action.verb, verb);
	expect(action.holder == who);
	expect_eq(action.bytes, bytes);
}

static inline void expect_quiet(uint64_t now)
{
	expect_eq(next_action(now), 0);
}

static inline void granted(struct ledger_holder *who, uint64_t bytes)
{
	ask(who, 1, bytes, 0);
	expect_action(0, LEDGER_GRANT, who, bytes);
}

static inline struct ledger_sums sums(struct ledger_holder *who)
{
	struct ledger_sums s;

	ledger_holder_sums(who, &s);
	return s;
}
