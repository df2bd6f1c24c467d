/* SPDX-License-Identifier: Apache-2.0 */
#include "core/residency/residency.h"

#include "tests/test.h"

#define MS  1000000ull
#define MIB (1024ull * 1024)
#define GIB (1024ull * MIB)

enum { MEMBERS = 4 };

static struct {
	struct turns turns;
	struct turns_device device;
	struct residency r;
	struct turns_tenant tenants[MEMBERS];
	struct turns_seat seats[MEMBERS];
	struct residency_member m[MEMBERS];
	uint64_t evict[MEMBERS], credit[MEMBERS], granted[MEMBERS], drop[MEMBERS];
	bool open[MEMBERS], stop[MEMBERS], stuck[MEMBERS], lazy[MEMBERS];
	bool stands[MEMBERS]; /* a thread of it waits at the gate */
	uint64_t now;
} w;

static void obey_turn(const struct turns_action *a)
{
	size_t i = (size_t)(a->seat - w.seats);

	if (a->verb == TURNS_OPEN)
		w.open[i] = true;
	if (a->verb == TURNS_LATE)
		turns_late(a->seat, w.stands[i], w.now);
	if (a->verb != TURNS_CLOSE)
		return;
	w.open[i] = false;
	if (!w.lazy[i])
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
	w.stuck[i] |= a->verb == RESIDENCY_STUCK;
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

static void pass(uint64_t ns)
{
	w.now += ns;
	turns_tick(&w.turns, w.now);
	residency_tick(&w.r, w.now);
	pump();
}

static void given(uint64_t capacity, uint64_t budget)
{
	memset(&w, 0, sizeof(w));
	w.now = 100000 * MS;
	turns_init(&w.turns, &turns_usual);
	turns_device_init(&w.turns, &w.device, 0);
	residency_init(&w.r, &residency_usual, capacity, budget);
}

static int given_member(int i, uint64_t bytes)
{
	struct turns_share share;
	struct share usual;
	int r;

	share_init(&usual);
	turns_share_of(&usual, &share);
	turns_tenant_init(&w.turns, &w.tenants[i], &share);
	turns_join(&w.seats[i], &w.tenants[i], &w.device, NULL, false, w.now);
	residency_join(&w.r, &w.m[i], &w.seats[i], NULL, UINT64_MAX, w.now);
	pump();
	r = residency_ask(&w.m[i], bytes, w.now);
	pump();
	return r;
}

static void wants(int i)
{
	turns_wants(&w.seats[i], w.now);
	residency_wants(&w.m[i], w.now);
	pump();
}

static void idles(int i)
{
	turns_idle(&w.seats[i], w.now);
	residency_idle(&w.m[i], w.now);
	pump();
}

/* A chunk of what is ordered leaves, and what is credited comes. Returns true if anything moved. */
static bool move_chunk(int i)
{
	uint64_t out = w.evict[i] < 64 * MIB ? w.evict[i] : 64 * MIB;
	uint64_t in = w.credit[i];

	w.evict[i] -= out;
	w.credit[i] = 0;
	if (out)
		residency_left(&w.m[i], out, out, w.now);
	if (in)
		residency_came(&w.m[i], in, w.now);
	return out || in;
}

/* All that is ordered and credited moves, chunk by chunk, out before in. */
static void move_all(void)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (int i = 0; i < MEMBERS; i++) {
			moved |= move_chunk(i);
			pass(MS);
		}
	}
}

TEST(nothing_is_barred_and_nothing_moves_while_all_fits)
{
	given(8 * GIB, 8 * GIB);
	for (int i = 0; i < MEMBERS; i++)
		expect_eq(given_member(i, 2 * GIB), 0);
	for (int i = 0; i < MEMBERS; i++)
		wants(i);
	pass(60000 * MS);
	for (int i = 0; i < MEMBERS; i++)
		expect(w.open[i] && w.m[i].place == RESIDENCY_IN);
	expect(!w.device.governed);
	expect_eq(w.r.left_bytes, 0);
}

TEST(a_hoarder_keeps_its_memory_until_somebody_needs_the_room)
{
	given(8 * GIB, 8 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	pass(3600000 * MS);
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(given_member(1, 4 * GIB), RESIDENCY_WAITS);
	expect_eq(w.m[0].place, RESIDENCY_OUT);
	move_all();
	expect_eq(w.granted[1], 4 * GIB);
	expect_eq(w.r.left_bytes, 2 * GIB);
	expect_eq(w.m[0].resident_bytes, 4 * GIB);
}

TEST(who_is_idle_the_longest_leaves_first)
{
	given(8 * GIB, 8 * GIB);
	for (int i = 0; i < 3; i++) {
		expect_eq(given_member(i, 2 * GIB), 0);
		wants(i);
	}
	idles(1);
	pass(1000 * MS);
	idles(0);
	pass(100000 * MS);
	expect_eq(given_member(3, 4 * GIB), RESIDENCY_WAITS);
	/* And nobody else is stopped for that. */
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.m[2].place, RESIDENCY_IN);
	move_all();
	expect_eq(w.m[1].out_bytes, 2 * GIB);
	expect_eq(w.m[0].out_bytes, 0);
	expect_eq(w.m[2].out_bytes, 0);
}

TEST(what_has_left_is_credit_for_who_comes)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	move_all();
	pass(1000 * MS);
	wants(0);
	expect_eq(w.credit[0], 0);
	expect_eq(w.evict[1], 6 * GIB);
	residency_left(&w.m[1], 64 * MIB, 64 * MIB, w.now);
	pump();
	expect_eq(w.credit[0], 64 * MIB);
}

TEST(a_set_stays_twenty_times_as_long_as_its_movement_took)
{
	uint64_t end;

	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	wants(0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	pass(100 * MS);
	move_all();
	wants(1);
	expect_eq(w.m[1].place, RESIDENCY_IN);
	expect_eq(w.m[0].place, RESIDENCY_OUT);
	expect(w.r.cost_ns > 0);
	end = w.r.began_ns + 20 * w.r.cost_ns;
	pass(end - w.now - 1);
	expect_eq(w.m[1].place, RESIDENCY_IN);
	pass(1);
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

TEST(nobody_waits_for_longer_than_the_longest_wait_with_both_movements)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	wants(0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	wants(1);
	/* Each movement takes a while, by whose cost a set would stay for longer. */
	for (unsigned ms = 0; ms < 200000; ms += 20) {
		pass(20 * MS);
		for (int i = 0; i < 2; i++)
			best_effort(move_chunk(i));
		pump();
	}
	expect(w.m[0].waits > 1 && w.m[1].waits > 1);
	expect(w.r.cost_ns * (1000 / w.r.tuning.cost_milli) > w.r.tuning.longest_ns);
	for (int i = 0; i < 2; i++)
		expect(w.m[i].longest_ns <= w.r.tuning.longest_ns + 100 * MS);
}

TEST(those_who_fit_together_are_in_together)
{
	int all = 0;

	given(8 * GIB, 32 * GIB);
	for (int i = 0; i < MEMBERS; i++) {
		int r = given_member(i, 3 * GIB);

		wants(i);
		for (int k = 0; r == RESIDENCY_WAITS && !w.granted[i] && k < 1000; k++) {
			pass(100 * MS);
			move_all();
		}
	}
	for (int k = 0; k < 100; k++) {
		pass(1000 * MS);
		move_all();
		for (int i = 0; i < MEMBERS; i++)
			all += w.m[i].place == RESIDENCY_IN;
	}
	/* But where one has just begun to leave. */
	expect(all >= 180 && all <= 200);
	for (int i = 0; i < MEMBERS; i++)
		expect(w.m[i].waits > 1);
}

TEST(a_tenant_larger_than_the_device_is_told_so)
{
	given(8 * GIB, 64 * GIB);
	expect_eq(given_member(0, 9 * GIB), RESIDENCY_LARGE);
	expect_eq(residency_ask(&w.m[0], 8 * GIB, w.now), 0);
	expect_eq(residency_ask(&w.m[0], 1, w.now), RESIDENCY_LARGE);
}

TEST(the_store_is_refused_and_not_exceeded)
{
	given(8 * GIB, 4 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_STORE);
	expect_eq(residency_ask(&w.m[1], 5 * GIB, w.now), RESIDENCY_WAITS);
	pump();
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
	expect(w.r.used_bytes <= 4 * GIB);
	expect_eq(residency_suspend(&w.m[1], true, w.now), RESIDENCY_STORE);
}

TEST(a_smaller_device_is_borne_while_each_can_still_come_back_whole)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	expect(residency_bears(&w.r, 6 * GIB, 0));
	expect(!residency_bears(&w.r, 6 * GIB - 1, 0));
	/* What it asks for counts as well. */
	residency_cancel(&w.m[1], w.now);
	expect_eq(residency_ask(&w.m[1], 7 * GIB, w.now), RESIDENCY_WAITS);
	expect(!residency_bears(&w.r, 7 * GIB - 1, 0));
	/* Without a store all of them are there, or nobody. */
	given(8 * GIB, 0);
	expect_eq(given_member(0, 3 * GIB), 0);
	expect_eq(given_member(1, 3 * GIB), 0);
	expect(residency_bears(&w.r, 6 * GIB, 0));
	expect(!residency_bears(&w.r, 6 * GIB - 1, 0));
}

TEST(who_comes_gives_way_when_the_device_has_become_too_small_for_it)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	expect_eq(given_member(1, 4 * GIB), RESIDENCY_WAITS);
	move_all();
	pass(1000 * MS);
	wants(0);
	residency_left(&w.m[1], 64 * MIB, 64 * MIB, w.now);
	pump();
	expect_eq(w.credit[0], 64 * MIB);
	wants(1);
	/* It has credit that it will not use: its next block is larger. */
	residency_capacity(&w.r, 6 * GIB, w.now);
	pump();
	expect(w.stop[0]);
	w.credit[0] = w.evict[0] = w.evict[1] = 0;
	residency_stopped(&w.m[0], w.now);
	residency_stopped(&w.m[1], w.now);
	pump();
	move_all();
	pass(60000 * MS);
	move_all();
	expect(w.open[1]);
	expect_eq(w.m[1].out_bytes, 0);
	expect(!w.open[0]);
	/* And it comes when there is room. */
	residency_capacity(&w.r, 8 * GIB, w.now);
	pump();
	idles(1);
	move_all();
	pass(1000 * MS);
	move_all();
	expect_eq(w.m[0].out_bytes, 0);
}

TEST(a_quota_keeps_the_rest_where_it_is)
{
	given(8 * GIB, 16 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	w.m[0].quota_bytes = 2 * GIB;
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_STORE);
	expect_eq(residency_ask(&w.m[1], 3 * GIB, w.now), RESIDENCY_WAITS);
	pump();
	move_all();
	expect_eq(w.granted[1], 3 * GIB);
	expect(w.m[0].store_bytes <= 2 * GIB);
}

TEST(who_does_not_evict_is_said_and_others_run)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	/* Member 0 is told to leave, and is frozen. */
	expect(w.evict[0] > 0 && !w.stuck[0]);
	w.evict[0] = 0;
	pass(w.r.tuning.patience_ns);
	expect(w.stuck[0] && w.stop[0]);
	move_all();
	expect_eq(w.granted[2], 3 * GIB);
	expect_eq(w.m[1].out_bytes, 2 * GIB);
	/* It wakes: what it has stays until the next need. */
	residency_stopped(&w.m[0], w.now);
	pump();
	expect(!w.m[0].stuck);
}

/* Member 0, of 5 GiB, is told to leave for the first time: 1 GiB and more. */
static void given_who_must_leave(void)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	expect(w.evict[0] > 0 && !w.stuck[0]);
}

/* It is told to leave once more. */
static void must_leave_again(void)
{
	w.stuck[0] = w.stop[0] = false;
	w.evict[0] = 0;
	residency_cancel(&w.m[2], w.now);
	pump();
	residency_free(&w.m[2], w.m[2].resident_bytes, 0, w.now);
	pump();
	expect(residency_ask(&w.m[2], 3 * GIB, w.now) <= RESIDENCY_WAITS);
	pump();
}

/* Others want the room of member 0, whose thread waits at its gate while its work goes on. */
static void given_who_does_not_drain(void)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	w.lazy[0] = w.stands[0] = true;
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	pass(turns_usual.drain_ns);
	expect_eq(w.seats[0].gate, TURNS_OWING);
}

TEST(who_drains_late_leaves_as_if_it_had_done_so_at_once)
{
	given_who_does_not_drain();
	pass(w.r.tuning.owing_ns / 2);
	expect(!w.m[0].stuck);
	turns_drained(&w.seats[0], true, w.now);
	pump();
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
	expect(!w.stuck[0]);
}

/* Its work may wait for that thread: it is not kept out for long. */
TEST(who_cannot_drain_while_its_memory_is_to_leave_is_let_in_after_a_second)
{
	given_who_does_not_drain();
	pass(w.r.tuning.owing_ns);
	expect(w.m[0].stuck && w.m[0].place == RESIDENCY_IN);
	expect(w.open[0]);
}

/* A hiccup of the machine, for which nobody is refused what it asked for. */
TEST(whose_drain_turns_gave_up_is_told_to_leave_again_soon)
{
	given_who_does_not_drain();
	pass(w.r.tuning.owing_ns);
	expect(w.m[0].stuck && w.m[0].place == RESIDENCY_IN);
	w.lazy[0] = false;
	turns_drained(&w.seats[0], true, w.now);
	pass(w.r.tuning.patience_ns / 5);
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
}

/* It was stopped, and goes on to compute: it is never idle, and is ordered nothing. */
TEST(who_did_not_drain_and_runs_on_is_told_to_leave_again)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	w.lazy[0] = true;
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	pass(w.r.tuning.patience_ns);
	expect(w.m[0].stuck && w.m[0].place == RESIDENCY_IN);
	w.lazy[0] = false;
	if (!w.open[0])
		turns_drained(&w.seats[0], true, w.now);
	pass(w.r.tuning.patience_ns - 1000 * MS);
	expect(w.m[0].stuck && !w.granted[1]);
	pass(1000 * MS);
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
}

TEST(who_moves_a_page_now_and_then_is_as_stuck_as_who_moves_nothing)
{
	given_who_must_leave();
	for (int s = 0; s < 10; s += 2) {
		expect(!w.stuck[0]);
		pass(2000 * MS);
		if (!w.stuck[0])
			residency_left(&w.m[0], 4096, 4096, w.now);
		pump();
	}
	pass(MS);
	expect(w.stuck[0]);
}

TEST(who_moves_at_the_slowest_rate_is_waited_for)
{
	given_who_must_leave();
	for (int s = 0; w.evict[0] && s < 100; s++) {
		residency_left(&w.m[0], 64 * MIB, 64 * MIB, w.now);
		w.evict[0] -= 64 * MIB;
		pump();
		pass(1000 * MS);
	}
	expect(!w.stuck[0]);
	expect_eq(w.evict[0], 0);
}

TEST(neither_words_nor_preparing_without_end_are_work)
{
	uint64_t prepares;

	given_who_must_leave();
	prepares = w.m[0].ordered_bytes / (64 * MIB);
	for (uint64_t s = 0; s < 2 * prepares + 20 && !w.stuck[0]; s++) {
		pass(1000 * MS);
		wants(0);
		idles(0);
		residency_prepared(&w.m[0], 64 * MIB, w.now);
		pump();
	}
	expect(w.stuck[0]);
	/* What is prepared for an order is, once. */
	expect(w.now >= 101000 * MS + w.r.tuning.patience_ns + prepares * 1000 * MS);
	expect(w.now <= 104000 * MS + w.r.tuning.patience_ns + prepares * 1000 * MS);
}

TEST(who_is_stuck_and_wants_what_is_out_comes_back)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	residency_left(&w.m[0], GIB, GIB, w.now);
	w.evict[0] = 0;
	pump();
	pass(100 * w.r.tuning.patience_ns);
	expect(w.stuck[0] && w.m[0].stuck);
	wants(0);
	expect(!w.m[0].stuck);
}

TEST(who_was_stuck_comes_back_later_each_time_and_is_forgiven_for_what_it_does)
{
	uint64_t away[4];

	given_who_must_leave();
	for (unsigned i = 0; i < 4; i++) {
		uint64_t since;

		for (int s = 0; s < 20 && !w.stuck[0]; s++)
			pass(1000 * MS);
		expect(w.stuck[0]);
		expect_eq(w.m[0].strikes, i + 1);
		since = w.now;
		residency_stopped(&w.m[0], w.now);
		pump();
		while (w.m[0].stuck && w.now < since + 1000000 * MS)
			pass(1000 * MS);
		away[i] = w.now - since;
		must_leave_again();
	}
	expect_eq(away[0], 0);
	for (unsigned i = 1; i < 4; i++)
		expect_eq(away[i], w.r.tuning.patience_ns << i);
	/* Now it does what it is told. */
	expect(w.m[0].ordered_bytes);
	residency_left(&w.m[0], w.m[0].ordered_bytes, 0, w.now);
	pump();
	expect_eq(w.m[0].strikes, 0);
}

TEST(who_is_in_the_way_is_known_where_it_cannot_be_gone_round)
{
	given_who_must_leave();
	expect(!residency_hindrance(&w.m[2]));
	w.evict[0] = 0;
	pass(w.r.tuning.patience_ns);
	/* 3 GiB are there without it: the other one's 2, and what is free. */
	expect(!residency_hindrance(&w.m[2]));
	move_all();
	expect_eq(w.granted[2], 3 * GIB);
	expect_eq(residency_ask(&w.m[2], GIB, w.now), RESIDENCY_WAITS);
	pump();
	expect(residency_hindrance(&w.m[2]) == &w.m[0]);
	residency_stopped(&w.m[0], w.now);
	pump();
	move_all();
	expect_eq(w.granted[2], 4 * GIB);
	expect(!residency_hindrance(&w.m[1]));
}

TEST(copies_that_are_not_given_back_are_not_counted_on)
{
	given(4 * GIB, 4 * GIB + 192 * MIB);
	expect_eq(given_member(0, 2 * GIB), 0);
	expect_eq(given_member(1, 4 * GIB), RESIDENCY_WAITS);
	pump();
	move_all();
	expect_eq(w.granted[1], 4 * GIB);
	idles(1);
	wants(0);
	pass(1000 * MS);
	move_all();
	/* It is back, and its copies are in the store. */
	expect_eq(w.m[0].out_bytes, 0);
	expect(w.m[0].store_bytes >= 2 * GIB);
	expect_eq(residency_refusal(&w.m[1], 3 * GIB, 7 * GIB), 0);
	w.m[0].stuck = true;
	expect_eq(residency_refusal(&w.m[1], 3 * GIB, 7 * GIB), RESIDENCY_STORE);
}

/* Member 3, which has nothing on the device, keeps all of the store but 512 MiB, and member 0 has
 * so much of it. */
static void given_a_full_store(void)
{
	given_who_must_leave();
	expect_eq(given_member(3, 0), 0);
	residency_left(&w.m[0], 512 * MIB, 512 * MIB, w.now);
	w.evict[0] -= 512 * MIB;
	residency_starves(&w.m[0], true, 512 * MIB, w.now);
	pump();
}

static void is_kept(void)
{
	residency_keeps(&w.m[3], 32 * GIB - 512 * MIB);
	residency_budget(&w.r, 512 * MIB, w.now);
	pump();
}

TEST(who_finds_the_store_full_is_not_to_blame_and_who_keeps_it_full_is)
{
	given_a_full_store();
	pass(2 * w.r.tuning.patience_ns);
	expect(!w.stuck[0] && !w.m[0].strikes && !w.stop[0]);
	expect(!residency_hindrance(&w.m[2]));
	is_kept();
	expect(w.stop[0] && !w.stuck[0]);
	expect(residency_hindrance(&w.m[2]) == &w.m[3]);
	residency_stopped(&w.m[0], w.now);
	pump();
	/* What it has not got is not reserved for it, and it is ordered nothing that it cannot do.
	 */
	expect_eq(w.m[0].store_bytes, 512 * MIB);
	expect_eq(w.r.used_bytes, 512 * MIB);
	expect_eq(w.m[0].ordered_bytes, 0);
	/* The room is back. */
	residency_starves(&w.m[0], false, 512 * MIB, w.now);
	residency_keeps(&w.m[3], 0);
	residency_budget(&w.r, 32 * GIB, w.now);
	pump();
	w.evict[0] = w.m[0].ordered_bytes;
	move_all();
	expect_eq(w.granted[2], 3 * GIB);
	expect(!w.stuck[0]);
}

TEST(where_nobody_keeps_the_store_full_the_excuse_ends_and_others_go_on)
{
	given_a_full_store();
	for (int i = 0; i < 4; i++) {
		expect(!w.stuck[0]);
		pass(w.r.tuning.patience_ns * 3 / 4);
		/* As long as it may move again for a moment does not count. */
		residency_starves(&w.m[0], false, 512 * MIB, w.now);
		residency_starves(&w.m[0], true, 512 * MIB, w.now);
		pump();
	}
	expect(w.stuck[0]);
	w.evict[0] = 0;
	move_all();
	expect_eq(w.granted[2], 3 * GIB);
}

TEST(only_time_in_which_the_store_has_no_room_is_excused)
{
	given_who_must_leave();
	for (int i = 0; i < 9; i++) {
		pass(1000 * MS);
		residency_starves(&w.m[0], true, 0, w.now);
		pass(3000 * MS);
		residency_starves(&w.m[0], false, 0, w.now);
		pump();
		expect(!w.stuck[0]);
	}
	pass(1000 * MS);
	expect(w.stuck[0]);
}

TEST(what_it_could_do_while_the_store_is_full_is_not_excused)
{
	given_a_full_store();
	is_kept();
	expect(w.stop[0]);
	pass(w.r.tuning.patience_ns);
	expect(w.stuck[0]);
}

TEST(who_does_not_drain_is_said_and_goes_on)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	w.lazy[0] = true;
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	pass(w.r.tuning.shortest_ns);
	expect_eq(w.m[0].place, RESIDENCY_STOPPING);
	pass(w.r.tuning.patience_ns);
	expect(w.stuck[0]);
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.evict[0], 0);
}

TEST(suspended_it_leaves_and_stays_out_until_it_is_resumed)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	expect_eq(residency_suspend(&w.m[0], true, w.now), 0);
	pump();
	move_all();
	expect_eq(w.m[0].out_bytes, 5 * GIB);
	pass(100000 * MS);
	expect_eq(w.m[0].place, RESIDENCY_OUT);
	expect_eq(residency_suspend(&w.m[0], false, w.now), 0);
	pump();
	move_all();
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.m[0].resident_bytes, 5 * GIB);
}

TEST(parked_it_leaves_when_it_was_idle_and_comes_back_when_it_wants)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	residency_park(&w.m[0], 60000 * MS, w.now);
	pump();
	pass(59999 * MS);
	expect_eq(w.m[0].place, RESIDENCY_IN);
	pass(MS);
	move_all();
	expect_eq(w.m[0].out_bytes, 5 * GIB);
	wants(0);
	move_all();
	expect_eq(w.m[0].place, RESIDENCY_IN);
}

TEST(suspended_while_it_was_parked_it_leaves_at_each_suspend)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	residency_park(&w.m[0], 60000 * MS, w.now);
	pump();
	pass(60000 * MS);
	move_all();
	for (int i = 0; i < 2; i++) {
		expect_eq(residency_suspend(&w.m[0], true, w.now), 0);
		wants(0);
		move_all();
		expect_eq(w.m[0].out_bytes, 5 * GIB);
		expect_eq(residency_suspend(&w.m[0], false, w.now), 0);
		pump();
		move_all();
		expect_eq(w.m[0].place, RESIDENCY_IN);
	}
}

/* Two tenants of which only one fits; [1] is in and usually pauses for 5 ms. Now it does, when [0]
 * wants the device, too. */
static void given_short_pauses(uint64_t cost_ns)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 7 * GIB), 0);
	wants(0);
	expect_eq(given_member(1, 7 * GIB), RESIDENCY_WAITS);
	pass(100 * MS);
	move_all();
	wants(1);
	for (int i = 0; i < 8; i++) {
		idles(1);
		pass(5 * MS);
		expect_eq(w.m[1].place, RESIDENCY_IN);
		wants(1);
		pass(5 * MS);
	}
	w.r.cost_ns = cost_ns;
	wants(0);
	idles(1);
	expect_eq(w.m[1].place, RESIDENCY_IN);
}

TEST(short_pauses_are_waited_for_and_long_ones_are_not)
{
	given_short_pauses(40 * MS);
	pass(10 * MS + w.m[1].gap_ns);
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

TEST(an_eighth_of_the_movement_is_waited_for_however_short_pauses_are)
{
	given_short_pauses(1600 * MS);
	pass(199 * MS);
	expect_eq(w.m[1].place, RESIDENCY_IN);
	pass(2 * MS);
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

/* Idle, and wants again after so long. */
static void pauses(uint64_t ns)
{
	idles(1);
	pass(ns);
	wants(1);
}

/* The first member waits; the second one makes pauses that are worth leaving in, and hiccups. */
static void given_pauses_and_hiccups(void)
{
	given_short_pauses(400 * MS);
	wants(1);
	w.m[1].gap_ns = 3000 * MS;
	for (int i = 0; i < 4; i++)
		pauses(MS);
	expect_eq(w.m[1].place, RESIDENCY_IN);
}

TEST(hiccups_do_not_make_long_pauses_look_short)
{
	given_pauses_and_hiccups();
	idles(1);
	pass(51 * MS); /* an eighth of what moving takes */
	expect_eq(w.m[1].place, RESIDENCY_OUT);
	expect_eq(w.m[0].place, RESIDENCY_COMING);
}

TEST(who_has_long_pauses_does_not_leave_at_a_hiccup)
{
	given_pauses_and_hiccups();
	pauses(4 * MS);
	expect_eq(w.m[1].place, RESIDENCY_IN);
}

TEST(credit_that_the_device_refused_is_room_it_has_not_got)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_WAITS);
	move_all();
	pass(10000 * MS);
	wants(0);
	residency_left(&w.m[1], 64 * MIB, 64 * MIB, w.now);
	w.evict[1] -= 64 * MIB;
	pump();
	expect_eq(w.credit[0], 64 * MIB);
	residency_unused(&w.m[0], 64 * MIB, w.now);
	w.credit[0] -= 64 * MIB;
	pump();
	if (w.stop[0]) {
		w.credit[0] = w.evict[0] = 0;
		residency_stopped(&w.m[0], w.now);
		pump();
	}
	move_all();
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect_eq(w.r.missing_bytes, 64 * MIB);
	expect(w.r.resident_bytes <= 8 * GIB - 64 * MIB);
}

TEST(who_refuses_all_credit_makes_the_device_no_smaller_than_by_what_it_has_out)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_WAITS);
	move_all();
	for (int i = 0; i < 200; i++) {
		idles(1);
		wants(0);
		pass(1000 * MS);
		for (int n = 0; n < 4 && w.evict[1]; n++) {
			residency_left(&w.m[1], 64 * MIB, 0, w.now);
			w.evict[1] -= 64 * MIB;
			pump();
		}
		if (w.credit[0]) {
			residency_unused(&w.m[0], w.credit[0], w.now);
			w.credit[0] = 0;
		}
		if (w.stop[0])
			residency_stopped(&w.m[0], w.now);
		w.stop[0] = false;
		pump();
		expect(w.r.missing_bytes <= w.m[0].out_bytes);
	}
	expect(w.r.missing_bytes >= 64 * MIB);
	/* It leaves, and so does what only it has said. */
	residency_leave(&w.m[0], w.now);
	expect_eq(w.r.missing_bytes, 0);
}

TEST(copies_of_what_came_back_make_room_in_the_store)
{
	given(8 * GIB, 6 * GIB);
	expect_eq(given_member(0, 6 * GIB), 0);
	expect_eq(given_member(1, 6 * GIB), RESIDENCY_WAITS);
	move_all();
	wants(0);
	for (int i = 0; i < 1000 && w.m[0].place != RESIDENCY_IN; i++) {
		move_all();
		for (int k = 0; k < 2; k++) {
			residency_dropped(&w.m[k], w.drop[k], w.now);
			w.drop[k] = 0;
		}
		pass(MS);
	}
	expect_eq(w.m[0].place, RESIDENCY_IN);
	expect(w.r.used_bytes <= 6 * GIB);
}
