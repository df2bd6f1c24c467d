/* SPDX-License-Identifier: Apache-2.0 */
/* Around the driver's call, for the calls that may wait for something outside (held_calls.c). */
#pragma once

#include "cuda/types.h"

struct held_call;

/* From now on calls come. */
void held_calls_begin(void);

/* Before the driver's call, and after it. NULL: the call is not noted. `caller`: the address to
 * which it returns. */
struct held_call *held_call_begin(CUstream stream, const void *caller);
void held_call_end(struct held_call *call, CUstream stream);
