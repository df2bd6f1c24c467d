/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver hands device memory out in blocks of 2 MiB; allocations of up to half a block of one
 * context share them. What a tenant holds is therefore blocks, not the bytes that it asked for, and
 * a charge must appear with the first allocation in a block and go with the last. This module knows
 * the small allocations, and which blocks they are in, by the addresses that the driver returned.
 *
 * Before an allocation it says whether there is room for it in the blocks that are there, so that
 * a tenant at its limit is neither refused what would cost nothing, nor holds a block too much for
 * a moment. The answer is exact for a driver that fills gaps; for another one it is a guess.
 *
 * Only counts: charging is the caller's. Thread-safe; no malloc; keeps errno; valid when zero.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define BLOCKS_BYTES 0x200000ull
#define BLOCKS_SMALL (BLOCKS_BYTES / 2) /* larger allocations get blocks of their own */
#define BLOCKS_UNIT  512ull		/* what a small allocation is rounded up to */

/* In no handle of a context. */
#define BLOCKS_LEAVING (1ull << 63)

struct block;

/* Outcomes. */
enum {
	BLOCKS_UNPAID = 1, /* charge BLOCKS_BYTES and say blocks_paid(), or free the allocation */
	BLOCKS_EMPTY,	   /* BLOCKS_BYTES are to be given back */
};

/* Would an allocation of so many bytes fit? _likely is quick and looks at one block only. */
bool blocks_fit_likely(int device, uint64_t context, uint64_t bytes);
bool blocks_fit(int device, uint64_t context, uint64_t bytes);

/* The driver returned `address`. 0, BLOCKS_UNPAID; -ENOMEM: not noted. */
must_check int blocks_put(int device, uint64_t context, uint64_t address, uint64_t bytes,
			  struct block **ret_block);

/* The block is charged. Returns true if another thread's charge came first: give back one. */
must_check bool blocks_paid(struct block *block);

/* About to be freed: the address is unknown from now on, as the driver may return it to another
 * thread before it has returned to us. NULL: no small allocation begins there. `ret_units` is for
 * the other two: the driver has freed it (0, BLOCKS_EMPTY), or refused. With BLOCKS_LAST in it the
 * block will be empty, unless another thread is faster. */
#define BLOCKS_LAST (1u << 31)
must_check struct block *blocks_detach(uint64_t address, unsigned *ret_units);
must_check int blocks_freed(struct block *block, unsigned units);
void blocks_attach(struct block *block, uint64_t address, unsigned units);

int blocks_device(const struct block *block);

/* A context is about to be destroyed: `leaving`, with BLOCKS_LEAVING in it, is what it is called
 * from now on. Before the destroyer has returned the driver may give its blocks, and its handle, to
 * others, whose allocations in them are not its own. Or the other way round: it was not destroyed.
 */
void blocks_rename(uint64_t context, uint64_t leaving);

/* A context is gone, with all that was allocated in it. Calls gone() with the device of each block
 * that was paid for. */
void blocks_context_gone(uint64_t context, void (*gone)(int device));

/* In a child of fork(), and in tests. */
void blocks_forget(void);
