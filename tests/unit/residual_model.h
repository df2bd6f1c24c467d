/* SPDX-License-Identifier: Apache-2.0 */
/* The driver and the guest of test_residual_always.c, and the laws. */
#pragma once

#include "core/ledger/residual.h"

#include "core/ledger/residual_price.h"
#include "tests/test.h"

enum {
	STEPS = 300,
	CONTEXTS = 6,
	PRICE = 64,
};

/* The reservation for one context. */
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
	uint64_t changes;
	struct residual_moment lie; /* its page's claims, where it is not honest */
	/* The measurement under way. */
	int under_way, changed; /* since it began */
	uint64_t used, most_granted, known_before, settled_before;
	struct residual_moment first;
	int wanted, check;
	int told, telling;	  /* reported since the last measurement began; before it did */
	unsigned in_a_row;	  /* measurements that the one before wanted */
	uint64_t exact;		  /* how often law 1 was checked */
	int guessed;		  /* since it was measured exactly */
	uint64_t likely, guesses; /* law 9: the bound, and how often it was checked */
} m;

static inline uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static inline uint64_t context_bytes(uint64_t *ret_count)
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

static inline uint64_t beside(void)
{
	uint64_t count;

	return context_bytes(&count) + m.others_bytes;
}

static inline uint64_t driver_says(void)
{
	return m.allocated - m.evicted + m.in_driver + beside();
}

static inline uint64_t reserved(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < CONTEXTS; i++)
		sum += m.contexts[i].reserved;
	return sum;
}

/* A context that is there and was not told yet is a move, too. */
static inline int is_moving(void)
{
	int moving = m.in_driver != 0;

	for (int i = 0; i < CONTEXTS; i++)
		moving |= m.contexts[i].stage == THERE;
	return moving;
}

static inline struct residual_moment page(void)
{
	struct residual_moment now = {.allocated = m.allocated,
				      .changes = is_moving() ? RESIDUAL_CHANGING : m.changes,
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

static inline void act(unsigned todo)
{
	if (todo & (RESIDUAL_ANSWER | RESIDUAL_EXCUSE)) {
		expect(m.check);
		m.check = 0;
	}
	m.wanted |= (todo & RESIDUAL_MEASURE) != 0;
	expect_eq(m.r.reserved, reserved());
	expect_eq(residual_owed(&m.r), m.told || m.telling);
}

static inline void tell(enum residual_verb verb, uint64_t bytes)
{
	struct residual_event event = {.verb = verb, .bytes = bytes};

	m.told |= verb == RESIDUAL_SETTLED || verb == RESIDUAL_CHECKED ||
		  verb == RESIDUAL_ADOPTED || verb == RESIDUAL_GUESSED;
	if (verb == RESIDUAL_GUESSED)
		m.guessed = bytes != 0;
	act(residual_step(&m.r, &event));
	m.in_a_row = 0;
}

/* ---- measurements ---------------------------------------------------------------------------- */

static inline void begin_measuring(void)
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

/* Law 3: all that was reported before it began, and nothing else. */
static inline void replace_reserved(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		if (m.contexts[i].seen)
			m.contexts[i].reserved = 0;
		m.contexts[i].seen = 0;
	}
}

static inline int says_it_stood_still(const struct residual_moment *now)
{
	return now->changes != RESIDUAL_CHANGING && now->changes == m.first.changes &&
	       now->allocated == m.first.allocated && now->evicted == m.first.evicted &&
	       now->contexts == m.first.contexts;
}

/* `again`: it was not the last attempt, which alone may lower the charge. */
static inline void expect_bounds(const struct residual_moment *now, uint64_t known, int again)
{
	uint64_t lowest = beyond(m.used, beyond(m.most_granted, now->evicted));

	expect(residual_charge(&m.r) >= lowest);
	expect(m.r.known <= m.used || (again && m.r.known <= known) ||
	       (says_it_stood_still(now) && m.r.known <= known + m.settled_before));
}

static inline uint64_t says_resident(const struct residual_moment *at)
{
	return beyond(least(at->allocated, at->granted), at->evicted);
}

/* Law 9. */
static inline void expect_no_guess(const struct residual_moment *now, int again)
{
	uint64_t held = least(says_resident(&m.first), says_resident(now));
	uint64_t likely = beyond(m.used, held);

	if (says_it_stood_still(now)) {
		m.guessed = m.guessed && held && (now->adrift || now->loose);
		m.likely = 0;
		return;
	}
	m.likely = likely > m.likely ? likely : m.likely;
	expect(!m.guessed || m.r.known <= m.likely);
	m.guesses += m.guessed != 0;
	m.likely = again ? m.likely : 0;
}

/* Law 6. */
static inline void expect_sample(const struct residual_moment *now)
{
	uint64_t count, bytes = context_bytes(&count);

	expect(now->others == 0 && m.first.others == 0 && now->contexts > 0);
	expect(m.first.contexts == now->contexts);
	if (!m.honest)
		return;
	expect_eq(m.others, 0);
	expect(m.r.sample >= bytes / count);
}

static inline void end_measuring(void)
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
	expect_no_guess(&now, (todo & RESIDUAL_MEASURE) != 0);
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
