/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that moves and that the program has created by cuMemCreate(): its handle is one of ours,
 * and the program's mappings are made again whenever it has come back. Only for guest/memory/vmm.c,
 * with its lock held, so that one thread at a time changes mappings.
 *
 * Memory that other processes or devices reach, or that is mapped at more than MOVABLE_ALIASES
 * addresses or from an offset on, cannot be followed: it is created plainly, or stays from then on.
 */
#pragma once

#include "guest/movable/movable.h"
#include "guest/movable/movable_table.h"

/* Creates it. CUDA_ERROR_NOT_SUPPORTED: create it plainly; nothing was charged. No lock is held. */
must_check CUresult movable_own_create(int device, uint64_t bytes, const CUmemAllocationProp *about,
				       unsigned long long flags, struct movable_area **ret_area);

/* Nobody has a handle or a mapping of it any more. */
void movable_own_end(struct movable_area *area);

/* Until movable_own_let() no block of it moves. false: not all of it is on the device; give the
 * lock back, and wait by movable_own_await(), whose *began_ns is 0 at first. */
must_check bool movable_own_hold(struct movable_area *area);
void movable_own_let(struct movable_area *area);
void movable_own_await(uint64_t *began_ns);

/* While it is held. */
must_check CUresult movable_own_map(struct movable_area *area, uint64_t address, uint64_t bytes,
				    uint64_t offset, unsigned long long flags);
void movable_own_fix(struct movable_area *area, uint32_t why);

/* The range has this access now, by cuMemSetAccess(); the areas behind it are held. */
void movable_own_accessed(uint64_t address, uint64_t bytes, CUmemAccess_flags flags);

/* Unmaps a whole mapping, wherever the memory is. */
must_check CUresult movable_own_unmap(struct movable_area *area, uint64_t address, uint64_t bytes);
