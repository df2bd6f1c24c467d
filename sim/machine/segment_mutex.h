/* SPDX-License-Identifier: Apache-2.0 */
/*                                                        sim/machine/segment_mutex.h
 * A mutex in memory that processes share, each of which may be killed or stopped at any instant.
 * Private to segment.c.
 *
 * If a process is killed while it holds the mutex, the next one that locks it is told, and mends
 * what it protects. If a process is stopped (SIGSTOP) while it holds it, a process that has waited
 * for long continues it until it has released the mutex, and stops it again. With a real driver no
 * stopped process holds a lock either: the locks are in the kernel, and a process stops when its
 * call returns. Only processes of the waiter's own PID namespace can be helped like this, and none
 * that a debugger or a freezer stops.
 *
 * No signal handler runs in a thread that holds the mutex, as none does inside the kernel: it might
 * wait for what the thread has, and every process with it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/macros.h"

/* Under TSan no process is helped out of a mutex. */
#if defined(__SANITIZE_THREAD__)
#define SEGMENT_MUTEX_TSAN 1
#elif defined(__has_feature)
#define SEGMENT_MUTEX_TSAN __has_feature(thread_sanitizer)
#else
#define SEGMENT_MUTEX_TSAN 0
#endif

must_check int segment_mutex_init(pthread_mutex_t *mutex);

/* True: its last holder died, and nothing has been mended since. */
must_check bool segment_mutex_lock(pthread_mutex_t *mutex);
void segment_mutex_unlock(pthread_mutex_t *mutex);

/* The calling thread has all signals blocked for good. */
void segment_mutex_deaf_thread(void);
