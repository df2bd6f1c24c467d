/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver hands device memory out in blocks of 2 MiB; allocations of up to half a block of one
 * context share them. What a tenant holds is therefore blocks, not the bytes that it asked for, and
 * a charge must appear with the first allocation in a block and go with the last. This module knows
 * which blocks there are by the addresses that the driver returned.
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

/* Outcomes. */
enum {
	BLOCKS_UNPAID = 1, /* charge BLOCKS_BYTES and say blocks_paid(), or free the allocation */
	BLOCKS_EMPTY,	   /* BLOCKS_BYTES are to be given back */
};

/* Would an allocation of so many bytes fit? _likely is quick and looks at one block only. */
bool blocks_fit_likely(int device, uint64_t context, uint64_t bytes);
bool blocks_fit(int device, uint64_t context, uint64_t bytes);

/* The driver returned `address`. 0, BLOCKS_UNPAID; -ENOMEM: not noted. *ret_block is for
 * blocks_take(). */
must_check int blocks_put(int device, uint64_t context, uint64_t address, uint64_t bytes,
			  uint32_t *ret_block);

/* The block is charged. Returns true if another thread's charge came first: give back one. */
must_check bool blocks_paid(uint32_t block);

/* The driver has freed it. 0, BLOCKS_EMPTY. */
must_check int blocks_take(uint32_t block, uint64_t address, uint64_t bytes);

/* In a child of fork(), and in tests. */
void blocks_forget(void);
