/* SPDX-License-Identifier: Apache-2.0 */
#include "base/discard_process.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/process_child.h"

enum { INTERRUPT_US = 1000 };

/* ---- in the process -------------------------------------------------------------------------- */

static void on_interrupt(int signal)
{
	(void)signal;
}

/* The timer of setitimer() needs none of the signals that may wait for the user. */
static void interrupt_each(suseconds_t us)
{
	struct itimerval each = {{0, us}, {0, us}};

	best_effort(setitimer(ITIMER_REAL, &each, NULL));
}

static int received(const struct msghdr *message)
{
	const struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

/* What came with one message is closed at the next one: by then the sender has closed its own. */
noreturn_ static void serve(int in, pid_t parent)
{
	struct sigaction action = {.sa_handler = on_interrupt};
	int held = -1;

	process_child_begin(in, parent, "mete-close");
	best_effort(sigaction(SIGALRM, &action, NULL));
	for (;;) {
		union {
			struct cmsghdr header;
			char room[CMSG_SPACE(sizeof(int))];
		} control;
		char byte;
		struct iovec part = {&byte, 1};
		struct msghdr message = {.msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = &control,
					 .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(in, &message, MSG_CMSG_CLOEXEC);

		if (n < 0 && errno == EINTR)
			continue;
		if (held >= 0) {
			interrupt_each(INTERRUPT_US);
			close(held);
			interrupt_each(0);
			best_effort(send(in, "", 1, MSG_NOSIGNAL));
		}
		if (n <= 0)
			_exit(0);
		held = received(&message);
	}
}

/* ---- their lives ----------------------------------------------------------------------------- */

static bool make(struct discard_closer *closer)
{
	pid_t us = getpid(), pid;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return false;
	pid = fork();
	if (pid == 0)
		serve(ends[1], us);
	close(ends[1]);
	if (pid < 0)
		close(ends[0]);
	else
		*closer = (struct discard_closer){.pid = pid, .fd = ends[0]};
	return pid > 0;
}

/* Its end of the socket is closed before it is a zombie, perhaps long before: it may have to wait
 * for a file of its own at its end. */
static void reap(struct discard_closer *closer)
{
	pid_t pid = waitpid(closer->pid, NULL, WNOHANG);

	if (pid == closer->pid || (pid < 0 && errno == ECHILD))
		*closer = (struct discard_closer){0};
}

/* Counts what it has closed meanwhile. */
static void hear(struct discard_closer *closer)
{
	char byte;
	ssize_t n;

	if (closer->fd >= 0) {
		while ((n = recv(closer->fd, &byte, 1, MSG_DONTWAIT)) > 0)
			closer->under_way--;
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		/* It was killed. */
		close(closer->fd);
		closer->fd = -1;
	}
	reap(closer);
}

/* One that has nothing to do, or a new one, or the one that has least. NULL: there is none. */
static struct discard_closer *choose(struct discard_closer closers[DISCARD_CLOSERS])
{
	struct discard_closer *least = NULL, *none = NULL;

	for (unsigned i = 0; i < DISCARD_CLOSERS; i++) {
		struct discard_closer *each = &closers[i];

		if (each->pid)
			hear(each);
		if (!each->pid)
			none = each;
		else if (each->fd >= 0 && (!least || each->under_way < least->under_way))
			least = each;
	}
	if (none && (!least || least->under_way) && make(none))
		return none;
	return least;
}

bool discard_process_close(struct discard_closer closers[DISCARD_CLOSERS], int fd)
{
	struct discard_closer *closer = choose(closers);
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {"", 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	if (!closer)
		return false;
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	if (sendmsg(closer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return false;
	closer->under_way++;
	/* Not the last one: it waits for our next message, or our end. */
	close(fd);
	best_effort(send(closer->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	return true;
}

void discard_processes_end(struct discard_closer closers[DISCARD_CLOSERS])
{
	for (unsigned i = 0; i < DISCARD_CLOSERS; i++) {
		struct discard_closer *each = &closers[i];
		bool idle;

		if (each->pid)
			hear(each);
		if (!each->pid || each->fd < 0)
			continue;
		idle = !each->under_way;
		close(each->fd);
		best_effort(waitpid(each->pid, NULL, idle ? 0 : WNOHANG));
		*each = (struct discard_closer){0};
	}
}
