/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that do not obey. Patience is a rate: a member that owes something may take
 * `patience_ns`, plus the time that the bytes which it has moved take at the slowest rate. Only
 * bytes that move count, and bytes that are prepared to leave.
 *
 * A stuck member recovers by a sign of life. A member that was stuck before recovers only after a
 * while, which doubles each time, until it obeys in time once. A member that did not drain and runs
 * on shows no sign of life: it is ordered to leave again after that while, or after an eighth of it
 * if core/turns gave up the drain of a coupled member early, which may be a busy machine's fault.
 *
 * Time counts only while the member could move. What its processes wait for a processor is taken
 * off (a busy machine), up to three times the patience until bytes of it move again; a process that
 * is stopped, or waits for anything else, does not wait for a processor. If it is to leave and the
 * store is full, although room was promised, it waits for the member that keeps that room, and is
 * not to blame. The other member is identified within the same patience. If none is, the excuse
 * ends after three times as long, and others do without this one.
 */
#include "core/residency/residency_machine.h"

enum { STRIKES_MOST = 6, SOONER = 8, EXCUSES = 3 };

static const uint64_t second_ns = 1000000000;

/* It owes something that it could do now. Credit for less than a block cannot be used. */
static bool is_to_act(const struct residency_member *m)
{
	uint64_t usable = least(m->residency->tuning.chunk_bytes, m->out_bytes);

	return m->place == RESIDENCY_STOPPING || (m->ordered_bytes && !m->starved) || m->stopping ||
	       m->dropping_bytes || (m->credit_bytes && m->credit_bytes >= usable);
}

static bool owes(const struct residency_member *m)
{
	return m->ordered_bytes || is_to_act(m);
}

void residency_owes_from(struct residency_member *m, uint64_t now_ns)
{
	if (!owes(m)) {
		m->unserved_ns = 0;
		m->excuse_ns = EXCUSES * m->residency->tuning.patience_ns;
	}
	if (is_to_act(m))
		return;
	m->progress_ns = now_ns;
	m->prepared_bytes = 0;
}

void residency_show_life(struct residency_member *m, uint64_t now_ns)
{
	if (!m->stuck)
		return;
	m->alive = true;
	if (now_ns < m->pardon_ns)
		return;
	m->stuck = m->alive = false;
	m->progress_ns = now_ns;
	residency_rewait(m);
	m->residency->dirty = m->residency->choosing = true;
}

uint64_t residency_slowest_ns(const struct residency_tuning *tuning, uint64_t bytes)
{
	uint64_t rate = tuning->slowest_bps;

	if (!rate)
		return bytes ? UINT64_MAX / 2 : 0;
	return bytes / rate * second_ns + bytes % rate * second_ns / rate;
}

/* Patience with it lasts longer by what so many bytes take. */
static void credit_for(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	uint64_t took_ns = residency_slowest_ns(&m->residency->tuning, bytes);

	m->progress_ns = least(now_ns, m->progress_ns + took_ns);
	m->spent_ns = beyond(m->spent_ns, took_ns);
}

void residency_worked(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	credit_for(m, bytes, now_ns);
	if (!m->stuck && !owes(m))
		m->strikes = 0;
	if (!bytes)
		return;
	m->unserved_ns = 0;
	residency_show_life(m, now_ns);
}

bool residency_is_to_act(const struct residency_member *m)
{
	return !m->stuck && is_to_act(m);
}

void residency_unserved(struct residency_member *m, uint64_t ns, uint64_t now_ns)
{
	uint64_t at_most = EXCUSES * m->residency->tuning.patience_ns;

	if (!residency_is_to_act(m))
		return;
	ns = least(least(ns, beyond(at_most, m->unserved_ns)), now_ns - m->progress_ns);
	m->unserved_ns += ns;
	m->progress_ns += ns;
}

void residency_lost(struct residency *r, uint64_t ns, uint64_t now_ns)
{
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		/* It may have been told, or heard, since. */
		m->progress_ns = least(now_ns, m->progress_ns + ns);
		m->excused_until_ns += m->starved ? ns : 0;
	}
}

void residency_prepared(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	m->prepared_bytes += bytes;
	if (m->prepared_bytes <= m->ordered_bytes + m->residency->tuning.chunk_bytes && !m->stuck)
		credit_for(m, bytes, now_ns);
}

/* When patience with it ends; UINT64_MAX: it owes nothing. */
static uint64_t patience_of(const struct residency_member *m)
{
	const struct residency_tuning *t = &m->residency->tuning;

	if (m->stuck)
		return m->alive ? m->pardon_ns : UINT64_MAX;
	/* The store stays full, and no member is known to keep it so: then others go on. */
	if (!is_to_act(m))
		return m->ordered_bytes ? m->excused_until_ns : UINT64_MAX;
	/* Until then its threads stand at the gate, perhaps those for which its work waits. */
	if (m->place == RESIDENCY_STOPPING && m->seat->gate == TURNS_OWING)
		return m->progress_ns + least(t->owing_ns, t->patience_ns);
	return m->progress_ns + t->patience_ns;
}

uint64_t residency_patience_at(const struct residency *r)
{
	uint64_t at = r->retry_ns ? r->retry_ns : UINT64_MAX;

	list_for_each(link, (struct list *)&r->members) at =
		least(at, patience_of(MEMBER_OF_DEVICE(link)));
	return at;
}

static void give_up(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;
	bool runs_on = m->place == RESIDENCY_STOPPING && !m->out_bytes;
	bool left =
		runs_on && m->seat->gate == TURNS_OWING && m->seat->tenant->bond == TURNS_STAYED;
	uint64_t penalty_ns = r->tuning.patience_ns << m->strikes;

	m->pardon_ns =
		m->strikes || runs_on ? now_ns + (left ? penalty_ns / SOONER : penalty_ns) : now_ns;
	m->strikes += m->strikes < STRIKES_MOST;
	m->stuck = true;
	/* It gets no orders, and may never be idle: it could show no sign of life. */
	m->alive = runs_on;
	residency_withdraw(m);
	residency_todo(m, TODO_STUCK);
	if (runs_on) {
		m->place = RESIDENCY_IN;
		r->draining--;
		turns_bar(m->seat, false, now_ns);
	}
	residency_rewait(m);
	/* The members that come may not fit beside it. */
	residency_reconsider(r);
	r->choosing = true;
}

void residency_judge_patience(struct residency *r, uint64_t now_ns)
{
	if (r->retry_ns <= now_ns)
		r->retry_ns = 0;
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (patience_of(m) > now_ns)
			continue;
		if (m->stuck)
			residency_show_life(m, now_ns);
		else
			give_up(m, now_ns);
	}
}

/* ---- a store that is kept full --------------------------------------------------------------- */

void residency_starves(struct residency_member *m, bool starves, uint64_t stored_bytes,
		       uint64_t now_ns)
{
	bool acts = is_to_act(m);

	m->stored_bytes = stored_bytes;
	if (m->starved == starves)
		return;
	m->starved = starves;
	if (starves) {
		m->spent_ns = now_ns - m->progress_ns;
		m->excused_until_ns = now_ns + m->excuse_ns;
	} else {
		m->excuse_ns = beyond(m->excused_until_ns, now_ns);
		m->progress_ns = acts ? m->progress_ns : now_ns - m->spent_ns;
	}
	m->residency->dirty = true;
}

void residency_keeps(struct residency_member *m, uint64_t bytes)
{
	m->kept_bytes = bytes;
}

void residency_stop_starved(struct residency *r)
{
	if (r->used_bytes <= r->budget_bytes)
		return;
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->starved && m->ordered_bytes)
			residency_stop(m);
	}
}

void residency_give_up_store(struct residency_member *m)
{
	uint64_t has = most(m->stored_bytes, m->out_bytes);

	if (!m->starved || m->store_bytes <= has)
		return;
	/* The bytes that it was ordered to drop are the first part of these. */
	m->dropping_bytes = beyond(m->dropping_bytes, m->store_bytes - has);
	m->residency->used_bytes -= m->store_bytes - has;
	m->store_bytes = has;
	m->drop_todo = least(m->drop_todo, m->dropping_bytes);
}

/* Its bytes in the store of blocks that are not out. */
static uint64_t copies_of(const struct residency_member *m)
{
	return beyond(m->store_bytes, m->out_bytes) + m->kept_bytes;
}

static bool is_doubted(const struct residency_member *m)
{
	return m->stuck || m->strikes;
}

static const struct residency_member *worse(const struct residency_member *a,
					    const struct residency_member *b)
{
	uint64_t has = a ? a->resident_bytes + a->credit_bytes + copies_of(a) : 0;

	return a && has >= b->resident_bytes + b->credit_bytes + copies_of(b) ? a : b;
}

const struct residency_member *residency_hindrance(const struct residency_member *m)
{
	const struct residency *r = m->residency;
	const struct residency_member *stays = NULL, *keeps = NULL;
	uint64_t room = beyond(r->capacity_bytes, r->missing_bytes), all = 0;

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *other = MEMBER_OF_DEVICE(link);

		all += member_need(other);
		if (other == m)
			continue;
		if (!is_doubted(other)) {
			room = beyond(room, member_fixed(other));
			keeps = other->kept_bytes ? worse(keeps, other) : keeps;
			continue;
		}
		room = beyond(room, other->resident_bytes + other->credit_bytes);
		/* The bytes that it keeps are not part of the budget. */
		all += beyond(other->store_bytes, other->out_bytes);
		stays = worse(stays, other);
	}
	if (member_need(m) - member_fixed(m) > room)
		return stays;
	if (all > r->capacity_bytes &&
	    all + residency_spare(&r->tuning) > r->capacity_bytes + r->budget_bytes)
		return keeps ? keeps : stays;
	return NULL;
}
