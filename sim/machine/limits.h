/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/machine/limits.h
 * Limits of control groups (of version 2) on the node's GPUs, as drivers from 615 on have them. A
 * limit holds for the processes whose control group is exactly that one; managed memory does not
 * count. The node's lock guards them: the caller holds none, but for *_locked(). Groups that were
 * removed have no limits any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define LIMITS_NONE UINT64_MAX

/* Soft 0 and hard LIMITS_NONE: the group has none any more. -ENOSPC: there are too many,
 * or more would be guaranteed than the GPU has; -ENAMETOOLONG. */
must_check int limits_set(uint32_t gpu, const char *group, uint64_t soft_bytes,
			  uint64_t hard_bytes);
/* 0 and LIMITS_NONE where none are set. */
void limits_get(uint32_t gpu, const char *group, uint64_t *ret_soft, uint64_t *ret_hard);
/* The bytes that the processes of the group have on the GPU. */
uint64_t limits_used(uint32_t gpu, const char *group);
/* Any at all: a caller without limits need not lock. */
bool limits_any(void);
/* Whether the calling process's group may have so many bytes more of the GPU. */
bool limits_allow_locked(uint32_t gpu, uint64_t bytes);
