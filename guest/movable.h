/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that moves (decision 91): what cuMemAlloc() and cuMemAllocPitch() ask for is served from
 * reserved addresses with physical blocks behind them, which leave for the swap store and come back
 * as meted orders, while the program's addresses stay. Whether a device's memory can move the
 * daemon is asked once, before the first allocation; where it cannot, nothing here is used.
 *
 * A block is moved by the mover, a thread with every signal blocked, and by it alone; what the
 * program frees meanwhile waits for that block. Law: a block's bytes are on the device, in the
 * store, or in both.
 *
 * Refuses: tenants of several devices, whose kernels may reach another device's memory; whatever is
 * allocated while a stream is captured, which is the driver's to judge.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/memory.h"
#include "guest/movable_table.h"
#include "wire/wire.h"

/* Is memory of the device served from here? Asks the daemon the first time. */
must_check bool movable_serves(int device);

/* The same, without asking. */
bool movable_on(int device);

/* Serves a request. CUDA_ERROR_NOT_SUPPORTED: it is to be served plainly, nothing was charged. */
must_check CUresult movable_allocate(const struct memory_place *place, struct memory_request *q);

/* What was remembered as `entry` is freed, as the driver would free it: after the work that is
 * under way. */
must_check CUresult movable_free(const struct pointer *entry);

/* The allocation around an address, on the device or not. */
must_check bool movable_look(uint64_t address, struct movable_seen *ret_seen);

/* Of the device: as CUDA counts them. */
CUdevice movable_ordinal(void);

/* The allocation stays where it is from now on, with all that its area has; false: it is none of
 * ours. Waits for it to come back. `why` is of enum wire_unmovable. */
bool movable_pin(uint64_t address, uint32_t why);

/* Memory of that kind is held, which does not move: for people. */
void movable_why(uint32_t why);

/* From now on this process allocates plainly: other processes shall reach what it allocates. */
void movable_no_more(void);

/* The context's owner is called something else; or it is gone, with what was its. */
void movable_rename(uint64_t owner, uint64_t now);
void movable_context_gone(uint64_t owner);

/* Around the end of a context: the mover works in none meanwhile. */
void movable_context_leaves(CUcontext context);
void movable_context_over(void);

/* ---- the agent's ----------------------------------------------------------------------------- */

/* Orders have come. */
void movable_heard(const struct wire_move *order);

/* The connection is about to come up; has come up; is lost. */
void movable_up(void);
void movable_connected(void);
void movable_down(void);

/* Is anything in the store, or on its way? */
bool movable_is_away(void);

/* What the inventory says: the blocks that are under way have arrived. Bounded. */
void movable_stated(int device, uint64_t *ret_movable, uint64_t *ret_out);

/* Writes the own page. */
void movable_publish(void);

/* In a child of fork(). */
void movable_forget(void);
