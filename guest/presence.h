/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presence: which threads are inside a call that submits work. A launch trampoline
 * (guest/trampolines.S) moves its return address into the calling thread's slot, looks at the gate,
 * and calls the driver; the slot is empty again when it returns. Storing and looking are not
 * ordered by the processor: presence_barrier() on the closing side makes up for it.
 *
 * Slots are the guest's own memory and are never unmapped: a thread that ends hands its slot on.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum presence_state {
	PRESENCE_IN = 0,  /* in the driver, or on the way */
	PRESENCE_WAITS,	  /* at a closed gate */
	PRESENCE_CAPTURES /* passed a closed gate, as its stream is being captured */
};

/* The offsets 0, 8 and 16 are known to trampolines.S, and so is the alignment: the low byte of a
 * slot's address is the zero that the gate is compared with. */
struct presence_slot {
	uint64_t return_address; /* 0: no call under way */
	uint64_t saved_rbx;
	uint32_t countdown; /* calls until the next sample */
	_Atomic uint32_t state;
	_Atomic uint32_t taken;
	uint32_t captured_at; /* PRESENCE_CAPTURES is about the call with this countdown */
} __attribute__((aligned(256)));

enum {
	PRESENCE_SAMPLE = 1 << 30, /* calls between two looks at the slow path */
	PRESENCE_FIRST = 64,	   /* slots without an allocation */
};

/* The calling thread's slot; guest_unregistered until its first call. */
extern __thread struct presence_slot *guest_slot __attribute__((tls_model("initial-exec")));
extern struct presence_slot guest_unregistered;

/* What the touch trampolines test instead of the gate: not zero while blocks are evicted. */
extern uint32_t guest_not_resident;

/* From the trampolines. Both return 0, or the CUresult that the call is to answer. */
uint32_t presence_register(unsigned index);
uint32_t presence_slow(struct presence_slot *slot, unsigned index, const uint64_t *registers,
		       const uint64_t *stack);
uint32_t presence_refuse(unsigned index);

/* Waits at the gate of `device` (-1: of any) as a launch would: for hooks that must not start
 * while the gate is closed. */
must_check uint32_t presence_wait(int device);

/* Once per process: how threads are made to show their stores. */
void presence_start(void);

/* After this, a thread whose slot looks empty will see the gate as it is now. */
void presence_barrier(void);

/* Calls that submitted, of all threads, since the guest joined. */
uint64_t presence_submissions(void);

/* A walk over all slots, each seen empty, waiting, or changed since it was first looked at. */
struct presence_walk {
	void *chunk;
	unsigned next;
	uint32_t countdown;
	uint32_t seen;
};
void presence_walk_start(struct presence_walk *walk);

/* Goes on as far as it gets; returns whether it came to the end. */
bool presence_walk_step(struct presence_walk *walk);

/* Is a thread other than that of slot `mine` in a call that passed as PRESENCE_CAPTURES? */
bool presence_captures(const struct presence_slot *mine);

/* In a child of fork(): the other threads are not there any more. */
void presence_forget(void);
