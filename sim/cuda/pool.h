/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                 sim/cuda/pool.h
 * Stream-ordered memory. The address is reserved when the call is made, and usable in the order of
 * the stream. What is freed stays with its pool up to the release threshold.
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/space.h"

/* cuMemFree() on stream-ordered memory, after everything has been waited for. */
must_check CUresult pool_free_now(const struct space_range *range);
