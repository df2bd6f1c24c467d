/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whose turn it is. Pure: no clock, no lock, no allocation, no logging; the daemon, the
 * replay and the tests run this code. The caller owns every object and reports what happens and
 * when. It then calls turns_next() for actions until that returns 0, and turns_tick() at
 * turns_deadline().
 *
 *	device  a GPU. It is *open* while turns would gain nothing: every gate on it stands
 *		open and the hardware slices. Otherwise it is *governed*: one tenant's gate is open
 *	tenant  all its processes on all its devices
 *	seat	a tenant on a device: its gate there, what it is charged there
 *
 *	turns_line.c          the next seat on a device, and how long its turn is
 *	turns_tenant.c        a tenant's way through its turn
 *	turns_judge.c         whether a turn goes on
 *	turns_drain.c         closing a gate, and what if the work does not end
 *	turns_last.c          how long work lasts by itself
 *	turns_held.c          work that waits for something outside of the device
 *	turns_breath.c        moments of others in a long drain
 *	turns_await.c         which tenants a tenant waits for
 *	turns_company.c       gates that are open in another's turn
 *	turns_ring.c          tenants whose drains hardly ever end, and that wait for each other
 *	turns_moment.c        turns of a moment, for work beside others
 *	turns_device.c        whether a device is open
 *	turns_account.c       charges
 *	turns_kept.c          what outlives the caller
 *	turns_flight.c        how much work may be under way
 *	alike.c               whether alike tenants need turns
 *
 * A tenant that wants to run stands in line on its governed devices one after the other, in the
 * devices' order. The tenant that is chosen on a device claims it; others run there until the
 * tenant has claimed its last device. Then all its gates are opened together, and at the end of its
 * turn closed together, because its kernels on one device may wait for those on another.
 *
 * The next seat is one that is behind its guarantee. Otherwise the classes come in their order, and
 * within a class the seat with the earliest eligible virtual deadline among those that were not
 * given more than they are entitled to. virtual time = charge / weight. A seat is charged by the
 * caller's clock, from the opening of the gate to the acknowledged drain. A turn that ran too long
 * puts the seat back by the excess. Resting saves nothing up.
 *
 * Laws, tested by tests/unit/test_turns_always.c:
 *  1. on a governed device no gate is opened before all others are closed and drained. There are
 *     three exceptions: a gate that cannot drain while a thread waits at it is opened again;
 *     gates may be opened while one whose drain was given up (laws 7 and 8), or that had not
 *     drained when turns began, stays closed; and a gate may be opened in the turn of a tenant
 *     whose work may wait for it (law 13);
 *  2. therefore the granted times (from the opening to the drain, or to the report) never add up to
 *     more than the wall clock;
 *  3. while a seat that may run stands in line, its device is not idle: a gate is open or draining
 *     there, or other devices of the tenant whose turn begins or ends are being drained;
 *  4. each seat that always wants to run gets what its weight, guarantee and cap say, at any time
 *     to within one turn plus one over-run. What it owes is owed for as long when its share is set,
 *     and by its next process;
 *  5. a seat's gate is opened in its own turn only once its cap has paid for what it was charged,
 *     but for what it may have had since it was found held (law 16), a turn's length ago at most.
 *     It may be let in for another tenant's drain (law 13) before: as long as what it had by such
 *     openings, less what its cap has paid since then, is two turns' length at most. So it never
 *     owes more than one over-run, two turns, the last of those moments and what law 15 lets it
 *     have, and within any second it is charged at most its cap + `burst_ns` + that;
 *  6. a seat that wants to run, is below its cap and owes nothing runs within the longer of one
 *     longest turn of each tenant and the time in which its share is worth `shortest_ns`, plus the
 *     drains. Any seat is next after `starve_ns`. After a turn whose drain was late, those that
 *     stood in line then, and whose own drains are not, come before the next one whose drains are:
 *     each once, and unless it has had more than its part and a turn;
 *  7. a tenant whose gates do not drain while one of its threads waits at one is coupled: it is let
 *     in again for a short time, which doubles each time, and closed again. If it has not drained
 *     `beside_ns` after the end of its turn, the drain is given up: others run beside what it has
 *     on the device, its gates stay closed, and it stands in line like everyone. All of its
 *     openings and drains are charged. Until some of its work has left the device, it is let in
 *     once in each further drain, for `beside_ns`, and for short times in every eighth. It is
 *     neither reported nor suspended nor killed. After such a drain, and later less and less often,
 *     it is watched: it has no turn before its work has ended, or before work of `hang_ns` would
 *     have ended beside others. If it ended by itself, its drains are waited for as long as that
 *     took, `hang_ns` at most, and nobody is let in for them. A tenant with a cap is watched for
 *     10 times `hang_ns`, and twice as long each time; and after each such drain, as long as what
 *     was watched ended by itself;
 *  8. only a tenant whose closed gate did not drain within `hang_ns`, and that has no thread at any
 *     gate, is escalated: it is reported once and then suspended or killed, as its share says. From
 *     the report on, others run. If a thread comes to a gate later, the tenant is coupled. A
 *     suspended tenant has no turn before its share is set. A tenant that was seen to wait (for its
 *     own thread, or once for another tenant), or beside which another one does not drain either,
 *     or that may wait for one that owes more than two turns for its cap, is given up sooner, up to
 *     four times in a row, before it is reported;
 *  9. claims are made in the devices' order, so there are no circular waits;
 * 10. on an open device nothing is gated and no timer runs;
 * 11. no gate of a barred tenant is opened, except one that cannot drain (law 7);
 * 12. half of the time for which a tenant's work went on beside others' turns is charged once it
 *     has drained by itself: the hardware gave it every other slice. So is all of the time between
 *     those turns, if no other tenant's work went on like that. For its cap all of that time
 *     counts;
 * 13. a tenant on one device whose gate does not drain while none of its threads waits there may
 *     wait for another tenant's work. The others in line are let in for a moment, one after the
 *     other. A tenant that was let in twice when the drain ended, or that had not drained either
 *     when the drain was given up, is awaited: from then on its gate is opened together with that
 *     of the tenant that waits for it. The tenant whose turn it is pays for the time of both; the
 *     other one's time in it counts for its cap only. So tenants that wait for each other have no
 *     more than their parts in sum, and a tenant that is awaited without its doing loses nothing.
 *     Every now and then a tenant has its turn alone: if it then drains by itself, it waits for
 *     nobody any more. Nor does it once three drains in a row were given up, until some of its work
 *     leaves. A tenant that is known to wait is given up like one that is coupled.
 *     Once the drain of a tenant without a thread at its gate has taken two fifths of `hang_ns`,
 *     and nobody on the device is known to wait, each tenant that stands in line and has not had
 *     the device for `beside_ns` is let in for half of a turn; that the drain ends then proves
 *     nothing;
 * 14. a tenant that was let in or comes along loses nothing that it is owed, and stands in line
 *     again after 16 turns' length at most, also where nobody else does. The drains of those that
 *     came along count from when each was closed, so they do not add up. No drain becomes a turn
 *     while a tenant waits that was let in for it. Tenants of which two drains in a row were given
 *     up, and nothing has left since, come along in each other's turns, and are let in again with
 *     each other for their drains (law 7): what they have on the device takes of it anyway;
 * 15. work whose drain was given up may wait for a tenant that owes more than two turns for its
 *     cap. That one has turns of a moment, of `step_ns` at most: the next one once its cap has paid
 *     for the last one, whatever else it owes, and at most one in a turn's length on a device.
 *     After that it has as little time to drain, and owes for the rest as law 12 says. Once it has
 *     had `hang_ns` of the device by these turns, drains included, it has to pay for all before the
 *     next one. Of a drain that counts which the hardware gives to one of all that have work there,
 *     or what it took beyond twice `drain_ns`, whichever is more.
 * 16. a tenant that only waits for something outside of the device, as its guests say, is given
 *     up at the check of its drain that finds it so: others run from then on, and if a thread of
 *     it stands at a gate it stands in line. It is neither reported nor suspended nor killed for
 *     that. The time up to the last check that found it so is not charged; all of what follows is,
 *     until it has drained or its next turn begins, as its work may have the device between
 *     others' turns. A tenant with a cap whose drain was given up (law 7), and that is found to
 *     wait so later, pays for what it had until then as law 12 says, and is watched no more. A
 *     tenant on one device of which a process is stopped is given up likewise.
 *     It has no turn before that goes on, or another one has a thread at the gate; with a cap, not
 *     even then for ten times `hang_ns`. Law 12 says what it pays. For 16 closes a thread at its
 *     gate counts (law 7) once a drain takes longer than a turn. One that stays stopped, with no
 *     thread at a gate, is reported, and so on, as law 8 says;
 * 17. nobody's look changes anything: what is decided does not depend on how often
 *     turns_settle() is called, or turns_tick() before turns_deadline() (a machine that is late
 *     for its deadline decides later);
 * 18. two or three tenants on one device that wait for each other (law 13), and whose drains are
 *     given up with one another let in, are in a ring. All of them that may run have open gates in
 *     the turn of each, also those that have not drained. That turn has 12 turns' lengths at most.
 *     For its drain all that have not drained are let in together, for `drain_ns` at most, but for
 *     those whose caps are used up. The turn's tenant pays for all of it;
 * 19. what a seat owes by its weight, its guarantee and its cap is owed after a restart of the
 *     caller, if turns_kept() is told what turns_keep() said. Work whose drain was given up is
 *     charged once it has drained as if nothing had been, and a tenant that was watched is watched
 *     still; if none of its processes came back, it has ended and its cap pays until then. A cap
 *     pays for the time of the restart, if the tenant wanted to run as it began.
 *
 * An event costs O(log n) for n tenants on its device. Joining, leaving and a changed share may go
 * through the device's tenants once; so may a check of a tenant that does not drain, a turn of one
 * that waits for others, and the choice of the next one after a drain that was late.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "core/share/share.h"
#include "core/turns/turns_heap.h"
#include "core/turns/turns_rate.h"

enum turns_escalate { TURNS_ONLY_REPORT, TURNS_MAY_SUSPEND, TURNS_MAY_KILL };

/* The fields of a share that concern time. */
struct turns_share {
	uint32_t weight; /* 1 .. 1000000: only what it is beside others' counts */
	bool weighted;	 /* it was set explicitly, even if to the same as others */
	uint32_t guarantee_milli, cap_milli;
	bool equal; /* the cap is also 1/n of the device's tenants */
	enum share_class class;
	enum turns_escalate escalate;
};

struct turns_tuning {
	uint64_t turn_ns;     /* the longest turn of a resident tenant, without its drain */
	uint64_t shortest_ns; /* only a higher class cuts a turn shorter than this; a small weight
				 does not make turns shorter */
	uint64_t grace_ns;  /* a tenant that usually is idle for at most this long is waited for */
	uint64_t drain_ns;  /* a gate that takes this long to drain, and twice as long as usual, is
			       checked: is it coupled? */
	uint64_t step_ns;   /* for this long a coupled tenant is let in first to be able to drain */
	uint64_t beside_ns; /* how long a coupled tenant may take to drain */
	uint64_t hang_ns;   /* how long a tenant that is not coupled may take to drain */
	uint64_t escalate_ns; /* from the report to the next step */
	uint64_t starve_ns;   /* no seat waits longer, except for its own cap */
	uint64_t debt_ns;     /* the most of an over-run that is carried over a rest */
	uint64_t lead_ns;     /* how far interactive tenants may be ahead of their entitlement */
	uint64_t burst_ns;    /* how much of its cap a seat may save up */
};

/* 8 ms, 1 ms, 300 us, 50 ms, 250 us, 200 ms, 1 s, 2 s, 30 s, 5 s, 100 ms, 5 ms. A tenant that does
 * not drain, by mistake or on purpose, delays its neighbours by `beside_ns` or `hang_ns`. */
extern const struct turns_tuning turns_usual;

enum turns_verb {
	TURNS_OPEN = 1,	 /* the seat's gate */
	TURNS_CLOSE,	 /* it, and call turns_drained() when all is drained */
	TURNS_LATE,	 /* it has not drained yet: call turns_late() */
	TURNS_COUPLED,	 /* for people: its work waits for its own thread, which waited at the gate,
			    see law 7 */
	TURNS_BESIDE,	 /* for people: likewise, and its drain was given up */
	TURNS_UNCOUPLED, /* for people: its last closes drained by themselves */
	TURNS_AWAITS,	 /* for people: its work waits for another tenant's, see law 13 */
	TURNS_REPORT,	 /* for people: the seat's work does not end */
	TURNS_SUSPEND,	 /* the seat's tenant */
	TURNS_KILL,	 /* the seat's tenant */
};

struct turns_seat;

struct turns_action {
	enum turns_verb verb;
	struct turns_seat *seat;
};

enum turns_gate {
	TURNS_CLOSED, /* and drained */
	TURNS_OPENED,
	TURNS_CLOSING,
	TURNS_OWING, /* closed, and the drain is no longer waited for */
};

/* How the tenant's gates close. */
enum turns_bond {
	TURNS_FREE,    /* they drain */
	TURNS_STEPPED, /* coupled: they drain if its threads are let in for a moment */
	TURNS_STAYED,  /* coupled, and the last drain was given up */
	TURNS_HUNG,    /* the last drain was given up, and no thread waits at a gate */
};

enum turns_state {
	TURNS_IDLE,    /* it does not want to run, or is only on open devices */
	TURNS_CAPPED,  /* it may not yet */
	TURNS_LINED,   /* it stands in line on one of its devices */
	TURNS_READY,   /* it has claimed all its devices, which are being drained for it */
	TURNS_RUNNING, /* its gates are open */
	TURNS_ENDING,  /* its gates are closing */
	TURNS_ALONG, /* its gate is open, or closing, in the turn of a tenant that waits for it, or
			of one whose work never leaves the device, like its own */
};

enum { TURNS_AWAITED = 3 }; /* tenants that one tenant may wait for */

struct turns_suspect {
	struct turns_tenant *tenant; /* NULL: none */
	uint32_t proofs;	     /* drains that ended when it was let in */
};

/* The caller owns the structures, and reads only the members under "For reading". */

struct turns {
	struct turns_tuning tuning;
	struct list todo;	  /* seats with pending actions */
	struct turns_heap timers; /* of tenants: caps, and the ends of turns */
	struct turns_heap drains; /* of seats: how long they take to drain */
};

struct turns_device {
	/* For reading. */
	uint32_t order;	  /* no two are equal */
	uint32_t tenants; /* seats */
	uint32_t waiting; /* seats in line */
	bool governed;
	bool unfair;		   /* turns_govern() */
	bool at_once;		   /* turns_at_once() */
	struct turns_seat *holder; /* on a governed device: the tenant whose gate is open or
				    * closing; NULL: none */

	struct turns *turns;
	struct list seats;
	struct turns_seat *claimed;
	uint32_t strays;    /* seats that were open when turns began, and are closing */
	uint32_t beside;    /* seats whose drain is no longer waited for */
	uint32_t moments;   /* turns of a moment that began */
	uint64_t moment_ns; /* none begins before */
	bool moment_due;    /* a seat is to have one: the holder's turn ends */
	uint64_t slow_ns;   /* when the last turn ended that was long in draining; 0: all who
			       waited then have had a turn */
	uint64_t turn_ns;
	uint64_t used_ns; /* by turns, as far as they are settled */
	/* Sums over the seats, which decide between open and governed. */
	uint64_t weights, weights_squared, guarantees;
	uint32_t classes[3], capped, equal, uneven, weighted, barred;
	/* The virtual clock: the weighted mean of the virtual times of the seats that want to
	 * run. */
	uint64_t clock, clock_weight;
	int64_t clock_rest;
	/* The line. */
	struct turns_heap due;		     /* by the time from which they come first */
	struct turns_heap later[3], soon[3]; /* by class: not eligible yet, and eligible */
};

struct turns_tenant {
	/* For reading. */
	struct turns_share share;
	enum turns_state state;
	enum turns_bond bond;
	bool wants;
	bool suspended;	 /* from TURNS_SUSPEND until its share is set, or it has left */
	uint32_t barred; /* seats */

	uint32_t undrained;
	struct turns *turns;
	struct list seats; /* in the devices' order */
	bool idle;	   /* it reported so of all its governed seats */
	bool paused;	   /* idle, and no tenant waits: nothing is charged */
	bool forced;	   /* the tenant that has claimed its device is ready */
	bool stepping;	   /* it is let in for a moment, in order to drain */
	bool breathes;	   /* others are let in for a moment, as its drain takes long */
	bool moment;	   /* it is let in, as work beside others may wait for it: see law 15 */
	bool laden;	   /* its turn began while a drain was given up */
	bool holds;	   /* its last drain to be given up waited for something outside */
	uint32_t stops;	   /* closes until it is forgotten that it was found stopped */
	bool computes;	   /* what was watched last ended by itself */
	bool ends_held;	   /* it was watched until what it had ended, and the rest was held */
	bool lasts;	   /* the last drain that was given up ended by itself */
	bool escalated;
	bool alone; /* its turn is without those it awaits, to see whether it still waits */
	struct turns_tenant *awaits[TURNS_AWAITED]; /* whose work its own waits for; NULL: none */
	struct turns_suspect suspect[TURNS_AWAITED];
	struct turns_tenant *let_in; /* the last that was let in during this drain; NULL: none */
	uint32_t trials;	     /* of others than those it awaits, in this drain */
	uint32_t vain_drains;	     /* in a row, see law 8 */
	uint32_t vain;		     /* drains in vain with its mates (law 18); 0: in no ring */
	uint64_t proved_ns;	     /* how long the drain took that gave the first proof since one
					was found; 0: none */
	uint64_t looked_ns;	     /* when it was last seen to wait still; 0: never */
	uint32_t together;	     /* turns with them since it had one alone */
	uint32_t lone;		     /* turns alone in a row that drained by themselves */
	uint32_t confirmed;	     /* how often it still waited */
	uint32_t steps;		     /* of this close */
	uint32_t smooth;	     /* closes in a row that needed none */
	uint32_t stuck;		     /* drains in a row that were given up; none of its work
					has left since the first */
	uint32_t left;		     /* drains in a row that were given up, and did not end
					by themselves in time */
	uint32_t couplings;	     /* how often it was coupled, and then not any more */
	uint32_t gap_milli;	     /* how often a pause is as short as `gap_ns` */
	uint64_t turn_ns, end_ns;    /* when the turn, or its last extension, began; and is over */
	uint64_t idle_ns;	     /* since when; 0: it has not been seen idle yet */
	uint64_t ending_ns;	     /* when its gates were closed, ... */
	uint64_t closed_ns;	     /* ... and when they were last, after a step */
	uint64_t along_ns;	     /* since when it has company */
	uint64_t company_ns; /* when the turn ended since which one drains after the other */
	uint64_t hung_ns;    /* when it was reported */
	uint64_t overrun_ns; /* so long it usually drains */
	uint64_t lasting_ns; /* so long its work goes on by itself after a close; 0: unknown */
	uint64_t seen_ns;    /* the longest that was seen since; 0: it was seen not to end */
	uint64_t left_ns;    /* when its drain was given up; 0: it has had a turn since */
	uint64_t watched_until_ns; /* it has no turn before; 0: it is not watched */
	uint64_t gap_ns;	   /* between idle and wanting again, where that is short */
	struct turns_node timer;
};

struct turns_seat {
	/* For reading. Sums since the seat joined; turns_settle() updates a running seat. */
	void *owner; /* the caller's */
	struct turns_tenant *tenant;
	struct turns_device *device;
	enum turns_gate gate;
	uint32_t virtual_rest;		  /* of `virtual_ns`: what the division left */
	uint64_t turns, waits;		  /* turns begun; those that were waited for */
	uint64_t waited_ns, longest_ns;	  /* from wanting to the opening */
	uint64_t wanted_ns;		  /* since when, where it waits */
	uint64_t charged_ns, entitled_ns; /* entitled: while it wants */
	struct turns_rates *rates;	  /* the same over the last second and minute; the caller's,
					     while it is there; NULL: not kept */

	bool barred; /* see turns_bar() */
	bool rests;  /* see turns_rest() */
	bool asks, idle, stray, active, rested, lined, soon, uneven, entitling;
	bool told_open;	 /* for reading: what the last TURNS_OPEN or TURNS_CLOSE said */
	bool moment_due; /* it is to have a turn of a moment, see law 15 */
	bool moment;	 /* its gate was opened for one the last time */
	bool clear;	 /* it has drained and was not told to open since then */
	bool held;	 /* its drain was given up as its work waited for something outside, ... */
	bool stopped;	 /* ... or, likewise, as its processes were stopped */
	bool opened_owing; /* its cap owed something when its gate was opened */
	unsigned todo;
	uint32_t moment_longer; /* parts of a step that its moments are longer than others' */
	uint32_t tries;		/* how often it was let in, in the drain of `tried_ns` */
	struct list of_tenant, of_device, todo_link;
	struct turns_seat *skipped;
	struct turns_seat *leader;     /* in whose turn its gate is open; NULL: in its own */
	struct list along, along_link; /* those whose leader it is */
	uint64_t tried_ns;	       /* the end of the turn in whose drain it was last let in */
	uint64_t settled_ns, closing_ns, entitled_at_ns, entitled_clock;
	uint64_t opened_ns, opened_before_ns; /* the last time, and the one before */
	uint64_t owing_used_ns;		      /* the device's `used_ns` at that time */
	uint64_t owing_ns;		      /* since when its drain is not waited for, or it was
						 last seen to be held */
	uint64_t virtual_ns;		      /* by weight: what it was charged */
	int64_t allowance, floor;	      /* thousandths of ns: of the cap, of the guarantee */
	uint64_t allowance_at_ns, floor_at_ns;
	uint64_t moment_ns;  /* when its cap has paid for its last turn of a moment */
	uint64_t moments_ns; /* what it had of the device by those since its last whole turn */
	int64_t unpaid; /* of what it had by openings while its cap owed something; its cap pays
			    for that first */
	struct turns_node due_node, line_node, timer;
	/* Of a seat that has left, until it comes back: */
	uint64_t left_ns;	/* 0: it was never there */
	uint64_t owed_ns;	/* what it had beyond its part, */
	int64_t left_allowance; /* and what it had left of its cap (`unpaid` and `floor` stay) */
	/* For turns_kept(): work beside others' since (0: there is none), and watched until. */
	uint64_t kept_owing_ns, kept_watched_ns;
};

void turns_init(struct turns *turns, const struct turns_tuning *tuning);

/* `order`: the place of its UUID among those of all devices, or behind them. */
void turns_device_init(struct turns *turns, struct turns_device *device, uint32_t order);

void turns_tenant_init(struct turns *turns, struct turns_tenant *tenant,
		       const struct turns_share *share);

/* A new seat, all zero: until it joins for the first time, its cap pays for what it is told to owe.
 */
void turns_place(struct turns_seat *seat, struct turns_tenant *tenant, struct turns_device *device);

/* The tenant joins a device. `is_open` is the state of its gate there; its work may then be in
 * flight (after a restart). A tenant has at most one seat on a device. `owner` is the caller's.
 * The seat is all zero or new, or has left the same device before. In the latter case it still owes
 * what it owed, so that a tenant of short processes gets no more than one of long processes. */
void turns_join(struct turns_seat *seat, struct turns_tenant *tenant, struct turns_device *device,
		void *owner, bool is_open, uint64_t now_ns);

/* The tenant leaves, or all its processes have died: none of its work is in flight any more. It
 * may join again. Its pending actions are dropped. */
void turns_leave(struct turns_seat *seat, uint64_t now_ns);

/* A live change. The tenant is not suspended any more. */
void turns_set(struct turns_tenant *tenant, const struct turns_share *share, uint64_t now_ns);

/* Whether the hardware's own slicing would give the seat more or less than a fully resident
 * tenant with one process: true if it has several processes, or evicted memory. */
void turns_uneven(struct turns_seat *seat, bool uneven, uint64_t now_ns);

/* Whether tenants of the device must take turns although they are all alike: the hardware's slices
 * have proved unequal. core/turns/alike.h decides that. */
void turns_govern(struct turns_device *device, bool unfair, uint64_t now_ns);
/* The hardware runs the device's tenants at once (MPS) and bounds each by itself: no turns, but for
 * tenants that are barred. */
void turns_at_once(struct turns_device *device, bool at_once, uint64_t now_ns);
/* Several tenants share the device, and it is open unless turns_govern() says otherwise. */
bool turns_alike(const struct turns_device *device);

/* Its memory is not, or not entirely, on the device. While one of its seats is barred, the
 * tenant does not stand in line, and a turn that it has ends. A device with a barred seat is
 * governed. Until the seat is no longer barred, `gate` is TURNS_CLOSED once everything has
 * drained. The machine remembers that the tenant wants to run. core/residency/residency.h decides
 * which seats are barred. */
void turns_bar(struct turns_seat *seat, bool barred, uint64_t now_ns);

/* A person lets the tenant stand still: whatever its threads wait for, it is entitled to nothing
 * meanwhile. */
void turns_rest(struct turns_seat *seat, bool rests, uint64_t now_ns);

/* A thread of the tenant waits at this closed gate, or work was submitted through the open one. */
void turns_wants(struct turns_seat *seat, uint64_t now_ns);

/* Everything is complete and nothing was submitted. (A seat that did not want to run when its
 * gate was opened counts as idle until it reports that it does.) The turn ends once the tenant's
 * usual pause is over. If no tenant waits and no cap applies, the gate stays open, and nothing
 * is charged until this seat or another one wants to run. */
void turns_idle(struct turns_seat *seat, uint64_t now_ns);

/* All its guests have acknowledged the close. `wants`: a thread waits at the gate. */
void turns_drained(struct turns_seat *seat, bool wants, uint64_t now_ns);

/* The answer to TURNS_LATE. `stands`: a thread of the tenant waits at one of its gates. */
void turns_late(struct turns_seat *seat, bool stands, uint64_t now_ns);

/* Other answers to TURNS_LATE: all that the tenant has on the device waits for something outside of
 * it (a value, a host function); its processes that have not drained are stopped. */
void turns_held(struct turns_seat *seat, bool stands, uint64_t now_ns);
void turns_stopped(struct turns_seat *seat, bool stands, uint64_t now_ns);
/* Whether turns_stopped() says anything that turns_late() does not: it costs a look at processes.
 */
must_check bool turns_may_be_stopped(const struct turns_seat *seat);

/* The time of turns_deadline() has come. */
void turns_tick(struct turns *turns, uint64_t now_ns);
/* The caller did not run for so long, and heard nobody: no drain is late for that. Before
 * turns_tick(). */
void turns_lost(struct turns_device *device, uint64_t ns, uint64_t now_ns);

/* When to call turns_tick(); UINT64_MAX: never. */
uint64_t turns_deadline(const struct turns *turns);

/* The next action; 0: none. Call it after every event, until it returns 0. */
must_check int turns_next(struct turns *turns, struct turns_action *ret_action);

/* Brings the seat's sums up to now_ns. */
void turns_settle(struct turns_seat *seat, uint64_t now_ns);
/* Its rates; all zero where they are not kept. */
const struct turns_rates *turns_rates_of(const struct turns_seat *seat);

/* The cap that applies to the seat now, including `equal`. */
uint32_t turns_cap_milli(const struct turns_seat *seat);

/* Takes the fields that concern time. */
void turns_share_of(const struct share *share, struct turns_share *ret_share);
