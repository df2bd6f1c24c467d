/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may hold how many bytes of which device. Pure: no clock, no lock, no allocation, no logging;
 * the daemon, the replay and the tests run this code. The caller gives the memory and the time,
 * asks for what is to be done with ledger_next() after every event, and does it.
 *
 *	account  a tenant on a device: the limit, and how long its allocations may wait for room
 *	holder   a guest on a device. It is the grant: everything that was granted hangs off it, and
 *	         ledger_leave() gives it all back, once, however often it is called
 *	ask      a request for credit (or, before a context is made, for residual) that was not yet
 *	         answered. Each is answered once, by LEDGER_GRANT or LEDGER_REFUSE, or is dropped
 *	         without an answer by ledger_cancel() and ledger_leave()
 *
 * A holder's amounts: `granted` bytes were promised to it, of which it has `allocated`; the rest is
 * its credit. Of what it allocated, `evicted` bytes are not on the device; the rest is resident.
 * `residual` is what its contexts and modules take beside that, as core/residual.h knows it.
 *
 * Laws, attacked by tests/unit/test_ledger_always.c:
 *  1. at each grant, credit + allocated + residual of the account's holders <= its limit;
 *  2. at each grant, what the device's accounts count for (law 10) <= capacity - reserve;
 *  3. every total equals the sum over the living holders, after any history;
 *  4. nothing is refused while siblings (or, where the device is full, anybody) hold so much unused
 *     credit that it would do, and were not asked for it or may still answer. Who did not answer
 *     in time is not waited for a second time;
 *  5. who may wait is served in the order of asking, as far as the device's room is what it lacks.
 *     An ask that may not wait, or whose time is over, is not refused for the sake of that order:
 *     refusing a program that is within its limit, while there is room, is worse than letting
 *     another wait longer;
 *  6. what guests hold that were there before the daemon is not granted to others, said or not;
 *  7. only room is waited for. Who is over its own limit is told at once: programs free their
 *     caches when they are told, and would otherwise wait for themselves;
 *  8. nothing is refused because of residual that is being measured, see ledger_unsettled();
 *  9. an account finds a place for `asks_sure` asks whatever the others ask for;
 * 10. towards its neighbours an account counts for credit + resident + residual (`booked`). But
 *     residual follows from what guests claim to have allocated, so it counts for no more than its
 *     limit; or what it counted for when that was lowered, until it gives that back; or what the
 *     driver itself said last that its processes hold. A claim that nothing was allocated makes
 *     memory residual beside the credit that it is: its account's own harm, not its neighbours';
 * 11. an account of which is measured that it has more than it may is asked for its unused credit,
 *     as often as that is measured: what passed a guest by is not followed by what it was promised
 *     before.
 *
 * What an event costs does not grow with the accounts and holders that it does not concern: sums
 * are kept, not counted, and who has changed is named by ledger_changed(). What waits is gone
 * through once for each round of ledger_next(); what all holders say is asked for (LEDGER_LOOK)
 * where somebody would be recalled or refused, and not before.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"

struct ledger;
struct ledger_account;
struct ledger_holder;

struct ledger_limits {
	uint32_t devices, accounts, holders;
	uint32_t asks;		   /* beside those that are sure */
	uint32_t asks_sure;	   /* places of each account that nobody else takes */
	uint32_t asks_per_account; /* that wait at most; 0: no such bound */
	uint32_t asks_per_holder;
	uint64_t recall_ns; /* an unanswered recall counts as answered after this */
	uint64_t look_ns;   /* while somebody waits, unused credit is looked for this often */
};

/* Why an ask was refused, or could not be taken. */
enum {
	LEDGER_OVER = 1, /* the tenant's own limit is reached */
	LEDGER_FULL,	 /* the device has no room, though the limit would allow it */
	LEDGER_DEADLINE, /* the device had no room for as long as the share allows to wait */
	LEDGER_TABLE,	 /* this holder's, or this account's, part of the ledger's tables is full */
	LEDGER_HELD,	 /* more than the holder has */
};

enum ledger_verb {
	LEDGER_GRANT = 1, /* answer ask `id` of `holder`: it has `bytes` more */
	LEDGER_REFUSE,	  /* answer ask `id` of `holder`: no, because of `reason` */
	LEDGER_RECALL,	  /* ask `holder` to give back up to `bytes` of unused credit */
	LEDGER_LOOK, /* bring the reports up to date (ledger_report) of the holders of `account`,
		      * or, where that is NULL, of all of `device`, before ledger_next() is called
		      * again */
};

struct ledger_action {
	enum ledger_verb verb;
	struct ledger_holder *holder;
	struct ledger_account *account; /* of LEDGER_LOOK */
	uint32_t device;		/* likewise */
	uint64_t id, bytes;
	uint32_t residual; /* the ask's */
	uint32_t reason;   /* LEDGER_OVER, LEDGER_FULL or LEDGER_DEADLINE */
};

/* What stands in the book; a snapshot. */
struct ledger_sums {
	uint64_t granted, allocated, evicted, residual;
	uint64_t booked;	/* of an account, a device: what it counts for, law 10 */
	uint64_t limit;		/* capacity - reserve of a device */
	uint64_t highest_limit; /* of an account: ever */
	uint64_t peak;		/* highest allocated + residual so far */
	uint64_t refused;	/* asks, so far */
	uint32_t holders, waiting;
};

struct ledger_request {
	uint64_t id;	   /* the caller's; comes back in the answer */
	uint64_t bytes;	   /* needed, > 0 */
	uint64_t want;	   /* granted at most; what exceeds `bytes` only where there is plenty */
	uint32_t may_wait; /* 0: answered as soon as recalls have been answered */
	uint32_t residual; /* LEDGER_RESIDUAL, LEDGER_ROOM; 0: for credit */
};

/* What is asked for beside credit. */
enum {
	LEDGER_RESIDUAL = 1, /* to be reserved, for a context */
	LEDGER_ROOM,	     /* nothing: whether there is room, once unused credit was recalled */
};

size_t ledger_size(const struct ledger_limits *limits);

/* `memory` has ledger_size() bytes, aligned for uint64_t. What is not in use is never touched. */
struct ledger *ledger_init(void *memory, const struct ledger_limits *limits);

/* Device `index` < limits.devices. */
void ledger_set_device(struct ledger *l, uint32_t index, uint64_t capacity, uint64_t reserve);

/* NULL when the table is full. Closing an account needs all of its holders to have left. */
struct ledger_account *ledger_open(struct ledger *l, uint32_t device, uint64_t limit,
				   uint64_t wait_ns);
void ledger_close(struct ledger *l, struct ledger_account *account);

/* Live change. Below what is in use: nothing is taken away, new memory is refused. */
void ledger_set_limit(struct ledger *l, struct ledger_account *account, uint64_t limit,
		      uint64_t wait_ns);

/* It had this limit once, before a restart. */
void ledger_had_limit(struct ledger_account *account, uint64_t limit);

/* After a restart: guests of the account have not yet said what they hold, which is up to `most`
 * bytes. Until nobody is `expected` its own asks are taken and not answered, and `most` is room
 * that nobody else is given: whose ask would fit but for that is not answered either. */
void ledger_expect(struct ledger *l, struct ledger_account *account, int expected, uint64_t most);

/* The account's residual is being measured, or will be at once: what would be refused, for its own
 * limit or for anybody's want of room on the device, is not answered before that has changed, or
 * ledger_looked() was called LEDGER_LOOKS times since it was asked: one measurement may be under
 * way then, the next is of what was so then, and one more where the guest did not stand still. The
 * time that an ask may wait ends it all the same. */
enum { LEDGER_LOOKS = 3 };
void ledger_unsettled(struct ledger *l, struct ledger_account *account, int unsettled);
void ledger_looked(struct ledger *l);

/* While it is held its asks are taken and not answered: its figures are too old to answer from. */
void ledger_hold(struct ledger *l, struct ledger_account *account, int held);

/* From now on ledger_changed() names the account by `owner`, once after its sums or its limit have
 * changed; and now. NULL: nobody has changed. */
void ledger_watch(struct ledger_account *account, void *owner);
void *ledger_watcher(const struct ledger_account *account);
void *ledger_changed(struct ledger *l);

/* NULL when the table is full. `owner` is the caller's, see ledger_owner(). */
struct ledger_holder *ledger_join(struct ledger *l, struct ledger_account *account, void *owner);
void ledger_leave(struct ledger *l, struct ledger_holder *holder);
void *ledger_owner(const struct ledger_holder *holder);

/* A guest that was there before the daemon: what it says it holds is charged, since it exists, but
 * never more than the highest limit that its account ever had: a claim cannot hurt other tenants.
 * Outcome LEDGER_OVER or LEDGER_FULL: its credit is void. Replaces what the holder had. */
must_check int ledger_adopt(struct ledger *l, struct ledger_holder *holder, uint64_t allocated,
			    uint64_t credit, uint64_t residual);

/* Nobody can be told, or asked to give back, for the time being: its asks are dropped without an
 * answer; what it holds it holds. */
void ledger_hang_up(struct ledger *l, struct ledger_holder *holder);

/* Takes an ask; its answer comes from ledger_next(), at once if possible. */
must_check int ledger_ask(struct ledger *l, struct ledger_holder *holder,
			  const struct ledger_request *request, uint64_t now_ns);

/* Drops the ask without an answer. Harmless if there is none with that id. */
void ledger_cancel(struct ledger *l, struct ledger_holder *holder, uint64_t id);

/* The holder gives bytes back; with `answers_recall` it has said its last word on the recall.
 * LEDGER_HELD: more than its credit was ever worth; everything that was not evicted is returned. */
must_check int ledger_return(struct ledger *l, struct ledger_holder *holder, uint64_t bytes,
			     int answers_recall);

/* What the holder says it allocated: believed between `evicted` and `granted`. */
void ledger_report(struct ledger *l, struct ledger_holder *holder, uint64_t allocated);

/* What the holder says it had allocated for a moment, beside what its siblings have now: for the
 * account's peak alone. Believed up to what it ever was granted; and the peak never exceeds what
 * the account was charged at most, of which it is a part. */
void ledger_report_peak(struct ledger *l, struct ledger_holder *holder, uint64_t allocated);

/* What the holder's residual comes to now (core/residual.h), and what the driver said last that its
 * process has. */
void ledger_residual(struct ledger *l, struct ledger_holder *holder, uint64_t bytes, uint64_t used);

/* Bytes of a resident allocation left the device, or came back to it. LEDGER_HELD: it has not so
 * much; LEDGER_FULL: there is no room to come back to. Freed while evicted: `granted` shrinks. */
must_check int ledger_evict(struct ledger *l, struct ledger_holder *holder, uint64_t bytes);
must_check int ledger_restore(struct ledger *l, struct ledger_holder *holder, uint64_t bytes);
must_check int ledger_free_evicted(struct ledger *l, struct ledger_holder *holder, uint64_t bytes);

/* What is to be done next; 0 when there is nothing. Called until it says 0 after every event and
 * when the time of ledger_deadline() has come. */
must_check int ledger_next(struct ledger *l, uint64_t now_ns, struct ledger_action *ret_action);

/* When ledger_next() must be called again without an event; 0: never. */
uint64_t ledger_deadline(const struct ledger *l, uint64_t now_ns);

/* Would an ask for so many bytes be answered with a grant now? */
int ledger_fits(const struct ledger *l, const struct ledger_holder *holder, uint64_t bytes);

/* Has the holder's account no more than it may, and the device's no more than there is? */
int ledger_within(const struct ledger *l, const struct ledger_holder *holder);

void ledger_device_sums(const struct ledger *l, uint32_t index, struct ledger_sums *ret_sums);
void ledger_account_sums(const struct ledger_account *account, struct ledger_sums *ret_sums);
void ledger_holder_sums(const struct ledger_holder *holder, struct ledger_sums *ret_sums);
