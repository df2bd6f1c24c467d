/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be done: who is granted, refused, asked to give back. The laws are in ledger.h. */
#include "core/ledger_book.h"

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
			uint64_t room = left_of(device_room(d), unsaid(d, NULL));
			uint64_t left = least(account_room(h->account), room) - bytes;

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

static int awaits_look(const struct ledger *l, const struct ask *ask)
{
	return l->looks - ask->looks < LEDGER_LOOKS;
}

static int any_unsettled(const struct ledger_device *d)
{
	list_for_each(link, (struct list *)&d->accounts)
	{
		if (list_entry(link, struct ledger_account, link)->unsettled)
			return 1;
	}
	return 0;
}

/* The tenant's own limit is in the way: only its own unused credit can help. */
static int lacks_limit(struct ledger *l, struct ask *ask, uint64_t now_ns,
		       struct ledger_action *ret)
{
	struct ledger_account *a = ask->holder->account;
	uint64_t bytes = ask->request.bytes;

	if (bytes <= left_of(a->limit, charged(&a->sum) - credit(&a->sum))) {
		/* It may be beyond its limit already: by what was measured. */
		if (recall_one(l, a, ask, charged(&a->sum) + bytes - a->limit, now_ns, ret))
			return 1;
		if (recall_pending(a, now_ns))
			return 0;
	}
	if (a->unsettled && awaits_look(l, ask))
		return 0;
	refuse(l, ask, LEDGER_OVER, ret);
	return 1;
}

/* Unused credit of anybody on the device that would make room for this ask. */
static int recall_room(struct ledger *l, struct ask *ask, uint64_t now_ns, int *ret_pending,
		       struct ledger_action *ret)
{
	struct ledger_device *d = ask->holder->account->device;
	uint64_t bytes = ask->request.bytes, room = device_room(d), lacking;

	*ret_pending = 0;
	if (bytes <= room || bytes > left_of(d->room_for_all, on_device(&d->sum) - credit(&d->sum)))
		return 0;
	lacking = on_device(&d->sum) + bytes - d->room_for_all;
	list_for_each(link, &d->accounts)
	{
		struct ledger_account *a = list_entry(link, struct ledger_account, link);

		if (recall_one(l, a, ask, lacking, now_ns, ret))
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
	if (pending || (in_time && ask->request.bytes <= left_of(a->device->room_for_all, own)) ||
	    ((in_time || !ask->deadline) && any_unsettled(a->device) && awaits_look(l, ask))) {
		*blocked |= ask->deadline != 0;
		return 0;
	}
	refuse(l, ask, ask->deadline && !in_time ? LEDGER_DEADLINE : LEDGER_FULL, ret);
	return 1;
}

static int next_of_device(struct ledger *l, struct ledger_device *d, uint64_t now_ns,
			  struct ledger_action *ret)
{
	uint64_t room = device_room(d), secret = unsaid(d, NULL);
	int blocked = 0;

	list_for_each(link, &d->asks)
	{
		struct ask *ask = list_entry(link, struct ask, link);
		struct ledger_account *a = ask->holder->account;
		uint64_t bytes = ask->request.bytes;
		int done;

		/* Until those who are expected have come; what may wait keeps its place. */
		if (a->expected)
			continue;
		if (bytes <= account_room(a) && bytes <= room && bytes > left_of(room, secret)) {
			blocked |= ask->deadline != 0;
			continue;
		}
		if (bytes > account_room(a)) {
			done = lacks_limit(l, ask, now_ns, ret);
		} else if (bytes > room || (blocked && now_ns < ask->deadline)) {
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
		if (next_of_device(l, &l->devices[i], now_ns, ret_action))
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

	if (list_empty(&d->asks))
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
