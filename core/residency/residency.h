/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whose memory is on the device. Pure: no clock, no lock, no allocation, no logging. The
 * daemon, the replay and the tests run this code, on top of core/turns. The caller owns every
 * object. It reports each event with its time, then calls residency_next() until that returns 0,
 * and calls residency_tick() at residency_deadline(). After any call it calls turns_next() as well.
 *
 *	residency  a device: the bytes of it that are for memory that can move
 *	store	   host memory, bounded in bytes, for a device's evicted blocks
 *	member	   a tenant on a device: its bytes there, in the store, and on their way
 *	set	   the members whose memory is on the device together
 *
 *	residency.c           events
 *	residency_next.c      what is due is decided
 *	residency_choose.c    the next set: which members come
 *	residency_move.c      the eviction order
 *	residency_yield.c     class batch, which gives way
 *	residency_pause.c     for how long memory stays in a pause
 *	residency_patience.c  members that do not obey
 *	residency_report.c    what guests say that they moved
 *
 * The members of a set take turns as core/turns decides (the fast clock). While the members that
 * want the device do not all fit, sets follow one another (the slow clock).
 *
 * A member outside of the set is barred (turns_bar()) before any of its memory moves, and admitted
 * once all of its memory is there. A decision first names the members that are to come. Then it
 * evicts what they lack room for, and no more: members that do not want the device leave first,
 * the one that has been idle for longest before the others; then members that want it, the one
 * whose next set is furthest away first. So idle memory stays until another member needs the room.
 *
 * Bytes move chunk by chunk, in both directions at once. What has left (residency_left()) becomes
 * credit for a member that comes, in the same call. decisions/0091-memory-that-moves.md says what
 * a guest does in between. Here a block counts for the device from the credit until it has left,
 * and for the store from the order to leave until it is back.
 *
 * A set stays for as long as the movement that brought it took, multiplied so that movement costs
 * no more than the operator's share of the time. It stays for less if a member would otherwise wait
 * for longer than `longest_ns`, if a member of a higher class waits, or if no member of it has
 * wanted the device for longer than it usually pauses, provided that such a pause is shorter than
 * the movement (waiting then costs at most twice what moving would).
 *
 * Class batch yields (residency_yield.c): while members of higher classes are active and a member
 * of class batch does not fit beside them, it is no candidate for a set, however long it waits, and
 * it is the first to leave if they need its room. Before that it has run for `run_ns`, and a member
 * that it yields to has waited for `delay_ns`; while it is out, it comes only if it fits beside
 * them. It stays where it is while no other member needs its room. Memory that cannot move can be
 * in its way as well (residency_above()).
 *
 * Laws, attacked by tests/unit/test_residency_always.c:
 *  1. The members' resident bytes and credit add up to no more than the capacity: nothing is
 *     granted, and no credit given, beyond it. (A lowered capacity is reached by evicting.)
 *  2. A byte is resident, out, or both while it moves, and never neither: a member's `resident` +
 *     `out` changes by what the caller reports as allocated or freed, and by nothing else.
 *  3. The store's `used` is at most its budget, and a member's part at most its quota, without
 *     what was there before these were lowered. `used` is at least what is out or leaving.
 *  4. A member that is not wholly resident is barred, and only a member that is barred and drained
 *     is ordered to evict. A member whose guests do not drain, evict, restore or drop within
 *     `patience_ns`, plus the time that the bytes which they moved take at `slowest_bps`, is
 *     reported (RESIDENCY_STUCK). It counts as unmovable until its guests show a sign of life; the
 *     second time at least until twice the patience has passed, and so on. (A member that did not
 *     drain and runs on needs no sign, only the time.) If such a member is whole it is admitted,
 *     and what it asks for comes from members that can leave: its work on the device may wait for
 *     the thread that asks.
 *     Time in which the store has no room for what is to leave counts against no member's
 *     patience, nor time in which a member's processes wait for a processor.
 *  5. Nothing moves while all members that want the device fit on it, with all that they ask for.
 *  6. A member that wants the device and fits beside what is unmovable is in a set within
 *     `longest_ns` and one set (its stay, its movement, the patience with members that do not
 *     answer) for each other member. A set does not end within `longest_ns` before each member of
 *     it that wants a turn has had one, unless a member of a better class waits.
 *  7. Members are ordered to evict no more than what is lacking.
 *  8. An ask is granted at once, granted later, or refused with its reason. A member never holds
 *     more than the device's capacity.
 *  9. Only members of class batch yield, and only while a higher class is active, or has memory
 *     there that cannot move. A member of a higher class waits for no member of class batch for
 *     longer than `run_ns`, `delay_ns` and the movement, if it fits beside the others of higher
 *     classes. Law 6 holds for a member of class batch while it does not yield.
 *
 * Not decided here: which block is whose and where it lies (the guest and the store do that);
 * guarantees and caps (core/turns keeps them within a set; between sets weights and classes count);
 * one set for a tenant on several devices (each device decides for itself).
 *
 * An event costs O(1), a decision on sets O(n^2) of the device's members. Sets change on the slow
 * clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "core/turns/turns.h"

struct residency_tuning {
	uint64_t turn_ns;      /* how long a set stays; 0: that follows from what moving it took */
	uint32_t cost_milli;   /* the part of the time that movement may take: the operator's */
	uint64_t shortest_ns;  /* a set stays for at least as long */
	uint64_t longest_ns;   /* the longest wait, where that can be helped */
	uint64_t run_ns;       /* how long a member runs, at least, before it yields */
	uint64_t delay_ns;     /* how long a member waits before others yield to it */
	uint64_t owing_ns;     /* patience with a drain that core/turns has given up */
	uint64_t patience_ns;  /* with a member that is to drain, evict, restore or drop, ... */
	uint64_t slowest_bps;  /* ... beyond what its bytes take at this rate; 0: any rate does */
	uint64_t chunk_bytes;  /* the grain of credit: no block is larger */
	uint64_t window_bytes; /* the most credit that is not used yet: two chunks or more */
};

/* By cost, 5 %, 20 ms, 30 s, 10 s, 100 ms, 1 s, 10 s, 64 MiB a second, 64 MiB, 512 MiB. */
extern const struct residency_tuning residency_usual;

/* Why an ask is not granted. residency_suspend() returns RESIDENCY_STORE alone of these. */
enum {
	RESIDENCY_WAITS = 1, /* RESIDENCY_GRANT will follow */
	RESIDENCY_LARGE,     /* the member alone would be larger than the device */
	RESIDENCY_STORE,     /* device and store together lack room, or the member's quota does */
};

enum residency_verb {
	/* The member's guests evict `bytes`, in addition to earlier orders of the same
	 * `generation`. The store has room for them. */
	RESIDENCY_EVICT = 1,
	/* Orders that were not carried out yet and credit that was not used yet are void. The
	 * guests' answer is residency_stopped(). Later orders are of another generation. */
	RESIDENCY_STOP,
	/* There is room for `bytes` more of the member's blocks that are out. */
	RESIDENCY_CREDIT,
	RESIDENCY_GRANT, /* the member has what it asked for: `bytes` */
	/* The guests give up copies of resident blocks, `bytes` of the store. Their answer is
	 * residency_dropped(). */
	RESIDENCY_DROP,
	RESIDENCY_ADMITTED, /* to be reported and counted: it is in the set; `bytes` came */
	RESIDENCY_STUCK,    /* to be reported: its guests do not evict, it counts as unmovable */
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
	RESIDENCY_COMING,   /* the same, and chosen: its bytes come */
};

/* The caller owns these structures. It may read the fields under "for reading", and no others. */

struct residency {
	/* For reading. */
	uint64_t capacity_bytes; /* for what can move */
	uint64_t resident_bytes, credit_bytes;
	uint64_t missing_bytes;		   /* credit that the device refused: it lacks them */
	uint64_t left_bytes, came_bytes;   /* so far */
	uint64_t copied_bytes;		   /* of what left; the rest was clean */
	uint64_t budget_bytes, used_bytes; /* of the store; used: reserved for members */
	uint64_t sets;			   /* sets that movement has brought so far */
	uint64_t cost_ns;		   /* how long the last one took from its decision */
	uint64_t moving_ns;		   /* how long all of them took */

	struct residency_tuning tuning;
	struct list members, todo;
	struct list coming;	  /* chosen members that lack something, in the order of choice */
	uint64_t began_ns;	  /* when the set began */
	uint64_t stay_ns;	  /* how long it is to stay */
	uint64_t moving_since_ns; /* when the members that come were chosen */
	uint64_t clock;		  /* the virtual time of the member that was chosen last */
	uint64_t timer_ns, retry_ns; /* retry: no member could make room, so that it is tried again
					then; 0: not so */
	uint32_t draining;	     /* members that are to drain */
	uint32_t waiting;	     /* members that claim more than they have */
	bool dirty, choosing; /* something is to be done; the next set is to be chosen anew */
	bool rotating;	      /* the members that come make a new set */
	bool over;	      /* the set's stay was over when the last choice was made */
	uint64_t above_bytes; /* what the capacity lacks by unmovable memory of higher classes */
	uint64_t yield_ns;    /* when a member of the set may be told to yield */
	uint64_t below_bytes; /* the room that higher classes left when that was judged */
	uint32_t yielding;    /* members */
};

struct residency_member {
	/* For reading. */
	void *owner; /* the caller's */
	enum residency_place place;
	uint64_t resident_bytes, out_bytes;
	uint64_t credit_bytes;			       /* credit that it has not used yet */
	uint64_t ordered_bytes;			       /* ordered to leave, and still there */
	uint64_t missing_bytes;			       /* its part of residency.missing_bytes */
	uint64_t store_bytes;			       /* reserved in the store */
	uint64_t quota_bytes;			       /* of the store at most */
	uint64_t asked_bytes;			       /* an ask that waits */
	uint64_t left_bytes, came_bytes, copied_bytes; /* so far */
	uint64_t waits, waited_ns, longest_ns; /* from wanting, while out, to being admitted */
	uint64_t wanted_ns;		       /* when it began to want, if it is out */
	uint32_t generation;
	bool wants, suspended, parked, stuck;
	bool yields;	  /* it is of class batch, and higher classes need the room */
	unsigned strikes; /* how often it was stuck since it last obeyed in time */

	struct residency *residency;
	struct turns_seat *seat; /* borrowed; joined */
	struct list of_device, of_coming, todo_link;
	unsigned todo;
	bool chosen, considered, waiting;
	bool promised; /* there was room for what it asks for when it was chosen */
	bool stopping; /* it has not answered RESIDENCY_STOP yet */
	bool alive;    /* it has shown a sign of life since it was stuck */
	bool starved;  /* the store has no room for what it is to move */
	uint64_t idle_ns, park_ns;
	uint64_t in_ns;	      /* when it came into the set */
	uint64_t gap_ns;      /* its usual pause; 0: none is known */
	uint64_t brief_ns;    /* its usual hiccup: a pause so short that it is always waited for */
	uint64_t progress_ns; /* the patience with it counts from here */
	uint64_t unserved_ns; /* waited for a processor since bytes of it moved, and not counted */
	uint64_t prepared_bytes;	 /* prepared to leave, of what was ordered */
	uint64_t pardon_ns;		 /* it is stuck until then, and until it is `alive` */
	uint64_t spent_ns;		 /* patience that was used up when it began to starve */
	uint64_t excuse_ns;		 /* how long starving may excuse it in all */
	uint64_t excused_until_ns;	 /* until when this time */
	uint64_t stored_bytes;		 /* what it has in the store meanwhile */
	uint64_t kept_bytes;		 /* what it keeps of the store against its orders */
	uint64_t virtual_ns, charged_ns; /* charged by weight; charged to its seat so far */
	uint64_t arrived_bytes;		 /* since it was chosen */
	uint64_t came_turns;		 /* its seat's turns when it was admitted */
	uint64_t order_todo, credit_todo, grant_todo, drop_todo; /* not handed out yet */
	uint64_t dropping_bytes; /* to be dropped, not yet dropped */
	uint64_t admitted_bytes;
};

void residency_init(struct residency *r, const struct residency_tuning *tuning,
		    uint64_t capacity_bytes, uint64_t budget_bytes);

/* The part of the store that is promised to no member: without it nothing can move. */
uint64_t residency_spare(const struct residency_tuning *tuning);

/* How long so many bytes take at the slowest rate for which patience lasts. */
uint64_t residency_slowest_ns(const struct residency_tuning *tuning, uint64_t bytes);

/* The part of the device that is for movable memory has changed: residual or unmovable memory grew,
 * say. */
void residency_capacity(struct residency *r, uint64_t capacity_bytes, uint64_t now_ns);

/* The store's budget has changed. If more than that is used, the rest comes back as copies are
 * dropped. */
void residency_budget(struct residency *r, uint64_t budget_bytes, uint64_t now_ns);

/* The seat is borrowed; it has joined (turns_join()), and leaves after the member. quota_bytes: the
 * most that the member may use of the store. After a restart residency_adopt() follows. */
void residency_join(struct residency *r, struct residency_member *m, struct turns_seat *seat,
		    void *owner, uint64_t quota_bytes, uint64_t now_ns);
/* Its quota has changed. What it has beyond that stays where it is until the guests move it. */
void residency_quota(struct residency_member *m, uint64_t quota_bytes, uint64_t now_ns);
/* Adopts what its guests held before the daemon was restarted. If some of it is out, the member is
 * barred. */
void residency_adopt(struct residency_member *m, uint64_t resident_bytes, uint64_t out_bytes,
		     uint64_t now_ns);
/* The member is gone with all that it had; possible at any moment. Returns how many bytes of the
 * store the caller has to clear now; residency_cleared() makes them usable again. */
uint64_t residency_leave(struct residency_member *m, uint64_t now_ns);
void residency_cleared(struct residency *r, uint64_t bytes, uint64_t now_ns);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Asks for the bytes of a new block. 0: granted; or RESIDENCY_WAITS, _LARGE or _STORE. A member
 * asks once at a time; the caller lets its guests queue. */
must_check int residency_ask(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
void residency_cancel(struct residency_member *m, uint64_t now_ns);
/* Why residency_ask() would refuse so much on a device of that capacity; 0: it would not. */
must_check int residency_refusal(const struct residency_member *m, uint64_t bytes,
				 uint64_t capacity_bytes);
/* On a device of that capacity, could each member come back whole, with what it asks for? For
 * members of class batch this has to hold only when the `above_bytes`, which the capacity lacks,
 * are there again. */
bool residency_bears(const struct residency *r, uint64_t capacity_bytes, uint64_t above_bytes);
/* So much memory that cannot move, and that the capacity lacks, is of classes above batch. */
void residency_above(struct residency *r, uint64_t bytes);
/* Sets `run_ns` and `delay_ns` of the tuning. */
void residency_yielding(struct residency *r, uint64_t run_ns, uint64_t delay_ns);
/* Whether so many resident bytes could move out to make room for memory that cannot move. */
bool residency_could_leave(const struct residency *r, uint64_t bytes);
/* The member freed memory, or lost it with a process: so much of what is resident, and so much of
 * what is out. Orders and credit shrink accordingly. */
void residency_free(struct residency_member *m, uint64_t resident_bytes, uint64_t out_bytes,
		    uint64_t now_ns);
/* The most that can be granted now without moving anything; cuMemGetInfo reports it. */
uint64_t residency_room(const struct residency *r);

/* ---- time ------------------------------------------------------------------------------------ */

/* To be called with turns_wants() and turns_idle(), on open devices, too. */
void residency_wants(struct residency_member *m, uint64_t now_ns);
void residency_idle(struct residency_member *m, uint64_t now_ns);

/* Credit that guests hold and do not use: it needs no place in the store. */
struct residency_unused {
	uint64_t own_bytes;
	uint64_t others_bytes; /* of the members that are suspended */
};

/* A suspended member leaves as a whole and stays out, whatever it wants. RESIDENCY_STORE: the
 * store, or the member's quota of it, is too small for that. `credit`: NULL, if there is none. */
must_check int residency_suspend(struct residency_member *m, bool suspended,
				 const struct residency_unused *credit, uint64_t now_ns);
/* It was suspended before it joined, and still is, whatever the store has: what has no room there
 * stays on the device until it has. */
void residency_still_suspended(struct residency_member *m, uint64_t now_ns);
/* Of one that is suspended: has the store room for all that it has? */
must_check bool residency_is_housed(const struct residency_member *m);
/* After park_ns of idleness the member leaves although no other needs the room; 0: it never does.
 */
void residency_park(struct residency_member *m, uint64_t park_ns, uint64_t now_ns);

/* ---- movement -------------------------------------------------------------------------------- */

/* So many of the member's bytes are completely in the store and no longer on the device; `copied`
 * of them had to be copied. The caller has checked the generation, and that so many were ordered.
 */
void residency_left(struct residency_member *m, uint64_t bytes, uint64_t copied, uint64_t now_ns);
/* So many bytes are on the device and usable. Their copies in the store stay valid until they are
 * dropped. */
void residency_came(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* The member could not use so much credit, because the device refused. The device counts as smaller
 * by as much, but by no more than what the member has out, however often this is reported. */
void residency_unused(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* The answer to RESIDENCY_STOP. */
void residency_stopped(struct residency_member *m, uint64_t now_ns);
void residency_dropped(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* The member has prepared so much of what it was ordered to evict. That excuses no member that is
 * stuck already: it has to evict. */
void residency_prepared(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* It is not stuck, and is to do something that it could do now. */
bool residency_is_to_act(const struct residency_member *m);
/* Its processes have waited so long for a processor since this was last said, or since it was to
 * act. That is not counted, unless it gets too much. */
void residency_unserved(struct residency_member *m, uint64_t ns, uint64_t now_ns);
/* The caller did not run for so long, and heard nobody: it counts for nobody's patience. */
void residency_lost(struct residency *r, uint64_t ns, uint64_t now_ns);
/* The store has no room for what the member is to evict, although that was promised: another member
 * keeps it full, and this one is not to blame. stored_bytes: what this one has there. If the store
 * has become too small for the order (residency_budget()), the order is stopped, and store that
 * the member has not got yet is no longer reserved for it. */
void residency_starves(struct residency_member *m, bool starves, uint64_t stored_bytes,
		       uint64_t now_ns);
/* The member keeps so much of the store although it was ordered to give it back. The budget is
 * without that. */
void residency_keeps(struct residency_member *m, uint64_t bytes);
/* The member that is in the way of what this one waits for, and does not obey, or did not lately;
 * or the one that keeps the store full. NULL: this one will be served even if no other obeys. */
const struct residency_member *residency_hindrance(const struct residency_member *m);

/* ---------------------------------------------------------------------------------------------- */

/* The time of residency_deadline() has come. */
void residency_tick(struct residency *r, uint64_t now_ns);
uint64_t residency_deadline(const struct residency *r); /* UINT64_MAX: none */
/* What is to be done next; 0: nothing. To be called after every event, and after every event of the
 * device's turns, when turns_next() has returned 0. Its decisions open and close gates: the caller
 * alternates between the two until both have returned 0 in a row. */
must_check int residency_next(struct residency *r, uint64_t now_ns,
			      struct residency_action *ret_action);
