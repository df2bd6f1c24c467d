/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that is held while the driver is called, or the daemon is asked. The driver may take
 * long, it may call a function of the program, a signal handler of the program may run meanwhile
 * and call us, and either may jump out. So unlike a futex_lock (short sections, no calls) it knows
 * its owner:
 *
 *   - a thread that comes back after a jump has it at once: the section that was left is over;
 *   - a handler that runs inside the owner's section goes in as well, and does not give it back:
 *     waiting would be for ever. It finds what is true between two calls into the driver.
 *
 *	bool mine = driver_lock_take(&lock);
 *	...
 *	driver_lock_give(&lock, mine);
 *
 * With one of these held: any futex_lock may be taken, calls to the daemon may be made, no other
 * driver_lock may be waited for, but one that stands lower in this list:
 *
 *	context.c   primaries       a primary context is being made
 *	module.c    loading         a module is being loaded
 *	pools.c     a pool's        it allocates
 *	graphs.c    graphs.lock     an executable graph is made or launched
 *	arrays.c    arrays.lock     between two readings of free memory
 *	heaps.c     heaps.lock      a heap's limit is set
 *	vmm.c       vmm.lock        physical memory comes or goes
 *	capture.c   end_lock        a capture ends
 *	movable_borrow.c  borrow.lock  another process's memory is mapped or unmapped
 *
 * (pools_trim() and graphs_trim(), which give room back near the limit, do not wait for them.)
 *
 * Valid when zero; a child of fork() sets it to zero again. errno is kept.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/frames.h"
#include "guest/futex.h"

struct driver_lock {
	struct futex_lock lock;
	_Atomic uintptr_t owner; /* frames_thread(); 0: nobody */
	uintptr_t entered;	 /* the owner's stack position */
};

/* The calling thread holds the lock: is it still inside the section, or did it leave it by a jump?
 */
must_check bool driver_lock_again(struct driver_lock *lock, uintptr_t here);

static inline void driver_lock_own(struct driver_lock *lock, uintptr_t here)
{
	lock->entered = here;
	atomic_store_explicit(&lock->owner, frames_thread(), memory_order_relaxed);
}

static inline bool driver_lock_is_mine(struct driver_lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == frames_thread();
}

/* Returns whether the caller must release it. */
must_check static inline bool driver_lock_take(struct driver_lock *lock)
{
	uintptr_t here = frames_here();

	if (unlikely(driver_lock_is_mine(lock)))
		return driver_lock_again(lock, here);
	futex_lock_take(&lock->lock);
	driver_lock_own(lock, here);
	return true;
}

/* Does not wait. Returns false if any thread holds it, even the calling one. */
must_check bool driver_lock_try(struct driver_lock *lock);

static inline void driver_lock_give(struct driver_lock *lock, bool mine)
{
	if (unlikely(!mine))
		return;
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	futex_lock_give(&lock->lock);
}
