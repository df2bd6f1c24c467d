/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's laws against random histories: a second, naive book is kept beside it, which only
 * believes the answers that guests were given. METE_SEED repeats a history.
 */
#include "tests/unit/ledger_model.h"

/* Law 9: an account with few asks finds a place, whatever the others wait for. */
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
				  .guess_until = m.now + GUESS_NS,
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
	/* Where others are expected, they make the claims. */
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
	g->residual = g->guessed = s.residual;
	adopted(account_of(g));
	if (r == 0 && extra) {
		s = model_sums(account_of(g), 0);
		expect(s.granted + s.residual <= account_of(g)->limit);
		expect(booked_on(account_of(g)->device) <= m.capacity[account_of(g)->device]);
	}
}

/* A guest that was expected comes back with the memory that it held, or died. */
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
	g->guessed = below(2) ? 0 : below(g->residual + 1);
	ledger_guessed(m.l, g->holder, g->guessed);
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
				       .refresh_ns = LOOK_NS,
				       .guess_ns = GUESS_NS};
	owned(free) void *memory = malloc(ledger_size(&limits));
	unsigned rounds = test_histories(2000);

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
