/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether the calling thread is still inside one of our functions that it entered before. A
 * program may leave such a function by longjmp() out of the driver, and a signal handler may enter
 * one on top of another. In both cases the first function's state is incomplete; only the stack can
 * tell the cases apart.
 *
 * Stacks grow downwards. A frame deeper than a recorded one was called from it; a frame at the same
 * height or higher means that the recorded one was left. Handlers on their own stack are recognised
 * by it. Programs that switch stacks inside driver calls are not handled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "guest/thread.h"

/* The stack position of the function that uses this. */
#define frames_here()                                                                              \
	({                                                                                         \
		uintptr_t here_;                                                                   \
		__asm__("mov %%rsp, %0" : "=r"(here_));                                            \
		here_;                                                                             \
	})

/* A value that identifies the calling thread among all living threads. */
static inline uintptr_t frames_thread(void)
{
	return (uintptr_t)&guest_thread;
}

/* Has the calling thread, now at `here`, left the function that it entered at `then`? */
bool frames_left(uintptr_t then, uintptr_t here);
