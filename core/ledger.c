/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger.h"

#include "core/ledger_book.h"

size_t ledger_size(const struct ledger_limits *limits)
{
	return sizeof(struct ledger) + limits->devices * sizeof(struct ledger_device) +
	       limits->accounts * sizeof(struct ledger_account) +
	       limits->holders * sizeof(struct ledger_holder) + limits->asks * sizeof(struct ask);
}

struct ledger *ledger_init(void *memory, const struct ledger_limits *limits)
{
	struct ledger *l = memory;
	struct ledger_account *accounts;
	struct ledger_holder *holders;
	struct ask *asks;

	memset(memory, 0, ledger_size(limits));
	l->limits = *limits;
	l->devices = (struct ledger_device *)(l + 1);
	accounts = (struct ledger_account *)(l->devices + limits->devices);
	holders = (struct ledger_holder *)(accounts + limits->accounts);
	asks = (struct ask *)(holders + limits->holders);
	list_init(&l->free_accounts);
	list_init(&l->free_holders);
	list_init(&l->free_asks);
	for (uint32_t i = 0; i < limits->devices; i++) {
		list_init(&l->devices[i].accounts);
		list_init(&l->devices[i].asks);
	}
	for (uint32_t i = 0; i < limits->accounts; i++)
		list_append(&l->free_accounts, &accounts[i].link);
	for (uint32_t i = 0; i < limits->holders; i++)
		list_append(&l->free_holders, &holders[i].link);
	for (uint32_t i = 0; i < limits->asks; i++)
		list_append(&l->free_asks, &asks[i].link);
	return l;
}

void ledger_set_device(struct ledger *l, uint32_t index, uint64_t capacity, uint64_t reserve)
{
	l->devices[index].room_for_all = left_of(capacity, reserve);
}

void ledger_expect(struct ledger *l, struct ledger_account *account, int expected, uint64_t most)
{
	(void)l;
	account->expected = expected;
	account->unsaid = expected ? most : 0;
}

void ledger_unsettled(struct ledger *l, struct ledger_account *account, int unsettled)
{
	(void)l;
	account->unsettled = unsettled;
}

void ledger_looked(struct ledger *l)
{
	l->looks++;
}

struct ledger_account *ledger_open(struct ledger *l, uint32_t device, uint64_t limit,
				   uint64_t wait_ns)
{
	struct ledger_account *a;

	if (list_empty(&l->free_accounts))
		return NULL;
	a = list_entry(l->free_accounts.next, struct ledger_account, link);
	list_remove(&a->link);
	*a = (struct ledger_account){.device = &l->devices[device],
				     .limit = limit,
				     .highest_limit = limit,
				     .wait_ns = wait_ns};
	list_init(&a->holders);
	list_append(&a->device->accounts, &a->link);
	return a;
}

void ledger_close(struct ledger *l, struct ledger_account *account)
{
	if (!account || !account->device)
		return;
	account->device = NULL;
	list_remove(&account->link);
	list_append(&l->free_accounts, &account->link);
}

void ledger_set_limit(struct ledger *l, struct ledger_account *account, uint64_t limit,
		      uint64_t wait_ns)
{
	(void)l;
	account->limit = limit;
	account->wait_ns = wait_ns;
	if (limit > account->highest_limit)
		account->highest_limit = limit;
}

struct ledger_holder *ledger_join(struct ledger *l, struct ledger_account *account, void *owner)
{
	struct ledger_holder *h;

	if (list_empty(&l->free_holders))
		return NULL;
	h = list_entry(l->free_holders.next, struct ledger_holder, link);
	list_remove(&h->link);
	*h = (struct ledger_holder){.account = account, .owner = owner};
	list_append(&account->holders, &h->link);
	return h;
}

void *ledger_owner(const struct ledger_holder *holder)
{
	return holder->owner;
}

static void drop_asks(struct ledger *l, struct ledger_holder *h, const uint64_t *only_id)
{
	list_for_each(link, &h->account->device->asks)
	{
		struct ask *ask = list_entry(link, struct ask, link);

		if (ask->holder == h && (!only_id || ask->request.id == *only_id))
			drop_ask(l, ask);
	}
}

void ledger_cancel(struct ledger *l, struct ledger_holder *holder, uint64_t id)
{
	if (holder->account)
		drop_asks(l, holder, &id);
}

void ledger_leave(struct ledger *l, struct ledger_holder *holder)
{
	static const struct amounts nothing;

	if (!holder || !holder->account)
		return;
	drop_asks(l, holder, NULL);
	move(holder, &nothing);
	holder->account = NULL;
	list_remove(&holder->link);
	/* At the end: a stale pointer to it meets an unused holder for as long as possible. */
	list_append(&l->free_holders, &holder->link);
}

int ledger_adopt(struct ledger *l, struct ledger_holder *holder, uint64_t allocated,
		 uint64_t credit_bytes, uint64_t residual)
{
	struct ledger_account *a = holder->account;
	struct amounts now = {0, 0, 0, 0};
	uint64_t most;

	(void)l;
	holder->reserved = 0;
	move(holder, &now);
	most = left_of(a->highest_limit, charged(&a->sum));
	now.granted = now.allocated = least(allocated, most);
	now.residual = least(residual, most - now.allocated);
	move(holder, &now);
	a->unsaid -= least(a->unsaid, now.allocated + now.residual);
	if (credit_bytes > account_room(a))
		return LEDGER_OVER;
	if (credit_bytes > left_of(device_room(a->device), unsaid(a->device, a)))
		return LEDGER_FULL;
	a->unsaid -= least(a->unsaid, credit_bytes);
	now.granted += credit_bytes;
	move(holder, &now);
	return 0;
}

int ledger_ask(struct ledger *l, struct ledger_holder *holder, const struct ledger_request *request,
	       uint64_t now_ns)
{
	struct ledger_account *a = holder->account;
	struct ask *ask;

	if (list_empty(&l->free_asks) || holder->asks == l->limits.asks_per_holder)
		return LEDGER_TABLE;
	ask = list_entry(l->free_asks.next, struct ask, link);
	list_remove(&ask->link);
	*ask = (struct ask){
		.holder = holder, .request = *request, .round = ++l->round, .looks = l->looks};
	if (request->may_wait && a->wait_ns) {
		ask->deadline = now_ns + a->wait_ns;
		ask->look_at = now_ns + l->limits.look_ns;
	}
	if (holder->recall_until <= now_ns)
		holder->recall_until = 0;
	holder->asks++;
	list_append(&a->device->asks, &ask->link);
	return 0;
}

int ledger_return(struct ledger *l, struct ledger_holder *holder, uint64_t bytes,
		  int answers_recall)
{
	struct amounts now = holder->has;
	uint64_t most = now.granted - now.evicted;
	int r = bytes > most ? LEDGER_HELD : 0;

	(void)l;
	if (answers_recall)
		holder->recall_until = 0;
	now.granted -= least(bytes, most);
	now.allocated = least(now.allocated, now.granted);
	move(holder, &now);
	return r;
}

void ledger_report(struct ledger *l, struct ledger_holder *holder, uint64_t allocated)
{
	struct amounts now = holder->has;

	(void)l;
	now.allocated = least(allocated, now.granted);
	if (now.allocated < now.evicted)
		now.allocated = now.evicted;
	move(holder, &now);
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

void ledger_measured(struct ledger *l, struct ledger_holder *holder, uint64_t lowest,
		     uint64_t highest, uint64_t settled)
{
	struct amounts now = holder->has;
	uint64_t known;

	(void)l;
	holder->reserved -= least(holder->reserved, settled);
	known = least(left_of(now.residual, holder->reserved), highest);
	now.residual = (known < lowest ? lowest : known) + holder->reserved;
	move(holder, &now);
}

void ledger_between(struct ledger *l, struct ledger_holder *holder, uint64_t lowest,
		    uint64_t highest)
{
	struct amounts now = holder->has;

	(void)l;
	if (now.residual > highest + holder->reserved)
		now.residual = highest + holder->reserved;
	if (now.residual < lowest)
		now.residual = lowest;
	move(holder, &now);
}

int ledger_evict(struct ledger *l, struct ledger_holder *holder, uint64_t bytes)
{
	struct amounts now = holder->has;

	(void)l;
	if (bytes > now.allocated - now.evicted)
		return LEDGER_HELD;
	now.evicted += bytes;
	move(holder, &now);
	return 0;
}

int ledger_restore(struct ledger *l, struct ledger_holder *holder, uint64_t bytes)
{
	const struct ledger_device *d = holder->account->device;
	struct amounts now = holder->has;

	(void)l;
	if (bytes > now.evicted)
		return LEDGER_HELD;
	if (bytes > left_of(device_room(d), unsaid(d, NULL)))
		return LEDGER_FULL;
	now.evicted -= bytes;
	move(holder, &now);
	return 0;
}

int ledger_free_evicted(struct ledger *l, struct ledger_holder *holder, uint64_t bytes)
{
	struct amounts now = holder->has;

	(void)l;
	if (bytes > now.evicted)
		return LEDGER_HELD;
	now.evicted -= bytes;
	now.allocated -= bytes;
	now.granted -= bytes;
	move(holder, &now);
	return 0;
}

int ledger_fits(const struct ledger *l, const struct ledger_holder *holder, uint64_t bytes)
{
	const struct ledger_account *a = holder->account;

	(void)l;
	return !a->expected && bytes <= account_room(a) &&
	       bytes <= left_of(device_room(a->device), unsaid(a->device, NULL));
}

static struct ledger_sums sums_of(const struct amounts *a)
{
	return (struct ledger_sums){.granted = a->granted,
				    .allocated = a->allocated,
				    .evicted = a->evicted,
				    .residual = a->residual};
}

static uint32_t count_asks(const struct ledger_device *d, const struct ledger_account *a,
			   const struct ledger_holder *h)
{
	uint32_t count = 0;

	list_for_each(link, (struct list *)&d->asks)
	{
		const struct ledger_holder *who = list_entry(link, struct ask, link)->holder;

		count += (!a || who->account == a) && (!h || who == h);
	}
	return count;
}

static uint32_t count_holders(const struct ledger_account *a)
{
	uint32_t count = 0;

	list_for_each(link, (struct list *)&a->holders) count++;
	return count;
}

void ledger_device_sums(const struct ledger *l, uint32_t index, struct ledger_sums *ret_sums)
{
	const struct ledger_device *d = &l->devices[index];

	*ret_sums = sums_of(&d->sum);
	ret_sums->limit = d->room_for_all;
	ret_sums->waiting = count_asks(d, NULL, NULL);
	list_for_each(link, (struct list *)&d->accounts) ret_sums->holders +=
		count_holders(list_entry(link, struct ledger_account, link));
}

void ledger_account_sums(const struct ledger_account *account, struct ledger_sums *ret_sums)
{
	*ret_sums = sums_of(&account->sum);
	ret_sums->limit = account->limit;
	ret_sums->peak = account->peak;
	ret_sums->refused = account->refused;
	ret_sums->waiting = count_asks(account->device, account, NULL);
	ret_sums->holders = count_holders(account);
}

void ledger_holder_sums(const struct ledger_holder *holder, struct ledger_sums *ret_sums)
{
	*ret_sums = sums_of(&holder->has);
	ret_sums->limit = holder->account->limit;
	ret_sums->waiting = count_asks(holder->account->device, NULL, holder);
	ret_sums->holders = 1;
}
