/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/engine_core.h"

#include "tests/test.h"

#define MS 1000000ULL

static struct segment_engines engines;
static struct segment_process processes[SEGMENT_PROCESSES_MAX];
static struct engine_core_rules rules;

static void given(void)
{
	memset(&engines, 0, sizeof(engines));
	memset(processes, 0, sizeof(processes));
	engines.next_ticket = 1;
	rules = (struct engine_core_rules){
		.slice_ns = 2 * MS, .duplex = 720000, .processes = processes};
}

static uint32_t add(enum segment_lane lane, uint32_t process, uint64_t ready_ns, uint64_t work_ns)
{
	return engine_core_add(&engines, &rules, lane, process, 0, ready_ns, work_ns);
}

static void until(uint64_t now_ns)
{
	engine_core_advance(&engines, &rules, ENGINE_CORE_ALL, now_ns, UINT32_MAX);
}

static uint64_t busy(uint32_t process, enum segment_lane lane)
{
	return processes[process].usage[0].busy_ns[lane];
}

TEST(a_kernel_alone_takes_its_own_time)
{
	uint32_t t;

	given();
	until(5 * MS);
	t = add(SEGMENT_COMPUTE, 3, 5 * MS, 10 * MS);
	expect_eq(engine_core_predict(&engines, &rules, t, UINT64_MAX), 15 * MS);
	until(15 * MS - 1);
	expect_eq(engines.tickets[t].done, 0);
	until(15 * MS);
	expect_eq(engines.tickets[t].done, 1);
	expect_eq(engines.tickets[t].end_ns, 15 * MS);
	expect_eq(busy(3, SEGMENT_COMPUTE), 10 * MS);
	expect_eq(processes[3].usage[0].kernels, 1);
}

TEST(two_processes_get_slices_in_turn)
{
	uint32_t a, b;

	given();
	a = add(SEGMENT_COMPUTE, 1, 0, 10 * MS);
	b = add(SEGMENT_COMPUTE, 2, 0, 10 * MS);
	until(8 * MS);
	expect_eq(busy(1, SEGMENT_COMPUTE), 4 * MS);
	expect_eq(busy(2, SEGMENT_COMPUTE), 4 * MS);
	expect_eq(engine_core_predict(&engines, &rules, a, UINT64_MAX), 18 * MS);
	expect_eq(engine_core_predict(&engines, &rules, b, UINT64_MAX), 20 * MS);
	until(100 * MS);
	expect_eq(engines.tickets[a].end_ns, 18 * MS);
	expect_eq(engines.tickets[b].end_ns, 20 * MS);
}

TEST(kernels_of_one_context_run_in_order)
{
	uint32_t a, b;

	given();
	a = add(SEGMENT_COMPUTE, 1, 0, 3 * MS);
	b = add(SEGMENT_COMPUTE, 1, 0, 3 * MS);
	until(100 * MS);
	expect_eq(engines.tickets[a].end_ns, 3 * MS);
	expect_eq(engines.tickets[b].end_ns, 6 * MS);
}

/* As on an H100 (driver 580.159.04): beside two contexts of a process one stands still for 4 ms. */
TEST(two_contexts_of_a_process_get_two_slices_in_a_round)
{
	uint32_t t[3];

	given();
	t[0] = add(SEGMENT_COMPUTE, 1, 0, 10 * MS);
	t[1] = engine_core_add(&engines, &rules, SEGMENT_COMPUTE, 2, 8, 0, 10 * MS);
	t[2] = engine_core_add(&engines, &rules, SEGMENT_COMPUTE, 2, 9, 0, 10 * MS);
	until(12 * MS);
	expect_eq(busy(1, SEGMENT_COMPUTE), 4 * MS);
	expect_eq(busy(2, SEGMENT_COMPUTE), 8 * MS);
	for (unsigned i = 0; i < 3; i++)
		expect_eq(engine_core_predict(&engines, &rules, t[i], UINT64_MAX),
			  (26 + 2 * i) * MS);
	until(100 * MS);
	for (unsigned i = 0; i < 3; i++)
		expect_eq(engines.tickets[t[i]].end_ns, (26 + 2 * i) * MS);
}

TEST(a_new_process_waits_for_the_end_of_the_slice_that_runs)
{
	uint32_t b;

	given();
	add(SEGMENT_COMPUTE, 1, 0, 100 * MS);
	until(5 * MS); /* in the middle of the third slice */
	b = add(SEGMENT_COMPUTE, 2, 5 * MS, 1 * MS);
	until(100 * MS);
	expect_eq(engines.tickets[b].end_ns, 7 * MS);
}

TEST(a_kernel_that_hangs_leaves_the_others_their_half)
{
	uint32_t b;

	given();
	add(SEGMENT_COMPUTE, 1, 0, UINT64_MAX);
	b = add(SEGMENT_COMPUTE, 2, 0, 10 * MS);
	until(100 * MS);
	expect_eq(engines.tickets[b].end_ns, 20 * MS);
	expect_eq(busy(1, SEGMENT_COMPUTE), 90 * MS);
}

TEST(late_work_claims_unused_time)
{
	uint32_t t;

	given();
	until(10 * MS);
	t = add(SEGMENT_COMPUTE, 1, 4 * MS, 5 * MS);
	expect_eq(engines.tickets[t].done, 1);
	expect_eq(engines.tickets[t].end_ns, 9 * MS);
	t = add(SEGMENT_COMPUTE, 2, 4 * MS, 5 * MS); /* 1 ms is left of it */
	expect_eq(engines.tickets[t].done, 0);
	until(20 * MS);
	expect_eq(engines.tickets[t].end_ns, 14 * MS);
	t = add(SEGMENT_COMPUTE, 1, 0, 3 * MS); /* and what was before */
	expect_eq(engines.tickets[t].end_ns, 3 * MS);
	expect_eq(engines.lanes[SEGMENT_COMPUTE].busy_ns, 13 * MS);
}

TEST(time_that_another_used_is_not_claimed)
{
	uint32_t t;

	given();
	add(SEGMENT_COMPUTE, 1, 0, 10 * MS);
	until(10 * MS);
	t = add(SEGMENT_COMPUTE, 2, 0, 4 * MS);
	expect_eq(engines.tickets[t].done, 0);
	until(20 * MS);
	expect_eq(engines.tickets[t].end_ns, 14 * MS);
}

TEST(copies_in_both_directions_slow_each_other_down)
{
	uint32_t in, out;

	given();
	in = add(SEGMENT_HOST_TO_DEVICE, 1, 0, 72 * MS);
	out = add(SEGMENT_DEVICE_TO_HOST, 2, 0, 72 * MS);
	add(SEGMENT_COMPUTE, 3, 0, 500 * MS);
	until(1000 * MS);
	expect_eq(engines.tickets[in].end_ns, 100 * MS);
	expect_eq(engines.tickets[out].end_ns, 100 * MS);
	in = add(SEGMENT_HOST_TO_DEVICE, 1, 1000 * MS, 72 * MS);
	until(2000 * MS);
	expect_eq(engines.tickets[in].end_ns, 1072 * MS);
}

TEST(an_estimate_is_put_right_in_both_directions)
{
	uint32_t t;

	given();
	t = add(SEGMENT_COMPUTE, 1, 0, 10 * MS);
	until(1 * MS);
	expect(engine_core_correct(&engines, &rules, t, 10 * MS, 4 * MS));
	until(20 * MS);
	expect_eq(engines.tickets[t].end_ns, 4 * MS);
	t = add(SEGMENT_COMPUTE, 1, 20 * MS, 2 * MS);
	until(30 * MS);
	/* Longer than it was thought: it goes on where it had ended. */
	expect(!engine_core_correct(&engines, &rules, t, 2 * MS, 5 * MS));
	expect_eq(engines.tickets[t].done, 1);
	expect_eq(engines.tickets[t].end_ns, 25 * MS);
	expect_eq(processes[1].usage[0].kernels, 2);
}

TEST(tickets_are_given_back_and_ids_never_return)
{
	uint64_t last = 0;

	given();
	for (uint32_t i = 0; i < SEGMENT_TICKETS_MAX; i++)
		expect_eq(add(SEGMENT_COMPUTE, i % 7, 0, MS), i);
	expect_eq(add(SEGMENT_COMPUTE, 1, 0, MS), UINT32_MAX);
	for (uint32_t i = 0; i < SEGMENT_TICKETS_MAX; i++) {
		expect(engines.tickets[i].id > last);
		last = engines.tickets[i].id;
		expect_eq(engine_core_find(&engines, last), i);
	}
	for (uint32_t i = SEGMENT_TICKETS_MAX; i-- > 0;)
		engine_core_remove(&engines, i);
	expect_eq(engines.tickets_high, 0);
	expect_eq(add(SEGMENT_COMPUTE, 1, 0, MS), 0);
	expect(engines.tickets[0].id > last);
}

TEST(samples_tell_how_busy_each_period_was)
{
	uint64_t period = 7;

	given();
	until(period * ENGINE_CORE_PERIOD_NS);
	add(SEGMENT_COMPUTE, 1, period * ENGINE_CORE_PERIOD_NS, ENGINE_CORE_PERIOD_NS * 3 / 2);
	until((period + 3) * ENGINE_CORE_PERIOD_NS);
	expect_eq(engines.samples[period % SEGMENT_SAMPLES_MAX].period, period);
	expect_eq(engines.samples[period % SEGMENT_SAMPLES_MAX].busy_ns, ENGINE_CORE_PERIOD_NS);
	expect_eq(engines.samples[(period + 1) % SEGMENT_SAMPLES_MAX].busy_ns,
		  ENGINE_CORE_PERIOD_NS / 2);
	expect_eq(processes[1].usage[0].samples[period % SEGMENT_SAMPLES_MAX].busy_ns,
		  ENGINE_CORE_PERIOD_NS);
}

/* ---- the laws ------------------------------------------------------------------------------ */

struct history {
	uint64_t work_ns[SEGMENT_LANES]; /* asked for and not taken away */
	uint64_t left_ns[SEGMENT_LANES];
	uint64_t now_ns;
	unsigned live;
};

static void count_left(struct history *history)
{
	memset(history->left_ns, 0, sizeof(history->left_ns));
	history->live = 0;
	for (uint32_t i = 0; i < engines.tickets_high; i++) {
		if (!engines.tickets[i].id)
			continue;
		history->live++;
		history->left_ns[engines.tickets[i].lane] += engines.tickets[i].left_ns;
	}
}

/* An engine never rests while a ticket is ready: waiting work has claimed all gaps since then. */
static void nobody_waits_beside_a_rest(void)
{
	for (uint32_t i = 0; i < engines.tickets_high; i++) {
		const struct segment_ticket *ticket = &engines.tickets[i];
		const struct segment_lane_book *book = &engines.lanes[ticket->lane];

		if (ticket->id && !ticket->done && book->gap_count)
			expect(book->gaps[book->gap_count - 1].end_ns <= ticket->ready_ns);
	}
}

static void take_away_what_is_done(void)
{
	for (uint32_t i = engines.tickets_high; i-- > 0;)
		if (engines.tickets[i].id && engines.tickets[i].done)
			engine_core_remove(&engines, i);
}

static void laws(struct history *history)
{
	uint64_t total;

	count_left(history);
	nobody_waits_beside_a_rest();
	for (unsigned lane = 0; lane < SEGMENT_LANES; lane++) {
		const struct segment_lane_book *book = &engines.lanes[lane];
		uint64_t gaps = 0, end_ns = 0;

		/* No engine works more than the time that there is. */
		expect(book->busy_ns <= engines.at_ns);
		/* All work that was asked for was done, or is still to do. */
		if (lane != SEGMENT_HOST_TO_DEVICE && lane != SEGMENT_DEVICE_TO_HOST)
			expect_eq(book->busy_ns + history->left_ns[lane], history->work_ns[lane]);
		/* Ledgers add up. */
		total = 0;
		for (uint32_t p = 0; p < 8; p++)
			total += busy(p, lane);
		expect_eq(total, book->busy_ns);
		for (uint32_t i = 0; i < book->gap_count; i++) {
			expect(book->gaps[i].start_ns >= end_ns);
			expect(book->gaps[i].end_ns > book->gaps[i].start_ns);
			end_ns = book->gaps[i].end_ns;
			gaps += end_ns - book->gaps[i].start_ns;
		}
		expect(end_ns <= engines.at_ns);
		/* It worked or rested: while the ring has lost no gap the sum is the time. */
		if (book->gap_count < SEGMENT_GAPS_MAX / 2 && history->now_ns < 50 * MS)
			expect_eq(gaps + book->busy_ns, engines.at_ns);
	}
}

static void random_work(struct history *history)
{
	enum segment_lane lane = (enum segment_lane)test_random_below(SEGMENT_LANES);
	uint64_t work_ns = 1 + test_random_below(20 * MS);
	uint64_t late_ns = test_random_below(3) ? 0 : test_random_below(10 * MS);
	uint64_t ready_ns = late_ns < history->now_ns ? history->now_ns - late_ns : 0;
	uint32_t process = (uint32_t)test_random_below(8);
	uint32_t t = engine_core_add(&engines, &rules, lane, process,
				     (uint32_t)test_random_below(3), ready_ns, work_ns);

	if (t == UINT32_MAX)
		return;
	history->work_ns[lane] += work_ns;
	if (engines.tickets[t].done)
		expect(engines.tickets[t].end_ns >= ready_ns + work_ns);
}

TEST(after_any_history_the_engines_keep_their_laws)
{
	for (unsigned round = 0; round < test_rounds(200); round++) {
		struct history history = {0};

		given();
		for (unsigned i = 0; i < 200; i++) {
			uint32_t t = (uint32_t)test_random_below(16);

			if (test_random_below(2))
				random_work(&history);
			/* A prediction holds if nothing comes in between. */
			if (t < engines.tickets_high && engines.tickets[t].id &&
			    !engines.tickets[t].done) {
				uint64_t end_ns =
					engine_core_predict(&engines, &rules, t, UINT64_MAX);

				if (test_random_below(2)) {
					/* Each step of another engine may round a link's work by
					 * a nanosecond. */
					history.now_ns = end_ns + 1000;
					until(history.now_ns);
					expect(engines.tickets[t].done);
					expect(engines.tickets[t].end_ns + 1000 >= end_ns);
					if (engines.tickets[t].lane == SEGMENT_COMPUTE)
						expect_eq(engines.tickets[t].end_ns, end_ns);
				}
			}
			history.now_ns += test_random_below(5 * MS);
			until(history.now_ns);
			laws(&history);
			if (t < engines.tickets_high && engines.tickets[t].id &&
			    test_random_below(2)) {
				history.work_ns[engines.tickets[t].lane] -=
					engines.tickets[t].left_ns;
				engine_core_remove(&engines, t);
			}
		}
	}
}

/* Whose next kernel always waits behind the one that runs. */
TEST(backlogged_processes_get_equal_shares_whatever_their_kernels_are)
{
	for (unsigned round = 0; round < test_rounds(50); round++) {
		uint64_t kernel_ns[6], asked_ns[6] = {0}, now_ns = 0;
		unsigned count = 2 + (unsigned)test_random_below(5);

		given();
		for (uint32_t p = 0; p < count; p++)
			kernel_ns[p] = MS / 10 + test_random_below(20 * MS);
		while (now_ns < 400 * MS) {
			uint64_t least_ns = UINT64_MAX, most_ns = 0;

			take_away_what_is_done();
			for (uint32_t p = 0; p < count; p++)
				for (; asked_ns[p] < busy(p, SEGMENT_COMPUTE) + MS;
				     asked_ns[p] += kernel_ns[p])
					add(SEGMENT_COMPUTE, p, now_ns, kernel_ns[p]);
			now_ns += 1 + test_random_below(MS);
			until(now_ns);
			expect_eq(engines.lanes[SEGMENT_COMPUTE].busy_ns, now_ns);
			for (uint32_t p = 0; p < count; p++) {
				if (busy(p, SEGMENT_COMPUTE) < least_ns)
					least_ns = busy(p, SEGMENT_COMPUTE);
				if (busy(p, SEGMENT_COMPUTE) > most_ns)
					most_ns = busy(p, SEGMENT_COMPUTE);
			}
			expect(most_ns - least_ns <= rules.slice_ns);
		}
	}
}

/*
 * A process that waits for each kernel before it submits the next one gives up the rest of a slice,
 * and is up to a step of the test late: a kernel lasts its own time, one slice of each other
 * process for each slice that it needs itself, and a step. No process's kernel lasts longer.
 */
TEST(one_kernel_at_a_time_waits_a_slice_of_each_other_for_each_of_its_own)
{
	for (unsigned round = 0; round < test_rounds(50); round++) {
		uint32_t tickets[6];
		uint64_t kernel_ns[6], done_ns[6] = {0}, now_ns = 0;
		unsigned count = 2 + (unsigned)test_random_below(5);

		given();
		for (uint32_t p = 0; p < count; p++) {
			kernel_ns[p] = MS / 10 + test_random_below(20 * MS);
			tickets[p] = add(SEGMENT_COMPUTE, p * 31, 0, kernel_ns[p]);
		}
		while (now_ns < 1000 * MS) {
			now_ns += 1 + test_random_below(MS);
			until(now_ns);
			for (uint32_t p = 0; p < count; p++) {
				uint64_t slices =
					(kernel_ns[p] + rules.slice_ns - 1) / rules.slice_ns;
				uint64_t end_ns = engines.tickets[tickets[p]].end_ns;

				if (!engines.tickets[tickets[p]].done)
					continue;
				expect(end_ns <= done_ns[p] + MS + kernel_ns[p] +
							 slices * (count - 1) * rules.slice_ns);
				done_ns[p] = end_ns;
				engine_core_remove(&engines, tickets[p]);
				tickets[p] = add(SEGMENT_COMPUTE, p * 31, end_ns, kernel_ns[p]);
			}
			nobody_waits_beside_a_rest();
		}
	}
}

/* ---- clients of MPS -------------------------------------------------------------------------- */

static void joins(uint32_t process, uint32_t daemon, uint32_t milli)
{
	processes[process].mps = daemon;
	processes[process].mps_milli = milli;
}

TEST(clients_of_one_mps_daemon_run_at_once_each_with_its_part)
{
	uint32_t a, b;

	given();
	joins(1, 7, 500);
	joins(2, 7, 250);
	a = add(SEGMENT_COMPUTE, 1, 0, 10 * MS);
	b = add(SEGMENT_COMPUTE, 2, 0, 10 * MS);
	expect_eq(engine_core_predict(&engines, &rules, a, UINT64_MAX), 20 * MS);
	expect_eq(engine_core_predict(&engines, &rules, b, UINT64_MAX), 40 * MS);
	until(8 * MS);
	expect_eq(busy(1, SEGMENT_COMPUTE), 4 * MS);
	expect_eq(busy(2, SEGMENT_COMPUTE), 2 * MS);
	until(100 * MS);
	expect_eq(engines.tickets[a].end_ns, 20 * MS);
	expect_eq(engines.tickets[b].end_ns, 40 * MS);
	expect_eq(engines.lanes[SEGMENT_COMPUTE].busy_ns, 40 * MS);
}

TEST(clients_that_want_more_than_the_device_have_it_by_their_parts)
{
	uint32_t a, b;

	given();
	joins(1, 7, 1000);
	joins(2, 7, 250);
	a = add(SEGMENT_COMPUTE, 1, 0, 8 * MS);
	b = add(SEGMENT_COMPUTE, 2, 0, 10 * MS);
	until(100 * MS);
	/* They have 80 % and 20 %; then the second one has its quarter of the device. */
	expect_eq(engines.tickets[a].end_ns, 10 * MS);
	expect_eq(engines.tickets[b].end_ns, 42 * MS);
}

TEST(clients_are_one_context_beside_others_and_their_own_kernels_keep_their_order)
{
	uint32_t a, b, c, next;

	given();
	joins(1, 7, 1000);
	joins(2, 7, 1000);
	a = add(SEGMENT_COMPUTE, 1, 0, 4 * MS);
	next = add(SEGMENT_COMPUTE, 1, 0, 1 * MS);
	b = add(SEGMENT_COMPUTE, 2, 0, 4 * MS);
	c = add(SEGMENT_COMPUTE, 3, 0, 8 * MS);
	until(12 * MS);
	/* Of three slices out of six the two have half each. */
	expect_eq(busy(1, SEGMENT_COMPUTE), 3 * MS);
	expect_eq(busy(2, SEGMENT_COMPUTE), 3 * MS);
	expect_eq(busy(3, SEGMENT_COMPUTE), 6 * MS);
	until(100 * MS);
	expect(engines.tickets[next].end_ns > engines.tickets[a].end_ns);
	expect_eq(engines.tickets[a].end_ns, engines.tickets[b].end_ns);
	expect_eq(engines.tickets[c].done, 1);
}
