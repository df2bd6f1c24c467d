/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's structures, for its own files, which core/ledger/ledger.h names. No other file
 * includes this.
 */
#pragma once

#include <string.h>

#include "base/least.h"
#include "core/ledger/ledger.h"

/* Summed over holders for their account and their device. */
struct amounts {
	uint64_t granted;   /* credit + allocated */
	uint64_t allocated; /* of granted */
	uint64_t evicted;   /* of allocated */
	uint64_t residual;  /* core/ledger/residual.h's charge */
	uint64_t guessed;   /* of residual, perhaps more than there is */
	uint64_t used;	    /* what the driver last reported for the holders */
};

/* The latest event when the reports of a scope's holders were last updated. */
struct refreshed {
	uint64_t round, event, ns;
};

struct ledger_device {
	uint64_t room_for_all; /* capacity - reserve */
	uint64_t outside;      /* part of it: in use, but no account's */
	int unsure;	       /* whether so much still is */
	struct amounts sum;
	uint64_t booked; /* of all accounts */
	uint64_t unsaid; /* likewise */
	uint32_t unsettled, holders, waiting;
	uint32_t patient;	/* asks that wait until a deadline */
	struct list asks;	/* in the order of asking */
	struct list changed;	/* accounts that ledger_changed() has not named yet */
	struct list over;	/* accounts that exceed what they may have */
	struct list recallable; /* holders with unused credit that can be recalled */
	uint64_t lowest_round;	/* no holder was recalled before this one */
	struct list recalled;	/* in progress, in the order of time */
	uint64_t refresh_at;	/* while an ask waits: when to search for unused credit again */
	uint64_t round;		/* of the latest such search */
	struct refreshed refreshed;
};

struct ledger_account {
	struct list link; /* of the free ones */
	struct ledger_device *device;
	struct ledger_account *above; /* within which it is; NULL: none */
	uint64_t below;		      /* charged to the accounts within this one, or counted: */
	uint32_t within;	      /* how many these are, but for those within them */
	int several;		      /* of several owners: a guest that lies harms only itself */
	uint64_t counted;	      /* what it counts as towards such an account: law 12 */
	struct list holders;
	uint32_t holder_count, waiting;
	uint32_t sure;	       /* asks that wait in places that are sure */
	uint32_t pending;      /* recalls under way */
	uint64_t lowest_round; /* like the device's */
	struct refreshed refreshed;
	struct list changed; /* of the device */
	struct list over;    /* likewise */
	uint64_t over_round; /* when that was */
	void *owner;	     /* NULL: nobody watches */
	struct amounts sum;
	uint64_t limit, highest_limit, wait_ns, peak, refused;
	uint64_t bound;	       /* the most that it counts as on its own claim: its limit, or what it
				  counted as when that was lowered and has not returned since */
	uint64_t booked;       /* what it counts for */
	uint64_t most_charged; /* ever */
	uint64_t unsaid;       /* what expected guests may hold beyond what they have stated */
	uint64_t unsaid_within; /* likewise, of the accounts within this one */
	int expected, held;
	enum ledger_unsettled unsettled;
};

struct ledger_holder {
	struct list link; /* of the account, or of the free ones */
	struct ledger_account *account;
	void *owner;
	struct amounts has;
	uint64_t most_granted; /* ever */
	/* A recall is in progress until this time. Afterwards the holder is deaf: it is neither
	 * asked nor waited for until it has answered, however late, or made an ask. 0: none */
	uint64_t recall_until;
	uint64_t recalled_round;	     /* the latest round in which it was asked */
	uint64_t former_round;		     /* the one before */
	uint64_t recall_bytes;		     /* what it was asked for then */
	struct list of_recallable, recalled; /* of the device */
	struct list asks;
	uint32_t ask_count;
};

struct ask {
	struct list link; /* of the device, or of the free ones */
	struct list own;  /* of the holder */
	struct ledger_holder *holder;
	struct ledger_request request;
	uint64_t deadline; /* of waiting for room; 0: does not wait */
	uint64_t since_ns;
	uint64_t guess_until; /* it waits for guesses to be measured */
	uint64_t round;	      /* holders recalled in an earlier round are asked again */
	uint64_t looks;	      /* the ledger's, when it was asked */
	int sure;	      /* it uses one of the places reserved for its account */
};

/* Objects of one size. Those that were never in use follow those that were. */
struct pool {
	char *memory;
	size_t size, offset; /* of one; of its link */
	uint32_t used, most;
	struct list free;
};

/* Where ledger_next() continues: its own actions help no ask that it has already passed. */
struct place {
	uint64_t event, ns;
	uint32_t device;
	struct list *next; /* NULL: the device's first */
	int blocked;
};

struct ledger {
	struct ledger_limits limits;
	uint32_t count; /* of the devices that are there */
	uint64_t round;
	uint64_t event; /* counts the caller's events, except reports */
	uint64_t looks; /* measurements that have ended */
	uint32_t common_asks;
	struct ledger_device *devices;
	struct pool accounts, holders, asks;
	struct place place;
};

static inline uint64_t left_of(uint64_t limit, uint64_t used)
{
	return used < limit ? limit - used : 0;
}

/* The bytes that count against a tenant's limit, including evicted memory. */
static inline uint64_t charged(const struct amounts *sum)
{
	return sum->granted + sum->residual;
}

/* The bytes that the device must have room for: law 10. */
static inline uint64_t towards_others(const struct ledger_account *a)
{
	uint64_t bound = most(most(a->bound, a->sum.granted), a->sum.used + a->sum.evicted);

	return least(charged(&a->sum), bound) - a->sum.evicted;
}

static inline uint64_t credit(const struct amounts *sum)
{
	return sum->granted - sum->allocated;
}

/* The same, including what the accounts within it have. */
static inline uint64_t charged_all(const struct ledger_account *a)
{
	return charged(&a->sum) + a->below;
}

static inline uint64_t account_room(const struct ledger_account *a)
{
	return left_of(a->limit, charged_all(a));
}

/* The innermost enclosing account without room for so many bytes; NULL: all have room. */
static inline struct ledger_account *full_above(const struct ledger_account *a, uint64_t bytes)
{
	struct ledger_account *at = a->above;

	while (at && bytes <= account_room(at))
		at = at->above;
	return at;
}

static inline uint64_t room_above(const struct ledger_account *a)
{
	uint64_t room = UINT64_MAX;

	for (const struct ledger_account *at = a->above; at; at = at->above)
		room = least(room, account_room(at));
	return room;
}

static inline int is_within(const struct ledger_account *a, const struct ledger_account *other)
{
	while (a && a != other)
		a = a->above;
	return a != NULL;
}

static inline uint64_t device_room(const struct ledger_device *d)
{
	return left_of(d->room_for_all, d->booked + d->outside);
}

/* Room that guests of other accounts may hold but have not stated yet. */
static inline uint64_t unsaid(const struct ledger_device *d, const struct ledger_account *except)
{
	return d->unsaid - (except ? except->unsaid : 0);
}

static inline void set_unsaid(struct ledger_account *a, uint64_t bytes)
{
	a->device->unsaid += bytes - a->unsaid;
	for (struct ledger_account *at = a->above; at; at = at->above)
		at->unsaid_within += bytes - a->unsaid;
	a->unsaid = bytes;
}

/* Whether the account, or one around it, has room for so many bytes only if guests of others there
 * hold less than they may: they are expected, and have not stated it yet. */
static inline bool may_be_held(const struct ledger_account *a, uint64_t bytes)
{
	for (const struct ledger_account *at = a; at; at = at->above) {
		uint64_t others = at->unsaid + at->unsaid_within - a->unsaid;

		if (bytes <= account_room(at) && bytes > left_of(account_room(at), others))
			return true;
	}
	return false;
}

static inline void note_change(struct ledger_account *a)
{
	if (a->owner && !list_linked(&a->changed))
		list_append(&a->device->changed, &a->changed);
}

/* Call it after the holder's credit, or a recall of it, has changed: updates whether it can be
 * recalled. */
static inline void note_credit(struct ledger_holder *h)
{
	struct ledger_device *d = h->account->device;
	struct list *first = d->recallable.next;

	if (!credit(&h->has) || h->recall_until) {
		list_remove(&h->of_recallable);
		return;
	}
	if (list_linked(&h->of_recallable))
		return;
	d->lowest_round = least(d->lowest_round, h->recalled_round);
	h->account->lowest_round = least(h->account->lowest_round, h->recalled_round);
	/* The holder most likely to be recalled next comes first. */
	if (list_empty(&d->recallable) ||
	    h->recalled_round <=
		    list_entry(first, struct ledger_holder, of_recallable)->recalled_round)
		list_prepend(&d->recallable, &h->of_recallable);
	else
		list_append(&d->recallable, &h->of_recallable);
}

/* The recall was answered, or its time is over: no ask waits for it any more. */
static inline void end_recall(struct ledger_holder *h)
{
	if (!list_linked(&h->recalled))
		return;
	list_remove(&h->recalled);
	h->account->pending--;
}

/* It can be recalled again: it has been heard, or will come back as another connection. */
static inline void forget_recall(struct ledger_holder *h)
{
	end_recall(h);
	h->recall_until = 0;
	note_credit(h);
}

/* Call it after anything in the account has changed. */
static inline void book(struct ledger_account *a)
{
	uint64_t now;

	a->bound = most(a->limit, least(a->bound, charged(&a->sum)));
	now = towards_others(a);
	a->device->booked += now - a->booked;
	a->booked = now;
	now += a->sum.evicted;
	for (struct ledger_account *at = a->above; at; at = at->above)
		at->below += at->several ? now - a->counted : 0;
	a->counted = now;
}

/* The only function that changes amounts, in all three places together. */
static inline void set_amounts(struct ledger_holder *h, const struct amounts *now)
{
	struct ledger_account *a = h->account;
	struct amounts *books[] = {&a->sum, &a->device->sum};
	uint64_t before = charged(&a->sum);

	for (size_t i = 0; i < ARRAY_SIZE(books); i++) {
		books[i]->granted += now->granted - h->has.granted;
		books[i]->allocated += now->allocated - h->has.allocated;
		books[i]->evicted += now->evicted - h->has.evicted;
		books[i]->residual += now->residual - h->has.residual;
		books[i]->guessed += now->guessed - h->has.guessed;
		books[i]->used += now->used - h->has.used;
	}
	h->has = *now;
	for (struct ledger_account *at = a->above; at; at = at->above)
		at->below += at->several ? 0 : charged(&a->sum) - before;
	if (now->granted > h->most_granted)
		h->most_granted = now->granted;
	if (charged(&a->sum) > a->most_charged)
		a->most_charged = charged(&a->sum);
	if (a->sum.allocated + a->sum.residual > a->peak)
		a->peak = a->sum.allocated + a->sum.residual;
	book(a);
	note_change(a);
	note_credit(h);
}

static inline void drop_ask(struct ledger *l, struct ask *ask)
{
	struct ledger_holder *h = ask->holder;
	struct ledger_account *a = h->account;

	h->ask_count--;
	a->waiting--;
	a->device->waiting--;
	a->device->patient -= ask->deadline != 0;
	if (ask->sure)
		a->sure--;
	else
		l->common_asks--;
	list_remove(&ask->own);
	list_remove(&ask->link);
	list_append(&l->asks.free, &ask->link);
}
