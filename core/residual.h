/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver holds for a guest on a device beside what was allocated: its contexts, modules,
 * heaps, and what passed the guest by. One machine per guest and device. Pure: no clock, no I/O;
 *the caller measures when it is told to, and writes what residual_charge() says into the ledger.
 *
 *	reserved  granted for contexts that are being made: nobody has seen them yet
 *	measured  the driver's figure for the process, less what it has allocated on the device
 *	in flux   a measurement is wanted or under way: what is known may be about to change
 *	between   the guest did not stand still, or cannot say what the driver counts: a lowest and
 *a highest are known, and the charge is what was thought before, within these
 *
 * A measurement begins (RESIDUAL_BEGINS, with what the page says at that moment), the driver is
 * asked, and it ends (RESIDUAL_ENDS, with what the page says then). The driver's figure belongs to
 *a moment between the two. It is compared with the page only where the page says the same at both,
 * and no move (guest/moves.h) was under way or began: figures of two moments are never subtracted.
 *
 * What the page says is the guest's claim, and so are contexts and others; what was granted, and
 *the driver's figure, are not.
 *
 * Laws, attacked by tests/unit/test_residual_always.c:
 *  1. of a guest that stands still, and whose page is true, the charge is to the byte what the
 *     driver holds beside what is allocated, and what is reserved for what is not there yet;
 *  2. whatever a page claims, the charge is never less than what the driver holds beyond all that
 *     was ever granted since the measurement began; and what was measured is never more than the
 *     larger of the driver's figure and what was thought before;
 *  3. a reservation is replaced only by a measurement that began after it was said that what it was
 *     for is there (or failed): it is not lost, and not counted twice;
 *  4. memory that was evicted does not hide anything: what is resident is compared;
 *  5. every wish ends: after RESIDUAL_ROUNDS measurements nothing is wanted at once, whatever the
 *     guest does, and a check is answered exactly once;
 *  6. the price of a context is learnt where contexts were all that there was, at both moments;
 *  7. what a pool may have let go of, and the guest has not found, hides nothing that was known.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	/* Measurements until a figure is as good as it gets: one that had begun before, and as many
	 * as are tried of a guest that does not stand still. */
	RESIDUAL_ROUNDS = 6,
	/* Exact ones in a row that leave some bytes in doubt, until that is how it is. */
	RESIDUAL_DOUBTS = 8,
};

#define RESIDUAL_MOVING UINT64_MAX /* for `moved`: a move is under way */
#define RESIDUAL_UNSAID UINT64_MAX /* for `others`: the guest does not say */
#define RESIDUAL_ALL	UINT64_MAX /* for `bytes` of RESIDUAL_SETTLED: all that is reserved */

/* At one moment: what the page claims, and what the ledger knows. */
struct residual_moment {
	uint64_t allocated; /* claimed; never believed beyond `granted` */
	uint64_t adrift;    /* of it, claimed: the driver may count it as the guest's, or not */
	uint64_t loose;	    /* of it, claimed: a pool may let go of it at any moment */
	uint64_t moved;	    /* claimed: how often that has changed; RESIDUAL_MOVING */
	uint64_t contexts;  /* claimed */
	uint64_t others;    /* claimed: things done that take memory beside contexts */
	uint64_t granted, evicted;
};

enum residual_verb {
	RESIDUAL_RESERVED = 1, /* `bytes` were granted for a context that is about to be made */
	RESIDUAL_SETTLED,      /* what `bytes` were reserved for is there, or failed; something came
				* or went */
	RESIDUAL_ASKED,	       /* somebody looks at the figures */
	RESIDUAL_WATCHED,      /* it is time to look: nobody has said that anything changed */
	RESIDUAL_CHECKED,      /* the guest wants to know; see RESIDUAL_ANSWER */
	RESIDUAL_ADOPTED,      /* an inventory: `bytes` are charged instead of all of before */
	RESIDUAL_HUNG_UP,      /* nobody can be answered */
	RESIDUAL_GRANTED,      /* `bytes` are what it is granted altogether now */
	RESIDUAL_BEGINS,       /* a measurement; with `moment` */
	RESIDUAL_ENDS,	       /* with `moment` and the driver's figure in `bytes` */
	RESIDUAL_FAILS,	       /* the driver did not say */
	RESIDUAL_LATE,	       /* the driver takes too long: who waits is answered */
	RESIDUAL_RETRIED,      /* the time of RESIDUAL_LATER has come; or somebody would be refused,
				* and what is open may help */
};

struct residual_event {
	enum residual_verb verb;
	uint64_t bytes;
	const struct residual_moment *moment;
};

/* What is to be done, or'ed. */
enum {
	RESIDUAL_MEASURE = 1, /* begin a measurement as soon as none is under way */
	RESIDUAL_LATER = 2,   /* RESIDUAL_RETRIED after a while: longer each time */
	RESIDUAL_REPORT = 4,  /* the charge has changed */
	RESIDUAL_ANSWER = 8,  /* the check: it was measured */
	RESIDUAL_EXCUSE = 16, /* the check: it could not be measured */
	RESIDUAL_SAMPLE = 32, /* `sample` is what a context takes */
};

enum residual_want { RESIDUAL_NO = 0, RESIDUAL_QUIETLY, RESIDUAL_LOUDLY };

/* All zero: nothing is held. Its own, but for reading. */
struct residual {
	uint64_t known;	   /* beside what is reserved */
	uint64_t reserved; /* not seen yet */
	uint64_t settling; /* of these: said to be there, or to have failed */
	uint64_t used;	   /* what the driver said last */
	uint64_t sample;   /* of the last RESIDUAL_SAMPLE */

	enum residual_want wanted, measuring;
	struct residual_moment first; /* when it began */
	uint64_t settled_first;	      /* `settling` then */
	uint64_t most_granted;	      /* since then */

	bool between; /* it did not stand still when it was measured last, or left doubts */
	uint32_t tries, doubts;
	bool check, checking; /* to be answered; by the measurement under way */
};

must_check unsigned residual_step(struct residual *r, const struct residual_event *event);

/* What is to stand in the ledger. */
static inline uint64_t residual_charge(const struct residual *r)
{
	return r->known + r->reserved;
}

/* What would be refused because of it waits: it may be about to change, see ledger_unsettled(). */
static inline bool residual_in_flux(const struct residual *r)
{
	return r->wanted == RESIDUAL_LOUDLY || r->measuring == RESIDUAL_LOUDLY;
}

/* The last measurement left something open: worth another one before anybody is refused. */
static inline bool residual_open(const struct residual *r)
{
	return r->between || r->doubts > 0;
}
