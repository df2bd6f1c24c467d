/* SPDX-License-Identifier: Apache-2.0 */
#include "node/place_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/fault.h"
#include "base/held.h"
#include "base/place.h"

int place_lock_open(const char *place, struct fault *why)
{
	char path[PLACE_MAX + 8];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", place);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd >= 0 ? fd : fault_set(why, -errno, "%s: %s", path, strerror(errno));
}

static int record(int fd, int command)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int r;

	do
		r = fcntl(fd, command, &whole);
	while (r < 0 && errno == EINTR);
	return r == 0 ? 0 : -errno;
}

int place_lock_take(int fd)
{
	int r = record(fd, F_SETLK);

	if (r == -EACCES || r == -EAGAIN)
		return -EBUSY;
	if (r == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		r = errno == EWOULDBLOCK ? held_await(fd, PLACE_LOCK_S) : -errno;
	return r == -EINTR ? -EBUSY : r;
}

int place_lock_await(int fd)
{
	int r;

	do
		r = flock(fd, LOCK_EX) == 0 ? 0 : -errno;
	while (r == -EINTR);
	return r < 0 ? r : record(fd, F_SETLKW);
}
