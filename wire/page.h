/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that guest and daemon share. Two pages, each a sealed memfd of WIRE_PAGE_SIZE:
 *
 *   tenant page   written by meted, read by every guest of the tenant (their mapping and their
 *                 descriptor are read-only): gates, limits, clock.
 *   own page      one per guest, written by the guest, read by meted: what it holds. meted believes
 *                 nothing in it: it is clamped to what the ledger granted.
 *
 * Every field is naturally aligned, and is read and written as a whole with __atomic_* built-ins.
 * The layout is ABI between versions of guest and daemon: fields are only appended.
 */
#pragma once

#include <stdint.h>

enum {
	WIRE_PAGE_SIZE = 4096,
	WIRE_PAGE_MAGIC = 0x6574656d, /* "mete" */
	WIRE_DEVICES = 16,	      /* most devices of one tenant */
};

/* The gate word, which a guest reads before it submits work. */
enum wire_gate_state {
	WIRE_GATE_OPEN = 0,
	WIRE_GATE_CLOSING = 1, /* no new submission; not yet acknowledged by every guest */
	WIRE_GATE_CLOSED = 2,
};

/* What a guest does while the daemon is away (share option on_daemon_loss). */
enum wire_loss {
	WIRE_LOSS_CONTINUE = 0,
	WIRE_LOSS_BLOCK = 1,
	WIRE_LOSS_FAIL = 2,
};

struct wire_tenant_device {
	uint8_t uuid[16];
	uint64_t total_bytes;	/* the device's memory, as the driver reports it */
	uint64_t limit_bytes;	/* the tenant's limit on it (<= total_bytes) */
	uint64_t used_bytes;	/* allocated + residual of all the tenant's guests, as of the last
				   change */
	uint64_t epoch;		/* counts changes of `gate` */
	uint32_t gate;		/* enum wire_gate_state; see not_open */
	uint32_t rivals;	/* other tenants registered on the device */
	uint64_t room_bytes;	/* what the device has free for this tenant; the tenant's "free" is
				   min(limit - used, this + all unused credit) */
	uint64_t granted_bytes; /* like used_bytes, but including unused credit; a guest subtracts
				   its own unused credit, which only it knows at any moment */
	uint32_t guests;	/* of this tenant on the device; 0: not stated */
	uint32_t lent_mib; /* other tenants' unused credit, which is recalled when it is needed */
};

/* `contended`: bits. */
enum wire_contended {
	WIRE_CONTENDED = 1 << 0, /* another tenant waits for the device: large copies are split */
	WIRE_COUPLED = 1 << 1,	 /* ... and work in flight may wait for the threads that submit it:
				  * no thread waits for long until less is in flight */
	WIRE_CAPPED = 1 << 2, /* the tenant has a cap: of work whose length is not known little is
			       * in flight, whether others wait or not */
};

/* How guests take part in turns. All zero: they do not take part and keep no state for it.
 * Guests read this on GATE and PACE of the device, and when the connection comes up. */
struct wire_tenant_turns {
	uint32_t reports;   /* 1: the guest sends WANTS and IDLE */
	uint32_t contended; /* enum wire_contended */
	uint64_t flight_ns; /* how much work may be in flight, by the guest's estimate; 0: any */
	uint64_t grace_ns;  /* the guest is idle this long after the last completion */
	uint64_t began; /* counts how often `reports` became 1: an idle guest then reports it again
			 */
};

/* Why the tenant's programs stand still until a person lets them go on. For the guest's sentence to
 * its user alone: the gates say whether they may submit. */
enum wire_stands {
	WIRE_STANDS_NOT = 0,
	WIRE_STANDS_SUSPENDED = 1, /* `mete suspend` */
	WIRE_STANDS_HALTED = 2,	   /* escalate=suspend: its work did not end */
};

struct wire_tenant_page {
	/* The number of devices whose gate is not open. It comes first, so that the fast path
	 * tests one word at a link-time address; zero means "submit". Waiters sleep on a
	 * device's gate (a shared futex) and are woken when it opens. */
	uint32_t not_open;
	uint32_t magic;
	uint32_t size; /* of this structure, as the daemon knows it */
	uint32_t devices;
	uint32_t on_daemon_loss; /* enum wire_loss */
	uint32_t strict;	 /* refuse unknown versions of enforcing functions */
	uint64_t epoch;		 /* counts changes of anything here */
	uint32_t clock_dilation; /* monotonic time is divided by this; 1 outside the simulator */
	uint32_t daemon_pid;
	uint64_t daemon_generation; /* changes when meted restarts */
	uint64_t wait_ns;	    /* the longest time that a request may wait for room */
	uint64_t oversize;	    /* 1: what the device cannot hold is to be managed memory */
	struct wire_tenant_device device[WIRE_DEVICES];
	struct wire_tenant_turns turns[WIRE_DEVICES];
	uint64_t quiet;	   /* 1: programs are not told that they wait */
	uint64_t observes; /* 1: NVML's figures are the whole device's, not the tenant's */
	uint64_t stands;   /* enum wire_stands */
};

struct wire_own_device {
	uint64_t allocated_bytes; /* charged against credit: device memory the guest holds */
	uint64_t credit_bytes;	  /* granted and not allocated */
	uint64_t contexts;
	uint64_t peak_bytes; /* the highest that allocated_bytes ever was */
};

/* Why memory cannot move: bits, for people. */
enum wire_unmovable {
	WIRE_UNMOVABLE_SHARED = 1 << 0,	 /* exported, imported, peers */
	WIRE_UNMOVABLE_ARRAY = 1 << 1,	 /* arrays and mipmaps */
	WIRE_UNMOVABLE_GRAPH = 1 << 2,	 /* nodes of graphs */
	WIRE_UNMOVABLE_MANAGED = 1 << 3, /* the driver moves it */
	WIRE_UNMOVABLE_POOL = 1 << 4,	 /* memory of pools */
	WIRE_UNMOVABLE_PROCESS = 1 << 5, /* all of it: RDMA, video, an unknown export table */
	WIRE_UNMOVABLE_FAILED = 1 << 6,	 /* a copy of it failed */
	WIRE_UNMOVABLE_OWN = 1 << 7,	 /* the program's own handles (VMM) */
	/* Nothing of the process moves: */
	WIRE_UNMOVABLE_DEVICES = 1 << 8, /* its tenant has several devices */
	WIRE_UNMOVABLE_DRIVER = 1 << 9,	 /* the driver lacks the functions */
	WIRE_UNMOVABLE_STORE = 1 << 10,	 /* meted has no store; only meted says so */
	WIRE_UNMOVABLE_HOST = 1 << 11,	 /* the host has no memory for it now; likewise */
	WIRE_UNMOVABLE_DAEMONS = WIRE_UNMOVABLE_STORE | WIRE_UNMOVABLE_HOST,
	WIRE_UNMOVABLE_ALL = WIRE_UNMOVABLE_PROCESS | WIRE_UNMOVABLE_DEVICES |
			     WIRE_UNMOVABLE_DRIVER | WIRE_UNMOVABLE_STORE,
};

struct wire_own_movable {
	uint64_t resident_bytes; /* of allocated_bytes: what can move, and is on the device */
	uint64_t out_bytes;	 /* in the store, and not on the device: not in allocated_bytes */
	uint64_t saved_bytes;	 /* left without a copy, so far: they were clean */
	uint64_t why;		 /* enum wire_unmovable of the rest of allocated_bytes */
};

struct wire_own_page {
	uint32_t magic;
	uint32_t size;
	uint64_t submissions;	    /* sampled, may lag */
	uint64_t unknown_functions; /* newer versions of enforcing functions that were passed
				       through */
	uint64_t waiting;	    /* threads that wait at a closed gate */
	/* Calls that change what the guest holds. The driver's figures and allocated_bytes
	 * describe the same moment only if as many calls have ended as have begun, and none
	 * begins. */
	uint64_t changes_begun, changes_ended;
	uint64_t settles;  /* RESIDUAL_SETTLE messages sent on this connection */
	uint64_t captures; /* open stream captures; no close is acknowledged meanwhile */
	struct wire_own_device device[WIRE_DEVICES];
	/* Parts of each device's allocated_bytes: what the driver may or may not attribute to
	 * the guest (exported and no longer held, or managed), and what a pool may release at
	 * any moment. */
	uint64_t adrift_bytes[WIRE_DEVICES];
	uint64_t loose_bytes[WIRE_DEVICES];
	/* 1 + the number of the guest's actions that may take memory beyond contexts and
	 * allocations: modules, heaps, peers, imports. Counted before the action. 0: an older
	 * guest, which does not report this. */
	uint64_t others[WIRE_DEVICES];
	/* Threads that wait at the device's closed gate, or at all gates including this one. */
	uint64_t waiting_on[WIRE_DEVICES];
	/* The work in flight (submitted and not complete), as the guest estimates it if
	 * flight_ns is set. */
	uint64_t flight_ns[WIRE_DEVICES];
	struct wire_own_movable movable[WIRE_DEVICES];
	/* Managed memory in addition to allocated_bytes, which the device has no room for. */
	uint64_t oversize_bytes[WIRE_DEVICES];
	/* Granted and not allocated, but behind freed memory that is still mapped: the driver
	 * attributes it to the guest. */
	uint64_t stocked_bytes[WIRE_DEVICES];
	/* Parts of allocated_bytes that this process has, and that others may have, too: exported
	 * or lent. They may outlive it, as what is adrift may. */
	uint64_t outgoing_bytes[WIRE_DEVICES];
	/* How often `submissions` was counted: on each PACE, and when a gate closes. 0: an older
	 * guest, which counts it only at closes. */
	uint64_t counts;
	/* The epoch of a close that has not drained as all that is left in flight waits for
	 * something outside of the device: a value, or a host function. meted sets it to 0 as it
	 * reads it, so that the guest has to say it again. */
	uint64_t held[WIRE_DEVICES];
};

_Static_assert(sizeof(struct wire_tenant_page) <= WIRE_PAGE_SIZE, "the tenant page is one page");
_Static_assert(sizeof(struct wire_own_page) <= WIRE_PAGE_SIZE, "the own page is one page");
