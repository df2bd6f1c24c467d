/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays and mipmapped arrays: device memory whose size only the driver knows. Everything is
 * in the hooks (guest/memory/arrays.c).
 */
#pragma once

#include "cuda/types.h"

/* A context was destroyed, together with its arrays; it may have been renamed before, see
 * memory_context_leaves(). */
void arrays_context_gone(uint64_t owner);
void arrays_rename(uint64_t owner, uint64_t now);
