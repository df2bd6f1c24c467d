/* SPDX-License-Identifier: Apache-2.0 */
/*
 * There is one meted per folder: it holds two locks of the file `lock` there, which the kernel
 * releases when it ends, however it ends.
 *
 * flock() is the lock that keeps others out (also `mete`, which looks whether it is held). Children
 * inherit it until they end or execute a program, so that for a moment it outlives a meted that
 * was killed. A record lock (fcntl(2), F_SETLK) is inherited by no child: who holds it lives.
 */
#pragma once

#include "base/macros.h"

struct fault;

/* Opens the file. Returns a descriptor, or a negative errno and the reason. */
must_check int place_lock_open(const char *place, struct fault *why);

/* Locks it. -EBUSY: another meted lives there. Where only children of a killed one hold the lock,
 * waits for their end, PLACE_LOCK_S at most; then -EBUSY as well. */
must_check int place_lock_take(int fd);

/* Locks it when no other meted has it any more, however long that takes; in a thread. */
must_check int place_lock_await(int fd);

enum { PLACE_LOCK_S = 5 };
