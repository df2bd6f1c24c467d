/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's one mutable object, valid when zero, and joining. The first relevant CUDA call
 * (cuInit, an allocation, a launch) connects to the tenant's daemon, maps the two pages and starts
 * the agent. Later calls read one word. A child of fork() discards everything and joins again on
 * its first call.
 *
 * Everywhere in the guest, `device` is the index of a device in struct state, found by UUID
 * (state_device, state_current_device). On the wire it is state.device[i].wire_index.
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
	struct futex_lock lock;	     /* of `allocated`: guest/memory/amounts.h */
	_Atomic uint64_t granted; /* bytes that the daemon promised: allocated + credit + stocked */
	_Atomic uint64_t allocated; /* of these, in use */
	_Atomic uint64_t credit;    /* of these, not in use */
	_Atomic uint64_t stocked; /* of these, behind freed memory: guest/movable/movable_stock.h */
	_Atomic uint64_t adrift,
		loose;		       /* of what is allocated: exported, loose as in wire/page.h */
	_Atomic uint64_t outgoing;     /* likewise: others may have it, too */
	_Atomic uint64_t oversize;     /* in addition to it: guest/memory/oversize.h */
	_Atomic uint64_t others;       /* how often something else may have taken memory */
	_Atomic uint64_t contexts;     /* open contexts */
	_Atomic uint32_t refused_said; /* an out-of-memory was explained once */
	_Atomic uint32_t returned;     /* credit was returned, and no thread has asked since */
	_Atomic uint64_t kept;	       /* guest/memory/credit.c: what is kept beside others, */
	_Atomic uint64_t gave_back;    /* what was more than that and went back, */
	_Atomic int64_t gave_back_ms;  /* and when */
	_Atomic uint64_t waiting;      /* threads at its closed gate, or at all gates */
} __attribute__((aligned(64)));

/* On separate pages, which a child does not inherit; see state.c. */
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

/* Joins on first use. 0, or the CUDA error that the caller must answer. A call from inside
 * joining itself gets 0: the driver's own calls during its start are passed through. */
must_check CUresult state_ready(void);

static inline int state_joined(void)
{
	return atomic_load_explicit(&state.join, memory_order_acquire) == STATE_JOINED;
}

/* For the link and the agent. Maps both pages and finds the tenant's devices in them; closes the
 * descriptors. 0; -EINVAL: they are invalid; this was reported and nothing has changed. */
must_check int state_adopt_pages(int own_fd, int tenant_fd);

/* The daemon has heard the inventory. `known`: it counts all that is out here. If not, its gates
 * are not followed, as they would open although memory is not there: it cannot come back, and calls
 * that need it fail. */
void state_page_trust(bool known);
bool state_is_forgotten(void);

/* Called by the agent: maps the new daemon's page as soon as its gates can be trusted. Returns true
 * if it still has to wait. */
bool state_page_waits(void);

/* The daemon is gone: from now on a private copy of its page has the state that on_daemon_loss
 * requires. */
void state_lost(void);

/* cuInit asks again after a refusal. */
void state_retry(void);

/* Called by cuInit before the driver's: from now on an unnoticed copy of this process would use
 * the parent's driver, see state.c. */
void state_driver_begins(void);

/* Index of a CUDA device, or -1: not one of the tenant's. */
int state_device(CUdevice device);

/* Index of a context's device, or -1; NULL: no device. */
int state_context_device(CUcontext context);

/* Index of the calling thread's current context's device, or -1: no context, or not ours. */
int state_current_device(void);

/* The daemon's latest value for a device: `field` is total_bytes, limit_bytes, used_bytes, ... */
#define state_page(index, field)                                                                   \
	__atomic_load_n(&guest_tenant_page                                                         \
				 .device[atomic_load_explicit(&state.device[index].wire_index,     \
							      memory_order_relaxed)]               \
				 .field,                                                           \
			__ATOMIC_RELAXED)
