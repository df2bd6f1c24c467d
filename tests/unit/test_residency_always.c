/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/residency/residency.h against random histories: guests whose blocks are here,
 * each on the device, in the store, or both, that move them as they are told, at any moment, or
 * freeze, die, free and allocate meanwhile. METE_SEED repeats a history.
 */
#include "core/residency/residency.h"

#include "tests/test.h"

#define MS 1000000ull

enum {
	STEPS = 1500,
	GUESTS = 6,
	BLOCKS = 40,
	CHUNK = 16,
};

struct block {
	uint64_t bytes; /* 0: none */
	bool on_device, in_store;
	uint64_t written, stored; /* what stands in it, there and here */
};

struct guest {
	struct turns_tenant tenant;
	struct turns_seat seat;
	struct residency_member member;
	struct block blocks[BLOCKS];
	bool there, open, draining, frozen, wants, must_stop, starved;
	uint64_t order, credit, asked, must_drop, writes;
};

static struct {
	struct turns turns;
	struct turns_device device;
	struct residency r;
	struct guest guests[GUESTS];
	uint64_t now, capacity, budget, unclear, kept;
	unsigned admitted, stuck, evicted, asked_in_vain;
	bool honest; /* nobody freezes, dies or refuses */
} w;

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static uint64_t sum_of(const struct guest *g, bool device)
{
	uint64_t sum = 0;

	for (int i = 0; i < BLOCKS; i++) {
		const struct block *b = &g->blocks[i];

		if (b->bytes && (device ? b->on_device : b->in_store))
			sum += b->bytes;
	}
	return sum;
}

static uint64_t sum_out(const struct guest *g)
{
	uint64_t sum = 0;

	for (int i = 0; i < BLOCKS; i++)
		sum += g->blocks[i].on_device ? 0 : g->blocks[i].bytes;
	return sum;
}

/* Copies of what is on the device, until it has no more than `most` in the store. */
static void forget_copies(struct guest *g, uint64_t most)
{
	for (int i = 0; i < BLOCKS && sum_of(g, false) > most; i++) {
		if (g->blocks[i].on_device)
			g->blocks[i].in_store = false;
	}
}

static struct block *pick(struct guest *g, bool on_device)
{
	unsigned first = (unsigned)below(BLOCKS);

	for (unsigned i = 0; i < BLOCKS; i++) {
		struct block *b = &g->blocks[(first + i) % BLOCKS];

		if (b->bytes && b->on_device == on_device)
			return b;
	}
	return NULL;
}

static struct block *vacant(struct guest *g)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (!g->blocks[i].bytes)
			return &g->blocks[i];
	}
	return NULL;
}

static void allocated(struct guest *g, uint64_t bytes)
{
	struct block *b;

	while (bytes && (b = vacant(g))) {
		*b = (struct block){.bytes = least(bytes, 1 + below(CHUNK)), .on_device = true};
		b->written = ++g->writes;
		bytes -= b->bytes;
	}
	/* No place for another one: freed again. */
	if (bytes)
		residency_free(&g->member, bytes, 0, w.now);
}

/* ---- what the machines say ------------------------------------------------------------------- */

static void obey_turns(const struct turns_action *a)
{
	struct guest *g = a->seat->owner;

	if (a->verb == TURNS_OPEN) {
		/* Law 11 of core/turns/turns.h: but for a gate that could not be closed. */
		expect(g->member.place == RESIDENCY_IN ||
		       (g->member.place == RESIDENCY_STOPPING && g->tenant.bond != TURNS_FREE));
		g->open = true;
		g->draining = false;
	} else if (a->verb == TURNS_CLOSE) {
		g->open = false;
		g->draining = true;
	} else if (a->verb == TURNS_LATE) {
		turns_late(a->seat, false, w.now);
	}
}

static void obey(const struct residency_action *a)
{
	struct guest *g = a->member->owner;

	switch (a->verb) {
	case RESIDENCY_EVICT:
		expect(!g->open && !g->draining && !g->must_stop);
		g->order += a->bytes;
		break;
	case RESIDENCY_STOP:
		g->must_stop = true;
		break;
	case RESIDENCY_CREDIT:
		expect(!g->must_stop);
		g->credit += a->bytes;
		break;
	case RESIDENCY_GRANT:
		expect_eq(a->bytes, g->asked);
		g->asked = 0;
		allocated(g, a->bytes);
		break;
	case RESIDENCY_DROP:
		g->must_drop += a->bytes;
		break;
	case RESIDENCY_ADMITTED:
		w.admitted++;
		break;
	case RESIDENCY_STUCK:
		expect(!w.honest);
		w.stuck++;
		break;
	}
}

static void pump(void)
{
	struct turns_action turn;
	struct residency_action move;

	for (;;) {
		while (turns_next(&w.turns, &turn))
			obey_turns(&turn);
		if (residency_next(&w.r, w.now, &move))
			obey(&move);
		else if (turns_next(&w.turns, &turn))
			obey_turns(&turn);
		else
			return;
	}
}

/* ---- laws ------------------------------------------------------------------------------------ */

static void check_guest(const struct guest *g)
{
	const struct residency_member *m = &g->member;

	expect_eq(m->resident_bytes, sum_of(g, true));
	expect_eq(m->out_bytes, sum_out(g));
	expect(sum_of(g, false) <= m->store_bytes);
	expect(m->out_bytes <= m->store_bytes);
	expect(m->store_bytes <= m->quota_bytes);
	expect(m->resident_bytes + m->out_bytes <= w.capacity);
	expect(m->credit_bytes <= m->out_bytes);
	expect(m->ordered_bytes <= m->resident_bytes);
	expect(m->place == RESIDENCY_IN ? !m->out_bytes : g->seat.barred);
	expect(!g->open || !m->out_bytes);
	for (int i = 0; i < BLOCKS; i++) {
		const struct block *b = &g->blocks[i];

		if (!b->bytes)
			continue;
		expect(b->on_device || b->in_store);
		expect(b->on_device || b->stored == b->written);
	}
}

static void check(void)
{
	uint64_t resident = 0, credit = 0, missing = 0, used = w.unclear;

	for (int i = 0; i < GUESTS; i++) {
		const struct guest *g = &w.guests[i];

		if (!g->there)
			continue;
		check_guest(g);
		resident += g->member.resident_bytes;
		credit += g->member.credit_bytes;
		used += g->member.store_bytes;
		missing += g->member.missing_bytes;
	}
	expect_eq(resident, w.r.resident_bytes);
	expect_eq(credit, w.r.credit_bytes);
	expect_eq(used, w.r.used_bytes);
	expect_eq(missing, w.r.missing_bytes);
	expect(used <= w.budget);
	expect(resident + credit <= w.capacity);
}

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
	residency_left(&g->member, b->bytes, copied, w.now);
}

static void restore_one(struct guest *g)
{
	struct block *b = pick(g, false);

	if (!b || b->bytes > g->credit)
		return;
	expect_eq(b->stored, b->written);
	b->on_device = true;
	g->credit -= b->bytes;
	residency_came(&g->member, b->bytes, w.now);
}

static void move(struct guest *g)
{
	if (g->must_stop) {
		g->must_stop = false;
		g->order = g->credit = 0;
		residency_stopped(&g->member, w.now);
	}
	if (g->must_drop) {
		uint64_t bytes = least(g->must_drop, g->member.dropping_bytes);

		forget_copies(g, g->member.store_bytes - bytes);
		g->must_drop = 0;
		residency_dropped(&g->member, bytes, w.now);
	}
	pump();
	evict_one(g);
	restore_one(g);
}

static void drain(struct guest *g)
{
	if (!g->draining)
		return;
	g->draining = false;
	turns_drained(&g->seat, g->wants, w.now);
}

static void toggle(struct guest *g)
{
	if (g->wants && !g->open)
		return; /* it stands at the gate */
	g->wants = !g->wants;
	if (g->wants) {
		turns_wants(&g->seat, w.now);
		residency_wants(&g->member, w.now);
	} else {
		turns_idle(&g->seat, w.now);
		residency_idle(&g->member, w.now);
	}
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
		residency_cancel(&g->member, w.now);
		g->asked = 0;
	}
	if (g->asked || !vacant(g))
		return;
	r = residency_ask(&g->member, bytes, w.now);
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
		       w.now);
	/* What it was told to move it may have freed. */
	g->order = least(g->order, g->member.resident_bytes);
	g->credit = least(g->credit, g->member.out_bytes);
}

static void join(struct guest *g, unsigned index)
{
	struct turns_share share;
	struct share usual;

	share_init(&usual);
	turns_share_of(&usual, &share);
	share.weight = 50 + (uint32_t)below(200);
	share.class = w.honest ? SHARE_STANDARD : (enum share_class)below(3);
	*g = (struct guest){.there = true};
	turns_tenant_init(&w.turns, &g->tenant, &share);
	g->seat.tenant = NULL;
	turns_join(&g->seat, &g->tenant, &w.device, g, false, w.now);
	residency_join(&w.r, &g->member, &g->seat, g,
		       index % 3 == 2 && !w.honest ? w.capacity / 2 : w.budget, w.now);
}

static void die(struct guest *g)
{
	w.unclear += residency_leave(&g->member, w.now);
	turns_leave(&g->seat, w.now);
	g->there = false;
}

static void refuse_credit(struct guest *g)
{
	uint64_t bytes = least(g->credit, CHUNK);

	if (!bytes || (w.honest && w.r.missing_bytes))
		return;
	g->credit -= bytes;
	residency_unused(&g->member, bytes, w.now);
}

/* Somebody keeps a part of the store, or gives it back; and this one finds no room there, or does.
 */
static void fill_store(struct guest *g)
{
	w.kept = below(2) ? below(w.budget + 1) : 0;
	residency_budget(&w.r, w.budget - w.kept, w.now);
	residency_keeps(&w.guests[0].member, w.guests[0].there ? w.kept : 0);
	g->starved = w.kept && !g->starved;
	residency_starves(&g->member, g->starved, sum_of(g, false), w.now);
}

static void mishap(struct guest *g)
{
	switch (below(9)) {
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
		residency_capacity(&w.r, w.capacity, w.now);
		break;
	case 5:
		best_effort(residency_suspend(&g->member, !g->member.suspended, w.now));
		break;
	case 6:
		residency_park(&g->member, below(2) * 50 * MS, w.now);
		break;
	default:
		residency_cleared(&w.r, w.unclear, w.now);
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
	w.now += ns;
	if (turns_deadline(&w.turns) <= w.now)
		turns_tick(&w.turns, w.now);
	if (residency_deadline(&w.r) <= w.now)
		residency_tick(&w.r, w.now);
	pump();
}

static void begin(bool honest, uint64_t capacity, uint64_t budget)
{
	struct residency_tuning tuning = residency_usual;

	tuning.chunk_bytes = CHUNK;
	tuning.slowest_bps = 4;
	tuning.window_bytes = 4 * CHUNK;
	tuning.longest_ns = 3000 * MS;
	memset(&w, 0, sizeof(w));
	w.honest = honest;
	w.now = 1000 * MS;
	w.capacity = capacity;
	w.budget = budget;
	turns_init(&w.turns, &turns_usual);
	turns_device_init(&w.turns, &w.device, 0);
	residency_init(&w.r, &tuning, capacity, budget);
}

TEST(a_block_is_never_in_neither_place_and_the_device_never_too_full)
{
	unsigned rounds = test_rounds(60), evicted = 0, admitted = 0, stuck = 0, vain = 0;

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
			pump();
			tick(below(4) ? below(2 * MS) : below(300 * MS));
			check();
		}
		evicted += w.evicted;
		admitted += w.admitted;
		stuck += w.stuck;
		vain += w.asked_in_vain;
	}
	/* All of it happened. */
	expect(evicted && admitted && stuck && vain);
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
		if (residency_ask(&g->member, CHUNK / 2, w.now) == 0)
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

TEST(whoever_wants_is_in_a_set_within_the_bound)
{
	unsigned rounds = test_rounds(12);

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
		stay = w.r.tuning.longest_ns;
		bound = w.r.tuning.longest_ns + GUESTS * (stay + 2 * blocks * MS);
		for (unsigned ms = 0; ms < 60000; ms++) {
			for (int i = 0; i < GUESTS; i++) {
				struct guest *g = &w.guests[i];

				step_honestly(g);
				if (below(500) == 0)
					toggle(g);
				pump();
				if (g->member.waiting && w.now - g->member.wanted_ns > longest)
					longest = w.now - g->member.wanted_ns;
			}
			tick(MS);
			if (ms % 100 == 0)
				check();
		}
		expect(longest <= bound);
		for (int i = 0; i < GUESTS; i++)
			expect(w.guests[i].member.waits > 0 || w.guests[i].seat.turns > 0);
		expect(w.r.left_bytes > 0);
	}
}
