/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the calling thread is still inside a call that submits, or has left one by a jump. While
 * it is inside, an address in our trampoline lies on its stack, further out than where it is now:
 * the driver's way back, or where a signal came. Not told: from a signal's own stack, or where the
 * memory may not be read. Not decided: see guest/frames.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* `stack`: where the thread's stack was when it called. True: it is inside no such call. */
must_check bool jumps_left(uintptr_t stack);
