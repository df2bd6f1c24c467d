/* SPDX-License-Identifier: Apache-2.0 */
/* Tells whether a process holds a file's lock (flock), without opening the file. The lock shows
 * whether a daemon still runs, and another user's lock file cannot be opened. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

/* 1: it is held; 0: it is not, or there is no such file; -EACCES etc.: this cannot be
 * determined. */
must_check int held_file(const char *path);

/* Does the text of /proc/locks have a flock on that file of that device? */
int held_in(const char *locks, unsigned device_major, unsigned device_minor, uint64_t inode);
