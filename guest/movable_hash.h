/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in a block, as 128 bits that a kernel finds on the device: two equal hashes mean that
 * nothing was written in between. It is no defence against who wants two contents to look alike:
 * that is the program itself, whose own memory it is. The mover's alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

/* In the current context. Where the kernel cannot be loaded nothing is hashed. */
void movable_hash_open(void);
void movable_hash_close(void);

/* Begins, in the stream; false: there will be no hash, as it cannot be found, or takes so long that
 * copying is no worse: that is measured. `slot` is 0 or 1. */
bool movable_hash_begin(unsigned slot, uint64_t address, uint64_t bytes, CUstream stream);

/* After it the block was copied whole, until `copied`. */
void movable_hash_copied(unsigned slot, uint64_t bytes, CUevent copied);

/* After the stream has come so far. */
void movable_hash_read(unsigned slot, uint64_t ret_hash[2]);
