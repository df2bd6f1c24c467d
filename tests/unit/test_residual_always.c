/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/ledger/residual.h and core/ledger/residual_price.h against random histories: a
 * guest whose truth is known here, that does things at any moment of a measurement, and says so as
 * real guests do; or lies. METE_SEED repeats a history.
 */
#include "core/ledger/residual.h"

#include "core/ledger/residual_price.h"
#include "tests/test.h"

enum {
	STEPS = 300,
	CONTEXTS = 6,
	PRICE = 64,
};

/* What was reserved for one context. */
enum stage { NONE = 0, WAITS, THERE, TOLD };

struct context {
	enum stage stage;
	uint64_t reserved; /* until it was measured */
	uint64_t bytes;	   /* in the driver, from THERE on */
	int seen;	   /* it was told before the measurement under way began */
};

static struct {
	struct residual r;
	int honest;
	/* The truth. */
	uint64_t granted, allocated, evicted, others_bytes, others;
	struct context contexts[CONTEXTS];
	uint64_t in_driver; /* of a move under way: the driver has it, the page not yet */
	uint64_t moved;
	struct residual_moment lie; /* what its page says, where it is not honest */
	/* The measurement under way. */
	int under_way, changed; /* since it began */
	uint64_t used, most_granted, known_before, settled_before;
	struct residual_moment first;
	int wanted, check;
	int told, telling; /* reported since the last measurement began; before it did */
	unsigned in_a_row; /* measurements that the one before wanted */
	uint64_t exact;	   /* how often law 1 was checked */
} m;

static uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t context_bytes(uint64_t *ret_count)
{
	uint64_t bytes = 0, count = 0;

	for (int i = 0; i < CONTEXTS; i++) {
		if (m.contexts[i].stage < THERE)
			continue;
		bytes += m.contexts[i].bytes;
		count++;
	}
	*ret_count = count;
	return bytes;
}

static uint64_t beside(void)
{
	uint64_t count;

	return context_bytes(&count) + m.others_bytes;
}

static uint64_t driver_says(void)
{
	return m.allocated - m.evicted + m.in_driver + beside();
}

static uint64_t reserved(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < CONTEXTS; i++)
		sum += m.contexts[i].reserved;
	return sum;
}

/* A context that is there and was not told yet is a move, too. */
static int is_moving(void)
{
	int moving = m.in_driver != 0;

	for (int i = 0; i < CONTEXTS; i++)
		moving |= m.contexts[i].stage == THERE;
	return moving;
}

static struct residual_moment page(void)
{
	struct residual_moment now = {.allocated = m.allocated,
				      .moved = is_moving() ? RESIDUAL_MOVING : m.moved,
				      .others = m.others,
				      .granted = m.granted,
				      .evicted = m.evicted};

	best_effort((int)context_bytes(&now.contexts));
	if (m.honest)
		return now;
	if (below(4) == 0)
		m.lie = (struct residual_moment){
			.allocated = UINT64_MAX >> below(64),
			.adrift = below(2) ? 0 : UINT64_MAX >> below(64),
			.loose = below(2) ? 0 : UINT64_MAX >> below(64),
			.contexts = below(3),
		};
	m.lie.others = below(2) ? 0 : RESIDUAL_UNSAID;
	m.lie.granted = now.granted;
	m.lie.evicted = now.evicted;
	return m.lie;
}

static void act(unsigned todo)
{
	if (todo & (RESIDUAL_ANSWER | RESIDUAL_EXCUSE)) {
		expect(m.check);
		m.check = 0;
	}
	m.wanted |= (todo & RESIDUAL_MEASURE) != 0;
	expect_eq(m.r.reserved, reserved());
	expect_eq(residual_owed(&m.r), m.told || m.telling);
}

static void tell(enum residual_verb verb, uint64_t bytes)
{
	struct residual_event event = {.verb = verb, .bytes = bytes};

	m.told |= verb == RESIDUAL_SETTLED || verb == RESIDUAL_CHECKED || verb == RESIDUAL_ADOPTED;
	act(residual_step(&m.r, &event));
	m.in_a_row = 0;
}

/* ---- measurements ---------------------------------------------------------------------------- */

static void begin_measuring(void)
{
	struct residual_moment now = page();
	struct residual_event event = {.verb = RESIDUAL_BEGINS, .moment = &now};

	if (m.under_way || !m.wanted)
		return;
	m.wanted = 0;
	m.telling = m.told;
	m.told = 0;
	m.under_way = 1;
	m.changed = is_moving();
	m.first = now;
	m.most_granted = m.granted;
	m.used = driver_says();
	m.settled_before = 0;
	for (int i = 0; i < CONTEXTS; i++) {
		m.contexts[i].seen = m.contexts[i].stage == TOLD;
		m.settled_before += m.contexts[i].seen ? m.contexts[i].reserved : 0;
	}
	expect_eq(residual_step(&m.r, &event), 0);
}

/* Law 3: what was told before it began, and nothing else. */
static void replace_reserved(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		if (m.contexts[i].seen)
			m.contexts[i].reserved = 0;
		m.contexts[i].seen = 0;
	}
}

static int says_it_stood_still(const struct residual_moment *now)
{
	return now->moved != RESIDUAL_MOVING && now->moved == m.first.moved &&
	       now->allocated == m.first.allocated && now->evicted == m.first.evicted &&
	       now->contexts == m.first.contexts;
}

/* `again`: it was not the last attempt, which alone may lower the charge. */
static void expect_bounds(const struct residual_moment *now, uint64_t known, int again)
{
	uint64_t lowest = beyond(m.used, beyond(m.most_granted, now->evicted));

	expect(residual_charge(&m.r) >= lowest);
	expect(m.r.known <= m.used || (again && m.r.known <= known) ||
	       (says_it_stood_still(now) && m.r.known <= known + m.settled_before));
}

/* Law 6. */
static void expect_sample(const struct residual_moment *now)
{
	uint64_t count, bytes = context_bytes(&count);

	expect(now->others == 0 && m.first.others == 0 && now->contexts > 0);
	expect(m.first.contexts == now->contexts);
	if (!m.honest)
		return;
	expect_eq(m.others, 0);
	expect(m.r.sample >= bytes / count);
}

static void end_measuring(void)
{
	struct residual_moment now = page();
	struct residual_event event = {.verb = RESIDUAL_ENDS, .bytes = m.used, .moment = &now};
	uint64_t known = m.r.known;
	int exact;
	unsigned todo;

	if (!m.under_way)
		return;
	m.under_way = 0;
	m.telling = 0;
	exact = m.honest && !m.changed && !is_moving();
	if (says_it_stood_still(&now))
		replace_reserved();
	todo = residual_step(&m.r, &event);
	act(todo);
	expect(todo & RESIDUAL_REPORT); /* law 8: each measurement counts */
	expect_bounds(&now, known, (todo & RESIDUAL_MEASURE) != 0);
	if (exact) {
		expect(todo & RESIDUAL_REPORT);
		expect_eq(residual_charge(&m.r), beside() + reserved());
		expect(!m.r.between);
		m.exact++;
	}
	if (todo & RESIDUAL_SAMPLE)
		expect_sample(&now);
	m.in_a_row = todo & RESIDUAL_MEASURE ? m.in_a_row + 1 : 0;
	expect(m.in_a_row < RESIDUAL_ROUNDS);
}

/* ---- what the guest does --------------------------------------------------------------------- */

static void change(void)
{
	m.changed = 1;
	if (below(2))
		m.used = driver_says(); /* it was asked just then */
}

static void move_memory(void)
{
	uint64_t room = m.granted - m.allocated;

	m.changed = 1;
	if (m.in_driver) {
		m.allocated += m.in_driver;
		m.in_driver = 0;
		m.moved++;
	} else if (below(2) && room) {
		m.in_driver = 1 + below(room);
	} else {
		m.allocated -= below(m.allocated - m.evicted + 1);
		m.moved++;
	}
	change();
}

static void move_context(struct context *c)
{
	switch (c->stage) {
	case NONE:
		c->stage = WAITS;
		c->reserved = PRICE + below(40);
		tell(RESIDUAL_RESERVED, c->reserved);
		break;
	case WAITS:
		c->stage = THERE;
		c->bytes = below(4) ? PRICE + below(20) : 0; /* or it failed */
		change();
		break;
	case THERE:
		c->stage = TOLD;
		m.moved++;
		m.changed = 1;
		tell(RESIDUAL_SETTLED, c->reserved);
		break;
	case TOLD:
		if (c->reserved)
			break;
		*c = (struct context){0};
		m.moved++;
		change();
		tell(RESIDUAL_SETTLED, 0);
		break;
	}
}

static void evict(void)
{
	uint64_t resident = m.allocated - m.evicted;

	if (below(2))
		m.evicted += below(resident + 1);
	else
		m.evicted -= below(m.evicted + 1);
	m.moved++;
	change();
}

static void be_granted(void)
{
	m.granted += below(100);
	if (m.granted > m.most_granted)
		m.most_granted = m.granted;
	tell(RESIDUAL_GRANTED, m.granted);
}

/* A module; and what passes the guest by, without a word. */
static void take_other(void)
{
	m.others++;
	m.others_bytes = below(300);
	change();
	if (below(2))
		tell(RESIDUAL_SETTLED, 0);
}

static void ask_for_it(void)
{
	switch (below(4)) {
	case 0:
		tell(RESIDUAL_ASKED, 0);
		break;
	case 1:
		tell(RESIDUAL_WATCHED, 0);
		break;
	case 2:
		tell(RESIDUAL_RETRIED, 0);
		break;
	default:
		if (m.check)
			break;
		m.check = 1;
		tell(RESIDUAL_CHECKED, 0);
		break;
	}
}

/* Rarely: another connection, or a driver that does not answer. */
static void go_wrong(void)
{
	switch (below(4)) {
	case 0:
		for (int i = 0; i < CONTEXTS; i++)
			m.contexts[i].reserved = 0;
		m.under_way = m.telling = 0;
		tell(RESIDUAL_ADOPTED, below(200));
		break;
	case 1:
		m.check = 0;
		tell(RESIDUAL_HUNG_UP, 0);
		break;
	case 2:
		tell(RESIDUAL_LATE, 0);
		expect(!m.check);
		break;
	default:
		if (!m.under_way)
			break;
		m.under_way = m.telling = 0;
		tell(RESIDUAL_FAILS, 0);
		break;
	}
}

static void step(void)
{
	uint64_t dice = below(100);

	if (dice < 22)
		begin_measuring();
	else if (dice < 44)
		end_measuring();
	else if (dice < 60)
		move_memory();
	else if (dice < 74)
		move_context(&m.contexts[below(CONTEXTS)]);
	else if (dice < 78)
		evict();
	else if (dice < 84)
		be_granted();
	else if (dice < 86)
		take_other();
	else if (dice < 98)
		ask_for_it();
	else
		go_wrong();
}

/* ---- how it ends ----------------------------------------------------------------------------- */

/* Law 5: although it never stands still. */
static void expect_an_end(void)
{
	int rounds = 0;

	end_measuring();
	m.in_a_row = 0;
	for (; m.wanted; rounds++) {
		expect(rounds <= RESIDUAL_ROUNDS);
		begin_measuring();
		m.moved++;
		m.changed = 1;
		end_measuring();
	}
	expect(!m.check);
	expect(!residual_in_flux(&m.r));
}

/* Law 1, in the end: it rests, and what was left open is tried again. */
static void expect_the_truth(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		while (m.contexts[i].stage == WAITS || m.contexts[i].stage == THERE)
			move_context(&m.contexts[i]);
	}
	if (m.in_driver)
		move_memory();
	tell(RESIDUAL_ASKED, 0);
	for (int i = 0; i < RESIDUAL_ROUNDS && m.wanted; i++) {
		begin_measuring();
		end_measuring();
	}
	expect(!m.wanted);
	if (!m.honest)
		return;
	expect_eq(residual_charge(&m.r), beside());
	expect_eq(reserved(), 0);
}

TEST(the_laws_hold_after_every_step_of_any_history)
{
	unsigned rounds = test_rounds(4000);
	uint64_t exact = 0;

	for (unsigned round = 0; round < rounds; round++) {
		memset(&m, 0, sizeof(m));
		m.honest = below(4) != 0;
		for (int i = 0; i < STEPS; i++)
			step();
		expect_an_end();
		expect_the_truth();
		exact += m.exact;
	}
	expect(exact > rounds); /* it was no empty word */
}

/* What pools may let go of is in doubt: the truth is within the bounds, and what was thought before
 * stays where it is possible. */
TEST(a_doubt_never_moves_the_charge_further_than_it_must)
{
	for (unsigned round = 0; round < test_rounds(4000); round++) {
		uint64_t held = below(200), doubt = below(held + 1), used = below(400);
		struct residual_moment now = {.allocated = held, .granted = held, .adrift = doubt};
		struct residual_event begins = {.verb = RESIDUAL_BEGINS, .moment = &now};
		struct residual_event ends = {.verb = RESIDUAL_ENDS, .moment = &now, .bytes = used};
		struct residual r = {.known = below(400), .wanted = RESIDUAL_LOUDLY};
		uint64_t before = r.known, lowest = beyond(used, held);
		uint64_t highest = beyond(used, held - doubt);

		best_effort((int)residual_step(&r, &begins));
		best_effort((int)residual_step(&r, &ends));
		expect(r.known >= lowest && r.known <= highest);
		if (before >= lowest && before <= highest)
			expect_eq(r.known, before);
		expect_eq(r.between, doubt > 0 && held > 0);
	}
}

/* ---- prices ---------------------------------------------------------------------------------- */

enum { TENANTS = 24, LIAR = TENANTS };

TEST(no_single_tenant_raises_what_a_neighbour_pays)
{
	for (unsigned round = 0; round < test_rounds(500); round++) {
		struct residual_price p = {0};
		uint64_t highest = PRICE, price;

		for (int i = 0; i < 60; i++) {
			uint64_t tenant = 1 + below(TENANTS), bytes = below(600);

			if (tenant == LIAR)
				bytes = UINT64_MAX >> below(40);
			else if (bytes > highest)
				highest = bytes;
			residual_price_learn(&p, tenant, bytes);
			expect_eq(residual_price_of(&p, tenant, PRICE),
				  bytes > PRICE ? bytes : PRICE);
			for (uint64_t other = 1; other <= TENANTS + 1; other++) {
				price = residual_price_of(&p, other, PRICE);
				expect(price >= PRICE);
				expect(other == LIAR || price <= highest);
			}
		}
		/* All say less now: it falls. */
		for (uint64_t tenant = 1; tenant <= RESIDUAL_PRICE_TENANTS; tenant++)
			residual_price_learn(&p, tenant, 100);
		expect_eq(residual_price_of(&p, TENANTS + 1, PRICE), 100);
		expect_eq(least(residual_price_of(&p, 1, PRICE), 100), 100);
	}
}
