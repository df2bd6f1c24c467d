/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/place.h"
#include "guest/say.h"

const char *socket_path(bool aloud)
{
	const char *given;

	if (syscall(SYS_faccessat, AT_FDCWD, PLACE_GUEST_SOCKET, F_OK) == 0)
		return PLACE_GUEST_SOCKET;
	given = secure_getenv("METE_SOCKET");
	if (!given || !*given) {
		if (aloud)
			say("no daemon: %s does not exist and METE_SOCKET is not set; start the "
			    "program with 'mete run'",
			    PLACE_GUEST_SOCKET);
		return NULL;
	}
	if (given[0] != '/') {
		if (aloud)
			say("METE_SOCKET is '%s': accepted: an absolute path", given);
		return NULL;
	}
	return given;
}

const char *socket_reason(int error)
{
	switch (error) {
	case -ENOENT:
		return "no such socket";
	case -ECONNREFUSED:
		return "nobody listens";
	case -EACCES:
	case -EPERM:
		return "not permitted";
	case -ENAMETOOLONG:
		return "the path is too long for a socket";
	default:
		return "cannot be connected to";
	}
}

static const char *_Atomic lacking;

/* -errno of a call that has just failed. None of them fails so for another reason. */
static int failed(const char *call)
{
	int error = errno;

	if (error == EPERM || error == ENOSYS)
		atomic_store(&lacking, call);
	return -error;
}

bool socket_say_lack(void)
{
	static _Atomic bool said;
	const char *call = atomic_exchange(&lacking, NULL);

	if (call && !atomic_exchange(&said, true))
		say_lack(call);
	return call;
}

/* Above 2: a program that closed its standard descriptors must not find ours there. */
static int out_of_the_way(int fd)
{
	int moved;

	if (fd < 0 || fd > 2)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return moved;
}

/* A system call: glibc 2.28 has no function of this name. */
static bool identify(int fd, struct socket *ret_socket)
{
	struct stat about;

	if (syscall(SYS_fstat, fd, &about) != 0) {
		best_effort(failed("fstat"));
		return false;
	}
	*ret_socket = (struct socket){fd + 1, about.st_dev, about.st_ino};
	return true;
}

int socket_connect(const char *path, struct socket *ret_socket)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd, r;

	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, path, strlen(path) + 1);
	fd = out_of_the_way(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return failed("socket");
	do {
		r = connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? failed("connect") : 0;
	} while (r == -EINTR);
	/* From now on a call that must not wait has a flag for that. */
	if (r == 0 && fcntl(fd, F_SETFL, 0) < 0)
		r = failed("fcntl");
	if (r == 0 && !identify(fd, ret_socket))
		r = -EBADF;
	if (r < 0)
		close(fd);
	return r;
}

bool socket_is_ours(const struct socket *socket)
{
	struct socket now;

	return socket->fd > 0 && identify(socket->fd - 1, &now) && now.inode == socket->inode &&
	       now.device == socket->device;
}

int socket_send(const struct socket *socket, const struct wire_message *message)
{
	uint8_t frame[WIRE_GUEST_FRAME_MAX];
	size_t size = wire_encode(message, frame);
	int saved = errno, r = 0;

	if (!socket_is_ours(socket))
		return -ESTALE;
	while (send(socket->fd - 1, frame, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		r = failed("sendto");
		if (r != -EINTR)
			break;
		r = 0;
	}
	errno = saved;
	return r;
}

/* Attached descriptors: the first two are kept in fds[2] if that is not NULL, all others are
 * closed. */
static void take_descriptors(struct msghdr *header, int *fds)
{
	int kept = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (fds && kept < 2)
				fds[kept++] = out_of_the_way(fd);
			else
				close(fd);
		}
	}
}

int socket_receive(const struct socket *socket, struct wire_message *ret_message, int *fds)
{
	uint8_t frame[WIRE_FRAME_MAX];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec part = {frame, sizeof(frame)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	ssize_t size;

	if (!socket_is_ours(socket))
		return -ESTALE;
	do {
		size = recvmsg(socket->fd - 1, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return failed("recvmsg");
	take_descriptors(&header, fds);
	if (size == 0)
		return -ECONNRESET;
	return wire_decode(frame, (size_t)size, ret_message);
}

/* An unlimited wait is a recv(), not a ppoll(): each time that ppoll() is woken, it checks the file
 * that has the number by then, and may go on to wait for ever. */
static int wait_for_ever(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, MSG_PEEK) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 1;
}

int socket_wait(const struct socket *socket, short events, int wait_us)
{
	struct pollfd about = {.fd = socket->fd - 1, .events = events};
	struct timespec limit = {wait_us / 1000000, (long)(wait_us % 1000000) * 1000};
	int r;

	if (!socket_is_ours(socket))
		return -ESTALE;
	if (wait_us < 0 && events == POLLIN) {
		r = wait_for_ever(socket->fd - 1);
		/* Where recvfrom() is forbidden it is waited by the second. */
		if (r != -EPERM && r != -ENOSYS)
			return r;
	}
	if (wait_us < 0)
		limit.tv_sec = 1;
	r = ppoll(&about, 1, &limit, NULL);
	if (r < 0)
		return errno == EINTR ? 0 : failed("ppoll");
	return r;
}

void socket_close(struct socket *socket)
{
	if (socket_is_ours(socket))
		close(socket->fd - 1);
	*socket = (struct socket){0, 0, 0};
}
