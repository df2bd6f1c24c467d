/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks what the driver holds for a guest on a device beyond the guest's allocations: its
 * contexts, modules and heaps, and memory that bypassed the guest. One machine per guest and
 * device. Pure: no clock, no I/O. The caller measures when it is told to, and writes
 * residual_charge() into the ledger.
 *
 *	reserved  granted for contexts that are being created and have not been seen yet
 *	measured  the driver's figure for the process, minus what it has allocated on the device
 *	in flux   a measurement is wanted or in progress: what is known may be about to change
 *	between   the guest was not quiet, or cannot say what the driver counts. Only bounds are
 *		  known: charge = min(max(former charge, lowest), highest)
 *	owed	  the guest reported that something came or went, and no measurement that began
 *		  after that has ended: the charge may be too low
 *	guessed	  what is known is a price: a restarted daemon has not measured it exactly yet
 *
 * A measurement begins (RESIDUAL_BEGINS, with the page's figures at that moment), the driver is
 * asked, and the measurement ends (RESIDUAL_ENDS, with the page's figures then). The driver's
 * figure belongs to a moment between the two. It is compared with the page only if the page is the
 * same at both moments and no change (guest/process/changes.h) was in progress or began: figures of
 * different moments are never subtracted from each other.
 *
 * The page's figures are the guest's claims, including contexts and others. What was granted and
 * the driver's figure are not claims.
 *
 * Laws, tested by tests/unit/test_residual_always.c:
 *  1. for a quiet guest whose page is true, charge = what the driver holds beyond what is allocated
 *     + what is reserved for contexts that do not exist yet, to the byte;
 *  2. whatever a page claims, the charge is never less than what the driver holds beyond the most
 *     that was granted since the measurement began; and the measured part is never more than the
 *     larger of the driver's figure and the former value;
 *  3. a reservation is replaced only by a measurement that began after the guest reported that its
 *     purpose exists (or failed): it is neither lost nor counted twice;
 *  4. evicted memory hides nothing: only resident memory is compared;
 *  5. every request ends: after RESIDUAL_ROUNDS measurements no immediate one is wanted, whatever
 *     the guest does, and a check is answered exactly once;
 *  6. the price of a context is learnt only if there was nothing but contexts at both moments, or
 *     memory that is known to the byte;
 *  7. memory that a pool may have released, and that the guest has not noticed, hides nothing that
 *     was known;
 *  8. what a guest has reported is owed until a measurement that began after the report has ended
 *     or failed, and no longer. Then the charge covers it: however restless the guest is, what the
 *     driver holds does not exceed the charge and the most that was granted meanwhile;
 *  9. a guess does not count allocated memory twice: of a restless guest it counts at most what, in
 *     one of the attempts to measure it, the driver's figure lies above the smaller of the page's
 *     figures at the beginning and at the end, or what a former daemon has measured.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	/* Measurements until a figure is final: one that had already begun, plus the number of
	 * attempts for a guest that is not quiet. */
	RESIDUAL_ROUNDS = 6,
	/* Exact measurements in a row that leave some bytes in doubt, until the doubt is
	 * accepted. */
	RESIDUAL_DOUBTS = 8,
	/* So often all attempts for a guest that is not quiet were in vain until what is known of
	 * it is no guess any more. */
	RESIDUAL_VAIN = 8,
	/* So often a measurement is repeated that the driver did not answer. */
	RESIDUAL_FAILURES = 8,
};

#define RESIDUAL_CHANGING UINT64_MAX /* for `changes`: one is in progress */
#define RESIDUAL_UNSAID	  UINT64_MAX /* for `others`: the guest does not report it */
#define RESIDUAL_ALL	  UINT64_MAX /* for `bytes` of RESIDUAL_SETTLED: all that is reserved */

/* A moment: what the page claims and what the ledger knows. */
struct residual_moment {
	uint64_t allocated; /* claimed; never believed beyond `granted` */
	uint64_t adrift;    /* part of it, claimed: the driver may or may not count it */
	uint64_t loose;	    /* part of it, claimed: a pool may release it at any moment */
	uint64_t changes;   /* claimed: how often these have changed, or RESIDUAL_CHANGING */
	uint64_t contexts;  /* claimed */
	uint64_t others;    /* claimed: actions that take memory beyond contexts */
	uint64_t granted, evicted;
};

enum residual_verb {
	RESIDUAL_RESERVED = 1, /* `bytes` were granted for a context that is about to be created */
	RESIDUAL_SETTLED,  /* what `bytes` were reserved for exists, or failed; something came or
			      went */
	RESIDUAL_ASKED,	   /* the figures were requested */
	RESIDUAL_WATCHED,  /* periodic look: no change was reported */
	RESIDUAL_CHECKED,  /* the guest wants to know; see RESIDUAL_ANSWER */
	RESIDUAL_ADOPTED,  /* an inventory: `bytes` replace the whole former charge */
	RESIDUAL_GUESSED,  /* likewise, of a guest from before the daemon: `bytes` is a price */
	RESIDUAL_RECALLED, /* likewise: what a former daemon measured, and no attempt makes less */
	RESIDUAL_HUNG_UP,  /* the guest cannot be answered */
	RESIDUAL_GRANTED,  /* `bytes` is the total that it is granted now */
	RESIDUAL_BEGINS,   /* a measurement; with `moment` */
	RESIDUAL_ENDS,	   /* with `moment` and the driver's figure in `bytes` */
	RESIDUAL_FAILS,	   /* the driver did not answer */
	RESIDUAL_LATE,	   /* the driver takes too long: waiting requests are answered */
	RESIDUAL_RETRIED, /* the time of RESIDUAL_LATER has come; or a request would be refused, and
			     what is open may help */
};

struct residual_event {
	enum residual_verb verb;
	uint64_t bytes;
	const struct residual_moment *moment;
};

/* What to do; flags. */
enum {
	RESIDUAL_MEASURE = 1, /* begin a measurement as soon as none is in progress */
	RESIDUAL_LATER = 2,   /* send RESIDUAL_RETRIED after a while, longer each time */
	RESIDUAL_REPORT = 4,  /* the charge has changed */
	RESIDUAL_ANSWER = 8,  /* the check: it was measured */
	RESIDUAL_EXCUSE = 16, /* the check: it could not be measured */
	RESIDUAL_SAMPLE = 32, /* `sample` is what a context takes */
};

enum residual_want { RESIDUAL_NO = 0, RESIDUAL_QUIETLY, RESIDUAL_LOUDLY };

/* All zero: nothing is held. Callers may only read it. */
struct residual {
	uint64_t known;	   /* beside what is reserved */
	uint64_t reserved; /* not seen yet */
	uint64_t settling; /* part of it: reported to exist, or to have failed */
	uint64_t used;	   /* what the driver last reported */
	uint64_t sample;   /* of the last RESIDUAL_SAMPLE */

	bool told, telling;   /* owed: to the next measurement, and to the one in progress */
	bool check, checking; /* to be answered; by the measurement in progress */
	bool blind;	      /* the driver did not answer when it was last measured */
	uint8_t failures;     /* in a row */
	uint8_t vain;	      /* how often all attempts to measure a guess were in vain */
	bool between;	      /* it was not quiet when it was last measured, or left doubts, or the
				 driver did not answer */
	uint64_t guess;	      /* 0: what is known was measured */
	uint64_t likely;      /* of it, at most, by the attempts so far to measure it */
	uint64_t recalled;    /* of it, at least: it was measured before a restart */

	enum residual_want wanted, measuring;
	struct residual_moment first; /* when it began */
	uint64_t settled_first;	      /* `settling` then */
	uint64_t most_granted;	      /* since then */

	uint32_t tries, doubts;
};

must_check unsigned residual_step(struct residual *r, const struct residual_event *event);

/* The bytes to charge in the ledger. */
static inline uint64_t residual_charge(const struct residual *r)
{
	return r->known + r->reserved;
}

/* Of these, what may be less once it is measured, which the driver makes possible. After a while,
 * what is known of a guest that is never quiet is no guess any more. */
static inline uint64_t residual_guessed(const struct residual *r)
{
	if (r->blind)
		return 0;
	return r->reserved + (r->guess && r->vain < RESIDUAL_VAIN ? r->known : 0);
}

/* A request that would be refused because of it waits, since it may be about to change; see
 * ledger_unsettled(). */
static inline bool residual_in_flux(const struct residual *r)
{
	return r->wanted == RESIDUAL_LOUDLY || r->measuring == RESIDUAL_LOUDLY;
}

/* No request is granted meanwhile: see LEDGER_OWED. */
static inline bool residual_owed(const struct residual *r)
{
	return r->told || r->telling;
}

/* The last measurement left something open: another one is worthwhile before a request is
 * refused. */
static inline bool residual_open(const struct residual *r)
{
	return r->between || r->doubts > 0;
}
