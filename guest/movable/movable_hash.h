/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash of a block's content: 128 bits, computed by a kernel on the device. Two equal hashes mean
 * that nothing was written in between. It does not protect against someone who constructs contents
 * with equal hashes: only the program could, and the memory is its own. Only for the mover.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

/* In the current context. If the kernel cannot be loaded, nothing is hashed. */
void movable_hash_open(void);
void movable_hash_close(void);

/* Begins hashing in the stream. false: there will be no hash, because it cannot be computed, or was
 * measured to be no faster than copying. `slot` is 0 or 1. */
bool movable_hash_begin(unsigned slot, uint64_t address, uint64_t bytes, CUstream stream);

/* After the hash the whole block was copied, until `copied`. */
void movable_hash_copied(unsigned slot, uint64_t bytes, CUevent copied);

/* Begins hashing a block that was copied without it, if that is known to be worthwhile now. */
bool movable_hash_late(unsigned slot, uint64_t address, uint64_t bytes, CUstream stream);

/* To be called after the stream has got that far. */
void movable_hash_read(unsigned slot, uint64_t ret_hash[2]);
