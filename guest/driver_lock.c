/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/driver_lock.h"

bool driver_lock_again(struct driver_lock *lock, uintptr_t here)
{
	if (!frames_left(lock->entered, here))
		return false;
	lock->entered = here;
	return true;
}

bool driver_lock_try(struct driver_lock *lock)
{
	uintptr_t here = frames_here();
	uint32_t was = 0;

	if (unlikely(driver_lock_is_mine(lock)))
		return driver_lock_again(lock, here);
	if (!atomic_compare_exchange_strong(&lock->lock.word, &was, 1))
		return false;
	driver_lock_own(lock, here);
	return true;
}
