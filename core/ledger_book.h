/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger consists of, for its two files: ledger.c keeps the book, ledger_next.c decides.
 * Nobody else includes this.
 */
#pragma once

#include <string.h>

#include "core/ledger.h"

/* Summed over holders for their account and their device. */
struct amounts {
	uint64_t granted;   /* credit + allocated */
	uint64_t allocated; /* of granted */
	uint64_t evicted;   /* of allocated */
	uint64_t residual;  /* core/residual.h's charge */
	uint64_t used;	    /* what the driver said last that the holders have */
};

/* When what the holders of a scope say was brought up to date: with the latest event by then. */
struct looked {
	uint64_t round, event, ns;
};

struct ledger_device {
	uint64_t room_for_all; /* capacity - reserve */
	struct amounts sum;
	uint64_t booked; /* of all accounts */
	uint64_t unsaid; /* likewise */
	uint32_t unsettled, holders, waiting;
	uint32_t patient;      /* of those who wait: until a deadline */
	struct list asks;      /* in the order of asking */
	struct list changed;   /* accounts that ledger_changed() has not named yet */
	struct list over;      /* accounts that were found to have more than they may */
	struct list lenders;   /* who has unused credit, and can be recalled */
	uint64_t lowest_round; /* no lender was recalled before this one */
	struct list recalled;  /* under way, in the order of time */
	uint64_t look_at;      /* while somebody is patient: when to look for unused credit again */
	uint64_t round;	       /* of the latest such look */
	struct looked looked;
};

struct ledger_account {
	struct list link; /* of the free ones */
	struct ledger_device *device;
	struct list holders;
	uint32_t holder_count, waiting;
	uint32_t sure;	       /* of those who wait: in places that are sure */
	uint32_t pending;      /* recalls under way */
	uint64_t lowest_round; /* like the device's */
	struct looked looked;
	struct list changed; /* of the device */
	struct list over;    /* likewise */
	uint64_t over_round; /* when that was */
	void *owner;	     /* NULL: nobody watches */
	struct amounts sum;
	uint64_t limit, highest_limit, wait_ns, peak, refused;
	uint64_t bound;	 /* what it counts for at most on a word of its own: its limit, or what it
			  * counted for when that was lowered and has not given back since */
	uint64_t booked; /* what it counts for */
	uint64_t most_charged; /* ever */
	uint64_t unsaid;       /* what expected guests may hold beyond what they have said */
	int expected, held;
	int unsettled; /* its residual is about to be measured */
};

struct ledger_holder {
	struct list link; /* of the account, or of the free ones */
	struct ledger_account *account;
	void *owner;
	struct amounts has;
	uint64_t most_granted; /* ever */
	/* A recall is under way, until then; afterwards the holder is deaf: it is neither asked nor
	 * waited for again before it has answered, late as that may be, or asked itself. 0: none */
	uint64_t recall_until;
	uint64_t recalled_round;      /* the latest round in which it was asked */
	struct list lender, recalled; /* of the device */
	struct list asks;
	uint32_t ask_count;
};

struct ask {
	struct list link; /* of the device, or of the free ones */
	struct list own;  /* of the holder */
	struct ledger_holder *holder;
	struct ledger_request request;
	uint64_t deadline; /* of waiting for room; 0: does not wait */
	uint64_t round;	   /* who was recalled in an earlier round is asked again */
	uint64_t looks;	   /* the ledger's, when it was asked */
	int sure;	   /* its place is one that only its account may take */
};

/* Objects of one size: those that were never in use lie behind those that were. */
struct pool {
	char *memory;
	size_t size, offset; /* of one; of its link */
	uint32_t used, most;
	struct list free;
};

/* Where ledger_next() goes on: what it did itself helps nobody whom it had passed. */
struct place {
	uint64_t event, ns;
	uint32_t device;
	struct list *next; /* NULL: the device's first */
	int blocked;
};

struct ledger {
	struct ledger_limits limits;
	uint64_t round;
	uint64_t event; /* counts what the caller said, but for reports */
	uint64_t looks; /* measurements that have ended */
	uint32_t common_asks;
	struct ledger_device *devices;
	struct pool accounts, holders, asks;
	struct place place;
};

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t left_of(uint64_t limit, uint64_t used)
{
	return used < limit ? limit - used : 0;
}

/* What counts against a tenant's limit: evicted memory, too. */
static inline uint64_t charged(const struct amounts *sum)
{
	return sum->granted + sum->residual;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What the device must have room for: law 10. */
static inline uint64_t towards_others(const struct ledger_account *a)
{
	uint64_t bound = most(most(a->bound, a->sum.granted), a->sum.used + a->sum.evicted);

	return least(charged(&a->sum), bound) - a->sum.evicted;
}

static inline uint64_t credit(const struct amounts *sum)
{
	return sum->granted - sum->allocated;
}

static inline uint64_t account_room(const struct ledger_account *a)
{
	return left_of(a->limit, charged(&a->sum));
}

static inline uint64_t device_room(const struct ledger_device *d)
{
	return left_of(d->room_for_all, d->booked);
}

/* Room that guests of other accounts may hold who have not yet said so. */
static inline uint64_t unsaid(const struct ledger_device *d, const struct ledger_account *except)
{
	return d->unsaid - (except ? except->unsaid : 0);
}

static inline void set_unsaid(struct ledger_account *a, uint64_t bytes)
{
	a->device->unsaid += bytes - a->unsaid;
	a->unsaid = bytes;
}

static inline void note_change(struct ledger_account *a)
{
	if (a->owner && !list_linked(&a->changed))
		list_append(&a->device->changed, &a->changed);
}

/* After its credit, or a recall of it, has changed: can it be recalled? */
static inline void note_credit(struct ledger_holder *h)
{
	struct ledger_device *d = h->account->device;
	struct list *first = d->lenders.next;

	if (!credit(&h->has) || h->recall_until) {
		list_remove(&h->lender);
		return;
	}
	if (list_linked(&h->lender))
		return;
	d->lowest_round = least(d->lowest_round, h->recalled_round);
	h->account->lowest_round = least(h->account->lowest_round, h->recalled_round);
	/* Who is likely to be recalled next comes first. */
	if (list_empty(&d->lenders) ||
	    h->recalled_round <= list_entry(first, struct ledger_holder, lender)->recalled_round)
		list_prepend(&d->lenders, &h->lender);
	else
		list_append(&d->lenders, &h->lender);
}

/* The recall was answered, or its time is over: nobody waits for it any more. */
static inline void end_recall(struct ledger_holder *h)
{
	if (!list_linked(&h->recalled))
		return;
	list_remove(&h->recalled);
	h->account->pending--;
}

/* After anything of the account has changed. */
static inline void book(struct ledger_account *a)
{
	uint64_t now;

	a->bound = most(a->limit, least(a->bound, charged(&a->sum)));
	now = towards_others(a);
	a->device->booked += now - a->booked;
	a->booked = now;
}

/* The only place where amounts change: all three books together. */
static inline void move(struct ledger_holder *h, const struct amounts *now)
{
	struct ledger_account *a = h->account;
	struct amounts *books[] = {&a->sum, &a->device->sum};

	for (size_t i = 0; i < ARRAY_SIZE(books); i++) {
		books[i]->granted += now->granted - h->has.granted;
		books[i]->allocated += now->allocated - h->has.allocated;
		books[i]->evicted += now->evicted - h->has.evicted;
		books[i]->residual += now->residual - h->has.residual;
		books[i]->used += now->used - h->has.used;
	}
	h->has = *now;
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
