/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/turns/turns.h against random histories: tenants on one device or several, whose
 * work ends when it likes, waits for a thread at the gate, or never ends; and which join, leave and
 * are set live. METE_SEED repeats a history.
 */
#include "core/turns/turns_machine.h"
#include "tests/unit/turns_always.h"

/* ---- what tenants do ------------------------------------------------------------------------- */

static struct turns_share any_share(void)
{
	static const uint32_t caps[] = {100, 250, 500, 900, 1000, 1000, 1000, 1000};
	struct turns_share share = {.weight = 100, .cap_milli = 1000, .class = SHARE_STANDARD};

	if (below(2))
		return share;
	share.weighted = below(4) == 0;
	share.weight = (uint32_t)(1 + below(below(2) ? 10000 : 300));
	share.cap_milli = caps[below(ARRAY_SIZE(caps))];
	share.guarantee_milli = below(3) ? 0 : (uint32_t)below(share.cap_milli);
	share.class = (enum share_class)below(3);
	share.equal = below(8) == 0;
	share.escalate = (enum turns_escalate)below(3);
	return share;
}

static void join(struct tenant *t, unsigned d)
{
	struct seat *s = &t->seats[d];

	*s = (struct seat){.there = 1, .device = d, .tenant = (unsigned)(t - m.tenants)};
	s->open = below(8) == 0;
	s->drained = !s->open;
	s->opened = s->open ? m.now : 0;
	s->idle = 1;
	if (m.restarts && s->open && below(2))
		submit(s); /* before a restart */
	forget_device(d);
	turns_join(&s->at, &t->at, &m.devices[d], s, s->open, m.now);
	pump();
}

static void leave(struct seat *s)
{
	turns_leave(&s->at, m.now);
	s->there = 0;
	forget_device(s->device);
}

/* One number in all: histories of seeds that are known (tests/seeds) stay as they are. */
static enum nature any_outside(void)
{
	uint64_t dice = below(16);

	if (dice % 4 == 0)
		return LIES;
	return dice < 4 ? STOPS : OUTSIDE;
}

static void come_or_go(struct tenant *t)
{
	if (t->there) {
		for (unsigned d = 0; d < DEVICES; d++) {
			if (t->seats[d].there)
				leave(&t->seats[d]);
		}
		t->there = 0;
		return;
	}
	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; i < TENANTS; i++) {
		if (m.group || i == ((size_t)(t - m.tenants) ^ 1))
			m.tenants[i].arrivals = 0;
	}
	t->there = 1;
	t->share = any_share();
	t->nature = m.natures ? (enum nature)(below(4) ? 0 : below(3)) : PLAIN;
	if (m.meet && below(4))
		t->nature = MEETS;
	if (m.outside && below(2))
		t->nature = any_outside();
	turns_tenant_init(&m.turns, &t->at, &t->share);
	if (m.multi && below(3) == 0) {
		unsigned first = (unsigned)below(DEVICES);

		for (unsigned i = 0; i < DEVICES; i++) {
			if (i == 0 || below(2))
				join(t, (first + i) % DEVICES);
		}
	} else {
		join(t, (unsigned)below(m.multi ? DEVICES : 1));
	}
}

static void want(struct seat *s)
{
	/* Most tenants that hang do nothing any more. */
	if ((s->reported && below(8)) || is_stopped(s))
		return;
	if (s->open) {
		int was_idle = s->idle;

		submit(s);
		if (was_idle || below(8) == 0)
			turns_wants(&s->at, m.now);
		return;
	}
	if (!s->stands)
		s->since = m.now;
	s->stands = 1;
	turns_wants(&s->at, m.now);
}

static int can_drain(const struct seat *s)
{
	const struct tenant *t = tenant_of(s);

	if (s->open || s->drained || s->busy_until > m.now || is_stopped(s))
		return 0;
	return t->nature == PLAIN || t->nature == OUTSIDE || t->nature == STOPS ||
	       (t->nature == COUPLED && !stands(t)) || (t->nature == MEETS && is_met(t));
}

static void rest(struct seat *s)
{
	uint64_t drain = overrun(s);

	if (can_drain(s)) {
		s->drained = 1;
		if (!s->owing && drain > s->longest_drain)
			s->longest_drain = drain;
		if (drain > m.longest_drain)
			m.longest_drain = drain;
		close_owed(s);
		close_span(s);
		tenant_of(s)->looked = 0;
		tenant_of(s)->vain = 0;
		turns_drained(&s->at, s->stands, m.now);
		s->stopped = 0;
	} else if (s->open && s->stands && !is_stopped(s)) {
		s->stands = 0; /* it was opened meanwhile */
		submit(s);
	} else if (s->open && !s->idle && s->busy_until <= m.now && !is_stopped(s)) {
		s->idle = 1;
		turns_idle(&s->at, m.now);
	}
}

static void set_live(struct tenant *t)
{
	t->share = any_share();
	t->suspended = 0;
	FOR_SEATS(s) forget_spans(s);
	turns_set(&t->at, &t->share, m.now);
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t next_end(void)
{
	uint64_t next = UINT64_MAX;

	FOR_SEATS(s)
	{
		uint64_t goes_on = tenant_of(s)->stopped_until;

		if (s->busy_until > m.now && s->busy_until < next)
			next = s->busy_until;
		if (goes_on > m.now && goes_on < next)
			next = goes_on;
	}
	return next;
}

static void let_rest(void)
{
	FOR_SEATS(s)
	{
		rest(s);
		pump();
	}
}

/* Somebody looks at some seats while nothing is due. */
static void look(uint64_t at)
{
	struct turns_action none;

	FOR_SEATS(s)
	{
		looks.random = looks.random * 6364136223846793005u + 1442695040888963407u;
		if (looks.random >> 63)
			turns_settle(&s->at, at);
		if (looks.random >> 62 & 1)
			turns_seat_allow(&s->at, at);
		if (looks.random >> 61 & 1)
			turns_seat_floor(&s->at, true, at);
	}
	turns_tick(&m.turns, at);
	expect_eq(turns_next(&m.turns, &none), 0);
}

static void go_to(uint64_t at)
{
	if (looks.on && at > m.now)
		look(m.now + (looks.random >> 32) % (at - m.now));
	m.now = at;
}

/* To the time given, as everything that falls due before. */
static void pass(uint64_t until)
{
	for (int rounds = 0; rounds < 100000; rounds++) {
		uint64_t next = turns_deadline(&m.turns), end = next_end();

		if (end < next)
			next = end;
		if (next > until)
			break;
		if (next > m.now)
			go_to(next);
		if (turns_deadline(&m.turns) <= m.now)
			turns_tick(&m.turns, m.now);
		pump();
		let_rest();
	}
	go_to(until);
}

/* Law 6: the hard bound. */
static void expect_nobody_starves(void)
{
	uint64_t turn = tuning.turn_ns + m.longest_drain, bound;

	bound = tuning.starve_ns + (TENANTS + 1) * turn;
	FOR_SEATS(s)
	{
		if (!could_run(s) || turns_cap_milli(&s->at) < 1000 || m.natures || m.multi)
			continue;
		expect(m.now - s->since <= bound);
	}
}

/* Its memory leaves, or has come: it has not waited for its turn meanwhile. */
static void bar(struct seat *s, bool barred)
{
	struct tenant *t = tenant_of(s);

	turns_bar(&s->at, barred, m.now);
	for (unsigned d = 0; d < DEVICES; d++)
		t->seats[d].since = m.now;
}

static void give_a_verdict(unsigned d)
{
	m.unfair[d] = below(2) == 0;
	turns_govern(&m.devices[d], m.unfair[d], m.now);
}

static void let_all_want(void)
{
	FOR_SEATS(s)
	{
		if (below(4))
			want(s);
		pump();
	}
}

static void step(void)
{
	struct tenant *t = &m.tenants[below(TENANTS)];
	struct seat *s = &t->seats[below(DEVICES)];
	/* A group is left alone for the most part, so that it is found, and gets on. */
	uint64_t dice = m.group && below(8) ? 99 : below(100);

	if (dice == 99 && m.group)
		let_all_want();
	else if (dice < 2)
		come_or_go(t);
	else if (dice < 4 && t->there)
		set_live(t);
	else if (dice < 5 && s->there)
		turns_uneven(&s->at, below(2), m.now);
	else if (dice < 8 && s->there)
		bar(s, below(3) == 0);
	else if (dice < 10 && m.verdicts)
		give_a_verdict((unsigned)below(DEVICES));
	else if (dice < 70 && s->there)
		want(s);
	pump();
	let_rest();
	if (below(3) == 0)
		pass(m.now + below(4) * below((m.group ? 12 : 3) * MS));
	expect_nobody_starves();
}

/* ---- how it ends ----------------------------------------------------------------------------- */

/* Law 9, and 6 in the end: everybody's work ends from now on, and everybody is served. */
static void expect_an_end(void)
{
	for (unsigned i = 0; i < TENANTS; i++)
		m.tenants[i].nature = PLAIN;
	for (unsigned i = 0; i < TENANTS; i++) {
		if (m.tenants[i].suspended)
			set_live(&m.tenants[i]);
		pump();
	}
	FOR_SEATS(s)
	{
		bar(s, false);
		pump();
	}
	FOR_SEATS(s)
	{
		want(s);
		pump();
	}
	for (int i = 0; i < 400; i++) {
		int left = 0;

		let_rest();
		FOR_SEATS(s) left |= s->stands;
		if (!left)
			return;
		pass(m.now + 5 * MS * (1u + (unsigned)i));
	}
	expect(!"nobody waits for ever");
}

static void begin(int restarts, int verdicts, int meet, int group, int outside)
{
	memset(&m, 0, sizeof(m));
	m.verdicts = verdicts;
	m.now = m.start = 1 + below(1000000) * MS;
	m.restarts = restarts;
	m.natures = below(2) == 0;
	m.multi = below(2) == 0 && !group;
	m.meet = meet;
	m.group = group;
	m.outside = outside;
	turns_init(&m.turns, &tuning);
	for (unsigned d = 0; d < DEVICES; d++)
		turns_device_init(&m.turns, &m.devices[d], 2 * d + 1);
	for (unsigned i = 0; i < 2 + below(TENANTS - 1); i++) {
		come_or_go(&m.tenants[i]);
		pump();
	}
}

/* `restarts`: a tenant that joins with an open gate may have work in flight. `verdicts`:
 * turns_govern(). `meet`: many wait for each other. `group`: all of those do, on one device.
 * `outside`: many wait for something outside, or claim it. */
static void history(int restarts, int verdicts, int meet, int group, int outside)
{
	begin(restarts, verdicts, meet, group, outside);
	for (int i = 0; i < STEPS; i++)
		step();
	expect_an_end();
}

static void any_history(unsigned round)
{
	history(true, round % 2, round % 3 == 0, round % 6 == 0, round % 5 < 2);
}

/* As the random numbers stood when they began. */
TEST(histories_that_broke_a_law_once_break_it_no_more)
{
	static const uint64_t begun[] = {
		/* A tenant that was reported as hung left the device on which its gate had not
		 * drained, and was never asked again. */
		0x0f81ceecbf8029e0,
		0x09a2a21228db7690,
		/* A tenant that comes alone to a device with a cap runs there without its other
		 * ones. */
		0x3d17ef45f9eead9f,
		/* A gate that is opened with work in flight counts as idle. */
		0x95f2a7f780f21461,
	};

	for (size_t i = 0; i < ARRAY_SIZE(begun); i++) {
		test_random_restart(begun[i]);
		history(false, false, false, false, false);
	}
}

TEST(the_laws_hold_after_every_step_of_any_history)
{
	uint64_t opened = 0, reopened = 0, reports = 0, checks = 0, granted = 0, given_up = 0,
		 vain = 0;
	uint64_t awaited = 0, along = 0, chains = 0, unpaid = 0, briefs = 0, held = 0,
		 held_long = 0, held_standing = 0, stopped = 0, rounds = test_rounds(800);

	for (unsigned round = 0; round < rounds; round++) {
		any_history(round);
		opened += m.governed;
		granted += m.granted[0];
		reopened += m.reopened;
		reports += m.reports;
		given_up += m.given_up;
		vain += m.vain;
		checks += m.checks;
		awaited += m.awaited;
		along += m.along;
		chains += m.chains;
		unpaid += m.unpaid;
		briefs += m.briefs;
		held += m.held;
		held_long += m.held_long;
		held_standing += m.held_standing;
		stopped += m.stopped;
	}
	/* It was no empty word. */
	expect(opened > 1000 && reopened > 10 && reports > 3 && given_up > 10 && vain > 10 &&
	       checks > 100 && granted > MS && awaited > 10 && along > 100 && chains > 100 &&
	       unpaid > rounds / 4 && briefs > 10 && held > 100 && held_long > 100 &&
	       held_standing > 100 && stopped > 30);
}

TEST(nobodys_look_changes_what_is_decided)
{
	uint64_t deeds = 0;

	for (unsigned round = 0; round < test_rounds(200); round++) {
		uint64_t begun = test_random_below(UINT64_MAX);
		unsigned length = 0;

		for (looks.on = 0; looks.on < 2; looks.on++) {
			looks.random = begun;
			length = looks.deeds;
			looks.deeds = 0;
			test_random_restart(begun);
			any_history(round);
		}
		looks.on = 0;
		expect_eq(looks.deeds, length);
		deeds += length;
	}
	expect(deeds > 10000);
}
