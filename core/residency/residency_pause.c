/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses: how long they usually are, and how long one is waited for. */
#include "core/residency/residency_machine.h"

enum { US = 1000, HICCUPS = 8 };

/* What moving takes. */
static uint64_t cost_of(const struct residency *r)
{
	return most(r->cost_ns, r->tuning.shortest_ns);
}

/* A shorter pause is none of the program's work, but a hiccup of it or of the machine. */
static uint64_t brief_of(const struct residency *r)
{
	return cost_of(r) / 8;
}

/* So long it is waited for who pauses: twice as long as its pauses usually are, if they are shorter
 * than bringing it back would take, and an eighth of that time at least: where pauses are short, a
 * longer one is more often a busy machine's than the end of the work. But towards the end of a set
 * a pause is the time to leave: what moves then costs less by the pause. Leaving after t of a stay
 * s costs c/t of the time, going on (c + pause)/s.
 *
 * Hiccups are told apart from pauses: one would make pauses of seconds look short on the average,
 * and who has such pauses would leave at a hiccup in the middle of its work. */
uint64_t residency_pause_of(const struct residency_member *m)
{
	const struct residency *r = m->residency;
	uint64_t cost = cost_of(r), brief = brief_of(r), stayed;
	uint64_t hiccup = least(most(HICCUPS * m->brief_ns, brief / HICCUPS), brief);

	if (!m->gap_ns)
		return m->brief_ns ? brief : cost;
	if (m->gap_ns > cost)
		return hiccup;
	stayed = beyond(m->idle_ns, r->began_ns);
	if (r->stay_ns && stayed / US * ((cost + m->gap_ns) / US) > r->stay_ns / US * (cost / US))
		return hiccup;
	return least(most(2 * m->gap_ns, brief), cost);
}

void residency_learn_pause(struct residency_member *m, uint64_t now_ns)
{
	uint64_t gap = most(now_ns - m->idle_ns, 1);
	uint64_t *usual = gap < brief_of(m->residency) ? &m->brief_ns : &m->gap_ns;

	*usual = *usual ? (*usual + gap) / 2 : gap;
}
