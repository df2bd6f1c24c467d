/* SPDX-License-Identifier: Apache-2.0 */
/* Open devices, and tenants who hang or are coupled: the machine by itself. */
#include "tests/unit/turns_fixture.h"

/* ---- open devices ---------------------------------------------------------------------------- */

static struct turns turns;
static struct turns_device device;
static struct turns_tenant tenants[3];
static struct turns_seat seats[3];

static int actions(void)
{
	struct turns_action action;
	int count = 0;

	for (; turns_next(&turns, &action); count++) {
		if (action.verb == TURNS_CLOSE)
			turns_drained(action.seat, true, 0);
	}
	return count;
}

static void two_alike(void)
{
	struct turns_share share = {.weight = 100, .cap_milli = 1000, .class = SHARE_STANDARD};

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	for (int i = 0; i < 2; i++) {
		turns_tenant_init(&turns, &tenants[i], &share);
		seats[i] = (struct turns_seat){0};
		turns_join(&seats[i], &tenants[i], &device, NULL, false, 1);
	}
	expect_eq(actions(), 2);
}

TEST(tenants_that_are_alike_take_turns_only_while_told_to)
{
	two_alike();
	expect(turns_alike(&device) && !device.governed);
	turns_govern(&device, true, 2);
	expect(actions() >= 2 && device.governed && turns_alike(&device));
	turns_govern(&device, false, 3);
	expect(actions() > 0 && !device.governed);
	expect(turns_deadline(&turns) == UINT64_MAX);
}

static int next_verb(uint64_t now_ns)
{
	struct turns_action action;

	turns_tick(&turns, now_ns);
	while (turns_next(&turns, &action)) {
		if (action.verb == TURNS_REPORT)
			return TURNS_REPORT;
		if (action.verb == TURNS_LATE)
			turns_late(action.seat, false, now_ns);
	}
	return 0;
}

/* What it says of its drain is not read meanwhile. */
TEST(a_time_in_which_the_daemon_did_not_run_makes_no_drain_late)
{
	const uint64_t hang_ns = turns_usual.hang_ns, lost_ns = 10 * hang_ns;

	two_alike();
	turns_bar(&seats[0], true, 2);
	expect(device.governed);
	expect_eq(next_verb(hang_ns / 2), 0);
	turns_lost(&device, lost_ns, hang_ns / 2 + lost_ns);
	expect_eq(next_verb(hang_ns / 2 + lost_ns), 0);
	expect_eq(next_verb(hang_ns + lost_ns), 0);
	expect_eq(next_verb(hang_ns + lost_ns + 2), TURNS_REPORT);
}

TEST(a_tenant_that_is_alone_takes_no_turns_whatever_was_decided_before)
{
	two_alike();
	turns_govern(&device, true, 2);
	expect(actions() >= 2 && device.governed);
	turns_leave(&seats[1], 3);
	expect(!device.governed && !turns_alike(&device));
	expect(actions() <= 1);
	expect_eq(seats[0].gate, TURNS_OPENED);
}

TEST(tenants_that_run_at_once_take_no_turns_whatever_their_shares)
{
	const struct turns_share more = {
		.weight = 300, .cap_milli = 500, .class = SHARE_INTERACTIVE};

	two_alike();
	turns_set(&tenants[0], &more, 2);
	expect(actions() > 0 && device.governed);
	turns_at_once(&device, true, 3);
	expect(actions() > 0 && !device.governed && !turns_alike(&device));
	expect(seats[0].gate == TURNS_OPENED && seats[1].gate == TURNS_OPENED);
	expect(turns_deadline(&turns) == UINT64_MAX);
	turns_bar(&seats[0], true, 4);
	expect(actions() > 0 && device.governed);
	turns_bar(&seats[0], false, 5);
	turns_at_once(&device, false, 6);
	expect(device.governed);
}

TEST(where_turns_would_change_nothing_nothing_is_gated)
{
	struct turns_share share = {.weight = 100, .cap_milli = 1000, .class = SHARE_STANDARD};

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	for (int i = 0; i < 3; i++)
		turns_tenant_init(&turns, &tenants[i], &share);
	turns_join(&seats[0], &tenants[0], &device, NULL, false, 1);
	turns_join(&seats[1], &tenants[1], &device, NULL, false, 1);
	expect_eq(actions(), 2);
	turns_wants(&seats[0], 2);
	turns_wants(&seats[1], 2);
	turns_idle(&seats[1], 3);
	expect_eq(actions(), 0);
	expect(!device.governed && turns_deadline(&turns) == UINT64_MAX);

	/* Three processes would have three slices. */
	turns_uneven(&seats[1], true, 4);
	expect(actions() >= 2 && device.governed);
	turns_uneven(&seats[1], false, 5);
	expect(actions() > 0 && !device.governed);
	expect_eq(seats[0].gate, TURNS_OPENED);
	expect_eq(seats[1].gate, TURNS_OPENED);
	expect(turns_deadline(&turns) == UINT64_MAX);
}

/* Until the time given, of tenants whose work takes all that they are let. */
static void play(uint64_t *now, uint64_t until)
{
	struct turns_action action;

	for (;;) {
		while (turns_next(&turns, &action))
			if (action.verb == TURNS_CLOSE)
				turns_drained(action.seat, true, *now);
		if (turns_deadline(&turns) > until)
			break;
		*now = turns_deadline(&turns);
		turns_tick(&turns, *now);
	}
	*now = until;
}

TEST(a_tenant_of_short_processes_has_no_more_than_its_cap)
{
	struct turns_share share = {.weight = 100, .cap_milli = 100, .class = SHARE_STANDARD};
	uint64_t now = 1, sum = 0;

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	turns_tenant_init(&turns, &tenants[0], &share);
	memset(&seats[0], 0, sizeof(seats[0]));
	for (int i = 0; i < 100; i++) {
		turns_join(&seats[0], &tenants[0], &device, NULL, false, now);
		turns_wants(&seats[0], now);
		play(&now, now + 10 * MS);
		turns_settle(&seats[0], now);
		sum += seats[0].charged_ns;
		turns_leave(&seats[0], now);
	}
	expect(sum > 80 * MS && sum <= 106 * MS);
}

TEST(a_processs_debt_is_owed_by_the_next_one_of_its_tenant)
{
	struct turns_share share = {.weight = 100, .weighted = true, .cap_milli = 1000};
	struct turns_action action;
	uint64_t now = 1;

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	for (int i = 0; i < 2; i++) {
		turns_tenant_init(&turns, &tenants[i], &share);
		memset(&seats[i], 0, sizeof(seats[i]));
		turns_join(&seats[i], &tenants[i], &device, NULL, false, now);
	}
	/* One kernel of 100 ms while somebody else waits; then the process ends. */
	turns_wants(&seats[0], now);
	turns_wants(&seats[1], now);
	while (turns_next(&turns, &action))
		;
	now = turns_deadline(&turns);
	turns_tick(&turns, now);
	while (turns_next(&turns, &action))
		;
	expect_eq(seats[0].gate, TURNS_CLOSING);
	now += 100 * MS;
	turns_leave(&seats[0], now);
	play(&now, now + MS);
	turns_join(&seats[0], &tenants[0], &device, NULL, false, now);
	turns_wants(&seats[0], now);
	turns_wants(&seats[1], now);
	play(&now, now + 90 * MS);
	turns_settle(&seats[0], now);
	turns_settle(&seats[1], now);
	expect(seats[0].charged_ns <= 30 * MS && seats[1].charged_ns >= 60 * MS);
}

/* Hardware's slices of 10 ms kernels and of 100 us kernels are no equal parts. */
TEST(a_weight_that_was_stated_makes_turns_though_it_is_everybodys)
{
	struct turns_share share = {.weight = 100, .cap_milli = 1000, .class = SHARE_STANDARD};

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	turns_tenant_init(&turns, &tenants[0], &share);
	share.weighted = true;
	turns_tenant_init(&turns, &tenants[1], &share);
	turns_join(&seats[1], &tenants[1], &device, NULL, false, 1);
	expect(actions() == 1 && !device.governed);
	turns_join(&seats[0], &tenants[0], &device, NULL, false, 1);
	expect(device.governed);
	share.weighted = false;
	turns_set(&tenants[1], &share, 2);
	expect(!device.governed);
}

static void open_and_close(void)
{
	struct turns_action action;

	while (turns_next(&turns, &action))
		expect(action.verb == TURNS_OPEN || action.verb == TURNS_CLOSE);
}

/* Law 1. A tenant that came with an open gate has work in flight on a device that is claimed by
 * another, which waits for its other device. */
TEST(a_tenant_that_fills_in_waits_until_work_without_turns_has_drained)
{
	struct turns_share share = {.weight = 100, .weighted = true, .cap_milli = 1000};
	static struct turns_device other;
	static struct turns_tenant four[4];
	static struct turns_seat rival, both[2], fills_in, stray;

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	turns_device_init(&turns, &other, 1);
	for (size_t i = 0; i < ARRAY_SIZE(four); i++)
		turns_tenant_init(&turns, &four[i], &share);
	turns_join(&rival, &four[0], &other, NULL, false, 1);
	turns_join(&both[0], &four[1], &device, NULL, false, 1);
	turns_join(&both[1], &four[1], &other, NULL, false, 1);
	turns_join(&fills_in, &four[2], &device, NULL, false, 1);
	open_and_close();
	turns_drained(&rival, false, 1);
	turns_drained(&both[0], false, 1);
	turns_wants(&rival, 2);
	turns_wants(&both[0], 2);
	expect(rival.gate == TURNS_OPENED && device.claimed == &both[0]);
	turns_join(&stray, &four[3], &device, NULL, true, 2);
	turns_wants(&fills_in, 2);
	open_and_close();
	expect(stray.gate == TURNS_CLOSING && fills_in.gate == TURNS_CLOSED);
	turns_drained(&stray, false, 2);
	expect_eq(fills_in.gate, TURNS_OPENED);
}

TEST(a_tenant_that_is_alone_is_never_gated_whatever_its_weight)
{
	struct turns_share share = {
		.weight = 7, .cap_milli = 1000, .guarantee_milli = 500, .class = SHARE_BATCH};

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	turns_tenant_init(&turns, &tenants[0], &share);
	turns_join(&seats[0], &tenants[0], &device, NULL, true, 1);
	turns_uneven(&seats[0], true, 1);
	expect_eq(actions(), 0);
	expect(!device.governed);
	share.cap_milli = 600;
	turns_set(&tenants[0], &share, 2);
	expect(device.governed && turns_deadline(&turns) != UINT64_MAX);
}

TEST(a_seats_last_second_is_kept_from_when_its_caller_has_a_place_for_it)
{
	static struct turns_rates rates;
	struct turns_seat *holder;

	two_alike();
	turns_govern(&device, true, 2);
	expect(actions() >= 2);
	holder = device.holder;
	expect(holder);
	turns_settle(holder, 500 * MS);
	expect_eq(turns_rate_60s(&turns_rates_of(holder)->charged, 1000 * MS), 0);
	rates = (struct turns_rates){0};
	holder->rates = &rates;
	turns_settle(holder, 800 * MS);
	expect_eq(turns_rate_60s(&turns_rates_of(holder)->charged, 1000 * MS), 300 * MS);
	expect(turns_rates_of(holder)->entitled.slot != 0);
}

/* ---- who hangs ------------------------------------------------------------------------------- */

static struct {
	uint64_t now;
	unsigned reported, killed, suspended, opened;
} hung;

/* Nothing drains by itself, and no thread stands at a gate. */
static void let_hang(uint64_t length_ns)
{
	struct turns_action action;

	for (uint64_t end = hung.now + length_ns; hung.now < end; hung.now += 100 * US) {
		turns_tick(&turns, hung.now);
		while (turns_next(&turns, &action)) {
			hung.killed += action.verb == TURNS_KILL;
			hung.suspended += action.verb == TURNS_SUSPEND;
			hung.reported += action.verb == TURNS_REPORT;
			hung.opened += action.verb == TURNS_OPEN;
			if (action.verb == TURNS_LATE)
				turns_late(action.seat, false, hung.now);
		}
	}
}

static void given_one(const struct turns_share *share)
{
	memset(&hung, 0, sizeof(hung));
	hung.now = 1;
	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	turns_tenant_init(&turns, &tenants[0], share);
	turns_join(&seats[0], &tenants[0], &device, NULL, false, hung.now);
	turns_wants(&seats[0], hung.now);
}

TEST(a_tenant_that_hangs_on_two_devices_is_reported_and_killed_once)
{
	struct turns_share share = {.weight = 100,
				    .cap_milli = 500,
				    .class = SHARE_STANDARD,
				    .escalate = TURNS_MAY_KILL};
	static struct turns_device other;

	given_one(&share);
	turns_device_init(&turns, &other, 1);
	turns_join(&seats[1], &tenants[0], &other, NULL, false, hung.now);
	turns_wants(&seats[1], hung.now);
	let_hang(10000 * MS);
	expect_eq(hung.reported, 1);
	expect_eq(hung.killed, 1);
}

TEST(a_suspended_tenant_has_no_turn_though_its_work_ends_until_its_share_is_set)
{
	struct turns_share share = {.weight = 100,
				    .cap_milli = 500,
				    .class = SHARE_STANDARD,
				    .escalate = TURNS_MAY_SUSPEND};

	given_one(&share);
	let_hang(10000 * MS);
	expect_eq(hung.suspended, 1);
	expect_eq(hung.opened, 1);
	turns_drained(&seats[0], true, hung.now);
	let_hang(10000 * MS); /* its cap has paid by then */
	expect_eq(hung.opened, 1);
	turns_set(&tenants[0], &share, hung.now);
	let_hang(100 * MS);
	expect_eq(hung.opened, 2);
}

/* ---- who is coupled -------------------------------------------------------------------------- */

static struct {
	uint64_t now;
	bool stuck; /* its next drain waits for a thread at the gate */
	bool coupled;
} coupled;

/* Until it is coupled, or is not any more: how many of its closes have drained at once. */
static unsigned closes_until(bool wanted)
{
	struct turns_action action;
	unsigned closes = 0;

	for (; coupled.coupled != wanted && coupled.now < 3000000 * MS; coupled.now += 100 * US) {
		turns_tick(&turns, coupled.now);
		while (turns_next(&turns, &action)) {
			if (action.verb == TURNS_COUPLED || action.verb == TURNS_UNCOUPLED)
				coupled.coupled = action.verb == TURNS_COUPLED;
			if (action.verb == TURNS_LATE) {
				turns_late(action.seat, true, coupled.now);
				coupled.stuck = false;
			}
			if (action.verb == TURNS_CLOSE && !coupled.stuck) {
				turns_drained(action.seat, true, coupled.now);
				closes++;
			}
		}
	}
	expect_eq(coupled.coupled, wanted);
	return closes;
}

/* A tenant with kernels of 10 ms, one after the other, whose first drain takes longer than a gate
 * is waited for without a look, as on a busy machine: each step lets a kernel in. */
TEST(long_kernels_that_a_step_lets_in_can_drain)
{
	struct turns_share share = {.weight = 100, .cap_milli = 500, .class = SHARE_STANDARD};
	struct turns_action action;
	uint64_t busy = 120 * MS;
	unsigned left = 0, drained = 0;
	bool open = false;

	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	turns_tenant_init(&turns, &tenants[0], &share);
	turns_join(&seats[0], &tenants[0], &device, NULL, false, 1);
	turns_wants(&seats[0], 1);
	for (uint64_t now = 1; now < 5000 * MS; now += 50 * US) {
		turns_tick(&turns, now);
		while (turns_next(&turns, &action)) {
			left += action.verb == TURNS_BESIDE;
			open = action.verb == TURNS_OPEN || (open && action.verb != TURNS_CLOSE);
			/* Its thread waits to launch the next one. */
			if (action.verb == TURNS_LATE)
				turns_late(action.seat, true, now);
			else if (action.verb == TURNS_OPEN)
				busy = most(busy, now) + 10 * MS;
		}
		if (open && busy <= now)
			busy = now + 10 * MS;
		if (seats[0].gate == TURNS_CLOSING && busy <= now) {
			turns_drained(&seats[0], true, now);
			drained++;
		}
	}
	expect_eq(left, 0);
	expect(drained > 10);
	expect_eq(tenants[0].bond, TURNS_FREE);
}

TEST(a_tenant_that_is_coupled_again_is_so_for_longer_each_time)
{
	struct turns_share share = {.weight = 100, .cap_milli = 500, .class = SHARE_STANDARD};
	static const unsigned smooth[] = {8, 32, 128, 512, 2048, 8192, 8192};

	memset(&coupled, 0, sizeof(coupled));
	coupled.now = 1;
	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	turns_tenant_init(&turns, &tenants[0], &share);
	turns_join(&seats[0], &tenants[0], &device, NULL, false, coupled.now);
	turns_wants(&seats[0], coupled.now);
	for (size_t i = 0; i < ARRAY_SIZE(smooth); i++) {
		coupled.stuck = true;
		expect_eq(closes_until(true), 0);
		/* And the close that it was let in for. */
		expect_eq(closes_until(false), smooth[i] + 1);
	}
}
