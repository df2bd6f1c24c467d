/* SPDX-License-Identifier: Apache-2.0 */
/*                                                      sim/machine/segment_process.h
 * A process's identity, as the segment's slots know it, and whether it still lives. Private to
 * segment.c and its tests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

/* Identifies a process among all others on the machine, until the machine's next start. */
struct segment_identity {
	int32_t pid; /* in its own PID namespace */
	uint64_t start_ticks;
	uint64_t namespace_id;
};

/* The caller's. -errno where /proc does not say. */
must_check int segment_process_self(struct segment_identity *ret_identity);

/*
 * Is the process gone, or dead and only waiting to be waited for? It lives while byte `offset` of
 * the file is locked; `fd` is the caller's own open file description, whose lock does not count. A
 * process without its lock lives as well if it is in the caller's PID namespace and in /proc,
 * unless it visibly does not have the file mapped: then exec() has ended it.
 */
bool segment_process_dead(const struct segment_identity *identity, uint64_t own_namespace, int fd,
			  off_t offset);

/* Locks that byte for the open file description of fd, until all that share it have closed it. */
must_check int segment_process_lock(int fd, off_t offset);

/* Of the program that runs: exec() changes it, fork() does not. */
uint64_t segment_process_image(void);

/* The process's pid in the caller's namespace, or 0. */
pid_t segment_process_pid(const struct segment_identity *identity, uint64_t own_namespace);
