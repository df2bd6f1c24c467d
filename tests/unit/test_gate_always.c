/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/gate.h against random histories of tenants on a device: set, suspend, resume,
 * join, leave, meted killed, of memory that moves and memory that does not, of work that does not
 * end and work that waits for its own threads. The gates are changed where node/time/gate.c changes
 * them: only after an action of core/turns, or an event that gate.def names. METE_SEED repeats a
 * history.
 */
#include "tests/unit/gate_guests.h"

enum { MORE_HISTORIES = 8 };

/* ---- events ---------------------------------------------------------------------------------- */

static void draw_share(struct turns_share *ret)
{
	machines_usual_share(ret);
	ret->weight = 50 + (uint32_t)below(300);
	ret->weighted = below(2);
	ret->cap_milli = below(4) ? 1000 : 200 + (uint32_t)below(700);
	ret->class = (enum share_class)below(3);
	ret->escalate = below(3) ? TURNS_ONLY_REPORT : TURNS_MAY_SUSPEND;
}

static void join_residency(struct guest *g)
{
	g->moves = true;
	g->order = g->credit = g->drop = 0;
	g->stop = false;
	residency_join(&w.m.r, &g->member, &g->seat, g, 4 * CAPACITY, w.m.now);
	if (g->suspended)
		residency_still_suspended(&g->member, w.m.now);
	if (g->wants)
		residency_wants(&g->member, w.m.now);
}

static void take_seat(struct guest *g)
{
	turns_join(&g->seat, &g->tenant, &w.m.device, g, g->gate != GATE_SHUT_OFF, w.m.now);
	if (g->wants)
		turns_wants(&g->seat, w.m.now);
}

static void join(struct guest *g)
{
	struct turns_share share;
	uint64_t bytes = 1 + below(CAPACITY / 2);

	*g = (struct guest){.there = true, .wants = true};
	draw_share(&share);
	turns_tenant_init(&w.m.turns, &g->tenant, &share);
	take_seat(g);
	pump();
	if (below(3) == 0)
		return;
	join_residency(g);
	/* The rest is of a program all of whose memory was allocated before, and cannot move. */
	switch (below(3) ? residency_ask(&g->member, bytes, w.m.now) : RESIDENCY_LARGE) {
	case 0:
		g->here = bytes;
		break;
	case RESIDENCY_WAITS:
		g->asked = bytes;
		break;
	default:
		break;
	}
}

static void leave(struct guest *g)
{
	if (g->moves)
		residency_cleared(&w.m.r, residency_leave(&g->member, w.m.now), w.m.now);
	turns_leave(&g->seat, w.m.now);
	g->there = g->unheard = false;
}

static void set(struct guest *g)
{
	struct turns_share share;

	draw_share(&share);
	turns_set(&g->tenant, &share, w.m.now);
	if (!g->moves && below(2))
		join_residency(g);
	apply(g);
}

static void suspend(struct guest *g, bool suspended)
{
	if (g->moves && residency_suspend(&g->member, suspended, NULL, w.m.now) == 0)
		g->suspended = suspended;
}

static void shut(struct guest *g, bool is_shut)
{
	g->shut = is_shut;
	apply(g);
}

static void hear(struct guest *g)
{
	if (!g->unheard)
		return;
	g->unheard = false;
	residency_adopt(&g->member, g->here, g->out, w.m.now);
	apply(g);
}

static void begin(void)
{
	struct residency_tuning tuning = machines_tuning(CHUNK);

	tuning.run_ns = 300 * MS;
	tuning.delay_ns = 10 * MS;
	machines_begin(&w.m, &tuning, CAPACITY, (uint64_t)4 * TENANTS * CAPACITY);
}

/* meted is killed: all that it knew is gone, but for the shares, and which tenants are suspended.
 */
static void restart(void)
{
	w.restarts++;
	begin();
	for (int i = 0; i < TENANTS; i++) {
		struct guest *g = &w.guests[i];
		struct turns_share share = g->tenant.share;

		if (!g->there)
			continue;
		turns_tenant_init(&w.m.turns, &g->tenant, &share);
		memset(&g->seat, 0, sizeof(g->seat));
		g->shut = false;
		g->asked = 0;
		take_seat(g);
		g->unheard = g->moves;
		if (g->moves)
			join_residency(g);
		apply(g);
	}
}

static void tick(uint64_t ns)
{
	machines_pass(&w.m, ns, &guests);
}

static void happen(struct guest *g)
{
	if (!g->there) {
		if (below(4) == 0)
			join(g);
		return;
	}
	switch (below(40)) {
	case 0:
		leave(g);
		break;
	case 1:
	case 2:
		set(g);
		break;
	case 3:
	case 4:
		suspend(g, true);
		break;
	case 5:
	case 6:
		suspend(g, false);
		break;
	case 7:
		shut(g, !g->shut);
		break;
	case 8:
		g->ends_ns = w.m.now + below(8000 * MS);
		break;
	case 9:
		if (below(4) == 0)
			restart();
		break;
	case 10:
		if (g->moves)
			residency_park(&g->member, below(4) ? 50 * MS : 0, w.m.now);
		break;
	case 11:
	case 12:
	case 13:
		want(g, !g->wants);
		break;
	case 14:
	case 15:
		hear(g);
		break;
	default:
		step(g);
	}
}

static bool yields(const struct guest *g)
{
	return g->moves && g->member.yields;
}

static bool is_batch(const struct guest *g)
{
	return g->tenant.share.class == SHARE_BATCH;
}

/* Does each tenant that does not yield get to compute, and do so to the end? `alone`: those of
 * class batch have the device to themselves, as soon as the others have found their gates open. */
static bool all_compute(const unsigned *before, bool alone)
{
	bool all = false;

	for (unsigned ms = 0; ms < SETTLED_MS && !all; ms++) {
		all = true;
		for (int i = 0; i < TENANTS; i++) {
			struct guest *g = &w.guests[i];

			if (!g->there)
				continue;
			if (alone && !is_batch(g))
				want(g, false);
			step(g);
			all &= g->computed > before[i] || (!alone && yields(g));
		}
		tick(MS);
		if (ms % 16 == 0)
			check();
	}
	return all;
}

/* Laws 2 and 3: all that somebody did is undone, and everybody wants to run. */
static void settle(void)
{
	unsigned before[TENANTS];
	struct turns_share share;

	for (int i = 0; i < TENANTS; i++) {
		struct guest *g = &w.guests[i];

		if (!g->there)
			continue;
		hear(g);
		pump();
		shut(g, false);
		/* Its last kernel may be a long one. */
		share = g->tenant.share;
		share.escalate = TURNS_ONLY_REPORT;
		turns_set(&g->tenant, &share, w.m.now);
		apply(g);
		suspend(g, false);
		pump();
		want(g, true);
		pump();
		before[i] = g->computed;
	}
	expect(all_compute(before, false));
	for (int i = 0; i < TENANTS; i++)
		expect(!w.guests[i].there || !yields(&w.guests[i]) || is_batch(&w.guests[i]));
	expect(all_compute(before, true));
}

static bool all_seen(const unsigned *seen)
{
	for (unsigned i = 0; i < GATE_REASONS; i++) {
		if (!seen[i])
			return false;
	}
	return true;
}

/* Some reasons are rare: there are more histories until each was seen. */
TEST(a_gate_is_open_if_and_only_if_there_is_no_reason_and_each_reason_ends)
{
	unsigned rounds = test_rounds(HISTORIES), restarts = 0, seen[GATE_REASONS] = {0};

	for (unsigned round = 0;
	     round < rounds || (!all_seen(seen) && round < MORE_HISTORIES * rounds); round++) {
		memset(&w, 0, sizeof(w));
		w.m.now = 1000 * MS;
		begin();
		for (unsigned i = 0; i < STEPS; i++) {
			happen(&w.guests[below(TENANTS)]);
			machines_go_on(&w.m, &guests, check);
		}
		settle();
		restarts += w.restarts;
		for (unsigned i = 0; i < GATE_REASONS; i++)
			seen[i] += w.seen[i];
	}
	/* All of it happened. */
	expect(restarts);
	for (unsigned i = 0; i < GATE_REASONS; i++)
		if (!seen[i])
			test_fail(__FILE__, __LINE__, "never seen: %s", gate_name(i));
}

/* ---- each by itself -------------------------------------------------------------------------- */

static struct guest *given(bool moves)
{
	memset(&w, 0, sizeof(w));
	w.m.now = 1000 * MS;
	begin();
	for (int i = 0; i < 2; i++) {
		struct turns_share share;
		struct guest *g = &w.guests[i];

		machines_usual_share(&share);
		share.weighted = true;
		*g = (struct guest){.there = true, .wants = true};
		turns_tenant_init(&w.m.turns, &g->tenant, &share);
		take_seat(g);
		pump();
		if (moves)
			join_residency(g);
		pump();
	}
	return &w.guests[0];
}

static void pass(unsigned ms)
{
	for (; ms; ms--) {
		step(&w.guests[0]);
		step(&w.guests[1]);
		tick(MS);
	}
}

TEST(a_suspended_tenant_that_is_resumed_computes_again_though_none_of_its_memory_moves)
{
	struct guest *g = given(true);
	unsigned before;

	pass(100);
	suspend(g, true);
	pump();
	pass(1000);
	expect_eq(reasons_of(g), 1u << GATE_SUSPENDED);
	before = g->computed;
	pass(1000);
	expect_eq(g->computed, before);
	suspend(g, false);
	pump();
	pass(1000);
	expect(g->computed > before);
}

TEST(where_turns_are_taken_the_gate_of_one_is_closed_because_of_the_other)
{
	const struct guest *g = given(false);
	bool open = false, waits = false;

	for (unsigned ms = 0; ms < 1000; ms++) {
		pass(1);
		open |= !reasons_of(g);
		waits |= reasons_of(g) == 1u << GATE_TURN;
	}
	expect(open && waits);
}

TEST(a_reason_of_a_newer_meted_has_a_name)
{
	expect_str(gate_name(GATE_REASONS), "unknown");
	expect_str(gate_words(GATE_REASONS), "");
	expect_str(gate_name(GATE_TURN), "turn");
}
