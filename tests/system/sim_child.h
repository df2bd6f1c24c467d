/* SPDX-License-Identifier: Apache-2.0 */
/* Processes beside a test that hold something of a simulated device until they are killed. */
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/test.h"

/* A child that has done `work` when this returns, and does nothing more. */
static inline pid_t start_child(void (*work)(const char *about), const char *about)
{
	int pipes[2];
	char byte = 0;
	pid_t pid;

	expect_eq(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(about);
		check(write(pipes[1], &byte, 1) == 1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	expect_eq(read(pipes[0], &byte, 1), 1);
	close(pipes[0]);
	return pid;
}

static inline void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	expect_eq(waitpid(pid, NULL, 0), pid);
}
