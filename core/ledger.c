/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger.h"

#include <string.h>

/* Summed over holders for their account and their device. */
struct amounts {
	uint64_t granted;   /* credit + allocated */
	uint64_t allocated; /* of granted */
	uint64_t evicted;   /* of allocated */
	uint64_t residual;  /* measured + reserved */
};

struct ledger_device {
	uint64_t room_for_all; /* capacity - reserve */
	struct amounts sum;
	struct list accounts;
	struct list asks; /* in the order of asking */
	int held;
};

struct ledger_account {
	struct list link; /* of the device, or of the free ones */
	struct ledger_device *device;
	struct list holders;
	struct amounts sum;
	uint64_t limit, highest_limit, wait_ns, peak, refused;
};

struct ledger_holder {
	struct list link; /* of the account, or of the free ones */
	struct ledger_account *account;
	void *owner;
	struct amounts has;
	uint64_t reserved; /* of residual: not measured yet */
	/* A recall is under way, until then; afterwards the holder is deaf: it is neither asked nor
	 * waited for again before it has answered, late as that may be, or asked itself. 0: none */
	uint64_t recall_until;
	uint64_t recalled_round; /* the latest round in which it was asked */
	uint32_t asks;
};

struct ask {
	struct list link; /* of the device, or of the free ones */
	struct ledger_holder *holder;
	struct ledger_request request;
	uint64_t deadline; /* of waiting for room; 0: does not wait */
	uint64_t look_at;  /* when to look for unused credit again */
	uint64_t round;	   /* who was recalled in an earlier round is asked again */
};

struct ledger {
	struct ledger_limits limits;
	uint64_t round;
	struct ledger_device *devices;
	struct list free_accounts, free_holders, free_asks;
};

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

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
	return used < limit ? limit - used : 0;
}

/* What counts against a tenant's limit: evicted memory, too. */
static uint64_t charged(const struct amounts *sum)
{
	return sum->granted + sum->residual;
}

/* What the device must have room for. */
static uint64_t on_device(const struct amounts *sum)
{
	return sum->granted - sum->evicted + sum->residual;
}

static uint64_t credit(const struct amounts *sum)
{
	return sum->granted - sum->allocated;
}

static uint64_t account_room(const struct ledger_account *a)
{
	return left_of(a->limit, charged(&a->sum));
}

static uint64_t device_room(const struct ledger_device *d)
{
	return left_of(d->room_for_all, on_device(&d->sum));
}

/* The only place where amounts change: all three books together. */
static void move(struct ledger_holder *h, const struct amounts *now)
{
	struct ledger_account *a = h->account;
	struct amounts *books[] = {&a->sum, &a->device->sum};

	for (size_t i = 0; i < ARRAY_SIZE(books); i++) {
		books[i]->granted += now->granted - h->has.granted;
		books[i]->allocated += now->allocated - h->has.allocated;
		books[i]->evicted += now->evicted - h->has.evicted;
		books[i]->residual += now->residual - h->has.residual;
	}
	h->has = *now;
	if (a->sum.allocated + a->sum.residual > a->peak)
		a->peak = a->sum.allocated + a->sum.residual;
}

void ledger_set_device(struct ledger *l, uint32_t index, uint64_t capacity, uint64_t reserve)
{
	l->devices[index].room_for_all = left_of(capacity, reserve);
}

void ledger_hold(struct ledger *l, uint32_t index, int held)
{
	l->devices[index].held = held;
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

static void drop_ask(struct ledger *l, struct ask *ask)
{
	ask->holder->asks--;
	list_remove(&ask->link);
	list_append(&l->free_asks, &ask->link);
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
	if (credit_bytes > account_room(a))
		return LEDGER_OVER;
	if (credit_bytes > device_room(a->device))
		return LEDGER_FULL;
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
	*ask = (struct ask){.holder = holder, .request = *request, .round = ++l->round};
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

void ledger_measured(struct ledger *l, struct ledger_holder *holder, uint64_t residual,
		     uint64_t settled)
{
	struct amounts now = holder->has;

	(void)l;
	holder->reserved -= least(holder->reserved, settled);
	now.residual = residual + holder->reserved;
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
	struct amounts now = holder->has;

	(void)l;
	if (bytes > now.evicted)
		return LEDGER_HELD;
	if (bytes > device_room(holder->account->device))
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
	return bytes <= account_room(a) && bytes <= device_room(a->device);
}

/* A recall to one holder that has unused credit and was not asked in this ask's round. */
static int recall_one(struct ledger *l, struct ledger_account *a, struct ask *ask, uint64_t lacking,
		      uint64_t now_ns, struct ledger_action *ret)
{
	list_for_each(link, &a->holders)
	{
		struct ledger_holder *h = list_entry(link, struct ledger_holder, link);

		if (!credit(&h->has) || h->recall_until || h->recalled_round >= ask->round)
			continue;
		/* The latest round there is: every ask so far has been heard by this holder. */
		h->recalled_round = l->round;
		h->recall_until = now_ns + l->limits.recall_ns;
		*ret = (struct ledger_action){.verb = LEDGER_RECALL,
					      .holder = h,
					      .bytes = least(credit(&h->has), lacking)};
		return 1;
	}
	return 0;
}

static int recall_pending(const struct ledger_account *a, uint64_t now_ns)
{
	list_for_each(link, (struct list *)&a->holders)
	{
		if (list_entry(link, struct ledger_holder, link)->recall_until > now_ns)
			return 1;
	}
	return 0;
}

static void refuse(struct ledger *l, struct ask *ask, uint32_t reason, struct ledger_action *ret)
{
	*ret = (struct ledger_action){.verb = LEDGER_REFUSE,
				      .holder = ask->holder,
				      .id = ask->request.id,
				      .bytes = ask->request.bytes,
				      .residual = ask->request.residual,
				      .reason = reason};
	ask->holder->account->refused++;
	drop_ask(l, ask);
}

static void grant(struct ledger *l, struct ask *ask, struct ledger_action *ret)
{
	const struct ledger_request *q = &ask->request;
	struct ledger_holder *h = ask->holder;
	struct ledger_device *d = h->account->device;
	struct amounts now = h->has;
	uint64_t bytes = q->bytes;
	int alone = ask->link.next == ask->link.prev;

	if (q->residual) {
		h->reserved += bytes;
		now.residual += bytes;
	} else {
		/* More than is needed only where it cannot be missed soon: a sixteenth of what is
		 * left, and nothing while anybody else is asking. */
		if (alone && q->want > bytes) {
			uint64_t left = least(account_room(h->account), device_room(d)) - bytes;

			bytes += least(q->want - bytes, left / 16);
		}
		now.granted += bytes;
	}
	move(h, &now);
	*ret = (struct ledger_action){.verb = LEDGER_GRANT,
				      .holder = h,
				      .id = q->id,
				      .bytes = bytes,
				      .residual = q->residual};
	drop_ask(l, ask);
}

/* The tenant's own limit is in the way: only its own unused credit can help. */
static int lacks_limit(struct ledger *l, struct ask *ask, uint64_t now_ns,
		       struct ledger_action *ret)
{
	struct ledger_account *a = ask->holder->account;
	uint64_t bytes = ask->request.bytes;

	if (bytes <= left_of(a->limit, charged(&a->sum) - credit(&a->sum))) {
		if (recall_one(l, a, ask, bytes - account_room(a), now_ns, ret))
			return 1;
		if (recall_pending(a, now_ns))
			return 0;
	}
	refuse(l, ask, LEDGER_OVER, ret);
	return 1;
}

/* Unused credit of anybody on the device that would make room for this ask. */
static int recall_room(struct ledger *l, struct ask *ask, uint64_t now_ns, int *ret_pending,
		       struct ledger_action *ret)
{
	struct ledger_device *d = ask->holder->account->device;
	uint64_t bytes = ask->request.bytes, room = device_room(d);

	*ret_pending = 0;
	if (bytes <= room || bytes > left_of(d->room_for_all, on_device(&d->sum) - credit(&d->sum)))
		return 0;
	list_for_each(link, &d->accounts)
	{
		struct ledger_account *a = list_entry(link, struct ledger_account, link);

		if (recall_one(l, a, ask, bytes - room, now_ns, ret))
			return 1;
		*ret_pending |= recall_pending(a, now_ns);
	}
	return 0;
}

/* The device is full, or others were first: recalls, then waiting. *blocked: later asks that may
 * wait come after this one. */
static int lacks_room(struct ledger *l, struct ask *ask, uint64_t now_ns, int *blocked,
		      struct ledger_action *ret)
{
	struct ledger_account *a = ask->holder->account;
	uint64_t own = on_device(&a->sum) - credit(&a->sum);
	int in_time = ask->deadline && now_ns < ask->deadline, pending;

	/* A new round: what was freed into somebody's credit since the last one is found. */
	if (in_time && now_ns >= ask->look_at) {
		ask->look_at = now_ns + l->limits.look_ns;
		ask->round = ++l->round;
	}
	if (recall_room(l, ask, now_ns, &pending, ret))
		return 1;
	if (pending || (in_time && ask->request.bytes <= left_of(a->device->room_for_all, own))) {
		*blocked |= ask->deadline != 0;
		return 0;
	}
	refuse(l, ask, ask->deadline && !in_time ? LEDGER_DEADLINE : LEDGER_FULL, ret);
	return 1;
}

static int next_of_device(struct ledger *l, struct ledger_device *d, uint64_t now_ns,
			  struct ledger_action *ret)
{
	int blocked = 0;

	list_for_each(link, &d->asks)
	{
		struct ask *ask = list_entry(link, struct ask, link);
		struct ledger_account *a = ask->holder->account;
		uint64_t bytes = ask->request.bytes;
		int done;

		if (bytes > account_room(a)) {
			done = lacks_limit(l, ask, now_ns, ret);
		} else if (bytes > device_room(d) || (ask->deadline && blocked)) {
			done = lacks_room(l, ask, now_ns, &blocked, ret);
		} else {
			grant(l, ask, ret);
			done = 1;
		}
		if (done)
			return 1;
	}
	return 0;
}

int ledger_next(struct ledger *l, uint64_t now_ns, struct ledger_action *ret_action)
{
	for (uint32_t i = 0; i < l->limits.devices; i++) {
		if (!l->devices[i].held && next_of_device(l, &l->devices[i], now_ns, ret_action))
			return 1;
	}
	return 0;
}

/* The times that have passed were acted on, or wait for one of the others. */
static void sooner(uint64_t *deadline, uint64_t other, uint64_t now_ns)
{
	if (other > now_ns && (!*deadline || other < *deadline))
		*deadline = other;
}

static uint64_t device_deadline(const struct ledger_device *d, uint64_t now_ns)
{
	uint64_t deadline = 0;

	if (d->held || list_empty(&d->asks))
		return 0;
	list_for_each(link, (struct list *)&d->asks)
	{
		struct ask *ask = list_entry(link, struct ask, link);

		sooner(&deadline, ask->deadline, now_ns);
		sooner(&deadline, ask->look_at, now_ns);
	}
	list_for_each(at, (struct list *)&d->accounts)
	{
		struct ledger_account *a = list_entry(at, struct ledger_account, link);

		list_for_each(link, &a->holders)
			sooner(&deadline,
			       list_entry(link, struct ledger_holder, link)->recall_until, now_ns);
	}
	return deadline;
}

uint64_t ledger_deadline(const struct ledger *l, uint64_t now_ns)
{
	uint64_t deadline = 0;

	for (uint32_t i = 0; i < l->limits.devices; i++)
		sooner(&deadline, device_deadline(&l->devices[i], now_ns), now_ns);
	return deadline;
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
