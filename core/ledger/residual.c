/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger/residual.h"

#include "base/least.h"

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static unsigned want(struct residual *r, enum residual_want how)
{
	if (how > r->wanted)
		r->wanted = how;
	return r->wanted ? RESIDUAL_MEASURE : 0;
}

/* Neither a claim beyond the grant nor memory that is not on the device may hide anything. */
static uint64_t resident(const struct residual_moment *at)
{
	return beyond(least(at->allocated, at->granted), at->evicted);
}

static unsigned answer(struct residual *r, unsigned how)
{
	if (!r->checking)
		return 0;
	r->check = r->checking = false;
	return how;
}

/* ---- a measurement --------------------------------------------------------------------------- */

static unsigned begins(struct residual *r, const struct residual_moment *now)
{
	r->measuring = r->wanted;
	r->wanted = RESIDUAL_NO;
	r->first = *now;
	r->settled_first = r->settling;
	r->most_granted = now->granted;
	r->checking = r->check;
	r->telling = r->told;
	r->told = false;
	return 0;
}

static bool stood_still(const struct residual *r, const struct residual_moment *now)
{
	const struct residual_moment *then = &r->first;

	return now->changes != RESIDUAL_CHANGING && now->changes == then->changes &&
	       now->allocated == then->allocated && now->evicted == then->evicted &&
	       now->contexts == then->contexts;
}

/* Bytes that are charged, and that the driver may or may not attribute to the guest. The guest
 * notices that a pool has released memory only when it waits for the driver, and meanwhile it may
 * be waiting for us. However often we measure, the release looks as if a context had ended. */
static uint64_t in_doubt(const struct residual_moment *now)
{
	return plus(now->adrift, now->loose);
}

/* In order: it was reported to exist, then the measurement began, and now it is known. */
static void replace_reserved(struct residual *r)
{
	r->reserved -= r->settled_first;
	r->settling -= r->settled_first;
	r->known += r->settled_first;
}

/* Of a guest that was not quiet. What was measured before may be as true as ever; a guess is not,
 * where memory would count twice that the guest has allocated. At each attempt, since requests are
 * refused between them. */
static void bound_guess(struct residual *r, const struct residual_moment *now, uint64_t used)
{
	if (!r->guess)
		return;
	r->guess = most(r->guess, r->known);
	r->likely = most(r->likely, beyond(used, least(resident(&r->first), resident(now))));
	r->known = most(r->recalled, least(r->guess, r->likely));
}

/* At least what exceeds the most that was granted meanwhile, which may include reserved bytes.
 * At most all of it. */
static unsigned ends_between(struct residual *r, const struct residual_moment *now, uint64_t used)
{
	uint64_t lowest = beyond(used, beyond(r->most_granted, now->evicted));

	/* At once: requests are granted between the attempts. */
	r->known = most(r->known, beyond(lowest, r->reserved));
	bound_guess(r, now, used);
	if (r->measuring == RESIDUAL_LOUDLY && ++r->tries < RESIDUAL_ROUNDS - 1)
		return want(r, RESIDUAL_LOUDLY) | RESIDUAL_REPORT;
	r->tries = 0;
	r->likely = 0;
	r->known = least(r->known, used);
	if (r->measuring == RESIDUAL_QUIETLY)
		return RESIDUAL_REPORT;
	r->between = true;
	r->vain += r->guess && r->vain < RESIDUAL_VAIN;
	return RESIDUAL_REPORT | RESIDUAL_LATER | answer(r, RESIDUAL_ANSWER);
}

static unsigned learn(struct residual *r, const struct residual_moment *now, uint64_t held)
{
	if (!now->contexts || now->others || r->first.others)
		return 0;
	r->sample = held / now->contexts;
	return r->sample ? RESIDUAL_SAMPLE : 0;
}

/* A guest that asks for its first memory is not quiet: a change has begun. But nothing has been
 * granted to it, so it holds nothing but contexts, and none of them has come or gone. */
static unsigned learn_ungranted(struct residual *r, const struct residual_moment *now,
				uint64_t used)
{
	const struct residual_moment *then = &r->first;

	if (r->most_granted || then->allocated || now->allocated || then->evicted || now->evicted)
		return 0;
	if (then->changes == RESIDUAL_CHANGING || now->changes == RESIDUAL_CHANGING ||
	    then->contexts != now->contexts || r->reserved != r->settled_first)
		return 0;
	return learn(r, now, used);
}

static unsigned ends_exactly(struct residual *r, const struct residual_moment *now, uint64_t used)
{
	uint64_t held = least(resident(&r->first), resident(now)), doubt = in_doubt(now);
	uint64_t lowest = beyond(used, held), highest = beyond(used, beyond(held, doubt));
	bool sure = doubt == 0 || held == 0;
	unsigned todo = RESIDUAL_REPORT;

	r->tries = 0;
	r->likely = 0;
	replace_reserved(r);
	r->known = most(lowest, least(r->known, highest));
	if (sure) {
		r->doubts = 0;
		r->between = false;
		r->guess = 0;
		todo |= learn(r, now, lowest);
	} else if (r->measuring == RESIDUAL_LOUDLY) {
		r->between = ++r->doubts < RESIDUAL_DOUBTS;
		todo |= r->between ? RESIDUAL_LATER : 0;
	}
	return todo | answer(r, RESIDUAL_ANSWER);
}

static unsigned ends(struct residual *r, const struct residual_moment *now, uint64_t used)
{
	unsigned todo;

	if (!r->measuring)
		return 0; /* it was of before an inventory */
	r->used = used;
	r->failures = 0;
	r->blind = false;
	r->most_granted = most(r->most_granted, now->granted);
	if (stood_still(r, now))
		todo = ends_exactly(r, now, used);
	else
		todo = learn_ungranted(r, now, used) | ends_between(r, now, used);
	r->measuring = RESIDUAL_NO;
	r->telling = false;
	return todo | (r->wanted ? RESIDUAL_MEASURE : 0);
}

/* ---- what is heard --------------------------------------------------------------------------- */

static unsigned adopted(struct residual *r, uint64_t bytes, uint64_t guess, uint64_t recalled)
{
	bool check = r->check;

	*r = (struct residual){.known = bytes,
			       .guess = guess,
			       .recalled = recalled,
			       .check = check,
			       .told = true,
			       .wanted = RESIDUAL_LOUDLY};
	return RESIDUAL_REPORT | RESIDUAL_MEASURE;
}

static unsigned settled(struct residual *r, uint64_t bytes)
{
	r->settling = least(plus(r->settling, bytes), r->reserved);
	r->doubts = 0;
	r->told = true;
	return want(r, RESIDUAL_LOUDLY);
}

/* Nobody may ask again: a guess would stay one, and what was reported would not be seen. */
static unsigned repeat(struct residual *r)
{
	if (r->measuring != RESIDUAL_LOUDLY)
		return 0;
	r->failures += r->failures <= RESIDUAL_FAILURES;
	r->between = r->failures <= RESIDUAL_FAILURES;
	return r->between ? RESIDUAL_LATER : 0;
}

static unsigned fails(struct residual *r)
{
	unsigned todo = repeat(r);

	r->measuring = RESIDUAL_NO;
	r->telling = false;
	r->tries = 0;
	r->likely = 0;
	r->blind = true;
	return todo | answer(r, RESIDUAL_EXCUSE) | (r->wanted ? RESIDUAL_MEASURE : 0);
}

unsigned residual_step(struct residual *r, const struct residual_event *event)
{
	switch (event->verb) {
	case RESIDUAL_RESERVED:
		r->reserved += event->bytes;
		return 0; /* the ledger, which granted it, has it in its book */
	case RESIDUAL_SETTLED:
		return settled(r, event->bytes);
	case RESIDUAL_ASKED:
		r->doubts = 0;
		return want(r, RESIDUAL_LOUDLY);
	case RESIDUAL_WATCHED:
		return want(r, RESIDUAL_QUIETLY);
	case RESIDUAL_CHECKED:
		r->check = r->told = true;
		return want(r, RESIDUAL_LOUDLY);
	case RESIDUAL_ADOPTED:
		return adopted(r, event->bytes, r->guess, r->recalled);
	case RESIDUAL_GUESSED:
		return adopted(r, event->bytes, event->bytes, 0);
	case RESIDUAL_RECALLED:
		return adopted(r, event->bytes, event->bytes, event->bytes);
	case RESIDUAL_HUNG_UP:
		r->check = r->checking = false;
		return 0;
	case RESIDUAL_GRANTED:
		r->most_granted = most(r->most_granted, event->bytes);
		return 0;
	case RESIDUAL_BEGINS:
		return begins(r, event->moment);
	case RESIDUAL_ENDS:
		return ends(r, event->moment, event->bytes);
	case RESIDUAL_FAILS:
		return fails(r);
	case RESIDUAL_LATE:
		r->blind = true;
		r->checking = r->check;
		return answer(r, RESIDUAL_EXCUSE);
	case RESIDUAL_RETRIED:
		return residual_open(r) ? want(r, RESIDUAL_LOUDLY) : 0;
	}
	return 0;
}
