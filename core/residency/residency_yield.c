/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who yields: members of class batch, to those of higher classes. To yield is to claim nothing: who
 * does is not waited for, is the first to leave, and is let in when it does not yield any more. It
 * is not sent away: it stays, and runs, while nobody needs its room.
 *
 * Two questions, as who is out has nothing to lose, and who is in has just been brought:
 *   - who is out yields while it does not fit beside those of higher classes that are active. If it
 *     does, but not beside others of class batch, it takes its turn with them, as sets do;
 *   - who is in yields while somebody of a higher class waits and it is one too many; not before it
 *     has run for a while, nor before that one has waited for a moment.
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

static uint64_t need_of(const struct residency_member *m)
{
	return member_need(m) - member_fixed(m);
}

/* What those of higher classes leave. ANY: there is nobody. */
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
		room = beyond(room, need_of(m));
	}
	return above ? room : ANY;
}

/* Since when somebody of a higher class waits; UINT64_MAX: nobody does. */
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

/* When it may be told to leave for who has waited since then. */
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

/* Of those who are in and were not asked yet the one that had least stays longest. */
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
		uint64_t need = need_of(m), at;

		m->considered = true;
		/* What it asks for is there when the higher classes' memory has gone. */
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
			set(m, need_of(m) > room);
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
