/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant at its limit may still make small allocations that fit into its blocks
 * (guest/credit/blocks.h). A thread that tries one without credit for a block relies on a gap. The
 * gap may be gone when the driver looks for it, and then the tenant holds a block too many until it
 * is freed again. To ensure that all threads together never hold more than the credit allows:
 *
 *  - only one thread at a time relies on a gap: scarce_begin(), scarce_end();
 *  - a thread that makes a gap vanish has credit for a block, and keeps it until the first thread
 *    has finished: call scarce_over() before the credit is returned.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/futex.h"
#include "guest/thread.h"

struct scarce {
	struct futex_lock lock;
	_Atomic uint32_t begun, ended; /* sections; `ended` is a futex */
};

extern struct scarce scarce;

/* A thread that has held this for a second has left by a jump, or the driver is slow. It is not
 * waited for any longer, and the guarantee above does not cover it. */
must_check uint32_t scarce_begin(void);
/* Takes the result of scarce_begin(). */
void scarce_end(uint32_t ticket);

void scarce_wait(void);

/* Does nothing for the thread that is itself between the two. */
static inline_ void scarce_over(void)
{
	if (unlikely(atomic_load(&scarce.lock.word) != 0))
		scarce_wait();
}
