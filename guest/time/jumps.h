/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether the calling thread is still inside a call that submits, or has left it by a jump.
 * While it is inside, its stack contains an address in our trampoline further out: the driver's
 * return address, or the place where a signal arrived. It cannot be told from a signal's own stack,
 * or if the memory cannot be read. For cases that are not handled, see guest/frames.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* `stack`: the thread's stack position when it called. True: it is not inside such a call. */
must_check bool jumps_left(uintptr_t stack);
