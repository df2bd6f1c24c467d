/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hooks of device memory have in common: where an allocation goes, how it is charged, what
 * is remembered of it. The order is always the same: charge, call the driver, correct the charge to
 * what the driver really took; and for freeing: take the entry out, call the driver, give the
 * charge back after it said success, put the entry back if it did not. The entry goes first because
 * the driver may return a freed address to another thread before our call has come back.
 *
 * A call that the driver makes from inside one of our calls (libcuda.so.1 resolves its own exported
 * names to ours) is passed through: the outer one is charged. It is known by its return address;
 * docs/decisions/0058.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/credit.h"
#include "guest/moves.h"
#include "guest/pointers.h"
#include "guest/real.h"
#include "guest/state.h"
#include "guest/thread.h"

enum memory_kind {
	MEMORY_LARGE = 1, /* blocks of its own */
	MEMORY_SMALL,	  /* in a shared block (guest/blocks.h): not in the table */
	MEMORY_POOLED,	  /* charged by its pool: `owner` is the pool's index */
	MEMORY_IMPORTED,  /* the exporter pays */
	MEMORY_ARRAY,	  /* in the table of arrays */
};

enum {
	MEMORY_MANAGED = 1, /* `detail` of a large one: what of it is on the device is not known */
};

/* Where the current thread allocates. */
struct memory_place {
	CUcontext context;
	int device;   /* as in guest/state.h */
	bool tracked; /* false: no context, or the driver calling itself: pass it through */
};

/* Is not 0 while the thread is in a call that memory_driver() made. That alone says little: a jump
 * out of the driver leaves it set, and a signal handler that interrupts such a call finds it set.
 */
#define memory_inside (guest_thread.inside)

/* In a hook, not in what it calls: was it the driver that called, from inside a call of ours? Then
 * the outer call is charged. Whoever else calls is charged like anybody. */
#define memory_nested() (unlikely(memory_inside) && real_is_driver(__builtin_return_address(0)))

/* The result of a call into the driver; what it calls itself meanwhile is passed through. */
#define memory_driver(call)                                                                        \
	({                                                                                         \
		unsigned memory_was_ = memory_inside;                                              \
		CUresult memory_result_;                                                           \
		memory_inside = 1;                                                                 \
		memory_result_ = (call);                                                           \
		memory_inside = memory_was_;                                                       \
		memory_result_;                                                                    \
	})

/* Begins a hook that allocates: joins, and finds the place. What is not 0 is to be answered. */
must_check CUresult memory_begin(struct memory_place *ret_place, bool nested);

/* Moves bytes from credit to allocated, and says whether it could be done: CUDA_SUCCESS or
 * CUDA_ERROR_OUT_OF_MEMORY. Before it gives up it takes back what our own pools do not need.
 * CREDIT_WAIT is CREDIT_ASK while a capture is open. */
must_check CUresult memory_charge(int device, uint64_t bytes, enum credit_how how);

/* One allocation. `call` calls the driver and sets `address` and `bytes`. */
struct memory_request {
	CUresult (*call)(struct memory_request *request);
	uint64_t bytes;	  /* what it will come to, as far as is known; then what it came to */
	uint64_t address; /* 0: nothing to remember */
	bool shares;	  /* small ones share blocks */
	bool managed;
	bool nested; /* memory_nested() of the hook */
	void *place, *pitch;
	size_t width, height;
	unsigned element, flags;
};
must_check CUresult memory_allocate(const struct memory_place *place,
				    struct memory_request *request);

/* All of a hook that allocates: it begins, finds the place, allocates. What the driver refuses by
 * itself (no size, nowhere to put the address), and what there is nothing to charge to, goes to it
 * directly. */
must_check CUresult memory_request(struct memory_request *request);

/* A CUDA ordinal of a device, or -1. */
int memory_ordinal(int device);

/* CUDA_SUCCESS if a device is the tenant's, or is none at all (the driver refuses that);
 * otherwise what is to be answered. */
must_check CUresult memory_refuse_device(CUdevice ordinal);

/* What is remembered of linear and pooled addresses. */
must_check int memory_remember(const struct pointer *entry);

/* Calls `each` for everything that is remembered, with parts of the table locked. */
void memory_each(int (*each)(const struct pointer *entry, void *context), void *context);

/* Before an address is freed: takes its entry out. 0, POINTERS_UNKNOWN. */
must_check int memory_take(uint64_t address, struct pointer *ret_entry);

/* After the driver answered `r` to freeing what `entry` was taken out for; returns r. */
CUresult memory_freed(const struct pointer *entry, CUresult r);

/* Whole blocks. */
uint64_t memory_round(uint64_t bytes);

/* A context is about to be destroyed: what is in it gets another owner, as the driver may give the
 * same handle and the same addresses to another thread before the destroyer has returned. */
uint64_t memory_context_leaves(CUcontext context);

/* It was not destroyed. */
void memory_context_stays(CUcontext context, uint64_t leaving);

/* It was, and with it the memory that is `owner`'s: what memory_context_leaves() said, or a handle.
 */
void memory_context_gone(uint64_t owner);

/* In a child of fork(). */
void memory_forget(void);
