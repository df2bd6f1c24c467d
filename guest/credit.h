/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credit: bytes that the daemon has promised to this process on a device. Within it an allocation
 * costs one atomic subtraction; out of it the daemon is asked. What is freed becomes credit again
 * and stays until the daemon recalls it, while nobody else is on the device who could miss it.
 * Beside others a guest keeps CREDIT_KEPT, and what it was seen to take again soon after it had
 * given it back; until a recall says that others need it (decision 62).
 *
 * Usage, in this order, so that memory is never used before it is promised, and never promised
 * to others before the driver has let go of it:
 *
 *	if (credit_take(device, bytes, CREDIT_WAIT)) return CUDA_ERROR_OUT_OF_MEMORY;
 *	r = real(cuMemAlloc_v2)(...);
 *	if (r) credit_give(device, bytes);
 *	...
 *	r = real(cuMemFree_v2)(...);
 *	if (!r) credit_give(device, bytes);
 *
 * Refuses to guess: while the daemon is away an allocation beyond the credit waits for it, bounded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	CREDIT_KEPT = 64 << 20, /* bytes of unused credit that are not worth giving back, ... */
	CREDIT_SOON_MS = 2000,	/* ... and what was given back is wanted again that soon */
	CREDIT_STEP = 2 << 20,	/* a request is rounded up to this ... */
	CREDIT_WANT = 32 << 20, /* ... and asks for so much more, if it is to be had */
};

/* Outcomes of credit_take(): no byte was taken. */
enum {
	CREDIT_LIMIT = 1, /* the tenant's own limit is reached */
	CREDIT_FULL,	  /* the device has no room, or had none until the deadline */
	CREDIT_AWAY,	  /* the daemon is not there */
};

/* How far to go for what is beyond the credit. */
enum credit_how {
	CREDIT_LOCAL = 1, /* nowhere: it is refused as CREDIT_FULL, without a word */
	CREDIT_OWED,	  /* the driver has given the memory already: ask */
	CREDIT_ASK,	  /* ask; do not wait for room: under stream capture */
	CREDIT_SPARE,	  /* likewise; nobody is refused anything where there is none */
	CREDIT_WAIT,	  /* ask; the caller may be held until there is room */
};

/* Moves `bytes` from credit to allocated; asks the daemon where the credit does not suffice.
 * `device` is state_device()'s index; -1 (not the tenant's device) is refused as CREDIT_LIMIT. Says
 * once per device why memory was refused. Part of a move (guest/moves.h), which ends while the
 * daemon is asked, except for CREDIT_OWED, and begins again with the answer. */
must_check int credit_take(int device, uint64_t bytes, enum credit_how how);

/* Moves `bytes` from allocated to credit. Giving more than was taken gives what was taken. */
void credit_give(int device, uint64_t bytes);

/* There are `credit` bytes of it now, more than are kept beside others: some go back, if there are
 * any others. */
void credit_surplus(int device, uint64_t credit);

/* So much more or less of what is allocated the driver may count as ours, or not: it is managed, or
 * was exported and is no longer held here. Part of a move. */
void credit_adrift(int device, int64_t change);

/* So much of what is allocated the driver may let go of before we hear of it. Part of a move. */
void credit_loose(int device, uint64_t bytes);

/* Bytes in use on a device by this process, as charged. */
uint64_t credit_allocated(int device);

/* Unused credit. */
uint64_t credit_unused(int device);

/* ---- the connection's, with its lock held or by the agent ------------------------------------ */

/* A grant has come: called in the order in which answers come, so that a refusal that the daemon
 * gave later is also seen later. Of it `asked` bytes are kept for the asker, who takes them with
 * the answer; the rest is common credit. Returns how much was kept. */
must_check uint64_t credit_arrived(uint32_t wire_device, uint64_t bytes, uint64_t asked);

/* What was kept for an asker who will not come for it is common credit. */
void credit_unclaimed(uint32_t wire_device, uint64_t bytes);

/* While credit is being stated nobody may take it: returns what there was, and all that was granted
 * in *ret_granted. Afterwards it is there again, or, where it is void, gone. */
must_check uint64_t credit_freeze(int device, uint64_t *ret_granted);
void credit_thaw(int device, uint64_t bytes, bool granted);

/* The daemon wants unused credit back. -EAGAIN: it does not read what we say: once more, later. */
must_check int credit_recall(uint32_t wire_device, uint64_t bytes, uint32_t recall_id);

/* Writes the amounts into the own page. */
void credit_publish(int device);

/* Has credit been returned since the last time this was asked? The daemon's page may not show it
 * yet: link_processes() comes back after it does. */
bool credit_returned(int device);
