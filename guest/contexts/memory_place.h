/* SPDX-License-Identifier: Apache-2.0 */
/* Where the calling thread allocates. */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/types.h"

struct memory_place {
	CUcontext context;
	int device;   /* as in guest/process/state.h */
	bool tracked; /* false: no context, or the driver calls itself: pass it through */
};

/* Begins a hook that allocates: joins, and finds the place. The hook must return any result that
 * is not 0. */
must_check CUresult memory_begin(struct memory_place *ret_place, bool nested);
