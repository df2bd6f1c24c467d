/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's laws against random histories: a second, naive book is kept beside it, which only
 * believes the answers that guests were given. METE_SEED repeats a history.
 */
#include "core/ledger/ledger.h"

#include <stdlib.h>

#include "tests/test.h"

enum {
	DEVICES = 2,
	ACCOUNTS = 4,
	GUESTS = 10,
	ASKS = 4, /* per guest */
	STEPS = 250,
	RECALL_NS = 200,
	LOOK_NS = 20,
	SURE = 1, /* asks of an account */
	MOST = 9, /* likewise */
	COMMON = 6,
};

struct model_ask {
	int open, waits, residual;
	uint64_t id, bytes, order, deadline, looks;
	unsigned asked_at; /* step */
};

struct guest {
	struct ledger_holder *holder; /* NULL: not there */
	unsigned account;
	uint64_t granted, allocated, evicted, residual;
	uint64_t used; /* says the driver */
	struct model_ask asks[ASKS];
	int recalled; /* a recall to answer */
	uint64_t recall_until;
	uint64_t recalled_order; /* the order number at its latest recall that it could not meet */
	uint64_t recall_bytes, former_order;
};

struct account {
	struct ledger_account *book;
	unsigned device;
	uint64_t limit, wait_ns;
	uint64_t most; /* charged */
	uint64_t highest_limit, bound;
	uint64_t hidden; /* held by a guest from before the daemon that has not come back yet */
	int expected, held;
	enum ledger_unsettled unsettled;
};

static struct {
	struct ledger *l;
	uint64_t capacity[DEVICES];
	struct account accounts[ACCOUNTS];
	struct guest guests[GUESTS];
	uint64_t now, order, ids, looks;
	int scarce; /* there are as many places for asks as the names above say */
} m;

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static struct account *account_of(const struct guest *g)
{
	return &m.accounts[g->account];
}

/* The model's own sums: scope is an account, or, where that is NULL, a device. */
static struct ledger_sums model_sums(const struct account *account, unsigned device)
{
	struct ledger_sums s = {0};

	for (int i = 0; i < GUESTS; i++) {
		const struct guest *g = &m.guests[i];

		if (!g->holder ||
		    (account ? account_of(g) != account : account_of(g)->device != device))
			continue;
		s.granted += g->granted;
		s.allocated += g->allocated;
		s.evicted += g->evicted;
		s.residual += g->residual;
		s.holders++;
		for (int k = 0; k < ASKS; k++)
			s.waiting += (uint32_t)g->asks[k].open;
	}
	return s;
}

static uint64_t used_of(const struct account *a)
{
	uint64_t sum = 0;

	for (int i = 0; i < GUESTS; i++)
		sum += m.guests[i].holder && account_of(&m.guests[i]) == a ? m.guests[i].used : 0;
	return sum;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Law 10, for one account. */
static uint64_t booked_of(const struct account *a)
{
	struct ledger_sums s = model_sums(a, 0);
	uint64_t cap = most(a->bound, used_of(a) + s.evicted);

	return least(s.granted + s.residual, cap) - s.evicted;
}

static uint64_t booked_on(unsigned device)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += m.accounts[i].device == device ? booked_of(&m.accounts[i]) : 0;
	return sum;
}

/* What it gave back of what was more than its limit it does not count for again. */
static void track(void)
{
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		struct account *a = &m.accounts[i];
		struct ledger_sums s = model_sums(a, 0);

		a->bound = most(a->limit, least(a->bound, s.granted + s.residual));
	}
}

static void expect_same(const struct ledger_sums *got, const struct ledger_sums *wanted)
{
	expect_eq(got->granted, wanted->granted);
	expect_eq(got->allocated, wanted->allocated);
	expect_eq(got->evicted, wanted->evicted);
	expect_eq(got->residual, wanted->residual);
	expect_eq(got->waiting, wanted->waiting);
	expect_eq(got->holders, wanted->holders);
}

/* Law 3. */
static void expect_books_equal(void)
{
	struct ledger_sums got, wanted;

	for (unsigned i = 0; i < DEVICES; i++) {
		wanted = model_sums(NULL, i);
		ledger_device_sums(m.l, i, &got);
		expect_same(&got, &wanted);
		expect_eq(got.booked, booked_on(i));
	}
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		wanted = model_sums(&m.accounts[i], 0);
		ledger_account_sums(m.accounts[i].book, &got);
		expect_same(&got, &wanted);
		expect_eq(got.booked, booked_of(&m.accounts[i]));
		expect(got.peak >= got.allocated + got.residual);
		expect(got.peak <= m.accounts[i].most);
	}
}

static void note_most(void)
{
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		struct ledger_sums s = model_sums(&m.accounts[i], 0);

		if (s.granted + s.residual > m.accounts[i].most)
			m.accounts[i].most = s.granted + s.residual;
	}
}

static struct guest *guest_of(const struct ledger_action *action)
{
	struct guest *g = ledger_owner(action->holder);

	expect(g->holder == action->holder);
	return g;
}

static struct model_ask *answered(struct guest *g, const struct ledger_action *action)
{
	for (int i = 0; i < ASKS; i++) {
		struct model_ask *ask = &g->asks[i];

		if (ask->open && ask->id == action->id) {
			ask->open = 0;
			expect_eq(action->residual, ask->residual);
			return ask;
		}
	}
	test_fail(__FILE__, __LINE__, "an answer to ask %" PRIu64 ", which is not open",
		  action->id);
}

static uint64_t account_room(const struct account *a)
{
	struct ledger_sums s = model_sums(a, 0);
	uint64_t used = s.granted + s.residual;

	return used < a->limit ? a->limit - used : 0;
}

/* Law 14: its answer is only known after a look that is owed. */
static int awaits_owed(const struct guest *g, const struct model_ask *ask)
{
	return account_of(g)->unsettled == LEDGER_OWED && m.looks < ask->looks + LEDGER_LOOKS;
}

/* Law 5: an earlier one that lacks nothing but room on the same device goes first, until the time
 * of the later one is over. */
static void expect_no_one_overtaken(const struct guest *g, const struct model_ask *served)
{
	for (int i = 0; i < GUESTS && served->waits && m.now < served->deadline; i++) {
		const struct guest *other = &m.guests[i];

		if (!other->holder || account_of(other)->device != account_of(g)->device ||
		    account_of(other)->expected || account_of(other)->held)
			continue;
		for (int k = 0; k < ASKS; k++) {
			const struct model_ask *ask = &other->asks[k];

			expect(!ask->open || !ask->waits || ask->order > served->order ||
			       awaits_owed(other, ask) ||
			       ask->bytes > account_room(account_of(other)));
		}
	}
}

static uint64_t hidden_on(unsigned device)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += m.accounts[i].device == device ? m.accounts[i].hidden : 0;
	return sum;
}

static int any_expected(void)
{
	int any = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		any |= m.accounts[i].expected || m.accounts[i].held;
	return any;
}

/* Somebody's measurement may still help this ask: its own account's, or anybody's on its device. */
static int awaits_look(const struct model_ask *ask, const struct account *own, unsigned device)
{
	int any = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		any |= m.accounts[i].unsettled &&
		       (own ? own == &m.accounts[i] : m.accounts[i].device == device);
	return any && m.looks < ask->looks + LEDGER_LOOKS;
}

/* Laws 1, 2, 6 and 14. */
static void on_grant(const struct ledger_action *action)
{
	struct guest *g = guest_of(action);
	struct model_ask *ask = answered(g, action);
	struct ledger_sums s;

	expect_no_one_overtaken(g, ask);
	expect(!awaits_owed(g, ask));
	expect(action->bytes >= ask->bytes);
	if (ask->residual == LEDGER_RESIDUAL)
		g->residual += action->bytes;
	else if (!ask->residual)
		g->granted += action->bytes;
	track();
	s = model_sums(account_of(g), 0);
	expect(s.granted + s.residual <= account_of(g)->limit);
	expect(!account_of(g)->expected && !account_of(g)->held);
	expect(booked_on(account_of(g)->device) + hidden_on(account_of(g)->device) <=
	       m.capacity[account_of(g)->device]);
}

/* Laws 4 and 8. */
static void on_refuse(const struct ledger_action *action)
{
	struct guest *g = guest_of(action);
	struct model_ask *ask = answered(g, action);
	int over = action->reason == LEDGER_OVER;
	struct account *scope = over ? account_of(g) : NULL;
	struct ledger_sums s = model_sums(scope, account_of(g)->device);
	uint64_t limit = over ? scope->limit : m.capacity[account_of(g)->device];
	uint64_t unused_bytes = s.granted - s.allocated;
	uint64_t used = over ? s.granted + s.residual : booked_on(account_of(g)->device);
	uint64_t fixed = used - least(used, unused_bytes);

	/* Nothing that fits is refused, not even who waited behind others until its deadline. */
	if (action->reason == LEDGER_DEADLINE)
		expect(ask->waits && m.now >= ask->deadline);
	expect(used + ask->bytes > limit);
	if (over || !ask->waits)
		expect(action->reason != LEDGER_DEADLINE);
	if (action->reason != LEDGER_DEADLINE)
		expect(!awaits_look(ask, scope, account_of(g)->device));
	if (fixed + ask->bytes > limit || used + ask->bytes <= limit)
		return;
	for (int i = 0; i < GUESTS; i++) {
		const struct guest *other = &m.guests[i];

		if (!other->holder || (scope ? account_of(other) != scope
					     : account_of(other)->device != account_of(g)->device))
			continue;
		if (other->granted == other->allocated)
			continue;
		expect(other->recall_until <= m.now);
		expect(other->recall_until || other->recalled_order >= ask->order);
	}
}

static void on_recall(const struct ledger_action *action)
{
	struct guest *g = guest_of(action);

	expect(!g->recall_until); /* it has answered the one before, or asked */
	/* It may have used meanwhile what it had when it was looked at. */
	expect(action->bytes > 0 && action->bytes <= g->granted);
	g->recalled = 1;
	g->recall_until = m.now + RECALL_NS;
	g->former_order = g->recalled_order;
	g->recalled_order = m.order;
	g->recall_bytes = action->bytes;
}

static void report(struct guest *g)
{
	ledger_report(m.l, g->holder, g->allocated);
	ledger_report_peak(m.l, g->holder, UINT64_MAX >> below(64));
}

static void report_all(void)
{
	for (int i = 0; i < GUESTS; i++) {
		if (m.guests[i].holder)
			report(&m.guests[i]);
	}
}

/* Nobody but who is asked for. */
static void on_look(const struct ledger_action *action)
{
	for (int i = 0; i < GUESTS; i++) {
		struct guest *g = &m.guests[i];

		if (g->holder && (action->account ? account_of(g)->book == action->account
						  : account_of(g)->device == action->device))
			report(g);
	}
}

/* Is any ask open, or, of those, any for which a measurement is awaited? */
static int any_ask(int awaiting_look)
{
	int any = 0;

	for (const struct guest *g = m.guests; g < m.guests + GUESTS; g++)
		for (int k = 0; g->holder && k < ASKS; k++)
			any |= g->asks[k].open &&
			       (!awaiting_look ||
				awaits_look(&g->asks[k], NULL, account_of(g)->device));
	return any;
}

static void pump(void)
{
	struct ledger_action action;
	uint64_t deadline;

	m.now++; /* what was seen at another time is not believed to be so still */
	for (int bound = 0; ledger_next(m.l, m.now, &action); bound++) {
		expect(bound < 1000);
		switch (action.verb) {
		case LEDGER_GRANT:
			on_grant(&action);
			break;
		case LEDGER_REFUSE:
			on_refuse(&action);
			break;
		case LEDGER_RECALL:
			on_recall(&action);
			break;
		case LEDGER_LOOK:
			on_look(&action);
			break;
		}
	}
	deadline = ledger_deadline(m.l, m.now);
	/* Whoever still waits has a time at which it is looked at again; else no timer runs. */
	if (any_ask(0) && (any_expected() || any_ask(1)))
		expect(!deadline || deadline > m.now);
	else if (any_ask(0))
		expect(deadline > m.now && deadline <= m.now + RECALL_NS);
	else
		expect_eq(deadline, 0);
	note_most();
	if (below(2)) {
		report_all();
		expect_books_equal();
	}
}

/* Law 9: who has few asks finds a place, whatever the others wait for. */
static void expect_quota(const struct guest *g, int r)
{
	uint32_t own = model_sums(account_of(g), 0).waiting, all = 0;

	for (unsigned i = 0; i < DEVICES; i++)
		all += model_sums(NULL, i).waiting;
	if (r == 0)
		expect(!m.scarce || (own < MOST && all < COMMON + ACCOUNTS * SURE));
	else
		expect(m.scarce && own >= SURE && (own == MOST || all >= COMMON));
}

static void do_ask(struct guest *g)
{
	struct model_ask *ask = &g->asks[below(ASKS)];
	struct ledger_request request = {.id = ++m.ids,
					 .bytes = 1 + below(below(4) ? 40 : 300),
					 .may_wait = below(3) != 0,
					 .residual = below(8) ? 0 : 1 + (uint32_t)below(2)};
	int r;

	if (ask->open)
		return;
	request.want = request.bytes + below(2) * below(100);
	r = ledger_ask(m.l, g->holder, &request, m.now);
	expect_quota(g, r);
	if (r != 0)
		return;
	if (g->recall_until <= m.now)
		g->recall_until = 0;
	*ask = (struct model_ask){.open = 1,
				  .waits = request.may_wait && account_of(g)->wait_ns,
				  .residual = (int)request.residual,
				  .id = request.id,
				  .bytes = request.bytes,
				  .order = ++m.order,
				  .looks = m.looks,
				  .deadline = m.now + account_of(g)->wait_ns};
}

static void do_recall_answer(struct guest *g)
{
	uint64_t unused_bytes = g->granted - g->allocated, bytes;

	if (!g->recalled)
		return;
	bytes = below(3) ? unused_bytes : below(unused_bytes + 1);
	expect_eq(ledger_return(m.l, g->holder, bytes, 1), 0);
	g->granted -= bytes;
	g->recalled = 0;
	g->recall_until = 0;
	if (bytes >= g->recall_bytes)
		g->recalled_order = g->former_order;
}

/* Up to the highest limit that it ever had. */
static void adopted(struct account *a)
{
	a->bound = a->highest_limit;
	track();
}

static void do_join(struct guest *g)
{
	uint64_t claim = below(5) ? 0 : below(60), extra;
	int r;

	*g = (struct guest){.account = (unsigned)below(ACCOUNTS)};
	/* Where others are expected they are who claims. */
	if (account_of(g)->expected)
		claim = 0;
	extra = claim ? below(60) : 0;
	g->holder = ledger_join(m.l, account_of(g)->book, g);
	expect(g->holder != NULL);
	if (!claim)
		return;
	/* A guest from before the daemon: its claim is cut at the highest limit. */
	r = ledger_adopt(m.l, g->holder, claim, extra, 3);
	struct ledger_sums s;

	ledger_holder_sums(g->holder, &s);
	expect(s.allocated <= claim && s.residual <= 3);
	expect_eq(s.granted, s.allocated + (r == 0 ? extra : 0));
	g->granted = s.granted;
	g->allocated = s.allocated;
	g->residual = s.residual;
	adopted(account_of(g));
	if (r == 0 && extra) {
		s = model_sums(account_of(g), 0);
		expect(s.granted + s.residual <= account_of(g)->limit);
		expect(booked_on(account_of(g)->device) <= m.capacity[account_of(g)->device]);
	}
}

/* Who was expected comes back with what it held, or died. */
static void do_return(struct account *a)
{
	struct ledger_sums said;

	for (int i = 0; i < GUESTS && a->expected && a->hidden; i++) {
		struct guest *g = &m.guests[i];

		if (g->holder)
			continue;
		*g = (struct guest){.account = (unsigned)(a - m.accounts)};
		g->holder = ledger_join(m.l, a->book, g);
		expect_eq(ledger_adopt(m.l, g->holder, a->hidden, 0, 0), 0);
		/* Cut where contexts of its siblings have turned out larger than was thought. */
		ledger_holder_sums(g->holder, &said);
		expect(said.granted <= a->hidden);
		g->granted = g->allocated = said.granted;
		a->hidden = 0;
		adopted(a);
	}
	a->expected = 0;
	a->hidden = 0;
	ledger_expect(m.l, a->book, 0, 0);
}

static void do_swap(struct guest *g)
{
	uint64_t resident = g->allocated - g->evicted, n;

	report(g);
	switch (below(3)) {
	case 0:
		n = below(resident + 1);
		expect_eq(ledger_evict(m.l, g->holder, n), 0);
		g->evicted += n;
		break;
	case 1:
		n = below(g->evicted + 1);
		if (ledger_restore(m.l, g->holder, n) == 0)
			g->evicted -= n;
		break;
	default:
		n = below(g->evicted + 1);
		expect_eq(ledger_free_evicted(m.l, g->holder, n), 0);
		g->evicted -= n;
		g->allocated -= n;
		g->granted -= n;
		break;
	}
}

static void do_memory(struct guest *g)
{
	uint64_t free_credit = g->granted - g->allocated, n;

	switch (below(3)) {
	case 0:
		g->allocated += below(2) ? free_credit : below(free_credit + 1);
		break;
	case 1:
		g->allocated -= below(g->allocated - g->evicted + 1);
		break;
	default:
		n = below(free_credit + 1);
		expect_eq(ledger_return(m.l, g->holder, n, 0), 0);
		g->granted -= n;
		break;
	}
}

static void do_account(struct account *a)
{
	a->limit = below(4) ? 20 + below(300) : below(20);
	a->wait_ns = below(3) ? below(400) : 0;
	a->highest_limit = most(a->highest_limit, a->limit);
	track();
	ledger_set_limit(m.l, a->book, a->limit, a->wait_ns);
}

static void do_cancel(struct guest *g)
{
	struct model_ask *ask = &g->asks[below(ASKS)];

	if (ask->open)
		ledger_cancel(m.l, g->holder, ask->id);
	ask->open = 0;
}

/* Now and then far more than the limit: a claim, or memory that passed the guest by. */
static void do_measure(struct guest *g)
{
	g->residual = below(below(4) ? 40 : 600);
	g->used = below(below(2) ? 100 : 500);
	ledger_residual(m.l, g->holder, g->residual, g->used);
}

static void do_look(struct account *a)
{
	if (below(2)) {
		m.looks++;
		ledger_looked(m.l);
	} else if (below(2)) {
		a->held = !a->held;
		ledger_hold(m.l, a->book, a->held);
	} else {
		a->unsettled = (enum ledger_unsettled)below(LEDGER_OWED + 1);
		ledger_unsettled(m.l, a->book, a->unsettled);
	}
}

static void step(void)
{
	struct guest *g = &m.guests[below(GUESTS)];
	uint64_t dice = below(100);

	if (dice < 10) {
		m.now += below(below(3) ? 10 : 300);
	} else if (dice < 11 && below(4) == 0) {
		do_return(&m.accounts[below(ACCOUNTS)]);
	} else if (dice < 12) {
		do_account(&m.accounts[below(ACCOUNTS)]);
	} else if (dice < 15) {
		do_look(&m.accounts[below(ACCOUNTS)]);
	} else if (!g->holder) {
		do_join(g);
	} else if (dice < 20) {
		ledger_leave(m.l, g->holder);
		g->holder = NULL;
	} else if (dice < 50) {
		do_ask(g);
	} else if (dice < 75) {
		do_memory(g);
	} else if (dice < 85) {
		do_recall_answer(g);
	} else if (dice < 90) {
		do_swap(g);
	} else if (dice < 95) {
		do_measure(g);
	} else {
		do_cancel(g);
	}
	track();
}

static void start(void *memory, const struct ledger_limits *most)
{
	struct ledger_limits limits = *most;

	memset(&m, 0, sizeof(m));
	m.now = 1;
	m.scarce = below(2) == 0;
	if (m.scarce) {
		limits.asks = COMMON;
		limits.asks_sure = SURE;
		limits.asks_per_account = MOST;
	}
	m.l = ledger_init(memory, &limits);
	for (unsigned i = 0; i < DEVICES; i++) {
		m.capacity[i] = 200 + below(300);
		ledger_set_device(m.l, i, m.capacity[i] + 10, 10);
	}
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		struct account *a = &m.accounts[i];

		a->device = i % DEVICES;
		a->limit = 20 + below(400);
		a->wait_ns = below(2) * below(500);
		a->bound = a->highest_limit = a->limit;
		a->book = ledger_open(m.l, a->device, a->limit, a->wait_ns);
		expect(a->book != NULL);
		if (i < DEVICES && below(2)) {
			a->expected = 1;
			a->hidden = below(a->limit < 150 ? a->limit : 150);
			ledger_expect(m.l, a->book, 1, a->hidden + below(30));
		}
	}
}

/* Everything is answered in the end, although nobody does anything but answer recalls, and though
 * measurements never settle anything. */
static void finish(void)
{
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		do_return(&m.accounts[i]);
		m.accounts[i].held = 0;
		ledger_hold(m.l, m.accounts[i].book, 0);
	}
	for (int i = 0; i < LEDGER_LOOKS; i++) {
		m.looks++;
		ledger_looked(m.l);
	}
	pump();
	for (int i = 0; any_ask(0); i++) {
		expect(i < 200);
		m.now = ledger_deadline(m.l, m.now);
		for (int k = 0; k < GUESTS; k++) {
			if (m.guests[k].holder && below(2))
				do_recall_answer(&m.guests[k]);
		}
		pump();
	}
	for (int k = 0; k < GUESTS; k++) {
		ledger_leave(m.l, m.guests[k].holder);
		m.guests[k].holder = NULL;
	}
	expect_books_equal();
	for (unsigned i = 0; i < ACCOUNTS; i++)
		ledger_close(m.l, m.accounts[i].book);
}

TEST(the_laws_hold_after_every_step_of_any_history)
{
	struct ledger_limits limits = {.devices = DEVICES,
				       .accounts = ACCOUNTS,
				       .holders = GUESTS,
				       .asks = GUESTS * ASKS,
				       .asks_per_holder = ASKS,
				       .recall_ns = RECALL_NS,
				       .look_ns = LOOK_NS};
	owned(free) void *memory = malloc(ledger_size(&limits));
	unsigned rounds = test_rounds(2000);

	expect(memory != NULL);
	for (unsigned round = 0; round < rounds; round++) {
		start(memory, &limits);
		for (int i = 0; i < STEPS; i++) {
			step();
			pump();
		}
		finish();
	}
}
