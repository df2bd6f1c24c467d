/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the tenants whose work a tenant's waits for (a barrier in memory that both see, a
 * collective): while its gate does not drain others are let in for a moment, one after the other.
 * See decisions/0116.
 */
#include <string.h>

#include "core/turns/turns_machine.h"

enum {
	PROOFS = 2,	      /* drains that ended when the same tenant was let in */
	DISPROOFS = 3,	      /* drains in a row that were given up: it waits for nobody */
	TRIALS = 12,	      /* in one drain; the next one goes on with others */
	TRIES = 3,	      /* of one tenant in one drain, each four times as long */
	MOMENT_STEPS = 4,     /* for as many steps' time a tenant is let in, or longer */
	UNPAID_TURNS = 2,     /* who owes for its cap is let in until it has had as many turns'
				 lengths by that */
	TRIAL_STEPS = 16,     /* from a trial's end to the next: guests may say late that they have
				 drained */
	VAIN_STEPS = 5,	      /* after as many its own threads are not all that it waits for */
	STANDS = 2,	      /* times `beside_ns`, while a thread of it stands at its gate */
	LONE_TURNS = 3,	      /* turns alone that drain by themselves: it waits for nobody */
	ALONE_QUADRUPLED = 3, /* as often at most it has four times as many turns with company */
	VAIN_DRAINS = 4 /* given up in a row, although no tenant is known that it waits for: then it
			   may hang */
};

/* Those that it was found to await were let in for one drain after the other, and none of its work
 * has left. They may only have drained too late for one of its drains, twice. */
bool turns_await_is_disproved(const struct turns_tenant *t)
{
	return t->stuck >= DISPROOFS;
}

bool turns_awaits(const struct turns_tenant *t, const struct turns_tenant *other)
{
	if (turns_await_is_disproved(t))
		return false;
	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->awaits[i] == other)
			return true;
	}
	return false;
}

bool turns_tenant_awaits(const struct turns_tenant *t)
{
	return t->awaits[0] && !turns_await_is_disproved(t);
}

struct turns_seat *turns_tenant_seat(const struct turns_tenant *t)
{
	list_for_each(link, (struct list *)&t->seats)
	{
		if (!is_free(SEAT_OF_TENANT(link)))
			return SEAT_OF_TENANT(link);
	}
	return NULL;
}

/* Without the tenants that it awaits it could do nothing with a turn. But they may have made their
 * caps small in order to hold it up, and it may not wait for them any more: so it waits for about a
 * turn. */
uint64_t turns_await_released(const struct turns_tenant *t, uint64_t now_ns)
{
	const struct turns_seat *s = turns_tenant_seat(t);
	uint64_t latest = 0;

	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->awaits[i] && t->awaits[i]->state == TURNS_CAPPED)
			latest = most(latest, turns_tenant_released(t->awaits[i], now_ns));
	}
	return s ? least(latest, s->wanted_ns + s->device->turn_ns) : 0;
}

/* ---- who is let in --------------------------------------------------------------------------- */

/* For a moment, for which it pays with its cap. It may owe for its own drain, however long that
 * was: those who wait for each other would owe more and more if neither was let in. What such
 * moments add to that is bounded. */
static bool may_come_capped(struct turns_seat *s, uint64_t now_ns)
{
	if (s->tenant->state != TURNS_CAPPED || s->gate != TURNS_CLOSED || s->device->strays ||
	    turns_tenant_governed(s->tenant) != 1)
		return false;
	turns_seat_allow(s, now_ns);
	return s->unpaid <= (int64_t)(UNPAID_TURNS * s->device->turn_ns * MILLI);
}

static bool is_suspected(const struct turns_tenant *t, const struct turns_tenant *other)
{
	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->suspect[i].tenant == other)
			return true;
	}
	return false;
}

static uint32_t tries(const struct turns_tenant *t, const struct turns_seat *s)
{
	return s->tried_ns == t->ending_ns ? s->tries : 0;
}

/* When others are let in. The drains of a tenant whose kernels are all of one length end again and
 * again just when others are let in, so it gets longer the next time. A tenant that does wait for
 * others waits for that, too. */
static uint64_t trials_from_ns(const struct turns_tenant *t)
{
	const struct turns_tuning *tuning = &t->turns->tuning;

	if (!t->proved_ns)
		return t->ending_ns + tuning->drain_ns;
	return t->ending_ns + least(t->proved_ns + tuning->drain_ns / 2, tuning->hang_ns / 2);
}

/* Its own threads were let in, and are not all that it waits for. A step and its check may take so
 * long that few fit into the time that it has. */
static bool was_in_vain(const struct turns_tenant *t, uint64_t now_ns)
{
	return t->steps >= VAIN_STEPS ||
	       (t->steps && now_ns - t->ending_ns >= t->turns->tuning.beside_ns / 2);
}

/* The lowest is let in first; 0: never. */
static unsigned rank(const struct turns_seat *leader, struct turns_seat *s, bool stands,
		     uint64_t now_ns)
{
	const struct turns_tenant *t = leader->tenant;
	bool known = turns_company_awaits(leader, s);

	if (!turns_company_may_come(s) && !may_come_capped(s, now_ns))
		return 0;
	if (known)
		return tries(t, s) ? 3 * TRIES + 1 : 1;
	if (turns_ring_is_known(t))
		return 0; /* but for the turns that are had alone */
	if (tries(t, s) == (turns_tenant_is_stuck(t) ? 1 : TRIES) || t->trials == TRIALS ||
	    (stands ? !was_in_vain(t, now_ns) : now_ns < trials_from_ns(t)))
		return 0;
	return 2 + 2 * tries(t, s) + !(is_suspected(t, s->tenant) || turns_awaits(s->tenant, t));
}

/* The next tenant whose work the leader's may wait for. */
static struct turns_seat *candidate(struct turns_seat *leader, bool stands, uint64_t now_ns)
{
	struct turns_seat *best = NULL;
	unsigned least_rank = UINT32_MAX;

	list_for_each(link, &leader->device->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);
		unsigned own = rank(leader, s, stands, now_ns);

		if (!own || own > least_rank ||
		    (own == least_rank && s->tried_ns >= best->tried_ns))
			continue;
		best = s;
		least_rank = own;
	}
	return best;
}

/* For a moment, while the leader's gate stays closed. A tenant that is awaited is let in for longer
 * each time. */
static void let_in(struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = leader->tenant;
	uint64_t moment = MOMENT_STEPS * t->turns->tuning.step_ns;

	s->tries = tries(t, s) + 1;
	s->tried_ns = t->ending_ns;
	if (turns_awaits(t, s->tenant)) {
		t->steps++;
		t->closed_ns = now_ns;
		moment = most(moment, turns_tenant_step_ns(t));
	} else {
		t->trials++;
		moment <<= 2 * (least(s->tries, TRIES) - 1);
	}
	t->let_in = s->tenant;
	turns_company_take(leader, s, now_ns);
	turns_timer_set(&t->turns->drains, &leader->timer, now_ns + moment);
}

/* ---- the leader has not drained -------------------------------------------------------------- */

static uint64_t next_check(const struct turns_tenant *t)
{
	if (turns_tenant_awaits(t))
		return turns_tenant_check_ns(t);
	return TRIAL_STEPS * t->turns->tuning.step_ns;
}

/* The tenant that was let in has had its moment, and gets the time that it usually needs to drain.
 * If it does not drain, it may wait for another one, too. The leader may have got a second device
 * meanwhile, and be late there. */
static bool closes_company(struct turns_seat *late, uint64_t now_ns)
{
	bool was_open = false;

	list_for_each(link, &late->tenant->seats)
	{
		struct turns_seat *leader = SEAT_OF_TENANT(link);

		was_open |= turns_company_any(leader, TURNS_OPENED);
		turns_company_close(leader, now_ns);
	}
	if (was_open)
		turns_timer_set(&late->device->turns->drains, &late->timer,
				now_ns + next_check(late->tenant));
	return was_open;
}

/* How long nobody is let in after a turn alone. */
static uint64_t alone_for_ns(const struct turns_tenant *t)
{
	return t->alone ? turns_tenant_free_check_ns(t) : 0;
}

/* For so long others are let in, after the end of its turn. */
static uint64_t longest_ns(const struct turns_tenant *t, bool stands)
{
	const struct turns_tuning *tuning = &t->turns->tuning;

	if (turns_ring_is_known(t))
		return tuning->drain_ns;
	if (turns_tenant_awaits(t))
		return alone_for_ns(t) + tuning->beside_ns;
	return stands ? STANDS * tuning->beside_ns : tuning->hang_ns;
}

/* Another one does not drain either, and cannot be let in any more: that was let in for this drain,
 * or its own was given up. What either does may be what the other one waits for. */
static bool is_one_of_several(const struct turns_seat *leader)
{
	list_for_each(link, (struct list *)&leader->device->seats)
	{
		const struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (s == leader || s->held || s->tenant->bond == TURNS_HUNG)
			continue;
		if (s->gate == TURNS_OWING || (s->gate == TURNS_CLOSING && s->leader == leader))
			return true;
	}
	return false;
}

/* It was seen to wait for its own thread or for others, and all have been let in; or another
 * one does not drain either; or it may wait for one that owes for its cap, and cannot be let in
 * before its drain is given up. If it does not drain the next times either, it may hang, and is
 * waited for until it is reported. */
static bool is_hopeless(const struct turns_tenant *t, bool stands, uint64_t now_ns)
{
	const struct turns_tuning *tuning = &t->turns->tuning;
	uint64_t patience = most(tuning->beside_ns, turns_last_ns(t));
	bool seen = t->bond != TURNS_FREE || t->proved_ns;
	bool helps = turns_moment_helps(turns_tenant_seat(t), now_ns);

	if (!seen || !helps)
		patience = most(patience, tuning->hang_ns * 2 / 5);

	return !stands && t->vain_drains < VAIN_DRAINS && now_ns - t->ending_ns >= patience &&
	       now_ns >= trials_from_ns(t) &&
	       (seen || helps || is_one_of_several(turns_tenant_seat(t)));
}

/* All that it waits for have been let in for long enough. A tenant that has inherited the turn can
 * let in others only for the rest of it: its drain is as old as that turn. */
static bool is_in_vain(const struct turns_tenant *t, bool stands, uint64_t now_ns)
{
	uint64_t longest = longest_ns(t, stands);
	bool inherited = !stands || turns_ring_is_known(t);

	return turns_tenant_awaits(t) && (now_ns - t->ending_ns >= longest ||
					  (inherited && now_ns - t->company_ns >= longest));
}

bool turns_await_late(struct turns_seat *leader, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = leader->tenant;
	uint64_t alone_ns = alone_for_ns(t);
	struct turns_seat *s;

	if (leader->leader) {
		turns_company_late(leader, now_ns); /* its leader is asked */
		return true;
	}
	if (leader->stray)
		return false;
	if (closes_company(leader, now_ns))
		return true;
	if (turns_tenant_governed(t) != 1)
		return false;
	if (is_in_vain(t, stands, now_ns)) {
		turns_await_stuck(t, now_ns);
		turns_tenant_give_up(leader, now_ns);
		return true;
	}
	if (turns_ring_may_reopen(leader)) {
		turns_tenant_reopen(t, now_ns);
		return true;
	}
	if (now_ns - t->ending_ns < alone_ns) {
		turns_timer_set(&t->turns->drains, &leader->timer, t->ending_ns + alone_ns);
		return true;
	}
	/* A tenant that was let in may let in others when it has to drain itself, but not for
	 * ever. */
	s = now_ns - t->company_ns < longest_ns(t, stands) ? candidate(leader, stands, now_ns)
							   : NULL;
	t->let_in = NULL; /* its drain did not end by that */
	if (s) {
		let_in(leader, s, now_ns);
		return true;
	}
	if (!is_hopeless(t, stands, now_ns))
		return false;
	turns_await_stuck(t, now_ns);
	t->vain_drains++;
	turns_tenant_give_up(leader, now_ns);
	return true;
}

/* ---- what is learned ------------------------------------------------------------------------- */

static struct turns_suspect *suspect_of(struct turns_tenant *t, struct turns_tenant *other)
{
	struct turns_suspect *it = &t->suspect[0];

	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->suspect[i].tenant == other)
			return &t->suspect[i];
		if (t->suspect[i].proofs < it->proofs)
			it = &t->suspect[i];
	}
	*it = (struct turns_suspect){other, 0};
	return it;
}

static void prove_one(struct turns_tenant *t, struct turns_tenant *other)
{
	struct turns_suspect *it;

	if (turns_awaits(t, other) || turns_await_is_disproved(t))
		return;
	it = suspect_of(t, other);
	if (++it->proofs < PROOFS)
		return;
	*it = (struct turns_suspect){0};
	memmove(&t->awaits[1], &t->awaits[0], sizeof(t->awaits) - sizeof(t->awaits[0]));
	t->awaits[0] = other;
	t->together = 0;
	t->proved_ns = 0;  /* the next one has proofs of its own */
	t->overrun_ns = 0; /* it was no drain */
	turns_seat_todo(turns_tenant_seat(t), TODO_AWAITS);
}

/* It did not come along because its work never leaves the device. */
static bool was_let_in(const struct turns_seat *s)
{
	return s->tenant->stuck == 0;
}

/* The drain has ended since the last tenant was let in. The first proof decides when others are let
 * in next: if the latest one did, proofs of several tenants would put that off further and further.
 * A tenant that was let in before, and has not drained itself, may have waited for the last one,
 * too. After a turn alone that is no proof: a tenant that never drains would be there each time. */
static void prove(struct turns_tenant *t, uint64_t now_ns)
{
	if (!turns_awaits(t, t->let_in) && !t->proved_ns)
		t->proved_ns = now_ns - t->ending_ns;
	prove_one(t, t->let_in);
	if (t->alone)
		return;
	list_for_each(link, &turns_tenant_seat(t)->along)
	{
		if (SEAT_ALONG(link)->tenant != t->let_in && was_let_in(SEAT_ALONG(link)))
			prove_one(t, SEAT_ALONG(link)->tenant);
	}
}

/* It is not had alone again soon. */
static void wait_on(struct turns_tenant *t, uint64_t now_ns)
{
	t->looked_ns = now_ns;
	t->confirmed += t->confirmed < ALONE_QUADRUPLED;
	t->lone = t->together = 0;
}

/* Its drain is given up, and some that were let in for it have not drained either: they wait for
 * each other. Where several launch ahead hardly a drain ends in time: none would be found by ends.
 */
void turns_await_stuck(struct turns_tenant *t, uint64_t now_ns)
{
	if (t->alone && t->vain)
		wait_on(t, now_ns);
	if (t->alone)
		return;
	list_for_each(link, &turns_tenant_seat(t)->along)
	{
		const struct turns_seat *s = SEAT_ALONG(link);

		if (s->gate != TURNS_CLOSING || !was_let_in(s))
			continue;
		prove_one(t, s->tenant);
		prove_one(s->tenant, t);
	}
}

static void await_nobody(struct turns_tenant *t)
{
	memset(t->awaits, 0, sizeof(t->awaits));
	memset(t->suspect, 0, sizeof(t->suspect));
	t->proved_ns = 0;
	t->together = t->lone = t->confirmed = 0;
	t->looked_ns = 0;
}

static void forget(struct turns_tenant *t, const struct turns_tenant *other)
{
	size_t kept = 0;

	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->awaits[i] != other)
			t->awaits[kept++] = t->awaits[i];
	}
	while (kept < TURNS_AWAITED)
		t->awaits[kept++] = NULL;
	for (size_t i = 0; i < TURNS_AWAITED; i++) {
		if (t->suspect[i].tenant == other)
			t->suspect[i] = (struct turns_suspect){0};
	}
	if (t->let_in == other)
		t->let_in = NULL;
}

/* A tenant that was let in, and drained without an end of this drain, is not the awaited one. */
static void doubt(struct turns_tenant *t)
{
	for (size_t i = TURNS_AWAITED; i-- > 0;) {
		struct turns_tenant *other = t->awaits[i];
		const struct turns_seat *s = other ? turns_tenant_seat(other) : NULL;

		if (s && other != t->let_in && other->state != TURNS_ALONG && tries(t, s))
			forget(t, other);
	}
}

static void still_awaits(struct turns_tenant *t, uint64_t now_ns)
{
	doubt(t);
	wait_on(t, now_ns);
}

void turns_await_learn(struct turns_tenant *t, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - t->ending_ns;
	bool was_late = took_ns >= t->turns->tuning.drain_ns;

	if (t->let_in) {
		prove(t, now_ns);
		if (t->alone)
			still_awaits(t, now_ns);
	} else if (t->alone && !t->idle) {
		if (++t->lone == LONE_TURNS)
			await_nobody(t);
	} else if (was_late) {
		memset(t->suspect, 0, sizeof(t->suspect));
		t->proved_ns = 0;
	}
	if (!t->let_in)
		turns_last_learn(t, took_ns);
	turns_ring_drained(t);
	t->alone = false;
	t->let_in = NULL;
}

void turns_await_forget(struct turns_seat *s)
{
	await_nobody(s->tenant);
	s->tenant->let_in = NULL;
	list_for_each(link, &s->device->seats) forget(SEAT_OF_DEVICE(link)->tenant, s->tenant);
}
