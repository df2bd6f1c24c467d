/* SPDX-License-Identifier: Apache-2.0 */
/* What happens: each event changes the books, and says whether something is to be decided. */
#include "core/residency/residency.h"

#include "core/residency/residency_machine.h"

#define MS  1000000ull
#define MIB (1024ull * 1024)

/* So much of capacity and store is promised to nobody: chunks under way are in both. */
enum { SPARE_CHUNKS = 4, CHOICES = 8 };

const struct residency_tuning residency_usual = {
	.cost_milli = 50,
	.shortest_ns = 20 * MS,
	.longest_ns = 30000 * MS,
	.run_ns = 10000 * MS,
	.delay_ns = 100 * MS,
	.patience_ns = 10000 * MS,
	.owing_ns = 1000 * MS,
	.slowest_bps = 64 * MIB,
	.chunk_bytes = 64 * MIB,
	.window_bytes = 512 * MIB,
};

uint64_t residency_spare(const struct residency_tuning *tuning)
{
	return SPARE_CHUNKS * tuning->chunk_bytes;
}

void residency_init(struct residency *r, const struct residency_tuning *tuning,
		    uint64_t capacity_bytes, uint64_t budget_bytes)
{
	*r = (struct residency){
		.tuning = *tuning,
		.capacity_bytes = capacity_bytes,
		.budget_bytes = budget_bytes,
		.timer_ns = UINT64_MAX,
		.yield_ns = UINT64_MAX,
	};
	list_init(&r->members);
	list_init(&r->todo);
	list_init(&r->coming);
}

void residency_todo(struct residency_member *m, unsigned todo)
{
	m->todo |= todo;
	if (!list_linked(&m->todo_link))
		list_append(&m->residency->todo, &m->todo_link);
}

/* Something of the member has changed that others may wait for, or that it waits for itself. */
static void decide(struct residency_member *m)
{
	struct residency *r = m->residency;

	residency_rewait(m);
	r->dirty = r->choosing = true;
}

static void set_missing(struct residency_member *m, uint64_t bytes)
{
	m->residency->missing_bytes += bytes;
	m->residency->missing_bytes -= m->missing_bytes;
	m->missing_bytes = bytes;
}

void residency_capacity(struct residency *r, uint64_t capacity_bytes, uint64_t now_ns)
{
	bool smaller = capacity_bytes < r->capacity_bytes;

	(void)now_ns;
	r->capacity_bytes = capacity_bytes;
	list_for_each(link, &r->members) set_missing(MEMBER_OF_DEVICE(link), 0);
	if (smaller)
		residency_reconsider(r);
	r->dirty = r->choosing = true;
}

void residency_budget(struct residency *r, uint64_t budget_bytes, uint64_t now_ns)
{
	(void)now_ns;
	if (r->budget_bytes == budget_bytes)
		return;
	r->budget_bytes = budget_bytes;
	r->dirty = r->choosing = true;
}

/* ---- who is there ---------------------------------------------------------------------------- */

void residency_join(struct residency *r, struct residency_member *m, struct turns_seat *seat,
		    void *owner, uint64_t quota_bytes, uint64_t now_ns)
{
	*m = (struct residency_member){
		.owner = owner,
		.quota_bytes = quota_bytes,
		.residency = r,
		.seat = seat,
		.idle_ns = now_ns,
		.in_ns = now_ns,
		.progress_ns = now_ns,
		.virtual_ns = r->clock,
		.charged_ns = seat->charged_ns,
	};
	list_append(&r->members, &m->of_device);
}

void residency_adopt(struct residency_member *m, uint64_t resident_bytes, uint64_t out_bytes,
		     uint64_t now_ns)
{
	struct residency *r = m->residency;

	m->resident_bytes += resident_bytes;
	m->out_bytes += out_bytes;
	m->store_bytes += out_bytes;
	r->resident_bytes += resident_bytes;
	r->used_bytes += out_bytes;
	if (m->out_bytes && m->place == RESIDENCY_IN) {
		m->place = RESIDENCY_STOPPING;
		m->progress_ns = now_ns;
		r->draining++;
		turns_bar(m->seat, true, now_ns);
	}
	decide(m);
}

uint64_t residency_leave(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;
	uint64_t store = m->store_bytes;

	(void)now_ns;
	set_missing(m, 0);
	r->resident_bytes -= m->resident_bytes;
	r->credit_bytes -= m->credit_bytes;
	r->draining -= m->place == RESIDENCY_STOPPING;
	r->yielding -= m->yields;
	list_remove(&m->of_device);
	list_remove(&m->of_coming);
	list_remove(&m->todo_link);
	m->wants = m->yields = false;
	m->resident_bytes = m->out_bytes = m->credit_bytes = m->asked_bytes = m->store_bytes = 0;
	decide(m);
	m->residency = NULL;
	return store;
}

void residency_cleared(struct residency *r, uint64_t bytes, uint64_t now_ns)
{
	(void)now_ns;
	r->used_bytes -= least(bytes, r->used_bytes);
	r->dirty = true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Any of them alone must fit, beside what of the others may not leave; and all of them somewhere.
 * `bytes` are asked for by `asker`, if that is somebody, beside what it asked for already. Those of
 * class batch come when the `above` bytes are there again. */
static bool has_place(const struct residency *r, const struct residency_member *asker,
		      uint64_t bytes, uint64_t capacity, uint64_t above)
{
	uint64_t spare = residency_spare(&r->tuning), all = 0, fixed = 0, largest = 0;

	list_for_each(link, (struct list *)&r->members)
	{
		struct residency_member m = *MEMBER_OF_DEVICE(link);
		uint64_t fixed_here;

		m.asked_bytes += MEMBER_OF_DEVICE(link) == asker ? bytes : 0;
		fixed_here = member_fixed(&m);
		all += member_need(&m);
		/* It does not give back the copies of what is on the device. */
		all += m.stuck ? beyond(m.store_bytes, m.out_bytes) : 0;
		fixed += fixed_here;
		largest = most(largest,
			       beyond(member_need(&m) - fixed_here, is_batch(&m) ? above : 0));
	}
	if (all <= capacity)
		return true;
	return all + spare <= capacity + r->budget_bytes && fixed + largest <= capacity;
}

bool residency_bears(const struct residency *r, uint64_t capacity_bytes, uint64_t above_bytes)
{
	return has_place(r, NULL, 0, capacity_bytes, above_bytes);
}

int residency_refusal(const struct residency_member *m, uint64_t bytes, uint64_t capacity_bytes)
{
	uint64_t above = m->residency->above_bytes;
	/* Who is in asks for what is there now. */
	uint64_t own = is_batch(m) && m->place != RESIDENCY_IN ? above : 0;

	if (bytes > beyond(capacity_bytes + own, member_need(m)))
		return RESIDENCY_LARGE;
	return has_place(m->residency, m, bytes, capacity_bytes, above) ? 0 : RESIDENCY_STORE;
}

void residency_grant(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	m->resident_bytes += bytes;
	m->residency->resident_bytes += bytes;
	m->asked_bytes = 0;
	m->promised = false;
	/* Who has just allocated is about to do something with it. */
	m->idle_ns = now_ns;
}

uint64_t residency_room(const struct residency *r)
{
	return list_empty(&r->coming) ? residency_free_bytes(r) : 0;
}

int residency_ask(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	struct residency *r = m->residency;
	int refused = residency_refusal(m, bytes, r->capacity_bytes);

	if (refused)
		return refused;
	m->asked_bytes += bytes;
	/* Who is chosen to come has been promised what is free. */
	if (m->asked_bytes == bytes && m->place == RESIDENCY_IN && residency_room(r) >= bytes) {
		residency_grant(m, bytes, now_ns);
		return 0;
	}
	m->wanted_ns = m->waiting ? m->wanted_ns : now_ns;
	decide(m);
	return RESIDENCY_WAITS;
}

void residency_cancel(struct residency_member *m, uint64_t now_ns)
{
	(void)now_ns;
	m->asked_bytes = 0;
	m->promised = false;
	decide(m);
}

void residency_free(struct residency_member *m, uint64_t resident_bytes, uint64_t out_bytes,
		    uint64_t now_ns)
{
	struct residency *r = m->residency;
	uint64_t credit;

	(void)now_ns;
	resident_bytes = least(resident_bytes, m->resident_bytes);
	m->resident_bytes -= resident_bytes;
	r->resident_bytes -= resident_bytes;
	m->ordered_bytes = least(m->ordered_bytes, m->resident_bytes);
	m->order_todo = least(m->order_todo, m->ordered_bytes);
	m->out_bytes -= least(out_bytes, m->out_bytes);
	credit = beyond(m->credit_bytes, m->out_bytes);
	m->credit_bytes -= credit;
	r->credit_bytes -= credit;
	m->credit_todo = least(m->credit_todo, m->credit_bytes);
	decide(m);
}

/* ---- time ------------------------------------------------------------------------------------ */

void residency_wants(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;

	/* A part of it may be out, and nobody orders who is stuck anything: no other sign would
	 * come. */
	residency_show_life(m, now_ns);
	if (m->wants)
		return;
	residency_learn_pause(m, now_ns);
	m->wants = true;
	m->wanted_ns = now_ns;
	/* What it did not use while it wanted nothing is not saved up. */
	m->virtual_ns = most(m->virtual_ns, r->clock);
	m->parked = false;
	if (m->place != RESIDENCY_IN)
		decide(m);
	else if (r->waiting || r->yielding)
		r->dirty = true; /* who yields to it */
}

void residency_idle(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;

	residency_show_life(m, now_ns);
	if (!m->wants)
		return;
	m->wants = false;
	m->idle_ns = now_ns;
	if (m->place != RESIDENCY_IN || r->waiting || r->yielding)
		decide(m);
	else if (m->park_ns)
		r->dirty = true; /* the timer */
}

int residency_suspend(struct residency_member *m, bool suspended, uint64_t now_ns)
{
	struct residency *r = m->residency;
	uint64_t away = member_need(m), spare = residency_spare(&r->tuning);

	if (m->suspended == suspended)
		return 0;
	list_for_each(link, &r->members)
	{
		if (MEMBER_OF_DEVICE(link)->suspended)
			away += member_need(MEMBER_OF_DEVICE(link));
	}
	if (suspended && (member_need(m) > m->quota_bytes || away + spare > r->budget_bytes))
		return RESIDENCY_STORE;
	m->suspended = suspended;
	m->wanted_ns = now_ns;
	if (suspended)
		residency_withdraw(m);
	else if (m->ordered_bytes)
		residency_stop(m);
	decide(m);
	return 0;
}

void residency_park(struct residency_member *m, uint64_t park_ns, uint64_t now_ns)
{
	(void)now_ns;
	m->park_ns = park_ns;
	m->residency->dirty = true;
}

/* Where there is plenty of store: nobody's memory waits for the place. */
static uint64_t park_at(const struct residency_member *m)
{
	const struct residency *r = m->residency;

	if (!m->park_ns || m->wants || m->asked_bytes || is_sent_away(m) || m->stuck ||
	    !m->resident_bytes || list_linked(&m->of_coming))
		return UINT64_MAX;
	if (member_bytes(m) > least(m->quota_bytes, beyond(r->budget_bytes, r->used_bytes)))
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

/* ---- movement -------------------------------------------------------------------------------- */

void residency_left(struct residency_member *m, uint64_t bytes, uint64_t copied, uint64_t now_ns)
{
	struct residency *r = m->residency;

	bytes = least(bytes, m->resident_bytes);
	m->ordered_bytes -= least(bytes, m->ordered_bytes);
	m->order_todo = least(m->order_todo, m->ordered_bytes);
	m->resident_bytes -= bytes;
	m->out_bytes += bytes;
	m->left_bytes += bytes;
	m->copied_bytes += copied;
	r->resident_bytes -= bytes;
	r->left_bytes += bytes;
	r->copied_bytes += copied;
	r->dirty = true;
	residency_worked(m, bytes, now_ns);
}

void residency_came(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	struct residency *r = m->residency;

	bytes = least(bytes, least(m->credit_bytes, m->out_bytes));
	m->credit_bytes -= bytes;
	m->out_bytes -= bytes;
	m->resident_bytes += bytes;
	m->came_bytes += bytes;
	m->arrived_bytes += bytes;
	r->credit_bytes -= bytes;
	r->resident_bytes += bytes;
	r->came_bytes += bytes;
	r->dirty = true;
	residency_worked(m, bytes, now_ns);
}

void residency_unused(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	struct residency *r = m->residency;

	bytes = least(bytes, m->credit_bytes);
	m->credit_bytes -= bytes;
	r->credit_bytes -= bytes;
	set_missing(m, most(m->missing_bytes, least(m->missing_bytes + bytes, m->out_bytes)));
	/* Those who are coming may not fit any more. */
	list_for_each(link, &r->coming) residency_withdraw(MEMBER_OF_COMING(link));
	decide(m);
	residency_show_life(m, now_ns);
}

void residency_stopped(struct residency_member *m, uint64_t now_ns)
{
	struct residency *r = m->residency;

	if (!m->stopping)
		return;
	m->stopping = false;
	m->todo &= ~(unsigned)TODO_STOP;
	r->credit_bytes -= m->credit_bytes;
	m->credit_bytes = m->ordered_bytes = m->order_todo = m->credit_todo = 0;
	residency_give_up_store(m);
	decide(m);
	residency_show_life(m, now_ns);
}

void residency_dropped(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	bytes = least(bytes, m->dropping_bytes);
	m->dropping_bytes -= bytes;
	m->drop_todo = least(m->drop_todo, m->dropping_bytes);
	m->store_bytes -= bytes;
	m->residency->used_bytes -= bytes;
	m->residency->dirty = true;
	residency_worked(m, bytes, now_ns);
}

/* ---- what is to be done ---------------------------------------------------------------------- */

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

/* When to look again without an event. */
static uint64_t next_look(struct residency *r, uint64_t now_ns)
{
	uint64_t at = least(residency_choose_at(r, now_ns), residency_patience_at(r));

	at = least(at, r->yield_ns);

	list_for_each(link, &r->members) at = least(at, park_at(MEMBER_OF_DEVICE(link)));
	return at;
}

static void settle(struct residency *r, uint64_t now_ns)
{
	/* Another event may come first when the time is over. */
	r->choosing |= now_ns >= r->timer_ns;
	residency_judge_patience(r, now_ns);
	residency_stop_starved(r);
	park_idle(r, now_ns);
	residency_judge_yields(r, now_ns);
	residency_choose(r, now_ns);
	residency_move(r, now_ns);
	/* Who came without moving, or was withdrawn, makes room for another choice. */
	for (int i = 0; i < CHOICES && r->choosing && list_empty(&r->coming); i++) {
		residency_choose(r, now_ns);
		residency_move(r, now_ns);
	}
	r->dirty = r->choosing && list_empty(&r->coming);
	r->timer_ns = next_look(r, now_ns);
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
