/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that moves (decision 91). Requests of cuMemAlloc() and cuMemAllocPitch() are served from
 * reserved addresses with physical blocks behind them. The blocks leave for the swap store and
 * come back as meted orders, while the program's addresses stay. The daemon is asked once, before
 * the first allocation, whether a device's memory can move; if it cannot, nothing here is used.
 *
 * Only the mover, a thread with every signal blocked, moves blocks; a thread that frees a block
 * meanwhile waits for it. Law: a block's bytes are on the device, in the store, or in both.
 *
 *	movable_orders.c      what meted orders
 *	movable_move.c        the mover, a thread
 *	movable_way.c         copies a block out and in
 *	movable_store.c       where to: meted's file
 *	movable_back.c        what is behind a block
 *	movable_lend.c        for other processes; movable_borrow.c, movable_debt.c
 *
 * Not served: tenants of several devices, whose kernels may reach another device's memory; and
 * allocations while a stream is captured, which are left to the driver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/movable/movable_table.h"
#include "wire/page.h"

/* Is memory of the device served from here? Asks the daemon the first time. */
must_check bool movable_serves(int device);

/* The same, without asking. */
bool movable_on(int device);

/* Serves a request. CUDA_ERROR_NOT_SUPPORTED: serve it plainly; nothing was charged. */
must_check CUresult movable_allocate(const struct memory_place *place, struct memory_request *q);

/* Frees what was remembered as `entry`, as the driver would: after the work in progress. */
must_check CUresult movable_free(const struct pointer *entry);
/* After the work in a stream; `own`: stream 0 is the thread's. */
must_check CUresult movable_free_in(const struct pointer *entry, CUstream stream, bool own);

/* The allocation around an address, on the device or not. */
must_check bool movable_find(uint64_t address, struct movable_seen *ret_seen);

/* The device's ordinal, as CUDA counts. */
CUdevice movable_ordinal(void);

/* Can other processes, and network cards, reach it once it is pinned? */
bool movable_lends(void);
bool movable_suits_rdma(void);

/* From now on the allocation stays where it is, with everything in its area. Waits for it to come
 * back. false: it is not ours. `why` is of enum wire_unmovable. */
bool movable_pin(uint64_t address, uint32_t why);

/* The same of all memory in the range. */
bool movable_pin_range(uint64_t address, uint64_t bytes, uint32_t why);

/* Has the program mapped it there, of its own handles? */
must_check bool movable_maps(uint64_t address);

/* Waits until the memory around the address is on the device, if it is ours: for calls that the
 * driver cannot answer while it is not. false: it is not ours. */
bool movable_await_at(uint64_t address);

/* Reports that memory of that kind, which does not move, is held: for people. */
void movable_why(uint32_t why);

/* From now on this process allocates plainly, because other processes must be able to reach what it
 * allocates. */
void movable_no_more(void);

/* The context's owner has a new name; or it is gone, with everything it owned. */
void movable_rename(uint64_t owner, uint64_t now);
void movable_context_gone(uint64_t owner);

/* Around the end of a context: meanwhile the mover works in none. */
void movable_context_leaves(CUcontext context);
void movable_context_over(void);
