/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory is on the device. Pure: no clock, no lock, no allocation, no logging; the daemon,
 * the replay and the tests run this code, on top of core/turns. The caller owns every object, says
 * what happens and when, then asks residency_next() what is to be done until it says 0, and calls
 * residency_tick() at residency_deadline(). After any call turns_next() is asked as well.
 *
 *	residency  a device: so many bytes for what can move
 *	store	   so many bytes of the host's memory for a device's evicted blocks
 *	member	   a tenant on a device: its bytes there, in the store, on their way
 *	set	   the members whose memory is on the device together
 *
 * Those of a set take turns as core/turns says (the fast clock). While not all who want fit, sets
 * follow one another (the slow clock).
 *
 * A member outside of the set is barred (turns_bar) before anything of it moves, and is admitted
 * when all of it is there. Who is to come is named first; the room that it lacks leaves, and no
 * more: first of who does not want, the longest idle first; then of who wants and is furthest from
 * its next set. So memory that is idle stays until somebody needs its room.
 *
 * Bytes move chunk by chunk, out and in at once. They meet here: what has left (residency_left) is
 * credit for who comes, in the same call. What a guest does in between is in
 * docs/decisions/0091-memory-that-moves.md; here a block counts for the device from the credit on
 * until it has left, and for the store from the order to leave on until it is there again.
 *
 * A set stays for as long as the movement that brought it took, by the operator's one number (the
 * share of time that movement may cost); shorter where somebody would wait for longer than
 * `longest_ns`, or of a higher class; or if nobody of it wants for longer than it usually pauses,
 * where that is shorter than the movement (waiting costs no more than twice of what moving would).
 *
 * Class batch yields: while members of higher classes are active and it does not fit beside them, a
 * member of class batch is no candidate for a set, however long it waits, and it is the first to
 * leave if they need its room (residency_yield.c). It has run for `run_ns` before, and whoever it
 * yields to has waited for `delay_ns`; who is not on the device comes only when it fits beside
 * them. It stays where it is while nobody needs its room. Memory that cannot move may be in its way
 * likewise (residency_above()).
 *
 * Laws, attacked by tests/unit/test_residency_always.c:
 *  1. resident + credit of all members <= capacity: nothing is granted, and no credit given, beyond
 *     it (a capacity that was lowered is reached by evicting);
 *  2. a byte is resident, out, or both while it moves; never neither: a member's `resident` + `out`
 *     changes by what the caller says was allocated or freed, and by nothing else;
 *  3. the store's `used` <= its budget, a member's <= its quota; used >= what is out, or leaving;
 *  4. who is not wholly resident is barred, and nothing is ordered to leave of who is not barred
 *     and drained. Whose guests do not drain, evict, restore or drop within `patience_ns` and the
 *     time that what they moved takes at `slowest_bps` is said (RESIDENCY_STUCK) and counts as
 *     unmovable until they give a sign of life, the second time not before twice the patience has
 *     passed, and so on (who did not drain and runs on needs no sign, only the time); of such a
 *     member what is whole is admitted. Time in which the store had no room for what is to leave
 *     counts for nobody's patience;
 *  5. nothing moves while all who want, and all that is asked for, fit beside each other;
 *  6. who wants and fits beside what is unmovable is in a set within `longest_ns` and one set (its
 *     stay, its movement, the patience with who does not answer) of each other member; and a set
 *     does not end within `longest_ns` before each member of it that wants has had a turn, unless
 *     somebody of a better class waits. Who yields does not count;
 *  7. no more is ordered to leave than what is lacking;
 *  8. an ask is granted at once, granted later, or refused with its reason; a member never holds
 *     more than the device's capacity;
 *  9. only class batch yields, and only while a higher class is active, or has memory there that
 *     cannot move; who is of a higher class waits for no member of class batch for longer than
 *     `run_ns`, `delay_ns` and the movement, if it fits beside the others of higher classes; and
 *     who does not yield any more is in a set again as law 6 says.
 *
 * Not here: whose block it is and where it lies (the guest's, and the store's); guarantees and caps
 * (core/turns keeps them within a set; between sets weights and classes count); one set for a
 * tenant on several devices (each device moves for itself).
 *
 * An event costs O(1), a decision on sets O(n^2) of the members of the device; sets change on the
 * slow clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "core/turns/turns.h"

struct residency_tuning {
	uint64_t turn_ns;      /* so long a set stays; 0: by what moving it took */
	uint32_t cost_milli;   /* of the time, that movement may take: the operator's number */
	uint64_t shortest_ns;  /* a set stays as long, whatever else */
	uint64_t longest_ns;   /* nobody waits longer where that can be helped */
	uint64_t run_ns;       /* so long who has come runs before it yields, ... */
	uint64_t delay_ns;     /* ... and who it yields to has waited */
	uint64_t owing_ns;     /* with who drains, and core/turns does not wait for any more */
	uint64_t patience_ns;  /* with who is to drain, evict, restore or drop, ... */
	uint64_t slowest_bps;  /* ... beyond what its bytes take at this rate; 0: each is enough */
	uint64_t chunk_bytes;  /* the grain of credit: no block is larger */
	uint64_t window_bytes; /* credit that is not used yet, at most: two chunks or more */
};

/* By cost, 5 %, 20 ms, 30 s, 10 s, 100 ms, 1 s, 10 s, 64 MiB a second, 64 MiB, 512 MiB. */
extern const struct residency_tuning residency_usual;

/* Why an ask is not granted; and of residency_suspend(), RESIDENCY_STORE alone. */
enum {
	RESIDENCY_WAITS = 1, /* RESIDENCY_GRANT will follow */
	RESIDENCY_LARGE,     /* with it the member alone would be larger than the device */
	RESIDENCY_STORE,     /* neither the device nor the store has room, or its quota has not */
};

enum residency_verb {
	/* The member's guests move out until `bytes` more have left, beside what they were told
	 * before under the same `generation`. The store has room for it. */
	RESIDENCY_EVICT = 1,
	/* What was ordered and has not left yet, stays; credit that was not used yet is void. Their
	 * answer is residency_stopped(); what they are told next is of another generation. */
	RESIDENCY_STOP,
	/* Room for `bytes` more, for blocks of the member that are out. */
	RESIDENCY_CREDIT,
	RESIDENCY_GRANT, /* what the member asked for, `bytes` */
	/* The copies of resident blocks in the member's part of the store give `bytes` back; say
	 * residency_dropped(). */
	RESIDENCY_DROP,
	RESIDENCY_ADMITTED, /* for people, and figures: it is in the set; `bytes` came */
	RESIDENCY_STUCK,    /* for people: its guests do not evict, it counts as unmovable */
};

struct residency_member;

struct residency_action {
	enum residency_verb verb;
	struct residency_member *member;
	uint64_t bytes;
	uint32_t generation;
};

enum residency_place {
	RESIDENCY_IN,	    /* it is in the set: not barred */
	RESIDENCY_STOPPING, /* barred, and to be drained */
	RESIDENCY_OUT,	    /* barred and drained: its bytes may leave */
	RESIDENCY_COMING,   /* likewise, and is chosen: its bytes come */
};

/* The structures are their owners', who read what stands under "for reading" and nothing else. */

struct residency {
	/* For reading. */
	uint64_t capacity_bytes; /* for what can move */
	uint64_t resident_bytes, credit_bytes;
	uint64_t missing_bytes;		   /* the device refused credit: it has so much less */
	uint64_t left_bytes, came_bytes;   /* so far */
	uint64_t copied_bytes;		   /* of what left; the rest was clean */
	uint64_t budget_bytes, used_bytes; /* of the store; used: reserved for members */
	uint64_t sets;			   /* that movement brought, so far */
	uint64_t cost_ns;		   /* what the last one took, from the decision */
	uint64_t moving_ns;		   /* what all of them took */

	struct residency_tuning tuning;
	struct list members, todo;
	struct list coming;	     /* who is chosen and lacks something, in the order of choice */
	uint64_t began_ns;	     /* of the set, which is to stay ... */
	uint64_t stay_ns;	     /* ... so long */
	uint64_t moving_since_ns;    /* whoever is coming was chosen then */
	uint64_t clock;		     /* the virtual time of who was chosen last */
	uint64_t timer_ns, retry_ns; /* retry: nobody could make room; 0: that was not so */
	uint32_t draining;	     /* members that are to drain */
	uint32_t waiting;	     /* members that claim what they have not got */
	bool dirty, choosing;	     /* something is to be done; who comes is to be decided anew */
	bool rotating;		     /* who is coming makes a new set */
	uint64_t above_bytes;	     /* the device has so much less by higher classes than batch */
	uint64_t yield_ns;	     /* who yields is decided anew then */
	uint32_t yielding;	     /* members */
};

struct residency_member {
	/* For reading. */
	void *owner; /* the caller's */
	enum residency_place place;
	uint64_t resident_bytes, out_bytes;
	uint64_t credit_bytes;			       /* of what comes: granted, not yet come */
	uint64_t ordered_bytes;			       /* of what leaves: not yet left */
	uint64_t missing_bytes;			       /* its part of the device's */
	uint64_t store_bytes;			       /* reserved in the store */
	uint64_t quota_bytes;			       /* of the store at most */
	uint64_t asked_bytes;			       /* an ask that waits */
	uint64_t left_bytes, came_bytes, copied_bytes; /* so far */
	uint64_t waits, waited_ns, longest_ns; /* from wanting, while out, to being admitted */
	uint64_t wanted_ns;		       /* since when, where it wants and is out */
	uint32_t generation;
	bool wants, suspended, parked, stuck;
	bool yields;	  /* it is of class batch, and higher ones need the room */
	unsigned strikes; /* so often it was stuck, since it did in time what it was told */

	struct residency *residency;
	struct turns_seat *seat; /* borrowed; joined */
	struct list of_device, of_coming, todo_link;
	unsigned todo;
	bool chosen, considered, waiting;
	bool promised; /* what it asks for was there when it was chosen */
	bool stopping; /* it was told RESIDENCY_STOP, and has not answered */
	uint64_t idle_ns, park_ns;
	uint64_t in_ns;		   /* it has been in the set since then */
	uint64_t gap_ns;	   /* its usual pause; 0: none is known */
	uint64_t brief_ns;	   /* likewise, of those that are always waited for: hiccups */
	uint64_t progress_ns;	   /* its patience counts from there */
	uint64_t prepared_bytes;   /* for what it was ordered */
	uint64_t pardon_ns;	   /* who is stuck comes back then ... */
	bool alive;		   /* ... if it has given a sign of life */
	bool starved;		   /* the store is full for what it is to move */
	uint64_t spent_ns;	   /* of its patience, when that began */
	uint64_t excuse_ns;	   /* so long that may last in all, ... */
	uint64_t excused_until_ns; /* ... and this time until then */
	uint64_t stored_bytes;	   /* what it has there meanwhile */
	uint64_t kept_bytes;	   /* of the store; it was to give them back */
	uint64_t virtual_ns, charged_ns; /* what it was charged: by weight; of its seat, so far */
	uint64_t arrived_bytes;		 /* since it was chosen */
	uint64_t came_turns;		 /* of its seat, when it was admitted */
	uint64_t order_todo, credit_todo, grant_todo, drop_todo; /* not yet said */
	uint64_t dropping_bytes; /* to be dropped, not yet dropped */
	uint64_t admitted_bytes;
};

void residency_init(struct residency *r, const struct residency_tuning *tuning,
		    uint64_t capacity_bytes, uint64_t budget_bytes);

/* So much of the store is promised to nobody: with less than that, nothing moves. */
uint64_t residency_spare(const struct residency_tuning *tuning);

/* What so many bytes take at the slowest rate that is waited for. */
uint64_t residency_slowest_ns(const struct residency_tuning *tuning, uint64_t bytes);

/* What of the device is for what can move has changed: residual grew, or unmovable memory. */
void residency_capacity(struct residency *r, uint64_t capacity_bytes, uint64_t now_ns);

/* So has the store's. What it has less than is used already comes back with what is dropped. */
void residency_budget(struct residency *r, uint64_t budget_bytes, uint64_t now_ns);

/* The seat stays the caller's and is joined (turns_join); a member leaves before its seat does.
 * `quota_bytes` of the store at most. After a restart residency_adopt() follows. */
void residency_join(struct residency *r, struct residency_member *m, struct turns_seat *seat,
		    void *owner, uint64_t quota_bytes, uint64_t now_ns);
/* What its guests hold that were there before the daemon. Some of it out: it is barred. */
void residency_adopt(struct residency_member *m, uint64_t resident_bytes, uint64_t out_bytes,
		     uint64_t now_ns);
/* It is gone with all it had, at any moment. Returned are the bytes of the store that are the
 * caller's to clear now; residency_cleared() gives them back. */
uint64_t residency_leave(struct residency_member *m, uint64_t now_ns);
void residency_cleared(struct residency *r, uint64_t bytes, uint64_t now_ns);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes for a new block. 0: granted; RESIDENCY_WAITS, _LARGE, _STORE. One ask of a member at a
 * time: its guests stand in line at the caller's. */
must_check int residency_ask(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
void residency_cancel(struct residency_member *m, uint64_t now_ns);
/* Why residency_ask() would refuse it were that the device's capacity; 0: it would not. */
must_check int residency_refusal(const struct residency_member *m, uint64_t bytes,
				 uint64_t capacity_bytes);
/* Were that the device's capacity: could each come back whole, with what it asks for? Those of
 * class batch need that only when the `above_bytes`, which the capacity lacks, are there again. */
bool residency_bears(const struct residency *r, uint64_t capacity_bytes, uint64_t above_bytes);
/* So much memory that cannot move, and that the capacity lacks, is of classes above batch. */
void residency_above(struct residency *r, uint64_t bytes);
/* How long who is in a set runs before it yields, and how long who it yields to waits before. */
void residency_yielding(struct residency *r, uint64_t run_ns, uint64_t delay_ns);
/* Freed, or lost with the process that had it: of what is resident, and of what is out. What was
 * ordered, or on its way, is cut accordingly. */
void residency_free(struct residency_member *m, uint64_t resident_bytes, uint64_t out_bytes,
		    uint64_t now_ns);
/* The most that can be granted to it now without moving anything: what cuMemGetInfo is told of. */
uint64_t residency_room(const struct residency *r);

/* ---- time ------------------------------------------------------------------------------------ */

/* As turns_wants() and turns_idle() are said, of each member, on open devices, too. */
void residency_wants(struct residency_member *m, uint64_t now_ns);
void residency_idle(struct residency_member *m, uint64_t now_ns);

/* All of it leaves and stays out, whatever it wants; or not any longer. RESIDENCY_STORE: the store,
 * or its part of it, is too small for all of it. */
must_check int residency_suspend(struct residency_member *m, bool suspended, uint64_t now_ns);
/* Idle for so long it leaves without anybody's need; 0: never. */
void residency_park(struct residency_member *m, uint64_t park_ns, uint64_t now_ns);

/* ---- movement -------------------------------------------------------------------------------- */

/* The member's bytes are in the store, whole, and no longer on the device; `copied` of them had to
 * be copied. The caller has looked at the generation, and that it is no more than was ordered. */
void residency_left(struct residency_member *m, uint64_t bytes, uint64_t copied, uint64_t now_ns);
/* They are on the device, and usable. Their copies in the store stay valid until dropped. */
void residency_came(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* Credit that it could not use: the device refused. The device counts as smaller by as much, but by
 * no more than what the member has out, however often it says so. */
void residency_unused(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* The answer to RESIDENCY_STOP. */
void residency_stopped(struct residency_member *m, uint64_t now_ns);
void residency_dropped(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* It has prepared so much of what it was ordered; who is stuck already has to move. */
void residency_prepared(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* The store has no room for what it is to move, though the machine promised it: somebody keeps it
 * full. So it is not to blame. `stored_bytes`: what it has there. Where the store has become too
 * small for what is ordered (residency_budget()), its order is stopped, and what it has not got of
 * the store is no longer reserved for it. */
void residency_starves(struct residency_member *m, bool starves, uint64_t stored_bytes,
		       uint64_t now_ns);
/* It keeps so much of the store that it was told to give back. The budget is without that. */
void residency_keeps(struct residency_member *m, uint64_t bytes);
/* Who is in the way of what it waits for, and does not move as it was told, or did not lately.
 * Or who keeps the store full. NULL: its time comes although such members stay where they are. */
const struct residency_member *residency_hindrance(const struct residency_member *m);

/* ---------------------------------------------------------------------------------------------- */

/* The time of residency_deadline() has come. */
void residency_tick(struct residency *r, uint64_t now_ns);
uint64_t residency_deadline(const struct residency *r); /* UINT64_MAX: nothing is waited for */
/* What is to be done next; 0: nothing. After every event, and every event of the device's turns,
 * when turns_next() has said 0. It opens and closes: whenever it has said 0 turns_next() is asked
 * again, until both have said 0 one after the other. */
must_check int residency_next(struct residency *r, uint64_t now_ns,
			      struct residency_action *ret_action);
