/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into the driver that may call us: libcuda.so.1 resolves its own exported names to ours.
 * Such a call is passed through, as only the outer call is charged. Its return address identifies
 * it; see docs/decisions/0058.
 */
#pragma once

#include "base/macros.h"
#include "guest/driver/real.h"
#include "guest/thread.h"

/* Not 0 while the thread is in a call that driver_call() made. This alone proves little: a jump
 * out of the driver leaves it set, and a signal handler that interrupts such a call finds it set.
 */
#define driver_inside (guest_thread.inside)

/* To be used in a hook itself, not in functions that it calls: did the driver make the call,
 * from inside a call of ours? Then the outer call is charged. Any other caller is charged
 * normally. */
#define driver_nested() (unlikely(driver_inside) && real_is_driver(__builtin_return_address(0)))

/* Makes a call into the driver; calls that the driver itself makes meanwhile are passed through. */
#define driver_call(call)                                                                          \
	({                                                                                         \
		unsigned memory_was_ = driver_inside;                                              \
		CUresult memory_result_;                                                           \
		driver_inside = 1;                                                                 \
		memory_result_ = (call);                                                           \
		driver_inside = memory_was_;                                                       \
		memory_result_;                                                                    \
	})
