/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/mps/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/held.h"

enum { ENVIRONMENT_MAX = 512 };

/* Without those of ours that are set anew. Borrowed texts. */
static void make_environment(const struct run *r, const char *ret[ENVIRONMENT_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < RUN_SETTINGS; i++)
		if (*r->settings[i])
			ret[n++] = r->settings[i];
	for (char **ours = environ; *ours && n < ENVIRONMENT_MAX - 1; ours++) {
		bool again = false;

		for (size_t i = 0; i < RUN_SETTINGS; i++) {
			size_t length = strcspn(r->settings[i], "=");

			again |= *r->settings[i] && strncmp(*ours, r->settings[i], length) == 0 &&
				 (*ours)[length] == '=';
		}
		if (!again)
			ret[n++] = *ours;
	}
	ret[n] = NULL;
}

/* Files in memory, not pipes: a program that goes to the background keeps its outputs open. */
static int make_file(const char *text)
{
	int fd = memfd_create("mete-run", MFD_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = file_write(fd, text, strlen(text));
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* As if it had been started by a shell: meted's own signals are none of its business. */
static int start(const struct run *r, int input, int output, pid_t *ret_pid)
{
	const char *environment[ENVIRONMENT_MAX];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, usual;
	int e;

	make_environment(r, environment);
	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	sigaddset(&usual, SIGHUP);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, input, 0);
	posix_spawn_file_actions_adddup2(&files, output, 1);
	posix_spawn_file_actions_adddup2(&files, output, 2);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	e = posix_spawn(ret_pid, r->words[0], &files, &attributes, (char **)r->words,
			(char **)environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	return -e;
}

/* Its exit status, or 128 and its signal. */
static int await(pid_t pid)
{
	struct pollfd ends = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	int status = 0, came = 1;

	if (ends.fd >= 0) {
		came = poll(&ends, 1, RUN_SECONDS * 1000);
		close(ends.fd);
	}
	if (came == 0)
		kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (came == 0)
		return -ETIMEDOUT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void run(struct run *r)
{
	int input = make_file(r->input), output = make_file("");
	ssize_t n;
	pid_t pid;

	r->output[0] = '\0';
	r->status = input < 0 ? input : output < 0 ? output : start(r, input, output, &pid);
	if (r->status == 0) {
		r->status = await(pid);
		n = pread(output, r->output, sizeof(r->output) - 1, 0);
		r->output[n > 0 ? n : 0] = '\0';
	}
	if (input >= 0)
		close(input);
	if (output >= 0)
		close(output);
}
