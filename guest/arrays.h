/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays and mipmapped arrays: device memory whose size only the driver knows. Everything is
 * in the hooks (guest/arrays.c).
 */
#pragma once

#include "cuda/types.h"

/* A context was destroyed, and with it the arrays in it. */
void arrays_context_gone(CUcontext context);

/* In a child of fork(). */
void arrays_forget(void);
