/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tenant's device (struct state) of a CUDA ordinal or of a context. */
#pragma once

#include "cuda/types.h"

/* Index of a CUDA device, or -1: not one of the tenant's. */
int devices_index(CUdevice device);

/* Index of a context's device, or -1; NULL: no device. */
int devices_of_context(CUcontext context);

/* Index of the calling thread's current context's device, or -1: no context, or not ours. */
int devices_current(void);

/* A CUDA ordinal of a device, or -1. */
int devices_ordinal(int device);
