/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether tenants that are all alike must take turns nevertheless. Their device is open,
 * and the hardware's slices are as unequal as their kernels are long. This machine compares what
 * each tenant had of the device, by the driver's samples, with what it was entitled to: its equal
 * part of the time in which it wanted to run. Decision 102 gives the reasons. Pure: events and time
 * in, outcomes out.
 *
 *	open	   one look at the samples each second. If nobody has computed for a while,
 *	unused	   guests report once when they are idle. When all have, nothing is done until
 *		   one of them wants the device: that makes it `open`
 *	open	   likewise. If a tenant has more than its equal part,
 *	watched	   guests also report when they are idle; samples are compared for up to 3 s
 *	governed   for a span: it was unfair. Then the device is opened on trial:
 *	poised	   still governed, until a first sample has come;
 *	tried	   open for a moment, too short to cost anybody 5 % of a second;
 *	weighed	   governed again, until the samples of that moment have come. Fair ones lead to
 *		   `watched`, unfair ones to `governed` for twice the span
 *
 * Laws, tested by tests/unit/test_alike_always.c:
 *  1. a fair device is not governed: one where no tenant, over a second, is short by more than 5
 *     points that others have beyond their entitlement;
 *  2. where a tenant is short by 7 points while it wants to run, the device is governed within
 *     10 s, by 10 points within 5 s, and by 25 points within 2 s (3 s later if nobody computed
 *     before); and within 20 s where samples looked the same when they were found fair, because
 *     the tenant did not want to run;
 *  3. an open device is looked at once a second at most while nobody has more than its equal part,
 *     and a governed one not before the end of its span. Where nobody computes, nothing is due any
 *     more after 10 s, until a guest reports that it wants the device. (A guest that does not
 *     report that it is idle, though it does not compute: a look in 4 s);
 *  4. if it is unfair whenever it is open, a device is open for a moment in each span only, and
 *     spans grow up to `ALIKE_SPAN_MOST_NS`;
 *  5. without samples, with fewer than two tenants, and while their shares differ, nothing is
 *     decided;
 *  6. whatever its tenants do, a device becomes governed twice in 10 s at most: after a trial, and
 *     where the tenants were fair in the trial alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define ALIKE_GLANCE_NS	    (1000 * UINT64_C(1000000))	/* between two looks at an open device */
#define ALIKE_MOMENT_NS	    (70 * UINT64_C(1000000))	/* for which it is opened on trial */
#define ALIKE_SPAN_FIRST_NS (10000 * UINT64_C(1000000)) /* for which it is governed */
#define ALIKE_SPAN_MOST_NS  (640000 * UINT64_C(1000000))

enum alike_state {
	ALIKE_OPEN,
	ALIKE_UNUSED,
	ALIKE_WATCHED,
	ALIKE_GOVERNED,
	ALIKE_POISED,
	ALIKE_TRIED,
	ALIKE_WEIGHED,
};

enum { ALIKE_EVENTS = 256, ALIKE_MILLI = 1000 };

struct alike_seat;

/* Samples come late. What tenants want is therefore replayed up to the end of each sample. */
struct alike_event {
	uint64_t at_ns;
	struct alike_seat *seat;
	bool wants;
};

/* Of a device. The caller owns it. */
struct alike {
	/* For reading. */
	enum alike_state state;
	bool asks; /* for a look at the driver's samples: call alike_looked() or alike_blind() */

	struct list list; /* of seats */
	uint32_t seats;
	bool applies;
	uint64_t due_ns;		/* when to do the next thing; UINT64_MAX: never */
	uint64_t began_ns;		/* the state, */
	bool retried;			/* and it began with a trial */
	uint64_t span_ns, opened_ns;	/* of the next government; when the last one ended */
	uint64_t unused_ns;		/* until the next look, while nobody computes */
	uint64_t unheard_ns;		/* not `unused` before: some did not report that */
	uint64_t patience_ns, quiet_ns; /* not watched again before `quiet_ns`, ... */
	uint32_t active;		/* ... unless more tenants compute than these, */
	uint32_t fair_milli;		/* or some have more beyond equal parts than this */
	uint32_t watched_milli;		/* what they had most in this comparison */
	/* What is compared: from the first sample to the last one. */
	uint64_t first_ns, last_ns, period_ns;
	uint32_t samples;
	uint64_t clock_ns, virtual_ns; /* the latter is the integral of 1 / wanting */
	uint32_t wanting;
	struct alike_event events[ALIKE_EVENTS];
	uint32_t event, event_count;
};

struct alike_seat {
	struct alike *alike; /* NULL: it is not there */
	struct list link;
	bool wants, counted; /* now; and at `clock_ns` */
	uint32_t seen_milli;
	uint64_t since_ns; /* of virtual time: not entitled for yet */
	uint64_t had_ns, entitled_ns;
};

/* The tenants must take turns. */
static inline bool alike_governs(const struct alike *a)
{
	return a->state == ALIKE_GOVERNED || a->state == ALIKE_POISED || a->state == ALIKE_WEIGHED;
}

/* Nobody wants the device: nothing is due until somebody does. */
static inline bool alike_sleeps(const struct alike *a)
{
	return a->state == ALIKE_UNUSED && a->due_ns == UINT64_MAX;
}

/* The guests must report when they are idle. */
static inline bool alike_listens(const struct alike *a)
{
	return a->state != ALIKE_OPEN && a->state != ALIKE_GOVERNED;
}

/* It is open on trial: guests must have no more under way than with turns, which may begin soon. */
static inline bool alike_bounds(const struct alike *a)
{
	return a->state == ALIKE_TRIED || (a->state == ALIKE_WATCHED && a->retried);
}

void alike_init(struct alike *a);

/* `s` is all zero, or has left. It is taken to want the device until alike_wants(). */
void alike_join(struct alike *a, struct alike_seat *s, uint64_t now_ns);
void alike_leave(struct alike_seat *s, uint64_t now_ns);

/* Whether the device would be open otherwise, and shared. */
void alike_apply(struct alike *a, bool applies, uint64_t now_ns);

/* The tenant has work under way or waiting, or has none. This is exact only while alike_listens():
 * when that begins, call it for each tenant for which it was not. */
void alike_wants(struct alike_seat *s, bool wants, uint64_t now_ns);

/* The tenant's part of the device in the latest sample, in thousandths. Without a call it had
 * none. */
void alike_saw(struct alike_seat *s, uint32_t milli);
/* The latest sample of any tenant ended at `sample_ns`; 0: no tenant computed recently. */
void alike_looked(struct alike *a, uint64_t sample_ns, uint64_t now_ns);
/* The driver does not tell. The device is open then. */
void alike_blind(struct alike *a, uint64_t now_ns);

/* When to call alike_tick(); UINT64_MAX: never. */
static inline uint64_t alike_deadline(const struct alike *a)
{
	return a->due_ns;
}

void alike_tick(struct alike *a, uint64_t now_ns);
