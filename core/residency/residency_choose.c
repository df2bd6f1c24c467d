/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the next set, and the time for it. The leader comes whatever that costs. Others are
 * chosen if they fit beside it: first the members that are there, then those that would have to
 * come.
 */
#include "core/residency/residency_machine.h"

enum { MILLI = 1000, WEIGHT_UNIT = 10000 };

static void settle_charge(struct residency_member *m, uint64_t now_ns)
{
	turns_settle(m->seat, now_ns);
	m->virtual_ns +=
		(m->seat->charged_ns - m->charged_ns) * WEIGHT_UNIT / m->seat->tenant->share.weight;
	m->charged_ns = m->seat->charged_ns;
}

bool residency_is_active(const struct residency_member *m, uint64_t now_ns)
{
	if (is_to_be_out(m) || m->stuck || m->yields)
		return false;
	return m->wants || m->asked_bytes || now_ns < m->idle_ns + residency_pause_of(m);
}

/* ---- precedence ------------------------------------------------------------------------------ */

static bool is_overdue(const struct residency_member *m, uint64_t now_ns)
{
	return m->waiting && now_ns - m->wanted_ns >= m->residency->tuning.longest_ns;
}

/* A member's class counts only while it has not been given more than others. */
static unsigned rank_class(const struct residency_member *m)
{
	return m->virtual_ns <= m->residency->clock ? m->seat->tenant->share.class : 3u;
}

static bool is_before(const struct residency_member *a, const struct residency_member *b,
		      uint64_t now_ns)
{
	bool overdue = is_overdue(a, now_ns);

	if (is_batch(a) != is_batch(b))
		return is_batch(b);
	if (overdue != is_overdue(b, now_ns))
		return overdue;
	if (overdue)
		return a->wanted_ns < b->wanted_ns;
	if (rank_class(a) != rank_class(b))
		return rank_class(a) < rank_class(b);
	return a->virtual_ns < b->virtual_ns;
}

static struct residency_member *best_of(struct residency *r, bool waiting, uint64_t now_ns)
{
	struct residency_member *best = NULL;

	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);
		bool candidate = waiting ? m->waiting
					 : m->place == RESIDENCY_IN && !m->waiting &&
						   residency_is_active(m, now_ns);

		if (candidate && !m->chosen && !m->considered &&
		    (!best || is_before(m, best, now_ns)))
			best = m;
	}
	return best;
}

/* Whether it was chosen or passed over in the last decision, or not. */
static struct residency_member *first_waiting(const struct residency *r, uint64_t now_ns)
{
	struct residency_member *first = NULL;

	list_for_each(link, (struct list *)&r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->waiting && (!first || is_before(m, first, now_ns)))
			first = m;
	}
	return first;
}

/* ---- the time -------------------------------------------------------------------------------- */

/* How long the present set may stay. Whether a member of class batch yields is not decided here. */
static uint64_t stay_of(struct residency *r, const struct residency_member *leader)
{
	const struct residency_tuning *t = &r->tuning;
	uint64_t stay = r->cost_ns / t->cost_milli * MILLI, each;
	unsigned lowest = 0;

	list_for_each(link, &r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place == RESIDENCY_IN && m->wants && !is_batch(m))
			lowest = most(lowest, m->seat->tenant->share.class);
	}
	r->stay_ns = t->turn_ns;
	if (t->turn_ns)
		return t->turn_ns;
	/* A member that has just left waits for the movement of this set, for its stay, and for its
	 * own movement back. */
	each = beyond(t->longest_ns / most(r->waiting, 1), 2 * r->cost_ns);
	stay = least(stay, each);
	if (leader && rank_class(leader) < lowest)
		stay = 0;
	return r->stay_ns = most(stay, most(r->cost_ns, t->shortest_ns));
}

/* It has come and has not had a turn yet. */
static bool is_unserved(const struct residency_member *m)
{
	return m->place == RESIDENCY_IN && m->wants && !m->stuck && !m->yields &&
	       m->seat->gate == TURNS_CLOSED && m->seat->turns == m->came_turns;
}

/* If the set ended now, a member would have come in vain, and again each time that a set stays for
 * less than a round of turns. A waiting member of a better class does not wait for that. */
static bool is_anybody_unserved(struct residency *r, const struct residency_member *leader)
{
	list_for_each(link, &r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (is_unserved(m) &&
		    (!leader || rank_class(leader) >= m->seat->tenant->share.class))
			return true;
	}
	return false;
}

/* When the set's stay is over. A time in the future may still become earlier. */
static uint64_t end_of(struct residency *r, uint64_t now_ns)
{
	const struct residency_member *leader = first_waiting(r, now_ns);
	uint64_t end = r->began_ns + stay_of(r, leader);
	uint64_t last = r->began_ns + most(r->tuning.longest_ns, r->stay_ns);

	if (leader && !is_batch(leader) && !r->tuning.turn_ns)
		end = most(end, residency_spared_until(leader));
	if (end > now_ns || now_ns >= last || r->tuning.turn_ns || !is_anybody_unserved(r, leader))
		return end;
	return least(now_ns + r->tuning.shortest_ns, last);
}

static bool is_held(struct residency *r, uint64_t now_ns)
{
	list_for_each(link, &r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place == RESIDENCY_IN && residency_is_active(m, now_ns))
			return true;
	}
	return false;
}

uint64_t residency_choose_at(struct residency *r, uint64_t now_ns)
{
	uint64_t at = UINT64_MAX;

	if (!r->waiting || !list_empty(&r->coming))
		return UINT64_MAX;
	list_for_each(link, &r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);
		uint64_t end = m->idle_ns + residency_pause_of(m);

		if (m->place == RESIDENCY_IN && !is_claiming(m) && end > now_ns)
			at = least(at, end);
	}
	if (is_held(r, now_ns)) {
		uint64_t end = end_of(r, now_ns);

		/* Moving may have brought the end forward after the choice. */
		if (end > now_ns || !r->over)
			at = least(at, most(end, now_ns));
	}
	return at;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool choose(struct residency_member *m, uint64_t *room)
{
	uint64_t need = member_claim(m);

	m->considered = true;
	if (need > *room)
		return false;
	*room -= need;
	m->chosen = true;
	return true;
}

static void expect(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;

	if (list_empty(&r->coming))
		r->moving_since_ns = now_ns;
	list_append(&r->coming, &m->of_coming);
	m->arrived_bytes = 0;
	m->promised = m->asked_bytes != 0;
	m->progress_ns = now_ns;
}

static void choose_waiting(struct residency *r, uint64_t *room, uint64_t now_ns)
{
	struct residency_member *m;

	while ((m = best_of(r, true, now_ns))) {
		if (choose(m, room))
			expect(m, now_ns);
	}
}

/* The first member that fits at all. */
static void choose_leader(struct residency *r, uint64_t *room, uint64_t now_ns)
{
	struct residency_member *m;

	while ((m = best_of(r, true, now_ns))) {
		if (!choose(m, room))
			continue;
		r->clock = most(r->clock, m->virtual_ns);
		expect(m, now_ns);
		return;
	}
}

static void choose_present(struct residency *r, uint64_t *room, uint64_t now_ns)
{
	struct residency_member *m;

	while ((m = best_of(r, false, now_ns)))
		choose(m, room);
}

/* A member that is there and asks for more stays; it is granted what it asks for if that fits. */
static void choose_askers(struct residency *r, uint64_t *room, uint64_t now_ns)
{
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place == RESIDENCY_IN && m->waiting) {
			*room = beyond(*room, beyond(member_claim(m), m->asked_bytes));
			m->chosen = m->considered = true;
		}
	}
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place != RESIDENCY_IN || !m->waiting || m->asked_bytes > *room)
			continue;
		*room -= m->asked_bytes;
		expect(m, now_ns);
	}
}

uint64_t residency_movable(const struct residency *r)
{
	uint64_t room = beyond(r->capacity_bytes, r->missing_bytes);

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->stuck)
			room = beyond(room, m->resident_bytes + m->credit_bytes);
		else
			room = beyond(room, member_fixed(m));
	}
	return room;
}

void residency_reconsider(struct residency *r)
{
	uint64_t need = 0;

	list_for_each(link, &r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);
		uint64_t here = m->stuck ? 0 : beyond(m->resident_bytes, member_fixed(m));

		if (m->chosen)
			need += list_linked(&m->of_coming) ? member_claim(m) : here;
	}
	if (need > residency_movable(r))
		list_for_each(link, &r->coming) residency_withdraw(MEMBER_OF_COMING(link));
}

static void forget_choice(struct residency *r)
{
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		m->chosen = m->considered = false;
	}
}

void residency_choose(struct residency *r, uint64_t now_ns)
{
	uint64_t room;
	bool over;

	if (!r->choosing || !list_empty(&r->coming))
		return;
	r->choosing = false;
	if (!r->waiting && !residency_excess(r))
		return;
	list_for_each(link, &r->members) settle_charge(MEMBER_OF_DEVICE(link), now_ns);
	forget_choice(r);
	room = residency_movable(r);
	over = r->waiting && (!is_held(r, now_ns) || now_ns >= end_of(r, now_ns));
	r->rotating = r->over = over;
	if (over) {
		choose_leader(r, &room, now_ns);
		choose_present(r, &room, now_ns);
	} else {
		choose_present(r, &room, now_ns);
		choose_askers(r, &room, now_ns);
	}
	choose_waiting(r, &room, now_ns);
}
