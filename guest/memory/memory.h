/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of the device memory hooks: where an allocation goes, how it is charged, and what
 * is recorded about it. The order is always the same. To allocate: charge, call the driver, correct
 * the charge to what the driver really took. To free: remove the entry, call the driver, then
 * return the charge on success or restore the entry on failure. The entry is removed first, because
 * the driver may give a freed address to another thread before our call returns.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/memory_types.h"

must_check CUresult memory_allocate(const struct memory_place *place,
				    struct memory_request *request);

/* A complete allocating hook: begins, finds the place, allocates. Calls that the driver itself
 * refuses (no size, no place for the address), and calls that cannot be charged to anything, go
 * to the driver directly. */
must_check CUresult memory_request(struct memory_request *request);

/* A context is about to be destroyed: its memory gets another owner, because the driver may give
 * the same handle and addresses to another thread before the destroying call returns. */
uint64_t memory_context_leaves(CUcontext context);

/* It was not destroyed. */
void memory_context_stays(CUcontext context, uint64_t leaving);

/* The context was destroyed, with the memory of `owner`, which is the result of
 * memory_context_leaves() or a handle.
 */
void memory_context_gone(uint64_t owner);
