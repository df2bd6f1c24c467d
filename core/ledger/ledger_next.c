/* SPDX-License-Identifier: Apache-2.0 */
/* Decides the next action: what is granted, refused or recalled. The laws are in ledger.h. */
#include "core/ledger/ledger_book.h"

/* ---- recalls --------------------------------------------------------------------------------- */

/* An ask that waits for room searches for unused credit again whenever its device does. */
static uint64_t round_of(const struct ask *ask)
{
	uint64_t again = ask->deadline ? ask->holder->account->device->round : 0;

	return again > ask->round ? again : ask->round;
}

static int is_recallable(const struct ledger_holder *h)
{
	return list_linked(&h->of_recallable);
}

/* One of the account's holders with unused credit that was not asked since `round`. A search in
 * vain is remembered: it is not repeated until another holder has unused credit. */
static struct ledger_holder *recallable_of_account(struct ledger_account *a, uint64_t round)
{
	uint64_t lowest = UINT64_MAX;

	if (a->lowest_round >= round)
		return NULL;
	list_for_each(link, &a->holders)
	{
		struct ledger_holder *h = list_entry(link, struct ledger_holder, link);

		if (is_recallable(h) && h->recalled_round < round)
			return h;
		if (is_recallable(h))
			lowest = least(lowest, h->recalled_round);
	}
	a->lowest_round = lowest;
	return NULL;
}

/* Likewise, of anybody's on the device. */
static struct ledger_holder *recallable_of_device(struct ledger_device *d, uint64_t round)
{
	uint64_t lowest = UINT64_MAX;

	if (d->lowest_round >= round)
		return NULL;
	list_for_each(link, &d->recallable)
	{
		struct ledger_holder *h = list_entry(link, struct ledger_holder, of_recallable);

		if (h->recalled_round < round)
			return h;
		lowest = least(lowest, h->recalled_round);
	}
	d->lowest_round = lowest;
	return NULL;
}

static void recall(struct ledger *l, struct ledger_holder *h, uint64_t lacking, uint64_t now_ns,
		   struct ledger_action *ret)
{
	/* The latest round: this holder has been recalled on behalf of every ask so far. */
	h->former_round = h->recalled_round;
	h->recalled_round = l->round;
	h->recall_bytes = least(credit(&h->has), lacking);
	h->recall_until = now_ns + l->limits.recall_ns;
	list_append(&h->account->device->recalled, &h->recalled);
	h->account->pending++;
	note_credit(h);
	*ret = (struct ledger_action){.verb = LEDGER_RECALL, .holder = h, .bytes = h->recall_bytes};
}

/* A holder that did not answer in time is not waited for. */
static void expire_recalls(struct ledger_device *d, uint64_t now_ns)
{
	list_for_each(link, &d->recalled)
	{
		struct ledger_holder *h = list_entry(link, struct ledger_holder, recalled);

		if (h->recall_until > now_ns)
			return;
		end_recall(h);
	}
}

/* ---- holders' reports ------------------------------------------------------------------------ */

/* Since the round began that the ask is in. */
static int seen_for(const struct ask *ask, const struct refreshed *at)
{
	return at->round >= round_of(ask);
}

/* Up to date: memory that was freed into credit meanwhile, without a message, is known. */
static int seen_now(const struct ledger *l, const struct refreshed *at, uint64_t now_ns)
{
	return at->event == l->event && at->ns == now_ns;
}

static void refresh(struct ledger *l, struct refreshed *at, struct ledger_account *a,
		    const struct ledger_device *d, uint64_t now_ns, struct ledger_action *ret)
{
	*at = (struct refreshed){l->round, l->event, now_ns};
	*ret = (struct ledger_action){
		.verb = LEDGER_REFRESH, .account = a, .device = (uint32_t)(d - l->devices)};
}

/* ---- decisions ------------------------------------------------------------------------------- */

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
	int alone = d->waiting == 1;

	if (q->residual) {
		now.residual += q->residual == LEDGER_ROOM ? 0 : bytes;
		now.guessed += q->residual == LEDGER_ROOM ? 0 : bytes;
	} else {
		/* Grants more than is needed only if others will not miss it soon: a sixteenth
		 * of what is left, and nothing while another ask waits. */
		if (alone && q->want > bytes) {
			uint64_t room = left_of(device_room(d), unsaid(d, NULL));
			uint64_t left = least(least(account_room(h->account), room),
					      room_above(h->account)) -
					bytes;

			bytes += least(q->want - bytes, left / 16);
		}
		now.granted += bytes;
	}
	set_amounts(h, &now);
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

/* What is in an ask's way: `used` of `limit`, of which `guessed` may be less once it is measured.
 */
struct way {
	uint64_t limit, used, guessed;
	int unsettled;
};

/* Would it perhaps be granted once what is in its way has been measured? */
static int awaits_measure(const struct ledger *l, const struct ask *ask, const struct way *way,
			  uint64_t now_ns)
{
	if (way->unsettled && awaits_look(l, ask))
		return 1;
	return way->guessed && now_ns < ask->guess_until &&
	       ask->request.bytes <= left_of(way->limit, left_of(way->used, way->guessed));
}

static int is_in_time(const struct ask *ask, uint64_t now_ns)
{
	return ask->deadline && now_ns < ask->deadline;
}

/* Others are in its way, too: beside `own` of its account alone it may have room. */
static int awaits_others(const struct ledger *l, const struct ask *ask, const struct way *way,
			 uint64_t own, uint64_t now_ns)
{
	if (is_in_time(ask, now_ns) && ask->request.bytes <= left_of(way->limit, own))
		return 1;
	return (is_in_time(ask, now_ns) || !ask->deadline) && awaits_measure(l, ask, way, now_ns);
}

/* Decides about an ask that cannot be granted. */
enum outcome {
	STAYS,
	ACTS, /* *ret is the action; the ask may continue to wait */
	DONE, /* likewise, and it was answered */
};

/* The tenant's own limit is in the way: only its own unused credit can help. */
static enum outcome lacks_limit(struct ledger *l, struct ask *ask, uint64_t now_ns,
				struct ledger_action *ret)
{
	struct ledger_account *a = ask->holder->account;
	struct way way = {a->limit, charged_all(a), a->sum.guessed, a->unsettled};
	uint64_t bytes = ask->request.bytes;

	if (!seen_for(ask, &a->refreshed)) {
		refresh(l, &a->refreshed, a, a->device, now_ns, ret);
		return ACTS;
	}
	if (bytes <= left_of(a->limit, charged_all(a) - credit(&a->sum))) {
		struct ledger_holder *h = recallable_of_account(a, round_of(ask));

		/* A measurement may have put it over its limit already. */
		if (h) {
			recall(l, h, charged_all(a) + bytes - a->limit, now_ns, ret);
			return ACTS;
		}
		if (a->pending)
			return STAYS;
	}
	if (awaits_measure(l, ask, &way, now_ns))
		return STAYS;
	if (!seen_now(l, &a->refreshed, now_ns)) {
		refresh(l, &a->refreshed, a, a->device, now_ns, ret);
		return ACTS;
	}
	refuse(l, ask, LEDGER_OVER, ret);
	return DONE;
}

static struct ledger_holder *recallable_within(struct ledger_device *d,
					       const struct ledger_account *part, uint64_t round)
{
	list_for_each(link, &d->recallable)
	{
		struct ledger_holder *h = list_entry(link, struct ledger_holder, of_recallable);

		if (h->recalled_round < round && is_within(h->account, part))
			return h;
	}
	return NULL;
}

static int recalls_within(const struct ledger_device *d, const struct ledger_account *part)
{
	list_for_each(link, (struct list *)&d->recalled)
	{
		if (is_within(list_entry(link, struct ledger_holder, recalled)->account, part))
			return 1;
	}
	return 0;
}

/* An enclosing account has no room: recall unused credit of the other accounts within it, or wait.
 * Accounts outside it do not wait for this ask. */
static enum outcome lacks_part(struct ledger *l, struct ask *ask, struct ledger_account *part,
			       uint64_t now_ns, struct ledger_action *ret)
{
	struct ledger_account *a = ask->holder->account;
	struct ledger_device *d = a->device;
	struct way way = {part->limit, charged_all(part), d->sum.guessed, d->unsettled};
	struct ledger_holder *h;

	if (!seen_for(ask, &d->refreshed)) {
		refresh(l, &d->refreshed, NULL, d, now_ns, ret);
		return ACTS;
	}
	h = ask->request.bytes <= part->limit ? recallable_within(d, part, round_of(ask)) : NULL;
	if (h) {
		recall(l, h, charged_all(part) + ask->request.bytes - part->limit, now_ns, ret);
		return ACTS;
	}
	if (recalls_within(d, part) || awaits_others(l, ask, &way, charged(&a->sum), now_ns))
		return STAYS;
	if (!seen_now(l, &d->refreshed, now_ns)) {
		refresh(l, &d->refreshed, NULL, d, now_ns, ret);
		return ACTS;
	}
	refuse(l, ask, ask->deadline && !is_in_time(ask, now_ns) ? LEDGER_DEADLINE : LEDGER_PART,
	       ret);
	return DONE;
}

/* Finds unused credit of any holder on the device that would make room for this ask. *pending:
 * it was already recalled. */
static int recall_room(struct ledger *l, struct ask *ask, uint64_t now_ns, int *pending,
		       struct ledger_action *ret)
{
	struct ledger_device *d = ask->holder->account->device;
	uint64_t bytes = ask->request.bytes;
	struct ledger_holder *h;

	*pending = 0;
	if (bytes <= device_room(d))
		return 0;
	if (!seen_for(ask, &d->refreshed)) {
		refresh(l, &d->refreshed, NULL, d, now_ns, ret);
		return 1;
	}
	if (bytes > left_of(d->room_for_all, left_of(d->booked, credit(&d->sum)) + d->outside))
		return 0;
	h = recallable_of_device(d, round_of(ask));
	if (h)
		recall(l, h, d->booked + d->outside + bytes - d->room_for_all, now_ns, ret);
	*pending = !list_empty(&d->recalled);
	return h != NULL;
}

/* The device is full, or others were first: recall, then wait. *blocked: later asks that may
 * wait come after this one. */
static enum outcome lacks_room(struct ledger *l, struct ask *ask, uint64_t now_ns, int *blocked,
			       struct ledger_action *ret)
{
	struct ledger_account *a = ask->holder->account;
	struct ledger_device *d = a->device;
	struct way way = {d->room_for_all, d->booked + d->outside, d->sum.guessed, d->unsettled};
	uint64_t own = left_of(a->booked, credit(&a->sum));
	int pending;

	if (recall_room(l, ask, now_ns, &pending, ret))
		return ACTS;
	if (pending || awaits_others(l, ask, &way, own, now_ns)) {
		*blocked |= ask->deadline != 0;
		return STAYS;
	}
	if (!seen_now(l, &d->refreshed, now_ns)) {
		refresh(l, &d->refreshed, NULL, d, now_ns, ret);
		return ACTS;
	}
	refuse(l, ask, ask->deadline && !is_in_time(ask, now_ns) ? LEDGER_DEADLINE : LEDGER_FULL,
	       ret);
	return DONE;
}

static enum outcome decide(struct ledger *l, struct ask *ask, uint64_t now_ns, int *blocked,
			   struct ledger_action *ret)
{
	struct ledger_account *a = ask->holder->account;
	uint64_t bytes = ask->request.bytes, room = device_room(a->device);
	struct ledger_account *part;

	/* Until the expected guests have come; asks that may wait keep their places. */
	if (a->expected || a->held || (a->unsettled == LEDGER_OWED && awaits_look(l, ask)) ||
	    may_be_held(a, bytes))
		return STAYS;
	if (bytes <= account_room(a) && bytes <= room &&
	    bytes > left_of(room, unsaid(a->device, NULL))) {
		*blocked |= ask->deadline != 0;
		return STAYS;
	}
	if (bytes > account_room(a))
		return lacks_limit(l, ask, now_ns, ret);
	part = full_above(a, bytes);
	if (part)
		return lacks_part(l, ask, part, now_ns, ret);
	if (bytes > room || (*blocked && now_ns < ask->deadline))
		return lacks_room(l, ask, now_ns, blocked, ret);
	grant(l, ask, ret);
	return DONE;
}

/* Law 11. */
static int recall_over(struct ledger *l, struct ledger_device *d, uint64_t now_ns,
		       struct ledger_action *ret)
{
	while (!list_empty(&d->over)) {
		struct ledger_account *a = list_entry(d->over.next, struct ledger_account, over);
		uint64_t too_much = left_of(charged(&a->sum), a->limit);
		struct ledger_holder *h = too_much ? recallable_of_account(a, a->over_round) : NULL;

		if (h) {
			recall(l, h, too_much, now_ns, ret);
			return 1;
		}
		list_remove(&a->over);
	}
	return 0;
}

static int next_of_device(struct ledger *l, struct ledger_device *d, uint64_t now_ns,
			  struct ledger_action *ret)
{
	struct place *at = &l->place;
	struct list *link = at->next ? at->next : d->asks.next;

	while (link != &d->asks) {
		struct list *after = link->next;
		enum outcome r =
			decide(l, list_entry(link, struct ask, link), now_ns, &at->blocked, ret);

		if (r != STAYS) {
			at->next = r == DONE ? after : link;
			return 1;
		}
		link = after;
	}
	at->next = NULL;
	at->blocked = 0;
	return 0;
}

/* After an event, or some time: from the beginning. */
static void begin(struct ledger *l, uint64_t now_ns)
{
	l->place = (struct place){.event = l->event, .ns = now_ns};
	for (uint32_t i = 0; i < l->count; i++) {
		struct ledger_device *d = &l->devices[i];

		expire_recalls(d, now_ns);
		/* Finds memory that was freed into credit since the last time. */
		if (!d->patient || now_ns < d->refresh_at)
			continue;
		d->refresh_at = now_ns + l->limits.refresh_ns;
		d->round = ++l->round;
	}
}

int ledger_next(struct ledger *l, uint64_t now_ns, struct ledger_action *ret_action)
{
	struct place *at = &l->place;

	if (at->event != l->event || at->ns != now_ns)
		begin(l, now_ns);
	for (; at->device < l->count; at->device++) {
		if (recall_over(l, &l->devices[at->device], now_ns, ret_action) ||
		    next_of_device(l, &l->devices[at->device], now_ns, ret_action))
			return 1;
	}
	at->ns = 0; /* the next call begins again */
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
	if (d->patient)
		sooner(&deadline, d->refresh_at, now_ns);
	list_for_each(link, (struct list *)&d->asks)
	{
		const struct ask *ask = list_entry(link, struct ask, link);

		sooner(&deadline, ask->deadline, now_ns);
		if (d->sum.guessed)
			sooner(&deadline, ask->guess_until, now_ns);
	}
	list_for_each(link, (struct list *)&d->recalled)
	{
		uint64_t until = list_entry(link, struct ledger_holder, recalled)->recall_until;

		sooner(&deadline, until, now_ns);
		if (until > now_ns)
			break; /* the others are later */
	}
	return deadline;
}

uint64_t ledger_deadline(const struct ledger *l, uint64_t now_ns)
{
	uint64_t deadline = 0;

	for (uint32_t i = 0; i < l->count; i++)
		sooner(&deadline, device_deadline(&l->devices[i], now_ns), now_ns);
	return deadline;
}
