/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the device cannot hold (share option oversize=managed; decision 91). A request that
 * finds no room is served with managed memory, which the driver pages between host and device. As
 * much of it as there is room for is charged as other memory is. The rest is the program's own host
 * memory, as from malloc(), and counts towards its control group.
 *
 * An eighth of the limit is kept for managed pages: plain memory cannot be pushed out, and if it
 * filled the device, each kernel would wait for every page. So a program that needs no more than
 * seven eighths has no managed memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/process/state.h"

/* Does the tenant's share allow it? */
static inline bool oversize_allowed(void)
{
	return __atomic_load_n(&guest_tenant_page.oversize, __ATOMIC_RELAXED) != 0;
}

/* Is so much, plus the part for managed pages (not for small requests, which share a block), more
 * than there is room for? */
must_check bool oversize_exceeds(int device, uint64_t bytes, bool small);

/* Serves a request of cuMemAlloc(), cuMemAllocPitch() or cuMemAllocManaged(). */
must_check CUresult oversize_allocate(const struct memory_place *place, struct memory_request *q);

/* The memory of an entry of kind MEMORY_OVERSIZE was freed. */
void oversize_freed(const struct pointer *entry);
