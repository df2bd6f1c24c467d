/* SPDX-License-Identifier: Apache-2.0 */
/* How long a member's pauses usually are, and for how long its memory stays during one. */
#include "core/residency/residency_machine.h"

enum { US = 1000, HICCUPS = 8 };

/* How long moving takes. */
static uint64_t cost_of(const struct residency *r)
{
	return most(r->cost_ns, r->tuning.shortest_ns);
}

/* A shorter pause is not part of the program's work: it is a hiccup of the program or the machine.
 */
static uint64_t brief_of(const struct residency *r)
{
	return cost_of(r) / 8;
}

/* A pausing member stays for twice its usual pause, if that is shorter than bringing it back would
 * take, and for at least an eighth of that time: if its pauses are short, a longer one is more
 * often due to a busy machine than the end of its work. Towards the end of a set, however, a pause
 * is the time to leave, since movement then costs less by the pause: with a cost c, leaving after t
 * of a stay s costs c/t of the time, and going on (c + pause)/s.
 *
 * Hiccups are counted apart from pauses. Otherwise one hiccup would make the average of pauses that
 * last seconds look short, and a member with such pauses would leave in the middle of its work. */
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
