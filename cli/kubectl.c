/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kubectl.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

enum {
	END_MS = 2000, /* a process that is finished ends within this time, or is killed */
	ERRORS_MOST = 8192,
	NO_KUBECTL = 127,
};

static void become(const char *const *words, int in, int out, int errors)
{
	const char *line[KUBECTL_WORDS + 2] = {"kubectl"};
	sigset_t none;
	int n = 1;

	for (; n <= KUBECTL_WORDS && words[n - 1]; n++)
		line[n] = words[n - 1];
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* The terminal's keys are ours. */
	setpgid(0, 0);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(errors, STDERR_FILENO) < 0)
		_exit(126);
	execvp(line[0], (char *const *)line);
	_exit(NO_KUBECTL);
}

static int start(struct kubectl *kubectl, const char *const *words, int in, int out,
		 struct fault *why)
{
	*kubectl = (struct kubectl){.errors = memfd_create("kubectl", MFD_CLOEXEC)};
	if (kubectl->errors < 0)
		return fault_set(why, -errno, "no file for kubectl's messages: %s",
				 strerror(errno));
	kubectl->pid = fork();
	if (kubectl->pid == 0)
		become(words, in, out, kubectl->errors);
	if (kubectl->pid > 0)
		return 0;
	kubectl->pid = 0;
	close(kubectl->errors);
	kubectl->errors = -1;
	return fault_set(why, -errno, "fork: %s", strerror(errno));
}

int kubectl_start(struct kubectl *kubectl, const char *const *words, int fd, struct fault *why)
{
	return start(kubectl, words, fd, fd, why);
}

/* Returns its exit status; -1: it did not end by itself within that time. */
static int await(pid_t pid, int patience_ms)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	int status, r;

	/* A signal of the terminal's size restarts the wait: it takes longer, but ends. */
	do {
		r = ended.fd < 0 ? 1 : poll(&ended, 1, patience_ms);
	} while (r < 0 && errno == EINTR);
	if (ended.fd >= 0)
		close(ended.fd);
	if (r == 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r != 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Lines that explain nothing: what kubectl adds after a command's own error, and the log of its
 * library ("E1126 23:16:50 ..."). */
static bool is_idle(const char *line)
{
	return !*line || (strchr("IWE", *line) && strspn(line + 1, "0123456789") == 4) ||
	       strncmp(line, "command terminated with exit code", 33) == 0 ||
	       strncmp(line, "Defaulted container", 19) == 0;
}

static void last_line(int errors, char *ret_last, size_t size)
{
	char text[ERRORS_MOST + 1], *rest = text, *line;
	off_t length = lseek(errors, 0, SEEK_END);
	ssize_t n;

	*ret_last = '\0';
	n = pread(errors, text, ERRORS_MOST, length > ERRORS_MOST ? length - ERRORS_MOST : 0);
	text[n > 0 ? n : 0] = '\0';
	while ((line = strsep(&rest, "\n")) != NULL)
		if (!is_idle(line))
			snprintf(ret_last, size, "%s", line);
	text_make_plain(ret_last);
}

void kubectl_end(struct kubectl *kubectl, char *ret_last, size_t size)
{
	*ret_last = '\0';
	if (!kubectl->pid)
		return;
	if (await(kubectl->pid, END_MS) == NO_KUBECTL && lseek(kubectl->errors, 0, SEEK_END) == 0)
		snprintf(ret_last, size, "there is no kubectl in PATH");
	else
		last_line(kubectl->errors, ret_last, size);
	close(kubectl->errors);
	*kubectl = (struct kubectl){.errors = -1};
}

static int judge(const char *verb, int status, int errors, struct fault *why)
{
	char last[300];

	last_line(errors, last, sizeof(last));
	if (status == 0)
		return 0;
	if (status == NO_KUBECTL && !*last)
		return fault_set(why, -ENOENT, "there is no kubectl in PATH");
	return fault_set(why, status < 0 ? -ETIMEDOUT : -EIO, "kubectl %s %s%s%s", verb,
			 status < 0 ? "did not end" : "failed", *last ? ": " : "", last);
}

int kubectl_run(const char *const *words, int patience_ms, char *ret_said, size_t size,
		struct fault *why)
{
	owned(close) int out = memfd_create("kubectl", MFD_CLOEXEC);
	owned(close) int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct kubectl kubectl;
	ssize_t n;
	int r;

	*ret_said = '\0';
	if (out < 0 || in < 0)
		return fault_set(why, -errno, "no file for kubectl's messages: %s",
				 strerror(errno));
	r = start(&kubectl, words, in, out, why);
	if (r < 0)
		return r;
	r = judge(words[0], await(kubectl.pid, patience_ms), kubectl.errors, why);
	close(kubectl.errors);
	n = pread(out, ret_said, size - 1, 0);
	ret_said[n > 0 ? n : 0] = '\0';
	return r;
}
