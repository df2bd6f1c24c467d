/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credit is the number of bytes that the daemon has promised to this process on a device. Within
 * the credit an allocation costs one atomic subtraction; beyond it, the guest asks the daemon.
 * Freed memory becomes credit again. While no other guest is on the device, it stays until the
 * daemon recalls it. With other guests, a guest keeps CREDIT_KEPT. It keeps more if it was seen to
 * ask for credit again soon after it had returned it, until a recall says that others need it
 * (decision 62).
 *
 * Use it in this order. Memory is then never used before it is promised, and never promised to
 * others before the driver has released it:
 *
 *	if (credit_take(device, bytes, CREDIT_WAIT)) return CUDA_ERROR_OUT_OF_MEMORY;
 *	r = real(cuMemAlloc_v2)(...);
 *	if (r) credit_give(device, bytes);
 *	...
 *	r = real(cuMemFree_v2)(...);
 *	if (!r) credit_give(device, bytes);
 *
 * It never guesses: while the daemon is away, an allocation beyond the credit waits for it, for a
 * bounded time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	CREDIT_KEPT = 64 << 20, /* bytes of unused credit that are not worth returning */
	CREDIT_SOON_MS = 2000,	/* returned credit that is wanted again within this time counts */
	CREDIT_STEP = 2 << 20,	/* a request is rounded up to this */
	CREDIT_WANT = 32 << 20, /* and asks for this much more, if available */
};

/* Outcomes of credit_take(): no byte was taken. */
enum {
	CREDIT_LIMIT = 1, /* the tenant's own limit is reached */
	CREDIT_FULL,	  /* the device has no room, or had none until the deadline */
	CREDIT_AWAY,	  /* the daemon is not there */
};

/* What to do if the credit does not suffice. */
enum credit_how {
	CREDIT_LOCAL = 1,	 /* refuse with CREDIT_FULL, without asking or logging */
	CREDIT_OWED,		 /* the driver has given the memory already: ask */
	CREDIT_ASK,		 /* ask; do not wait for room: under stream capture */
	CREDIT_SPARE,		 /* the same; a failure refuses nothing to anyone */
	CREDIT_WAIT,		 /* ask; the caller may be held until there is room */
	CREDIT_MOVABLE = 1 << 8, /* combined with one of these: the memory can move */
};

/* Moves `bytes` from credit to allocated, and asks the daemon if the credit does not suffice.
 * `device` is devices_index()'s index; -1 (not the tenant's device) is refused with CREDIT_LIMIT.
 * Reports once per device why memory was refused. It is part of a change (guest/process/changes.h).
 * The change ends while the daemon is asked, except for CREDIT_OWED, and begins again with the
 * answer. */
must_check int credit_take(int device, uint64_t bytes, enum credit_how how);

/* Moves `bytes` from allocated to credit, at most what was taken. */
void credit_give(int device, uint64_t bytes);

/* The credit is now `credit` bytes, more than a guest keeps if there are others. Returns part of it
 * if there are. */
void credit_surplus(int device, uint64_t credit);

/* Memory was freed, but stays mapped: it is neither allocated nor credit
 * (guest/movable/movable_stock.h). And: it is no longer in stock, but allocated, or credit. Part of
 * a change. */
void credit_stocked(int device, uint64_t bytes);
void credit_unstocked(int device, uint64_t bytes, bool allocated);

/* May so many more bytes stay in stock, with the other guests that are there? */
must_check bool credit_may_stock(int device, uint64_t bytes);

/* Changes the part of the allocated memory that the driver may or may not attribute to us: managed
 * memory, or memory that was exported and is no longer held here. Part of a change. */
void credit_adrift(int device, int64_t change);

/* Changes the part that other processes may hold, too: before they can, and after it has been freed
 * here. */
void credit_outgoing(int device, int64_t change);

/* The part of the allocated memory that the driver may release without telling us. Part of a
 * change. */
void credit_loose(int device, uint64_t bytes);

/* Bytes in use on a device by this process, as charged. */
uint64_t credit_allocated(int device);

/* Unused credit: alone, and together with the stock. */
uint64_t credit_unused(int device);
uint64_t credit_idle(int device);

/* The daemon recalls unused credit. -EAGAIN: it does not read our messages; try again later. */
must_check int credit_recall(uint32_t wire_device, uint64_t bytes, uint32_t recall_id);

/* If this is even and does not change, no recall was answered in between. */
uint32_t credit_recalls(void);

/* Writes the amounts into the own page. */
void credit_publish(int device);

/* Has credit been returned since the last call? The daemon's page may not show it yet:
 * link_processes() comes back after it does. */
bool credit_returned(int device);
