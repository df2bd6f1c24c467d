/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings the chosen members in. Members that were not chosen make the room that is lacking; free
 * room is credit for the first that is coming; a member that has all its memory is admitted.
 */
#include "core/residency/residency_machine.h"

enum { WEIGHT_UNIT = 10000 };

uint64_t residency_free_bytes(const struct residency *r)
{
	return beyond(r->capacity_bytes, r->missing_bytes + r->resident_bytes + r->credit_bytes);
}

static void bar(struct residency_member *m, uint64_t now_ns)
{
	residency_owes_from(m, now_ns);
	m->place = RESIDENCY_STOPPING;
	m->residency->draining++;
	m->wanted_ns = m->wants ? now_ns : m->wanted_ns;
	turns_bar(m->seat, true, now_ns);
}

void residency_rewait(struct residency_member *m)
{
	bool waits = is_waiting(m);

	m->residency->waiting += waits;
	m->residency->waiting -= m->waiting;
	m->waiting = waits;
}

bool residency_see_drained(struct residency *r, uint64_t now_ns)
{
	uint32_t before = r->draining;

	if (!before)
		return false;
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place != RESIDENCY_STOPPING || m->seat->gate != TURNS_CLOSED)
			continue;
		m->place = RESIDENCY_OUT;
		m->progress_ns = now_ns;
		m->stuck = m->alive = false; /* that was what it owed */
		r->draining--;
		residency_rewait(m);
		r->choosing |= m->waiting;
	}
	return r->draining < before;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* The bytes of the store that it needs if `more` leave: the last block that a guest evicts may be
 * larger than the rest of its order. */
static uint64_t store_for(const struct residency_member *m, uint64_t more)
{
	return least(m->out_bytes + m->ordered_bytes + more + m->residency->tuning.chunk_bytes,
		     member_bytes(m));
}

/* Makes room in the store: others drop copies of blocks that are on the device. */
static void want_store(struct residency_member *for_whom, uint64_t bytes, uint64_t now_ns)
{
	struct residency *r = for_whom->residency;

	list_for_each(link, &r->members) bytes =
		beyond(bytes, MEMBER_OF_DEVICE(link)->dropping_bytes);
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);
		uint64_t kept = beyond(m->store_bytes - m->dropping_bytes,
				       m->ordered_bytes ? store_for(m, 0) : m->out_bytes);

		kept = least(kept, bytes);
		if (m == for_whom || !kept || m->stuck)
			continue;
		residency_owes_from(m, now_ns);
		m->dropping_bytes += kept;
		m->drop_todo += kept;
		bytes -= kept;
		residency_todo(m, 0);
	}
}

/* Orders up to so many bytes to leave. Returns how many were ordered. */
static uint64_t order(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	struct residency *r = m->residency;
	uint64_t chunk = r->tuning.chunk_bytes, has = m->store_bytes - m->dropping_bytes;
	uint64_t may = beyond(r->budget_bytes, r->used_bytes), needs;
	uint64_t rest = m->resident_bytes - m->ordered_bytes;

	bytes = least((bytes + chunk - 1) / chunk * chunk, rest);
	may = least(may, beyond(m->quota_bytes, m->store_bytes)) + has;
	needs = store_for(m, bytes);
	if (needs > may) {
		want_store(m, needs - may, now_ns);
		bytes = least(bytes, beyond(may, m->out_bytes + m->ordered_bytes + chunk));
	}
	if (!bytes)
		return 0;
	needs = beyond(store_for(m, bytes), has);
	m->store_bytes += needs;
	r->used_bytes += needs;
	residency_owes_from(m, now_ns);
	m->ordered_bytes += bytes;
	m->order_todo += bytes;
	residency_todo(m, 0);
	return bytes;
}

static bool may_leave(const struct residency_member *m)
{
	return !m->chosen && !m->stuck && !m->stopping && m->resident_bytes > m->ordered_bytes;
}

/* The eviction order: members that do not want the device go first, the longest idle before others;
 * then those that have had most of it. */
static bool leaves_before(const struct residency_member *a, const struct residency_member *b)
{
	bool claims = is_claiming(a);

	if (claims != is_claiming(b))
		return !claims;
	if (!claims && a->idle_ns != b->idle_ns)
		return a->idle_ns < b->idle_ns;
	if (a->virtual_ns != b->virtual_ns)
		return a->virtual_ns > b->virtual_ns;
	return a->resident_bytes > b->resident_bytes;
}

static struct residency_member *next_to_leave(struct residency *r, enum residency_place place)
{
	struct residency_member *first = NULL;

	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (m->place == place && !m->considered && may_leave(m) &&
		    (!first || leaves_before(m, first)))
			first = m;
	}
	return first;
}

/* Returns whether any member leaves for that, now or once it has drained. */
static bool make_room(struct residency *r, uint64_t lack, uint64_t now_ns)
{
	struct residency_member *m;
	uint64_t lacked = lack;

	list_for_each(link, &r->members)
	{
		m = MEMBER_OF_DEVICE(link);
		m->considered = false;
		if (!m->chosen && !m->stuck)
			lack = beyond(lack, m->ordered_bytes);
	}
	while (lack && (m = next_to_leave(r, RESIDENCY_OUT))) {
		m->considered = true;
		lack = beyond(lack, order(m, lack, now_ns));
	}
	while (lack && (m = next_to_leave(r, RESIDENCY_STOPPING))) {
		m->considered = true;
		lack = beyond(lack, m->resident_bytes);
	}
	while (lack && (m = next_to_leave(r, RESIDENCY_IN))) {
		lack = beyond(lack, m->resident_bytes);
		bar(m, now_ns);
		m->considered = true;
		residency_rewait(m);
	}
	return lack < lacked;
}

static void order_out(struct residency *r, uint64_t now_ns)
{
	list_for_each(link, &r->members)
	{
		struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (!is_to_be_out(m) || m->stuck)
			continue;
		if (m->place == RESIDENCY_IN)
			bar(m, now_ns);
		else if (m->place == RESIDENCY_OUT && may_leave(m))
			order(m, m->resident_bytes, now_ns);
	}
}

/* ---- in -------------------------------------------------------------------------------------- */

void residency_stop(struct residency_member *m)
{
	/* Orders and credit that were not handed out yet are simply taken back. */
	m->ordered_bytes -= m->order_todo;
	m->credit_bytes -= m->credit_todo;
	m->residency->credit_bytes -= m->credit_todo;
	m->order_todo = m->credit_todo = 0;
	if ((m->ordered_bytes || m->credit_bytes) && !m->stopping) {
		m->stopping = true;
		residency_todo(m, TODO_STOP);
	}
}

void residency_withdraw(struct residency_member *m)
{
	list_remove(&m->of_coming);
	m->chosen = false;
	m->residency->choosing = true;
	if (m->place == RESIDENCY_COMING)
		m->place = RESIDENCY_OUT;
	if (m->place == RESIDENCY_OUT)
		residency_stop(m);
}

/* An order of before it was chosen is stopped. Returns whether none is left. */
static bool is_settled(struct residency_member *m)
{
	if (m->ordered_bytes)
		residency_stop(m);
	return !m->stopping;
}

/* Returns whether credit covers all that it lacks, so that the next one may have the rest. */
static bool give_credit(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;
	uint64_t rest = m->out_bytes - m->credit_bytes;
	uint64_t give = least(least(rest, residency_free_bytes(r)),
			      beyond(r->tuning.window_bytes, m->credit_bytes));

	if (give < least(rest, r->tuning.chunk_bytes))
		return !rest;
	if (give < rest && r->tuning.chunk_bytes)
		give -= give % r->tuning.chunk_bytes;
	if (give) {
		residency_owes_from(m, now_ns);
		m->credit_bytes += give;
		m->credit_todo += give;
		r->credit_bytes += give;
		residency_todo(m, 0);
	}
	return give == rest;
}

/* The bytes that it had asked for when it was chosen. Later asks wait for another choice. */
static uint64_t asks_for(const struct residency_member *m)
{
	return m->promised ? m->asked_bytes : 0;
}

static bool grant_asked(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;
	uint64_t bytes = asks_for(m);

	if (bytes > residency_free_bytes(r))
		return false;
	if (bytes) {
		residency_grant(m, bytes, now_ns);
		m->grant_todo += bytes;
		residency_todo(m, 0);
	}
	return true;
}

static void admit(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;
	uint64_t took = now_ns - r->moving_since_ns, waited = now_ns - m->wanted_ns;

	if (m->place == RESIDENCY_STOPPING)
		r->draining--;
	if (m->place != RESIDENCY_IN) {
		m->place = RESIDENCY_IN;
		/* The movement is charged to it. */
		m->virtual_ns += took * WEIGHT_UNIT / m->seat->tenant->share.weight;
		m->waits++;
		m->waited_ns += waited;
		m->longest_ns = most(m->longest_ns, waited);
		m->admitted_bytes = m->arrived_bytes;
		m->came_turns = m->seat->turns;
		m->in_ns = now_ns;
		residency_todo(m, TODO_ADMITTED);
		turns_bar(m->seat, false, now_ns);
	}
	list_remove(&m->of_coming);
	residency_rewait(m);
}

/* All chosen members have come. */
static void finish_set(struct residency *r, uint64_t now_ns)
{
	uint64_t took = now_ns - r->moving_since_ns;

	r->moving_ns += took;
	r->choosing = true;
	if (!r->rotating)
		return;
	r->rotating = false;
	r->cost_ns = took;
	r->began_ns = now_ns;
	r->sets++;
}

static void bring(struct residency *r, uint64_t now_ns)
{
	bool promised = true;

	list_for_each(link, &r->coming)
	{
		struct residency_member *m = MEMBER_OF_COMING(link);

		if (m->place == RESIDENCY_OUT)
			m->place = RESIDENCY_COMING;
		if (!is_settled(m))
			continue;
		promised = promised && give_credit(m, now_ns) && grant_asked(m, now_ns);
		if (!m->out_bytes && !asks_for(m))
			admit(m, now_ns);
	}
}

static uint64_t lack_of(struct residency *r)
{
	uint64_t lack = 0;

	list_for_each(link, &r->coming)
	{
		const struct residency_member *m = MEMBER_OF_COMING(link);

		lack += m->out_bytes - m->credit_bytes + asks_for(m);
	}
	return lack;
}

uint64_t residency_excess(const struct residency *r)
{
	return beyond(r->resident_bytes + r->credit_bytes,
		      beyond(r->capacity_bytes, r->missing_bytes));
}

/* Nothing moves, and nothing is about to. */
static bool is_at_rest(const struct residency *r)
{
	if (r->credit_bytes || r->draining)
		return false;
	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		if (!m->stuck && (m->ordered_bytes || m->stopping || m->dropping_bytes))
			return false;
	}
	return true;
}

/* No member may leave: another set is chosen, or the same one once something has changed. */
static void give_way(struct residency *r, uint64_t now_ns)
{
	list_for_each(link, &r->coming) residency_withdraw(MEMBER_OF_COMING(link));
	r->choosing = false;
	r->retry_ns = now_ns + r->tuning.patience_ns;
}

static void move_once(struct residency *r, uint64_t now_ns)
{
	bool moved = !list_empty(&r->coming);
	uint64_t lack;

	bring(r, now_ns);
	lack = beyond(lack_of(r), residency_free_bytes(r)) + residency_excess(r);
	if (lack && !make_room(r, lack, now_ns) && moved && is_at_rest(r)) {
		give_way(r, now_ns);
		return;
	}
	order_out(r, now_ns);
	if (moved && list_empty(&r->coming))
		finish_set(r, now_ns);
}

void residency_move(struct residency *r, uint64_t now_ns)
{
	residency_see_drained(r, now_ns);
	move_once(r, now_ns);
	/* Some members' gates were closed before the members were barred. */
	while (residency_see_drained(r, now_ns))
		move_once(r, now_ns);
}

bool residency_could_leave(const struct residency *r, uint64_t bytes)
{
	uint64_t all = 0, free_to_go = 0;

	list_for_each(link, (struct list *)&r->members)
	{
		const struct residency_member *m = MEMBER_OF_DEVICE(link);

		all += m->resident_bytes + m->out_bytes;
		free_to_go += m->stuck ? 0 : m->resident_bytes;
	}
	return bytes <= free_to_go &&
	       all + bytes + residency_spare(&r->tuning) <= r->capacity_bytes + r->budget_bytes;
}
