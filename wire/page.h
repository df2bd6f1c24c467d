/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that guest and daemon share. Two pages, each a sealed memfd of WIRE_PAGE_SIZE:
 *
 *   tenant page   written by meted, read by every guest of the tenant (their mapping and their
 *                 descriptor are read-only): gates, limits, clock.
 *   own page      one per guest, written by the guest, read by meted: what it holds. meted believes
 *                 nothing in it: it is clamped to what the ledger granted.
 *
 * Every field is naturally aligned and is read and written whole, with __atomic_* built-ins.
 * Layout is ABI between versions of guest and daemon: fields are only appended.
 */
#pragma once

#include <stdint.h>

enum {
	WIRE_PAGE_SIZE = 4096,
	WIRE_PAGE_MAGIC = 0x6574656d, /* "mete" */
	WIRE_DEVICES = 16,	      /* most devices of one tenant */
};

/* The gate word: what a guest reads before it submits work. */
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
	uint64_t total_bytes; /* the device's memory, as the driver reports it */
	uint64_t limit_bytes; /* the tenant's limit on it (<= total_bytes) */
	uint64_t used_bytes;  /* allocated + residual of all the tenant's guests, as of the last
				 change */
	uint64_t epoch;	      /* counts changes of `gate` */
	uint32_t gate;	      /* enum wire_gate_state; see not_open */
	uint32_t rivals;      /* other tenants registered on the device */
	uint64_t room_bytes;  /* what the device has free for this tenant: its "free" is the smaller
			       * of  limit - used and this plus all unused credit */
	uint64_t granted_bytes; /* like used_bytes, but with unused credit: what a guest subtracts
				 * its own unused credit from, which it alone knows at any moment */
	uint32_t guests;	/* of this tenant on the device; 0: not said */
	uint32_t lent_mib; /* other tenants' unused credit, which is recalled where it is needed */
};

/* How guests take part in turns; all zero: they do not, and nothing is kept for it. Read when GATE
 * or PACE of the device is heard, and when the connection comes up. */
struct wire_tenant_turns {
	uint32_t say;	    /* 1: the guest says WANTS and IDLE */
	uint32_t contended; /* 1: somebody else waits for the device: large copies are split */
	uint64_t flight_ns; /* how much work may be under way, by the guest's estimate; 0: any */
	uint64_t grace_ns;  /* so long after the last completion the guest is idle */
	uint64_t began;	    /* counts how often `say` became 1: who is idle says it anew */
};

struct wire_tenant_page {
	/* First, so that the fast path tests one word at a link-time address: the number of devices
	 * whose gate is not open. Zero means "submit". Waiters sleep on a device's gate (futex,
	 * shared), and are woken when that opens. */
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
	uint64_t wait_ns;	    /* the longest that an ask is let wait for room */
	uint64_t reserved_[1];
	struct wire_tenant_device device[WIRE_DEVICES];
	struct wire_tenant_turns turns[WIRE_DEVICES];
};

struct wire_own_device {
	uint64_t allocated_bytes; /* charged against credit: device memory the guest holds */
	uint64_t credit_bytes;	  /* granted and not allocated */
	uint64_t contexts;
	uint64_t peak_bytes; /* the highest that allocated_bytes ever was */
};

struct wire_own_page {
	uint32_t magic;
	uint32_t size;
	uint64_t submissions;	    /* sampled, may lag */
	uint64_t unknown_functions; /* newer versions of enforcing functions that were passed
				       through */
	uint64_t waiting;	    /* threads that stand at a closed gate */
	/* Calls that change what the guest holds. Unless as many have ended as have begun, and none
	 * begins, the driver's figures and allocated_bytes are not about the same moment. */
	uint64_t moves_begun, moves_ended;
	uint64_t settles;  /* RESIDUAL_SETTLE messages that were sent on this connection */
	uint64_t captures; /* stream captures that are open: meanwhile no close is acknowledged */
	struct wire_own_device device[WIRE_DEVICES];
	/* Of each device's allocated_bytes: what the driver may count as the guest's, or not:
	 * exported and no longer held, or managed; and what a pool may let go of at any moment. */
	uint64_t adrift_bytes[WIRE_DEVICES];
	uint64_t loose_bytes[WIRE_DEVICES];
	/* 1 and how often the guest did what may take memory beside contexts and what it allocated:
	 * modules, heaps, peers, imports. Counted before it is done. 0: an older one, it does not
	 * say. */
	uint64_t others[WIRE_DEVICES];
	/* Threads that stand at the device's closed gate, or at all gates, this one among them. */
	uint64_t waiting_on[WIRE_DEVICES];
	/* What is submitted and not complete, as the guest estimates it where flight_ns is set. */
	uint64_t flight_ns[WIRE_DEVICES];
};

_Static_assert(sizeof(struct wire_tenant_page) <= WIRE_PAGE_SIZE, "the tenant page is one page");
_Static_assert(sizeof(struct wire_own_page) <= WIRE_PAGE_SIZE, "the own page is one page");
