/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's laws against random histories: a second, naive book is kept beside it, which only
 * believes the answers that guests were given. METE_SEED repeats a history.
 */
#include "core/ledger.h"

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
};

struct model_ask {
	int open, waits, residual;
	uint64_t id, bytes, order, deadline, looks;
	unsigned asked_at; /* step */
};

struct guest {
	struct ledger_holder *holder; /* NULL: not there */
	unsigned account;
	uint64_t granted, allocated, evicted, measured, reserved;
	struct model_ask asks[ASKS];
	int recalled; /* a recall to answer */
	uint64_t recall_until;
	uint64_t recalled_order; /* the order number at its latest recall */
};

struct account {
	struct ledger_account *book;
	unsigned device;
	uint64_t limit, wait_ns;
	uint64_t most;	 /* charged */
	uint64_t hidden; /* held by a guest from before the daemon that has not come back yet */
	int expected, unsettled;
};

static struct {
	struct ledger *l;
	uint64_t capacity[DEVICES];
	struct account accounts[ACCOUNTS];
	struct guest guests[GUESTS];
	uint64_t now, order, ids, looks;
} m;

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static struct account *account_of(const struct guest *g)
{
	return &m.accounts[g->account];
}

static uint64_t residual_of(const struct guest *g)
{
	return g->measured + g->reserved;
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
		s.residual += residual_of(g);
		s.holders++;
		for (int k = 0; k < ASKS; k++)
			s.waiting += (uint32_t)g->asks[k].open;
	}
	return s;
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
	}
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		wanted = model_sums(&m.accounts[i], 0);
		ledger_account_sums(m.accounts[i].book, &got);
		expect_same(&got, &wanted);
		if (wanted.granted + wanted.residual > m.accounts[i].most)
			m.accounts[i].most = wanted.granted + wanted.residual;
		expect(got.peak >= got.allocated + got.residual);
		expect(got.peak <= m.accounts[i].most);
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

/* Law 5: an earlier one that lacks nothing but room on the same device goes first, until the time
 * of the later one is over. */
static void expect_no_one_overtaken(const struct guest *g, const struct model_ask *served)
{
	for (int i = 0; i < GUESTS && served->waits && m.now < served->deadline; i++) {
		const struct guest *other = &m.guests[i];

		if (!other->holder || account_of(other)->device != account_of(g)->device ||
		    account_of(other)->expected)
			continue;
		for (int k = 0; k < ASKS; k++) {
			const struct model_ask *ask = &other->asks[k];

			expect(!ask->open || !ask->waits || ask->order > served->order ||
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
		any |= m.accounts[i].expected;
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

/* Laws 1, 2 and 6. */
static void on_grant(const struct ledger_action *action)
{
	struct guest *g = guest_of(action);
	struct model_ask *ask = answered(g, action);
	struct ledger_sums s;

	expect_no_one_overtaken(g, ask);
	expect(action->bytes >= ask->bytes);
	if (ask->residual)
		g->reserved += action->bytes;
	else
		g->granted += action->bytes;
	s = model_sums(account_of(g), 0);
	expect(s.granted + s.residual <= account_of(g)->limit);
	expect(!account_of(g)->expected);
	s = model_sums(NULL, account_of(g)->device);
	expect(s.granted - s.evicted + s.residual + hidden_on(account_of(g)->device) <=
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
	uint64_t fixed = s.allocated + s.residual - (over ? 0 : s.evicted);
	uint64_t used = fixed + s.granted - s.allocated;

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
	expect(g->granted > g->allocated);
	expect(action->bytes > 0 && action->bytes <= g->granted - g->allocated);
	g->recalled = 1;
	g->recall_until = m.now + RECALL_NS;
	g->recalled_order = m.order;
}

static void report_all(void)
{
	for (int i = 0; i < GUESTS; i++) {
		if (!m.guests[i].holder)
			continue;
		ledger_report(m.l, m.guests[i].holder, m.guests[i].allocated);
		ledger_report_peak(m.l, m.guests[i].holder, UINT64_MAX >> below(64));
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

	report_all();
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
	expect_books_equal();
}

static void do_ask(struct guest *g)
{
	struct model_ask *ask = &g->asks[below(ASKS)];
	struct ledger_request request = {.id = ++m.ids,
					 .bytes = 1 + below(below(4) ? 40 : 300),
					 .may_wait = below(3) != 0,
					 .residual = below(8) == 0};

	if (ask->open)
		return;
	if (g->recall_until <= m.now)
		g->recall_until = 0;
	request.want = request.bytes + below(2) * below(100);
	expect_eq(ledger_ask(m.l, g->holder, &request, m.now), 0);
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
	g->measured = s.residual;
	if (r == 0 && extra) {
		s = model_sums(account_of(g), 0);
		expect(s.granted + s.residual <= account_of(g)->limit);
		s = model_sums(NULL, account_of(g)->device);
		expect(s.granted - s.evicted + s.residual <= m.capacity[account_of(g)->device]);
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
	}
	a->expected = 0;
	a->hidden = 0;
	ledger_expect(m.l, a->book, 0, 0);
}

static void do_swap(struct guest *g)
{
	uint64_t resident = g->allocated - g->evicted, n;

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
	ledger_set_limit(m.l, a->book, a->limit, a->wait_ns);
}

static void do_cancel(struct guest *g)
{
	struct model_ask *ask = &g->asks[below(ASKS)];

	if (ask->open)
		ledger_cancel(m.l, g->holder, ask->id);
	ask->open = 0;
}

static void do_measure(struct guest *g)
{
	uint64_t settled = below(60);

	g->reserved -= settled < g->reserved ? settled : g->reserved;
	g->measured = below(40);
	ledger_measured(m.l, g->holder, g->measured, g->measured, settled);
}

static void do_look(struct account *a)
{
	if (below(2)) {
		m.looks++;
		ledger_looked(m.l);
	} else {
		a->unsettled = !a->unsettled;
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
	report_all();
}

static void start(void *memory, const struct ledger_limits *limits)
{
	memset(&m, 0, sizeof(m));
	m.now = 1;
	m.l = ledger_init(memory, limits);
	for (unsigned i = 0; i < DEVICES; i++) {
		m.capacity[i] = 200 + below(300);
		ledger_set_device(m.l, i, m.capacity[i] + 10, 10);
	}
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		struct account *a = &m.accounts[i];

		a->device = i % DEVICES;
		a->limit = 20 + below(400);
		a->wait_ns = below(2) * below(500);
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
	for (unsigned i = 0; i < ACCOUNTS; i++)
		do_return(&m.accounts[i]);
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
