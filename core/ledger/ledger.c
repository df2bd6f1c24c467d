/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger/ledger.h"

#include "core/ledger/ledger_book.h"

/* All places for asks: the common and the reserved ones. */
static uint32_t ask_places(const struct ledger_limits *limits)
{
	return limits->asks + limits->accounts * limits->asks_sure;
}

size_t ledger_size(const struct ledger_limits *limits)
{
	return sizeof(struct ledger) + limits->devices * sizeof(struct ledger_device) +
	       limits->accounts * sizeof(struct ledger_account) +
	       limits->holders * sizeof(struct ledger_holder) +
	       ask_places(limits) * sizeof(struct ask);
}

/* Lays out a pool; returns where the next one begins. */
static char *lay(struct pool *pool, char *memory, size_t size, size_t offset, uint32_t most)
{
	*pool = (struct pool){.memory = memory, .size = size, .offset = offset, .most = most};
	list_init(&pool->free);
	return memory + most * size;
}

static void *take_from(struct pool *pool)
{
	struct list *link = pool->free.next;

	if (!list_empty(&pool->free)) {
		list_remove(link);
		return (char *)link - pool->offset;
	}
	return pool->used < pool->most ? pool->memory + pool->used++ * pool->size : NULL;
}

struct ledger *ledger_init(void *memory, const struct ledger_limits *limits)
{
	struct ledger *l = memory;
	char *at;

	*l = (struct ledger){.limits = *limits, .count = limits->devices, .event = 1};
	l->devices = (struct ledger_device *)(l + 1);
	at = (char *)(l->devices + limits->devices);
	at = lay(&l->accounts, at, sizeof(struct ledger_account),
		 offsetof(struct ledger_account, link), limits->accounts);
	at = lay(&l->holders, at, sizeof(struct ledger_holder),
		 offsetof(struct ledger_holder, link), limits->holders);
	lay(&l->asks, at, sizeof(struct ask), offsetof(struct ask, link), ask_places(limits));
	for (uint32_t i = 0; i < limits->devices; i++) {
		struct ledger_device *d = &l->devices[i];

		*d = (struct ledger_device){.lowest_round = UINT64_MAX};
		list_init(&d->asks);
		list_init(&d->changed);
		list_init(&d->over);
		list_init(&d->recallable);
		list_init(&d->recalled);
	}
	return l;
}

void ledger_set_count(struct ledger *l, uint32_t devices)
{
	l->event++;
	l->count = devices;
}

void ledger_set_device(struct ledger *l, uint32_t index, uint64_t capacity, uint64_t reserve)
{
	l->event++;
	l->devices[index].room_for_all = left_of(capacity, reserve);
}

void ledger_outside(struct ledger *l, uint32_t device, uint64_t bytes)
{
	if (l->devices[device].outside == bytes)
		return;
	l->event++;
	l->devices[device].outside = bytes;
}

void ledger_outside_unsure(struct ledger *l, uint32_t device, int unsure)
{
	struct ledger_device *d = &l->devices[device];

	if (!d->unsure == !unsure)
		return;
	l->event++;
	d->unsure = unsure != 0;
	d->unsettled += unsure ? 1u : -1u;
}

void ledger_expect(struct ledger *l, struct ledger_account *account, int expected, uint64_t most)
{
	l->event++;
	account->expected = expected;
	set_unsaid(account, expected ? most : 0);
}

void ledger_unsettled(struct ledger *l, struct ledger_account *account, enum ledger_unsettled how)
{
	if (account->unsettled == how)
		return;
	l->event++;
	account->device->unsettled +=
		(how != LEDGER_SETTLED) - (account->unsettled != LEDGER_SETTLED);
	account->unsettled = how;
}

void ledger_hold(struct ledger *l, struct ledger_account *account, int held)
{
	l->event++;
	account->held = held;
}

void ledger_looked(struct ledger *l)
{
	l->event++;
	l->looks++;
}

bool ledger_awaits_look(const struct ledger *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		list_for_each(link, (struct list *)&l->devices[i].asks)
		{
			if (l->looks - list_entry(link, struct ask, link)->looks < LEDGER_LOOKS)
				return true;
		}
	}
	return false;
}

struct ledger_account *ledger_open(struct ledger *l, uint32_t device, uint64_t limit,
				   uint64_t wait_ns)
{
	struct ledger_account *a = take_from(&l->accounts);

	if (!a)
		return NULL;
	*a = (struct ledger_account){.device = &l->devices[device],
				     .limit = limit,
				     .highest_limit = limit,
				     .bound = limit,
				     .wait_ns = wait_ns,
				     .lowest_round = UINT64_MAX};
	list_init(&a->holders);
	return a;
}

void ledger_put_within(struct ledger_account *account, struct ledger_account *above)
{
	account->above = above;
	above->within++;
}

void ledger_several(struct ledger_account *account)
{
	account->several = 1;
}

uint64_t ledger_account_room(const struct ledger_account *account)
{
	return account_room(account);
}

void ledger_lift(struct ledger_account *account)
{
	struct ledger_account *from = account->above;

	from->within--;
	/* Its charges also count within that one. */
	account->above = from->above;
	if (account->above)
		account->above->within++;
	from->below -= charged_all(account);
	from->unsaid_within -= account->unsaid + account->unsaid_within;
}

void ledger_close(struct ledger *l, struct ledger_account *account)
{
	if (!account || !account->device)
		return;
	ledger_expect(l, account, 0, 0);
	if (account->above)
		account->above->within--;
	account->above = NULL;
	ledger_unsettled(l, account, LEDGER_SETTLED);
	list_remove(&account->changed);
	list_remove(&account->over);
	account->device = NULL;
	list_append(&l->accounts.free, &account->link);
}

void ledger_watch(struct ledger_account *account, void *owner)
{
	account->owner = owner;
	note_change(account);
}

void *ledger_watcher(const struct ledger_account *account)
{
	return account->owner;
}

void *ledger_changed(struct ledger *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		struct list *link = l->devices[i].changed.next;

		if (list_empty(&l->devices[i].changed))
			continue;
		list_remove(link);
		return list_entry(link, struct ledger_account, changed)->owner;
	}
	return NULL;
}

/* Each time, because what it had in use at the last recall may be credit now. */
static void note_over(struct ledger *l, struct ledger_account *a)
{
	a->over_round = ++l->round;
	if (!list_linked(&a->over))
		list_append(&a->device->over, &a->over);
}

void ledger_set_limit(struct ledger *l, struct ledger_account *account, uint64_t limit,
		      uint64_t wait_ns)
{
	l->event++;
	account->limit = limit;
	account->wait_ns = wait_ns;
	account->highest_limit = most(account->highest_limit, limit);
	book(account);
	note_change(account);
	if (charged(&account->sum) > limit)
		note_over(l, account);
}

void ledger_had_limit(struct ledger_account *account, uint64_t limit)
{
	account->highest_limit = most(account->highest_limit, limit);
}

struct ledger_holder *ledger_join(struct ledger *l, struct ledger_account *account, void *owner)
{
	struct ledger_holder *h = take_from(&l->holders);

	if (!h)
		return NULL;
	*h = (struct ledger_holder){.account = account, .owner = owner};
	list_init(&h->asks);
	list_append(&account->holders, &h->link);
	account->holder_count++;
	account->device->holders++;
	return h;
}

void *ledger_owner(const struct ledger_holder *holder)
{
	return holder->owner;
}

static void drop_asks(struct ledger *l, struct ledger_holder *h, const uint64_t *only_id)
{
	l->event++;
	list_for_each(link, &h->asks)
	{
		struct ask *ask = list_entry(link, struct ask, own);

		if (!only_id || ask->request.id == *only_id)
			drop_ask(l, ask);
	}
}

void ledger_cancel(struct ledger *l, struct ledger_holder *holder, uint64_t id)
{
	if (holder->account)
		drop_asks(l, holder, &id);
}

void ledger_hang_up(struct ledger *l, struct ledger_holder *holder)
{
	drop_asks(l, holder, NULL);
	forget_recall(holder);
}

void ledger_leave(struct ledger *l, struct ledger_holder *holder)
{
	static const struct amounts nothing;

	if (!holder || !holder->account)
		return;
	drop_asks(l, holder, NULL);
	set_amounts(holder, &nothing);
	end_recall(holder);
	holder->account->holder_count--;
	holder->account->device->holders--;
	holder->account = NULL;
	list_remove(&holder->link);
	/* It goes to the end, so that a stale pointer refers to an unused holder for as long as
	 * possible. */
	list_append(&l->holders.free, &holder->link);
}

int ledger_adopt(struct ledger *l, struct ledger_holder *holder, uint64_t allocated,
		 uint64_t credit_bytes, uint64_t residual)
{
	struct ledger_account *a = holder->account;
	struct amounts now = {.used = holder->has.used};
	uint64_t room;

	l->event++;
	set_amounts(holder, &now);
	room = left_of(a->highest_limit, charged(&a->sum));
	now.granted = now.allocated = least(allocated, room);
	now.residual = now.guessed = least(residual, room - now.allocated);
	/* It was granted under the highest limit. */
	a->bound = a->highest_limit;
	set_amounts(holder, &now);
	set_unsaid(a, left_of(a->unsaid, now.allocated + now.residual));
	if (credit_bytes > account_room(a))
		return LEDGER_OVER;
	if (full_above(a, credit_bytes) || may_be_held(a, credit_bytes) ||
	    credit_bytes > left_of(device_room(a->device), unsaid(a->device, a)))
		return LEDGER_FULL;
	set_unsaid(a, left_of(a->unsaid, credit_bytes));
	now.granted += credit_bytes;
	set_amounts(holder, &now);
	return 0;
}

/* A place for another ask of the account, preferably a reserved one. NULL: its part is full. */
static struct ask *take_place(struct ledger *l, struct ledger_account *a)
{
	int sure = a->sure < l->limits.asks_sure;
	struct ask *ask;

	if (l->limits.asks_per_account && a->waiting >= l->limits.asks_per_account)
		return NULL;
	if (!sure && l->common_asks == l->limits.asks)
		return NULL;
	ask = take_from(&l->asks);
	if (!ask)
		return NULL;
	*ask = (struct ask){.sure = sure};
	if (sure)
		a->sure++;
	else
		l->common_asks++;
	return ask;
}

int ledger_ask(struct ledger *l, struct ledger_holder *holder, const struct ledger_request *request,
	       uint64_t now_ns)
{
	struct ledger_account *a = holder->account;
	struct ledger_device *d = a->device;
	struct ask *ask = NULL;

	if (holder->ask_count < l->limits.asks_per_holder)
		ask = take_place(l, a);
	if (!ask)
		return LEDGER_TABLE;
	l->event++;
	ask->holder = holder;
	ask->request = *request;
	ask->round = ++l->round;
	ask->looks = l->looks;
	ask->since_ns = now_ns;
	ask->guess_until = now_ns + l->limits.guess_ns;
	if (request->may_wait && a->wait_ns) {
		ask->deadline = now_ns + a->wait_ns;
		if (!d->patient++)
			d->refresh_at = now_ns + l->limits.refresh_ns;
	}
	if (holder->recall_until && holder->recall_until <= now_ns)
		forget_recall(holder);
	holder->ask_count++;
	a->waiting++;
	d->waiting++;
	list_append(&holder->asks, &ask->own);
	list_append(&d->asks, &ask->link);
	return 0;
}

int ledger_return(struct ledger *l, struct ledger_holder *holder, uint64_t bytes,
		  int answers_recall)
{
	struct amounts now = holder->has;
	uint64_t resident = now.granted - now.evicted;
	int r = bytes > resident ? LEDGER_HELD : 0;

	l->event++;
	if (answers_recall) {
		end_recall(holder);
		holder->recall_until = 0;
		/* It was asked for part of its credit and gave that: it may give more to an ask
		 * that waited meanwhile and lacks more. */
		if (bytes >= holder->recall_bytes) {
			/* A late answer may come from one that can be recalled again already: it
			 * is listed anew, or a search in vain would still stand. */
			list_remove(&holder->of_recallable);
			holder->recalled_round = holder->former_round;
		}
	}
	now.granted -= least(bytes, resident);
	now.allocated = least(now.allocated, now.granted);
	set_amounts(holder, &now);
	return r;
}

void ledger_report(struct ledger *l, struct ledger_holder *holder, uint64_t allocated)
{
	struct amounts now = holder->has;

	(void)l;
	now.allocated = least(allocated, now.granted);
	if (now.allocated < now.evicted)
		now.allocated = now.evicted;
	if (now.allocated != holder->has.allocated)
		set_amounts(holder, &now);
}

void ledger_report_peak(struct ledger *l, struct ledger_holder *holder, uint64_t allocated)
{
	struct ledger_account *a = holder->account;
	uint64_t others = a->sum.allocated - holder->has.allocated + a->sum.residual;
	uint64_t peak = others + least(allocated, holder->most_granted);

	(void)l;
	peak = least(peak, a->most_charged);
	if (peak > a->peak)
		a->peak = peak;
}

void ledger_residual(struct ledger *l, struct ledger_holder *holder, uint64_t bytes, uint64_t used)
{
	struct ledger_account *a = holder->account;
	struct amounts now = holder->has;
	int same = bytes == holder->has.residual && used == holder->has.used;

	now.residual = bytes;
	now.used = used;
	if (same && charged(&a->sum) <= a->limit)
		return;
	l->event++;
	if (!same)
		set_amounts(holder, &now);
	if (charged(&a->sum) > a->limit)
		note_over(l, a);
}

void ledger_guessed(struct ledger *l, struct ledger_holder *holder, uint64_t bytes)
{
	struct amounts now = holder->has;

	if (now.guessed == bytes)
		return;
	l->event++;
	now.guessed = bytes;
	set_amounts(holder, &now);
}

void ledger_lost(struct ledger *l, uint64_t ns)
{
	l->event++;
	for (uint32_t i = 0; i < l->count; i++) {
		list_for_each(link, &l->devices[i].asks)
		{
			struct ask *ask = list_entry(link, struct ask, link);

			ask->deadline += ask->deadline ? ns : 0;
			ask->guess_until += ns;
		}
		list_for_each(link, &l->devices[i].recalled)
			list_entry(link, struct ledger_holder, recalled)
				->recall_until += ns;
	}
}
