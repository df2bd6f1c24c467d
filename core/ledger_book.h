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
	uint64_t residual;  /* measured + reserved */
};

struct ledger_device {
	uint64_t room_for_all; /* capacity - reserve */
	struct amounts sum;
	struct list accounts;
	struct list asks; /* in the order of asking */
};

struct ledger_account {
	struct list link; /* of the device, or of the free ones */
	struct ledger_device *device;
	struct list holders;
	struct amounts sum;
	uint64_t limit, highest_limit, wait_ns, peak, refused;
	uint64_t most_charged; /* ever */
	uint64_t unsaid;       /* what expected guests may hold beyond what they have said */
	int expected;
	int unsettled; /* its residual is about to be measured */
};

struct ledger_holder {
	struct list link; /* of the account, or of the free ones */
	struct ledger_account *account;
	void *owner;
	struct amounts has;
	uint64_t reserved;     /* of residual: not measured yet */
	uint64_t most_granted; /* ever */
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
	uint64_t looks;	   /* the ledger's, when it was asked */
};

struct ledger {
	struct ledger_limits limits;
	uint64_t round;
	uint64_t looks; /* measurements that have ended */
	struct ledger_device *devices;
	struct list free_accounts, free_holders, free_asks;
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

/* What the device must have room for. */
static inline uint64_t on_device(const struct amounts *sum)
{
	return sum->granted - sum->evicted + sum->residual;
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
	return left_of(d->room_for_all, on_device(&d->sum));
}

/* Room that guests of other accounts may hold who have not yet said so. */
static inline uint64_t unsaid(const struct ledger_device *d, const struct ledger_account *except)
{
	uint64_t sum = 0;

	list_for_each(link, (struct list *)&d->accounts)
	{
		const struct ledger_account *a = list_entry(link, struct ledger_account, link);

		if (a->expected && a != except)
			sum += a->unsaid;
	}
	return sum;
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
	}
	h->has = *now;
	if (now->granted > h->most_granted)
		h->most_granted = now->granted;
	if (charged(&a->sum) > a->most_charged)
		a->most_charged = charged(&a->sum);
	if (a->sum.allocated + a->sum.residual > a->peak)
		a->peak = a->sum.allocated + a->sum.residual;
}

static inline void drop_ask(struct ledger *l, struct ask *ask)
{
	ask->holder->asks--;
	list_remove(&ask->link);
	list_append(&l->free_asks, &ask->link);
}
