/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of the device memory hooks: where an allocation goes, how it is charged, and what
 * is recorded about it. The order is always the same. To allocate: charge, call the driver, correct
 * the charge to what the driver really took. To free: remove the entry, call the driver, then
 * return the charge on success or restore the entry on failure. The entry is removed first, because
 * the driver may give a freed address to another thread before our call returns.
 *
 * A call that the driver makes from inside one of our calls (libcuda.so.1 resolves its own exported
 * names to ours) is passed through: only the outer call is charged. Its return address identifies
 * it; see docs/decisions/0058.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/driver/real.h"
#include "guest/memory/credit.h"
#include "guest/memory/pointers.h"
#include "guest/process/moves.h"
#include "guest/process/state.h"
#include "guest/thread.h"

enum memory_kind {
	MEMORY_LARGE = 1, /* blocks of its own */
	MEMORY_SMALL,	  /* in a shared block (guest/memory/blocks.h): not in the table */
	MEMORY_POOLED,	  /* charged by its pool: `owner` is the pool's index */
	MEMORY_IMPORTED,  /* the exporter pays */
	MEMORY_ARRAY,	  /* in the table of arrays */
	MEMORY_MOVABLE,	  /* guest/movable/movable.h, which has charged it */
	MEMORY_OVERSIZE,  /* guest/memory/oversize.h; `detail`: units that are not charged */
};

enum {
	MEMORY_MANAGED =
		1, /* `detail` of a large one: how much of it is on the device is unknown */
};

/* Where the current thread allocates. */
struct memory_place {
	CUcontext context;
	int device;   /* as in guest/process/state.h */
	bool tracked; /* false: no context, or the driver calls itself: pass it through */
};

/* Not 0 while the thread is in a call that memory_driver() made. This alone proves little: a jump
 * out of the driver leaves it set, and a signal handler that interrupts such a call finds it set.
 */
#define memory_inside (guest_thread.inside)

/* To be used in a hook itself, not in functions that it calls: did the driver make the call,
 * from inside a call of ours? Then the outer call is charged. Any other caller is charged
 * normally. */
#define memory_nested() (unlikely(memory_inside) && real_is_driver(__builtin_return_address(0)))

/* Makes a call into the driver; calls that the driver itself makes meanwhile are passed through. */
#define memory_driver(call)                                                                        \
	({                                                                                         \
		unsigned memory_was_ = memory_inside;                                              \
		CUresult memory_result_;                                                           \
		memory_inside = 1;                                                                 \
		memory_result_ = (call);                                                           \
		memory_inside = memory_was_;                                                       \
		memory_result_;                                                                    \
	})

/* Begins a hook that allocates: joins, and finds the place. The hook must return any result that
 * is not 0. */
must_check CUresult memory_begin(struct memory_place *ret_place, bool nested);

/* Moves bytes from credit to allocated. Returns CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY. Before
 * it fails, it takes back what our own pools do not need. CREDIT_WAIT is CREDIT_ASK while a
 * capture is open. */
must_check CUresult memory_charge(int device, uint64_t bytes, enum credit_how how);

/* The same; returns as credit_take() does. */
must_check int memory_charge_outcome(int device, uint64_t bytes, enum credit_how how);

/* Would the daemon refuse so much more, as far as its page says? */
must_check bool memory_looks_short(int device, uint64_t bytes);

/* One allocation. `call` calls the driver and sets `address` and `bytes`. */
struct memory_request {
	CUresult (*call)(struct memory_request *request);
	uint64_t bytes;	  /* the expected size, then the actual size */
	uint64_t address; /* 0: nothing to remember */
	bool shares;	  /* small ones share blocks */
	bool movable;	  /* it may be served from guest/movable/movable.h */
	bool managed;
	bool nested; /* memory_nested() of the hook */
	void *place, *pitch;
	size_t width, height;
	unsigned element, flags;
};
must_check CUresult memory_allocate(const struct memory_place *place,
				    struct memory_request *request);

/* A complete allocating hook: begins, finds the place, allocates. Calls that the driver itself
 * refuses (no size, no place for the address), and calls that cannot be charged to anything, go
 * to the driver directly. */
must_check CUresult memory_request(struct memory_request *request);

/* A CUDA ordinal of a device, or -1. */
int memory_ordinal(int device);

/* CUDA_SUCCESS if the device is the tenant's, or does not exist (the driver refuses that);
 * otherwise the result that the call must return. */
must_check CUresult memory_refuse_device(CUdevice ordinal);

/* The records of linear and pooled addresses. */
must_check int memory_remember(const struct pointer *entry);

/* Calls `each` for every record, with parts of the table locked. */
void memory_each(int (*each)(const struct pointer *entry, void *context), void *context);

/* Call it before an address is freed: removes its entry. 0, POINTERS_UNKNOWN. */
must_check int memory_take(uint64_t address, struct pointer *ret_entry);

/* Call it after the driver returned `r` for freeing the memory of `entry`; returns r. */
CUresult memory_freed(const struct pointer *entry, CUresult r);

/* Whole blocks. */
uint64_t memory_round(uint64_t bytes);

/* A context is about to be destroyed: its memory gets another owner, because the driver may give
 * the same handle and addresses to another thread before the destroying call returns. */
uint64_t memory_context_leaves(CUcontext context);

/* It was not destroyed. */
void memory_context_stays(CUcontext context, uint64_t leaving);

/* The context was destroyed, with the memory of `owner`, which is the result of
 * memory_context_leaves() or a handle.
 */
void memory_context_gone(uint64_t owner);
