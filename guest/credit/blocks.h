/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver hands out device memory in blocks of 2 MiB, which allocations of up to half a block in
 * one context share. A tenant therefore holds blocks, not the bytes that it requested. The charge
 * must appear with the first allocation in a block and disappear with the last. This module tracks
 * the small allocations and their blocks by the addresses that the driver returned.
 *
 * Before an allocation it tells whether the existing blocks have room for it. A tenant at its limit
 * is then neither refused an allocation that costs nothing, nor does it briefly hold a block too
 * many. The answer is exact for a driver that fills gaps, and otherwise a guess.
 *
 * It only counts; the caller charges. Thread-safe; no malloc; keeps errno; valid when zero.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define BLOCKS_BYTES 0x200000ull
#define BLOCKS_SMALL (BLOCKS_BYTES / 2) /* larger allocations get blocks of their own */
#define BLOCKS_UNIT  512ull		/* what a small allocation is rounded up to */

/* A bit that no handle of a context has. */
#define BLOCKS_LEAVING (1ull << 63)

struct block;

/* Outcomes. */
enum {
	BLOCKS_UNPAID = 1, /* charge BLOCKS_BYTES and call blocks_paid(), or free the allocation */
	BLOCKS_EMPTY,	   /* return BLOCKS_BYTES */
};

/* Would an allocation of this size fit? The quick form, _likely, checks only one block. */
bool blocks_fit_likely(int device, uint64_t context, uint64_t bytes);
bool blocks_fit(int device, uint64_t context, uint64_t bytes);

/* The driver returned `address`. 0, BLOCKS_UNPAID; -ENOMEM: not noted. */
must_check int blocks_put(int device, uint64_t context, uint64_t address, uint64_t bytes,
			  struct block **ret_block);

/* The block is charged. Returns true if another thread's charge came first: return one charge. */
must_check bool blocks_paid(struct block *block);

/* The allocation is about to be freed. From now on the address is unknown, because the driver
 * may give it to another thread before our call returns. NULL: no small allocation begins there.
 * Pass `ret_units` to one of the next two functions: the driver freed it (0, BLOCKS_EMPTY), or
 * refused. If it includes BLOCKS_LAST, the block will be empty, unless another thread is faster. */
#define BLOCKS_LAST (1u << 31)
must_check struct block *blocks_detach(uint64_t address, unsigned *ret_units);
must_check int blocks_freed(struct block *block, uint64_t address, unsigned units);
void blocks_attach(struct block *block, uint64_t address, unsigned units);

int blocks_device(const struct block *block);

/* A context is about to be destroyed. From now on its name is `leaving`, which includes
 * BLOCKS_LEAVING: before the destroying call returns, the driver may give the context's blocks and
 * handle to others. The second function undoes this: the context was not destroyed.
 */
void blocks_rename(uint64_t context, uint64_t leaving);

/* A context is gone, with all its allocations. Calls gone() with the device of each charged
 * block. */
void blocks_context_gone(uint64_t context, void (*gone)(int device));

/* In a child of fork(), and in tests. */
void blocks_forget(void);
