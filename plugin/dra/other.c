/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another meted that has the driver's socket. One that was stopped (SIGSTOP, a frozen control
 * group) has it as well: the kernel takes connections for it, and nobody is answered. One that runs
 * greets whoever connects, by the settings of HTTP/2. So a connection is kept from one look to the
 * next; after three without a greeting the other one has no claim to the kubelet's calls any more.
 * When it goes on, it finds that the socket is another's (register_open()).
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin/dra/inside.h"

enum { SILENT_LOOKS = 3 };

void other_forget(struct dra *dra)
{
	if (dra->other.is_asked)
		close(dra->other.fd);
	dra->other = (struct other){.silent = 0};
}

/* False: it has, or has ended: who is there now is another one. */
static bool is_silent(const struct other *other)
{
	char byte;

	return recv(other->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       (errno == EAGAIN || errno == EINTR);
}

static void hear(struct other *other)
{
	if (!other->is_asked)
		return;
	other->silent = is_silent(other) ? other->silent + 1 : 0;
	close(other->fd);
	other->is_asked = false;
}

enum other_state other_look(struct dra *dra, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct other *other = &dra->other;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	hear(other);
	if (fd < 0)
		return OTHER_SERVES;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	/* Its queue is full: it may be busy, or stopped for long. */
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		bool is_full = errno == EAGAIN;

		close(fd);
		other->silent = is_full ? other->silent + 1 : 0;
		if (!is_full)
			return OTHER_IS_NONE;
	} else {
		other->fd = fd;
		other->is_asked = true;
	}
	return other->silent < SILENT_LOOKS ? OTHER_SERVES : OTHER_IS_SILENT;
}
