/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_look.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/process_child.h"

enum {
	LOOKERS = 16, /* at most; one is enough while nobody has to wait */
	WAIT_MS = 5,
	SHORT_MS = 1,
	WAITS = 10, /* in a second; further ones are short */
};

static const uint64_t second_ns = 1000000000;

struct request {
	bool opens;
	char path[LOOK_PATH];
};

struct answer {
	int result; /* of a file that is read: how much of it */
	char text[LOOK_MOST];
};

/* The message of a descriptor. */
union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

struct looker {
	pid_t pid;	/* 0: there is none */
	pid_t looks_at; /* while it `waits` */
	bool waits;
	int fd; /* -1: it was ended, and is waited for */
};

struct looks {
	struct looker looker[LOOKERS];
	unsigned next;	   /* the one that is ended when all wait */
	uint64_t since_ns; /* when the second began in which so many looks `waited` */
	unsigned waited;
	bool refused; /* the system makes no further process, and the log says so */
	bool quiet;   /* it does not: there is none */
};

/* ---- in the looker --------------------------------------------------------------------------- */

static void look_for(int fd, const struct request *request)
{
	owned(close) int file = open(request->path, O_RDONLY | O_CLOEXEC);
	struct answer answer = {.result = file < 0 ? -errno : 0};
	union control control = {0};
	struct iovec part = {&answer, sizeof(answer)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (file >= 0 && request->opens) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &file, sizeof(int));
	} else if (file >= 0) {
		answer.result = (int)read(file, answer.text, LOOK_MOST - 1);
		answer.result = answer.result < 0 ? -errno : answer.result;
	}
	if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		_exit(0);
}

noreturn_ static void serve(int fd, pid_t parent)
{
	struct request request;

	process_child_begin(fd, parent, "mete-look");
	while (recv(fd, &request, sizeof(request), 0) == sizeof(request))
		look_for(fd, &request);
	_exit(0);
}

/* ---- their lives ----------------------------------------------------------------------------- */

static void end(struct looker *l)
{
	if (l->fd >= 0) {
		kill(l->pid, SIGKILL);
		close(l->fd);
	}
	l->fd = -1;
	if (waitpid(l->pid, NULL, WNOHANG) != 0)
		*l = (struct looker){0};
}

static int make(struct looker *l)
{
	int ends[2], r;
	pid_t us = getpid(), pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		serve(ends[1], us);
	r = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (r < 0)
		close(ends[0]);
	else
		*l = (struct looker){.pid = pid, .fd = ends[0]};
	return r;
}

static bool make_or_say(struct looks *looks, struct looker *l)
{
	int r = make(l);

	if (r < 0 && !looks->refused && !looks->quiet)
		log_warning("look.refused", "reason=%s: no process can join until one can be made",
			    log_text(strerror(-r)).text);
	looks->refused = r < 0;
	return r == 0;
}

/* True: there was one, and its result is in *ret_answer; its descriptor, or -1, in *ret_fd. */
static bool hear(struct looker *l, struct answer *ret_answer, int *ret_fd)
{
	union control control = {0};
	struct iovec part = {ret_answer, sizeof(*ret_answer)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(l->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*ret_fd = -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	l->waits = false;
	if (n == sizeof(*ret_answer)) {
		if (message.msg_controllen >= CMSG_LEN(sizeof(int)))
			memcpy(ret_fd, CMSG_DATA(&control.header), sizeof(int));
		return true;
	}
	/* It has died. */
	ret_answer->result = -EBUSY;
	end(l);
	return true;
}

/* Whoever waited, and does no longer, looks again. */
static void settle(struct looks *looks)
{
	struct answer late;

	for (unsigned i = 0; i < LOOKERS; i++) {
		struct looker *l = &looks->looker[i];
		int fd;

		if (l->pid && l->fd < 0)
			end(l);
		else if (l->waits && hear(l, &late, &fd) && fd >= 0)
			close(fd);
	}
}

static bool is_waited_for(const struct looks *looks, pid_t pid)
{
	for (unsigned i = 0; i < LOOKERS; i++)
		if (looks->looker[i].waits && looks->looker[i].looks_at == pid)
			return true;
	return false;
}

/* NULL: all wait. One of them is ended, so that there is one next time. */
static struct looker *some_looker(struct looks *looks)
{
	struct looker *none = NULL;

	for (unsigned i = 0; i < LOOKERS; i++) {
		struct looker *l = &looks->looker[i];

		if (l->pid && l->fd >= 0 && !l->waits)
			return l;
		none = l->pid ? none : l;
	}
	if (!none)
		end(&looks->looker[looks->next++ % LOOKERS]);
	return none && make_or_say(looks, none) ? none : NULL;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* For something else than a processor. Its status never lets anybody wait. */
static bool waits(pid_t pid)
{
	owned(free) char *text = NULL;
	const char *state;
	char path[LOOK_PATH];
	size_t size;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_slurp(path, 8192, &text, &size) < 0)
		return true;
	state = strstr(text, "\nState:\t");
	return !state || state[strlen("\nState:\t")] != 'R';
}

static int patience_ms(struct looks *looks)
{
	uint64_t now = loop_now_ns();

	if (now - looks->since_ns >= second_ns) {
		looks->since_ns = now;
		looks->waited = 0;
	}
	return looks->waited < WAITS ? WAIT_MS : SHORT_MS;
}

/* False: it waits. */
static bool wait_for(struct looks *looks, struct looker *l, struct answer *ret_answer, int *ret_fd)
{
	struct pollfd said = {.fd = l->fd, .events = POLLIN};
	int waited = 0;

	while (!hear(l, ret_answer, ret_fd)) {
		if (waited == 2)
			return false;
		/* Twice: it may have answered, or been about to, when it was looked at. */
		if (poll(&said, 1, patience_ms(looks)) == 0)
			waited = waits(l->pid) ? waited + 1 : 0;
	}
	return true;
}

static int look(struct looks *looks, pid_t pid, const struct request *request,
		struct answer *ret_answer, int *ret_fd)
{
	struct looker *l;

	settle(looks);
	if (is_waited_for(looks, pid))
		return -EBUSY;
	l = some_looker(looks);
	if (!l)
		return -EBUSY;
	if (send(l->fd, request, sizeof(*request), MSG_NOSIGNAL) != sizeof(*request)) {
		end(l);
		return -EBUSY;
	}
	if (!wait_for(looks, l, ret_answer, ret_fd)) {
		l->waits = true;
		l->looks_at = pid;
		looks->waited++;
		return -EBUSY;
	}
	return ret_answer->result;
}

int look_bytes(struct looks *looks, pid_t pid, const char *path, char ret_bytes[LOOK_MOST])
{
	struct request request = {0};
	struct answer answer;
	int fd, r;

	snprintf(request.path, sizeof(request.path), "%s", path);
	r = look(looks, pid, &request, &answer, &fd);
	if (r >= 0)
		memcpy(ret_bytes, answer.text, LOOK_MOST);
	return r;
}

int look_read(struct looks *looks, pid_t pid, const char *path, char ret_text[LOOK_MOST])
{
	int r = look_bytes(looks, pid, path, ret_text);

	return r < 0 ? r : 0;
}

int look_open(struct looks *looks, pid_t pid, const char *path)
{
	struct request request = {.opens = true};
	struct answer answer;
	int fd, r;

	snprintf(request.path, sizeof(request.path), "%s", path);
	r = look(looks, pid, &request, &answer, &fd);
	if (r == 0 && fd < 0)
		r = -EMFILE; /* it came, and there was none for it */
	return r < 0 ? r : fd;
}

/* ---------------------------------------------------------------------------------------------- */

struct looks *looks_new(void)
{
	return calloc(1, sizeof(struct looks));
}

void looks_quiet(struct looks *looks)
{
	looks->quiet = true;
}

void looks_free(struct looks *looks)
{
	for (unsigned i = 0; looks && i < LOOKERS; i++) {
		struct looker *l = &looks->looker[i];

		if (l->pid)
			end(l);
		/* A meted that executes itself has its children still. */
		if (l->pid)
			best_effort(waitpid(l->pid, NULL, 0));
	}
	free(looks);
}
