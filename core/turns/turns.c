/* SPDX-License-Identifier: Apache-2.0 */
#include "core/turns/turns.h"

#include "core/turns/turns_machine.h"

#define MS 1000000ull

const struct turns_tuning turns_usual = {
	.turn_ns = 8 * MS,
	.shortest_ns = 1 * MS,
	.grace_ns = 300000,
	.drain_ns = 50 * MS,
	.step_ns = 250000,
	.beside_ns = 200 * MS,
	.hang_ns = 1000 * MS,
	.escalate_ns = 2000 * MS,
	.starve_ns = 30000 * MS,
	.debt_ns = 5000 * MS,
	.lead_ns = 100 * MS,
	.burst_ns = 5 * MS,
};

void turns_seat_todo(struct turns_seat *s, unsigned todo)
{
	s->todo |= todo;
	if (!list_linked(&s->todo_link))
		list_append(&s->device->turns->todo, &s->todo_link);
}

void turns_timer_set(struct turns_heap *heap, struct turns_node *timer, uint64_t at_ns)
{
	if (turns_node_linked(timer) && timer->key == at_ns)
		return;
	turns_heap_remove(heap, timer);
	if (at_ns != UINT64_MAX)
		turns_heap_add(heap, timer, at_ns);
}

void turns_init(struct turns *turns, const struct turns_tuning *tuning)
{
	*turns = (struct turns){.tuning = *tuning};
	list_init(&turns->todo);
}

void turns_device_init(struct turns *turns, struct turns_device *device, uint32_t order)
{
	*device = (struct turns_device){
		.order = order, .turns = turns, .turn_ns = turns->tuning.turn_ns};
	list_init(&device->seats);
}

void turns_tenant_init(struct turns *turns, struct turns_tenant *tenant,
		       const struct turns_share *share)
{
	*tenant = (struct turns_tenant){.share = *share, .turns = turns};
	list_init(&tenant->seats);
}

/* ---- who is there ---------------------------------------------------------------------------- */

/* Settles the caps that depend on the number of tenants. */
static void settle_equal(struct turns_device *d, uint64_t now_ns)
{
	if (!d->equal)
		return;
	list_for_each(link, &d->seats)
	{
		turns_settle(SEAT_OF_DEVICE(link), now_ns);
		turns_seat_allow(SEAT_OF_DEVICE(link), now_ns);
	}
}

static void recap_equal(struct turns_device *d, uint64_t now_ns)
{
	if (!d->equal)
		return;
	list_for_each(link, &d->seats) turns_tenant_timer(SEAT_OF_DEVICE(link)->tenant, now_ns);
}

static void insert_in_order(struct turns_tenant *t, struct turns_seat *s)
{
	list_for_each(link, &t->seats)
	{
		if (SEAT_OF_TENANT(link)->device->order > s->device->order) {
			list_insert_before(link, &s->of_tenant);
			return;
		}
	}
	list_append(&t->seats, &s->of_tenant);
}

/* It joins a device that is already governed. */
static void join_governed(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (s->gate == TURNS_OPENED)
		turns_seat_start_closing(s, true, now_ns);
	if (t->state == TURNS_RUNNING) {
		/* It must have this device, too. */
		t->forced = true;
		turns_tenant_judge(t, now_ns);
	}
	if (t->state == TURNS_LINED || t->state == TURNS_READY) {
		turns_tenant_withdraw(t, now_ns);
		turns_tenant_enter(t, now_ns);
	}
}

/* It still owes what it owed, but is not owed what it had saved up. */
static void come_back(struct turns_seat *s, const struct turns_seat *before, uint64_t now_ns)
{
	if (!before->left_ns)
		return;
	s->owed_ns = before->owed_ns;
	s->virtual_ns += turns_seat_virtual(s, s->owed_ns);
	s->allowance = before->left_allowance;
	s->allowance_at_ns = before->left_ns;
	s->unpaid = before->unpaid;
	s->floor = before->floor;
	s->floor_at_ns = before->left_ns;
	turns_seat_floor(s, false, now_ns);
}

void turns_place(struct turns_seat *s, struct turns_tenant *t, struct turns_device *d)
{
	s->tenant = t;
	s->device = d;
}

void turns_join(struct turns_seat *s, struct turns_tenant *t, struct turns_device *d, void *owner,
		bool is_open, uint64_t now_ns)
{
	struct turns_seat before = *s;
	bool governed = d->governed, was_open;

	turns_device_settle(d, now_ns);
	*s = (struct turns_seat){
		.owner = owner,
		.tenant = t,
		.device = d,
		.gate = is_open ? TURNS_OPENED : TURNS_CLOSED,
		.told_open = is_open,
		.clear = !is_open,
		.settled_ns = now_ns,
		.entitled_at_ns = now_ns,
		.allowance_at_ns = now_ns,
		.floor_at_ns = now_ns,
		.virtual_ns = d->clock,
		.rested = true,
		.allowance = (int64_t)(d->turns->tuning.burst_ns * MILLI),
	};
	list_init(&s->along);
	come_back(s, &before, now_ns);
	if (is_open)
		turns_kept_join(s, &before, now_ns);
	was_open = s->gate == TURNS_OPENED;
	settle_equal(d, now_ns);
	turns_device_floors(d, now_ns);
	insert_in_order(t, s);
	list_append(&d->seats, &s->of_device);
	d->tenants++;
	turns_device_add_share(s, 1);
	turns_device_reckon(d, now_ns);
	if (!d->governed && s->gate != TURNS_OPENED) {
		turns_seat_owes_no_more(s);
		s->gate = TURNS_OPENED;
		turns_seat_todo(s, 0);
		if (is_open) /* a debt was kept: here it is none */
			turns_tenant_fix(t, now_ns);
	} else if (d->governed && (governed || !was_open)) {
		/* If turns began with its coming, govern_seat() has closed open gates alone. */
		join_governed(s, now_ns);
	}
	s->owed_ns = 0;
	turns_kept_joined(t);
	recap_equal(d, now_ns);
}

/* On an open device nothing is owed. */
static void leave_behind(struct turns_seat *s, uint64_t now_ns)
{
	int64_t ahead = s->device->governed ? (int64_t)(s->virtual_ns - s->device->clock) : 0;

	turns_seat_allow(s, now_ns);
	turns_seat_floor(s, false, now_ns);
	s->left_ns = now_ns;
	s->owed_ns = ahead > 0 ? turns_seat_real(s, (uint64_t)ahead) : 0;
	s->left_allowance = s->allowance;
}

void turns_leave(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_device *d = s->device;
	struct turns_tenant *t = s->tenant;

	turns_device_settle(d, now_ns);
	turns_settle(s, now_ns);
	turns_seat_pay(s, now_ns);
	leave_behind(s, now_ns);
	settle_equal(d, now_ns);
	turns_device_floors(d, now_ns);
	turns_tenant_detach(s, now_ns);
	turns_await_forget(s);
	list_remove(&s->of_tenant);
	list_remove(&s->of_device);
	list_remove(&s->todo_link);
	turns_device_add_share(s, -1);
	d->barred -= s->barred;
	t->barred -= s->barred;
	s->barred = false;
	d->tenants--;
	s->gate = TURNS_CLOSED;
	s->todo = 0;
	turns_tenant_fix(t, now_ns);
	turns_device_reckon(d, now_ns);
	turns_device_serve(d, now_ns);
	if (d->holder)
		turns_tenant_judge(d->holder->tenant, now_ns);
	recap_equal(d, now_ns);
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* It still owes the time that it owed with its former share: otherwise each change would be a turn
 * for nothing. What it is owed from then counts for at most one turn. */
static void carry_over(struct turns_seat *s, uint32_t former_weight)
{
	int64_t turn = (int64_t)turns_seat_virtual(s, s->device->turn_ns);
	int64_t ahead = (int64_t)(s->virtual_ns - s->device->clock);

	ahead = ahead * former_weight / s->tenant->share.weight;
	if (ahead < -turn)
		ahead = -turn;
	s->virtual_ns = s->device->clock + (uint64_t)ahead;
	if (s->floor > 0)
		s->floor = 0;
}

static void change_share(struct turns_seat *s, const struct turns_share *share, uint64_t now_ns)
{
	struct turns_share *own = &s->tenant->share, before = *own;
	bool lined = s->lined, active = s->active;

	turns_device_settle(s->device, now_ns);
	turns_settle(s, now_ns);
	turns_seat_entitle(s, s->entitling, now_ns);
	turns_seat_bound(s, now_ns);
	turns_device_floors(s->device, now_ns);
	turns_line_remove(s);
	turns_seat_deactivate(s, false, now_ns);
	turns_device_add_share(s, -1);
	*own = *share;
	turns_device_add_share(s, 1);
	carry_over(s, before.weight);
	if (active)
		turns_seat_activate(s, now_ns);
	if (lined)
		turns_line_add(s, now_ns);
	*own = before; /* for the next seat */
}

void turns_set(struct turns_tenant *t, const struct turns_share *share, uint64_t now_ns)
{
	list_for_each(link, &t->seats) change_share(SEAT_OF_TENANT(link), share, now_ns);
	t->share = *share;
	t->suspended = false;
	list_for_each(link, &t->seats) turns_device_reckon(SEAT_OF_TENANT(link)->device, now_ns);
	turns_tenant_timer(t, now_ns);
	turns_tenant_enter(t, now_ns);
	list_for_each(link, &t->seats)
	{
		struct turns_seat *holder = SEAT_OF_TENANT(link)->device->holder;

		if (holder && holder->tenant != t)
			turns_tenant_judge(holder->tenant, now_ns);
	}
}

void turns_uneven(struct turns_seat *s, bool uneven, uint64_t now_ns)
{
	if (s->uneven == uneven)
		return;
	turns_device_add_share(s, -1);
	s->uneven = uneven;
	turns_device_add_share(s, 1);
	turns_device_reckon(s->device, now_ns);
}

void turns_bar(struct turns_seat *s, bool barred, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	if (s->barred == barred)
		return;
	s->barred = barred;
	if (barred) {
		t->barred++;
		s->device->barred++;
		turns_device_reckon(s->device, now_ns);
		turns_tenant_expel(t, now_ns);
		return;
	}
	t->barred--;
	s->device->barred--;
	turns_device_reckon(s->device, now_ns);
	turns_tenant_enter(t, now_ns);
}

void turns_rest(struct turns_seat *s, bool rests, uint64_t now_ns)
{
	turns_seat_entitle(s, s->entitling, now_ns); /* until now */
	s->rests = rests;
}

void turns_share_of(const struct share *share, struct turns_share *ret_share)
{
	*ret_share = (struct turns_share){
		.weight = share->weight,
		.weighted = share->weighted,
		.guarantee_milli = share->guarantee_milli,
		.cap_milli = share->cap_milli,
		.equal = share->equal,
		.class = share->class,
		.escalate = (enum turns_escalate)share->escalate,
	};
}

/* ---- time, and what is to be done ------------------------------------------------------------ */

static uint64_t first_of(const struct turns_heap *heap)
{
	return heap->first ? heap->first->key : UINT64_MAX;
}

uint64_t turns_deadline(const struct turns *turns)
{
	return least(first_of(&turns->timers), first_of(&turns->drains));
}

void turns_tick(struct turns *turns, uint64_t now_ns)
{
	struct turns_node *node;

	while (first_of(&turns->drains) <= now_ns) {
		node = turns->drains.first;
		turns_heap_remove(&turns->drains, node);
		turns_seat_todo(container_of(node, struct turns_seat, timer), TODO_LATE);
	}
	while (first_of(&turns->timers) <= now_ns) {
		node = turns->timers.first;
		turns_heap_remove(&turns->timers, node);
		turns_tenant_timer(container_of(node, struct turns_tenant, timer), now_ns);
	}
}

static int take_verb(struct turns_seat *s, unsigned todo, enum turns_verb verb,
		     struct turns_action *ret)
{
	if (!(s->todo & todo))
		return 0;
	s->todo &= ~todo;
	*ret = (struct turns_action){verb, s};
	return 1;
}

static int take_action(struct turns_seat *s, struct turns_action *ret)
{
	bool open = s->gate == TURNS_OPENED;

	/* Its other device was late at the same time, and the answer for that one has settled
	 * this. */
	if (open || s->gate == TURNS_CLOSED)
		s->todo &= ~(unsigned)TODO_LATE;
	if (take_verb(s, TODO_COUPLED, TURNS_COUPLED, ret) ||
	    take_verb(s, TODO_BESIDE, TURNS_BESIDE, ret) ||
	    take_verb(s, TODO_UNCOUPLED, TURNS_UNCOUPLED, ret) ||
	    take_verb(s, TODO_AWAITS, TURNS_AWAITS, ret) ||
	    take_verb(s, TODO_REPORT, TURNS_REPORT, ret))
		return 1;
	if (s->told_open != open) {
		s->told_open = open;
		s->clear &= !open;
		*ret = (struct turns_action){open ? TURNS_OPEN : TURNS_CLOSE, s};
		return 1;
	}
	return take_verb(s, TODO_LATE, TURNS_LATE, ret) ||
	       take_verb(s, TODO_SUSPEND, TURNS_SUSPEND, ret) ||
	       take_verb(s, TODO_KILL, TURNS_KILL, ret);
}

int turns_next(struct turns *turns, struct turns_action *ret_action)
{
	while (!list_empty(&turns->todo)) {
		struct turns_seat *s = list_entry(turns->todo.next, struct turns_seat, todo_link);

		if (take_action(s, ret_action))
			return 1;
		list_remove(&s->todo_link);
	}
	return 0;
}
