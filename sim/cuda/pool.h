/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                 sim/cuda/pool.h
 * Stream-ordered memory. The address is reserved by the call, and usable in the order of the
 * stream. Freed memory stays with its pool up to the release threshold.
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/space.h"

/* cuMemFree() of stream-ordered memory, when no work uses it any more. */
must_check CUresult pool_free_now(const struct space_range *range);
