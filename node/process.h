/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies a process. Pids are reused, but a pid together with the process's start time is not.
 * Also identifies the program that it runs, because execve() changes neither, but ends what the
 * driver held for the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

struct looks; /* base/process_look.h */

struct process_identity {
	pid_t pid;
	uint64_t started;
	/* Changes with execve(), and as the process likes (PR_SET_MM_MAP): a hint. 0: /proc does
	 * not show it for this process. */
	uint64_t image;
};

struct process_identity process_identify(struct looks *looks, pid_t pid);

/* A descriptor of the memory that the process has now, which execve() leaves behind. -EACCES: this
 * reader may not see it; -ESRCH: the process has none any more; -EBUSY: whoever looks has to wait.
 */
must_check int process_open_memory(struct looks *looks, pid_t pid);

/* Returns true if the process has become another program since `memory_fd` was opened: it lives,
 * and nobody uses that memory any more. Returns false if this is unknown (`memory_fd` is negative),
 * while somebody else looks at the former memory or shares it, and while the process ends, because
 * the driver still holds what it held for it then. */
bool process_was_replaced(struct looks *looks, const struct process_identity *process,
			  int memory_fd);

/* Whether it runs the program still by which it was identified, as far as /proc shows that. Returns
 * false while it executes another, and while whoever looks has to wait. */
bool process_runs_it(struct looks *looks, const struct process_identity *process);

/* In clock ticks since the machine's start; 0: no such process, or /proc does not show it. */
uint64_t process_started(struct looks *looks, pid_t pid);

/* Returns true if there is no process of that number, or another one. Returns false if this is
 * unknown. */
bool process_is_gone(struct looks *looks, pid_t pid, uint64_t started);

/* 0: no such process, or /proc does not show it. */
pid_t process_parent(struct looks *looks, pid_t pid);

/* Returns true if the process has ended completely, so that the driver has returned what it held
 * for it. A process that is about to end has not ended. Returns false if this is unknown. */
int process_is_over(pid_t pid);

/* Whether it is stopped, by a signal or a debugger, or frozen by its control group. Returns false
 * if this is unknown. */
bool process_is_stopped(struct looks *looks, pid_t pid);

/* How long its threads have waited for a processor, in all, since they began. A thread that waits
 * now is not counted before it runs again. Of *threads at most, the oldest first, as a program may
 * have any number; those that were read are taken off. 0: /proc does not show it. */
uint64_t process_queued_ns(pid_t pid, unsigned *threads);

/* What its threads had of the processors, in all, and how long they waited for one; see
 * process_queued_ns(). */
struct process_load {
	uint64_t ran_ns, queued_ns;
	bool runnable; /* one of them runs, or waits to */
};
void process_load(struct looks *looks, pid_t pid, unsigned *threads, struct process_load *ret_load);

/* The second figure of a schedstat file: time on a run queue, in ns. 0: there is none. */
uint64_t process_parse_queued(const char *schedstat);

/* Whether it is a thread of the kernel, which never ends. Returns false if this is unknown. */
bool process_is_kernels(struct looks *looks, pid_t pid);

/* The user that it runs as; -1: /proc does not show it. */
int64_t process_user(pid_t pid);

/* Its name, in ret_name[size]; "" if unknown. */
void process_name(pid_t pid, char *ret_name, size_t size);

/* A pidfd of exactly that process, or, while whoever looks has to wait, of the one that has its
 * pid. -ESRCH: it is gone, or its pid has been reused. */
must_check int process_open(struct looks *looks, pid_t pid, uint64_t started, int *ret_pidfd);

/* Whether the process of a pidfd has ended. */
int process_ended(int pidfd);
