/* SPDX-License-Identifier: Apache-2.0 */
/*                                                            sim/cuda/resource.h
 * A device's multiprocessors for green contexts: the whole, groups of it, and descriptors of the
 * resources of a green context. A CUdevResource has its device and range in its padding.
 *
 * Nothing depends on which multiprocessors those are: see docs/simulator.md.
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/green_types.h"

/* The handle is never freed, as there is no function that would. */
struct CUdevResourceDesc_st {
	struct CUdevResourceDesc_st *before; /* the one made before it */
	struct resource has;
};

/* The resource as a program sees it; it may be split. INVALID_RESOURCE_TYPE unless `type` is that
 * of multiprocessors; INVALID_VALUE: the pointer is NULL. */
must_check CUresult resource_show(const struct resource *has, CUdevResourceType type,
				  CUdevResource *ret_shown);

struct resource resource_whole(CUdevice device);
