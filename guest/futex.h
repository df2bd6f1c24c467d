/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting on a word, and a lock that is valid when zero. The lock is for short sections without
 * calls into the driver; it is not recursive. errno is kept.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

/* Sleeps while *word == value, at most `wait_ms` (-1: for ever), with spurious wakeups. `flags`:
 * FUTEX_PRIVATE_FLAG, or 0 for a word in shared memory. */
static inline void futex_wait(const void *word, uint32_t value, int wait_ms, int flags)
{
	struct timespec limit = {wait_ms / 1000, (long)(wait_ms % 1000) * 1000000};
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT | flags, value, wait_ms < 0 ? NULL : &limit, NULL, 0);
	errno = saved;
}

static inline void futex_wake_all(const void *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

struct futex_lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and waited for */
};

/* The slow path; the usual case is a few inlined instructions. */
__attribute__((__noinline__, __cold__, __unused__)) static void
futex_lock_wait(struct futex_lock *lock)
{
	while (atomic_exchange(&lock->word, 2) != 0)
		futex_wait(&lock->word, 2, 100, FUTEX_PRIVATE_FLAG);
}

__attribute__((__noinline__, __cold__, __unused__)) static void
futex_lock_wake(struct futex_lock *lock)
{
	futex_wake_all(&lock->word);
}

must_check static inline bool futex_lock_try(struct futex_lock *lock)
{
	uint32_t was = 0;

	return atomic_compare_exchange_strong(&lock->word, &was, 1);
}

static inline void futex_lock_take(struct futex_lock *lock)
{
	uint32_t was = 0;

	if (__builtin_expect(!atomic_compare_exchange_strong(&lock->word, &was, 1), 0))
		futex_lock_wait(lock);
}

static inline void futex_lock_give(struct futex_lock *lock)
{
	if (__builtin_expect(atomic_exchange(&lock->word, 0) == 2, 0))
		futex_lock_wake(lock);
}
