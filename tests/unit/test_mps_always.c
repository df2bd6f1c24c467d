/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/mps.h against a modelled GPU: commands take a while and fail at random, daemons
 * die, are seen to die or not, and what is wanted changes. METE_SEED repeats a history.
 */
#include "core/mps.h"
#include "tests/test.h"

enum { HISTORIES = 300, STEPS = 400 };

static const uint64_t ms = 1000000;

static struct {
	struct mps mps;
	uint64_t now;
	uint32_t fails; /* so many commands of a hundred */
	bool mode, alive, quitting;
	uint32_t limits, told; /* versions: as they are, and as the daemon knows them */
	uint32_t asks_left;    /* that a new daemon does not hear yet */
	bool asked_after;      /* a question was answered after the start, the end, the change */
	bool heard_nobody;     /* by the last question */
	uint64_t failed_at, failed_pause;
	enum mps_command failed;
} m;

static bool chance(uint32_t percent)
{
	return test_random_below(100) < percent;
}

static void begin(uint32_t fails)
{
	memset(&m, 0, sizeof(m));
	m.now = (1 + test_random_below(1000)) * ms;
	m.fails = fails;
	m.mode = chance(50);
	m.alive = m.mode && chance(50);
	m.limits = 1;
	mps_init(&m.mps, m.mode, m.now);
}

static bool start(void)
{
	expect(m.mode);
	expect(m.heard_nobody);
	if (m.alive)
		return false; /* there may be one that did not answer */
	m.alive = true;
	m.asked_after = false;
	m.told = 0;
	m.asks_left = (uint32_t)test_random_below(4);
	return true;
}

static bool ask(void)
{
	bool hears = m.alive && !m.asks_left;

	if (m.asks_left)
		m.asks_left--;
	if (m.quitting && chance(50))
		m.alive = m.quitting = false;
	return hears;
}

/* Its outcome in this world. */
static bool carry_out(enum mps_command command)
{
	bool fails = chance(m.fails);

	switch (command) {
	case MPS_MODE:
		m.mode |= !fails;
		break;
	case MPS_UNMODE:
		expect(m.heard_nobody);
		expect(!m.mps.wanted);
		m.mode &= fails;
		break;
	case MPS_ASK:
		/* One that is busy may not hear. */
		fails = (fails && m.mps.wanted) || !ask();
		m.heard_nobody = fails;
		m.asked_after |= !fails;
		break;
	case MPS_START:
		fails = fails || !start();
		break;
	case MPS_LIMIT:
		fails |= !m.alive;
		if (!fails)
			m.told = m.limits;
		break;
	case MPS_QUIT:
		fails |= !m.alive;
		m.quitting |= !fails;
		break;
	case MPS_NOTHING:
		break;
	}
	return !fails;
}

static void die(void)
{
	m.alive = m.quitting = m.asked_after = false;
	m.told = 0;
	if (chance(50))
		mps_gone(&m.mps, m.now);
}

static void happen(void)
{
	switch (test_random_below(12)) {
	case 0:
		mps_want(&m.mps, chance(50), m.now);
		break;
	case 1:
		if (m.alive)
			die();
		break;
	case 2:
		m.limits++;
		mps_limits(&m.mps, m.now);
		expect(!m.mps.ready);
		break;
	default:
		break;
	}
}

static void check(void)
{
	if (m.mps.ready) {
		expect(m.mps.wanted && m.mode);
		/* A death that nobody has seen is found by the next question. */
		expect(!m.alive || m.told == m.limits);
		expect(!m.alive || m.asked_after);
	}
	expect(m.mps.marked || !m.mode);
	if (m.mps.runs != MPS_NOTHING)
		expect(mps_next(&m.mps, m.now) == MPS_NOTHING);
}

/* Runs the next command to its end. False: none is due. */
static bool step(void)
{
	uint64_t due = mps_deadline(&m.mps);
	enum mps_command command;
	bool well;

	if (due == UINT64_MAX)
		return false;
	if (due > m.now) {
		expect(mps_next(&m.mps, due - 1) == MPS_NOTHING);
		m.now = due;
	}
	command = mps_next(&m.mps, m.now);
	expect(command != MPS_NOTHING);
	well = carry_out(command);
	m.now += test_random_below(20) * ms;
	if (m.fails)
		happen();
	check();
	mps_did(&m.mps, well, m.now);
	check();
	return true;
}

static void disturb(uint32_t fails)
{
	begin(fails);
	for (unsigned i = 0; i < STEPS; i++) {
		happen();
		if (!step())
			m.now += test_random_below(1000) * ms;
	}
	m.fails = 0;
}

TEST(laws_1_to_4_hold_whatever_happens)
{
	for (unsigned i = 0; i < HISTORIES; i++)
		disturb(1 + (uint32_t)test_random_below(60));
}

TEST(law_5_wanted_daemons_come_in_the_end)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		disturb(30);
		mps_want(&m.mps, true, m.now);
		for (unsigned n = 0; n < 100 && !(m.mps.ready && m.alive); n++)
			expect(step());
		expect(m.mps.ready && m.alive && m.mode);
	}
}

TEST(law_5_and_without_failures_soon)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		unsigned n = 0;

		begin(0);
		mps_want(&m.mps, true, m.now);
		while (!m.mps.ready && n < 100) {
			n += !m.asks_left; /* questions that come too early do not count */
			expect(step());
		}
		expect(n <= 6);
	}
}

TEST(laws_5_and_8_unwanted_daemons_end_and_then_all_is_quiet)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		disturb(30);
		mps_want(&m.mps, true, m.now);
		mps_want(&m.mps, false, m.now);
		for (unsigned n = 0; n < 100 && m.mps.marked; n++)
			expect(step());
		expect(!m.mode && !m.alive && !m.mps.ready && !m.mps.marked);
		expect(mps_deadline(&m.mps) == UINT64_MAX);
		expect(mps_next(&m.mps, m.now + 3600000 * ms) == MPS_NOTHING);
	}
}

/* Otherwise nobody would know that it is there. */
TEST(law_7_a_daemon_that_a_former_meted_was_starting_is_ended)
{
	begin(0);
	m.mode = m.alive = true;
	m.asks_left = 10;
	mps_init(&m.mps, true, m.now);
	for (unsigned n = 0; n < 40 && m.mps.marked; n++)
		expect(step());
	expect(!m.mode && !m.alive && !m.mps.marked);
}

TEST(law_6_pauses_grow)
{
	uint64_t before, pause = 0;

	begin(0);
	m.mode = m.alive = false;
	mps_init(&m.mps, false, m.now);
	m.fails = 100;
	mps_want(&m.mps, true, m.now);
	for (unsigned i = 0; i < 20; i++) {
		m.now = mps_deadline(&m.mps);
		expect_eq(mps_next(&m.mps, m.now), MPS_MODE);
		before = pause;
		mps_did(&m.mps, false, m.now);
		pause = mps_deadline(&m.mps) - m.now;
		expect(pause >= MPS_PAUSE_NS && pause <= MPS_PAUSE_MOST_NS && pause >= before);
	}
	expect(pause > 20 * (uint64_t)1000 * ms);
}

TEST(law_6_a_daemon_that_ends_soon_is_started_seldom_and_one_that_was_steady_at_once)
{
	uint64_t ready;

	begin(0);
	mps_want(&m.mps, true, m.now);
	for (unsigned i = 0; i < 12; i++) {
		while (!m.mps.ready)
			expect(step());
		ready = m.now;
		m.alive = m.asked_after = false;
		mps_gone(&m.mps, m.now);
		expect(mps_deadline(&m.mps) > m.now);
	}
	expect(mps_deadline(&m.mps) - ready > 20 * (uint64_t)1000 * ms);
	while (!m.mps.ready || m.now - m.mps.ready_ns < MPS_STEADY_NS)
		expect(step());
	m.alive = m.asked_after = false;
	mps_gone(&m.mps, m.now);
	expect_eq(mps_deadline(&m.mps), m.now);
}
