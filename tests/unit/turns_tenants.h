/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants of test_turns_always.c, of which turns_laws.h states laws. */
#pragma once

/*
 * The laws of core/turns/turns.h against random histories: tenants on one device or several, whose
 * work ends when it likes, waits for a thread at the gate, or never ends; and which join, leave and
 * are set live. METE_SEED repeats a history.
 */
#include "core/turns/turns.h"

#include <stdlib.h>

#include "tests/test.h"

enum {
	DEVICES = 3,
	TENANTS = 7,
	STEPS = 400,
	SPANS = 512, /* remembered of a seat */
	COMPANY_TURNS = 16,
	BESIDE = 2,	  /* law 12 */
	VAIN = 4,	  /* law 8 */
	UNPAID_TURNS = 2, /* law 5 */
	HELD_TURNS = 3,	  /* law 5: a turn, and what it owed by its drain before it was held */
	DEEDS = 1 << 15,
};

#define US 1000ull
#define MS 1000000ull

/* The kind of its work. LIES: it never ends, and is often said to wait for something outside.
 * STOPS: somebody stops its processes now and then. */
enum nature { PLAIN, COUPLED, HANGS, MEETS, OUTSIDE, LIES, STOPS };

struct span {
	uint64_t from, to, part; /* part: one of so many of it is charged */
};

struct seat {
	struct turns_seat at;
	unsigned device, tenant;
	int there, open, drained, stands, idle;
	int excused; /* it was checked in vain: others may run */
	int reported;
	int moment;	     /* it was let in for another one's drain */
	int brief;	     /* law 15: for a moment, for work beside others */
	uint64_t brief_from; /* law 15: no such moment before */
	int held;	     /* law 16: at the last look its work waited for something outside */
	int stopped;	     /* law 16: its drain was given up as it was stopped */
	int let_in;	     /* law 7: its gate must be opened, as it could not drain */
	uint64_t busy_until; /* of what was submitted */
	uint64_t held_from, held_until; /* of that: it waits for something outside */
	uint64_t opened, since;		/* since: it stands at the gate */
	uint64_t began;			/* its gate was opened, or opened again */
	uint64_t ending;		/* its turn ended */
	uint64_t granted;		/* since: its turn; 0: it has none */
	uint64_t owing;			/* since: its drain was given up; 0: it was not */
	uint64_t longest_drain, longest_owed;
	int64_t left; /* of its cap, in thousandths of ns; less than 0: it has not paid */
	uint64_t left_at;
	int64_t unpaid; /* of what it had by gates that were opened although it had not paid */
	int opened_unpaid;
	uint64_t held_ns; /* law 5: of a turn that began before all was paid, as it was held */
	struct span spans[SPANS];
	unsigned span, first_span;
};

struct tenant {
	struct turns_tenant at;
	struct turns_share share;
	enum nature nature;
	uint64_t stopped_until;
	uint64_t arrivals; /* of a tenant that MEETS: it waits there for its partner */
	int there, stepped, coupled, looked, suspended;
	int seen;      /* to wait: for its own thread, or a drain of it was given up */
	unsigned vain; /* law 8: drains given up in a row although nothing is known that it waits
			  for */
	struct seat seats[DEVICES];
};

static struct {
	struct turns turns;
	struct turns_device devices[DEVICES];
	struct tenant tenants[TENANTS + 1]; /* pairs; the last one is never there */
	uint64_t now, start, longest_drain, granted[DEVICES];
	uint64_t kept[DEVICES]; /* since when others wait for a drain there; 0: they do not */
	const struct turns_seat *kept_from[DEVICES];
	uint64_t kept_turns[DEVICES];
	int natures, multi, meet, group, outside, restarts, was_governed[DEVICES];
	int verdicts, unfair[DEVICES]; /* its tenants take turns although they are alike */
	uint64_t opened, reopened, given_up, vain, reports, checks, governed, awaited, along,
		chains, unpaid, briefs, held, held_long, held_standing, stopped;
} m;

/* Law 17: what was decided in a history, which is repeated with looks in between. */
static struct {
	int on;
	uint64_t random; /* their own: the history's are not to change */
	unsigned deeds;
	struct deed {
		uint64_t at;
		uint32_t verb, tenant, device, nothing;
	} deed[DEEDS];
} looks;

static const struct turns_tuning tuning = {
	.turn_ns = 8 * MS,
	.shortest_ns = 1 * MS,
	.grace_ns = 300 * US,
	.drain_ns = 20 * MS,
	.step_ns = 250 * US,
	.beside_ns = 40 * MS,
	.hang_ns = 60 * MS,
	.escalate_ns = 30 * MS,
	.starve_ns = 400 * MS,
	.debt_ns = 100 * MS,
	.lead_ns = 40 * MS,
	.burst_ns = 5 * MS,
};

static inline uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static inline struct seat *seat_of(const struct turns_seat *at)
{
	return container_of(at, struct seat, at);
}

static inline struct tenant *tenant_of(const struct seat *s)
{
	return &m.tenants[s->tenant];
}

#define FOR_SEATS(s)                                                                               \
	for (unsigned s##_i = 0; s##_i < TENANTS * DEVICES; s##_i++)                               \
		for (struct seat *s = &m.tenants[s##_i / DEVICES].seats[s##_i % DEVICES];          \
		     s && s->there; s = NULL)

/* A thread of the tenant stands at one of its gates. */
static inline int stands(const struct tenant *t)
{
	for (unsigned d = 0; d < DEVICES; d++) {
		if (t->seats[d].there && t->seats[d].stands)
			return 1;
	}
	return 0;
}

static inline int is_stopped(const struct seat *s)
{
	return m.now < tenant_of(s)->stopped_until;
}

/* Is it said that all of its work waits for something outside of the device? */
static inline int is_held(const struct seat *s)
{
	if (tenant_of(s)->nature == LIES)
		return below(4) != 0;
	return m.now >= s->held_from && m.now < s->held_until;
}

/* Which tenants wait for each other: pairs, or all in one group. */
static inline int waits_for(const struct tenant *t, const struct tenant *other)
{
	if (t == other || t->nature != MEETS || !other->there || other->nature != MEETS)
		return 0;
	return m.group || ((size_t)(t - m.tenants) ^ 1) == (size_t)(other - m.tenants);
}

static inline void arrive(struct tenant *t)
{
	int waits = 0;

	for (unsigned i = 0; i < TENANTS; i++) {
		const struct tenant *other = &m.tenants[i];

		if (!waits_for(t, other))
			continue;
		if (other->arrivals < t->arrivals)
			return;
		waits = 1;
	}
	t->arrivals += (uint64_t)waits;
}

static inline int is_met(const struct tenant *t)
{
	for (unsigned i = 0; i < TENANTS; i++) {
		if (waits_for(t, &m.tenants[i]) && m.tenants[i].arrivals < t->arrivals)
			return 0;
	}
	return 1;
}

static inline int is_governed(const struct seat *s)
{
	return m.devices[s->device].governed;
}

static inline int is_multi(const struct tenant *t)
{
	int n = 0;

	for (unsigned d = 0; d < DEVICES; d++)
		n += t->seats[d].there && is_governed(&t->seats[d]);
	return n > 1;
}
