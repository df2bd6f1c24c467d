/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process it is: numbers come back, a number with its process's start does not.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

/* In clock ticks since the machine's start; 0: there is none, or /proc does not tell. */
uint64_t process_started(pid_t pid);

/* A pidfd of exactly that process. -ESRCH: it is gone, or the number is somebody else's by now. */
must_check int process_open(pid_t pid, uint64_t started, int *ret_pidfd);
