/* SPDX-License-Identifier: Apache-2.0 */
/* Events: each changes the books, and returns whether a decision is due. */
#include "core/residency/residency.h"

#include "core/residency/residency_machine.h"

#define MS  1000000ull
#define MIB (1024ull * 1024)

/* How much of capacity and store is promised to no member: chunks under way are in both. */
enum { SPARE_CHUNKS = 4 };

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

/* Something has changed for which the member or another one may wait. */
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

/* ---- members --------------------------------------------------------------------------------- */

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

void residency_quota(struct residency_member *m, uint64_t quota_bytes, uint64_t now_ns)
{
	bool smaller = quota_bytes < m->quota_bytes;

	(void)now_ns;
	if (quota_bytes == m->quota_bytes)
		return;
	m->quota_bytes = quota_bytes;
	if (smaller)
		residency_reconsider(m->residency);
	decide(m);
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

/* Each member alone must fit beside those parts of the others that may not leave, and all of them
 * together must fit on the device and in the store. asker: NULL, or the member that asks for
 * `bytes` more. Members of class batch come when the `above` bytes are there again. */
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
		/* A stuck member does not give back its copies of what is on the device. */
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

	if (bytes > beyond(capacity_bytes + (is_batch(m) ? above : 0), member_need(m)))
		return RESIDENCY_LARGE;
	return has_place(m->residency, m, bytes, capacity_bytes, above) ? 0 : RESIDENCY_STORE;
}

void residency_grant(struct residency_member *m, uint64_t bytes, uint64_t now_ns)
{
	m->resident_bytes += bytes;
	m->residency->resident_bytes += bytes;
	m->asked_bytes = 0;
	m->promised = false;
	/* A program that has just allocated memory is about to use it. */
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
	/* Free room is promised to the members that come. */
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
	/* Nor does it lack room for what it has not got. */
	set_missing(m, least(m->missing_bytes, m->out_bytes));
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

	/* A part of it may be out, and a stuck member gets no orders: it could show no other sign
	 * of life. */
	residency_show_life(m, now_ns);
	if (m->wants)
		return;
	residency_learn_pause(m, now_ns);
	m->wants = true;
	m->wanted_ns = now_ns;
	/* Time that it did not use while it wanted none is not saved up. */
	m->virtual_ns = most(m->virtual_ns, r->clock);
	m->parked = false;
	if (m->place != RESIDENCY_IN)
		decide(m);
	else if (r->waiting || r->yielding)
		r->dirty = true; /* members may yield to it */
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

/* The store has room for it and for all that are suspended. */
static bool has_store(const struct residency_member *m, const struct residency_unused *credit)
{
	const struct residency *r = m->residency;
	uint64_t own = beyond(member_need(m), credit ? credit->own_bytes : 0), others = 0;

	list_for_each(link, (struct list *)&r->members)
	{
		if (MEMBER_OF_DEVICE(link)->suspended)
			others += member_need(MEMBER_OF_DEVICE(link));
	}
	others = beyond(others, credit ? credit->others_bytes : 0);
	return own <= m->quota_bytes &&
	       own + others + residency_spare(&r->tuning) <= r->budget_bytes;
}

static void set_suspended(struct residency_member *m, bool suspended, uint64_t now_ns)
{
	m->suspended = suspended;
	m->wanted_ns = now_ns;
	turns_rest(m->seat, suspended, now_ns);
	if (suspended)
		residency_withdraw(m);
	else if (m->ordered_bytes)
		residency_stop(m);
	decide(m);
}

int residency_suspend(struct residency_member *m, bool suspended,
		      const struct residency_unused *credit, uint64_t now_ns)
{
	if (m->suspended == suspended)
		return 0;
	if (suspended && !has_store(m, credit))
		return RESIDENCY_STORE;
	set_suspended(m, suspended, now_ns);
	return 0;
}

void residency_still_suspended(struct residency_member *m, uint64_t now_ns)
{
	if (!m->suspended)
		set_suspended(m, true, now_ns);
}

bool residency_is_housed(const struct residency_member *m)
{
	const struct residency *r = m->residency;
	uint64_t here = beyond(m->resident_bytes, m->ordered_bytes);
	uint64_t may = least(beyond(m->quota_bytes, m->store_bytes),
			     beyond(r->budget_bytes, r->used_bytes));

	return here <= may + beyond(m->store_bytes, m->out_bytes + m->ordered_bytes);
}

void residency_park(struct residency_member *m, uint64_t park_ns, uint64_t now_ns)
{
	(void)now_ns;
	m->park_ns = park_ns;
	m->residency->dirty = true;
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
	/* The members that come may not fit any more. */
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
