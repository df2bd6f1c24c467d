/* SPDX-License-Identifier: Apache-2.0 */
/* What a process does first that serves the daemon over one descriptor, and nothing else. */
#pragma once

#include <sys/types.h>

/* In a child of fork(); only system calls, because it is a copy of one thread of several. It ends
 * with its parent, not because its group is told to, and keeps no other descriptor. */
void process_child_begin(int fd, pid_t parent, const char *name);
