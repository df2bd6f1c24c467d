/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process's memory may move at all, and of which kind it is to be. For
 * guest/movable/movable.h.
 */
#pragma once

#include <stdint.h>

#include "cuda/types.h"

/* Enum wire_unmovable of a process that is to allocate plainly; 0: its memory may move. */
uint32_t movable_unfit(CUdevice ordinal);

/* WIRE_UNMOVABLE_PROCESS if something can reach memory that no gate holds back: a library of an
 * encoder is loaded, or a network adapter is open. 0: nothing can. Takes none of the loader's
 * locks. */
uint32_t movable_unfit_now(void);

/* The properties with which blocks are created: those that the device supports, so that other
 * processes, and network cards, can reach them like the driver's own. */
CUmemAllocationProp movable_properties(CUdevice ordinal);
