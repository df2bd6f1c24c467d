/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow path of calls that submit work, or touch memory: the gate is not open, or a sample is
 * due. Called by the trampolines. Both return 0, or the CUresult that the call must return.
 */
#pragma once

#include <stdint.h>

#include "guest/time/presence.h"

uint32_t pass_slow(struct presence_slot *slot, unsigned index, const uint64_t *registers,
		   const uint64_t *stack);

/* A function that a guest refuses. */
uint32_t pass_refuse(unsigned index);
