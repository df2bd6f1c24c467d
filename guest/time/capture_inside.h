/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hooks that begin and end captures (capture_calls.c) do before and after the driver's
 * call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

/* A capture that is about to end. */
struct capture_ending {
	uint64_t serial; /* 0: not known */
	bool mine;
};

/* Before the driver's call, and after it, with its answer. Between them `before` is the caller's.
 */
CUresult capture_begin(CUstream stream, CUevent *ret_before);
CUresult capture_begun(CUstream stream, CUevent before, CUresult r, CUstreamCaptureMode mode);

struct capture_ending capture_end(CUstream stream);
CUresult capture_ended(CUstream stream, struct capture_ending which, CUresult r);
