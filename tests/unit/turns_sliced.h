/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of tenants that wait for each other: a device of one processor, which its contexts
 * have in slices of 2 ms, and programs that launch kernels on it.
 */
#pragma once

#include "core/turns/turns.h"

#include "base/least.h"
#include "tests/test.h"

#define US 1000ull
#define MS 1000000ull

#define STOP_PERIOD (80 * MS)

enum { PROGRAMS = 8, STEP_NS = 50 * 1000, SLICE_STEPS = 40 };

enum kind {
	GREEDY, /* kernels of `kernel_ns`, always several in flight */
	LONG,	/* one at a time, of up to that */
	EVEN,	/* one at a time */
	MEETS,	/* one that lasts until all programs of that kind have begun theirs; then a pause */
	FOLLOWS, /* one that lasts until the second program has ended another one */
	AHEAD, /* of one length, and its thread always has a next one: it stands at a closed gate */
	LEANS, /* likewise; each lasts until the next one is launched */
	TRAILS,	 /* likewise; each begins once the next one is launched: before, its stream waits in
		    a  host function */
	HOLDS,	 /* what it has launched never ends, and takes nothing of the device */
	FED,	 /* one kernel for ever, which works once for each copy that it is sent */
	OUTSIDE, /* one at a time, behind something that comes from outside after up to `wait_ns` */
	HALF,	 /* one at a time, while another stream waits for that long */
	WRITES,	 /* two, of which the first waits for a value that its thread writes as it launches
		    the second, after a pause of up to `wait_ns` */
	COPIES,	 /* one at a time, by an engine of its own: kernels have the device meanwhile */
	RINGS,	 /* as many as `ahead`, then it waits for all of them. Each lasts until the second
		    thread of the one before it in the ring has sent as many, which takes that one
		    up to `wait_ns`, as does waking at its gate */
	ASKS,	 /* one at a time, after a pause. It lasts until its mate has ended as many */
	ANSWERS, /* one at a time. It lasts until its mate has begun as many */
};

struct thread {
	bool stands; /* at the gate */
	uint64_t free_at;
};

struct program {
	enum kind kind;
	uint32_t weight, cap_milli;
	uint64_t kernel_ns;
	unsigned ahead; /* launches that may be in flight */

	struct turns_tenant tenant;
	struct turns_seat seat, second;
	struct turns_seat *at; /* where it launches */
	bool open, drained, stands, busy;
	bool fed; /* its kernel has work */
	unsigned queued;
	uint64_t begun, done; /* kernels */
	uint64_t left_ns;     /* of the one that has begun */
	uint64_t followed;    /* kernels that the second program had ended then */
	uint64_t free_at;     /* its next launch */
	uint64_t wait_ns, comes_at;
	uint64_t stops_ns; /* in the last so long of each STOP_PERIOD its process is stopped */
	bool sibling;	   /* another process of it, never stopped, has a thread at a closed gate */
	struct program *mate; /* another process of its tenant, whose seat they share; NULL: none */
	bool unwritten;	      /* the value */
	uint64_t wakes_ns, opened_at; /* how long after an opening its thread is through the gate */
	struct thread first, sender;  /* of a ring: */
	uint64_t launched, sent;
	uint64_t had_ns;
	uint64_t last_end_ns, gap_ns;
};

static struct {
	struct turns turns;
	struct turns_device device, second;
	struct program program[PROGRAMS];
	unsigned programs, running, slice;
	bool bare;
	uint64_t now;
	unsigned found, beside, hung;
} m;

static inline void given(bool bare)
{
	memset(&m, 0, sizeof(m));
	m.bare = bare;
	m.now = 1000 * MS;
}

static inline struct program *add(enum kind kind, uint32_t weight, uint64_t kernel_ns)
{
	struct program *p = &m.program[m.programs++];

	*p = (struct program){
		.kind = kind, .weight = weight, .cap_milli = 1000, .kernel_ns = kernel_ns};
	p->ahead = kind == GREEDY ? 4 : kind == WRITES ? 2 : 1;
	return p;
}

/* ---- programs -------------------------------------------------------------------------------- */

static inline uint64_t length_of(const struct program *p)
{
	if (p->kind == LONG)
		return 1 + test_random_below(p->kernel_ns);
	return p->kernel_ns;
}

static inline bool stands_early(const struct program *p)
{
	return !p->open && (p->kind == AHEAD || p->kind == LEANS || p->kind == TRAILS);
}

static inline bool stands_at_gate(struct program *p)
{
	if (!p->open && !p->stands)
		turns_wants(p->at, m.now);
	p->stands = !p->open;
	return p->stands;
}

static inline void submitted(struct program *p)
{
	if (!p->busy && !m.bare)
		turns_wants(p->at, m.now);
	p->busy = true;
}

/* Its first call launches, and each one is a copy that it waits for. */
static inline void feed(struct program *p)
{
	if (p->fed || p->free_at > m.now)
		return;
	if (stands_at_gate(p))
		return;
	p->queued = 1;
	p->fed = true;
	submitted(p);
}

/* Whether it is through the gate. One that stood there wakes late, and may find it closed again. */
static inline bool passes(struct program *p, struct thread *thread)
{
	if (!p->open && !thread->stands)
		turns_wants(p->at, m.now);
	if (p->open && thread->stands)
		thread->free_at = m.now + test_random_below(p->wait_ns);
	thread->stands = !p->open;
	p->stands = p->first.stands || p->sender.stands;
	return p->open && m.now >= thread->free_at;
}

static inline void go_around(struct program *p)
{
	bool has_all = p->queued && p->launched % p->ahead == 0;

	if (!has_all && passes(p, &p->first)) {
		p->queued++;
		p->launched++;
		submitted(p);
	}
	if (p->sent < p->launched && m.now >= p->sender.free_at && passes(p, &p->sender)) {
		p->sent++;
		p->sender.free_at = m.now + p->wait_ns / 10 + test_random_below(p->wait_ns);
		if (!m.bare)
			turns_wants(p->at, m.now);
	}
}

static inline bool is_stopped(const struct program *p)
{
	return m.now % STOP_PERIOD >= STOP_PERIOD - p->stops_ns;
}

static inline void launch(struct program *p)
{
	if (is_stopped(p))
		return;
	if (p->kind == FED) {
		feed(p);
		return;
	}
	if (p->kind == RINGS) {
		go_around(p);
		return;
	}
	if (p->free_at > m.now || (p->queued == p->ahead && !stands_early(p)))
		return;
	if (p->kind == WRITES && p->queued && !p->unwritten)
		return;
	if (stands_at_gate(p) || m.now - p->opened_at < p->wakes_ns)
		return;
	p->queued++;
	submitted(p);
	if (p->kind == WRITES) {
		p->unwritten = !p->unwritten;
		p->free_at = m.now + (p->unwritten ? test_random_below(p->wait_ns) : 0);
	}
	if (p->kind == OUTSIDE || (p->kind == HALF && m.now >= p->comes_at))
		p->comes_at = m.now + p->wait_ns / 8 + test_random_below(p->wait_ns / 8 * 7 + 1);
	if (p->kind == MEETS && p->ahead == 1)
		p->free_at = UINT64_MAX; /* until its kernel has ended */
}

static inline const struct program *before_in_ring(const struct program *p)
{
	unsigned i = (unsigned)(p - m.program);

	do
		i = (i + m.programs - 1) % m.programs;
	while (m.program[i].kind != RINGS);
	return &m.program[i];
}

static inline bool is_met(const struct program *p)
{
	if (p->kind == FOLLOWS)
		return m.program[1].done > p->followed;
	if (p->kind == LEANS)
		return p->queued > 1;
	if (p->kind == RINGS)
		return before_in_ring(p)->sent >= p->begun;
	if (p->kind == ASKS)
		return p->mate->done >= p->begun;
	if (p->kind == ANSWERS)
		return p->mate->begun >= p->begun;
	if (p->kind != MEETS)
		return true;
	for (unsigned i = 0; i < m.programs; i++) {
		if (m.program[i].kind == MEETS && m.program[i].begun < p->begun)
			return false;
	}
	return true;
}

static inline void end_kernel(struct program *p)
{
	p->queued--;
	p->done++;
	p->gap_ns = most(p->gap_ns, m.now - p->last_end_ns);
	p->last_end_ns = m.now;
	p->free_at =
		p->kind == MEETS || p->kind == ASKS ? m.now + test_random_below(5 * MS) : m.now;
}

static inline void work(struct program *p)
{
	if (!p->fed)
		return;
	p->fed = false;
	p->done++;
	p->free_at = m.now + (p->kernel_ns ? test_random_below(p->kernel_ns) : 0);
}

static inline void compute(struct program *p)
{
	p->had_ns += STEP_NS;
	if (p->kind == FED) {
		work(p);
		return;
	}
	if (p->begun == p->done) {
		p->begun++;
		p->left_ns = length_of(p);
		p->followed = m.program[1].done;
	}
	p->left_ns -= least(p->left_ns, STEP_NS);
	if (!p->left_ns && is_met(p))
		end_kernel(p);
}

static inline bool is_held(const struct program *p)
{
	if (p->kind == WRITES)
		return p->unwritten;
	if (p->kind == TRAILS)
		return p->queued == 1;
	if (m.now >= p->comes_at)
		return false;
	return p->kind == OUTSIDE ? p->queued : p->kind == HALF && !p->queued;
}

static inline bool uses_the_device(const struct program *p)
{
	return p->queued && p->kind != HOLDS && p->kind != COPIES && !is_held(p);
}

static inline void device(void)
{
	for (unsigned i = 0; i < m.programs; i++) {
		if (m.program[i].kind == COPIES && m.program[i].queued)
			compute(&m.program[i]);
	}
	for (unsigned i = 0; i < m.programs; i++) {
		if (m.slice && uses_the_device(&m.program[m.running]))
			break;
		m.running = (m.running + 1) % m.programs;
		m.slice = SLICE_STEPS;
	}
	if (!uses_the_device(&m.program[m.running]))
		return;
	m.slice--;
	compute(&m.program[m.running]);
}

static inline bool any_stands(const struct program *p)
{
	return p->stands || p->sibling || (p->mate && p->mate->stands);
}

static inline void say(struct program *p)
{
	if (p->queued || m.bare || is_held(p) || is_stopped(p))
		return;
	if (!p->open && !p->drained) {
		p->drained = true;
		p->busy = false;
		if (!p->mate || p->mate->drained)
			turns_drained(p->at, p->stands || (p->mate && p->mate->stands), m.now);
	} else if (p->open && p->busy && p->free_at > m.now) {
		p->busy = false;
		if (!p->mate || !p->mate->busy)
			turns_idle(p->at, m.now);
	}
}

/* ---- meted ----------------------------------------------------------------------------------- */

static inline void open_gate(struct program *p)
{
	p->open = true;
	p->opened_at = m.now;
	p->drained = false;
}

static inline bool has_nothing(const struct program *p)
{
	return !p->stands && !p->queued;
}

/* As meted says it, of a tenant that has not drained. */
static inline bool owes_while_stopped(const struct program *p)
{
	const struct program *q = p->mate;
	bool owing = p->at->gate == TURNS_OWING;

	if (owing &&
	    (p->sibling || (p->stands && !is_stopped(p)) || (q && q->stands && !is_stopped(q))))
		return false;
	return (is_stopped(p) && !p->drained) || (q && is_stopped(q) && !q->drained);
}

static inline void act(const struct turns_action *action)
{
	struct program *p = action->seat->owner;

	if (action->seat != p->at)
		return;
	switch (action->verb) {
	case TURNS_OPEN:
		open_gate(p);
		if (p->mate)
			open_gate(p->mate);
		if (has_nothing(p) && (!p->mate || has_nothing(p->mate)))
			turns_idle(p->at, m.now);
		break;
	case TURNS_CLOSE:
		p->open = false;
		if (p->mate)
			p->mate->open = false;
		break;
	case TURNS_LATE:
		if (owes_while_stopped(p))
			turns_stopped(p->at, any_stands(p), m.now);
		else if (is_held(p))
			turns_held(p->at, p->stands, m.now);
		else
			turns_late(p->at, any_stands(p), m.now);
		break;
	case TURNS_AWAITS:
		m.found++;
		break;
	case TURNS_BESIDE:
		m.beside++;
		break;
	case TURNS_REPORT:
		m.hung++;
		break;
	case TURNS_COUPLED:
	case TURNS_UNCOUPLED:
	case TURNS_SUSPEND:
	case TURNS_KILL:
		break;
	}
}

static inline void pump(void)
{
	struct turns_action action;

	turns_tick(&m.turns, m.now);
	while (turns_next(&m.turns, &action))
		act(&action);
}

static inline void begin(void)
{
	turns_init(&m.turns, &turns_usual);
	turns_device_init(&m.turns, &m.device, 0);
	turns_device_init(&m.turns, &m.second, 1);
	for (unsigned i = 0; i < m.programs; i++) {
		struct program *p = &m.program[i];
		struct turns_share share = {.weight = p->weight,
					    .weighted = true,
					    .cap_milli = p->cap_milli,
					    .class = SHARE_STANDARD};

		p->at = p->kind == ANSWERS ? &p->mate->seat : &p->seat;
		p->open = m.bare;
		p->drained = true;
		p->last_end_ns = m.now;
		if (m.bare || p->kind == ANSWERS)
			continue;
		turns_tenant_init(&m.turns, &p->tenant, &share);
		turns_join(&p->seat, &p->tenant, &m.device, p, false, m.now);
		pump();
	}
}

/* One with a cap, which launches so many ahead, beside a neighbour. */
static inline struct program *given_capped(enum kind kind, uint64_t kernel_ns, unsigned ahead,
					   uint32_t cap_milli, enum kind neighbour)
{
	struct program *p;

	given(false);
	p = add(kind, 100, kernel_ns);
	p->ahead = ahead;
	p->cap_milli = cap_milli;
	add(neighbour, 100, 1 * MS);
	begin();
	return p;
}

static inline void run(uint64_t length_ns)
{
	for (uint64_t end = m.now + length_ns; m.now < end; m.now += STEP_NS) {
		for (unsigned i = 0; i < m.programs; i++)
			launch(&m.program[i]);
		pump();
		device();
		for (unsigned i = 0; i < m.programs; i++) {
			say(&m.program[i]);
			pump();
		}
	}
}

/* ---- what is seen ---------------------------------------------------------------------------- */

/* In hundredths of the time given. */
static inline double had(const struct program *p, uint64_t of_ns)
{
	return 100.0 * (double)p->had_ns / (double)of_ns;
}

static inline void forget_what_they_had(void)
{
	for (unsigned i = 0; i < m.programs; i++)
		m.program[i].had_ns = m.program[i].gap_ns = 0;
}
