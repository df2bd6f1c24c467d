/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presence tells which threads are inside a call that submits work. A launch trampoline
 * (guest/entry/trampolines.S) stores its return address in the calling thread's slot, reads the
 * gate, and calls the driver; the slot is empty again when it returns. The processor does not order
 * the store and the load; presence_barrier() on the closing side compensates for this.
 *
 * Slots are the guest's own memory and are never unmapped; a thread that ends passes its slots on.
 * A thread has one slot, plus one for each signal handler that launched during a launch.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/time/vain.h"

enum presence_state {
	PRESENCE_IN = 0,  /* in the driver, or on the way to it */
	PRESENCE_WAITS,	  /* at a closed gate, or for older work to complete */
	PRESENCE_CAPTURES /* passed a closed gate, as its stream is being captured */
};

/* trampolines.S relies on the offsets 0, 8 and 16 and on the alignment: the low byte of a slot's
 * address is the zero that the gate is compared with. */
struct presence_slot {
	uint64_t return_address; /* 0: no call under way */
	uint64_t saved_rbx;
	uint32_t countdown; /* calls until the next sample */
	_Atomic uint32_t state;
	_Atomic uint32_t taken;
	uint32_t captured_at;	   /* PRESENCE_CAPTURES is about the call with this countdown */
	struct presence_slot *own; /* the next one of the same thread, in a ring */
	uint32_t period;	   /* what the countdown began at */
	uint32_t sampled;	   /* guest/time/flight.c: calls before the sample that is taken, */
	uint64_t submitted;	   /* calls of finished countdowns */
	uint64_t waits_since_ns;   /* since when it waits for older work, ... */
	uint64_t locked_since_ns;  /* ... or for the thread that has the marks, ... */
	uint32_t waits_for_stream; /* and not for a mark */
	struct presence_vain vain; /* of its waits for streams */
} __attribute__((aligned(256)));

enum {
	PRESENCE_SAMPLE = 1 << 30, /* calls between two that take the slow path */
	PRESENCE_FIRST = 64,	   /* slots without an allocation */
};

/* The calling thread's slot; guest_unregistered until its first call. */
extern __thread struct presence_slot *guest_slot __attribute__((tls_model("initial-exec")));
extern struct presence_slot guest_unregistered;

/* Tested by the touch trampolines instead of the gate: not zero while blocks are evicted. */
extern uint32_t guest_not_resident;

/* Called by the trampolines on a thread's first call, before its slow path (guest/time/pass.h).
 * Returns 0, or the CUresult that the call must return. */
uint32_t presence_register(unsigned index);

/* On the slow path, when the countdown has ended: sets after how many calls the next sample is
 * due. */
void presence_refill(struct presence_slot *slot, uint32_t calls);

/* According to its slot, the calling thread is in a call that submits. 0: it has another slot
 * now; -1: the driver itself calls, from inside that call; otherwise the CUresult that the call
 * must return. If a jump out of the driver left the slot taken, and this can be recognised
 * (guest/time/jumps.h), the slot is empty from now on. Otherwise it stays taken until the thread
 * ends, and no close is acknowledged before that, because the driver may still be about to
 * submit. */
int presence_again(const void *caller, uintptr_t stack);

/* After this, a thread whose slot looks empty will see the gate as it is now. */
void presence_barrier(void);

/* Calls that submitted, of all threads, since the guest joined; and of those with a slot. The
 * latter is the same however often countdowns are set. */
uint64_t presence_submissions(void);
uint64_t presence_slot_submissions(const struct presence_slot *slot);

/* A value that changes with every submitting call; and the number of threads inside one. */
struct presence_snapshot {
	uint64_t countdowns, refills;
	unsigned inside;
};
void presence_snapshot(struct presence_snapshot *ret_snapshot);

/* A thread is about to submit, at the end of the slow path; or others may have, until now. / When
 * that was last. */
void presence_passes(void);
uint64_t presence_passed_ns(void);

/* Does each call of each thread take the slow path, as it has since the thread's last one? */
bool presence_all_sampled(void);

/* Called by the agent while no walk is in progress and no capture is open: each thread's next
 * submitting call takes the slow path. */
void presence_sample_soon(void);

/* After that: has no thread been inside such a call, so that the next one takes the slow path? */
bool presence_is_still(void);

/* A walk over all slots, each seen empty, waiting, or changed since it was first looked at. */
struct presence_walk {
	void *chunk;
	unsigned next;
	uint32_t countdown;
	uint32_t seen;
};
void presence_walk_start(struct presence_walk *walk);

/* Continues as far as possible; returns whether it has finished. */
bool presence_walk_step(struct presence_walk *walk);

/* Is a thread other than that of slot `mine` in a call that passed as PRESENCE_CAPTURES? */
bool presence_captures(const struct presence_slot *mine);
