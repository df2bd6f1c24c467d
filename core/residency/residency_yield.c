/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which members of class batch yield to members of higher classes. A member that yields
 * claims nothing: no set waits for it, it is the first to leave, and it comes back when it yields
 * no longer. It is not ordered out: it stays, and runs, while no other member needs its room.
 *
 * There are two rules, because a member that is out has nothing to lose, while the memory of one
 * that is in has just been brought:
 *   - a member that is out yields while it does not fit beside the active members of higher
 *     classes. If it fits beside these but not beside others of class batch, it takes turns with
 *     them, as sets do;
 *   - a member that is in yields while a member of a higher class waits and the two do not fit
 *     together, but not before it has run for `run_ns`, nor before the other one has waited for
 *     `delay_ns`.
 */
#include "core/residency/residency_machine.h"

static const uint64_t ANY = UINT64_MAX;

static bool claims_above(const struct residency_member *m)
{
	return !is_batch(m) && is_claiming(m);
}

static bool is_candidate(const struct residency_member *m)
{
	return is_batch(m) && !is_to_be_out(m) && !m->stuck && (m->wants || m->asked_bytes);
}

/* The room that members of higher classes leave. ANY: there are no such members. */
static uint64_t room_below(const struct residency *r, uint64_t now_ns)
{
	uint64_t room = residency_movable(r);
	bool above = r->above_bytes != 0;

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (is_batch(m) || !residency_is_active(m, now_ns))
			continue;
		above = true;
		room = beyond(room, member_claim(m));
	}
	return above ? room : ANY;
}

/* Since when a member of a higher class waits; UINT64_MAX: none does. */
static uint64_t waiting_since(const struct residency *r)
{
	uint64_t since = UINT64_MAX;

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (claims_above(m) && is_waiting(m))
			since = least(since, m->wanted_ns);
	}
	return since;
}

static void set(struct residency_member *m, bool yields)
{
	struct residency *r = m->residency;

	if (m->yields == yields)
		return;
	m->yields = yields;
	r->yielding += yields;
	r->yielding -= !yields;
	if (yields && list_linked(&m->of_coming))
		residency_withdraw(m);
	residency_rewait(m);
	r->choosing = true;
}

/* When it may be told to leave for a member that has waited since then. */
static uint64_t yields_at(const struct residency_member *m, uint64_t since_ns)
{
	const struct residency_tuning *t = &m->residency->tuning;

	return most(m->in_ns + t->run_ns, since_ns + t->delay_ns);
}

uint64_t residency_spared_until(const struct residency_member *waits)
{
	uint64_t until = 0;

	list_for_each(link, &waits->residency->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place == RESIDENCY_IN && is_candidate(m) && !m->yields)
			until = most(until, yields_at(m, waits->wanted_ns));
	}
	return until;
}

/* Of the candidates that are in and not yet considered, the one that had the least: it stays
 * longest. */
static struct residency_member *next_in(struct residency *r)
{
	struct residency_member *next = NULL;

	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place == RESIDENCY_IN && is_candidate(m) && !m->considered &&
		    (!next || m->virtual_ns < next->virtual_ns))
			next = m;
	}
	return next;
}

static void judge_in(struct residency *r, uint64_t room, uint64_t now_ns)
{
	uint64_t since = waiting_since(r), movable = residency_movable(r);
	struct residency_member *m;

	list_for_each(link, &r->members) MEMBER_OF_DEVICE(link)->considered = false;
	while ((m = next_in(r))) {
		uint64_t need = member_claim(m), at;

		m->considered = true;
		/* There is room for it only when the memory of higher classes has left. */
		if (need > movable) {
			set(m, true);
			continue;
		}
		if (need <= room || since == UINT64_MAX) {
			room = beyond(room, need);
			set(m, false);
			continue;
		}
		at = yields_at(m, since);
		if (!m->yields && now_ns < at) {
			r->yield_ns = least(r->yield_ns, at);
			room = beyond(room, need);
			continue;
		}
		set(m, true);
	}
}

void residency_judge_yields(struct residency *r, uint64_t now_ns)
{
	uint64_t room = room_below(r, now_ns);

	r->yield_ns = UINT64_MAX;
	r->below_bytes = room;
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (room == ANY || !is_candidate(m))
			set(m, false);
		else if (m->place != RESIDENCY_IN)
			set(m, member_claim(m) > room);
	}
	if (room != ANY)
		judge_in(r, room, now_ns);
}

uint64_t residency_yield_at(const struct residency *r, uint64_t now_ns)
{
	uint64_t at = r->yield_ns;

	if (!r->yielding)
		return at;
	/* Moving has changed what was judged: what was granted pauses, pauses are shorter now. */
	if (room_below(r, now_ns) != r->below_bytes)
		return now_ns;
	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (!is_batch(m) && !is_claiming(m) && residency_is_active(m, now_ns))
			at = least(at, m->idle_ns + residency_pause_of(m));
	}
	return at;
}

void residency_above(struct residency *r, uint64_t bytes)
{
	if (r->above_bytes == bytes)
		return;
	r->above_bytes = bytes;
	r->dirty = true;
}

void residency_yielding(struct residency *r, uint64_t run_ns, uint64_t delay_ns)
{
	r->tuning.run_ns = run_ns;
	r->tuning.delay_ns = delay_ns;
	r->dirty = true;
}
