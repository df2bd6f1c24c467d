/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's state in this process: whether it has joined, the tenant's devices, and the two pages
 * that it shares with meted. guest/process/join.h joins, guest/process/pages.h maps the pages.
 *
 * Everywhere in the guest, `device` is the index of a device in struct state, which is found by
 * UUID (guest/contexts/devices.h). On the wire it is state.device[i].wire_index.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/futex.h"
#include "wire/page.h"

enum {
	STATE_DEVICES = WIRE_DEVICES,
	STATE_ORDINALS = 64, /* CUDA devices whose index is remembered */
};

enum state_join {
	STATE_NEW = 0, /* not asked yet */
	STATE_JOINING,
	STATE_JOINED,
	STATE_REFUSED, /* every call answers state.error */
};

struct state_device {
	uint8_t uuid[16];
	_Atomic uint32_t wire_index; /* its index in the tenant page and in messages */
	_Atomic uint32_t gone;	     /* the daemon no longer has it */
	struct futex_lock lock;	     /* of `allocated`: guest/credit/amounts.h */
	_Atomic uint64_t granted; /* bytes that the daemon promised: allocated + credit + stocked */
	_Atomic uint64_t allocated; /* of these, in use */
	_Atomic uint64_t credit;    /* of these, not in use */
	_Atomic uint64_t stocked; /* of these, behind freed memory: guest/movable/movable_stock.h */
	_Atomic uint64_t adrift, loose; /* parts of `allocated`, as in wire/page.h */
	_Atomic uint64_t outgoing;	/* likewise: other processes may hold it, too */
	_Atomic uint64_t oversize;	/* in addition to `allocated`: guest/memory/oversize.h */
	_Atomic uint64_t others;	/* how often something else may have taken memory */
	_Atomic uint64_t contexts;	/* open contexts */
	_Atomic uint32_t refused_said;	/* an out-of-memory was explained once */
	_Atomic uint32_t returned;	/* credit was returned, and no thread has asked since */
	_Atomic uint64_t
		kept; /* guest/credit/credit.c: credit that is kept if there are other guests, */
	_Atomic uint64_t gave_back;   /* the surplus that was returned, */
	_Atomic int64_t gave_back_ms; /* and when */
	_Atomic uint64_t waiting;     /* threads at its closed gate, or at all gates */
	_Atomic uint32_t moves;	      /* its memory may move: guest/movable/movable.h */
} __attribute__((aligned(64)));

/* On separate pages, which a child does not inherit; see join.c. */
struct state {
	_Atomic uint32_t join; /* enum state_join; a futex */
	_Atomic uint32_t has_joined;
	_Atomic uint32_t joiner; /* thread that is joining */
	_Atomic int error;	 /* CUresult of a refused guest */
	_Atomic uint32_t devices;
	struct state_device device[STATE_DEVICES];
	_Atomic uint32_t lost;			/* 1 while the daemon is away */
	_Atomic uint32_t on_loss;		/* enum wire_loss */
	_Atomic uint32_t captures;		/* open stream captures of the process */
	_Atomic uint64_t waiting;		/* threads at a closed gate */
	_Atomic int8_t ordinal[STATE_ORDINALS]; /* index + 1; -1 not the tenant's; 0 not known */
} __attribute__((aligned(4096)));

extern struct state state;

/* The tenant's page at its link-time address: a private page of zeros (every gate open) until the
 * guest has joined, then the daemon's, read-only. Fields by __atomic loads. */
extern const struct wire_tenant_page guest_tenant_page;

/* The own page, likewise. */
extern struct wire_own_page guest_own_page;

static inline int state_joined(void)
{
	return atomic_load_explicit(&state.join, memory_order_acquire) == STATE_JOINED;
}

/* The index of the device that has this number on the wire, or -1: there is none now. */
int state_of_wire(uint32_t wire_device);

/* The daemon's latest value for a device: `field` is total_bytes, limit_bytes, used_bytes, ... */
#define state_page(index, field)                                                                   \
	__atomic_load_n(&guest_tenant_page                                                         \
				 .device[atomic_load_explicit(&state.device[index].wire_index,     \
							      memory_order_relaxed)]               \
				 .field,                                                           \
			__ATOMIC_RELAXED)
