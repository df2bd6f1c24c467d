/* SPDX-License-Identifier: Apache-2.0 */
/* A file's lock (flock), which shows whether a daemon still runs: tells whether a process holds it
 * without opening the file, as another user's lock file cannot be opened; and waits for it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"

/* 1: it is held; 0: it is not, or there is no such file; -EACCES etc.: this cannot be
 * determined. */
must_check int held_file(const char *path);

/* Does /proc/locks, read from there, have a flock on that file of that device? */
must_check int held_in(FILE *locks, unsigned device_major, unsigned device_minor, uint64_t inode);

/* Locks a file by flock(), waiting for `seconds` at most; by SIGALRM, so in the main thread of a
 * process. -EINTR: others hold it still. */
must_check int held_await(int fd, unsigned seconds);
