/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides who may hold how many bytes of which device. Pure: no clock, no lock, no allocation, no
 * logging; the daemon, the replay and the tests run this code. The caller provides the memory and
 * the time. After every event it asks ledger_next() what to do, and does it.
 *
 *	account  a tenant on a device: its limit, and how long its allocations may wait for room
 *	holder   a guest on a device. It is the grant object: it owns everything that was granted,
 *		 and ledger_leave() returns it all exactly once, however often it is called
 *	ask      a pending request for credit (or, before a context is created, for residual).
 *		 Each is answered once, by LEDGER_GRANT or LEDGER_REFUSE, or dropped without an
 *		 answer by ledger_cancel() and ledger_leave()
 *
 *	ledger.c              events and asks
 *	ledger_next.c         what is granted, refused or recalled
 *	ledger_sums.c         what is held and what is left
 *	ledger_evicted.c      memory that has left the device and still belongs to its holder
 *	residual.c            what the driver holds beside
 *	residual_price.c      what a context is expected to take
 *
 * A holder's amounts: `granted` bytes were promised to it. Of these it has allocated `allocated`
 * bytes; credit = granted - allocated. Of the allocated bytes, `evicted` are not on the device;
 * resident = allocated - evicted. `residual` is what its contexts and modules take in addition,
 * according to core/ledger/residual.h.
 *
 * Laws, tested by tests/unit/test_ledger_always.c:
 *  1. at each grant, credit + allocated + residual of the account's holders <= its limit;
 *  2. at each grant, the sum of `booked` (law 10) of the device's accounts <= capacity - reserve;
 *  3. every total equals the sum over the living holders, after any history;
 *  4. no ask is refused while siblings (or, if the device is full, any holders) have enough unused
 *     credit to satisfy it and were not asked to return it, have returned as much as they were
 *     asked for, or may still answer. A holder that did not answer in time is not waited for again;
 *  5. asks that may wait and lack only room on the device are served in the order in which they
 *     were made. An ask that may not wait, or whose time is over, is not refused for the sake of
 *     that order: refusing a program that is within its limit, while there is room, is worse than
 *     letting another wait longer;
 *  6. memory of guests that were there before the daemon is not granted to others, whether they
 *     have stated it yet or not;
 *  7. an ask waits only for room. An ask over its account's own limit is refused at once: programs
 *     free their caches when they are refused, and would otherwise wait for themselves;
 *  8. no ask is refused because of residual that is being measured, see ledger_unsettled(), or
 *     within `guess_ns` because of residual that is only a guess, see ledger_guessed();
 *  9. an account always has places for `asks_sure` asks, whatever others ask for;
 * 10. towards its neighbours an account counts as `booked`: credit + resident + residual, but at
 *     most the largest of its limit, what it counted as when the limit was lowered (until it
 *     returns that), and what the driver last reported for its processes. The bound is needed
 *     because residual depends on what guests claim to have allocated. A guest that claims to have
 *     allocated nothing makes the same memory count as residual and as credit; that harms its own
 *     account, not the neighbours;
 * 11. whenever a measurement shows that an account has more than it may, or its limit is lowered to
 *     less than it has, its unused credit is recalled: memory that bypassed a guest is not followed
 *     by memory that it was promised before;
 * 12. an account may be within another: at each grant, both charges together are within the outer
 *     one's limit. Asks wait for room within the outer account as they do for room on the device,
 *     and delay only asks within that account. Within an outer account of several owners
 *     (ledger_several()), each account counts as it does on the device (law 10), plus its evicted
 *     memory. What guests that are expected may hold (ledger_expect()) is reserved in the accounts
 *     around theirs, too, and from those within it;
 * 13. memory in use that belongs to no account (`outside`) is not room; asks wait for it as they do
 *     for memory of others;
 * 14. no ask is granted while a measurement is owed to its account (LEDGER_OWED): memory that a
 *     guest has reported, but that nobody has measured, is not room.
 *
 * The cost of an event does not depend on the accounts and holders that it does not concern: sums
 * are maintained incrementally, and ledger_changed() names the accounts that have changed. Each
 * round of ledger_next() goes through the waiting asks once. Reports of all holders are requested
 * (LEDGER_REFRESH) only before a recall or a refusal.
 */
#pragma once

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"

struct ledger;
struct ledger_account;
struct ledger_holder;

struct ledger_limits {
	uint32_t devices; /* at most: see ledger_set_count() */
	uint32_t accounts, holders;
	uint32_t asks;		   /* in addition to the reserved ones */
	uint32_t asks_sure;	   /* places reserved for each account */
	uint32_t asks_per_account; /* that wait, at most; 0: no bound */
	uint32_t asks_per_holder;
	uint64_t recall_ns;  /* an unanswered recall counts as answered after this */
	uint64_t refresh_ns; /* while an ask waits, unused credit is searched for this often */
	uint64_t guess_ns;   /* an ask waits for this long for guesses to be measured */
};

/* Why an ask was refused, or could not be taken. */
enum {
	LEDGER_OVER = 1, /* the tenant's own limit is reached */
	LEDGER_FULL,	 /* the device has no room, though the limit would allow it */
	LEDGER_DEADLINE, /* the device had no room for as long as the share allows waiting */
	LEDGER_PART,	 /* likewise, but an account around the tenant's has no room */
	LEDGER_TABLE,	 /* this holder's, or this account's, part of the ledger's tables is full */
	LEDGER_HELD,	 /* more than the holder has */
};

enum ledger_verb {
	LEDGER_GRANT = 1, /* answer ask `id` of `holder`: it has `bytes` more */
	LEDGER_REFUSE,	  /* answer ask `id` of `holder`: no, because of `reason` */
	LEDGER_RECALL,	  /* ask `holder` to give back up to `bytes` of unused credit */
	LEDGER_REFRESH,	  /* update the reports (ledger_report) of `account`'s holders or, if it is
			     NULL, of all holders of `device`; then call ledger_next() again */
};

struct ledger_action {
	enum ledger_verb verb;
	struct ledger_holder *holder;
	struct ledger_account *account; /* of LEDGER_REFRESH */
	uint32_t device;		/* likewise */
	uint64_t id, bytes;
	uint32_t residual; /* the ask's */
	uint32_t reason;   /* LEDGER_OVER, LEDGER_FULL, LEDGER_PART or LEDGER_DEADLINE */
};

/* A snapshot of the sums. */
struct ledger_sums {
	uint64_t granted, allocated, evicted, residual;
	uint64_t booked;	/* of an account or a device: see law 10 */
	uint64_t limit;		/* capacity - reserve of a device */
	uint64_t highest_limit; /* of an account: ever */
	uint64_t peak;		/* highest allocated + residual so far */
	uint64_t refused;	/* asks, so far */
	uint64_t outside;	/* of a device */
	uint64_t room;		/* what could be granted, but for an account's own limit */
	uint32_t holders, waiting;
};

struct ledger_request {
	uint64_t id;	   /* the caller's; comes back in the answer */
	uint64_t bytes;	   /* needed, > 0 */
	uint64_t want;	   /* granted at most; more than `bytes` only if there is plenty */
	uint32_t may_wait; /* 0: answered as soon as recalls have been answered */
	uint32_t residual; /* LEDGER_RESIDUAL, LEDGER_ROOM; 0: for credit */
};

/* Requests other than for credit. */
enum {
	LEDGER_RESIDUAL = 1, /* to be reserved, for a context */
	LEDGER_ROOM, /* no bytes: only whether there is room, after recalling unused credit */
};

size_t ledger_size(const struct ledger_limits *limits);

/* `memory` has ledger_size() bytes, aligned for uint64_t. Unused parts are never touched. */
struct ledger *ledger_init(void *memory, const struct ledger_limits *limits);

/* How many of the devices are there; at first all. The others cost nothing at an event. */
void ledger_set_count(struct ledger *l, uint32_t devices);

/* Device `index` < limits.devices. */
void ledger_set_device(struct ledger *l, uint32_t index, uint64_t capacity, uint64_t reserve);

/* Sets the memory of the device that is in use but belongs to no account. With `unsure` it may
 * be less by now: no ask is refused for lack of room before the figure is set again, or within
 * the bounds of ledger_unsettled(). */
void ledger_outside(struct ledger *l, uint32_t device, uint64_t bytes);
void ledger_outside_unsure(struct ledger *l, uint32_t device, int unsure);

/* NULL when the table is full. Closing an account needs all of its holders to have left. */
struct ledger_account *ledger_open(struct ledger *l, uint32_t device, uint64_t limit,
				   uint64_t wait_ns);
void ledger_close(struct ledger *l, struct ledger_account *account);

/* From now on the account, which has no holders yet, is within the other one on the same device.
 * An account that contains others must be closed after them. */
void ledger_put_within(struct ledger_account *account, struct ledger_account *above);

/* The accounts within it, directly or not, will belong to several owners. Call this before there
 * are any. */
void ledger_several(struct ledger_account *account);

/* The bytes that are left of its own limit. */
uint64_t ledger_account_room(const struct ledger_account *account);

/* The account that encloses it is about to be closed; from now on it is within the next outer
 * one. */
void ledger_lift(struct ledger_account *account);

/* 1: the account's ask that has waited longest, how much and since when. 0: none waits. */
must_check int ledger_first_ask(const struct ledger_account *account, uint64_t *ret_bytes,
				uint64_t *ret_since_ns);

/* Changes the limit at run time. If it is below what is in use, nothing is taken away and new
 * memory is refused. */
void ledger_set_limit(struct ledger *l, struct ledger_account *account, uint64_t limit,
		      uint64_t wait_ns);

/* It had this limit once, before a restart. */
void ledger_had_limit(struct ledger_account *account, uint64_t limit);

/* After a restart: guests of the account have not yet stated what they hold, which is up to
 * `most` bytes. While guests are `expected`, the account's own asks are accepted but not
 * answered, and `most` bytes are reserved: an ask of another account that would fit without this
 * reservation is not answered either. */
void ledger_expect(struct ledger *l, struct ledger_account *account, int expected, uint64_t most);

/* How certain the account's residual is. */
enum ledger_unsettled {
	LEDGER_SETTLED = 0,
	LEDGER_IN_FLUX, /* it is being measured, or will be at once */
	LEDGER_OWED,	/* likewise, and it may be more than it is charged with */
};

/* While it is in flux, an ask that would be refused, because of the account's own limit or
 * because any account lacks room on the device, is not answered before this changes or
 * ledger_looked() has been called LEDGER_LOOKS times since the ask: one measurement may already
 * be in progress, the next one covers the moment of the ask, and a third is needed if the guest
 * was not quiet. The time that an ask may wait still applies. While a measurement is owed, an ask
 * of the account that would be granted is not answered either, within the same bound: events before
 * the ask have been measured by then. */
enum { LEDGER_LOOKS = 3 };
void ledger_unsettled(struct ledger *l, struct ledger_account *account, enum ledger_unsettled how);
void ledger_looked(struct ledger *l);
/* Is there an ask that would wait for another measurement, if one were in flux? */
bool ledger_awaits_look(const struct ledger *l);

/* While the account is held, its asks are accepted but not answered, because its figures are too
 * old. */
void ledger_hold(struct ledger *l, struct ledger_account *account, int held);

/* From now on ledger_changed() returns `owner` once after the account's sums or limit have
 * changed, and also now. NULL: no account has changed. */
void ledger_watch(struct ledger_account *account, void *owner);
void *ledger_watcher(const struct ledger_account *account);
void *ledger_changed(struct ledger *l);

/* NULL when the table is full. `owner` is the caller's, see ledger_owner(). */
struct ledger_holder *ledger_join(struct ledger *l, struct ledger_account *account, void *owner);
void ledger_leave(struct ledger *l, struct ledger_holder *holder);
void *ledger_owner(const struct ledger_holder *holder);

/* Adopts a guest that was there before the daemon. What it states is charged, because the memory
 * exists, but at most the highest limit that its account ever had, so that a claim cannot hurt
 * other tenants. Outcome LEDGER_OVER or LEDGER_FULL: its credit is void. Replaces what the
 * holder had. */
must_check int ledger_adopt(struct ledger *l, struct ledger_holder *holder, uint64_t allocated,
			    uint64_t credit, uint64_t residual);

/* The holder cannot be reached for the time being: its asks are dropped without an answer, and
 * it keeps what it holds. */
void ledger_hang_up(struct ledger *l, struct ledger_holder *holder);

/* Accepts an ask. ledger_next() gives the answer, at once if possible. */
must_check int ledger_ask(struct ledger *l, struct ledger_holder *holder,
			  const struct ledger_request *request, uint64_t now_ns);

/* Drops the ask without an answer. Harmless if there is none with that id. */
void ledger_cancel(struct ledger *l, struct ledger_holder *holder, uint64_t id);

/* The holder returns bytes; with `answers_recall`, this is its final answer to the recall.
 * LEDGER_HELD: more than its credit was ever worth; everything that was not evicted is returned. */
must_check int ledger_return(struct ledger *l, struct ledger_holder *holder, uint64_t bytes,
			     int answers_recall);

/* The holder's report of its allocated bytes, clamped to `evicted` .. `granted`. */
void ledger_report(struct ledger *l, struct ledger_holder *holder, uint64_t allocated);

/* The holder's report of its momentary maximum of allocated bytes, on top of what its siblings have
 * now. It only affects the account's peak, and is clamped to the most that the holder was ever
 * granted. The peak never exceeds the account's highest charge. */
void ledger_report_peak(struct ledger *l, struct ledger_holder *holder, uint64_t allocated);

/* The holder's residual now (core/ledger/residual.h), and what the driver last reported for its
 * process. */
void ledger_residual(struct ledger *l, struct ledger_holder *holder, uint64_t bytes, uint64_t used);

/* Bytes of a resident allocation left the device, or came back to it. LEDGER_HELD: the holder
 * does not have so much. LEDGER_FULL: there is no room for them to come back. If evicted bytes
 * are freed, `granted` shrinks. */
must_check int ledger_evict(struct ledger *l, struct ledger_holder *holder, uint64_t bytes);
must_check int ledger_restore(struct ledger *l, struct ledger_holder *holder, uint64_t bytes);
must_check int ledger_free_evicted(struct ledger *l, struct ledger_holder *holder, uint64_t bytes);

/* So much of the holder's residual is only a guess: a context that is being created or that a
 * former daemon's guest has, and that nobody has measured. What ledger_next() grants for contexts
 * is one until this says otherwise, and so is what ledger_adopt() is told. An ask that would fit
 * without the guesses is not refused for `guess_ns`; each measurement decides about it again. Two
 * holders that wait for each other's contexts wait no longer: the first that asked is answered. */
void ledger_guessed(struct ledger *l, struct ledger_holder *holder, uint64_t bytes);

/* The caller did not run for so long, and heard nobody: what ends at a time ends later. */
void ledger_lost(struct ledger *l, uint64_t ns);

/* The next action; 0: nothing to do. Call it until it returns 0, after every event and at the
 * time of ledger_deadline(). */
must_check int ledger_next(struct ledger *l, uint64_t now_ns, struct ledger_action *ret_action);

/* When ledger_next() must be called again without an event; 0: never. */
uint64_t ledger_deadline(const struct ledger *l, uint64_t now_ns);

/* Would an ask for this many bytes be granted now? */
int ledger_fits(const struct ledger *l, const struct ledger_holder *holder, uint64_t bytes);

/* Is the holder's account within its limit, and are the device's accounts within its capacity? */
int ledger_within(const struct ledger *l, const struct ledger_holder *holder);

/* Single figures of the following, for callers that need them often: the room of a device, and that
 * of an account but for its own limit; unused credit. */
uint64_t ledger_room_on(const struct ledger *l, uint32_t index);
uint64_t ledger_room_for(const struct ledger_account *account);
uint64_t ledger_credit_on(const struct ledger *l, uint32_t index);
uint64_t ledger_credit_of(const struct ledger_account *account);

void ledger_device_sums(const struct ledger *l, uint32_t index, struct ledger_sums *ret_sums);
void ledger_account_sums(const struct ledger_account *account, struct ledger_sums *ret_sums);
/* Only the first four. */
void ledger_holder_sums(const struct ledger_holder *holder, struct ledger_sums *ret_sums);
