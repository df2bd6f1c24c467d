/* SPDX-License-Identifier: Apache-2.0 */
#include "base/handover.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(HANDOVER_SOCKETS * sizeof(int))];
};

int handover_send(int fd, const struct handover_sockets *sockets)
{
	union control control = {0};
	char text[HANDOVER_OF] = "";
	struct iovec part = {text, sizeof(text)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (sockets) {
		memcpy(text, sockets->of, sizeof(text));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.room);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(sockets->fd));
		memcpy(CMSG_DATA(&control.header), sockets->fd, sizeof(sockets->fd));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(text) ? 0
											   : -errno;
}

/* How many descriptors came. */
static size_t take_descriptors(struct msghdr *message, int fd[HANDOVER_SOCKETS])
{
	const struct cmsghdr *control = CMSG_FIRSTHDR(message);
	size_t size;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		return 0;
	size = control->cmsg_len - CMSG_LEN(0);
	memcpy(fd, CMSG_DATA(control), size);
	return size / sizeof(int);
}

int handover_receive(int fd, struct handover_sockets *ret_sockets)
{
	struct handover_sockets sockets = {.fd = {-1, -1}};
	union control control;
	struct iovec part = {sockets.of, sizeof(sockets.of)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control.room)};
	ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	size_t count;

	if (n < 0)
		return -errno;
	count = take_descriptors(&message, sockets.fd);
	if (n == (ssize_t)sizeof(sockets.of) && !sockets.of[sizeof(sockets.of) - 1]) {
		if (count == HANDOVER_SOCKETS) {
			*ret_sockets = sockets;
			return 0;
		}
		if (count == 0)
			return 1;
	}
	handover_close(&sockets);
	return -EPROTO;
}

void handover_confirm(int fd)
{
	best_effort(send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
}

bool handover_confirmed(int fd)
{
	char word;

	return recv(fd, &word, sizeof(word), MSG_DONTWAIT) == 1;
}

void handover_close(struct handover_sockets *sockets)
{
	for (size_t i = 0; i < HANDOVER_SOCKETS; i++)
		if (sockets->fd[i] >= 0)
			close(sockets->fd[i]);
}
