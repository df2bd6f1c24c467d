/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs with a cap or a small weight whose meted is told to end again and again: what they owe
 * outlives it. See decisions/0216.
 */
#include "core/turns/turns_kept.h"
#include "tests/unit/turns_sliced.h"

enum { POINTS = 5, LENGTH_MS = 60000 };

/* ---- another meted --------------------------------------------------------------------------- */

/* The former one's objects are gone. All gates are open as the next one begins, and it closes them.
 */
static void take_over(struct program *p, const struct turns_kept *kept)
{
	struct turns_share share = p->tenant.share;

	p->seat = (struct turns_seat){0};
	turns_tenant_init(&m.turns, &p->tenant, &share);
	turns_kept(&p->seat, &p->tenant, kept, m.now);
	turns_join(&p->seat, &p->tenant, &m.device, p, true, m.now);
	pump();
	turns_wants(&p->seat, m.now);
	pump();
}

/* Until then nobody closes a gate. */
static void restart(uint64_t away_ns)
{
	struct turns_kept kept[PROGRAMS];

	for (unsigned i = 0; i < m.programs; i++) {
		turns_keep(&m.program[i].seat, &kept[i], m.now);
		m.program[i].stands = false;
		open_gate(&m.program[i]);
	}
	m.bare = true;
	run(away_ns);
	m.bare = false;
	turns_init(&m.turns, &turns_usual);
	turns_device_init(&m.turns, &m.device, 0);
	for (unsigned i = 0; i < m.programs; i++)
		take_over(&m.program[i], &kept[i]);
	for (unsigned i = 0; i < m.programs; i++)
		turns_kept_all(&m.program[i].seat, &kept[i], m.now);
	pump();
}

static void run_restarted(uint64_t length_ns, uint64_t every_ns, uint64_t away_ns)
{
	for (uint64_t end = m.now + length_ns; m.now < end;) {
		run(every_ns / 2 + test_random_below(every_ns));
		restart(away_ns);
	}
}

/* In hundredths of the device. */
static double part_of_restarted(struct program *p, uint64_t every_ns, uint64_t away_ns)
{
	uint64_t from;

	run_restarted(20000 * MS, every_ns, away_ns);
	forget_what_they_had();
	from = m.now;
	run_restarted(LENGTH_MS * MS, every_ns, away_ns);
	return had(p, m.now - from);
}

/* ---- caps ------------------------------------------------------------------------------------ */

static void expect_cap_kept(uint64_t kernel_ns, unsigned ahead, uint64_t every_ns)
{
	struct program *p = given_capped(AHEAD, kernel_ns, ahead, 200, GREEDY);

	expect(part_of_restarted(p, every_ns, 0) <= 20 + POINTS);
	expect_eq(m.hung, 0);
}

/* Each meted began with no debts: 64 to 76 % where one ended every 0.3 s, and 22 to 55 % where one
 * did every 1.5 s. */
TEST(a_cap_is_paid_for_though_meted_ends_meanwhile)
{
	for (uint64_t every_ns = 300 * MS; every_ns <= 1500 * MS; every_ns += 1200 * MS) {
		expect_cap_kept(300 * MS, 1, every_ns);
		expect_cap_kept(1000 * MS, 1, every_ns);
		expect_cap_kept(1000 * MS, 4, every_ns);
	}
}

/* 24 %, with 0.2 s without a meted every 0.3 s. */
TEST(a_cap_pays_for_the_time_without_a_meted)
{
	struct program *p = given_capped(GREEDY, 1 * MS, 4, 200, GREEDY);

	expect(part_of_restarted(p, 300 * MS, 200 * MS) <= 20 + 2);
	p = given_capped(EVEN, 1 * MS, 1, 200, GREEDY);
	expect(part_of_restarted(p, 1500 * MS, 200 * MS) >= 10);
}

TEST(nobody_pays_for_a_time_without_a_meted_in_which_it_was_idle)
{
	struct program *p = given_capped(EVEN, 1 * MS, 1, 200, GREEDY);
	struct turns_kept kept;

	run(1000 * MS);
	while (!p->open || !p->queued)
		run(STEP_NS);
	while (p->queued)
		run(STEP_NS);
	p->free_at = UINT64_MAX;
	run(500 * MS);
	turns_keep(&p->seat, &kept, m.now);
	expect(!kept.ran);
	restart(800 * MS);
	p->free_at = m.now;
	forget_what_they_had();
	run(1000 * MS);
	expect(had(p, 1000 * MS) >= 20 - 2);
}

/* Even of a meted that was away for a day no more than 5 s are paid for. */
TEST(a_long_time_without_a_meted_is_not_paid_for_without_end)
{
	struct program *p = given_capped(GREEDY, 1 * MS, 4, 200, GREEDY);
	struct turns_kept kept;

	run(1000 * MS);
	turns_keep(&p->seat, &kept, m.now);
	expect(kept.ran);
	m.now += 86400000 * MS;
	p->seat = (struct turns_seat){0};
	turns_kept(&p->seat, &p->tenant, &kept, m.now);
	expect(p->seat.left_allowance >= -(int64_t)(6000 * MS * 1000));
}

/* Its clock began anew, so what is on record lies in the future. */
TEST(work_from_before_the_machine_started_anew_goes_on_no_more)
{
	struct program *p = given_capped(LEANS, 1 * MS, 4, 200, GREEDY);
	struct turns_kept kept = {.at_ns = 86400000 * MS,
				  .cap_owed = 100 * MS * 1000,
				  .owing_ns = 86400000 * MS - 3000 * MS,
				  .watched_until_ns = 86400000 * MS + 7000 * MS};

	run(1000 * MS);
	p->seat = (struct turns_seat){0};
	turns_kept(&p->seat, &p->tenant, &kept, m.now);
	expect_eq(p->seat.kept_owing_ns, 0);
	expect_eq(p->seat.left_allowance, -(int64_t)(100 * MS * 1000));
}

/* ---- weights --------------------------------------------------------------------------------- */

static double part_by_weight(uint64_t kernel_ns, uint64_t every_ns)
{
	struct program *p;

	given(false);
	p = add(AHEAD, 10, kernel_ns);
	add(GREEDY, 100, 1 * MS);
	begin();
	return part_of_restarted(p, every_ns, 0);
}

/* It had a turn after each restart, as if it had had none: 15 to 54 %. */
TEST(a_weight_holds_though_meted_ends_meanwhile)
{
	for (uint64_t every_ns = 300 * MS; every_ns <= 1200 * MS; every_ns *= 2) {
		expect(part_by_weight(100 * MS, every_ns) <= 100.0 * 10 / 110 + POINTS);
		expect(part_by_weight(200 * MS, every_ns) <= 100.0 * 10 / 110 + POINTS);
	}
}

/* ---- what it must not cost ------------------------------------------------------------------- */

/* It is watched as long as it would be by one meted, and not by each anew: 160 rounds in 5 s. */
TEST(a_tenant_with_a_cap_whose_work_waits_for_its_thread_is_not_watched_by_each_meted_anew)
{
	struct program *p = given_capped(LEANS, 1 * MS, 4, 200, GREEDY);
	uint64_t done;

	run_restarted(40000 * MS, 3000 * MS, 0);
	done = p->done;
	run_restarted(20000 * MS, 3000 * MS, 0);
	expect(p->done - done >= 4 * 400);
	expect_eq(m.hung, 0);
}

/* ---- who is not there ------------------------------------------------------------------------ */

static struct turns_seat *given_away(uint32_t cap_milli, const struct turns_kept *kept)
{
	struct program *p = given_capped(GREEDY, 1 * MS, 4, cap_milli, GREEDY);

	run(1000 * MS);
	turns_leave(&p->seat, m.now);
	p->seat = (struct turns_seat){0};
	turns_place(&p->seat, &p->tenant, &m.device);
	if (!kept)
		return &p->seat;
	turns_kept(&p->seat, &p->tenant, kept, m.now);
	turns_kept_all(&p->seat, kept, m.now);
	return &p->seat;
}

/* A process that came an hour later was charged that hour, as if it had been the one whose work
 * went on as the former meted ended. */
TEST(what_went_on_beside_others_has_ended_if_its_processes_are_not_there)
{
	const struct turns_kept kept = {
		.at_ns = 900 * MS, .owing_ns = 400 * MS, .cap_owed = 30 * MS * 1000};
	struct turns_seat *s = given_away(200, &kept);

	expect(turns_cap_owed(s, m.now) >= 500 * MS * 1000);
	m.now += 3600000 * MS;
	turns_join(s, &m.program[0].tenant, &m.device, &m.program[0], true, m.now);
	expect(s->gate != TURNS_OWING);
	expect_eq(turns_cap_owed(s, m.now), 0);
}

/* A debt of a tenant whose programs are all in tenants within it was never paid. */
TEST(a_cap_pays_before_the_first_process_is_there)
{
	const struct turns_kept kept = {.at_ns = 1000 * MS, .cap_owed = 1000 * MS * 1000};
	struct turns_seat *s = given_away(200, &kept), part = {0};

	turns_place(&part, &m.program[0].tenant, &m.device);
	m.now = 3000 * MS;
	expect_eq(turns_cap_owed(s, m.now), 600 * MS * 1000);
	turns_pass_cap(s, &part, 2, m.now);
	m.now += 500 * MS;
	expect_eq(turns_cap_owed(s, m.now), 200 * MS * 1000);
	expect_eq(turns_cap_owed(&part, m.now), 200 * MS * 1000);
	m.now += 3600000 * MS;
	expect_eq(turns_cap_owed(s, m.now) + turns_cap_owed(&part, m.now), 0);
}

/* Tenants within one that come one after the other had a burst each that nobody had saved up. */
TEST(a_part_of_a_tenant_begins_with_nothing_saved)
{
	struct turns_seat *s = given_away(200, NULL), part = {0};

	turns_place(&part, &m.program[0].tenant, &m.device);
	turns_pass_cap(s, &part, 2, m.now);
	turns_join(&part, &m.program[0].tenant, &m.device, &m.program[0], true, m.now);
	expect(part.allowance <= 0);
}

TEST(no_number_of_a_record_is_too_large)
{
	const struct turns_kept kept = {.at_ns = UINT64_MAX,
					.owed_ns = UINT64_MAX,
					.cap_owed = UINT64_MAX,
					.unpaid = UINT64_MAX,
					.floor_owed = UINT64_MAX,
					.owing_ns = UINT64_MAX,
					.left = UINT32_MAX};
	struct turns_seat *s = given_away(200, &kept);

	expect(s->left_allowance < 0 && s->unpaid > 0 && s->floor < 0);
	turns_join(s, &m.program[0].tenant, &m.device, &m.program[0], true, m.now);
	turns_kept_all(s, &kept, m.now);
	expect((int64_t)(s->virtual_ns - m.device.clock) > 0);
}

/* ---- who joins first ------------------------------------------------------------------------- */

/* Of a drain that was given up, and is watched for another second. */
static struct turns_kept kept_of_a_drain(void)
{
	return (struct turns_kept){.at_ns = m.now,
				   .owing_ns = m.now - 100 * MS,
				   .watched_until_ns = m.now + 1000 * MS,
				   .left = 1};
}

static struct program *given_nobody_yet(uint32_t cap_milli)
{
	struct turns_share share = {.weight = 100, .cap_milli = cap_milli, .class = SHARE_STANDARD};
	struct program *p = &m.program[0];

	given(false);
	begin();
	p->at = &p->seat;
	turns_tenant_init(&m.turns, &p->tenant, &share);
	return p;
}

static void join_again(struct program *p, struct turns_seat *s, struct turns_device *d,
		       const struct turns_kept *kept)
{
	turns_kept(s, &p->tenant, kept, m.now);
	turns_join(s, &p->tenant, d, p, true, m.now);
	pump();
}

/* Law 10: it is alone, and its gate is open. The timer stood there still, and its next turn was put
 * off by it once others had come. */
TEST(nobody_is_watched_on_an_open_device)
{
	struct program *p = given_nobody_yet(1000);
	struct turns_kept kept = kept_of_a_drain();

	join_again(p, &p->seat, &m.device, &kept);
	expect(!m.device.governed);
	expect_eq(p->seat.gate, TURNS_OPENED);
	expect(turns_deadline(&m.turns) == UINT64_MAX);
	expect(p->tenant.bond != TURNS_STAYED);
	expect(!p->tenant.watched_until_ns);
}

/* On its first device it had a turn before it had joined the second one, and kept it without that
 * one. The watch's time took the place of the turn's. */
TEST(a_tenant_that_is_watched_has_no_turn_on_another_device)
{
	struct program *p = given_nobody_yet(200);
	struct turns_kept nothing = {0}, kept = kept_of_a_drain();

	join_again(p, &p->seat, &m.device, &nothing);
	expect_eq(p->seat.gate, TURNS_OPENED);
	join_again(p, &p->second, &m.second, &kept);
	expect_eq(p->second.gate, TURNS_OWING);
	expect_eq(p->seat.gate, TURNS_CLOSING);
	turns_drained(&p->seat, true, m.now);
	pump();
	expect_eq(p->seat.gate, TURNS_CLOSED);
	m.now += 999 * MS;
	pump();
	expect_eq(p->seat.gate, TURNS_CLOSED);
	m.now += 1 * MS;
	pump();
	expect_eq(p->seat.gate, TURNS_OPENED);
	expect_eq(p->second.gate, TURNS_OPENED);
}

/* ---- any history ----------------------------------------------------------------------------- */

static void any_history(void)
{
	static const enum kind kinds[] = {AHEAD, AHEAD, LONG, GREEDY, EVEN};
	enum kind kind = kinds[test_random_below(ARRAY_SIZE(kinds))];
	uint64_t kernel_ns = (1 + test_random_below(kind == AHEAD ? 1000 : 100)) * MS;
	unsigned ahead = kind == EVEN || kind == LONG ? 1 : 1 + (unsigned)test_random_below(4);
	uint32_t cap_milli = 100 + 100 * (uint32_t)test_random_below(5);
	struct program *p = given_capped(kind, kernel_ns, ahead, cap_milli, GREEDY);
	uint64_t every_ns = (200 + test_random_below(4000)) * MS;
	double part = part_of_restarted(p, every_ns, 0);

	if (part > cap_milli / 10.0 + POINTS)
		test_fail(__FILE__, __LINE__,
			  "kind %d, kernels of %llu ms, %u ahead, a cap of %u, restarts every "
			  "%llu ms: %.1f %%",
			  (int)kind, (unsigned long long)(kernel_ns / MS), ahead, cap_milli,
			  (unsigned long long)(every_ns / MS), part);
}

TEST(a_cap_holds_in_any_history_of_restarts)
{
	for (unsigned round = 0; round < test_rounds(10); round++)
		any_history();
}
