/* SPDX-License-Identifier: Apache-2.0 */
/* The guests of test_gate_always.c, and the laws that hold of them. */
#pragma once

#include "core/gate.h"

#include "base/least.h"
#include "tests/unit/machines.h"

enum {
	TENANTS = 5,
	STEPS = 600,
	HISTORIES = 40,
	CHUNK = 16,
	CAPACITY = 20 * CHUNK,
	SETTLED_MS = 300000 /* five sets of 30 s, and their waits for each other */
};

struct guest {
	struct turns_tenant tenant;
	struct turns_seat seat;
	struct residency_member member;
	bool there, moves; /* moves: it is a member */
	bool shut, unheard, suspended;
	enum gate_state gate;
	bool owes, wants;
	bool coupled;	    /* what it has on the device waits for its thread */
	uint64_t ends_ns;   /* its work, at the earliest */
	uint64_t here, out; /* what can move */
	uint64_t order, credit, asked, drop;
	bool stop;
	unsigned computed;
};

static struct {
	struct machines m;
	struct guest guests[TENANTS];
	/* What happened. */
	unsigned seen[GATE_REASONS], restarts;
} w;

/* ---- gates, as node/time/gate.c has them
 * ---------------------------------------------------------- */

static inline uint32_t reasons_of(const struct guest *g)
{
	const struct gate_facts facts = {
		.seat = g->there ? &g->seat : NULL,
		.member = g->there && g->moves ? &g->member : NULL,
		.shut = g->shut,
		.unheard = g->unheard,
	};

	return gate_reasons(&facts);
}

static inline void apply(struct guest *g)
{
	uint32_t reasons = reasons_of(g);

	if (reasons && g->gate == GATE_OPEN)
		g->owes = true;
	g->gate = gate_state(reasons, g->owes);
	if (g->gate == GATE_OPEN)
		g->owes = false;
	if (g->gate == GATE_SHUT_OFF)
		turns_drained(&g->seat, g->wants, w.m.now);
}

/* Its work on the device has ended. */
static inline bool has_drained(struct guest *g)
{
	return w.m.now >= g->ends_ns && !g->coupled;
}

static inline void drain(struct guest *g)
{
	if (!g->owes || g->gate != GATE_CLOSING || !has_drained(g))
		return;
	g->owes = false;
	apply(g);
}

/* ---- the machines' actions ------------------------------------------------------------------- */

static inline void obey_turns(const struct turns_action *a)
{
	struct guest *g = a->seat->owner;

	switch (a->verb) {
	case TURNS_OPEN:
		apply(g);
		if (!g->wants)
			turns_idle(&g->seat, w.m.now);
		break;
	case TURNS_CLOSE:
	case TURNS_SUSPEND:
		apply(g);
		break;
	case TURNS_LATE:
		turns_late(&g->seat, g->wants && g->ends_ns <= w.m.now, w.m.now);
		break;
	case TURNS_COUPLED:
	case TURNS_BESIDE:
	case TURNS_UNCOUPLED:
	case TURNS_AWAITS:
	case TURNS_REPORT:
	case TURNS_KILL:
		break;
	}
}

static inline void obey(const struct residency_action *a)
{
	struct guest *g = a->member->owner;

	g->order += a->verb == RESIDENCY_EVICT ? a->bytes : 0;
	g->credit += a->verb == RESIDENCY_CREDIT ? a->bytes : 0;
	g->drop += a->verb == RESIDENCY_DROP ? a->bytes : 0;
	g->stop |= a->verb == RESIDENCY_STOP;
	/* Law 5: no memory of a tenant that has a turn leaves. */
	expect(a->verb != RESIDENCY_EVICT || g->gate == GATE_SHUT_OFF);
	if (a->verb == RESIDENCY_GRANT) {
		g->here += a->bytes;
		g->asked = 0;
	}
}

static inline bool any_unheard(void)
{
	for (int i = 0; i < TENANTS; i++)
		if (w.guests[i].unheard)
			return true;
	return false;
}

static const struct machines_guests guests = {obey_turns, obey, any_unheard};

static inline void pump(void)
{
	machines_pump(&w.m, &guests);
}

/* ---- laws ------------------------------------------------------------------------------------ */

static inline void check_guest(const struct guest *g)
{
	uint32_t reasons = reasons_of(g);

	for (unsigned i = 0; i < GATE_REASONS; i++)
		w.seen[i] += gate_has(reasons, i);
	/* Law 1: no reason comes or goes by anything but the events after which gates are changed.
	 */
	expect_eq(g->gate, gate_state(reasons, g->owes));
	/* Laws 4 and 5. */
	expect(g->gate != GATE_OPEN || !g->moves || !g->member.out_bytes);
	expect(!gate_has(reasons, GATE_SUSPENDED) || g->suspended);
	if (g->suspended && g->moves && !g->member.stuck && !any_unheard())
		expect(g->gate != GATE_OPEN || g->tenant.bond != TURNS_FREE);
}

static inline void check(void)
{
	for (int i = 0; i < TENANTS; i++)
		if (w.guests[i].there)
			check_guest(&w.guests[i]);
}

/* ---- what guests do -------------------------------------------------------------------------- */

static inline void move_out(struct guest *g)
{
	uint64_t bytes = least(least(g->order, CHUNK), g->here);

	if (!bytes)
		return;
	g->order -= bytes;
	g->here -= bytes;
	g->out += bytes;
	residency_left(&g->member, bytes, bytes, w.m.now);
	apply(g);
}

static inline void move_in(struct guest *g)
{
	uint64_t bytes = least(least(g->credit, CHUNK), g->out);

	if (!bytes)
		return;
	g->credit -= bytes;
	g->out -= bytes;
	g->here += bytes;
	residency_came(&g->member, bytes, w.m.now);
	apply(g);
}

static inline void move(struct guest *g)
{
	if (!g->moves || g->unheard)
		return;
	if (g->stop) {
		g->stop = false;
		g->order = g->credit = 0;
		residency_stopped(&g->member, w.m.now);
	}
	if (g->drop)
		residency_dropped(&g->member, g->drop, w.m.now);
	g->drop = 0;
	pump();
	move_out(g);
	move_in(g);
}

static inline void want(struct guest *g, bool wants)
{
	if (g->wants == wants || (g->wants && g->gate != GATE_OPEN))
		return;
	g->wants = wants;
	machines_want(&w.m, &g->seat, g->moves ? &g->member : NULL, wants);
}

/* Through its open gate it computes, and lets its other threads get on. */
static inline void compute(struct guest *g)
{
	if (g->gate != GATE_OPEN || !g->wants)
		return;
	g->coupled = false;
	g->computed++;
	if (below(50) == 0)
		g->coupled = true;
	g->ends_ns = w.m.now + below(2 * MS);
}

static inline void step(struct guest *g)
{
	compute(g);
	drain(g);
	pump();
	move(g);
	pump();
}
