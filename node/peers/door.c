/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/door.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "node/daemon.h"
#include "wire/wire.h"

/* The suffix of a socket's name until it listens. */
#define LISTEN_SOON ".new"

/* The address is a name below an open folder, because /proc/net/unix shows everybody the address
 * as it was bound, and for the system's daemon the folder's own name is a secret (tenant.c). */
static int name_below(const char *path, struct sockaddr_un *ret_address, struct fault *why)
{
	const char *name = strrchr(path, '/');
	char folder[PATH_MAX];
	int fd;

	/* Those who connect use the full path. */
	if (!name || strlen(path) >= sizeof(ret_address->sun_path))
		return fault_set(why, -ENAMETOOLONG, "%s: too long for a socket's path", path);
	snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
	fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "/proc/self/fd/%d%s%s", fd,
		 name, LISTEN_SOON);
	return fd;
}

int door_listen(const char *path, unsigned mode, uid_t owner, int *ret_fd, struct fault *why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	owned(close) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	owned(close) int folder = -1;
	mode_t before;
	int r;

	if (fd < 0)
		return fault_set(why, -errno, "no socket: %s", strerror(errno));
	folder = name_below(path, &address, why);
	if (folder < 0)
		return folder;
	/*
	 * We hold the lock, so the daemon that bound it before is gone. Its socket is replaced by
	 * one that listens, and is never missing: a process that joins in between finds nobody, and
	 * tries again. It would not wait for a socket that does not exist.
	 */
	unlink(address.sun_path);
	before = umask(0777 &
		       ~mode); /* only one thread uses files so far: the mode is set at once */
	r = bind(fd, (struct sockaddr *)&address, sizeof(address));
	/* Where no file can be made any more, the former socket's place is the last one. */
	if (r != 0 && errno == ENOSPC && unlink(path) == 0)
		r = bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(before);
	/* Write access allows connecting. If the owner is another user, only that user has it. */
	if (r == 0 && owner != geteuid())
		r = fchownat(AT_FDCWD, address.sun_path, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW);
	if (r != 0 || listen(fd, 512) != 0 || rename(address.sun_path, path) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}

static int open_spare(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void door_open_files(struct daemon *d)
{
	struct rlimit files;
	rlim_t kept;

	d->door.spare_fd = open_spare();
	d->door.guest_fds = INT_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT_MAX)
		return;
	kept = files.rlim_cur / 4 < DAEMON_FILES_KEPT ? files.rlim_cur / 4 : DAEMON_FILES_KEPT;
	d->door.guest_fds = (int)(files.rlim_cur - kept) - 1;
	d->door.told_most = (uint32_t)kept / 4;
}

/* The id of the request that the peer has sent already; otherwise of its first one. */
static uint32_t asked_id(int fd)
{
	struct wire_message request;
	uint8_t frame[WIRE_FRAME_MAX];
	ssize_t size = discard_look(fd) ? 0 : recv(fd, frame, sizeof(frame), MSG_DONTWAIT);

	return size > 0 && wire_decode(frame, (size_t)size, &request) == 0 ? request.id : 1;
}

/* A peer that finds its connection closed does not read the answer: so the connection stays open
 * for a while, as long as there is room for it. */
static void part_from(struct daemon *d, int fd, bool last)
{
	if (!last && d->door.told_most) {
		int *place = &d->door.told_fd[d->door.told_next++ % d->door.told_most];

		shutdown(fd, SHUT_WR);
		if (*place > 0)
			discard_connection(&d->flows.discarder, *place);
		*place = fd;
		return;
	}
	discard_connection(&d->flows.discarder, fd);
}

/* Tells the peer why, and ends the connection. */
static void turn_away(struct daemon *d, int fd, bool last)
{
	struct wire_message message = {.code = WIRE_refused, .id = asked_id(fd)};
	uint8_t frame[WIRE_FRAME_MAX];

	message.refused.code = WIRE_REFUSED_FULL;
	wire_set_text(&message.refused.reason, "meted is out of file descriptors");
	best_effort(
		(int)send(fd, frame, wire_encode(&message, frame), MSG_DONTWAIT | MSG_NOSIGNAL));
	part_from(d, fd, last);
	if (daemon_may_complain(d))
		log_error("daemon.full", "out of file descriptors: a connection was refused");
}

int door_accept(struct daemon *d, int listen_fd, int most)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), error = errno;

	if (fd >= 0 && fd <= most)
		return fd;
	if (fd < 0 && error != EMFILE && error != ENFILE)
		return -error;
	if (fd < 0 && d->door.spare_fd >= 0) {
		close(d->door.spare_fd);
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			turn_away(d, fd, true);
		d->door.spare_fd = open_spare();
	} else if (fd >= 0) {
		turn_away(d, fd, false);
	}
	return -EMFILE;
}
