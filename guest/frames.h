/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the calling thread is still inside a function of ours that it entered before. A program
 * may leave one by longjmp() out of the driver, and a handler of its signals may enter one on top
 * of another. Both find what the first had begun; only by the stack can they be told apart.
 *
 * Stacks grow downwards. What is deeper than a frame that is recorded was called from it; who comes
 * from as high, or from higher, has left it. Handlers on a stack of their own are known by it.
 * Not decided: a program that switches stacks by itself inside the driver's calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "guest/thread.h"

/* Where the stack is in the function that this is used in. */
#define frames_here()                                                                              \
	({                                                                                         \
		uintptr_t here_;                                                                   \
		__asm__("mov %%rsp, %0" : "=r"(here_));                                            \
		here_;                                                                             \
	})

/* Something of the calling thread that no other thread alive has. */
static inline uintptr_t frames_thread(void)
{
	return (uintptr_t)&guest_thread;
}

/* Has the calling thread, which is at `here` now, left what it entered at `then`? */
bool frames_left(uintptr_t then, uintptr_t here);
