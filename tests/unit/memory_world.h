/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node/memory with a world of the test's own around it: a clock, a driver that answers when the
 * test says so, and guests that are pages. Nothing runs by itself.
 */
#pragma once

#include "core/ledger/ledger.h"
#include "node/daemon.h"
#include "node/memory/ask.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/measured.h"
#include "node/memory/outside.h"
#include "node/memory/prices.h"
#include "node/memory/remains.h"
#include "node/memory/watch.h"
#include "node/users/user.h"
#include "tests/test.h"

#define MIB ((uint64_t)1 << 20)
#define MS  ((uint64_t)1000000)

enum { WORLD_DEVICES = 3, WORLD_ROWS = 64, WORLD_LATE_MS = 2000 };

/* What the driver says when it is asked. */
struct world_row {
	uint32_t device, pid;
	uint64_t bytes;
	bool over;	  /* the process has ended */
	uint64_t started; /* in clock ticks */
	const char *name;
};

struct world {
	uint64_t now_ns;
	struct world_row row[WORLD_ROWS];
	uint32_t rows;
	bool fails[WORLD_DEVICES];	 /* it does not say who uses the device */
	uint64_t used[WORLD_DEVICES][2]; /* by all: before and after it was asked for processes */
	uint32_t used_asked[WORLD_DEVICES]; /* so often */
	uint32_t asked[WORLD_DEVICES];	    /* for processes, so often */
	uint32_t user_asks;		    /* the user's that may wait */
	uint32_t names_asked;
	uint32_t admin_measured, gave_back, behind, waits_looked, drifts, samples;
	uint32_t lost_looks, moves_looked;
	uint32_t late_logged, behind_logged; /* lines of the log */
	uint32_t shown[WORLD_DEVICES], shown_room[WORLD_DEVICES];
	uint64_t shown_credit;
	uint32_t shown_at_answer; /* so often its figures, before the last answer of an ask */
	void (*answered)(struct guest_device *at); /* ... is told of each; NULL: nobody */
};

extern struct world w;
extern struct daemon *d;

void world_begin(uint32_t devices, uint64_t bytes);
void world_end(void);
/* On so many devices from `first` on. */
struct tenant *world_tenant(uint64_t limit, uint32_t first, uint32_t devices);
struct guest *world_guest(struct tenant *t);
struct wire_own_page *world_page(struct guest *g);
/* Its entry for the i-th device of its tenant has allocated this much of what it was granted. */
void world_allocated(struct guest *g, uint32_t i, uint64_t bytes);

/* Replaces what the driver says of the process on the device. */
void world_uses(uint32_t device, uint32_t pid, uint64_t bytes);

/* The measurement under way: the driver is asked, or has been and answers. */
bool world_is_asked(void);
void world_driver_looks(void);
void world_driver_returns(void);
void world_driver_answers(void);
/* Until nobody asks any more. Returns how often it was. */
uint32_t world_driver_settles(void);

/* Timers are due in their order. */
void world_pass(uint64_t ms);
bool world_is_armed(const struct loop_timer *timer);
/* In how many milliseconds. */
uint64_t world_due_ms(const struct loop_timer *timer);

/* The asks' words since the last time: "grant 1 100; refuse 2 1; done 3 0; recall 100; ". Bytes are
 * in MiB. */
const char *world_said(void);

#define expect_said(words) expect_str(world_said(), words)

static inline void world_ask(struct guest *g, uint32_t i, uint64_t id, uint64_t bytes,
			     bool may_wait)
{
	struct ledger_request request = {
		.id = id, .bytes = bytes, .want = bytes, .may_wait = may_wait};

	best_effort(ask_ledger(&g->device[i], &request));
}

static inline struct ledger_sums world_sums(const struct tenant *t, uint32_t i)
{
	struct ledger_sums sums;

	ledger_account_sums(t->device[i].account, &sums);
	return sums;
}

static inline uint64_t world_residual(const struct guest *g, uint32_t i)
{
	return world_sums(g->tenant, i).residual;
}

/* Something came or went, as the guest says. */
static inline void world_reports(struct guest *g, uint32_t i)
{
	measure_tell(&g->device[i], RESIDUAL_SETTLED, 0);
	measure_start(d);
}

/* The same, as its page says. */
static inline void world_changes(struct guest *g)
{
	world_page(g)->changes_begun++;
	world_page(g)->changes_ended++;
}

/* The driver is asked, the guest changes meanwhile, and the driver answers. */
static inline void world_answers_amid_changes(struct guest *g)
{
	world_driver_looks();
	world_changes(g);
	world_driver_returns();
}

/* A look at all devices begins. */
static inline void world_look(void)
{
	outside_want(d);
	measure_start(d);
}
