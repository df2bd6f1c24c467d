/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Class batch yields (core/residency/residency_yield.c): cases, and random histories of honest
 * members whose memory moves at 1 MiB a millisecond. METE_SEED repeats a history.
 */
#include "base/least.h"
#include "core/residency/residency.h"
#include "tests/test.h"

#define MS  1000000ull
#define MIB (1024ull * 1024)

enum { MEMBERS = 6, CAPACITY = 1024, CHUNK = 16, RUN_MS = 500, DELAY_MS = 20 };

static struct {
	struct turns turns;
	struct turns_device device;
	struct residency r;
	struct turns_tenant tenants[MEMBERS];
	struct turns_seat seats[MEMBERS];
	struct residency_member m[MEMBERS];
	uint64_t evict[MEMBERS], credit[MEMBERS], granted[MEMBERS], drop[MEMBERS];
	bool stop[MEMBERS];
	uint64_t waits_since[MEMBERS]; /* of a higher class; 0: it does not */
	unsigned yielded;
	uint64_t now;
} w;

static void obey_turn(const struct turns_action *a)
{
	size_t i = (size_t)(a->seat - w.seats);

	if (a->verb == TURNS_CLOSE)
		turns_drained(a->seat, w.m[i].wants, w.now);
}

static void obey(const struct residency_action *a)
{
	size_t i = (size_t)(a->member - w.m);

	w.evict[i] += a->verb == RESIDENCY_EVICT ? a->bytes : 0;
	w.credit[i] += a->verb == RESIDENCY_CREDIT ? a->bytes : 0;
	w.granted[i] += a->verb == RESIDENCY_GRANT ? a->bytes : 0;
	w.drop[i] += a->verb == RESIDENCY_DROP ? a->bytes : 0;
	w.stop[i] |= a->verb == RESIDENCY_STOP;
	expect(a->verb != RESIDENCY_STUCK);
}

static void pump(void)
{
	struct turns_action turn;
	struct residency_action move;

	for (;;) {
		while (turns_next(&w.turns, &turn))
			obey_turn(&turn);
		if (residency_next(&w.r, w.now, &move))
			obey(&move);
		else if (turns_next(&w.turns, &turn))
			obey_turn(&turn);
		else
			return;
	}
}

/* The bytes that it was told, a chunk at most. */
static void move(size_t i)
{
	uint64_t out = least(w.evict[i], CHUNK * MIB), in = least(w.credit[i], CHUNK * MIB);

	if (w.stop[i]) {
		w.stop[i] = false;
		w.evict[i] = w.credit[i] = 0;
		residency_stopped(&w.m[i], w.now);
		return;
	}
	w.evict[i] -= out;
	w.credit[i] -= in;
	if (out)
		residency_left(&w.m[i], out, out, w.now);
	if (in)
		residency_came(&w.m[i], in, w.now);
	if (w.drop[i])
		residency_dropped(&w.m[i], w.drop[i], w.now);
	w.drop[i] = 0;
}

static bool is_batch(size_t i)
{
	return w.tenants[i].share.class == SHARE_BATCH;
}

/* Law 9, its first part. */
static void check(void)
{
	bool above = w.r.above_bytes != 0;

	for (size_t i = 0; i < MEMBERS; i++)
		above |=
			w.m[i].residency && !is_batch(i) &&
			(w.m[i].wants || w.m[i].asked_bytes || w.now < w.m[i].idle_ns + 60000 * MS);
	for (size_t i = 0; i < MEMBERS; i++) {
		const struct residency_member *m = &w.m[i];

		if (!m->residency)
			continue;
		expect(!m->yields || (is_batch(i) && above));
		expect(!m->yields || m->wants || m->asked_bytes);
		w.yielded += m->yields && m->place != RESIDENCY_IN;
	}
}

static void pass(uint64_t ms)
{
	for (; ms; ms--) {
		w.now += MS;
		turns_tick(&w.turns, w.now);
		residency_tick(&w.r, w.now);
		pump();
		for (size_t i = 0; i < MEMBERS && w.now / MS % CHUNK == 0; i++)
			if (w.m[i].residency)
				move(i);
		pump();
		check();
	}
}

static void given(void)
{
	struct residency_tuning tuning = residency_usual;

	tuning.chunk_bytes = CHUNK * MIB;
	tuning.window_bytes = 4 * CHUNK * MIB;
	tuning.longest_ns = 3000 * MS;
	tuning.run_ns = RUN_MS * MS;
	tuning.delay_ns = DELAY_MS * MS;
	memset(&w, 0, sizeof(w));
	w.now = 100000 * MS;
	turns_init(&w.turns, &turns_usual);
	turns_device_init(&w.turns, &w.device, 0);
	residency_init(&w.r, &tuning, CAPACITY * MIB, (uint64_t)MEMBERS * CAPACITY * MIB);
}

static int given_member(size_t i, enum share_class class, uint64_t mib)
{
	struct turns_share share;
	struct share usual;
	int r;

	share_init(&usual);
	turns_share_of(&usual, &share);
	share.class = class;
	turns_tenant_init(&w.turns, &w.tenants[i], &share);
	turns_join(&w.seats[i], &w.tenants[i], &w.device, NULL, false, w.now);
	residency_join(&w.r, &w.m[i], &w.seats[i], NULL, UINT64_MAX, w.now);
	pump();
	r = residency_ask(&w.m[i], mib * MIB, w.now);
	pump();
	return r;
}

static void wants(size_t i)
{
	turns_wants(&w.seats[i], w.now);
	residency_wants(&w.m[i], w.now);
	pump();
}

static void idles(size_t i)
{
	turns_idle(&w.seats[i], w.now);
	residency_idle(&w.m[i], w.now);
	pump();
}

static bool runs(size_t i)
{
	return w.m[i].place == RESIDENCY_IN && !w.m[i].yields;
}

/* A batch job that has run for a while, and fills most of the device. */
static void given_batch(uint64_t mib)
{
	given();
	expect_eq(given_member(0, SHARE_BATCH, mib), 0);
	wants(0);
	pass(RUN_MS + 1);
}

TEST(batch_is_parked_while_a_higher_class_needs_the_room_and_comes_back_then)
{
	given_batch(800);
	expect_eq(given_member(1, SHARE_STANDARD, 600), RESIDENCY_WAITS);
	pass(DELAY_MS + 600);
	expect_eq(w.granted[1], 600 * MIB);
	wants(1);
	/* For as long as that wants it, whatever its turn and its weight are. */
	pass(60000);
	expect(runs(1) && w.m[0].yields && w.m[0].place == RESIDENCY_OUT);
	expect_eq(w.r.left_bytes, w.m[0].left_bytes);
	/* No more of it has left than is needed. */
	expect(w.m[0].out_bytes <= (800 + 600 + CHUNK) * MIB - CAPACITY * MIB);
	idles(1);
	pass(2000);
	expect(runs(0));
	expect_eq(w.m[0].resident_bytes, 800 * MIB);
}

TEST(batch_that_has_just_come_runs_for_a_while_first)
{
	given();
	expect_eq(given_member(0, SHARE_BATCH, 800), 0);
	wants(0);
	expect_eq(given_member(1, SHARE_INTERACTIVE, 600), RESIDENCY_WAITS);
	pass(RUN_MS - 1);
	expect(runs(0));
	pass(2);
	expect(!runs(0));
}

TEST(a_higher_class_waits_for_a_moment_before_batch_is_parked)
{
	given_batch(800);
	expect_eq(given_member(1, SHARE_INTERACTIVE, 600), RESIDENCY_WAITS);
	pass(DELAY_MS - 1);
	expect(runs(0));
	residency_cancel(&w.m[1], w.now);
	pump();
	pass(1000);
	expect(runs(0));
	expect_eq(w.r.left_bytes, 0);
}

TEST(batch_that_has_come_back_runs_for_a_while_again)
{
	given_batch(800);
	expect_eq(given_member(1, SHARE_STANDARD, 600), RESIDENCY_WAITS);
	pass(DELAY_MS + 600);
	wants(1);
	pass(2 * RUN_MS);
	expect(!runs(0));
	idles(1);
	while (!runs(0))
		pass(1);
	wants(1);
	pass(RUN_MS - 2);
	expect(runs(0));
	pass(2 + DELAY_MS);
	expect(!runs(0));
}

TEST(of_two_batch_tenants_the_one_that_had_less_stays_beside_a_higher_class)
{
	for (size_t less = 0; less < 2; less++) {
		given_batch(400);
		expect_eq(given_member(1, SHARE_BATCH, 400), 0);
		wants(1);
		pass(RUN_MS + 1);
		w.m[1 - less].virtual_ns += 1000000 * MS;
		expect_eq(given_member(2, SHARE_INTERACTIVE, 600), RESIDENCY_WAITS);
		pass(DELAY_MS + 1);
		expect(w.m[1 - less].place != RESIDENCY_IN);
		expect_eq(w.m[less].place, RESIDENCY_IN);
	}
}

TEST(a_batch_tenant_that_fits_beside_a_higher_class_is_not_parked)
{
	given_batch(300);
	expect_eq(given_member(1, SHARE_BATCH, 400), 0);
	wants(1);
	pass(RUN_MS + 1);
	expect_eq(given_member(2, SHARE_INTERACTIVE, 600), RESIDENCY_WAITS);
	pass(DELAY_MS + 1000);
	wants(2);
	pass(5000);
	/* One of the two is one too many: they take turns with each other, and not with it. */
	expect(runs(2) && runs(0) + runs(1) == 1);
	expect(!w.m[0].yields || !w.m[1].yields);
	for (unsigned changes = 0, before = runs(0); changes < 2;) {
		pass(100);
		expect(runs(2));
		changes += before != runs(0);
		before = runs(0);
		expect(w.now < 100000 * MS + 200000 * MS);
	}
}

TEST(standard_is_not_parked_for_interactive)
{
	given();
	expect_eq(given_member(0, SHARE_STANDARD, 800), 0);
	wants(0);
	pass(RUN_MS + 1);
	expect_eq(given_member(1, SHARE_INTERACTIVE, 600), RESIDENCY_WAITS);
	pass(2000);
	wants(1);
	for (unsigned came = 0; came < 2; came += runs(0)) {
		pass(100);
		expect(!w.m[0].yields);
		expect(w.now < 200000 * MS);
	}
}

TEST(memory_that_cannot_move_parks_batch_too)
{
	given_batch(800);
	expect(!residency_bears(&w.r, 424 * MIB, 0));
	expect(residency_bears(&w.r, 424 * MIB, 600 * MIB));
	residency_above(&w.r, 600 * MIB);
	residency_capacity(&w.r, 424 * MIB, w.now);
	pump();
	pass(1000);
	expect(w.m[0].yields && w.m[0].place == RESIDENCY_OUT);
	expect(w.r.resident_bytes <= 424 * MIB);
	/* Memory that it asks for meanwhile it gets when it comes back. */
	expect_eq(residency_ask(&w.m[0], 100 * MIB, w.now), RESIDENCY_WAITS);
	residency_cancel(&w.m[0], w.now);
	expect_eq(residency_ask(&w.m[0], 500 * MIB, w.now), RESIDENCY_LARGE);
	/* Others take no notice. */
	expect_eq(given_member(1, SHARE_STANDARD, 100), RESIDENCY_WAITS);
	pass(DELAY_MS + 200);
	expect_eq(w.granted[1], 100 * MIB);
	wants(1);
	pass(100);
	expect(runs(1));
	residency_above(&w.r, 0);
	residency_capacity(&w.r, CAPACITY * MIB, w.now);
	pump();
	pass(2000);
	expect(runs(0) && runs(1));
}

/* Its first bytes find room; what follows waits for the higher class's end, as it does where that
 * one's memory moves. */
TEST(a_tenant_that_comes_beside_unmovable_memory_waits_for_its_end)
{
	given_batch(2);
	residency_above(&w.r, 600 * MIB);
	residency_capacity(&w.r, 424 * MIB, w.now);
	pump();
	expect_eq(residency_ask(&w.m[0], 600 * MIB, w.now), RESIDENCY_WAITS);
	pump();
	pass(2000);
	expect(w.m[0].yields && w.m[0].place == RESIDENCY_IN && !w.granted[0]);
	/* A member that fits beside it is not in its way. */
	expect_eq(given_member(1, SHARE_BATCH, 100), 0);
	wants(1);
	pass(100);
	expect(runs(1));
	residency_above(&w.r, 0);
	residency_capacity(&w.r, CAPACITY * MIB, w.now);
	pump();
	pass(2000);
	expect(!w.m[0].yields && w.granted[0] == 600 * MIB);
}

/* ---- random histories ------------------------------------------------------------------------ */

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

/* Memory of higher classes that cannot move. */
static void given_above(uint64_t bytes)
{
	if (!residency_bears(&w.r, CAPACITY * MIB - bytes, bytes))
		return;
	residency_above(&w.r, bytes);
	residency_capacity(&w.r, CAPACITY * MIB - bytes, w.now);
}

/* Members of other classes fit together, beside memory that cannot move: so none of them may wait
 * for long. */
static void happen(size_t i)
{
	struct residency_member *m = &w.m[i];

	if (!m->residency) {
		best_effort(given_member(i, i < 3 ? SHARE_BATCH : (enum share_class)below(2),
					 i < 3 ? 200 + below(700) : below(300)));
		return;
	}
	switch (below(12)) {
	case 0:
		best_effort((int)residency_leave(m, w.now));
		turns_leave(&w.seats[i], w.now);
		residency_cleared(&w.r, UINT64_MAX, w.now);
		w.evict[i] = w.credit[i] = w.drop[i] = 0;
		w.stop[i] = false;
		break;
	case 1:
	case 2:
	case 3:
	case 4:
		if (!m->wants)
			wants(i);
		break;
	case 5:
	case 6:
		if (m->wants && m->place == RESIDENCY_IN)
			idles(i);
		break;
	case 7:
		given_above(below(2) * below(120) * MIB);
		break;
	case 8:
		if (is_batch(i) && !m->asked_bytes)
			best_effort(residency_ask(m, (1 + below(200)) * MIB, w.now));
		break;
	default:
		break;
	}
}

TEST(a_higher_class_waits_for_no_batch_for_longer_than_said_and_batch_is_not_forgotten)
{
	/* The longest stay of one that has just come, the moment, and a device's worth each way. */
	const uint64_t most_ms = RUN_MS + DELAY_MS + 4 * CAPACITY + 1000;
	unsigned rounds = test_rounds(20), parked = 0;

	for (unsigned round = 0; round < rounds; round++) {
		given();
		for (unsigned step = 0; step < 300; step++) {
			happen(below(MEMBERS));
			pump();
			pass(below(4) ? below(20) : below(1000));
			for (size_t i = 0; i < MEMBERS; i++)
				if (w.m[i].residency && !is_batch(i) && w.m[i].waiting)
					expect(w.now - w.m[i].wanted_ns <= most_ms * MS);
		}
		given_above(0);
		for (size_t i = 0; i < MEMBERS; i++)
			if (w.m[i].residency && !is_batch(i) && w.m[i].wants)
				idles(i);
		for (size_t i = 0; i < MEMBERS; i++)
			if (w.m[i].residency && is_batch(i) && !w.m[i].wants)
				wants(i);
		for (size_t i = 0; i < MEMBERS; i++) {
			for (unsigned ms = 0;
			     ms < 60000 && w.m[i].residency && is_batch(i) && !runs(i); ms++)
				pass(1);
			expect(!w.m[i].residency || !is_batch(i) || runs(i));
		}
		parked += w.yielded;
	}
	expect(parked);
}
