/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that fork, start others, and are stopped. */
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/guest/turns_traps.h"

static void rest_ms(unsigned long ms)
{
	uint64_t ns = (uint64_t)ms * g.slow * 1000000;
	struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* ---- a kernel waits for what a forked child computes without the driver -------------------------
 */

void trap_forks(void)
{
	int ends[2], status;
	char byte = 0;
	pid_t child;

	traps_launch(0, 0, g.device[0].wait, g.round);
	if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0)
		fail("no child");
	if (child == 0) {
		traps_pause();
		_exit(write(ends[1], "", 1) != 1);
	}
	if (read(ends[0], &byte, 1) != 1 || waitpid(child, &status, 0) != child || status != 0)
		fail("the child did not compute");
	close(ends[0]);
	close(ends[1]);
	traps_launch(0, 1, g.device[0].spend, 100000);
	atomic_store(g.word, g.round);
	ok(g.cuCtxSynchronize());
}

/* ---- a program for each round ------------------------------------------------------------------
 */

void trap_brief(void)
{
	traps_launch(0, 0, g.device[0].spend, 500000);
	ok(g.cuCtxSynchronize());
}

void trap_starts(void)
{
	char *arguments[] = {(char *)"turns_traps", (char *)"brief", (char *)"1", NULL};
	posix_spawn_file_actions_t actions;
	extern char **environ;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ) != 0)
		fail("no program");
	posix_spawn_file_actions_destroy(&actions);
	trap_brief();
	if (waitpid(pid, &status, 0) != pid || status != 0)
		fail("a program failed: %d", status);
}

/* ---- as under a debugger: stopped and continued again and again
 * ----------------------------------- */

static void noreturn_ stop_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		rest_ms(50);
		if (kill(parent, SIGSTOP) != 0)
			_exit(0);
		rest_ms(30);
		kill(parent, SIGCONT);
	}
}

void trap_stopped(void)
{
	static bool begun;
	pid_t self = getpid();

	if (!begun && fork() == 0)
		stop_parent(self);
	begun = true;
	for (int i = 0; i < 4; i++)
		traps_launch(0, 0, g.device[0].spend, 500000);
	ok(g.cuCtxSynchronize());
}
