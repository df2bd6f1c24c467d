/* SPDX-License-Identifier: Apache-2.0 */
/* Members that do not obey: patience, and being stuck. */
#include "node/process.h"
#include "tests/unit/residency_fixture.h"

TEST(a_tenant_that_does_not_evict_is_reported_and_others_run)
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

/* As it stood in /proc/PID/task/TID/schedstat of a thread that wanted to run all the time, twice a
 * second, on two processors with a load of 33: it ran for 0.4 s within 10.5. */
static const char *const recorded[] = {
	"175935385 320023592 893",    "199975741 832260380 1039",   "206917891 1393821566 1070",
	"232494850 1858827341 1176",  "254216872 2367726462 1279",  "267383292 2863874873 1340",
	"280515959 3385070482 1384",  "304941295 3861620635 1436",  "335544648 4317877044 1493",
	"348330596 4801050615 1533",  "349593876 5503766735 1542",  "356414369 5964446898 1585",
	"391870788 6539153297 1739",  "434879066 6981052820 1848",  "437552392 7369853158 1861",
	"441187832 8320415571 1877",  "450352878 8832953792 1935",  "467577170 9330136979 2005",
	"503940070 9796727558 2204",  "532635800 10280905695 2337", "551567566 10754867880 2449",
	"569025668 11260210082 2555",
};

static void pass_unserved(uint64_t ns)
{
	uint64_t before = process_parse_queued(recorded[0]);

	for (uint64_t i = 1; i <= ns / (500 * MS); i++) {
		uint64_t now = process_parse_queued(recorded[i % ARRAY_SIZE(recorded)]);

		pass(500 * MS);
		residency_unserved(&w.m[0], now > before ? now - before : 490 * MS, w.now);
		before = now;
	}
}

TEST(a_further_order_does_not_renew_the_patience_with_a_tenant)
{
	given_a_tenant_that_must_leave();
	pass(9000 * MS);
	residency_capacity(&w.r, 7 * GIB, w.now);
	pump();
	expect(w.evict[0] > 2 * GIB && !w.stuck[0]);
	pass(1100 * MS);
	expect(w.stuck[0]);
}

TEST(a_tenant_that_had_no_processor_is_not_stuck)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	expect(w.evict[0] > 0);
	pass_unserved(2 * w.r.tuning.patience_ns);
	expect(!w.stuck[0]);
	move_all();
	expect_eq(w.granted[2], 3 * GIB);
	expect(!w.stuck[0] && !w.m[0].strikes);
}

/* A restarted daemon moves nothing while it expects guests, for as long as its patience. */
TEST(a_tenant_that_drained_while_others_were_expected_is_not_stuck)
{
	struct turns_action turn;

	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, GIB), 0);
	wants(0);
	expect(w.open[0]);
	residency_adopt(&w.m[0], 0, GIB, w.now);
	while (turns_next(&w.turns, &turn))
		obey_turn(&turn);
	expect_eq(w.seats[0].gate, TURNS_CLOSED);
	pass(2 * w.r.tuning.patience_ns);
	expect(!w.stuck[0] && !w.m[0].strikes);
	move_all();
	expect_eq(w.m[0].resident_bytes, 2 * GIB);
}

/* Its figures do not change: it is stopped, or waits for something else. */
TEST(a_tenant_that_lacked_no_processor_is_stuck_as_soon_as_ever)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	w.evict[0] = 0;
	pass(w.r.tuning.patience_ns - 1 * MS);
	residency_unserved(&w.m[0], 0, w.now);
	expect(!w.stuck[0]);
	pass(1 * MS);
	expect(w.stuck[0]);
}

/* Other threads of it wait for a processor, and the one that is to move memory for something else.
 */
TEST(a_tenant_that_never_gets_a_processor_is_stuck_in_the_end)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	w.evict[0] = 0;
	pass_unserved(5 * w.r.tuning.patience_ns);
	expect(w.stuck[0]);
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
static void given_a_tenant_that_does_not_drain(void)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	wants(0);
	w.lazy[0] = w.stands[0] = true;
	expect_eq(given_member(1, 5 * GIB), RESIDENCY_WAITS);
	pass(turns_usual.drain_ns);
	expect_eq(w.seats[0].gate, TURNS_OWING);
}

TEST(a_tenant_that_drains_late_leaves_as_if_it_had_done_so_at_once)
{
	given_a_tenant_that_does_not_drain();
	pass(w.r.tuning.owing_ns / 2);
	expect(!w.m[0].stuck);
	turns_drained(&w.seats[0], true, w.now);
	pump();
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
	expect(!w.stuck[0]);
}

/* Its work may wait for that thread: it is not kept out for long. */
TEST(a_leaving_tenant_that_cannot_drain_is_let_in_after_a_second)
{
	given_a_tenant_that_does_not_drain();
	pass(w.r.tuning.owing_ns);
	expect(w.m[0].stuck && w.m[0].place == RESIDENCY_IN);
	expect(w.open[0]);
}

/* A hiccup of the machine, for which nobody is refused what it asked for. */
TEST(a_tenant_whose_drain_was_given_up_is_told_to_leave_again_soon)
{
	given_a_tenant_that_does_not_drain();
	pass(w.r.tuning.owing_ns);
	expect(w.m[0].stuck && w.m[0].place == RESIDENCY_IN);
	w.lazy[0] = false;
	turns_drained(&w.seats[0], true, w.now);
	pass(w.r.tuning.patience_ns / 5);
	move_all();
	expect_eq(w.granted[1], 5 * GIB);
}

/* Its work on the device waits for the thread that asks: it can neither drain nor end before. */
static void given_a_tenant_that_asks_and_cannot_drain(void)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 3 * GIB), 0);
	expect_eq(given_member(2, 4 * GIB), 0);
	wants(0);
	w.lazy[0] = w.stands[0] = true;
	expect_eq(given_member(1, 8 * GIB), RESIDENCY_WAITS);
	expect_eq(residency_ask(&w.m[0], 2 * GIB, w.now), RESIDENCY_WAITS);
	wants(2);
}

static void pass_and_move(uint64_t ns)
{
	for (uint64_t end = w.now + ns; w.now < end;) {
		pass(100 * MS);
		move_all();
	}
}

TEST(a_tenant_that_cannot_drain_gets_what_it_asks_for_from_one_that_can)
{
	given_a_tenant_that_asks_and_cannot_drain();
	pass_and_move(w.r.tuning.longest_ns);
	expect_eq(w.granted[0], 2 * GIB);
	expect(w.m[2].out_bytes > 0);
}

TEST(a_suspended_tenant_that_cannot_drain_gets_nothing)
{
	given_a_tenant_that_asks_and_cannot_drain();
	expect_eq(residency_suspend(&w.m[0], true, 0, w.now), 0);
	pass_and_move(w.r.tuning.longest_ns);
	expect_eq(w.granted[0], 0);
	expect_eq(residency_suspend(&w.m[0], false, 0, w.now), 0);
	pass_and_move(w.r.tuning.longest_ns);
	expect_eq(w.granted[0], 2 * GIB);
}

/* It was stopped, and goes on to compute: it is never idle, and is ordered nothing. */
TEST(a_tenant_that_did_not_drain_and_runs_on_is_told_to_leave_again)
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

TEST(a_tenant_that_moves_a_page_now_and_then_is_as_stuck_as_one_that_moves_none)
{
	given_a_tenant_that_must_leave();
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

TEST(a_tenant_that_moves_at_the_slowest_rate_is_waited_for)
{
	given_a_tenant_that_must_leave();
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

	given_a_tenant_that_must_leave();
	prepares = w.m[0].ordered_bytes / (64 * MIB);
	for (uint64_t s = 0; s < 2 * prepares + 20 && !w.stuck[0]; s++) {
		pass(1000 * MS);
		wants(0);
		idles(0);
		residency_prepared(&w.m[0], 64 * MIB, w.now);
		pump();
	}
	expect(w.stuck[0]);
	/* Preparing for an order is excused, once. */
	expect(w.now >= 101000 * MS + w.r.tuning.patience_ns + prepares * 1000 * MS);
	expect(w.now <= 104000 * MS + w.r.tuning.patience_ns + prepares * 1000 * MS);
}

TEST(a_stuck_tenant_that_wants_its_memory_comes_back)
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

TEST(a_tenant_that_was_stuck_comes_back_later_each_time_and_is_forgiven_once_it_moves)
{
	uint64_t away[4];

	given_a_tenant_that_must_leave();
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

TEST(the_tenant_in_the_way_is_known_where_it_cannot_be_gone_round)
{
	given_a_tenant_that_must_leave();
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
	/* Nor does the tenant that waits get in beside them if the store has become small. */
	residency_capacity(&w.r, 7 * GIB, w.now);
	residency_budget(&w.r, GIB, w.now);
	expect(residency_hindrance(&w.m[1]) == &w.m[0]);
}

/* It obeys in time, and nobody reads that. */
TEST(a_time_in_which_the_daemon_did_not_run_makes_nobody_stuck)
{
	uint64_t lost_ns;

	given(8 * GIB, 32 * GIB);
	lost_ns = 3 * w.r.tuning.patience_ns;
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	expect(w.evict[0] > 0);
	pass(w.r.tuning.patience_ns / 2);
	residency_lost(&w.r, lost_ns, w.now + lost_ns);
	pass(lost_ns);
	expect(!w.stuck[0]);
	/* It has its patience still, and no more. */
	pass(w.r.tuning.patience_ns / 2 - 1 * MS);
	expect(!w.stuck[0]);
	pass(1 * MS);
	expect(w.stuck[0]);
}
