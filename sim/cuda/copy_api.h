/* SPDX-License-Identifier: Apache-2.0 */
/*                                                             sim/cuda/copy_api.h
 * How the copying entry points hand a copy to a stream.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "sim/cuda/execute.h"

/* Checks, reads a pageable source where the call may return first, and submits. The copy's content
 * is taken over, on failure too. `wait`: until it is done. */
must_check CUresult copy_submit(struct copy_work *copy, CUstream handle, bool wait);
