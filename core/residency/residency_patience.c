/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who does not do what it was told. Patience is a rate: who owes something may take `patience_ns`,
 * and so much longer as what it has moved takes at the slowest rate that is waited for. Nothing but
 * bytes that move, or are prepared for what leaves, counts.
 *
 * Who is stuck comes back with a sign of life; who was stuck before only after a while, which
 * doubles each time. What it does then in time is forgiven. Who did not drain and runs on gives no
 * sign: it is told to leave again after that while.
 */
#include "core/residency/residency_machine.h"

enum { STRIKES_MOST = 6 };

static const uint64_t second_ns = 1000000000;

/* Credit for less than a block is not used. */
static bool owes(const struct residency_member *m)
{
	uint64_t usable = least(m->residency->tuning.chunk_bytes, m->out_bytes);

	return m->place == RESIDENCY_STOPPING || m->ordered_bytes || m->stopping ||
	       m->dropping_bytes || (m->credit_bytes && m->credit_bytes >= usable);
}

void residency_owes_from(struct residency_member *m, uint64_t now_ns)
{
	if (owes(m))
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

/* It may take so much longer. */
static void credit_for(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	m->progress_ns =
		least(now_ns, m->progress_ns + residency_slowest_ns(&m->residency->tuning, bytes));
}

void residency_worked(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	credit_for(m, bytes, now_ns);
	if (!m->stuck && !owes(m))
		m->strikes = 0;
	if (bytes)
		residency_show_life(m, now_ns);
}

void residency_prepared(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	m->prepared_bytes += bytes;
	if (m->prepared_bytes <= m->ordered_bytes + m->residency->tuning.chunk_bytes && !m->stuck)
		credit_for(m, bytes, now_ns);
}

/* When it is not waited for any more; UINT64_MAX: it owes nothing. */
static uint64_t patience_of(const struct residency_member *m)
{
	if (m->stuck)
		return m->alive ? m->pardon_ns : UINT64_MAX;
	if (!owes(m))
		return UINT64_MAX;
	if (m->place == RESIDENCY_STOPPING && m->seat->gate == TURNS_OWING)
		return 0;
	return m->progress_ns + m->residency->tuning.patience_ns;
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

	m->pardon_ns =
		m->strikes || runs_on ? now_ns + (r->tuning.patience_ns << m->strikes) : now_ns;
	m->strikes += m->strikes < STRIKES_MOST;
	m->stuck = true;
	/* It is ordered nothing, and may never be idle: no sign of life would come. */
	m->alive = runs_on;
	residency_withdraw(m);
	residency_todo(m, TODO_STUCK);
	if (runs_on) {
		m->place = RESIDENCY_IN;
		r->draining--;
		turns_bar(m->seat, false, now_ns);
	}
	residency_rewait(m);
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

const struct residency_member *residency_hindrance(const struct residency_member *m)
{
	const struct residency *r = m->residency;
	const struct residency_member *worst = NULL;
	uint64_t room = beyond(r->capacity_bytes, r->missing_bytes), all = 0, most_bytes = 0;

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *other = MEMBER_OF_DEVICE(link);
		uint64_t here = other->resident_bytes + other->credit_bytes;
		uint64_t kept = beyond(other->store_bytes, other->out_bytes);

		all += member_need(other);
		if (other == m)
			continue;
		if (!other->stuck && !other->strikes) {
			room = beyond(room, member_fixed(other));
			continue;
		}
		room = beyond(room, here);
		all += kept;
		if (!worst || here + kept > most_bytes)
			worst = other;
		most_bytes = most(most_bytes, here + kept);
	}
	if (member_need(m) - member_fixed(m) > room)
		return worst;
	if (all > r->capacity_bytes &&
	    all + residency_spare(&r->tuning) > r->capacity_bytes + r->budget_bytes)
		return worst;
	return NULL;
}
