/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/turns/turns.h against random histories: tenants on one device or several, whose
 * work ends when it likes, waits for a thread at the gate, or never ends; who join, leave and are
 * set live. METE_SEED repeats a history.
 */
#include "core/turns/turns.h"

#include <stdlib.h>

#include "tests/test.h"

enum {
	DEVICES = 3,
	TENANTS = 7,
	STEPS = 400,
	SPANS = 512, /* remembered of a seat */
};

#define US 1000ull
#define MS 1000000ull

/* What its work is like. */
enum nature { PLAIN, COUPLED, HANGS, MEETS };

struct span {
	uint64_t from, to;
};

struct seat {
	struct turns_seat at;
	unsigned device, tenant;
	int there, open, drained, stands, idle;
	int excused; /* it was looked at in vain: others may run */
	int reported;
	int let_in;			/* law 7: its gate must be opened, as it could not drain */
	uint64_t busy_until;		/* of what was submitted */
	uint64_t opened, closed, since; /* since: it stands at the gate */
	uint64_t began;			/* its gate was opened, or opened again */
	uint64_t ending;		/* its turn ended */
	uint64_t granted;		/* since: its turn; 0: it has none */
	uint64_t longest_drain;
	struct span spans[SPANS];
	unsigned span, first_span;
};

struct tenant {
	struct turns_tenant at;
	struct turns_share share;
	enum nature nature;
	uint64_t arrivals; /* of who MEETS: it waits there for its partner */
	int there, stepped, coupled, looked, suspended;
	struct seat seats[DEVICES];
};

static struct {
	struct turns turns;
	struct turns_device devices[DEVICES];
	struct tenant tenants[TENANTS + 1]; /* pairs; the last one is never there */
	uint64_t now, start, longest_drain, granted[DEVICES];
	int natures, multi, meet, restarts, was_governed[DEVICES];
	int verdicts, unfair[DEVICES]; /* its tenants take turns although they are alike */
	uint64_t opened, reopened, given_up, reports, checks, governed, awaited, along;
} m;

static const struct turns_tuning tuning = {
	.turn_ns = 8 * MS,
	.shortest_ns = 1 * MS,
	.grace_ns = 300 * US,
	.drain_ns = 20 * MS,
	.step_ns = 250 * US,
	.beside_ns = 40 * MS,
	.hang_ns = 60 * MS,
	.escalate_ns = 30 * MS,
	.starve_ns = 400 * MS,
	.debt_ns = 100 * MS,
	.lead_ns = 40 * MS,
	.burst_ns = 5 * MS,
};

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static struct seat *seat_of(const struct turns_seat *at)
{
	return container_of(at, struct seat, at);
}

static struct tenant *tenant_of(const struct seat *s)
{
	return &m.tenants[s->tenant];
}

#define FOR_SEATS(s)                                                                               \
	for (unsigned s##_i = 0; s##_i < TENANTS * DEVICES; s##_i++)                               \
		for (struct seat *s = &m.tenants[s##_i / DEVICES].seats[s##_i % DEVICES];          \
		     s && s->there; s = NULL)

/* A thread of the tenant stands at one of its gates. */
static int stands(const struct tenant *t)
{
	for (unsigned d = 0; d < DEVICES; d++) {
		if (t->seats[d].there && t->seats[d].stands)
			return 1;
	}
	return 0;
}

/* Who waits for whom. */
static struct tenant *partner_of(const struct tenant *t)
{
	size_t i = (size_t)(t - m.tenants) ^ 1;

	return t->nature == MEETS && i < TENANTS && m.tenants[i].there &&
			       m.tenants[i].nature == MEETS
		       ? &m.tenants[i]
		       : NULL;
}

static void arrive(struct tenant *t)
{
	const struct tenant *partner = partner_of(t);

	if (partner && t->arrivals <= partner->arrivals)
		t->arrivals++;
}

static int is_met(const struct tenant *t)
{
	const struct tenant *partner = partner_of(t);

	return !partner || partner->arrivals >= t->arrivals;
}

static int is_governed(const struct seat *s)
{
	return m.devices[s->device].governed;
}

static int is_multi(const struct tenant *t)
{
	int n = 0;

	for (unsigned d = 0; d < DEVICES; d++)
		n += t->seats[d].there && is_governed(&t->seats[d]);
	return n > 1;
}

/* ---- caps ------------------------------------------------------------------------------------ */

static void forget_spans(struct seat *s)
{
	s->first_span = s->span;
	s->longest_drain = 0;
	if (s->opened)
		s->opened = m.now;
}

static void forget_device(unsigned d)
{
	FOR_SEATS(s)
	{
		if (s->device != d)
			continue;
		forget_spans(s);
		if (m.devices[d].governed != m.was_governed[d])
			s->granted = 0; /* it was open before */
	}
}

/* Law 5, of the second that ends now. */
static void expect_cap(struct seat *s)
{
	uint64_t cap = turns_cap_milli(&s->at), sum = 0, second = 1000 * MS;
	uint64_t from = m.now > second ? m.now - second : 0;

	/* Who is coupled is closed when it is idle, however long that takes. */
	if (cap >= 1000 || s->span - s->first_span >= SPANS || tenant_of(s)->coupled)
		return;
	for (unsigned i = s->first_span; i < s->span; i++) {
		const struct span *p = &s->spans[i % SPANS];

		if (p->to > from)
			sum += p->to - (p->from > from ? p->from : from);
	}
	expect(sum <= cap * MS + tuning.burst_ns + s->longest_drain + US);
	m.checks++;
}

/* Law 2: until it has drained, or was reported. */
static void end_grant(struct seat *s)
{
	if (s->granted)
		m.granted[s->device] += m.now - s->granted;
	s->granted = 0;
	expect(m.granted[s->device] <= m.now - m.start);
}

static void close_span(struct seat *s)
{
	if (s->opened && s->span - s->first_span < SPANS)
		s->spans[s->span++ % SPANS] = (struct span){s->opened, m.now};
	s->opened = 0;
	end_grant(s);
	expect_cap(s);
}

/* ---- what is to be done ---------------------------------------------------------------------- */

/* Law 13: one is the other's company, or both are the same one's. */
static int are_together(const struct seat *a, const struct seat *b)
{
	return a->at.leader == &b->at || b->at.leader == &a->at ||
	       (a->at.leader && a->at.leader == b->at.leader);
}

/* Law 1. */
static void expect_alone(const struct seat *opened)
{
	if (tenant_of(opened)->looked)
		return; /* it is opened again, as a thread stands at it */
	FOR_SEATS(s)
	{
		if (s == opened || s->device != opened->device || !is_governed(s) ||
		    are_together(s, opened))
			continue;
		expect(!s->open);
		expect(s->drained || s->excused);
	}
}

static void submit(struct seat *s)
{
	uint64_t length = below(4) ? below(3 * MS) : below(20) ? below(12 * MS) : below(100 * MS);

	if (s->busy_until < m.now)
		s->busy_until = m.now;
	s->busy_until += 1 + length;
	arrive(tenant_of(s));
	s->idle = 0;
}

static void on_open(struct seat *s)
{
	expect(!s->open);
	if (is_governed(s)) {
		/* Law 11. */
		expect(!s->drained || !tenant_of(s)->at.barred || tenant_of(s)->coupled);
		/* Law 8: it could do nothing with a turn. */
		expect(!tenant_of(s)->suspended);
		expect_alone(s);
		if (!s->at.leader)
			s->granted = s->granted ? s->granted : m.now;
		m.along += s->at.leader != NULL;
		m.governed++;
	}
	s->open = 1;
	s->began = m.now;
	s->excused = s->reported = s->let_in = 0;
	if (s->drained || !s->opened)
		s->opened = m.now;
	else
		m.reopened++;
	s->idle = !s->stands && s->drained;
	s->drained = 0;
	if (s->stands)
		submit(s);
	s->stands = 0;
	m.opened++;
}

static int all_idle(const struct tenant *t)
{
	for (unsigned d = 0; d < DEVICES; d++) {
		if (t->seats[d].there && is_governed(&t->seats[d]) && !t->seats[d].at.stray &&
		    t->seats[d].busy_until > m.now)
			return 0;
	}
	return 1;
}

static void on_close(struct seat *s)
{
	expect(s->open);
	expect(is_governed(s));
	/* Law 7: who is let in to be able to drain has time for it. */
	if (tenant_of(s)->at.stepping && !s->at.stray && !all_idle(tenant_of(s)))
		expect(m.now - s->began >= tuning.step_ns);
	s->open = 0;
	s->closed = m.now;
	if (!tenant_of(s)->at.stepping || s->at.stray)
		s->ending = m.now;
}

static void on_late(struct seat *s)
{
	struct tenant *t = tenant_of(s);
	int at_gate = stands(t), stray = s->at.stray;

	expect(!s->open && !s->drained);
	if (at_gate && stray)
		s->excused = 1;
	t->looked = at_gate && !stray;
	s->let_in =
		t->looked && s->at.gate == TURNS_CLOSING && m.now - s->ending < tuning.beside_ns;
	turns_late(&s->at, at_gate, m.now);
	/* Or another tenant was, for which it may wait. */
	s->let_in &= !t->at.let_in;
}

/* Others run beside what it has on the device, and beside what came along with it. */
static void excuse(void)
{
	FOR_SEATS(s)
	{
		if (s->at.gate != TURNS_OWING)
			continue;
		s->excused = 1;
		end_grant(s);
	}
}

/* Law 7: not before its time, and only if a thread stands there; or law 13. */
static void on_beside(struct seat *s)
{
	expect(stands(tenant_of(s)) || tenant_of(s)->at.awaits[0]);
	expect(!s->open && !s->drained);
	excuse();
	tenant_of(s)->looked = 0;
	m.given_up++;
}

/* Law 8. */
static void on_report(struct seat *s)
{
	expect(!s->open && !s->drained && !s->reported);
	expect(!stands(tenant_of(s)));
	expect(m.now - s->ending >= tuning.hang_ns);
	for (unsigned d = 0; d < DEVICES; d++) {
		struct seat *other = &tenant_of(s)->seats[d];

		if (other->there && !other->drained && !other->open)
			other->excused = other->reported = 1;
		if (other->there && other->reported)
			end_grant(other);
	}
	excuse();
	tenant_of(s)->stepped = 0;
	m.reports++;
}

static void on_step(struct seat *s, int kill)
{
	struct tenant *t = tenant_of(s);

	expect(s->reported && !t->stepped);
	expect(!stands(t));
	expect_eq(t->share.escalate, kill ? TURNS_MAY_KILL : TURNS_MAY_SUSPEND);
	t->stepped = 1;
	t->suspended = !kill;
}

static void do_action(const struct turns_action *action)
{
	struct seat *s = seat_of(action->seat);

	expect(s->there);
	switch (action->verb) {
	case TURNS_OPEN:
		on_open(s);
		break;
	case TURNS_CLOSE:
		on_close(s);
		break;
	case TURNS_LATE:
		on_late(s);
		break;
	case TURNS_COUPLED:
		expect(stands(tenant_of(s)));
		tenant_of(s)->coupled = 1;
		break;
	case TURNS_BESIDE:
		on_beside(s);
		break;
	case TURNS_UNCOUPLED:
		tenant_of(s)->coupled = 0;
		forget_spans(s);
		break;
	case TURNS_AWAITS:
		m.awaited++;
		break;
	case TURNS_REPORT:
		on_report(s);
		break;
	case TURNS_SUSPEND:
	case TURNS_KILL:
		on_step(s, action->verb == TURNS_KILL);
		break;
	}
}

/* ---- what always holds ----------------------------------------------------------------------- */

/* Whether anything would be gained by turns, told without the machine's sums. */
static int differs(unsigned d)
{
	const struct turns_share *one = NULL;
	int difference = 0, tenants = 0;

	FOR_SEATS(s)
	{
		const struct turns_share *share = &tenant_of(s)->share;

		if (s->device != d)
			continue;
		tenants++;
		one = one ? one : share;
		if (share->cap_milli < 1000 || s->at.barred)
			return 1;
		difference |= share->weight != one->weight || share->class != one->class ||
			      share->guarantee_milli || share->equal || share->weighted ||
			      s->at.uneven;
	}
	return tenants > 1 && (difference || m.unfair[d]);
}

static void expect_open_device(unsigned d)
{
	FOR_SEATS(s)
	{
		if (s->device == d)
			expect(s->open);
	}
}

/* Law 3: it could run, and nothing does. */
static void expect_busy(const struct seat *s)
{
	const struct turns_device *d = &m.devices[s->device];
	int used = d->claimed && d->claimed->tenant->state == TURNS_READY;

	used |= d->holder && d->holder->tenant->undrained > 0;

	FOR_SEATS(other)
	{
		if (other->device == s->device)
			used |= other->open || (!other->drained && !other->excused);
	}
	expect(used);
}

static int could_run(const struct seat *s)
{
	const struct tenant *t = tenant_of(s);

	return is_governed(s) && s->stands && s->drained && !s->open && !is_multi(t) &&
	       t->at.state != TURNS_CAPPED && !t->at.barred && t->at.bond == TURNS_FREE &&
	       !t->suspended && !s->at.stray;
}

/* Law 7: nobody's drain is waited for longer. */
static void expect_bounded_drains(void)
{
	uint64_t step = 256 * tuning.step_ns;

	for (unsigned i = 0; i < TENANTS; i++) {
		const struct turns_tenant *t = &m.tenants[i].at;

		if (m.tenants[i].there && (t->stepping || t->undrained))
			expect(m.now - t->ending_ns <= tuning.hang_ns + step);
	}
}

/* It runs on all of its devices or is about to end; and who has work in flight is not idle. */
static void expect_together(const struct tenant *t)
{
	for (unsigned d = 0; d < DEVICES; d++) {
		const struct seat *s = &t->seats[d];

		if (!s->there || !is_governed(s))
			continue;
		if (t->at.state == TURNS_RUNNING && !t->at.forced)
			expect(m.devices[d].holder == &s->at);
		if (s->open)
			expect(!s->at.idle || s->idle);
		expect(!s->let_in);
	}
}

static void expect_laws(void)
{
	int timers = 0;

	expect_bounded_drains();
	for (unsigned i = 0; i < TENANTS; i++)
		expect_together(&m.tenants[i]);
	for (unsigned d = 0; d < DEVICES; d++) {
		unsigned open = 0;

		expect_eq(m.devices[d].governed, differs(d));
		timers |= m.devices[d].governed;
		if (m.devices[d].governed != m.was_governed[d])
			forget_device(d);
		m.was_governed[d] = m.devices[d].governed;
		if (!m.devices[d].governed) {
			expect_open_device(d);
			continue;
		}
		FOR_SEATS(s)
		{
			open += s->device == d && s->open && !s->at.leader;
			if (s->device == d && could_run(s))
				expect_busy(s);
		}
		expect(open <= 1);
	}
	if (!timers)
		expect(turns_deadline(&m.turns) == UINT64_MAX); /* law 10 */
}

static void pump(void)
{
	struct turns_action action;

	while (turns_next(&m.turns, &action))
		do_action(&action);
	expect_laws();
}

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
	m.tenants[(size_t)(t - m.tenants) ^ 1].arrivals = 0;
	t->there = 1;
	t->share = any_share();
	t->nature = m.natures ? (enum nature)(below(4) ? 0 : below(3)) : PLAIN;
	if (m.meet && below(4))
		t->nature = MEETS;
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
	/* Most of who hangs does nothing any more. */
	if (s->reported && below(8))
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

	if (s->open || s->drained || s->busy_until > m.now)
		return 0;
	return t->nature == PLAIN || (t->nature == COUPLED && !stands(t)) ||
	       (t->nature == MEETS && is_met(t));
}

static void rest(struct seat *s)
{
	uint64_t drain = m.now - s->closed;

	if (can_drain(s)) {
		s->drained = 1;
		if (drain > s->longest_drain)
			s->longest_drain = drain;
		if (drain > m.longest_drain)
			m.longest_drain = drain;
		close_span(s);
		tenant_of(s)->looked = 0;
		turns_drained(&s->at, s->stands, m.now);
	} else if (s->open && !s->idle && s->busy_until <= m.now) {
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
		if (s->busy_until > m.now && s->busy_until < next)
			next = s->busy_until;
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
			m.now = next;
		if (turns_deadline(&m.turns) <= m.now)
			turns_tick(&m.turns, m.now);
		pump();
		let_rest();
	}
	m.now = until;
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

static void step(void)
{
	struct tenant *t = &m.tenants[below(TENANTS)];
	struct seat *s = &t->seats[below(DEVICES)];
	uint64_t dice = below(100);

	if (dice < 2)
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
		pass(m.now + below(4) * below(3 * MS));
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

static void begin(int restarts, int verdicts, int meet)
{
	memset(&m, 0, sizeof(m));
	m.verdicts = verdicts;
	m.now = m.start = 1 + below(1000000) * MS;
	m.restarts = restarts;
	m.natures = below(2) == 0;
	m.multi = below(2) == 0;
	m.meet = meet;
	turns_init(&m.turns, &tuning);
	for (unsigned d = 0; d < DEVICES; d++)
		turns_device_init(&m.turns, &m.devices[d], 2 * d + 1);
	for (unsigned i = 0; i < 2 + below(TENANTS - 1); i++) {
		come_or_go(&m.tenants[i]);
		pump();
	}
}

/* `restarts`: who joins with an open gate may have work in flight. `verdicts`: turns_govern().
 * `meet`: many wait for each other. */
static void history(int restarts, int verdicts, int meet)
{
	begin(restarts, verdicts, meet);
	for (int i = 0; i < STEPS; i++)
		step();
	expect_an_end();
}

/* As the random numbers stood when they began. */
TEST(histories_that_broke_a_law_once_break_it_no_more)
{
	static const uint64_t begun[] = {
		/* Who was reported as hung left the device on which its gate had not drained, and
		 * was never asked again. */
		0x0f81ceecbf8029e0,
		0x09a2a21228db7690,
		/* Who comes alone to a device with a cap runs there without its other ones. */
		0x3d17ef45f9eead9f,
		/* A gate that is opened with work in flight counts as idle. */
		0x95f2a7f780f21461,
	};

	for (size_t i = 0; i < ARRAY_SIZE(begun); i++) {
		test_random_restart(begun[i]);
		history(false, false, false);
	}
}

TEST(the_laws_hold_after_every_step_of_any_history)
{
	uint64_t opened = 0, reopened = 0, reports = 0, checks = 0, granted = 0, given_up = 0;
	uint64_t awaited = 0, along = 0;

	for (unsigned round = 0; round < test_rounds(800); round++) {
		history(true, round % 2, round % 3 == 0);
		opened += m.governed;
		granted += m.granted[0];
		reopened += m.reopened;
		reports += m.reports;
		given_up += m.given_up;
		checks += m.checks;
		awaited += m.awaited;
		along += m.along;
	}
	/* It was no empty word. */
	expect(opened > 1000 && reopened > 10 && reports > 3 && given_up > 10 && checks > 100 &&
	       granted > MS && awaited > 10 && along > 100);
}
