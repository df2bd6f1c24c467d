/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/residency/residency.h against random histories: guests whose blocks are here,
 * each on the device, in the store, or both, that move them as they are told, at any moment, or
 * freeze, die, free and allocate meanwhile. METE_SEED repeats a history.
 */
#include "tests/unit/residency_blocks.h"

/* ---- what guests do -------------------------------------------------------------------------- */

static void evict_one(struct guest *g)
{
	struct block *b = pick(g, true);
	uint64_t copied = 0;

	if (!g->order || !b)
		return;
	if (!b->in_store && g->starved)
		return;
	if (!b->in_store || b->stored != b->written) {
		b->in_store = false;
		forget_copies(g, g->member.store_bytes - g->must_drop - b->bytes);
		copied = b->bytes;
		b->stored = b->written;
	}
	b->in_store = true;
	b->on_device = false;
	g->order -= least(g->order, b->bytes);
	w.evicted++;
	residency_left(&g->member, b->bytes, copied, w.m.now);
}

static void restore_one(struct guest *g)
{
	struct block *b = pick(g, false);

	if (!b || b->bytes > g->credit)
		return;
	expect_eq(b->stored, b->written);
	b->on_device = true;
	g->credit -= b->bytes;
	residency_came(&g->member, b->bytes, w.m.now);
}

static void move(struct guest *g)
{
	if (g->must_stop) {
		g->must_stop = false;
		g->order = g->credit = 0;
		residency_stopped(&g->member, w.m.now);
	}
	if (g->must_drop) {
		uint64_t bytes = least(g->must_drop, g->member.dropping_bytes);

		forget_copies(g, g->member.store_bytes - bytes);
		g->must_drop = 0;
		residency_dropped(&g->member, bytes, w.m.now);
	}
	pump();
	evict_one(g);
	restore_one(g);
}

static void drain(struct guest *g)
{
	if (!g->draining || (g->awaits && g->asked))
		return;
	g->draining = false;
	turns_drained(&g->seat, g->wants, w.m.now);
}

static void toggle(struct guest *g)
{
	if (g->wants && !g->open)
		return; /* it stands at the gate */
	g->wants = !g->wants;
	machines_want(&w.m, &g->seat, &g->member, g->wants);
}

static void write_some(struct guest *g)
{
	struct block *b = pick(g, true);

	if (g->open && b)
		b->written = ++g->writes;
}

static void ask(struct guest *g)
{
	uint64_t bytes = 1 + below(3 * CHUNK);
	int r;

	if (g->asked && below(4) == 0) {
		residency_cancel(&g->member, w.m.now);
		g->asked = 0;
	}
	if (g->asked || !vacant(g))
		return;
	r = residency_ask(&g->member, bytes, w.m.now);
	if (r == 0)
		allocated(g, bytes);
	else if (r == RESIDENCY_WAITS)
		g->asked = bytes;
	else
		w.asked_in_vain++;
}

static void free_one(struct guest *g)
{
	struct block *b = pick(g, below(2));
	struct block was;

	if (!b)
		return;
	was = *b;
	*b = (struct block){0};
	residency_free(&g->member, was.on_device ? was.bytes : 0, was.on_device ? 0 : was.bytes,
		       w.m.now);
	/* It may have freed memory that it was told to move. */
	g->order = least(g->order, g->member.resident_bytes);
	g->credit = least(g->credit, g->member.out_bytes);
}

static void join(struct guest *g, unsigned index)
{
	struct turns_share share;

	machines_usual_share(&share);
	share.weight = 50 + (uint32_t)below(200);
	share.class = w.honest ? SHARE_STANDARD : (enum share_class)below(3);
	*g = (struct guest){.there = true};
	turns_tenant_init(&w.m.turns, &g->tenant, &share);
	g->seat.tenant = NULL;
	turns_join(&g->seat, &g->tenant, &w.m.device, g, false, w.m.now);
	residency_join(&w.m.r, &g->member, &g->seat, g,
		       index % 3 == 2 && !w.honest ? w.capacity / 2 : w.budget, w.m.now);
}

static void die(struct guest *g)
{
	w.unclear += residency_leave(&g->member, w.m.now);
	turns_leave(&g->seat, w.m.now);
	g->there = false;
}

static void refuse_credit(struct guest *g)
{
	uint64_t bytes = least(g->credit, CHUNK);

	if (!bytes || (w.honest && w.m.r.missing_bytes))
		return;
	g->credit -= bytes;
	residency_unused(&g->member, bytes, w.m.now);
}

/* Somebody keeps a part of the store, or gives it back; and this one finds no room there, or does.
 */
static void fill_store(struct guest *g)
{
	w.kept = below(2) ? below(w.budget + 1) : 0;
	residency_budget(&w.m.r, w.budget - w.kept, w.m.now);
	residency_keeps(&w.guests[0].member, w.guests[0].there ? w.kept : 0);
	g->starved = w.kept && !g->starved;
	residency_starves(&g->member, g->starved, sum_of(g, false), w.m.now);
}

/* What a restarted daemon knows of a guest: what it states. Its orders are void. */
static void come_back(struct guest *g, uint64_t quota)
{
	struct turns_share share = g->tenant.share;

	g->open = g->draining = g->must_stop = g->starved = false;
	g->order = g->credit = g->must_drop = 0;
	forget_copies(g, sum_out(g));
	turns_tenant_init(&w.m.turns, &g->tenant, &share);
	g->seat.tenant = NULL;
	turns_join(&g->seat, &g->tenant, &w.m.device, g, false, w.m.now);
	residency_join(&w.m.r, &g->member, &g->seat, g, quota, w.m.now);
	residency_adopt(&g->member, sum_of(g, true), sum_out(g), w.m.now);
	machines_want(&w.m, &g->seat, &g->member, g->wants);
}

/* Nothing is ordered before all have come back. Then who had been told to wait asks again: what was
 * admitted is not refused. */
static void restart(void)
{
	const struct residency_tuning tuning = w.m.r.tuning;
	uint64_t quota[GUESTS];
	unsigned stuck = w.stuck;

	for (int i = 0; i < GUESTS; i++)
		quota[i] = w.guests[i].member.quota_bytes;
	machines_begin(&w.m, &tuning, w.capacity, w.budget);
	w.unclear = w.kept = 0;
	for (int i = 0; i < GUESTS; i++) {
		if (w.guests[i].there)
			come_back(&w.guests[i], quota[i]);
	}
	w.m.now += below(2 * tuning.patience_ns);
	pump();
	expect_eq(w.stuck, stuck); /* their gates are closed: nobody owes a drain */
	for (int i = 0; i < GUESTS; i++) {
		struct guest *g = &w.guests[i];
		uint64_t bytes = g->asked;
		int r = g->there && bytes ? residency_ask(&g->member, bytes, w.m.now)
					  : RESIDENCY_WAITS;

		expect(r <= RESIDENCY_WAITS);
		g->asked = r == 0 ? 0 : bytes;
		if (r == 0)
			allocated(g, bytes);
	}
	w.restarts++;
}

static void mishap(struct guest *g)
{
	switch (below(10)) {
	case 8:
		restart();
		break;
	case 7:
		fill_store(g);
		break;
	case 0:
		die(g);
		break;
	case 1:
	case 2:
		g->frozen = !g->frozen;
		break;
	case 3:
		refuse_credit(g);
		break;
	case 4:
		residency_capacity(&w.m.r, w.capacity, w.m.now);
		break;
	case 5:
		best_effort(residency_suspend(&g->member, !g->member.suspended, NULL, w.m.now));
		break;
	case 6:
		residency_park(&g->member, below(2) * 50 * MS, w.m.now);
		break;
	default:
		residency_cleared(&w.m.r, w.unclear, w.m.now);
		w.unclear = 0;
	}
}

static void act(struct guest *g)
{
	unsigned what = (unsigned)below(20);

	if (what == 0 && !w.honest) {
		mishap(g);
	} else if (g->frozen) {
		return;
	} else if (what < 3) {
		toggle(g);
	} else if (what < 6) {
		ask(g);
	} else if (what < 7) {
		free_one(g);
	} else if (what < 9) {
		write_some(g);
	} else if (what < 12) {
		drain(g);
	} else {
		move(g);
	}
}

static void tick(uint64_t ns)
{
	machines_pass(&w.m, ns, &guests);
}

static void begin(bool honest, uint64_t capacity, uint64_t budget)
{
	struct residency_tuning tuning = machines_tuning(CHUNK);

	tuning.slowest_bps = 4;
	memset(&w, 0, sizeof(w));
	w.honest = honest;
	w.m.now = 1000 * MS;
	w.capacity = capacity;
	w.budget = budget;
	machines_begin(&w.m, &tuning, capacity, budget);
}

TEST(a_block_is_never_in_neither_place_and_the_device_never_too_full)
{
	unsigned rounds = test_rounds(60), evicted = 0, admitted = 0, stuck = 0, vain = 0;
	unsigned restarts = 0;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t capacity = 8 * CHUNK + below(20 * CHUNK);

		begin(false, capacity, below(3) * capacity + below(CHUNK));
		for (unsigned i = 0; i < STEPS; i++) {
			unsigned index = (unsigned)below(GUESTS);
			struct guest *g = &w.guests[index];

			if (g->there)
				act(g);
			else
				join(g, index);
			machines_go_on(&w.m, &guests, check);
		}
		evicted += w.evicted;
		admitted += w.admitted;
		stuck += w.stuck;
		vain += w.asked_in_vain;
		restarts += w.restarts;
	}
	/* All of it happened. */
	expect(evicted && admitted && stuck && vain && restarts);
}

/* ---- nobody starves -------------------------------------------------------------------------- */

/* Drains at once, and moves a block a millisecond each way. */
static void step_honestly(struct guest *g)
{
	drain(g);
	pump();
	move(g);
	write_some(g);
	pump();
}

static void fill(struct guest *g, uint64_t bytes)
{
	for (uint64_t had = 0; had < bytes; had += CHUNK / 2) {
		if (!vacant(g) || g->asked)
			return;
		if (residency_ask(&g->member, CHUNK / 2, w.m.now) == 0)
			allocated(g, CHUNK / 2);
		else
			g->asked = CHUNK / 2;
		for (int i = 0; i < 60000 && g->asked; i++) {
			for (int k = 0; k < GUESTS; k++) {
				if (w.guests[k].there)
					step_honestly(&w.guests[k]);
			}
			tick(MS);
		}
		expect_eq(g->asked, 0);
	}
}

TEST(a_tenant_that_wants_its_memory_is_in_a_set_within_the_bound)
{
	unsigned rounds = test_histories(12);

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t capacity = 10 * CHUNK + below(10 * CHUNK), longest = 0;
		uint64_t blocks = 2 * capacity / (CHUNK / 2); /* a way, of all */
		uint64_t stay, bound;

		begin(true, capacity, GUESTS * capacity);
		for (unsigned i = 0; i < GUESTS; i++) {
			join(&w.guests[i], i);
			pump();
			fill(&w.guests[i], capacity / 3 + below(capacity / 2));
			if (!w.guests[i].wants)
				toggle(&w.guests[i]);
		}
		/* By its cost, twenty times what a movement takes: at most the longest wait. */
		stay = w.m.r.tuning.longest_ns;
		bound = w.m.r.tuning.longest_ns + GUESTS * (stay + 2 * blocks * MS);
		for (unsigned ms = 0; ms < 60000; ms++) {
			for (int i = 0; i < GUESTS; i++) {
				struct guest *g = &w.guests[i];

				step_honestly(g);
				if (below(500) == 0)
					toggle(g);
				pump();
				if (g->member.waiting && w.m.now - g->member.wanted_ns > longest)
					longest = w.m.now - g->member.wanted_ns;
			}
			tick(MS);
			if (ms % 100 == 0)
				check();
		}
		expect(longest <= bound);
		for (int i = 0; i < GUESTS; i++)
			expect(w.guests[i].member.waits > 0 || w.guests[i].seat.turns > 0);
		expect(w.m.r.left_bytes > 0);
	}
}

/* ---- work that waits for the thread that asks -------------------------------------------------
 */

static void free_all(struct guest *g)
{
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &g->blocks[i];

		if (b->bytes)
			residency_free(&g->member, b->on_device ? b->bytes : 0,
				       b->on_device ? 0 : b->bytes, w.m.now);
		b->bytes = 0;
	}
}

/* While its gate is open it asks for a block more, until it has so much; then it frees all. */
static void ask_on(struct guest *g, uint64_t bytes)
{
	if (g->asked || !g->open)
		return;
	if (g->member.resident_bytes + g->member.out_bytes >= bytes)
		free_all(g);
	g->asked_ns = w.m.now;
	if (residency_ask(&g->member, CHUNK, w.m.now) == 0)
		allocated(g, CHUNK);
	else
		g->asked = CHUNK;
}

/* Beside tenants that do not fit on the device together. Its ask is one wait of law 6. */
TEST(a_tenant_whose_work_waits_for_its_memory_gets_it_within_the_bound)
{
	unsigned rounds = test_histories(12), granted = 0;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t capacity = 12 * CHUNK + below(8 * CHUNK), longest = 0, bound;

		begin(true, capacity, GUESTS * capacity);
		for (unsigned i = 0; i < 3; i++) {
			join(&w.guests[i], i);
			pump();
			if (i)
				fill(&w.guests[i], capacity * 6 / 10 + below(capacity * 3 / 10));
			toggle(&w.guests[i]);
		}
		w.guests[0].awaits = true;
		bound = 3 * w.m.r.tuning.longest_ns;
		for (unsigned ms = 0; ms < 60000; ms++) {
			ask_on(&w.guests[0], capacity / 2);
			for (int i = 0; i < 3; i++)
				step_honestly(&w.guests[i]);
			granted += !w.guests[0].asked;
			if (w.guests[0].asked && w.m.now - w.guests[0].asked_ns > longest)
				longest = w.m.now - w.guests[0].asked_ns;
			tick(MS);
			if (ms % 100 == 0)
				check();
		}
		expect(longest <= bound);
		expect(w.guests[1].member.waits > 0 && w.guests[2].member.waits > 0);
	}
	expect(granted);
}
