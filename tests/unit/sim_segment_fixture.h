/* SPDX-License-Identifier: Apache-2.0 */
/* A node of its own for each test, and processes that join it. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sim/machine/device.h"
#include "sim/machine/segment.h"
#include "tests/sim_folder.h"
#include "tests/test.h"

#define GIB (1ULL << 30)

/* A node that nobody has used; the settings are the environment's. */
static inline void given(void)
{
	for (size_t i = 0; settings_row(i); i++)
		unsetenv(settings_row(i)->variable);
	unsetenv("METE_SIM_DEVICES");
	unsetenv("METE_SIM_FAULTS");
	sim_folder_make();
}

static inline void clean(void)
{
	segment_leave();
	sim_folder_remove();
}

/* A child that does `what` and then waits to be killed. It reports when it is done. */
struct child {
	pid_t pid;
	int done; /* reads one byte: what its last call answered */
};

static inline struct child start_with(int (*what)(void), int flags)
{
	struct child child;
	int pipes[2];
	char answer;

	expect_eq(pipe(pipes), 0);
	if (flags && unshare(flags) < 0) {
		close(pipes[0]);
		close(pipes[1]);
		return (struct child){.pid = -1};
	}
	child.pid = fork();
	if (child.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		answer = (char)what();
		close(pipes[0]);
		expect_eq(write(pipes[1], &answer, 1), 1);
		for (;;)
			pause();
	}
	if (flags) {
		/* Later children are again of our own namespace. */
		int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

		expect_eq(setns(own, flags), 0);
		close(own);
	}
	close(pipes[1]);
	child.done = pipes[0];
	return child;
}

static inline struct child start(int (*what)(void))
{
	return start_with(what, 0);
}

static inline int answer_of(const struct child *child)
{
	char answer = -1;

	expect_eq(read(child->done, &answer, 1), 1);
	return answer;
}

static inline void end(const struct child *child)
{
	kill(child->pid, SIGKILL);
	expect_eq(waitpid(child->pid, NULL, 0), child->pid);
	close(child->done);
}

static inline int takes_three(void)
{
	return device_take(0, 3 * GIB);
}
