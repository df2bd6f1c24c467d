/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process it is: numbers come back, a number with its process's start does not. And which
 * program it runs: execve() leaves both as they were, and ends what the driver held for it.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

struct process_identity {
	pid_t pid;
	uint64_t started;
	uint64_t image; /* another one after execve(); 0: /proc does not tell us of this process */
};

struct process_identity process_identify(pid_t pid);

/* Whether it became another program since it was identified, or is about to, or to end. What is not
 * known is no. */
int process_was_replaced(const struct process_identity *process);

/* In clock ticks since the machine's start; 0: there is none, or /proc does not tell. */
uint64_t process_started(pid_t pid);

/* What it is called, in ret_name[size]; "" where that is not known. */
void process_name(pid_t pid, char *ret_name, size_t size);

/* A pidfd of exactly that process. -ESRCH: it is gone, or the number is somebody else's by now. */
must_check int process_open(pid_t pid, uint64_t started, int *ret_pidfd);

/* Whether the process of a pidfd has ended. */
int process_ended(int pidfd);
