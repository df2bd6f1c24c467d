/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions that events have made due, and the actions that follow, handed out one by one. */
#include "core/residency/residency_machine.h"

/* How often the next set is chosen anew within one decision, at most. */
enum { CHOICES = 8 };

/* ---- idle members, whose memory may leave although no other needs the room ------------------- */

/* The bytes of the store that members which are to be out still need. */
static uint64_t promised(const struct residency *r)
{
	uint64_t bytes = 0;

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		bytes += is_to_be_out(m) && !m->stuck ? beyond(member_bytes(m), m->store_bytes) : 0;
	}
	return bytes;
}

/* When its memory leaves because it is idle. UINT64_MAX: it stays. It leaves only if the store has
 * room for all of it, so that no other member's memory has to wait for that room. */
static uint64_t park_at(const struct residency_member *m)
{
	const struct residency *r = m->residency;

	if (!m->park_ns || m->wants || m->asked_bytes || is_to_be_out(m) || m->stuck ||
	    !m->resident_bytes || list_linked(&m->of_coming))
		return UINT64_MAX;
	if (member_bytes(m) >
	    least(m->quota_bytes, beyond(r->budget_bytes, r->used_bytes + promised(r))))
		return UINT64_MAX;
	return m->idle_ns + m->park_ns;
}

static void park_idle(struct residency *r, uint64_t now_ns)
{
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		m->parked |= park_at(m) <= now_ns;
	}
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* When to decide again if there is no event. */
static uint64_t next_check(struct residency *r, uint64_t now_ns)
{
	uint64_t at = least(residency_choose_at(r, now_ns), residency_patience_at(r));

	at = least(at, residency_yield_at(r, now_ns));
	list_for_each(link, &r->members) at = least(at, park_at(MEMBER_OF_DEVICE(link)));
	return at;
}

static void settle(struct residency *r, uint64_t now_ns)
{
	/* Another event may come first when the time is over. */
	r->choosing |= now_ns >= r->timer_ns;
	/* Nobody may have asked for long, as while a restarted daemon expects guests: who drained
	 * meanwhile has obeyed. */
	residency_see_drained(r, now_ns);
	residency_judge_patience(r, now_ns);
	residency_stop_starved(r);
	park_idle(r, now_ns);
	residency_judge_yields(r, now_ns);
	residency_choose(r, now_ns);
	residency_move(r, now_ns);
	/* A member that was admitted without moving, or withdrawn, makes another choice possible.
	 */
	for (int i = 0; i < CHOICES && r->choosing && list_empty(&r->coming); i++) {
		residency_choose(r, now_ns);
		residency_move(r, now_ns);
	}
	r->dirty = r->choosing && list_empty(&r->coming);
	r->timer_ns = next_check(r, now_ns);
}

void residency_tick(struct residency *r, uint64_t now_ns)
{
	if (now_ns >= r->timer_ns)
		r->dirty = r->choosing = true;
}

uint64_t residency_deadline(const struct residency *r)
{
	return r->timer_ns;
}

/* ---- handing out ----------------------------------------------------------------------------- */

static int take_bytes(struct residency_member *m, uint64_t *bytes, enum residency_verb verb,
		      struct residency_action *ret)
{
	if (!*bytes)
		return 0;
	*ret = (struct residency_action){verb, m, *bytes, m->generation};
	*bytes = 0;
	return 1;
}

static int take_todo(struct residency_member *m, unsigned todo, enum residency_verb verb,
		     uint64_t bytes, struct residency_action *ret)
{
	if (!(m->todo & todo))
		return 0;
	m->todo &= ~todo;
	*ret = (struct residency_action){verb, m, bytes, m->generation};
	if (verb == RESIDENCY_STOP)
		m->generation++;
	return 1;
}

static int take_action(struct residency_member *m, struct residency_action *ret)
{
	return take_todo(m, TODO_STOP, RESIDENCY_STOP, 0, ret) ||
	       take_bytes(m, &m->drop_todo, RESIDENCY_DROP, ret) ||
	       take_bytes(m, &m->order_todo, RESIDENCY_EVICT, ret) ||
	       take_bytes(m, &m->credit_todo, RESIDENCY_CREDIT, ret) ||
	       take_bytes(m, &m->grant_todo, RESIDENCY_GRANT, ret) ||
	       take_todo(m, TODO_ADMITTED, RESIDENCY_ADMITTED, m->admitted_bytes, ret) ||
	       take_todo(m, TODO_STUCK, RESIDENCY_STUCK, m->resident_bytes, ret);
}

int residency_next(struct residency *r, uint64_t now_ns, struct residency_action *ret_action)
{
	if (r->dirty || r->draining)
		settle(r, now_ns);
	while (!list_empty(&r->todo)) {
		struct residency_member *m =
			list_entry(r->todo.next, struct residency_member, todo_link);

		if (take_action(m, ret_action))
			return 1;
		list_remove(&m->todo_link);
	}
	return 0;
}
