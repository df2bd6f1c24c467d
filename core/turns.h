/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is. Pure: no clock, no lock, no allocation, no logging; the daemon, the replay and
 * the tests run this code. The caller owns every object, says what happens and when, then asks
 * turns_next() what is to be done until it says 0, and calls turns_tick() at turns_deadline().
 *
 *	device  a GPU. It is *open* while nothing would be gained by turns: every gate on it stands
 *		open and the hardware slices. Otherwise it is *governed*: one tenant's gate is open
 *	tenant  all its processes on all its devices
 *	seat	a tenant on a device: its gate there, what it is charged there
 *
 * A tenant that wants stands in line on its governed devices one after the other, in the devices'
 * order; who is chosen on one claims it, and others run there until the last one is claimed, too.
 * Then all of its gates are opened at once, and at the end of its turn closed at once: its kernels
 * on one device may wait for those on another.
 *
 * Who is next: who is behind its guarantee; then the classes in their order, and within a class, of
 * those who were not given more than they are entitled to, who is due first (earliest eligible
 * virtual deadline). A seat's virtual time is what it was charged by its weight. It is charged the
 * caller's clock from the opening of the gate to the acknowledged drain. A turn that ran too long
 * puts the seat so much further behind; what rests saves nothing up.
 *
 * Laws, attacked by tests/unit/test_turns_always.c:
 *  1. on a governed device no gate is opened before all others were closed and drained; but for a
 *     gate that cannot drain while a thread stands at it (it is opened again), and beside one that
 *     was reported as hung, or had not drained when turns began: those stay closed;
 *  2. so what was granted (from the opening to the drain, or the report) never sums up to more than
 *     the wall clock;
 *  3. while a seat stands in line, and may run, its device does not stand still: somebody's gate is
 *     open or draining there, or other devices of the tenant whose turn begins or ends are drained;
 *  4. of those who want all the time, each is given what its weight, guarantee and cap say, within
 *     a turn and an over-run at any time;
 *  5. within any second a seat is charged no more than its cap, and `burst_ns`, and one over-run;
 *  6. who wants, is below its cap and owes nothing runs within one longest turn of each tenant, or
 *     within the time in which its share is worth `shortest_ns`, whichever is longer, and the
 *     drains; and whoever it is, it is next after `starve_ns`;
 *  7. who is coupled is closed while it is idle; or after it has run for eight drain deadlines
 *     longer than its turn (decisions/0071): either it drains, or it is opened again after the
 *     ninth. While a thread of it stands at a gate it is neither reported nor suspended nor killed;
 *  8. only a closed gate that did not drain within `hang_ns`, of a tenant without a thread at any
 *     gate, is escalated: reported once, then, as its share says, suspended or killed. From the
 *     report on others run;
 *  9. claims are made in the devices' order: nobody waits for who waits for it;
 * 10. on an open device nothing is gated and no time is waited for.
 *
 * An event costs O(log n) of the tenants of its device; joining, leaving and a changed share may go
 * through the device's tenants once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "core/share.h"
#include "core/turns_heap.h"
#include "core/turns_rate.h"

enum turns_escalate { TURNS_ONLY_REPORT, TURNS_MAY_SUSPEND, TURNS_MAY_KILL };

/* What of a share concerns time. */
struct turns_share {
	uint32_t weight; /* 1 .. 10000 */
	bool weighted;	 /* it was stated: who is entitled to as much as others is entitled, too */
	uint32_t guarantee_milli, cap_milli;
	bool equal; /* the cap is also 1/n of the device's tenants */
	enum share_class class;
	enum turns_escalate escalate;
};

struct turns_tuning {
	uint64_t turn_ns;     /* the longest turn of who is resident, before its drain */
	uint64_t shortest_ns; /* a turn is not cut shorter, but by a higher class; and not planned
			       * shorter for who has a small weight */
	uint64_t grace_ns;    /* a tenant that is idle for no longer usually, is waited for */
	uint64_t drain_ns;    /* a gate that takes so long to drain is looked at: is it coupled? */
	uint64_t patience_ns; /* ... and this at most, of who was found to need longer */
	uint64_t hang_ns;     /* so long who is not coupled may take to drain */
	uint64_t escalate_ns; /* from the report to the next step */
	uint64_t starve_ns;   /* nobody waits longer for what is not its own cap */
	uint64_t debt_ns;     /* of an over-run no more is carried over a rest */
	uint64_t lead_ns;     /* interactive tenants may be ahead of their entitlement by this */
	uint64_t burst_ns;    /* of its cap a seat saves up so much */
};

/* 8 ms, 1 ms, 300 us, 250 ms, 8 s, 1 s, 2 s, 30 s, 1 s, 100 ms, 5 ms. Whoever does not drain, by
 * mistake or on purpose, holds its neighbours up for `hang_ns`. */
extern const struct turns_tuning turns_usual;

enum turns_verb {
	TURNS_OPEN = 1,	 /* the seat's gate */
	TURNS_CLOSE,	 /* it, and say turns_drained() when all is drained */
	TURNS_LATE,	 /* it has not drained yet: say turns_late() */
	TURNS_COUPLED,	 /* for people: its work waits for a thread of its own that stood at the
			  * gate, see law 7 */
	TURNS_UNCOUPLED, /* for people: it was closed after all */
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
	TURNS_OWING, /* closed, and nobody waits for the drain any more */
};

enum turns_state {
	TURNS_AWAY,    /* it does not want, or is on open devices only */
	TURNS_CAPPED,  /* it may not yet */
	TURNS_LINED,   /* it stands in line on one of its devices */
	TURNS_READY,   /* it has claimed all, which are drained for it */
	TURNS_RUNNING, /* its gates are open */
	TURNS_ENDING,  /* its gates are closing */
};

/* The structures are their owners', who read what stands under "for reading" and nothing else. */

struct turns {
	struct turns_tuning tuning;
	struct list todo;	  /* seats of which something is to be told */
	struct turns_heap timers; /* of tenants: caps, and the ends of turns */
	struct turns_heap drains; /* of seats: how long they take to drain */
};

struct turns_device {
	/* For reading. */
	uint32_t order;	  /* by UUID: no two are equal */
	uint32_t tenants; /* seats */
	uint32_t waiting; /* seats in line */
	bool governed;
	struct turns_seat
		*holder; /* of a governed one: whose gate is open or closing, NULL: none */

	struct turns *turns;
	struct list seats;
	struct turns_seat *claimed;
	uint32_t strays; /* seats that were open when turns began, and are closing */
	uint64_t turn_ns;
	/* What makes a difference: sums over the seats. */
	uint64_t weights, weights_squared, guarantees;
	uint32_t classes[3], capped, equal, uneven, weighted;
	/* The virtual clock: the mean virtual time of who wants, by weight. */
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
	bool wants, coupled, hung;

	struct turns *turns;
	struct list seats; /* in the devices' order */
	uint32_t undrained;
	bool idle;    /* it said so of all its governed seats */
	bool paused;  /* idle, and nobody waits: nothing is charged */
	bool forced;  /* who has claimed its device is ready */
	bool attempt; /* it is coupled, and is being closed all the same */
	bool escalated;
	uint64_t turn_ns, end_ns;     /* when the turn, or its last extension, began; and is over */
	uint64_t idle_ns;	      /* since when; 0: it was not yet seen to be idle */
	uint64_t ending_ns, retry_ns; /* of who is coupled: when it is closed all the same */
	uint64_t deadline_ns;	      /* to drain */
	uint64_t overrun_ns;	      /* so long it usually drains */
	uint64_t gap_ns;	      /* between idle and wanting again, where that is short, ... */
	uint32_t gap_milli;	      /* ... and how often it is */
	struct turns_node timer;
};

struct turns_seat {
	/* For reading. Sums since the seat joined; what runs is settled by turns_settle(). */
	void *owner; /* the caller's */
	struct turns_tenant *tenant;
	struct turns_device *device;
	enum turns_gate gate;
	uint64_t turns, waits;		     /* turns begun; those that were waited for */
	uint64_t waited_ns, longest_ns;	     /* from wanting to the opening */
	uint64_t charged_ns, entitled_ns;    /* entitled: while it wants */
	struct turns_rate charged, entitled; /* the same over the last second and minute */

	bool asks, idle, stray, active, rested, lined, soon, uneven, entitling;
	bool told_open, clear; /* clear: it has drained, and was not told to open since */
	unsigned todo;
	struct list of_tenant, of_device, todo_link;
	struct turns_seat *skipped;
	uint64_t settled_ns, wanted_ns, closing_ns, entitled_at_ns, entitled_clock;
	uint64_t virtual_ns;	  /* by weight: what it was charged */
	int64_t allowance, floor; /* thousandths of ns: of the cap, of the guarantee */
	uint64_t allowance_at_ns, floor_at_ns;
	struct turns_node due_node, line_node, timer;
	/* Of who has left, until it has come back: */
	uint64_t left_ns;	/* 0: it was never there */
	uint64_t owed;		/* in virtual time: what it had beyond its part, */
	int64_t left_allowance; /* and what it had left of its cap */
};

void turns_init(struct turns *turns, const struct turns_tuning *tuning);

/* `order`: the place of its UUID among those of all devices. */
void turns_device_init(struct turns *turns, struct turns_device *device, uint32_t order);

void turns_tenant_init(struct turns *turns, struct turns_tenant *tenant,
		       const struct turns_share *share);

/* The tenant comes to a device, on which its gate is as `is_open` says: work of it may be in flight
 * then (after a restart). A tenant has one seat on a device at most. `owner` is the caller's. The
 * seat is all zero, or has left the same device: then it still owes what it owed, so that a tenant
 * of short processes has no more than one of long ones. */
void turns_join(struct turns_seat *seat, struct turns_tenant *tenant, struct turns_device *device,
		void *owner, bool is_open, uint64_t now_ns);

/* It leaves, or all its processes have died: nothing of it is in flight any more. It may be joined
 * again. Actions for it that were not yet asked for are forgotten. */
void turns_leave(struct turns_seat *seat, uint64_t now_ns);

/* A live change. */
void turns_set(struct turns_tenant *tenant, const struct turns_share *share, uint64_t now_ns);

/* Whether the hardware's own slicing would give the seat more or less than a tenant with one
 * process that is wholly resident: it has several processes, or memory that was evicted. */
void turns_uneven(struct turns_seat *seat, bool uneven, uint64_t now_ns);

/* A thread of the tenant stands at this closed gate, or work was submitted through the open one. */
void turns_wants(struct turns_seat *seat, uint64_t now_ns);

/* Everything is complete and nothing was submitted (a seat that did not want when its gate was
 * opened counts as idle until it says that it wants): the turn ends, once the tenant's usual pause
 * is over. Where nobody waits and no cap holds the gate stays open, and until the seat wants again,
 * or somebody does, nothing is charged. */
void turns_idle(struct turns_seat *seat, uint64_t now_ns);

/* The close is acknowledged by all of its guests. `wants`: a thread stands at the gate. */
void turns_drained(struct turns_seat *seat, bool wants, uint64_t now_ns);

/* The answer to TURNS_LATE. `stands`: a thread of the tenant stands at a gate of its. */
void turns_late(struct turns_seat *seat, bool stands, uint64_t now_ns);

/* The time of turns_deadline() has come. */
void turns_tick(struct turns *turns, uint64_t now_ns);

/* When that is; UINT64_MAX: nothing is waited for. */
uint64_t turns_deadline(const struct turns *turns);

/* What is to be done next; 0: nothing. After every event, until it says 0. */
must_check int turns_next(struct turns *turns, struct turns_action *ret_action);

/* Brings the seat's sums up to now_ns. */
void turns_settle(struct turns_seat *seat, uint64_t now_ns);

/* The cap that holds for the seat now, with `equal`. */
uint32_t turns_cap_milli(const struct turns_seat *seat);

/* What of a share concerns time. */
void turns_share_of(const struct share *share, struct turns_share *ret_share);
